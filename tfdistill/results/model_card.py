"""README.md of an exported folder: a model card for people, with the metadata of the hub."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfdistill.io import files, work_folder
from tfdistill.manifest import Architecture, Manifest, TaskRecord
from tfdistill.results import BaselineResult, quantities, tables
from tfdistill.results.tables import markdown, one_line
from tfdistill.tasks import KINDS

FILE_NAME = "README.md"
_LONGEST_NAME = 60  # letters of a label or task
Sets = Mapping[str, Mapping[str, Mapping[str, float | None]]]
MARK = "<!-- Written by tfdistill, which replaces only files with this line. -->"


@dataclasses.dataclass(frozen=True)
class CardFacts:
    """What is known of a model beyond its file; what is not stays out of the card."""

    name: str | None = None  # of the model; that of the manifest by default
    base_model: str | None = None  # hub id of the teacher
    license: str | None = None  # SPDX name, as the hub lists it
    language: str | None = None  # ISO 639 code of the texts
    synthetic: bool = False  # whether the data was generated
    # development metrics of the teacher
    teacher: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    # of "teacher", "student", "file" on the test set, and how many examples that has
    tested: Mapping[str, Mapping[str, float | None]] = dataclasses.field(default_factory=dict)
    num_tested: int | None = None
    caveats: Sequence[str] = ()  # what makes its figures doubtful
    baselines: Sequence[BaselineResult] = ()  # what the model is compared with
    latency: Sequence[Any] = ()  # of the file: rows of `benchmark.schema.Summary`
    # expected time of a development text, by threads
    text_ms: Mapping[int, float] = dataclasses.field(default_factory=dict)
    measured_on: str = ""  # machine, runtime and load of the latency
    phone: bool = False  # whether that was a phone


def of_file(manifest: Manifest, evidence: CardFacts | None = None) -> str:
    """Writes the card of a folder with a TFLite file."""
    evidence = evidence or CardFacts()
    metrics = manifest.parity.file_metrics if manifest.parity else {}
    sets = _sets("this file", metrics, evidence.tested.get("file", {}), evidence)
    lengths = sorted(entry.sequence_length for entry in manifest.signatures.values())
    entry = next(iter(manifest.signatures.values()))
    runner = f"len{lengths[-1]}" if f"len{lengths[-1]}" in manifest.signatures else "serving"
    arguments = ", ".join(f"{name}=..." for name in entry.inputs)
    use = [
        f"Signatures for {', '.join(map(str, lengths))} tokens take int32 (1, length) "
        f"{_listed(entry.inputs)} and give float32 {_listed(entry.outputs)}; bind them by name. "
        "`model.json` has shapes, checksums and the tokenizer's settings (WordPiece, `vocab.txt`).",
        "",
        "```python",
        "from ai_edge_litert.interpreter import Interpreter",
        "",
        f'run = Interpreter("{manifest.model.file}").get_signature_runner("{runner}")',
        f'print(run({arguments})["{next(iter(entry.outputs))}"])',
        "```",
    ]
    head = _head(manifest, sets, evidence, ["tflite", "litert"], None)
    kind = f"{quantities.size(manifest.model.size_bytes)} as `{manifest.quantization}`"
    verb = "cut after" if _cuts_texts(manifest) else "read in parts of at most"
    limits = [f"Texts are {verb} {lengths[-1]} tokens."]
    if manifest.least_runtime is not None:
        limits.append(f"It needs {manifest.least_runtime} or a later runtime.")
    if evidence.latency and not evidence.phone:
        limits.append("The latency is that of a host. It says little about a phone.")
    if not evidence.latency:
        limits.append("Its latency was not measured.")
    body = [
        *_figures(manifest, sets, evidence),
        *_latency(evidence, "text" if _cuts_texts(manifest) else "text's part"),
        *_checks(manifest),
        *_confidence(manifest),
        *_files(manifest),
        "## Use",
        "",
        *use,
        "",
        *_limits(manifest, evidence, limits),
    ]
    return "\n".join([*head, _opening(manifest.architecture, manifest.task, kind), "", *body])


def of_checkpoint(manifest: Manifest, evidence: CardFacts | None = None) -> str:
    """Writes the card of a Hugging Face folder from the manifest of the same model's file."""
    evidence = evidence or CardFacts()
    task = manifest.task
    # `transformers` has no ReLU in front of the classifier: other logits, so no figures of ours.
    traits = KINDS[task.kind if task is not None else "classification"]
    whole_texts = task is not None and traits.row_a_text
    differs = whole_texts and manifest.architecture.family == "tinybert"
    metrics = manifest.parity.model_metrics if manifest.parity and not differs else {}
    role = "student" if "student" in evidence.tested else "teacher"  # which it is, then
    tested = {} if differs else evidence.tested.get(role, {})
    sets = _sets("this model", metrics, tested, evidence)
    library = "sentence-transformers" if traits.vectors else "transformers"
    head = _head(manifest, sets, evidence, [], library)
    if traits.vectors:
        use = [
            "from sentence_transformers import SentenceTransformer",
            "",
            'print(SentenceTransformer("FOLDER_OR_ID").encode(["a text"]))',
        ]
    else:
        pipeline = f'transformers.pipeline("{traits.pipeline}", "FOLDER_OR_ID")'
        use = ["import transformers", "", f"print({pipeline}({traits.pipeline_input}))"]
    limits = []
    if differs:
        limits.append(
            "`transformers` has no ReLU between pooler and classifier, as TinyBERT has: its logits "
            "differ from those that were scored. `tfdistill.load_teacher` reads the folder exactly."
        )
    body = [
        *_figures(manifest, sets, evidence),
        "## Use",
        "",
        "```python",
        *use,
        "```",
        "",
        *_limits(manifest, evidence, limits),
    ]
    opening = _opening(manifest.architecture, task, "weights in float32")
    return "\n".join([*head, opening, "", *body])


