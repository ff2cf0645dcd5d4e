"""An augmented training set as a file: written in parts, resumable, byte for byte the same."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tqdm

from tfdistill import errors, tasks
from tfdistill.augmentation import variants
from tfdistill.augmentation.candidates import CandidateFinder
from tfdistill.data import parallel
from tfdistill.io import files, ledger, reading, work_folder
from tfdistill.tasks import Examples

FORMAT_VERSION = 1
_SAME = "an augmentation of the same inputs and options"
KIND = "augmentation"
MANIFEST = "augmentation.json"
FILE = "train.tsv"
PARTS = "parts-"  # begins the name of the folder with the parts

Load = Callable[[], tuple[Examples, CandidateFinder]]


@dataclasses.dataclass(frozen=True)
class Augmented:
    """An augmented training set.

    Attributes:
      file: The TSV file, in a folder that `load_examples` takes as source of the train split.
      num_examples: The examples that it was made from.
      num_rows: Rows of the file.
      num_augmented: Rows that are not examples as they were.
    """

    file: pathlib.Path
    num_examples: int
    num_rows: int
    num_augmented: int


@dataclasses.dataclass(frozen=True)
class _Inputs:
    train: Examples
    labels: Sequence[str]
    finder: CandidateFinder

    def identity(self, options: variants.AugmentOptions) -> dict[str, Any]:
        """Everything that decides what comes out."""
        fingerprint = _fingerprint(self.train, self.labels)
        return {**fingerprint, **self.finder.identity(), **dataclasses.asdict(options)}


@dataclasses.dataclass(frozen=True)
class _Augmentation:
    """Augments ranges of examples, each into a file of rows."""

    load: Load | None  # only for workers elsewhere
    options: variants.AugmentOptions
    identity: dict[str, Any]

    def setup(self) -> _Inputs:
        assert self.load is not None
        train, finder = self.load()
        inputs = _Inputs(train, _label_cells(train), finder)
        same = inputs.identity(self.options)
        ledger.check_same(same, self.identity, _SAME, "", what="inputs of a worker")
        return inputs

    def process(self, unit: parallel.WorkUnit, tools: _Inputs) -> None:
        rows = _rows(tools, unit.task, self.options)
        files.atomic_write_text(unit.target, "".join(f"{row}\n" for row in rows))


def augment_train(
    train: Examples,
    finder: CandidateFinder,
    options: variants.AugmentOptions,
    folder: files.Path,
    *,
    shard_size: int = 500,
    pipeline: Sequence[str] | None = None,
    load: Load | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Augmented:
    """Writes the augmented training set of a task.

    ``train.tsv`` has the task's columns, each example followed by its augmented ones, with its
    label by name; `load_examples` reads it (for a task whose files are folders: as
    ``dataclasses.replace(spec, layout="table")``). Of a pair one text is changed at a time.
    Augmented texts are BERT's words with a space between them, in lower case where the tokenizer
    lower-cases: to the tokenizer the words that were not exchanged are what they were.

    Examples are done in shards, each a file that is whole or absent; a run that was stopped goes
    on with the first that is missing. What comes out depends on the examples, the finder and the
    options alone: the shards, batches and interruptions leave no trace.

    Args:
      train: The training examples. Never augment those of a development or test set.
      finder: Finds the candidates; its K is that of the options.
      options: How much is exchanged.
      folder: Gets train.tsv, augmentation.json (settings, hashes of all inputs, rows) and, until
        it is done, its parts.
      shard_size: Examples of a part.
      pipeline: Options of Apache Beam, whose workers make the parts then, see
        `preparation.prepare_corpus`.
      load: With `pipeline`: gives `train` and `finder` to a worker, which compares their hashes;
        a function of a module, or a `functools.partial` of one.
      resume: Whether to continue an earlier run of the same inputs and options.
      overwrite: Whether to begin again where an earlier run is.

    Returns:
      The file and its rows.

    Raises:
      DataError: If the examples have no labels, or labels that a TSV cell cannot hold.
      ConfigError: If the earlier run had other inputs or options, the task is one of tags or
        spans, or finder and options disagree.
      OutputExistsError: If the folder holds an earlier run and neither `resume` nor `overwrite` is
        given, or a training set that is none.
    """
    inputs = _Inputs(train, _label_cells(train), finder)
    _check_request(train, finder, options, shard_size)
    if pipeline is not None:
        if load is None:
            raise errors.ConfigError("load", "a function for the workers", load)
        parallel.check_pipeline(pipeline, folder)
        folder = os.path.abspath(folder)
    identity = inputs.identity(options)
    folder = pathlib.Path(folder)
    with work_folder.WorkFolder(folder, KIND).open(resume=resume, overwrite=overwrite):
        record = _open_folder(folder, identity, shard_size)
        if not is_whole(folder):
            todo = _units(folder, record, len(train))
            left = [unit for unit in todo if not pathlib.Path(unit.target).is_file()]
            work = _Augmentation(load, options, identity)
            done = len(train) - sum(len(unit.task) for unit in left)
            with tqdm.tqdm(
                total=len(train), initial=done, unit="example", desc="augment", disable=None
            ) as bar:
                for unit in parallel.run(work, left, pipeline=pipeline, tools=inputs):
                    bar.update(len(unit.task))
            num_rows = _join([unit.target for unit in todo], _header(train), folder / FILE)
            record |= {
                "complete": True,
                "num_rows": num_rows,
                "num_augmented": num_rows - (len(train) if options.keep_originals else 0),
                "sha256": files.sha256_of(folder / FILE),
            }
            files.atomic_write_json(folder / MANIFEST, record)
        for parts in folder.glob(f"{PARTS}*"):
            shutil.rmtree(parts, ignore_errors=True)
        return Augmented(folder / FILE, len(train), record["num_rows"], record["num_augmented"])


def is_whole(folder: files.Path) -> bool:
    """Whether a folder of `augment_train` holds the training set that was written there.

    Raises:
      DataError: If its manifest is damaged.
    """
    manifest, file = pathlib.Path(folder) / MANIFEST, pathlib.Path(folder) / FILE
    if not manifest.is_file() or not file.is_file():
        return False
    written = reading.read_json_object(manifest).get("sha256")
    return written == files.sha256_of(file)


def load_augmented(folder: files.Path, task: tasks.TaskSpec) -> tasks.Examples:
    """Reads the training set that `augment_train` wrote into a folder for a task."""
    return tasks.load_examples(dataclasses.replace(task, layout="table"), folder, "train")


def _units(folder: pathlib.Path, record: dict[str, Any], count: int) -> list[parallel.WorkUnit]:
    """Cuts the examples into units; the folder of their files belongs to these inputs alone."""
    size = record["shard_size"]
    digest = hashlib.sha256(json.dumps([record["identity"], size], sort_keys=True).encode())
    parts = folder / f"{PARTS}{digest.hexdigest()[:16]}"
    units = []
    for number, start in enumerate(range(0, count, size)):
        part = range(start, min(start + size, count))
        what = f"examples {part[0]} to {part[-1]}"
        units.append(parallel.WorkUnit(what, str(parts / f"part-{number:05d}.tsv"), part))
    return units


def _rows(inputs: _Inputs, shard: range, options: variants.AugmentOptions) -> Iterator[str]:
    """Yields the lines of a shard."""
    train, labels = inputs.train, inputs.labels
    sides = [train.texts] if train.pairs is None else [train.texts, train.pairs]
    replaceable = inputs.finder.find([side[index] for side in sides for index in shard])
    for offset, index in enumerate(shard):
        cells = [variants.cell(side[index]) for side in sides]
        if options.keep_originals:
            yield "\t".join([*cells, labels[index]])
        texts = replaceable[offset :: len(shard)]
        for which, form in variants.augmented_pairs(index, texts, options):
            changed = [*cells[:which], form, *cells[which + 1 :], labels[index]]
            yield "\t".join(changed)


def _header(train: Examples) -> str:
    spec = train.spec
    columns = (spec.text_column, spec.pair_column, spec.label_column)
    return "\t".join(column for column in columns if column is not None)


def _join(paths: Sequence[str], header: str, target: pathlib.Path) -> int:
    """Puts the parts behind each other and returns the number of rows."""
    rows = 0
    with files.atomic_write(target) as temporary, open(temporary, "wb") as out:
        out.write(f"{header}\n".encode())
        for path in paths:
            content = pathlib.Path(path).read_bytes()
            rows += content.count(b"\n")
            out.write(content)
    return rows


def _label_cells(train: Examples) -> list[str]:
    """Returns the label of each example as the task's files spell it."""
    spec = train.spec
    if train.labels is None:
        raise errors.DataError(
            "augmentation",
            "labelled training examples",
            "examples without labels",
            "Development and test sets are never augmented.",
        )
    names = spec.label_values or spec.labels
    cells = [spec.traits.cell(spec, label) for label in train.labels]
    for name in names:
        if variants.cell(name) != name:
            raise errors.DataError("label", "a name without tab or line break", repr(name))
    return cells


