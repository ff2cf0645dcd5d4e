"""Faults of labelled data that would mislead whoever trains on it, found before any training."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.data.unlabelled import example_keys, example_numbers
from tfdistill.tasks import Examples, TaskSpec, label_cells, pair_metrics

if TYPE_CHECKING:
    from tfdistill.tokenization.tokenizer import Tokenizer

_SHOWN = 3  # examples of a fault that a message shows
_MOST_SIMILAR = 0.02  # share of development texts that may be similar to training texts
_MOST_CUT = 0.10  # share of texts that may be cut without a word
_LONGEST_INPUT = 512  # tokens that BERT's position table serves
_FEW_CLASSES = 5  # classes of one example that are rare, not a wrong column
_MOST_OF_A_LABEL = 0.99  # share of the rows above which accuracy says nothing
_RARE = 0.1  # rows of a label for one of the most frequent label
_FOR_RARE = (
    "data.metrics=[macro_f1,accuracy], and weigh rare labels with data.class_weights=balanced "
    "(--class-weights)"
)
_FEW_ROWS = 20  # fewer may have one label by chance
_MOST_UNKNOWN = 0.05  # share of the words
_FEW_DEV = 50  # development examples below which a metric is mostly noise


@dataclasses.dataclass(frozen=True)
class DataFindings:
    """The findings.

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
    lengths: np.ndarray | None = None,
    max_length: int | None = None,
) -> DataFindings:
    """Looks for what would mislead; every finding has a count and a first location.

    Faults: a label in more than 99% of the rows, or in all of the development set, while accuracy
    chooses the model; empty labels; labels that are the same to a person; only one class, or only
    one number, in the training set; classes that only the development set has; more classes than
    training rows, or classes of a single row in most rows; fewer than two development rows; no text
    at all; a development set of which more than half is in the training set. Warnings: blank lines,
    empty texts, texts with two labels, a rare label where accuracy
    chooses the model, development texts that are training texts, classes with one
    example, a small development set, more than 10% of the texts cut.

    Args:
      task: The task, with its labels.
      train: The training set.
      dev: The development set; `train` itself where that is cross-validated.
      lengths: int (n,), tokens of each training text without a limit.
      max_length: The limit; longer texts are cut.
    """
    faults: list[str] = []
    warnings: list[str] = []
    if task.traits.one_number:
        _check_numbers(train, "training", faults)
    elif task.traits.vectors and set(task.metrics) & set(pair_metrics.SIMILARITY):
        _check_numbers(dev, "development", faults)
    elif task.traits.row_a_text or task.traits.tags_words:
        _check_names(task, train, faults)
    if task.traits.many_classes and train.labels is not None:
        bare = np.flatnonzero(~train.labels.any(axis=1))
        if 0 < len(bare) < len(train):
            warnings.append(
                f"{len(bare)} of {len(train)} training rows have no label "
                f"({_located(train, bare)}): they teach that none holds. Leave out those that "
                "nobody labelled."
            )
    if task.traits.one_class:
        _check_classes(task, train, dev, faults, warnings)
    if not task.traits.over_tokens:
        _check_texts(task, train, dev, faults, warnings)
        if dev is not train:  # the same object is cross-fitted
            _check_overlap(train, dev, faults, warnings)
    if dev.num_scored < 2:
        faults.append(errors.explain("development set", "at least 2 rows", dev.num_scored))
    elif dev.num_scored < _FEW_DEV:
        width = 1.96 * 0.5 / np.sqrt(dev.num_scored)
        what = "Cross-validation" if dev is train else "The development set"
        warnings.append(
            f"{what} has {dev.num_scored} examples: a metric is known to about ±{width:.2f} only."
        )
    if lengths is not None and max_length is not None and len(lengths):
        _check_lengths(train, lengths, max_length, warnings)
    return DataFindings(tuple(faults), tuple(warnings))


def _check_numbers(part: Examples, name: str, faults: list[str]) -> None:
    if part.labels is not None and len(part) and np.ptp(part.labels) == 0:
        received = f"only {part.labels[0]:g}"
        faults.append(
            errors.explain(f"numbers of the {name} set", "two or more different ones", received)
        )


def _check_names(task: TaskSpec, train: Examples, faults: list[str]) -> None:
    """Finds empty names and names that are the same to a person."""
    alike = collections.defaultdict(list)
    for index, label in enumerate(task.labels):
        alike[label_cells.same_label(label)].append(index)
    for key, indices in alike.items():
        listed = " and ".join(_rows_with(task, train, index) for index in indices)
        if not key:
            remedy = "Fill in or remove the rows without a label."
            faults.append(errors.explain("labels", "a name in every row", listed, remedy))
        elif len(indices) > 1:
            remedy = "Spell each label one way in the files."
            faults.append(errors.explain("labels", "names that differ", listed, remedy))


