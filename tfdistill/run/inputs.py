"""What a command is given: a run folder, a model folder, an export, a labelled set."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tf_keras as keras

from export.checking import outputs
from export.file import bundle
from export.model import heads
from tfdistill import analysis, config, errors, manifest, models, tasks, training, weights
from tfdistill.analysis import entities
from tfdistill.data import batches, task_data
from tfdistill.io import safe_paths
from tfdistill.run.task_models import open_model
from tfdistill.tasks import patterns, probabilities
from tfdistill.tflite import TfliteModel, described
from tfdistill.tokenization.reading import exported_tokenizer
from tfdistill.weights import roberta as roberta_files


@dataclasses.dataclass
class Source:
    """A classifier and what belongs to it."""

    model: keras.Model
    labels: tuple[str, ...]  # in the order of its outputs
    tokenizer: Any  # a `Tokenizer`; of a RoBERTa, which is not exported, a `LibraryTokenizer`
    limit: int | None  # the most tokens of an example that its tokenizer allows, or None

    @property
    def max_length(self) -> int:
        """The most tokens that it takes, by its positions and by its tokenizer."""
        positions = models.config_of(self.model).max_positions
        return positions if self.limit is None else min(positions, self.limit)

    def encode(
        self, examples: tasks.Examples, settings: config.DataConfig
    ) -> batches.EncodedExamples:
        """Tokenizes examples as the data section says, as far as the model has positions."""
        tokenizer = self.tokenizer.replace(truncation=settings.truncation, prompt=settings.prompt)
        longest = min(settings.max_length, self.max_length)
        return task_data.encode(settings, tokenizer, examples, longest)

    def in_order_of(
        self,
        task: tasks.TaskSpec,
        examples: Callable[[], batches.EncodedExamples] | None = None,
    ) -> Source:
        """Puts outputs and names into the order of a task's labels; returns the source.

        For `examples` see `training.align_labels`.
        """
        training.align_labels(self.model, self.labels, task, examples)
        self.labels = task.labels  # together: a second call changes nothing
        return self

    def outputs(self, examples: batches.Batches, task: tasks.TaskSpec) -> np.ndarray:
        """Answers examples: float (rows, num_labels), in the order of the task's labels."""
        order = training.label_order(self.model, self.labels, task)
        logits = training.predict_logits(self.model, examples)
        return logits if order is None else logits[:, order]

    def with_patterns(
        self, outputs: np.ndarray, encoded: batches.EncodedExamples, examples: tasks.Examples
    ) -> np.ndarray:
        """Puts what rules find into the answers, see `patterns.by_rule`."""
        places = examples.texts, examples.word_offsets or (), examples.spec.labels
        return patterns.by_rule(outputs, encoded, *places)

    def score(
        self, outputs: np.ndarray, encoded: batches.EncodedExamples, task: tasks.TaskSpec
    ) -> dict[str, float]:
        """Computes the task's metrics of `outputs`."""
        return task.score(outputs, encoded)

    def logits(self, outputs: np.ndarray, task: tasks.TaskSpec) -> np.ndarray:
        """Outputs as logits in the order of the task's labels, which they are."""
        return outputs


