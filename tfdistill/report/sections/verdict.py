"""The sentences of a run's report: headline, key figures, limits. Pure."""

from __future__ import annotations

from tfdistill.benchmark import schema
from tfdistill.report import format as fmt
from tfdistill.report.document import KeyFigure
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.report.run_parts import ModelGroup
from tfdistill.results import UNDERTRAINED


def headline(run: RunAnalysis) -> str:
    """Writes in a few sentences what was done and what came of it.

    Where a baseline is better than the model, that is the first sentence.
    """
    return " ".join(filter(None, (_beaten(run), _done(run))))


def _beaten(run: RunAnalysis) -> str:
    best, subject, paired = run.best_baseline, run.subject, run.against_baseline
    own = subject.mean(run.metric) if subject else None
    value = best.metrics.get(run.metric) if best else None
    if best is None or subject is None or own is None or value is None:
        return ""
    shown = [fmt.metric(run.metric, figure) for figure in (value, own)]
    if value < own and shown[0] != shown[1]:
        return ""
    title = fmt.baseline_title(best.name)
    if best.name == "frozen_teacher":
        title += ", as large as the teacher,"
    words = f"{fmt.metric_words(run.metric)} {shown[0]} against {shown[1]}"
    if shown[0] == shown[1]:
        return f"{title} does as well as the {subject.role}: {words}."
    if paired is not None and not paired.is_clear:
        return f"{title} does as well as the {subject.role}, within chance: {words}."
    said = f"{title} beats the {subject.role}: {words}."
    taught = run.teacher.mean(run.metric) if run.teacher else None
    undertrained = best.name == "frozen_teacher" and taught is not None and taught < value
    return f"{said} {UNDERTRAINED}" if undertrained else said


def _done(run: RunAnalysis) -> str:
    student, teacher = run.student, run.teacher
    metrics, benchmark = run.results.metrics, run.results.benchmark
    if metrics is None or run.subject is None:
        names = ", ".join(model.name for model in benchmark.models) if benchmark else ""
        return f"Measured {run.where}: {names}." if names else _of_files(run)
    if student is None:
        value = _value(run, run.subject)
        shape = _shape(run.subject)
        done = f"{_article(shape)} model was fine-tuned on the task {metrics.task.name}"
        return f"{done}: {fmt.metric_words(run.metric)} {value}. No student yet."
    shape = _shape(student)
    if teacher is None or not student.taught:
        return f"{_article(shape)} student was trained on the task {metrics.task.name}."
    learned = f"student learned the task {metrics.task.name}"
    done = " ".join(f"{_article(shape)} {learned} from its {_shape(teacher)} teacher".split())
    gains = [gain for gain in (_kept(run), _smaller(run), _faster(run)) if gain]
    return f"{done}. It {fmt.join(gains)}." if gains else f"{done}."


def _of_files(run: RunAnalysis) -> str:
    """Says of an export outside a run how it agrees with its model."""
    found = []
    for made in run.results.manifests.values():
        size, checked = fmt.size(made.model.size_bytes), made.parity
        text = f"{made.name} is a file of {size} ({made.quantization})"
        if checked is not None and checked.argmax_agreement is not None:
            same = _percent(checked.argmax_agreement)
            text += f". It answers {same} of {checked.num_examples:,} examples like its model"
        found.append(f"{text}.")
    return " ".join(found) or "No student yet."


def key_figures(run: RunAnalysis) -> list[KeyFigure]:
    """Returns the key figures that are known."""
    found = list(filter(None, (_kept_figure(run), _gain_figure(run))))
    smaller, speed = run.smaller(), run.headline_speed()
    if smaller is not None:
        groups = (run.student, run.teacher)
        manifests = [made for group in groups if (made := run.manifest_of(group))]
        formats = {made.quantization for made in manifests}
        sizes = [
            fmt.size(made.model.size_bytes)
            + (f" ({made.quantization})" if len(formats) > 1 else "")
            for made in manifests
        ]
        detail = " against ".join(sizes)
        detail += f", both {min(formats)}" if len(formats) == 1 else ""
        factor, label = (smaller, "smaller") if smaller >= 1 else (1 / smaller, "as large")
        found.append(KeyFigure(fmt.ratio(factor), f"{label} as a file", detail))
    elif (made := run.manifest_of(run.subject) or run.only_manifest()) is not None:
        size = fmt.size(made.model.size_bytes)
        found.append(KeyFigure(size, "as a file", made.quantization))
    if speed is not None:
        detail = f"{fmt.milliseconds(speed.student.p50_ms, speed.teacher.p50_ms)} against "
        detail += f"{fmt.milliseconds(speed.teacher.p50_ms)} at "
        detail += fmt.case(speed.sequence_length, speed.threads)
        if speed.interval:
            detail += f"; 95% interval {fmt.interval(*speed.interval)}"
        label = f"{'faster' if speed.faster else 'the speed'} {run.where}"
        if speed.faster is None:
            label += ": no clear difference" if speed.interval else ", by medians alone"
        found.append(KeyFigure(fmt.ratio(speed.speedup), label, detail))
    return found