def _rows_with(task: TaskSpec, examples: Examples, index: int) -> str:
    """Shows a label: how many examples have it, and the first one."""
    name = repr(task.labels[index])
    if examples.labels is None:
        return name
    if examples.word_offsets is not None:
        having = np.array([index in tags for tags in examples.labels])
    elif examples.labels.ndim == 2:
        having = examples.labels[:, index] > 0
    else:
        having = examples.labels == index
    return f"{name} ({_located(examples, np.flatnonzero(having))})"


def _located(examples: Examples, indices: Sequence[int] | np.ndarray) -> str:
    """Counts examples and names the first: "3, first train.tsv, line 17"."""
    if not len(indices):
        return "0"
    where = examples.location(int(indices[0]))
    return where if len(indices) == 1 else f"{len(indices)} examples, first {where}"


def _check_classes(
    task: TaskSpec, train: Examples, dev: Examples, faults: list[str], warnings: list[str]
) -> None:
    if train.labels is None:
        return
    counts = np.bincount(train.labels, minlength=task.num_labels)
    single = np.flatnonzero(counts == 1)
    many = f"{task.num_labels} classes in {len(train)} rows"
    if len(single) > max(_FEW_CLASSES, len(train) / 2):
        many += f", {len(single)} of them in one row"
    if task.num_labels > len(train) or len(single) > max(_FEW_CLASSES, len(train) / 2):
        remedy = "Is it the column of the labels? For numbers choose the kind regression."
        faults.append(errors.explain("training set", "several rows of each class", many, remedy))
        return
    if np.count_nonzero(counts) == 1:
        only = task.labels[int(counts.argmax())]
        faults.append(
            errors.explain("labels of the training set", "two or more classes", f"only {only!r}")
        )
    elif dev.labels is not None:
        unseen = [index for index in np.unique(dev.labels) if not counts[index]]
        if unseen:
            faults.append(
                errors.explain(
                    "labels of the development set",
                    "classes that the training set has",
                    _listed([_rows_with(task, dev, int(index)) for index in unseen]),
                    "Split the data again, with every class in both parts.",
                )
            )
    _check_majority(task, train, dev, faults, warnings)
    if len(single):
        shown = _listed([_rows_with(task, train, int(index)) for index in single])
        warnings.append(f"{len(single)} class(es) with one training example: {shown}.")


def _check_majority(
    task: TaskSpec, train: Examples, dev: Examples, faults: list[str], warnings: list[str]
) -> None:
    for name, part in (("training", train), ("development", dev)):
        if part.labels is None or len(part) < _FEW_ROWS:
            continue
        counts = np.bincount(part.labels, minlength=task.num_labels)
        share = counts.max() / len(part)
        label = task.labels[int(counts.argmax())]
        if name == "development" and share == 1:
            faults.append(
                errors.explain(
                    "labels of the development set",
                    "two or more classes",
                    f"only {label!r}: whoever always answers it is right in every row",
                    "Split the data again, with every class in both parts.",
                )
            )
        elif share > _MOST_OF_A_LABEL and task.primary_metric == "accuracy":
            faults.append(
                errors.explain(
                    f"labels of the {name} set",
                    f"no label in more than {_MOST_OF_A_LABEL:.0%} of the rows where accuracy "
                    "chooses the model",
                    f"{label!r} in {share:.1%}: whoever always answers it has that accuracy",
                    f"Set {_FOR_RARE}.",
                )
            )
            return
        elif name == "training" and task.primary_metric == "accuracy":
            rarest = int(np.where(counts > 0, counts, len(part)).argmin())
            if counts[rarest] < _RARE * counts.max():
                warnings.append(
                    f"The label {task.labels[rarest]!r} has {counts[rarest]} of {len(part)} "
                    f"training rows, and accuracy hides it: set {_FOR_RARE}."
                )


