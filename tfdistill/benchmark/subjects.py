"""A model file that is to be measured: what it is, which lengths it has, what it is fed with."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from tfdistill import errors
from tfdistill.benchmark import inputs
from tfdistill.benchmark.settings import Settings
from tfdistill.io import files, safe_paths
from tfdistill.manifest import FILE_NAME, Manifest, manifest_path, read_manifest
from tfdistill.tasks import KINDS
from tfdistill.tflite import roles
from tfdistill.tflite.described import check_signatures
from tfdistill.tflite.golden import Example, read_golden
from tfdistill.tflite.signature import Signature
from tfdistill.tokenization.reading import exported_tokenizer

_MOST_TEXTS = 32


@dataclasses.dataclass(frozen=True)
class Subject:
    """A model file ready to be measured."""

    name: str  # unique within one benchmark
    file: pathlib.Path  # the .tflite file
    sha256: str
    signatures: dict[int, Signature]  # signature by sequence length
    manifest: Manifest | None  # what model.json says, or None for a bare file
    vocab_file: pathlib.Path | None  # the vocabulary of the manifest, or None
    examples: tuple[Example, ...]  # what it is fed
    # where the examples come from: "golden", "task", "vocabulary" or "random"
    source: Literal["golden", "task", "vocabulary", "random"]

    @property
    def is_span(self) -> bool:
        """Whether it answers questions by a span of a text."""
        task = self.manifest.task if self.manifest is not None else None
        return task is not None and task.span is not None

    def lengths(self, settings: Settings) -> list[int]:
        """Returns those of its lengths that are to be measured, the shortest first."""
        lengths = settings.lengths
        return [n for n in sorted(self.signatures) if lengths is None or n in lengths]


def open_subject(
    path: files.Path,
    *,
    name: str | None = None,
    seed: int = 0,
    input_roles: Mapping[str, str] | None = None,
) -> Subject:
    """Finds the file, its manifest and its inputs, and checks that they belong together.

    The path is a folder that `tfdistill export` wrote, or a .tflite file; a model.json next to the
    file is used if it is about that file. The manifest's name, or the file's, is the default. Of
    `input_roles` see `roles.read_signatures`.
    """
    file, described = pathlib.Path(path), None
    if file.is_dir() or file.name == FILE_NAME:
        folder = file if file.is_dir() else file.parent
        described = read_manifest(folder)
        file = safe_paths.inside(folder, described.model.file)
    elif file.is_file() and manifest_path(file).is_file():
        described = read_manifest(file)
    if described is not None:
        check_signatures(described, file)
    signatures = roles.read_signatures(file, roles=input_roles)
    vocab_file = None
    if described is not None and described.tokenizer is not None:
        vocab_file = safe_paths.inside(file.parent, described.tokenizer.vocab.file)
    examples: tuple[Example, ...] = ()
    source: Literal["golden", "vocabulary", "random"] = "golden"
    if described is not None and described.golden_file is not None:
        examples = read_golden(safe_paths.inside(file.parent, described.golden_file.file))
    if not examples:
        rng = np.random.default_rng(seed)
        if described is not None and described.tokenizer is not None:
            source = "vocabulary"
            tokenizer = exported_tokenizer(file.parent, described.tokenizer)
            task = described.task
            pairs = task is not None and bool(task.pair or task.span)
            examples = tuple(
                e
                for n in signatures
                for e in inputs.examples_of_words(tokenizer, n, rng, pairs=pairs)
            )
        else:
            source = "random"
            examples = tuple(
                e
                for signature in signatures.values()
                for e in inputs.random_examples(signature, rng, file)
            )
    digest = described.model.sha256 if described is not None else files.sha256_of(file)
    label = name or (described.name if described is not None else file.stem)
    return Subject(label, file, digest, signatures, described, vocab_file, examples, source)


def open_all(
    models: Sequence[files.Path] | Mapping[str, files.Path],
    settings: Settings,
    examples: Sequence[Example],
) -> list[Subject]:
    """Opens the files of a benchmark, at least one, under unique names or a mapping's.

    All are fed with `examples`, each with its own where there are none. Raises BenchmarkError if no
    file has a length that is asked for.
    """
    named: Iterable[tuple[str | None, files.Path]]
    named = models.items() if isinstance(models, Mapping) else [(None, path) for path in models]
    subjects = [
        open_subject(path, name=name, seed=settings.seed, input_roles=settings.roles)
        for name, path in named
    ]
    if examples:
        subjects = [
            dataclasses.replace(subject, examples=tuple(examples), source="task")
            for subject in subjects
        ]
    names = _unique_names(subjects)
    subjects = [
        dataclasses.replace(subject, name=name)
        for subject, name in zip(subjects, names, strict=True)
    ]
    if not subjects:
        raise errors.BenchmarkError("models", "at least one file", "none")
    available = sorted({length for subject in subjects for length in subject.signatures})
    unknown = sorted(set(settings.lengths or ()) - set(available))
    if unknown or settings.lengths == ():
        raise errors.BenchmarkError("lengths", f"some of {available}", unknown or "none")
    return subjects


def baseline_of(subjects: Sequence[Subject], baseline: str | None) -> str:
    """Returns the name of the file that the others are compared with: the first by default."""
    names = [subject.name for subject in subjects]
    if baseline is not None and baseline not in names:
        raise errors.BenchmarkError(
            "baseline", f"one of {names}", repr(baseline), errors.nearest(baseline, names)
        )
    return baseline or names[0]


def _unique_names(subjects: Sequence[Subject]) -> list[str]:
    """Names files of one name by the nearest folders whose names differ, else by numbers."""
    names: list[str] = []
    for subject in subjects:
        same_name = [other.file.resolve() for other in subjects if other.name == subject.name]
        levels = zip(*(reversed(file.parent.parts) for file in same_name), strict=False)
        differ = next(
            (i for i, parts in enumerate(levels) if len({*parts}) == len(parts) > 1), None
        )
        first = subject.name
        if differ is not None:
            first = subject.file.resolve().parents[differ].name
        tries = itertools.chain((first,), (f"{first} ({i})" for i in itertools.count(2)))
        names.append(next(name for name in tries if name not in names))
    return names


def feeds_for(subject: Subject, length: int, *, limit: int = 64) -> list[dict[str, list[int]]]:
    """Chooses at least one example to measure a length with: ids and token types without padding.

    Those are taken for which it is the shortest length that fits; if there are none, those that are
    shorter; if there are none either, longer ones cut to size (their last token is kept).
    """
    shorter = max((n for n in subject.signatures if n < length), default=0)
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


def texts_for(
    subjects: Sequence[Subject], words: int | None = None
) -> dict[str, list[tuple[str, str | None]]]:
    """Chooses the texts for the files that can read text, by name: those of the first that has any.

    All read the same texts, except that a file for questions gets only those that fit into one of
    its windows: a program would ask it several times about a longer one. With `words` each text has
    so many: it begins at one of the texts and continues with those after it, and a pair has half of
    them on either side. A file that would read one of them in several parts gets none.
    """
    recorded = [[(e.text, e.pair) for e in s.examples if e.text is not None] for s in subjects]
    texts = next(filter(None, recorded), [])[:_MOST_TEXTS]
    chosen = {}
    for subject, texts_of_file in zip(subjects, recorded, strict=True):
        fitting = [text for text in texts if text in texts_of_file] if subject.is_span else texts
        if words is not None:
            fitting = _of_words(fitting, words)
            task = subject.manifest.task if subject.manifest is not None else None
            cuts = task is None or KINDS[task.kind].cuts_texts
            if not cuts and tokens_of(subject, fitting) > max(subject.signatures):
                continue
        if subject.vocab_file is not None and fitting:
            chosen[subject.name] = fitting
    return chosen


def tokens_of(subject: Subject, texts: Sequence[tuple[str, str | None]]) -> int:
    """The tokens of the longest of some texts, before any is cut; 0 without a tokenizer."""
    if subject.manifest is None or subject.manifest.tokenizer is None:
        return 0
    encode = exported_tokenizer(subject.file.parent, subject.manifest.tokenizer).encode_typed
    return max((len(encode(text, pair, sys.maxsize)[0]) for text, pair in texts), default=0)


def _of_words(texts: Sequence[tuple[str, str | None]], number: int) -> list[tuple[str, str | None]]:
    """Makes of each text one of so many words, see `texts_for`; none where there are no words."""
    words = [f"{text} {pair or ''}".split() for text, pair in texts]
    longer = []
    for start, (_, pair) in enumerate(texts if any(words) else ()):
        endless = itertools.cycle(itertools.chain(*words[start:], *words[:start]))
        drawn = list(itertools.islice(endless, number))
        half = number if pair is None else number // 2
        longer.append((" ".join(drawn[:half]), None if pair is None else " ".join(drawn[half:])))
    return longer


def _cut(ids: tuple[int, ...], length: int) -> list[int]:
    return list(ids) if len(ids) <= length else [*ids[: length - 1], ids[-1]]
