"""One page for many results: a section for each device, which are never mixed. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfdistill.benchmark import schema
from tfdistill.report import cells, devices, evidence, sources, templates, tradeoff
from tfdistill.report import format as fmt
from tfdistill.report.cells import Cell, Row, Table
from tfdistill.report.evidence import Block, Section
from tfdistill.report.story import Figure

_NAME = "Comparison"
_MOST_NOTES = 40
_MOST_DRAWN = 12  # sections with charts


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What the page says.

    Attributes:
      headline: What was compared, a sentence.
      figures: Key figures, where a single choice is to be made.
      sections: One for each device and each sweep.
      limits: What the numbers do not say.
      period: From the first day of a measurement to the last.
      synthetic: Whether all models were trained on synthetic data.
    """

    headline: str
    figures: tuple[Figure, ...]
    sections: tuple[Section, ...]
    limits: tuple[str, ...]
    period: str
    synthetic: bool


def compared(collection: sources.Collection) -> Comparison:
    """Says everything that can be said of many results.

    Args:
      collection: What was found.

    Returns:
      The content of the page.
    """
    benches = devices.benches(collection.results)
    sections = [evidence.section(bench) for bench in benches]
    sections += [_sweep(i, swept) for i, swept in enumerate(collection.sweeps)]
    sections = [*sections[:_MOST_DRAWN], *map(_undrawn, sections[_MOST_DRAWN:])]
    found = [value for bench in benches for value in tradeoff.of_bench(bench)]
    found += [v for swept in collection.sweeps if (v := tradeoff.of_sweep(swept.sweep))]
    days = sorted({named.result.created[:10] for named in collection.results})
    results = {named.label for named in collection.results}
    return Comparison(
        _headline(benches, collection, found),
        tuple(_figures(found[0]) if len(found) == 1 else ()),
        tuple(sections),
        tuple(_limits(benches, collection)),
        " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "",
        bool(results) and results == set(collection.synthetic),
    )


def render_html(value: Comparison) -> str:
    """Writes the page: well-formed XML that needs nothing from outside."""
    named = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return templates.render("comparison.html.j2", {"name": _NAME, **named}, all_tables(value))


def all_tables(value: Comparison) -> list[Table]:
    """Every table of the page, whole."""
    return [
        table
        for section in value.sections
        for block in section.blocks
        for table in (*block.tables, *block.folded)
    ]


def _undrawn(section: Section) -> Section:
    """A section without its charts: a page of very many devices has to stay small."""
    intro = f"{section.intro} Its charts are left out here: report it by itself to see them."
    blocks = tuple(dataclasses.replace(block, pictures=()) for block in section.blocks)
    return dataclasses.replace(section, intro=intro, blocks=blocks)


def _sweep(number: int, swept: sources.Swept) -> Section:
    """A section of its own: a sweep looks at each file briefly, on a host that it does not name."""
    key = f"sweep-{number + 1}"
    value = tradeoff.of_sweep(swept.sweep)
    if value is not None:
        value = dataclasses.replace(value, task=swept.label)
    blocks = [] if value is None else [evidence.trade_off(f"{key}-tradeoff", value)]
    blocks.append(Block(f"{key}-all", "All quantizations", tables=(_sweep_table(key, swept),)))
    intro = (
        "A sweep of quantizations. Latencies are those of a brief look on the host that made the "
        "files, one after another: small differences mean nothing."
    )
    return Section(
        f"{key}-section", f"Host: sweep {swept.label}", f"Sweep {swept.label}", intro, tuple(blocks)
    )


def _sweep_table(key: str, swept: sources.Swept) -> Table:
    rows = swept.sweep.rows
    lengths = sorted({length for row in rows for length in row.p50_ms}, key=lambda n: (len(n), n))
    metric = next((row.primary_metric for row in rows if row.primary_metric), "accuracy")
    columns = (
        "Quantization",
        "Size",
        "In a zip",
        *(f"p50 at {length}" for length in lengths),
        fmt.metric_title(metric),
        "Same answer",
        "Verdict",
    )
    written = tuple(
        Row(
            Cell(row.name),
            (
                cells.size(row.size_bytes),
                cells.size(row.zipped_bytes),
                *(cells.milliseconds(row.p50_ms.get(length)) for length in lengths),
                cells.metric(metric, row.file_metrics.get(metric)),
                cells.share(row.argmax_agreement),
                Cell(row.verdict or fmt.ABSENT),
            ),
        )
        for row in rows
    )
    why = tuple(f"{row.name}: {row.why.splitlines()[0][:300]}" for row in rows if row.why)
    return Table(f"{key}-quantizations", f"Quantizations of {swept.label}", columns, written, why)