def _kept_figure(run: RunAnalysis) -> KeyFigure | None:
    """The student's metric: as a share of the teacher's where it is clearly less."""
    subject, teacher, name = run.subject, run.teacher, run.metric
    own = None if subject is None else subject.mean(name)
    if subject is None or own is None:
        return None
    words = fmt.metric_words(name)
    if subject is teacher or teacher is None:
        return KeyFigure(_value(run, subject), f"{words} of the {subject.role}", _baseline(run))
    kept = run.kept(subject)
    if kept is None and run.teacher_part:
        return KeyFigure(_value(run, subject), f"{words} of the {subject.role}", "")
    if kept is None:
        return None
    detail = f"{_value(run, subject)} against {_value(run, teacher)}"
    if _is_lower(run):
        detail = "; ".join(filter(None, (detail, _baseline(run))))
        return KeyFigure(_percent(kept), f"of the teacher’s {words}", detail)
    paired = run.against_teacher
    if _alike(run):
        label, detail = f"{words}, as high as the teacher’s", ""
    elif paired is None:
        label = f"{words}, as high as the teacher’s (not tested)"
    elif paired.is_clear:
        label = f"{words}, more than the teacher’s"
    else:
        label = f"{words}; the difference from the teacher’s may be chance"
    return KeyFigure(_value(run, subject), label, detail)


def _baseline(run: RunAnalysis) -> str:
    """The best baseline and its metric: a share of the teacher's says little without it."""
    best = run.best_baseline
    value = best.metrics.get(run.metric) if best else None
    if best is None or value is None:
        return ""
    return f"{fmt.baseline_title(best.name)}: {fmt.metric(run.metric, value)}"


def _gain_figure(run: RunAnalysis) -> KeyFigure | None:
    gain = run.gain()
    if gain is None or run.untaught is None:
        return None
    number, _, unit = fmt.metric_difference(run.metric, gain).partition(" ")
    label = f"{unit} over the same student without a teacher".strip()
    return KeyFigure(number, label, f"which reaches {_value(run, run.untaught)}")


def _is_lower(run: RunAnalysis) -> bool:
    """Whether the student is below its teacher by more than chance, as far as that is known."""
    share, paired = run.kept(run.student), run.against_teacher
    if share is None or share >= 1:
        return False
    return paired is None or paired.is_clear


def _alike(run: RunAnalysis) -> bool:
    """Whether student and teacher have figures that are written alike."""
    means = [group.mean(run.metric) for group in (run.student, run.teacher) if group]
    return len({fmt.metric(run.metric, mean) for mean in means}) == 1


def limits(run: RunAnalysis) -> list[str]:
    """Writes what the numbers do not show."""
    found: list[str] = []
    metrics, benchmark = run.results.metrics, run.results.benchmark
    if metrics is not None and metrics.synthetic_data:
        found.append(
            "The data is synthetic: sentences written by a generator. The figures show that the "
            "pipeline works, not how well it does on text that people wrote."
        )
    if run.teacher_part:
        answered, whole = run.teacher_part
        found.append(
            f"The teacher’s files answered {answered} of the {whole} development examples, so its "
            "metric is of other examples than the student’s and the two are not compared."
        )
    if benchmark is not None:
        found += _of_device(benchmark)
    teacher, student = run.manifest_of(run.teacher), run.manifest_of(run.student)
    asked = run.results.asked_quantization
    if student and asked and (student.quantization != asked or student.quantized_layers):
        layers = ", ".join(student.quantized_layers)
        kept = f" with {layers} in float32" if layers else ""
        found.append(
            f"The student’s file is {student.quantization}{kept}: as {asked} it lost too much, and "
            "was not written. Such a file is slower or larger."
        )
    if run.speeds and teacher and student and teacher.quantization != student.quantization:
        found.append(
            f"Size and speed compare the student’s {student.quantization} file with the teacher’s "
            f"{teacher.quantization} file: a part of both comes from the quantization. Both as "
            f"{student.quantization} were not measured; to add that to a run: tfdistill run RECIPE "
            f"--out RUN --resume --set export.also_quantize=[{student.quantization}]"
        )
    scored = any(
        made.parity and made.parity.file_metrics for made in run.results.manifests.values()
    )
    if scored or (metrics is not None and metrics.models):
        tested = metrics is not None and metrics.test_metrics
        which, then = (
            ("All metrics but those of the test set", "expect those of the test set.")
            if tested
            else ("All metrics", "an independent test set would be a little lower.")
        )
        found.append(
            f"{which} are of the development set, on which checkpoints may have been chosen; {then}"
        )
        found += _uncertainty(run)
    for name, made in run.results.manifests.items():
        if made.parity is None:
            found.append(f"The {name} file was not compared with its model.")
        elif made.parity.inputs == "random":
            found.append(f"The {name} file was checked on random token ids, not on sentences.")
    for name in run.stale():
        found.append(
            f"The benchmark measured another {name} file than the one described here (its "
            "checksum differs), so its latency is left out. Measure again."
        )
    notes = benchmark.notes if benchmark is not None else ()
    return [*found, *(note if note.endswith(".") else f"{note}." for note in notes)]