def _check_request(
    train: Examples, finder: CandidateFinder, options: variants.AugmentOptions, shard_size: int
) -> None:
    if not len(train):
        raise errors.DataError("augmentation", "at least one example", "none")
    if shard_size < 1:
        raise errors.ConfigError("shard_size", "at least 1", shard_size)
    if finder.num_candidates != options.num_candidates:
        raise errors.ConfigError(
            "num_candidates of the finder", options.num_candidates, finder.num_candidates
        )


def _fingerprint(train: Examples, labels: Sequence[str]) -> dict[str, Any]:
    digest = hashlib.sha256()
    sides = [train.texts, *([] if train.pairs is None else [train.pairs]), labels]
    for row in zip(*sides, strict=True):
        digest.update(("\t".join(map(variants.cell, row)) + "\n").encode())
    return {
        "task": train.spec.name,
        "columns": _header(train),
        "num_examples": len(train),
        "examples_sha256": digest.hexdigest(),
    }


def _open_folder(folder: pathlib.Path, identity: dict[str, Any], shard_size: int) -> dict[str, Any]:
    """Returns the manifest to continue with: an earlier one, or a new one that it has written."""
    manifest = folder / MANIFEST
    if manifest.is_file():
        return _earlier(manifest, identity)
    record = {
        "format_version": FORMAT_VERSION,
        "complete": False,
        "identity": identity,
        "shard_size": shard_size,
    }
    files.atomic_write_json(manifest, record)
    return record


def _earlier(manifest: pathlib.Path, identity: dict[str, Any]) -> dict[str, Any]:
    record = reading.read_json_object(manifest, expected="the manifest of an augmentation")
    try:
        version, before = record["format_version"], record["identity"]
    except KeyError as error:
        raise errors.DataError(
            f"{manifest}", "the manifest of an augmentation", f"a fault: {error!r}"
        ) from None
    if version != FORMAT_VERSION:
        raise errors.DataError(
            f"{manifest}, format_version", FORMAT_VERSION, version, "Use --overwrite."
        )
    remedy = "Use --overwrite or another folder."
    ledger.check_same(before, identity, _SAME, remedy, what=f"{manifest.parent}")
    return record
