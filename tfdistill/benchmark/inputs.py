"""What a model is fed: real sentences where there are any, made-up ones that are said to be."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any, Literal

import numpy as np

from tfdistill import errors, files, manifest
from tfdistill.benchmark import modelfile

NUM_GENERATED = 16  # examples per length where none are recorded
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclasses.dataclass(frozen=True)
class Example:
    """One input: ids without padding, and the text that they came from where it is known."""

    input_ids: tuple[int, ...]
    token_type_ids: tuple[int, ...]
    text: str | None = None
    pair: str | None = None


@dataclasses.dataclass(frozen=True)
class LabelledExample(Example):
    """An example of a task, as the file is fed with it.

    Attributes:
      label: What is right: the class, a number of a regression, 0 or 1 for each of several labels,
        for words the class of each token (-100: none), for a question the first and last token of
        the answer; None where it is not known.
    """

    label: int | float | tuple[float, ...] | tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Subject:
    """A model file ready to be measured.

    Attributes:
      name: Unique within one benchmark.
      file: The .tflite file.
      sha256: Its checksum.
      entries: Entry point by sequence length.
      card: The manifest, or None for a bare file.
      vocab_file: The vocabulary beside the manifest, or None.
      examples: What it is fed.
      source: Where the examples come from: "golden", "task", "vocabulary" or "random".
    """

    name: str
    file: pathlib.Path
    sha256: str
    entries: dict[int, modelfile.EntryPoint]
    card: manifest.Manifest | None
    vocab_file: pathlib.Path | None
    examples: tuple[Example, ...]
    source: Literal["golden", "task", "vocabulary", "random"]


def open_subject(path: files.Path, *, name: str | None = None, seed: int = 0) -> Subject:
    """Finds the file, its manifest and its inputs, and checks that they belong together.

    Args:
      path: A folder that `tfdistill export` wrote, or a .tflite file. A model.json beside the file
        is used if it is about that file.
      name: How to call it; the manifest's name, or the file's, by default.
      seed: Seed of generated inputs.

    Returns:
      The subject.

    Raises:
      BenchmarkError: If the file cannot be measured.
      ManifestError: If the manifest is malformed, or a checksum differs.
    """
    file, card = _locate(pathlib.Path(path))
    entries = modelfile.read_entry_points(file)
    vocab_file = None
    if card is not None and card.tokenizer is not None:
        vocab_file = files.inside(file.parent, card.tokenizer.vocab.file)
    examples: tuple[Example, ...] = ()
    source: Literal["golden", "vocabulary", "random"] = "golden"
    if card is not None and card.golden_file is not None:
        examples = read_golden(files.inside(file.parent, card.golden_file.file))
    if not examples:
        rng = np.random.default_rng(seed)
        if vocab_file is not None:
            source, vocab = "vocabulary", _read_vocab(vocab_file)
            two = card is not None and card.task is not None and (card.task.pair or card.task.span)
            examples = tuple(
                e for n in entries for e in examples_of_words(vocab, n, rng, pairs=bool(two))
            )
        else:
            source = "random"
            examples = tuple(e for entry in entries.values() for e in _random(entry, rng, file))
    digest = card.model.sha256 if card is not None else files.sha256_of(file)
    label = name or (card.name if card is not None else file.stem)
    return Subject(label, file, digest, entries, card, vocab_file, examples, source)


def read_golden(path: files.Path) -> tuple[Example, ...]:
    """Reads the examples of a golden.json.

    Raises:
      BenchmarkError: If it is not valid.
    """
    try:
        content = json.loads(pathlib.Path(path).read_bytes())
        return tuple(_golden_example(example) for example in content["examples"])
    except (KeyError, TypeError, ValueError) as error:
        raise errors.BenchmarkError(
            errors.explain(f"{path}", "a golden.json with examples", repr(error), "Export again.")
        ) from error


def _golden_example(example: dict[str, Any]) -> Example:
    ids = tuple(int(i) for i in example["input_ids"])
    types = tuple(int(i) for i in example.get("token_type_ids") or [0] * len(ids))
    if not ids or len(types) != len(ids):
        raise ValueError(f"{len(ids)} ids and {len(types)} token types")
    return Example(ids, types, example.get("text"), example.get("pair"))


def examples_of_words(
    vocab: list[str],
    length: int,
    rng: np.random.Generator,
    count: int = NUM_GENERATED,
    *,
    pairs: bool = False,
) -> list[Example]:
    """Makes sentences of whole words of a vocabulary that fill between half and all of `length`.

    Every word is one entry of the vocabulary, so the ids are known without a tokenizer.

    Args:
      vocab: The entries in order of their ids.
      length: Tokens, [CLS] and [SEP] included.
      rng: Source of the choice.
      count: How many sentences.
      pairs: Whether each is a pair: the first third of its words, and the others.

    Returns:
      The examples, with their texts.

    Raises:
      VocabularyError: If [CLS], [SEP] or words are missing.
    """
    words = [i for i, entry in enumerate(vocab) if entry.isalpha() and entry == entry.lower()]
    if not words or "[CLS]" not in vocab or "[SEP]" not in vocab:
        raise errors.VocabularyError(
            errors.explain(
                "vocabulary", "[CLS], [SEP] and whole words", f"{len(words)} words of {len(vocab)}"
            )
        )
    cls, sep = vocab.index("[CLS]"), vocab.index("[SEP]")
    examples = []
    special = 3 if pairs else 2
    for _ in range(count):
        low, high = max(1, length // 2 - 1), max(2, length - special + 1)
        drawn = [
            int(i) for i in rng.choice(words, size=int(rng.integers(min(low, high - 1), high)))
        ]
        cut = max(1, len(drawn) // 3) if pairs and len(drawn) > 1 else len(drawn)
        first, second = drawn[:cut], drawn[cut:]
        ids = (cls, *first, sep, *second, *([sep] if second else []))
        types = (0,) * (cut + 2) + (1,) * (len(ids) - cut - 2)
        text, pair = (" ".join(vocab[i] for i in part) for part in (first, second))
        examples.append(Example(ids, types, text, pair or None))
    return examples


def feeds_for(subject: Subject, length: int, *, limit: int = 64) -> list[dict[str, list[int]]]:
    """Chooses the examples that a length is measured with.

    Those are taken for which it is the shortest length that fits; if there are none, those that
    are shorter; if there are none either, longer ones cut to size (their last token is kept).

    Args:
      subject: The model.
      length: One of its sequence lengths.
      limit: The most examples to return.

    Returns:
      input_ids and token_type_ids without padding, at least one.
    """
    shorter = max((n for n in subject.entries if n < length), default=0)
    sizes = [len(example.input_ids) for example in subject.examples]
    for low, high in ((shorter, length), (0, length), (0, max(sizes))):
        chosen = [e for e, n in zip(subject.examples, sizes, strict=True) if low < n <= high]
        if chosen:
            break
    return [
        {
            "input_ids": _cut(example.input_ids, length),
            "token_type_ids": _cut(example.token_type_ids, length),
        }
        for example in chosen[:limit]
    ]


def texts_for(subjects: list[Subject], *, limit: int = 32) -> list[tuple[str, str | None]]:
    """Returns the texts of the first subject that has any: all subjects get the same ones."""
    for subject in subjects:
        texts = [(e.text, e.pair) for e in subject.examples if e.text is not None]
        if texts:
            return texts[:limit]
    return []


def _read_vocab(path: pathlib.Path) -> list[str]:
    # Not splitlines(): real vocabularies hold U+2028 as a token.
    text = path.read_bytes().decode("utf-8-sig")
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _cut(ids: tuple[int, ...], length: int) -> list[int]:
    return list(ids) if len(ids) <= length else [*ids[: length - 1], ids[-1]]


def _random(
    entry: modelfile.EntryPoint, rng: np.random.Generator, file: pathlib.Path
) -> list[Example]:
    if entry.vocabulary_rows is None:
        raise errors.BenchmarkError(
            errors.explain(
                f"{file}",
                "a model.json beside it, or ids that are looked up in a table",
                "neither",
                "Without them no valid token ids are known.",
            )
        )
    length = entry.sequence_length
    examples = []
    for _ in range(NUM_GENERATED):
        number = int(rng.integers(max(1, length // 2), length + 1))
        ids = tuple(int(i) for i in rng.integers(0, entry.vocabulary_rows, size=number))
        examples.append(Example(ids, (0,) * number))
    return examples


def _locate(path: pathlib.Path) -> tuple[pathlib.Path, manifest.Manifest | None]:
    if path.is_dir() or path.name == manifest.FILE_NAME:
        folder = path if path.is_dir() else path.parent
        card = manifest.read_manifest(folder)
        return files.inside(folder, card.model.file), card
    beside = manifest.manifest_path(path)
    if not path.is_file() or not beside.is_file():
        return path, None
    return path, manifest.read_manifest(beside)