def _of_device(benchmark: schema.Result) -> list[str]:
    name = benchmark.device.name
    found = {
        "host": f"Latency was measured on this host ({name}). It is not the latency of a phone: "
        "there, other cores, clocks, caches and heat decide, and ratios change too.",
        "emulator": f"Latency was measured on an emulated device ({name}): it shows that the files "
        "run there, not how fast they are on a phone.",
        "phone": f"Latency was measured on one phone ({name}); others differ widely.",
    }
    slow = "The device slowed down in a part of the measurement: see the latency table."
    throttled = any(row.throttled for row in benchmark.summary)
    return [found[benchmark.kind], *([slow] if throttled else [])]


def _uncertainty(run: RunAnalysis) -> list[str]:
    found = []
    student = run.student
    if student is not None and len(student.models) == 1:
        found.append("One seed: how much another seed would differ is unknown.")
    size = student.models[0].num_examples if student else None
    value = student.mean(run.metric) if student else None
    if size and value is not None and run.metric == "accuracy":
        error = 100 * (max(value * (1 - value), 0.0) / size) ** 0.5
        found.append(
            f"With {size:,} examples the standard error of an accuracy is about {error:.1f} "
            "points; smaller differences may be chance."
        )
    return found


def _value(run: RunAnalysis, group: ModelGroup) -> str:
    mean, deviation = group.mean(run.metric), group.deviation(run.metric)
    return fmt.mean_and_spread(run.metric, mean, deviation)


def _shape(group: ModelGroup) -> str:
    layers = group.models[0].architecture.get("num_layers")
    return f"{layers}-layer" if layers else ""


def _article(shape: str) -> str:
    vowel = shape.startswith(("8", "11-", "18-"))
    return f"{'An' if vowel else 'A'} {shape}".strip()


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _kept(run: RunAnalysis) -> str:
    share = run.kept(run.student)
    if share is None or run.student is None or run.teacher is None:
        return ""
    title = fmt.metric_words(run.metric)
    if _is_lower(run):
        return f"keeps {_percent(share)} of the teacher’s {title}"
    own, other = _value(run, run.student), _value(run, run.teacher)
    if _alike(run):
        return f"is as good as its teacher by {title} ({own})"
    values = f"({own} against {other})"
    paired = run.against_teacher
    if paired is None:
        return f"reaches the teacher’s {title} {values}; the difference was not tested"
    if paired.is_clear:
        return f"is above the teacher’s {title} {values}"
    return f"cannot be told from its teacher by {title} {values}"


def _smaller(run: RunAnalysis) -> str:
    factor = run.smaller()
    if factor is None:
        return ""
    if factor < 1:
        return f"needs a file {fmt.ratio(1 / factor)} as large"
    return f"fits in a file {fmt.ratio(factor)} smaller"


def _faster(run: RunAnalysis) -> str:
    speed = run.headline_speed()
    if speed is None:
        return ""
    if speed.faster is False:
        return f"answers {fmt.ratio(1 / speed.speedup)} slower {run.where}"
    if speed.interval is None:
        return f"has {fmt.ratio(speed.speedup)} the speed {run.where} by medians alone"
    if speed.faster is None:
        return f"answers about as fast {run.where}, as far as this run can tell"
    return f"answers {fmt.ratio(speed.speedup)} faster {run.where}{_formats(run)}"


def _formats(run: RunAnalysis) -> str:
    """Names the quantizations of student and teacher."""
    teacher, student = run.manifest_of(run.teacher), run.manifest_of(run.student)
    if teacher is None or student is None:
        return ""
    if teacher.quantization == student.quantization:
        return f" (both {student.quantization})"
    return f" ({student.quantization} against {teacher.quantization})"