def write(folder: files.Path, text: str) -> pathlib.Path | None:
    """Writes README.md and returns its path; None where somebody else wrote what is there."""
    path = pathlib.Path(folder) / FILE_NAME
    if path.exists() and MARK not in path.read_text("utf-8", errors="replace"):
        return None
    work_folder.record(folder, [path])  # first: a card that no list names would be foreign
    files.atomic_write_text(path, text)
    return path


def _head(
    manifest: Manifest,
    sets: Sets,
    evidence: CardFacts,
    tags: Sequence[str],
    library: str | None,
) -> list[str]:
    """The metadata that the hub reads, and the title."""
    import huggingface_hub  # slow to import

    name = evidence.name or manifest.name
    task = manifest.task
    pipeline = None if task is None else KINDS[task.kind].pipeline
    scores = [
        huggingface_hub.EvalResult(
            task_type=str(pipeline),
            dataset_type=task.name,
            dataset_name=task.name,
            dataset_split=split.replace("development", "validation"),
            metric_type=metric,
            metric_value=round(value, 4),
        )
        for split, columns in list(sets.items())[:1]
        for metric, value in next(iter(columns.values())).items()
        if task is not None and value is not None
    ]
    data = huggingface_hub.ModelCardData(
        model_name=name if scores else None,
        eval_results=scores or None,
        base_model=evidence.base_model,
        license=evidence.license,
        language=evidence.language,
        library_name=library,
        pipeline_tag=pipeline,
        tags=[*tags, manifest.architecture.family, "knowledge-distillation", "tfdistill"],
    )
    return ["---", data.to_yaml().rstrip(), "---", MARK, "", f"# {markdown(name)}", ""]


def _opening(shape: Architecture, task: TaskRecord | None, kind: str) -> str:
    text = (
        f"A {shape.family} network of {shape.num_layers} layers, {shape.hidden_size} wide "
        f"({quantities.count(shape.num_parameters)} parameters), {kind}"
    )
    if task is None:
        return f"{text}."
    names = ", ".join(markdown(_cut(label)) for label in task.labels)
    labels = f" Labels: {names}." if 0 < len(task.labels) <= 30 else ""
    kind_words = task.kind.replace("_", " ")
    return f"{text}, for the task {markdown(_cut(task.name))} ({kind_words}).{labels}"


def _sets(
    column: str,
    metrics: Mapping[str, float],
    tested: Mapping[str, float | None],
    evidence: CardFacts,
) -> Sets:
    """Name of a set -> column -> metrics: the test set first, where there is one."""
    of_dev = {column: metrics, "teacher": evidence.teacher}
    of_dev |= {row.name: row.metrics for row in evidence.baselines}
    of_test = {column: tested, "teacher": evidence.tested.get("teacher", {})}
    return ({"test": of_test} if tested else {}) | ({"development": of_dev} if metrics else {})


def _figures(manifest: Manifest, sets: Sets, evidence: CardFacts) -> Iterator[str]:
    if not sets:
        return
    names = [name for name, values in list(sets.values())[-1].items() if values]
    yield from ("## Figures", "")
    yield f"| metric | set | {' | '.join(map(markdown, names))} |"
    yield "| --- | --- |" + " ---: |" * len(names)
    for split, columns in sets.items():
        for metric in next(iter(columns.values())):
            values = (columns.get(name, {}).get(metric) for name in names)
            cells = ["" if value is None else f"{value:.4f}" for value in values]
            yield f"| {markdown(metric)} | {split} | {' | '.join(cells)} |"
    parity, task = manifest.parity, manifest.task
    traits = None if task is None else KINDS[task.kind]
    split, columns = next(iter(sets.items()))
    examples = evidence.num_tested if split == "test" else parity and parity.num_scored
    error, value = "", next(iter(columns.values())).get("accuracy") or 0.0
    if 0 < value < 1 and examples and (traits is None or traits.one_class):  # else it would be 0
        error = (
            f" One standard error of the accuracy: {math.sqrt(value * (1 - value) / examples):.4f}."
        )
    yield ""
    number = "the" if examples is None else examples
    what = "pairs" if traits is not None and traits.vectors else "examples"
    yield f"On {number} {split} {what}.{error}" + (
        " The columns after the teacher are baselines." if evidence.baselines else ""
    )
    yield ""


