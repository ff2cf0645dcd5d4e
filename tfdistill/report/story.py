"""The words of the report: the headline, the key figures, and what the numbers do not say. Pure."""

from __future__ import annotations

import dataclasses

from tfdistill.benchmark import schema
from tfdistill.report import conditions, devices
from tfdistill.report import format as fmt
from tfdistill.report.facts import Facts, Group


@dataclasses.dataclass(frozen=True)
class Figure:
    """A key figure: a large number, what it is, and the numbers behind it."""

    value: str
    label: str
    detail: str


def headline(facts: Facts) -> str:
    """Says in a sentence or two what was done and what came of it."""
    student, teacher = facts.student, facts.teacher
    metrics = facts.results.metrics
    if metrics is None or student is None:
        names = [m.name for m in facts.results.benchmark.models] if facts.results.benchmark else []
        return f"Measured {where(facts)}: {', '.join(names)}." if names else "No student yet."
    shape = _shape(student)
    if teacher is None or not student.taught:
        return f"{_article(shape)} student was trained on the task {metrics.task.name}."
    learned = f"student learned the task {metrics.task.name}"
    done = " ".join(f"{_article(shape)} {learned} from its {_shape(teacher)} teacher".split())
    gains = [gain for gain in (_kept(facts), _smaller(facts), _faster(facts)) if gain]
    if not gains:
        return f"{done}."
    if len(gains) > 1:
        gains = [", ".join(gains[:-1]), gains[-1]]
    return f"{done}. It {' and '.join(gains)}."


def figures(facts: Facts) -> list[Figure]:
    """The key figures that can be told."""
    found: list[Figure] = []
    student, teacher, name = facts.student, facts.teacher, facts.metric
    kept, gain, smaller = facts.kept(student), facts.gain(), facts.smaller()
    speed = facts.headline_speed()
    if kept is not None and student is not None and teacher is not None:
        detail = f"{_value(facts, student)} against {_value(facts, teacher)}"
        found.append(Figure(_percent(kept), f"of the teacher’s {fmt.metric_words(name)}", detail))
    if gain is not None and facts.untaught is not None:
        number, _, unit = fmt.metric_difference(name, gain).partition(" ")
        label = f"{unit} over the same student without a teacher".strip()
        found.append(Figure(number, label, f"which reaches {_value(facts, facts.untaught)}"))
    if smaller is not None:
        cards = [card for group in (student, teacher) if (card := facts.card_of(group))]
        sizes = [f"{fmt.size(card.model.size_bytes)} ({card.quantization})" for card in cards]
        factor, label = (smaller, "smaller") if smaller >= 1 else (1 / smaller, "as large")
        found.append(Figure(fmt.ratio(factor), f"{label} as a file", " against ".join(sizes)))
    if speed is not None:
        place = f"{speed.sequence_length} tokens, {devices.threads(speed.threads)}"
        detail = f"{fmt.milliseconds(speed.student.p50_ms)} against "
        detail += f"{fmt.milliseconds(speed.teacher.p50_ms)} at {place}"
        if speed.interval:
            detail += f"; 95% interval {fmt.interval(*speed.interval)}"
        label = f"{'faster' if speed.faster else 'the speed'} {where(facts)}"
        if speed.faster is None:
            label += ": no clear difference" if speed.interval else ", by medians alone"
        found.append(Figure(fmt.ratio(speed.speedup), label, detail))
    return found


def limits(facts: Facts) -> list[str]:
    """Says what the numbers do not say."""
    results = facts.results
    said: list[str] = []
    metrics, benchmark = results.metrics, results.benchmark
    if metrics is not None and metrics.synthetic_data:
        said.append(
            "The data is synthetic: sentences written by a generator. The figures show that the "
            "path works, not how well it does on text that people wrote."
        )
    if benchmark is not None:
        said += _of_device(benchmark)
    speed = facts.headline_speed()
    cards = facts.card_of(facts.teacher), facts.card_of(facts.student)
    if (
        speed is not None
        and cards[0]
        and cards[1]
        and cards[0].quantization != cards[1].quantization
    ):
        said.append(
            f"Size and speed compare the student’s {cards[1].quantization} file with the "
            f"teacher’s {cards[0].quantization} file: a part of both comes from the quantization."
        )
    if metrics is not None and metrics.models:
        said.append(
            "All metrics are of the development set, on which checkpoints may have been chosen; "
            "an independent test set would be a little lower."
        )
        said += _uncertainty(facts)
    for name, card in results.manifests.items():
        if card.parity is None:
            said.append(f"The {name} file was not compared with its model.")
        elif card.parity.inputs == "random":
            said.append(f"The {name} file was checked on random token ids, not on sentences.")
    for name in facts.stale():
        said.append(
            f"The benchmark measured another {name} file than the one described here (its "
            "checksum differs), so its latency is left out. Measure again."
        )
    if benchmark is not None:
        said += [_sentence(note) for note in benchmark.notes]
    return said