def _headline(
    benches: Sequence[devices.Bench],
    collection: sources.Collection,
    found: Sequence[tradeoff.TradeOff],
) -> str:
    if not benches and not collection.sweeps:
        return "Nothing was measured."
    parts = []
    if benches:
        files = len({file.model.sha256 for bench in benches for file in bench.files})
        kinds: list[schema.Kind] = [bench.kind for bench in benches]
        counted = []
        for kind in dict.fromkeys(kinds):
            number, word = kinds.count(kind), devices.kind_word(kind)
            article = "an" if word[0] in "aeiou" else "a"
            counted.append(f"{article} {word}" if number == 1 else f"{number} {word}s")
        verb = "file was" if files == 1 else "files were"
        parts.append(f"{files} {verb} measured on {_listed(counted)}")
    if collection.sweeps:
        number = len(collection.sweeps)
        what = "a sweep of quantizations" if number == 1 else f"{number} sweeps of quantizations"
        parts.append(f"{what} {'was' if number == 1 else 'were'} made")
    said = "; ".join(parts)
    said = f"{said[:1].upper()}{said[1:]}."
    if len(found) == 1 and len(found[0].points) > 1:
        on, whole = sum(found[0].front), len(found[0].points)
        title = fmt.metric_words(found[0].metric)
        said += f" {on} of {whole} {'is' if on == 1 else 'are'} on the Pareto front of {title}, "
        said += "latency and size."
    return said


def _figures(value: tradeoff.TradeOff) -> list[Figure]:
    """The best of each kind, where all files answer one task on one device."""
    if len(value.points) < 2:
        return []
    best = max(value.points, key=lambda point: point.accuracy or 0.0)
    quickest = min(value.points, key=lambda point: point.latency_ms or 0.0)
    smallest = min(value.points, key=lambda point: point.size_bytes or 0)
    metric = fmt.metric_words(value.metric)
    return [
        Figure(
            fmt.metric(value.metric, best.accuracy),
            f"the highest {metric} on {value.task}",
            f"{best.label}: {fmt.milliseconds(best.latency_ms)}, {fmt.size(best.size_bytes)}",
        ),
        Figure(
            fmt.milliseconds(quickest.latency_ms),
            f"the lowest median at {value.place}",
            f"{quickest.label}: {fmt.metric(value.metric, quickest.accuracy)}, "
            f"{fmt.size(quickest.size_bytes)}",
        ),
        Figure(
            fmt.size(smallest.size_bytes),
            "the smallest file",
            f"{smallest.label}: {fmt.metric(value.metric, smallest.accuracy)}, "
            f"{fmt.milliseconds(smallest.latency_ms)}",
        ),
    ]


def _limits(benches: Sequence[devices.Bench], collection: sources.Collection) -> list[str]:
    said = []
    kinds = {bench.kind for bench in benches}
    if "host" in kinds or collection.sweeps:
        said.append(
            "The latency of a host is not that of a phone: there, other cores, clocks, caches and "
            "heat decide, and ratios change too."
        )
    if "emulator" in kinds:
        said.append(
            "The latency of an emulated device says nothing about a phone: it shows that a file "
            "runs."
        )
    if len(benches) + len(collection.sweeps) > 1:
        said.append("Devices are shown apart: a latency of one cannot be set against another’s.")
    if any(len(bench.results) > 1 for bench in benches):
        said.append(
            "Files of different results did not take turns: their medians differ by the day, too. "
            "A speed-up is claimed only within one result, and only where its interval says so."
        )
    if benches:
        said.append(
            "Accuracy is that of the development set, on which checkpoints may have been chosen."
        )
    for label in collection.synthetic:
        said.append(f"{label}: the data is synthetic and says nothing about real text.")
    for label in collection.unmeasured:
        said.append(f"{label}: not measured (`tfdistill benchmark`), so it is not shown.")
    notes = dict.fromkeys(
        f"{named.label}: {note}" for named in collection.results for note in named.result.notes
    )
    said += list(notes)[:_MOST_NOTES]
    if len(notes) > _MOST_NOTES:
        said.append(f"{len(notes) - _MOST_NOTES} more notes are in the results.")
    return said


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