def _cuts_texts(manifest: Manifest) -> bool:
    """Whether a text has one row; otherwise a long one has several, each as long as fits."""
    return manifest.task is None or KINDS[manifest.task.kind].cuts_texts


def _latency(evidence: CardFacts, example: str) -> Iterator[str]:
    if not evidence.latency:
        return
    yield from ("## Latency", "", "| tokens | threads | median, ms | 95% interval |")
    yield "| ---: | ---: | ---: | --- |"
    for row in evidence.latency:
        interval = " to ".join(f"{end:.3g}" for end in row.p50_ci_ms)
        median = tables.marked(f"{row.p50_ms:.3g}", row.busy)
        yield f"| {row.sequence_length} | {row.threads} | {median} | {interval} |"
    for number, expected_ms in evidence.text_ms.items():
        yield from ("", f"A development {example} takes {expected_ms:.3g} ms on average")
        threads = quantities.plural(number, "thread")
        yield f"({threads}), each at the shortest length that holds it."
    yield from ("", markdown(evidence.measured_on), "")


def _checks(manifest: Manifest) -> Iterator[str]:
    parity = manifest.parity
    if parity is None:
        return
    facts = [] if parity.sqnr_db is None else [f"SQNR {parity.sqnr_db:.1f} dB"]
    if parity.argmax_agreement is not None:
        facts.append(f"the same {parity.answer_word} for {parity.argmax_agreement:.1%}")
    yield from ("## Agreement with the model", "")
    real = "development examples" if _cuts_texts(manifest) else "parts of development texts"
    inputs = real if parity.inputs == "real" else "random inputs"
    yield f"On {parity.num_examples} {inputs}: {', '.join(facts) or 'equal bit for bit'}."
    yield ""


def _confidence(manifest: Manifest) -> Iterator[str]:
    """The promises, or how the probabilities are calibrated."""
    if manifest.confidence is None:
        return
    yield from ("## How sure it is", "")
    for line in manifest.confidence.summary:
        yield f"- {line}"
    if manifest.confidence.promises:
        yield from ("", "A promise holds with 90% confidence for texts like those it was found on.")
    yield ""


def _files(manifest: Manifest) -> Iterator[str]:
    """The files of all devices, where there are several."""
    if not manifest.variants:
        return
    yield from ("## Files", "", "One model, a file for each kind of processor.", "")
    yield "| file | for | quantization | MB | metric |"
    yield "| --- | --- | --- | ---: | ---: |"
    metric = manifest.task.primary_metric if manifest.task else None
    for variant in manifest.each_file():
        score = variant.parity.file_metrics.get(metric or "") if variant.parity else None
        yield (
            f"| {_code(variant.model.file)} | {markdown(variant.device)} | "
            f"{_code(variant.quantization)} | {quantities.megabytes(variant.model.size_bytes)} | "
            f"{'' if score is None else f'{score:.4f}'} |"
        )
    yield from ("", "`model.json` lists all of them.", "")


def _limits(manifest: Manifest, evidence: CardFacts, limits: Sequence[str]) -> Iterator[str]:
    if evidence.synthetic:
        limits = [
            "It was trained on generated data: its figures say nothing about real text.",
            *limits,
        ]
    yield from ("## Limits", "")
    for limit in (*evidence.caveats, *limits):
        yield f"- {limit}"
    if manifest.parity is not None and manifest.parity.file_metrics:
        yield "- The development examples also chose the checkpoint: their figures are optimistic."
    else:
        yield "- It was not scored on labelled examples."
    if "gpu" in manifest.devices:
        yield "- The file for a GPU was only run on a CPU; the app compares the GPU's answers."
    if not evidence.baselines:
        yield "- It was not compared with baselines."
    if manifest.tokenizer is not None and manifest.tokenizer.lower_case:
        yield "- Case and accents of the texts are ignored."
    if manifest.tokenizer is not None and manifest.tokenizer.truncation != "end":
        most = manifest.tokenizer.max_length
        yield f"- Of a text of more than {most} tokens only the beginning and the end are read."
    yield "- Nothing is known of languages, domains and groups of people that its data lacks."
    if evidence.license is None:
        yield "- No licence is stated here: those of the teacher and of the data apply."
    yield ""


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(map(_code, names))


def _code(name: str) -> str:
    """A name as code, also in a table; a span of code knows no escapes."""
    return f"`{one_line(name).replace('`', '').replace('|', '/')}`"


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
