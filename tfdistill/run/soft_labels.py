"""Soft labels of a run's teacher that is no model: read, joined with the texts, checked."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import config, errors, tasks
from tfdistill.data import batches, soft_label_values, soft_labels
from tfdistill.io import safe_paths
from tfdistill.tasks.encoded import spans

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, eq=False)
class SoftLabels:
    """A teacher that is known by its soft labels alone. As a function it knows no text."""

    # float32 (n, labels), to the training set and then to the unlabelled texts; of words (tokens,
    # labels), to their pieces; of an embedding vectors.
    train: np.ndarray
    # int64, the examples of the training set that are learnt: of an embedding those that have a
    # vector, otherwise all.
    train_examples: np.ndarray
    dev: np.ndarray  # as `train`, of the development set as far as it is answered
    dev_examples: np.ndarray  # int64 (m,), which of its examples are
    dev_rows: np.ndarray  # int64, the rows of pieces of these examples
    files: tuple[str, ...]
    sha256: str  # of the soft labels

    @property
    def width(self) -> int:
        """Labels, or the width of vectors."""
        return self.train.shape[1]

    def __call__(self, features: Mapping[str, Any]) -> Any:
        """Refuses: batches bring the answers along."""
        raise errors.TeacherError("teacher.answers", "texts that the files answer", "others")

    def dev_set(self, dev: batches.Batches) -> batches.Batches:
        """The part of the development set that is answered."""
        return batches.Batches(dev.encoded.select(self.dev_rows), batch_size=64, shuffle=False)


def read_for_run(
    recipe: config.Recipe,
    train: tasks.Examples,
    dev: tasks.Examples,
    unlabelled: tasks.Examples | None,
    encoded: Mapping[str, batches.EncodedExamples],
) -> tuple[SoftLabels, tasks.Examples | None]:
    """Reads `teacher.answers` and joins it with the texts of a run."""
    settings, spec = recipe.teacher.answers, train.spec
    assert settings is not None
    read = [soft_labels.read(path, spec) for path in settings.files]
    _check_stages(recipe, spec, read)
    sets = {"training": train, "development": dev}
    if unlabelled is not None:
        sets["unlabelled"] = unlabelled
    joined = {name: _join(settings, read, name, part) for name, part in sets.items()}
    answered = {name: part for name, (part, _) in joined.items()}
    values = {name: part for name, (_, part) in joined.items()}
    embeds = spec.traits.vectors
    learnt = np.flatnonzero(answered["training"]) if embeds else np.arange(len(train))
    taught, dev_values = values["training"], values["development"]
    rows = examples = np.flatnonzero(answered["development"])
    if spec.traits.over_tokens:
        at_pieces = {name: _at_pieces(*joined[name], sets[name], encoded[name]) for name in sets}
        taught, _ = at_pieces.pop("training")
        for name, (part, rows_of_set) in at_pieces.items():
            pieces = encoded[name]
            values[name] = part[spans(pieces.offsets[rows_of_set], pieces.lengths[rows_of_set])]
        dev_values, rows = values["development"], at_pieces["development"][1]
    elif not embeds:
        assert train.labels is not None
        taught = _with_gold(taught, answered["training"], train.labels, spec)
    if unlabelled is not None:
        unlabelled = unlabelled.select(np.flatnonzero(answered["unlabelled"]))
        taught = np.concatenate([taught, values["unlabelled"]])
    digest = hashlib.sha256(taught.tobytes() + dev_values.tobytes() + rows.tobytes()).hexdigest()
    _report(settings, answered, embeds=embeds)
    names = tuple(settings.files)
    return SoftLabels(taught, learnt, dev_values, examples, rows, names, digest), unlabelled


def _join(
    settings: config.AnswersConfig,
    read: Sequence[soft_labels.SoftLabelFile],
    name: str,
    examples: tasks.Examples,
) -> tuple[np.ndarray, np.ndarray]:
    """Which examples have soft labels, bool (n,), and theirs, float32 (texts or words, width)."""
    keys = soft_labels.example_keys(examples)
    rows = [file.find(keys) for file in read]
    answered = np.min(rows, axis=0) >= 0
    if examples.paired:  # a pair is answered where both of its texts are
        answered = np.repeat(answered.reshape(-1, 2).all(axis=1), 2)
    _check_missing(settings, examples.spec, name, answered, read, rows, keys)
    parts = [file.of_rows(part[answered]) for file, part in zip(read, rows, strict=True)]
    kind = examples.spec.kind
    return answered, soft_label_values.combine(parts, kind, settings.temperatures)


def _with_gold(
    soft: np.ndarray, answered: np.ndarray, gold: np.ndarray, spec: tasks.TaskSpec
) -> np.ndarray:
    """Soft labels of all texts or words, float32 (n, width); gold labels where there are none."""
    values = np.empty((len(answered), soft.shape[1]), np.float32)
    values[answered] = soft
    if not answered.all():
        values[~answered] = soft_label_values.of_gold(gold[~answered], spec)
    return values


def _at_pieces(
    answered: np.ndarray,
    soft: np.ndarray,
    examples: tasks.Examples,
    encoded: batches.EncodedExamples,
) -> tuple[np.ndarray, np.ndarray]:
    """Soft labels at the pieces that answer for words, float32 (tokens, labels), 0 elsewhere.

    A piece that answers for several words has those of the first. Also returns the rows of pieces
    of the texts that are answered, int64.
    """
    assert examples.word_offsets is not None
    assert encoded.word_counts is not None and encoded.sources is not None
    rows = np.flatnonzero(answered[encoded.sources])
    answered = np.repeat(answered, [len(words) for words in examples.word_offsets])
    gold = encoded.word_labels
    if gold is None:  # what has no answer is not taken
        gold = np.zeros(len(answered), np.int32)
    of_words = _with_gold(soft, answered, gold, examples.spec)
    values, firsts = np.zeros((encoded.num_tokens, soft.shape[1]), np.float32), encoded.word_tokens
    counts = encoded.word_counts[firsts]
    values[firsts] = of_words[np.cumsum(counts) - counts]
    return values, rows


def _check_stages(
    recipe: config.Recipe, spec: tasks.TaskSpec, read: Sequence[soft_labels.SoftLabelFile]
) -> None:
    settings = recipe.teacher.answers
    assert settings is not None
    certain = settings.missing == "gold" or any(file.holds == soft_labels.LABEL for file in read)
    faults = []
    for name, stage in recipe.used_stages.items():
        if spec.traits.one_number and stage.traits.gold_numbers:
            faults.append(
                f"stages.{name}: a stage of kind prediction learns the gold numbers of a "
                "regression, and no answer. Use logits"
            )
        compared = stage.objective == "logit_mse"
        if compared and certain and not spec.traits.one_number:
            faults.append(
                f"stages.{name}.objective: logit_mse compares logits, and a label has none. Use "
                "kl_divergence"
            )
    if spec.traits.one_number and settings.temperatures:
        faults.append(
            "teacher.answers.temperatures: the numbers of a regression have none. Leave them out"
        )
    if faults:
        raise errors.ConfigError("\n  - ".join(faults))


def _check_missing(
    settings: config.AnswersConfig,
    spec: tasks.TaskSpec,
    name: str,
    answered: np.ndarray,
    read: Sequence[soft_labels.SoftLabelFile],
    rows_of_files: Sequence[np.ndarray],
    keys: Sequence[soft_labels.Key],
) -> None:
    left = np.flatnonzero(np.min(rows_of_files, axis=0) < 0)
    if not len(left) or (settings.missing == "gold" and answered.any()):
        return
    first = int(left[0])
    lacking = next(file for file, rows in zip(read, rows_of_files, strict=True) if rows[first] < 0)
    shown = soft_labels.shown(keys[first])
    instead = "learn such texts from their gold labels alone"
    if spec.traits.vectors:
        instead = "leave out such texts"
    remedy = f"Answer them, or {instead}: --set teacher.answers.missing=gold."
    if not answered.any():
        remedy = f"None of the {len(answered)} texts has an answer: is it the file of these data?"
        if name == "development":
            remedy += " The teacher is judged by its answers to this set."
    alike = lacking.nearest(keys[first])
    if alike is not None:
        remedy = f"The same letters are there with other blanks, or cut into other words: {alike}."
    raise errors.DataError(
        f"{lacking.path}",
        f"an answer to each text of the {name} set",
        f"none to {len(left)} of {len(answered)}, the first {shown!r}",
        remedy,
    )


def _report(
    settings: config.AnswersConfig, answered: Mapping[str, np.ndarray], *, embeds: bool
) -> None:
    counts = ", ".join(
        f"{int(part.sum())} of {len(part)} {name} texts" for name, part in answered.items()
    )
    names = ", ".join(safe_paths.without_folders(path) for path in settings.files)
    lines = [f"teacher: answers in {names} to {counts}"]
    left = int((~answered["training"]).sum())
    if left:
        instead = "left out" if embeds else "learnt from their gold labels alone"
        lines.append(f"teacher: {left} training texts are {instead}")
    if not answered.get("unlabelled", np.ones(1, bool)).all():
        lines.append("teacher: unlabelled texts without an answer are left out")
    _log.info("\n".join(lines))