def circumstances(facts: Facts) -> list[tuple[str, str]]:
    """Lists names and values of what the results depend on."""
    results = facts.results
    rows: list[tuple[str, str]] = []
    metrics, benchmark = results.metrics, results.benchmark
    if metrics is not None:
        rows += [("Recipe", metrics.recipe), ("Task", metrics.task.name)]
        if metrics.task.labels:
            rows.append(("Labels", ", ".join(metrics.task.labels)))
        if metrics.chosen:
            rows.append(("Exported student", metrics.chosen))
        if metrics.created:
            rows.append(("Finished", metrics.created))
    rows += _flat("", results.environment or {})
    if benchmark is not None:
        rows += _flat("Benchmark", {"created": benchmark.created, "command": benchmark.command})
        rows += [("Device", benchmark.device.name)]
        rows += conditions.facts(facts.bench) if facts.bench else []
        rows += _flat("Runtime", benchmark.runtime.model_dump())
        rows += _flat("Benchmark settings", benchmark.settings)
    return [(name, conditions.cut(value)) for name, value in rows]


def where(facts: Facts) -> str:
    """Says what the latencies were measured on: "on this host"."""
    return facts.bench.where if facts.bench else "on this host"


def _of_device(benchmark: schema.Result) -> list[str]:
    name = benchmark.device.name
    if benchmark.kind == "host":
        said = [
            f"Latency was measured on this host ({name}). It is not the latency of a phone: there, "
            "other cores, clocks, caches and heat decide, and ratios change too."
        ]
    elif benchmark.kind == "emulator":
        said = [
            f"Latency was measured on an emulated device ({name}): it shows that the files run "
            "there, not how fast they are on a phone."
        ]
    else:
        said = [f"Latency was measured on one phone ({name}); others differ by far."]
    if any(row.throttled for row in benchmark.summary):
        said.append("The device slowed down in a part of the measurement: see the latency table.")
    return said


def _uncertainty(facts: Facts) -> list[str]:
    said = []
    student = facts.student
    if student is not None and len(student.models) == 1:
        said.append("One seed: how much another seed would differ is unknown.")
    size = student.models[0].num_examples if student else None
    value = student.mean(facts.metric) if student else None
    if size and value is not None and facts.metric == "accuracy":
        error = 100 * (max(value * (1 - value), 0.0) / size) ** 0.5
        said.append(
            f"With {size:,} examples the standard error of an accuracy is about {error:.1f} "
            "points; smaller differences may be chance."
        )
    return said


def _flat(prefix: str, value: object) -> list[tuple[str, str]]:
    """Flattens nested values to lines; what is None or empty is left out."""
    if isinstance(value, dict):
        lines: list[tuple[str, str]] = []
        for key, inner in value.items():
            if key != "format_version":
                lines += _flat(f"{prefix} {key}".strip(), inner)
        return lines
    if value is None or value in ((), [], ""):
        return []
    title = prefix.replace("_", " ")
    if isinstance(value, list | tuple):
        value = (" " if title.endswith("command") else ", ").join(map(str, value))
    if title.endswith("memory bytes"):
        title, value = title.removesuffix(" bytes"), fmt.size(float(str(value)))
    return [(title[:1].upper() + title[1:], str(value))]


def _value(facts: Facts, group: Group) -> str:
    return fmt.mean_and_spread(facts.metric, group.mean(facts.metric), group.spread(facts.metric))


def _shape(group: Group) -> str:
    layers = group.models[0].architecture.get("num_layers")
    return f"{layers}-layer" if layers else ""


def _article(shape: str) -> str:
    vowel = shape.startswith(("8", "11-", "18-"))
    return f"{'An' if vowel else 'A'} {shape}".strip()


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _kept(facts: Facts) -> str:
    share = facts.kept(facts.student)
    title = fmt.metric_words(facts.metric)
    return "" if share is None else f"keeps {_percent(share)} of the teacher’s {title}"


def _smaller(facts: Facts) -> str:
    factor = facts.smaller()
    if factor is None:
        return ""
    if factor < 1:
        return f"needs a file {fmt.ratio(1 / factor)} as large"
    return f"fits in a file {fmt.ratio(factor)} smaller"


def _faster(facts: Facts) -> str:
    speed = facts.headline_speed()
    if speed is None:
        return ""
    if speed.faster is False:
        return f"answers {fmt.ratio(1 / speed.speedup)} slower {where(facts)}"
    if speed.interval is None:
        return f"has {fmt.ratio(speed.speedup)} the speed {where(facts)} by medians alone"
    if speed.faster is None:
        return f"answers about as fast {where(facts)}, as far as this run can tell"
    return f"answers {fmt.ratio(speed.speedup)} faster {where(facts)}"


def _sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."