@dataclasses.dataclass(frozen=True)
class ExportedSource:
    """An exported file, opened through its manifest."""

    folder: pathlib.Path
    card: manifest.Manifest
    tokenizer: manifest.TokenizerRecord

    @property
    def max_length(self) -> int:
        """The longest signature."""
        return max(entry.sequence_length for entry in self.card.signatures.values())

    def opened(self) -> TfliteModel:
        """Opens the file in a process of its own: it may be damaged, or made to crash one."""
        return TfliteModel(self.folder / self.card.model.file, isolated=True)

    def encode(
        self, examples: tasks.Examples, settings: config.DataConfig
    ) -> batches.EncodedExamples:
        """Tokenizes examples as a program does that knows the manifest alone.

        Texts are cut as the data section says, as far as the longest signature goes; questions
        become the windows that the manifest describes.
        """
        span = None if self.card.task is None else self.card.task.span
        if span is None:
            length, windows = min(settings.max_length, self.max_length), settings
        else:
            length, windows = self.tokenizer.max_length, span
        return batches.encode_examples(
            examples,
            exported_tokenizer(self.folder, self.tokenizer),
            length,
            doc_stride=windows.doc_stride,
            max_question_length=windows.max_question_length,
        )

    def outputs(self, examples: batches.Batches, task: tasks.TaskSpec) -> np.ndarray:
        """Answers examples: float (rows, num_labels), in the order of the file's labels."""
        with self.opened() as file:
            self.check(task, heads.head_of_file(file).name)
            return outputs.file_outputs(file, examples.encoded)

    def with_patterns(
        self, outputs: np.ndarray, encoded: batches.EncodedExamples, examples: tasks.Examples
    ) -> np.ndarray:
        """Puts what rules find into the answers, see `patterns.by_rule`."""
        labels = (self.card.task or examples.spec).labels
        places = examples.texts, examples.word_offsets or (), labels
        return patterns.by_rule(outputs, encoded, *places, shares=self.card.softmax)

    def score(
        self, outputs: np.ndarray, encoded: batches.EncodedExamples, task: tasks.TaskSpec
    ) -> dict[str, float]:
        """Computes the task's metrics of outputs, wherever the file was run.

        `outputs` are float (rows, num_labels), see `export.model.heads`, in the order of the file's
        labels; `encoded` is what the file was fed with.
        """
        record = self.card.task
        outputs = self.logits(outputs, task)  # a path of tags adds up logarithms
        if record is not None and record.span is not None:
            rules = tasks.SpanRules(
                unanswerable=record.span.unanswerable,
                max_answer_length=record.span.max_answer_length,
                n_best=record.span.n_best,
                null_threshold=record.span.null_threshold,
            )
            task = dataclasses.replace(task, spans=rules)
        return task.score(outputs, encoded)

    def logits(self, outputs: np.ndarray, task: tasks.TaskSpec) -> np.ndarray:
        """Outputs as logits in the order of the task's labels; probabilities as logarithms."""
        logits = probabilities.logits_of(outputs, softmax=self.card.softmax)
        return self._in_order_of(task, logits)

    def coverage_of_promises(
        self, outputs: np.ndarray, encoded: batches.EncodedExamples, task: tasks.TaskSpec
    ) -> list[dict[str, float]]:
        """What each promise of the file comes to on labelled texts.

        For each that has a threshold "max_error", "coverage" (the share of sure answers, or of sure
        entities) and "error" (the share of these that is wrong, 0 where there is none).
        """
        record = self.card.confidence
        if record is None or not record.by_error:
            return []
        answers = self.logits(outputs, task), encoded, record.temperature
        if record.entity_promises:
            judged = entities.judge_entities(*answers)
        else:
            judged = analysis.judge(task.traits, *answers)
        familiar = True if record.familiarity is None else record.familiarity.covers(encoded)
        rows = []
        for promise in record.by_error:
            if promise.threshold is not None:
                sure = familiar & (judged.confidence > promise.threshold)
                error = float(np.mean(~judged.right[sure])) if sure.any() else 0.0
                figures = {"max_error": promise.max_error, "coverage": float(sure.mean())}
                rows.append({**figures, "error": error})
        return rows

    def agreements_again(
        self, answered: np.ndarray, encoded: batches.EncodedExamples, task: tasks.TaskSpec
    ) -> list[dict[str, Any]]:
        """Whether each agreement of the file, as far as a threshold keeps it, is kept on new texts.

        For each "max_disagreement", "disagreement" (the share of all texts that get a sure answer
        other than `answered`, int (n,), no class where the large model had none), its 95%
        "interval", "coverage", "promised_coverage", and the "verdict": "kept" where the whole
        interval is within the level, "broken" where all of it is above, otherwise "cannot tell".
        """
        record, rows = self.card.confidence, []
        if record is None or not record.agreements:
            return []
        outputs = self.outputs(batches.Batches(encoded, batch_size=64, shuffle=False), task)
        logits = self.logits(outputs, task)
        judged = analysis.judge_rows(task.traits, logits, answered, record.temperature)
        familiar = True if record.familiarity is None else record.familiarity.covers(encoded)
        for promise in record.agreements:
            if promise.threshold is None:
                continue
            level = promise.max_disagreement
            sure = familiar & (judged.confidence > promise.threshold)
            number = int(np.sum(sure & ~judged.right))
            low, high = analysis.share_interval(number, len(sure))
            verdict = "kept" if high <= level else "broken" if low > level else "cannot tell"
            figures = {"disagreement": number / len(sure), "interval": (low, high)}
            figures |= {"coverage": float(sure.mean()), "promised_coverage": promise.coverage}
            rows.append({"max_disagreement": level, **figures, "verdict": verdict})
        return rows

    def mask_figures(
        self, outputs: np.ndarray, encoded: batches.EncodedExamples, task: tasks.TaskSpec
    ) -> dict[str, float]:
        """What the file's mask finds on labelled texts, see `entities.mask_figures`.

        Empty for a file that promises no recall.
        """
        record = self.card.confidence
        if record is None or record.recall is None or record.recall.threshold is None:
            return {}
        logits = self.logits(outputs, task)
        judged = entities.judge_entities(logits, encoded, record.temperature)
        return entities.mask_figures(judged, record.recall.threshold)

    def calibration(
        self, outputs: np.ndarray, encoded: batches.EncodedExamples, task: tasks.TaskSpec
    ) -> dict[str, Any]:
        """How well the file's probabilities fit labelled texts, with its temperature and without.

        "temperature"; "before" it and "after" it each with "nll", "ece" and "brier", a "value" and
        its 95% "interval"; "ece_noise", the ECE of a calibrated file on these texts. Empty for
        other answers than a class, and for a file without a temperature.
        """
        record = self.card.confidence
        if record is None or not task.traits.one_class or encoded.labels is None:
            return {}
        logits = self.logits(outputs, task)
        before, after = logits * record.temperature_inside, logits / record.temperature
        shown: dict[str, Any] = {"temperature": record.temperature * record.temperature_inside}
        for when, rows in (("before", before), ("after", after)):
            scores = analysis.calibration_scores(rows, encoded.labels)
            shown[when] = {name: score._asdict() for name, score in scores.items()}
        return {**shown, "ece_noise": analysis.calibration_noise(after)}

    def _in_order_of(self, task: tasks.TaskSpec, outputs: np.ndarray) -> np.ndarray:
        labels = self.card.task.labels if self.card.task is not None else ()
        return outputs[:, [labels.index(label) for label in task.labels]] if labels else outputs

    def check(self, task: tasks.TaskSpec, head: str) -> None:
        """Refuses a task that the file does not answer: of another kind, or with other labels.

        `head` is what it answers for: "sequence", "token", "span" or "embedding".
        """
        record = self.card.task
        wanted = models.head_for(task.head, task.num_labels).kind
        what = f"{self.folder} for task {task.name!r}"
        remedy = "Name the task that it was exported for."
        if wanted != head or (record is not None and record.kind != task.kind):
            kind = record.kind if record is not None else f"answers for a {head}"
            raise errors.ManifestError(what, f"a file for {task.kind}", kind, remedy)
        if record is not None and set(record.labels) != set(task.labels):
            raise errors.ManifestError(what, f"the labels {task.labels}", record.labels, remedy)


