"""Faults of labelled data that would mislead whoever trains on it, found before any training."""

from __future__ import annotations

import collections
import dataclasses
import unicodedata
from collections.abc import Sequence

import numpy as np

from tfdistill import errors
from tfdistill.data.tasks import Examples, TaskSpec

_SHOWN = 3  # examples of a fault that a message shows
_LONGEST = 60  # characters of a text in a message
_MOST_CUT = 0.10  # share of texts that may be cut without a word
_FEW_DEV = 50  # development examples below which a metric is mostly noise


@dataclasses.dataclass(frozen=True)
class DataFindings:
    """What was found.

    Attributes:
      faults: What makes the data unusable; each a sentence in the form of `errors.explain`.
      warnings: What misleads, each a sentence.
    """

    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuses data with faults.

        Raises:
          DataError: If there is a fault; the message lists all of them.
        """
        if self.faults:
            raise errors.DataError("\n".join(self.faults))


def check_data(
    task: TaskSpec,
    train: Examples,
    dev: Examples,
    *,
    unlabelled: Sequence[str] = (),
    lengths: np.ndarray | None = None,
    max_length: int | None = None,
) -> DataFindings:
    """Looks for what would mislead.

    Faults: labels that differ only by case or blanks; only one class in the training set; classes
    that only the development set has; more classes than training rows; fewer than two development
    rows; no text at all; a development set of which more than half is in the training set;
    unlabelled text that contains development texts. Warnings: empty texts, texts with two labels,
    development texts that are training texts, classes with one example, a small development set,
    more than 10% of the texts cut.

    Args:
      task: The task, with its labels.
      train: The training set.
      dev: The development set.
      unlabelled: Further training texts without labels.
      lengths: int (n,), tokens of each training text without a limit.
      max_length: The limit; longer texts are cut.

    Returns:
      The findings.
    """
    faults: list[str] = []
    warnings: list[str] = []
    _check_labels(task, train, dev, faults, warnings)
    _check_texts(task, train, dev, unlabelled, faults, warnings)
    if len(dev) < 2:
        faults.append(errors.explain("development set", "at least 2 rows", len(dev)))
    elif len(dev) < _FEW_DEV:
        width = 1.96 * 0.5 / np.sqrt(len(dev))
        warnings.append(
            f"The development set has {len(dev)} examples: a metric is known to about "
            f"±{width:.2f} only."
        )
    if lengths is not None and max_length is not None and len(lengths):
        _check_lengths(task, lengths, max_length, warnings)
    return DataFindings(tuple(faults), tuple(warnings))


def _check_labels(
    task: TaskSpec, train: Examples, dev: Examples, faults: list[str], warnings: list[str]
) -> None:
    alike = collections.defaultdict(list)
    for label in task.labels:
        alike[" ".join(unicodedata.normalize("NFKC", label).casefold().split())].append(label)
    for key, names in alike.items():
        if len(names) > 1:
            listed = " and ".join(map(repr, names))
            remedy = "Spell each label one way in the files."
            faults.append(errors.explain("labels", "names that differ", listed, remedy))
        elif not key:
            remedy = "Fill in or remove the rows without a label."
            faults.append(errors.explain("labels", "a name in every row", "an empty one", remedy))
    if task.kind != "classification" or train.labels is None:
        return
    if task.num_labels > len(train):
        faults.append(
            errors.explain(
                "training set", f"{task.num_labels} or more rows, one a class", len(train)
            )
        )
        return
    counts = np.bincount(train.labels, minlength=task.num_labels)
    if np.count_nonzero(counts) == 1:
        only = task.labels[int(counts.argmax())]
        faults.append(
            errors.explain("labels of the training set", "two or more classes", f"only {only!r}")
        )
    elif dev.labels is not None:
        unseen = [task.labels[index] for index in np.unique(dev.labels) if not counts[index]]
        if unseen:
            faults.append(
                errors.explain(
                    "labels of the development set",
                    "classes that the training set has",
                    _listed(unseen),
                    "Split the data again, with every class in both parts.",
                )
            )
    single = [task.labels[index] for index in np.flatnonzero(counts == 1)]
    if single:
        warnings.append(f"Classes with one training example: {_listed(single)}.")


def _check_texts(
    task: TaskSpec,
    train: Examples,
    dev: Examples,
    unlabelled: Sequence[str],
    faults: list[str],
    warnings: list[str],
) -> None:
    if task.kind in ("token", "span"):
        return
    for name, part in (("training", train), ("development", dev)):
        empty = sum(not text.strip() for text in part.texts)
        if empty == len(part):
            remedy = "Is it the right column?"
            faults.append(errors.explain(f"texts of the {name} set", "text", "none", remedy))
            return
        if empty:
            warnings.append(f"The {name} set has {empty} empty text(s) of {len(part)}.")
    keys, dev_keys = _keys(train), _keys(dev)
    if train.labels is not None and not task.regression:
        of_text: dict[tuple[str, ...], set[object]] = collections.defaultdict(set)
        for key, label in zip(keys, train.labels, strict=True):
            of_text[key].add(tuple(label) if np.ndim(label) else int(label))
        conflicting = [key for key, labels in of_text.items() if len(labels) > 1]
        if conflicting:
            warnings.append(
                f"{len(conflicting)} training text(s) have two or more different labels, such as "
                f"{_shown(conflicting)}."
            )
    known = set(keys)
    shared = [key for key in dev_keys if key in known]
    if len(shared) > len(dev) / 2:
        faults.append(
            errors.explain(
                "development set",
                "texts that the training set does not have",
                f"{len(shared)} of {len(dev)} that it has, such as {_shown(shared)}",
                "Split the data again: the metric would only show what was memorized.",
            )
        )
    elif shared:
        warnings.append(
            f"{len(shared)} of {len(dev)} development texts are training texts too, such as "
            f"{_shown(shared)}: the metric is too good by up to that share."
        )
    held_out = {key[0] for key in dev_keys}
    leaked = [text for text in unlabelled if _normal(text) in held_out]
    if leaked:
        faults.append(
            errors.explain(
                "unlabelled text",
                "no text of the development set",
                f"{len(leaked)}, such as {_cut(leaked[0])!r}",
                "Remove them: the student would learn the answers that it is tested on.",
            )
        )


def _check_lengths(
    task: TaskSpec, lengths: np.ndarray, max_length: int, warnings: list[str]
) -> None:
    share = float(np.mean(lengths > max_length))
    if task.kind == "span" or share <= _MOST_CUT:
        return
    wanted = int(np.quantile(lengths, 1 - _MOST_CUT))
    warnings.append(
        f"{share:.0%} of the training texts are longer than --max-length {max_length} and are cut; "
        f"{wanted} tokens would hold 90% of them."
    )


def _keys(examples: Examples) -> list[tuple[str, ...]]:
    pairs = examples.pairs or [""] * len(examples)
    return [(_normal(a), _normal(b)) for a, b in zip(examples.texts, pairs, strict=True)]


def _normal(text: str) -> str:
    """The text without differences of case and blanks."""
    return " ".join(text.casefold().split())


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _shown(keys: Sequence[tuple[str, ...]]) -> str:
    return repr(_cut(" | ".join(part for part in keys[0] if part)))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more
