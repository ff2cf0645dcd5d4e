"""The tables of the report as plain text cells: HTML and Markdown show the same ones. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfdistill import manifest
from tfdistill.report import format as fmt
from tfdistill.report import schema
from tfdistill.report.facts import Facts, Group


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell: what it says, and a quieter second line."""

    text: str
    detail: str = ""


@dataclasses.dataclass(frozen=True)
class Row:
    """A row: what it is about, its cells, whether it stands out and whether it opens a group."""

    head: Cell
    cells: tuple[Cell, ...]
    strong: bool = False
    opens: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with a caption that says what it holds.

    Attributes:
      key: Anchor, unique in the report.
      caption: One sentence.
      columns: Titles, that of the row heads first; a second line in parentheses gives the unit.
      rows: The rows.
      notes: Sentences to stand below.
    """

    key: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


_LONGEST_TITLE = 40  # letters; longer lists of stages give way to the variant's name
_INPUTS = {"real": "real inputs", "random": "random ids"}


def variant_title(group: Group) -> str:
    """Names a group for a reader."""
    if group.role == "teacher":
        return "Teacher"
    if group.taught is False:
        return "Student without teacher"
    by_stages = " + ".join(group.stages)
    return "Student: " + (by_stages if 0 < len(by_stages) <= _LONGEST_TITLE else group.name)


def comparison(facts: Facts) -> Table | None:
    """Teacher, student without teacher, student by stages: quality, size and speed."""
    if not facts.groups:
        return None
    place = facts.headline_place()
    length = facts.flops_length()
    rows = []
    borrowed = False
    for group in facts.groups:
        source = group
        if facts.export_of(group) is None and facts.same_shape(group):
            source = facts.student or group
        mark = " †" if source is not group else ""
        card = facts.card_of(source)
        cell = facts.cell(source, *place) if place else None
        borrowed |= bool(mark) and (card is not None or cell is not None)
        speed = next(
            (
                s
                for s in facts.speeds()
                if source is facts.student and (s.sequence_length, s.threads) == place
            ),
            None,
        )
        baseline = facts.teacher is group and bool(facts.speeds())
        model = group.models[0]
        rows.append(
            Row(
                Cell(variant_title(group), _shape(group)),
                (
                    _metric_cell(facts, group),
                    Cell(_percent(facts.kept(group)) if group.role == "student" else "100%"),
                    Cell(fmt.count(model.parameters)),
                    Cell(fmt.flops(model.flops.get(length or ""))),
                    Cell(fmt.size(card.model.size_bytes) + mark, card.quantization)
                    if card
                    else Cell(fmt.ABSENT),
                    Cell(fmt.milliseconds(cell.p50_ms) + mark) if cell else Cell(fmt.ABSENT),
                    Cell(fmt.ratio(speed.speedup) + mark)
                    if speed
                    else Cell("1×" if baseline else fmt.ABSENT),
                    Cell(fmt.duration(group.train_seconds())),
                ),
                strong=group is facts.student,
            )
        )
    columns = (
        "Model",
        fmt.metric_title(facts.metric),
        "Of the teacher’s",
        "Parameters",
        "FLOPs",
        "File",
        "Latency",
        "Speed-up",
        "Training",
    )
    notes = [_reading(facts, length, place)]
    if borrowed:
        notes.append("† Of the exported student, which has the same shape; not exported itself.")
    if any(len(group.models) > 1 for group in facts.groups):
        notes.append("± is the standard deviation over the seeds (n − 1).")
    task = facts.results.metrics.task.name if facts.results.metrics else ""
    return Table("models", f"The models on {task}", columns, tuple(rows), tuple(notes))


def seeds(facts: Facts) -> Table | None:
    """Every single model with all its metrics."""
    models = [(group, model) for group in facts.groups for model in group.models]
    names = list(dict.fromkeys(name for _, model in models for name in model.metrics))
    if not models or (len(models) == len(facts.groups) and len(names) < 2):
        return None
    chosen = facts.results.metrics.chosen if facts.results.metrics else None
    rows = tuple(
        Row(
            Cell(variant_title(group), group.name if group.name != group.role else ""),
            (
                Cell(fmt.ABSENT if model.seed is None else str(model.seed)),
                *(Cell(fmt.metric(name, model.metrics.get(name))) for name in names),
                Cell(fmt.ABSENT if model.num_examples is None else f"{model.num_examples:,}"),
                Cell(fmt.duration(model.train_seconds)),
            ),
            strong=model.folder is not None and model.folder == chosen,
        )
        for group, model in models
    )
    columns = ("Model", "Seed", *map(fmt.metric_title, names), "Examples", "Training")
    return Table("seeds", "Every model by seed; the exported one stands out", columns, rows)


def latency(facts: Facts) -> Table | None:
    """Every measured file by length and threads."""
    benchmark = facts.results.benchmark
    if benchmark is None or not benchmark.summary:
        return None
    compared = {
        (row.candidate, row.sequence_length, row.threads): row for row in benchmark.comparisons
    }
    baselines = {row.baseline for row in benchmark.comparisons}
    rows = []
    order = {measured.name: i for i, measured in enumerate(benchmark.models)}
    place = None
    for cell in sorted(
        benchmark.summary,
        key=lambda c: (c.threads, c.sequence_length, order.get(c.model, len(order))),
    ):
        opens = place not in (None, (cell.threads, cell.sequence_length))
        place = (cell.threads, cell.sequence_length)
        row = compared.get((cell.model, cell.sequence_length, cell.threads))
        rows.append(
            Row(
                Cell(cell.model),
                (
                    Cell(str(cell.sequence_length)),
                    Cell(str(cell.threads)),
                    Cell(fmt.milliseconds(cell.p50_ms), _interval(cell.p50_ci_ms, " ms")),
                    *(Cell(fmt.milliseconds(v)) for v in (cell.p90_ms, cell.p95_ms, cell.p99_ms)),
                    _speedup_cell(row) if row else Cell("1×" if cell.model in baselines else "–"),
                    Cell(f"{cell.n:,}"),
                ),
                opens=opens,
            )
        )
    columns = ("File", "Tokens", "Threads", "p50", "p90", "p95", "p99", "Speed-up", "Samples")
    brackets = "Brackets hold 95% intervals of the median and of the ratio of medians."
    notes = [brackets, *benchmark.notes]
    return Table(
        "latency", "Latency of one inference on this host", columns, tuple(rows), tuple(notes)
    )


def start(facts: Facts) -> Table | None:
    """Start and memory of every measured file, on the fewest threads."""
    benchmark = facts.results.benchmark
    if benchmark is None or not benchmark.summary:
        return None
    fewest = min(cell.threads for cell in benchmark.summary)
    rows = tuple(
        Row(
            Cell(cell.model),
            (
                Cell(str(cell.sequence_length)),
                Cell(fmt.milliseconds(cell.cold_start_ms)),
                Cell(fmt.milliseconds(cell.init_ms)),
                Cell(fmt.milliseconds(cell.first_inference_ms)),
                Cell(fmt.size(cell.peak_rss_bytes)),
            ),
        )
        for cell in benchmark.summary
        if cell.threads == fewest
    )
    columns = (
        "File",
        "Tokens",
        "Cold start",
        "Opening the file",
        "First inference",
        "Peak memory",
    )
    note = (
        "Cold start runs from before the process starts, Python and its imports included, to the "
        "first result; peak memory is that of the whole process."
    )
    return Table("start", f"Start and memory ({threads(fewest)})", columns, rows, (note,))


def text(facts: Facts) -> Table | None:
    """The tokenizer, and from text to answer."""
    benchmark = facts.results.benchmark
    if benchmark is None or (benchmark.tokenizer is None and not benchmark.end_to_end):
        return None

    def row(head: str, detail: str, value: schema.Latency) -> Row:
        times = (value.p50_ms, value.p90_ms, value.p95_ms, value.p99_ms)
        cells = (*(Cell(fmt.milliseconds(time)) for time in times), Cell(f"{value.n:,}"))
        return Row(Cell(head, detail), cells)

    rows = []
    if benchmark.tokenizer is not None:
        rows.append(row("Tokenizer alone", "", benchmark.tokenizer))
    rows += [
        row(f"Text to answer, {value.model}", threads(value.threads), value)
        for value in benchmark.end_to_end
    ]
    note = "Each text runs at the shortest length of the file that holds it."
    columns = ("Step", "p50", "p90", "p95", "p99", "Samples")
    return Table("text", "From text to answer", columns, tuple(rows), (note,))


def parity(facts: Facts) -> Table | None:
    """How far each file agrees with the model that it came from."""
    checked = [(name, card) for name, card in facts.results.manifests.items() if card.parity]
    if not checked:
        return None
    rows = []
    for name, card in checked:
        found = card.parity
        assert found is not None
        before, after = (
            metrics.get(facts.metric) for metrics in (found.model_metrics, found.file_metrics)
        )
        agreement = found.argmax_agreement
        rows.append(
            Row(
                Cell(name, card.quantization),
                (
                    Cell(f"{found.num_examples:,}", _INPUTS[found.inputs]),
                    Cell(*_error(found.max_abs_error, found.output_rms)),
                    Cell(*_error(found.mean_abs_error, found.output_rms)),
                    Cell("equal" if found.sqnr_db is None else f"{found.sqnr_db:.1f} dB"),
                    Cell(fmt.ABSENT if agreement is None else f"{100 * agreement:.2f}%"),
                    Cell(fmt.metric(facts.metric, before)),
                    Cell(fmt.metric(facts.metric, after)),
                    Cell(fmt.size(card.model.size_bytes), card.model.sha256[:12]),
                ),
            )
        )
    title = fmt.metric_title(facts.metric)
    columns = (
        "File",
        "Examples",
        "Largest error",
        "Mean error",
        "Signal to noise",
        "Same answer",
        f"{title} (model)",
        f"{title} (file)",
        "Size, sha256",
    )
    notes = [
        "Errors are those of the outputs; rms is the root mean square of the model’s own outputs.",
        *(_bounds(name, card) for name, card in checked if card.parity and card.parity.bounds),
    ]
    caption = "The files against the models that they were made from"
    return Table("parity", caption, columns, tuple(rows), tuple(notes))


def all_tables(facts: Facts) -> dict[str, Table]:
    """Every table that can be made, by key."""
    made = [make(facts) for make in (comparison, seeds, latency, start, text, parity)]
    return {table.key: table for table in made if table is not None}


def plain(table: Table) -> list[list[str]]:
    """The cells as single strings, details in parentheses."""
    return [
        [f"{c.text} ({c.detail})" if c.detail else c.text for c in (row.head, *row.cells)]
        for row in table.rows
    ]


def _bounds(name: str, card: manifest.Manifest) -> str:
    assert card.parity is not None
    listed = ", ".join(f"{key} {value:g}" for key, value in card.parity.bounds.items())
    return f"Bounds that the {name} file had to meet: {listed}."


def _reading(facts: Facts, length: str | None, place: tuple[int, int] | None) -> str:
    """Says what the columns of the comparison hold."""
    said = [f"{fmt.metric_title(facts.metric)} on the development set"]
    if length is not None:
        said.append(f"FLOPs at {length} tokens")
    if place is not None:
        said.append(f"median latency on this host at {_place(*place)}")
    return "; ".join([*said, "training time of one model"]) + "."


def _error(value: float, rms: float | None) -> tuple[str, str]:
    """An error, and what share of the outputs' size it is."""
    return fmt.error(value), f"{fmt.error(100 * value / rms)}% of rms" if rms else ""