def open_source(
    source: str,
    task: tasks.TaskSpec | None = None,
    *,
    kind: str | None = None,
    roberta: bool = False,
) -> Source:
    """Opens the model of a run folder, of a model folder or of the hub, see `open_model`.

    With `roberta` also a RoBERTa or CamemBERT, which answers texts but is not exported.
    """
    folder = roberta_files.folder_of(source) if roberta else None
    if folder is None:
        config.saved_recipe(source)  # refuses one that was changed
        loaded = open_model(source, task, kind=kind)
        return Source(
            loaded.model,
            loaded.labels,
            weights.existing_tokenizer(loaded.tokenizer, source),
            loaded.max_length,
        )
    if task is not None and not task.traits.row_a_text:
        raise errors.WeightsError(
            f"{source} for {task.kind}",
            "a model with BERT's tokenizer",
            "one of RoBERTa's family",
            "Distil from a model of BERT's family."
            if task.traits.decodes_spans
            else "Let scripts/answers_from_transformers.py write its answers "
            f"(--kind {task.head}), and give the file to distill --answers.",
        )
    loaded, tokenizer = roberta_files.load_roberta(folder, None if task is None else task.kind)
    return Source(loaded.model, loaded.labels, tokenizer, loaded.max_length)


def open_answerer(source: str, task: tasks.TaskSpec | None = None) -> Source | ExportedSource:
    """Opens anything that answers: see `open_source`, an export folder, or a file in one."""
    path = pathlib.Path(source)
    folder = path if path.is_dir() else path.parent
    if path.suffix != bundle.SUFFIX and not (folder / manifest.FILE_NAME).is_file():
        return open_source(source, task, roberta=True)
    card = manifest.read_manifest(path)
    if card.tokenizer is None:
        raise errors.ManifestError(
            f"{folder}", "a manifest with a vocabulary", "none", "Export with one."
        )
    described.check_signatures(card, safe_paths.inside(folder, card.model.file))
    return ExportedSource(folder, card, card.tokenizer)
