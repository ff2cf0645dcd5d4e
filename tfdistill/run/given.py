"""The answers of a run's teacher that come in files: read, joined with the texts, checked."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import config, errors, safe_paths, tasks
from tfdistill.data import (
    answer_logits,
    batches,
    given_answers,
    given_vectors,
    located_answers,
    placed_answers,
)
from tfdistill.tasks.encoded import spans

_log = logging.getLogger(__name__)

_READERS = {
    **dict.fromkeys(located_answers.KINDS, located_answers.read_answers),
    given_vectors.KIND: given_vectors.read_answers,
}


@dataclasses.dataclass(frozen=True, eq=False)
class GivenTeacher:
    """What is known of a teacher that is no model: its answers. As a function it knows no text.

    Attributes:
      train: float32 (n, labels), to the training set and then to the unlabelled texts; of words
        and spans (tokens, labels), to the pieces of the training set; of an embedding vectors.
      train_examples: int64, the examples of the training set that are learnt: of an embedding those
        that have a vector, otherwise all.
      dev: The same as `train` of the development set, as far as it is answered.
      dev_examples: int64 (m,), which of its examples are.
      dev_rows: int64, the rows of pieces of these examples.
      files: The files.
      sha256: Of the answers.
    """

    train: np.ndarray
    train_examples: np.ndarray
    dev: np.ndarray
    dev_examples: np.ndarray
    dev_rows: np.ndarray
    files: tuple[str, ...]
    sha256: str

    @property
    def width(self) -> int:
        """Numbers of an answer: labels, or the width of vectors."""
        return self.train.shape[1]

    def __call__(self, features: Mapping[str, Any]) -> Any:
        """Refuses: batches bring the answers along.

        Raises:
          TeacherError: Always.
        """
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
) -> tuple[GivenTeacher, tasks.Examples | None]:
    """Reads `teacher.answers` and joins it with the texts of a run.

    Args:
      recipe: The recipe, with `teacher.answers`.
      train: The labelled training set.
      dev: The development set.
      unlabelled: Texts without labels, or None.
      encoded: The pieces of the sets, "training" and "development".

    Returns:
      The answers, and the unlabelled texts that have one.

    Raises:
      ConfigError: If a stage cannot learn from these answers.
      DataError: If a file is unusable, or leaves texts out that it must not.
    """
    settings, spec = recipe.teacher.answers, train.spec
    assert settings is not None
    located, embeds = spec.kind in located_answers.KINDS, spec.kind == given_vectors.KIND
    reader = _READERS.get(spec.kind, given_answers.read_answers)
    read = [reader(path, spec, key=settings.key) for path in settings.files]
    _check_stages(recipe, spec, read)
    sets = {"training": train, "development": dev, "unlabelled": unlabelled}
    keys = {
        name: given_answers.example_keys(part, settings.key)
        for name, part in sets.items()
        if part is not None
    }
    _check_keys(settings, keys)
    found = {name: [file.find(rows) for file in read] for name, rows in keys.items()}
    answered = {name: np.min(rows, axis=0) >= 0 for name, rows in found.items()}
    if dev.paired:  # a pair is answered where both of its texts are
        pairs = answered["development"].reshape(-1, 2).all(axis=1)
        answered["development"] = np.repeat(pairs, 2)
    for name, known in answered.items():
        _check_missing(settings, spec, name, known, read, found[name], keys[name])
    learnt = np.arange(len(train))
    rows = examples = np.flatnonzero(answered["development"])
    if located:
        taught, answers = (
            placed_answers.place(read, found[name], encoded[name], spec, settings.temperatures)
            for name in ("training", "development")
        )
        pieces = encoded["development"]
        assert pieces.sources is not None
        rows = np.flatnonzero(np.isin(pieces.sources, examples))
        answers = answers[spans(pieces.offsets[rows], pieces.lengths[rows])]
    else:
        taught, left = _combined(settings, spec, read, found["training"]), ~answered["training"]
        if embeds:
            learnt = np.flatnonzero(~left)
            taught = taught[learnt]
        elif left.any():
            assert train.labels is not None
            taught[left] = answer_logits.of_gold(train.labels[left], spec)
        answers = _combined(settings, spec, read, found["development"])[rows]
    if unlabelled is not None:
        kept = np.flatnonzero(answered["unlabelled"])
        further = _combined(settings, spec, read, found["unlabelled"])[kept]
        taught = np.concatenate([taught, further])
        unlabelled = unlabelled.select(kept) if len(kept) else None
    digest = hashlib.sha256(taught.tobytes() + answers.tobytes() + rows.tobytes()).hexdigest()
    _say(settings, keys, answered, embeds=embeds)
    names = tuple(settings.files)
    return GivenTeacher(taught, learnt, answers, examples, rows, names, digest), unlabelled


def _combined(
    settings: config.AnswersConfig,
    spec: tasks.TaskSpec,
    read: Sequence[given_answers.AnswerFile],
    found: Sequence[np.ndarray],
) -> np.ndarray:
    rows = [f.logits[np.maximum(r, 0)] for f, r in zip(read, found, strict=True)]
    return answer_logits.combine(rows, spec.kind, settings.temperatures)


def _check_stages(
    recipe: config.Recipe, spec: tasks.TaskSpec, read: Sequence[given_answers.AnswerFile]
) -> None:
    settings = recipe.teacher.answers
    assert settings is not None
    certain = settings.missing == "gold" or any(file.given == "answer" for file in read)
    faults = []
    for name, stage in recipe.used_stages.items():
        if spec.traits.one_number and isinstance(stage, config.PredictionStage):
            faults.append(
                f"stages.{name}: a stage of kind prediction learns the gold numbers of a "
                "regression, and no answer. Use logits"
            )
        compared = getattr(stage, "prediction", None) == "logit_mse"
        if compared and spec.kind == "span":
            faults.append(
                f"stages.{name}.prediction: logit_mse compares logits at every token, and the "
                "files have those of the contexts. Use kl_divergence"
            )
        elif compared and certain and not spec.traits.one_number:
            faults.append(
                f"stages.{name}.prediction: logit_mse compares logits, and a label has none. Use "
                "kl_divergence"
            )
    if spec.traits.one_number and settings.temperatures:
        faults.append(
            "teacher.answers.temperatures: the numbers of a regression have none. Leave them out"
        )
    if faults:
        raise errors.ConfigError("\n  - ".join(faults))


def _check_keys(
    settings: config.AnswersConfig, keys: Mapping[str, Sequence[given_answers.Key]]
) -> None:
    """A key names one example of all sets; a text may be in several."""
    if settings.key is None:
        return
    seen: dict[given_answers.Key, str] = {}
    for name, rows in keys.items():
        for key in rows:
            other = seen.setdefault(key, name)
            if other != name:
                raise errors.DataError(
                    f"teacher.answers.key {settings.key!r}",
                    "keys of one set each",
                    f"{key[0]!r} in the {other} and the {name} set",
                    "Join by text: leave the key out.",
                )


def _check_missing(
    settings: config.AnswersConfig,
    spec: tasks.TaskSpec,
    name: str,
    known: np.ndarray,
    read: Sequence[given_answers.AnswerFile],
    found: Sequence[np.ndarray],
    keys: Sequence[given_answers.Key],
) -> None:
    """Refuses texts without an answer, unless gold labels may take their place."""
    left = np.flatnonzero(np.min(found, axis=0) < 0)
    if not len(left) or (settings.missing == "gold" and known.any()):
        return
    first = int(left[0])
    lacking = next(file for file, rows in zip(read, found, strict=True) if rows[first] < 0)
    shown = given_answers.shown(keys[first])
    instead = "learn such texts from their gold labels alone"
    if spec.kind == given_vectors.KIND:
        instead = "leave out such texts"
    remedy = f"Answer them, or {instead}: --set teacher.answers.missing=gold."
    if not known.any():
        remedy = f"None of the {len(known)} texts has an answer: is it the file of these data?"
        if name == "development":
            remedy += " The teacher is judged by its answers to this set."
    alike = lacking.nearest(keys[first])
    if alike is not None:
        remedy = f"The same letters are there with other blanks, or cut into other words: {alike}."
    raise errors.DataError(
        f"{lacking.path}",
        f"an answer to each text of the {name} set",
        f"none to {len(left)} of {len(known)}, the first {shown!r}",
        remedy,
    )


def _say(
    settings: config.AnswersConfig,
    keys: Mapping[str, Sequence[given_answers.Key]],
    answered: Mapping[str, np.ndarray],
    *,
    embeds: bool,
) -> None:
    counts = ", ".join(
        f"{int(known.sum())} of {len(known)} {name} texts" for name, known in answered.items()
    )
    names = ", ".join(safe_paths.without_folders(path) for path in settings.files)
    lines = [f"teacher: answers in {names} to {counts}"]
    left = int((~answered["training"]).sum())
    if left:
        instead = "left out" if embeds else "learnt from their gold labels alone"
        lines.append(f"teacher: {left} training texts are {instead}")
    if "unlabelled" in keys and not answered["unlabelled"].all():
        lines.append("teacher: unlabelled texts without an answer are left out")
    _log.info("\n".join(lines))