def _metric_cell(facts: Facts, group: Group) -> Cell:
    number = len(group.values(facts.metric))
    detail = "" if group.role == "teacher" else f"{number} seed{'s' if number != 1 else ''}"
    mean, spread = group.mean(facts.metric), group.spread(facts.metric)
    return Cell(fmt.mean_and_spread(facts.metric, mean, spread), detail)


def _speedup_cell(row: schema.Comparison) -> Cell:
    detail = _interval(row.speedup_ci)
    if row.faster is None:
        detail = f"{detail} no clear difference".strip()
    return Cell(fmt.ratio(row.speedup), detail)


def _interval(ends: Sequence[float] | None, unit: str = "") -> str:
    return fmt.interval(ends[0], ends[1], unit) if ends else ""


def _shape(group: Group) -> str:
    shape = group.models[0].architecture
    parts = []
    if "num_layers" in shape and "hidden_size" in shape:
        parts.append(f"{shape['num_layers']} layers × {shape['hidden_size']}")
    if group.name != group.role:
        parts.append(group.name)
    return " · ".join(parts)


def _percent(share: float | None) -> str:
    return fmt.ABSENT if share is None else f"{100 * share:.1f}%"


def _place(length: int, number: int) -> str:
    return f"{length} tokens, {threads(number)}"


def threads(number: int) -> str:
    """Writes a number of threads: "1 thread", "2 threads"."""
    return f"{number} thread{'s' if number != 1 else ''}"