def check_words(ids: np.ndarray, tokenizer: Tokenizer) -> DataFindings:
    """Looks for words that a vocabulary cannot write; marks of punctuation do not count.

    Args:
      ids: int (pieces,) of all texts, not cut, without special tokens.
      tokenizer: A tokenizer of word pieces, to which a word that it cannot write is one [UNK].

    Returns:
      A fault where more than 5% of the words are unknown.
    """
    begins = np.array([tokenizer.word_of(token).isalnum() for token in tokenizer.vocab])
    begins[tokenizer.unk_id] = True
    words = np.count_nonzero(begins[ids])
    unknown = np.count_nonzero(ids == tokenizer.unk_id)
    if unknown <= _MOST_UNKNOWN * words:
        return DataFindings()
    return DataFindings(
        (
            errors.explain(
                "words of the training set",
                f"at most {_MOST_UNKNOWN:.0%} that the vocabulary cannot write",
                f"{unknown / words:.0%} of the words are unknown to this vocabulary",
                "Take a teacher of the language and script of the texts, or set "
                "teacher.allow_weak=true.",
            ),
        )
    )


def _check_texts(
    task: TaskSpec,
    train: Examples,
    dev: Examples,
    faults: list[str],
    warnings: list[str],
) -> None:
    """Looks for blank and empty texts, and for texts with two labels."""
    parts = {"training": train} | ({} if dev is train else {"development": dev})
    for name, part in parts.items():
        if part.blank_lines and part.path is not None:
            warnings.append(
                f"{part.path.name} has {len(part.blank_lines)} blank line(s), first line "
                f"{part.blank_lines[0]}: they are left out."
            )
        empty = [index for index, text in enumerate(part.texts) if not text.strip()]
        if len(part) and len(empty) == len(part):
            remedy = "Is it the right column?"
            faults.append(errors.explain(f"texts of the {name} set", "text", "none", remedy))
        elif empty:
            warnings.append(
                f"The {name} set has {len(empty)} empty text(s) of {len(part)}: "
                f"{_located(part, empty)}."
            )
    if train.labels is None or task.traits.one_number:
        return
    (texts,) = example_numbers(train)
    _, first, labels_of = np.unique(texts, return_index=True, return_inverse=True)
    differ = train.labels != train.labels[first[labels_of]]  # from that of the first such text
    differ = differ.any(axis=1) if differ.ndim > 1 else differ
    conflicting = np.unique(first[labels_of[differ]])  # the first example of each text
    if len(conflicting):
        warnings.append(
            f"{len(conflicting)} training text(s) have two or more different labels: "
            f"{_shown(train, conflicting)} ({_located(train, conflicting)})."
        )


def _check_overlap(train: Examples, dev: Examples, faults: list[str], warnings: list[str]) -> None:
    """Tells of the development texts that are training texts too, or similar to one."""
    (texts, dev_texts), (groups, dev_groups) = (
        example_numbers(train, dev, similar=similar) for similar in (False, True)
    )
    same, similar = np.isin(dev_texts, texts), np.isin(dev_groups, groups)
    many = same.sum() > len(dev) / 2
    told = similar if not many and similar.sum() > _MOST_SIMILAR * len(dev) else same
    shared = np.flatnonzero(told)
    if not len(shared):
        return
    count = f"{len(shared)} of {len(dev)}"
    shown = f"{_shown(dev, shared)} ({_located(dev, shared)})"
    if many:
        faults.append(
            errors.explain(
                "development set",
                "texts that the training set does not have",
                f"{count} that it has: {shown}",
                "Split the data again: the metric would only show what was memorized.",
            )
        )
        return
    apart = "" if same[shared].all() else " but for digits, punctuation or the order of a pair"
    warnings.append(
        f"{count} development texts are training texts too{apart}: {shown}. The metric is too "
        "good by up to that share."
    )


def _check_lengths(
    train: Examples, lengths: np.ndarray, max_length: int, warnings: list[str]
) -> None:
    longer = np.flatnonzero(lengths > max_length)
    if len(longer) <= _MOST_CUT * len(lengths):
        return
    wanted = 16 * math.ceil(np.quantile(lengths, 1 - _MOST_CUT) / 16)
    reached = min(wanted, _LONGEST_INPUT)
    advice = (
        f"max_length {reached} would hold {np.mean(lengths <= reached):.0%} of them."
        if reached > max_length
        else f"a BERT reads at most {_LONGEST_INPUT}."
    )
    warnings.append(
        f"{len(longer) / len(lengths):.0%} of the training texts are longer than max_length "
        f"{max_length} and are cut ({_located(train, longer)}): {advice}"
    )


def _shown(examples: Examples, indices: np.ndarray) -> str:
    (key,) = example_keys(examples.select(indices[:1]))
    return repr(errors.shortened(" | ".join(part for part in key if part)))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
