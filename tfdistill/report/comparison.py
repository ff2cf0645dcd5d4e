"""The report of many results: a section for each device; devices are never mixed. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfdistill.benchmark import schema
from tfdistill.report import cells, devices, tradeoff
from tfdistill.report import format as fmt
from tfdistill.report.collection import Collection, NamedSweep
from tfdistill.report.devices import DeviceResults
from tfdistill.report.document import KeyFigure, Report, ReportSection, SectionPart
from tfdistill.report.sections import device as device_section
from tfdistill.results import quantities, tables
from tfdistill.results.tables import Table

_MOST_NOTES = 40
_MOST_DRAWN = 12  # sections with charts


def build(collection: Collection) -> Report:
    """Computes everything that the report of many results shows."""
    measured = devices.by_device(collection.results)
    sections = [device_section.section(device) for device in measured]
    sections += [_sweep(f"sweep-{i}", sweep) for i, sweep in enumerate(collection.sweeps, start=1)]
    for i, section in enumerate(sections[_MOST_DRAWN:], start=_MOST_DRAWN):  # the page stays small
        intro = f"{section.intro} Its charts are left out here: report it by itself to see them."
        parts = tuple(dataclasses.replace(part, pictures=()) for part in section.parts)
        sections[i] = dataclasses.replace(section, intro=intro, parts=parts)
    choices = [value for device in measured for value in tradeoff.of_device(device)]
    choices += [v for named in collection.sweeps if (v := tradeoff.of_sweep(named.sweep))]
    days = sorted({named.result.created[:10] for named in collection.results})
    results = {named.label for named in collection.results}
    return Report(
        name="Comparison",
        headline=_headline(measured, collection, choices),
        tags=(" to ".join(dict.fromkeys((days[0], days[-1]))),) if days else (),
        synthetic=bool(results) and results == set(collection.synthetic),
        figures=tuple(_key_figures(choices[0]) if len(choices) == 1 else ()),
        sections=tuple(sections),
        limits=tuple(_limits(measured, collection)),
    )


def _sweep(key: str, named: NamedSweep) -> ReportSection:
    """A section of its own: a sweep measures each file briefly, on a host that it does not name."""
    value = tradeoff.of_sweep(named.sweep)
    parts = []
    if value is not None:
        value = dataclasses.replace(value, task=named.label)
        parts.append(device_section.trade_off(f"{key}-tradeoff", value))
    table = _sweep_table(key, named)
    if table is not None:
        parts.append(SectionPart(f"{key}-all", "All quantizations", tables=(table,)))
    intro = (
        "A sweep of quantizations. Latencies are those of a brief measurement on the host that "
        "made the files, one after another: small differences mean nothing."
    )
    title = f"Host: sweep {named.label}"
    return ReportSection(f"{key}-section", title, f"Sweep {named.label}", intro, tuple(parts))


def _sweep_table(key: str, named: NamedSweep) -> Table | None:
    trials = named.sweep.rows
    lengths = sorted({length for trial in trials for length in trial.p50_ms})
    metric = next((trial.primary_metric for trial in trials if trial.primary_metric), "accuracy")
    rows = [
        {
            "Quantization": trial.name,
            "Size": cells.size(trial.size_bytes),
            "In a zip": cells.size(trial.zipped_bytes),
            **{
                f"p50 at {length}": dataclasses.replace(
                    cells.milliseconds(trial.p50_ms.get(length)),
                    detail=tables.BUSY if length in trial.busy_lengths else "",
                )
                for length in lengths
            },
            fmt.metric_title(metric): cells.metric(metric, trial.file_metrics.get(metric)),
            "Agreement": cells.share(trial.argmax_agreement),
            "Verdict": trial.verdict,
        }
        for trial in trials
    ]
    why = tuple(f"{trial.name}: {trial.why.splitlines()[0][:300]}" for trial in trials if trial.why)
    return tables.of_rows(f"{key}-quantizations", f"Quantizations of {named.label}", rows, why)


def _headline(
    measured: Sequence[DeviceResults],
    collection: Collection,
    choices: Sequence[tradeoff.TradeOff],
) -> str:
    parts, files = [], 0
    if measured:
        files = len({file.model.sha256 for device in measured for file in device.files})
        kinds: list[schema.Kind] = [device.kind for device in measured]
        counted = []
        for kind in dict.fromkeys(kinds):
            number, word = kinds.count(kind), devices.kind_word(kind)
            article = "an" if word[0] in "aeiou" else "a"
            counted.append(f"{article} {word}" if number == 1 else f"{number} {word}s")
        verb = "file was" if files == 1 else "files were"
        parts.append(f"{files} {verb} measured on {fmt.join(counted)}")
    if collection.sweeps:
        number = len(collection.sweeps)
        what = "a sweep of quantizations" if number == 1 else f"{number} sweeps of quantizations"
        parts.append(f"{what} {'was' if number == 1 else 'were'} made")
    text = "; ".join(parts) or "Nothing was measured"
    text = f"{text[:1].upper()}{text[1:]}."
    if len(choices) == 1 and len(choices[0].points) > 1:
        on, whole = len(choices[0].front), len(choices[0].points)
        what = " measurements" if 0 < files < whole else ""
        text += f" {on} of {whole}{what} {'is' if on == 1 else 'are'} on the Pareto front of "
        text += f"{fmt.metric_words(choices[0].metric)}, latency and size."
    return text


def _key_figures(value: tradeoff.TradeOff) -> list[KeyFigure]:
    """The best of each kind, where all files answer one task on one device."""
    if len(value.points) < 2:
        return []
    best = max(value.points, key=lambda point: point.accuracy)
    fastest = min(value.points, key=lambda point: point.latency_ms)
    smallest = min(value.points, key=lambda point: point.size_bytes)
    title = fmt.metric_words(value.metric)
    figures = []
    for point, shown, label in (
        (best, "metric", f"the highest {title} on {value.task}"),
        (fastest, "latency", f"the lowest median at {value.case}"),
        (smallest, "size", "the smallest file"),
    ):
        words = {
            "metric": fmt.metric(value.metric, point.accuracy),
            "latency": fmt.milliseconds(point.latency_ms),
            "size": quantities.size(point.size_bytes),
        }
        number = words.pop(shown)
        figures.append(KeyFigure(number, label, f"{point.label}: {', '.join(words.values())}"))
    return figures


def _limits(measured: Sequence[DeviceResults], collection: Collection) -> list[str]:
    kinds = {device.kind for device in measured}
    general = {
        "The latency of a host is not that of a phone, where other cores, clocks and heat decide; "
        "ratios change too.": "host" in kinds or collection.sweeps,
        "An emulated device shows that a file runs, not how fast a phone is.": "emulator" in kinds,
        "Each device has a section of its own: latencies of two devices are not comparable.": (
            len(measured) + len(collection.sweeps) > 1
        ),
        "Files of different results did not take turns: their medians also differ from day to "
        "day. A speed-up is claimed only within one result.": any(
            len(device.results) > 1 for device in measured
        ),
        "Accuracy is that of the development set, on which checkpoints may have been chosen.": (
            measured
        ),
    }
    sentences = [sentence for sentence, holds in general.items() if holds]
    for label in collection.synthetic:
        sentences.append(f"{label}: the data is synthetic and says nothing about real text.")
    for label in collection.unmeasured:
        sentences.append(
            f"{label}: not measured (command: tfdistill benchmark), so it is not shown."
        )
    notes = dict.fromkeys(
        f"{named.label}: {note}" for named in collection.results for note in named.result.notes
    )
    sentences += list(notes)[:_MOST_NOTES]
    if len(notes) > _MOST_NOTES:
        sentences.append(f"{len(notes) - _MOST_NOTES} more notes are in the results.")
    return sentences
