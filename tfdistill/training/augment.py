"""An augmented training set as a file: in shards, resumable, the same however it was made."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import tqdm

from tfdistill import errors, files
from tfdistill.data import augment
from tfdistill.data.tasks import Examples
from tfdistill.training.augment_candidates import CandidateFinder

FORMAT_VERSION = 1
MANIFEST = "augmentation.json"
FILE = "train.tsv"
PARTS = "parts"
_KINDS = ("classification", "regression", "multi_label")


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


def augment_train(
    train: Examples,
    finder: CandidateFinder,
    options: augment.AugmentOptions,
    folder: files.Path,
    *,
    shard_size: int = 500,
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
        it is done, parts/.
      shard_size: Examples of a part.
      resume: Whether to go on with an earlier run of the same inputs and options.
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
    labels = _label_cells(train)
    _check_request(train, finder, options, shard_size)
    identity = {**_fingerprint(train, labels), **finder.identity(), **dataclasses.asdict(options)}
    folder = pathlib.Path(folder)
    record = _open_folder(folder, identity, shard_size, resume=resume, overwrite=overwrite)
    parts = folder / PARTS
    if not record["complete"]:
        shard_size = record["shard_size"]
        starts = range(0, len(train), shard_size)
        paths = [parts / f"part-{number:05d}.tsv" for number in range(len(starts))]
        with tqdm.tqdm(total=len(train), unit="example", desc="augment", disable=None) as bar:
            for start, path in zip(starts, paths, strict=True):
                shard = range(start, min(start + shard_size, len(train)))
                if not path.is_file():
                    rows = _rows(train, labels, shard, finder, options)
                    files.atomic_write_text(path, "".join(f"{row}\n" for row in rows))
                bar.update(len(shard))
        num_rows = _join(paths, _header(train), folder / FILE)
        record |= {
            "complete": True,
            "num_rows": num_rows,
            "num_augmented": num_rows - (len(train) if options.keep_originals else 0),
            "sha256": files.sha256_of(folder / FILE),
        }
        files.atomic_write_json(folder / MANIFEST, record)
    shutil.rmtree(parts, ignore_errors=True)
    return Augmented(folder / FILE, len(train), record["num_rows"], record["num_augmented"])


def _rows(
    train: Examples,
    labels: Sequence[str],
    shard: range,
    finder: CandidateFinder,
    options: augment.AugmentOptions,
) -> Iterator[str]:
    """Yields the lines of a shard."""
    sides = [train.texts] if train.pairs is None else [train.texts, train.pairs]
    found = finder.find([side[index] for side in sides for index in shard])
    for place, index in enumerate(shard):
        cells = [augment.cell(side[index]) for side in sides]
        if options.keep_originals:
            yield "\t".join([*cells, labels[index]])
        texts = found[place :: len(shard)]
        for which, form in augment.augmented_pairs(index, texts, options):
            changed = [*cells[:which], form, *cells[which + 1 :], labels[index]]
            yield "\t".join(changed)


def _header(train: Examples) -> str:
    spec = train.spec
    columns = (spec.text_column, spec.pair_column, spec.label_column)
    return "\t".join(column for column in columns if column is not None)


def _join(paths: Sequence[pathlib.Path], header: str, target: pathlib.Path) -> int:
    """Puts the parts behind each other and returns the number of rows."""
    rows = 0
    with files.atomic_write(target) as temporary, open(temporary, "wb") as out:
        out.write(f"{header}\n".encode())
        for path in paths:
            content = path.read_bytes()
            rows += content.count(b"\n")
            out.write(content)
    return rows


def _label_cells(train: Examples) -> list[str]:
    """Returns the label of each example as the task's files spell it."""
    spec = train.spec
    if train.labels is None:
        raise errors.DataError(
            errors.explain(
                "augmentation",
                "labelled training examples",
                "examples without labels",
                "Development and test sets are never augmented.",
            )
        )
    names = spec.label_values or spec.labels
    if spec.kind == "regression":
        cells = [str(label) for label in train.labels]
    elif spec.kind == "multi_label":
        cells = [
            spec.label_separator.join(name for name, given in zip(names, row, strict=True) if given)
            for row in train.labels
        ]
    elif spec.kind == "classification":
        cells = [names[label] for label in train.labels]
    else:
        raise errors.ConfigError(
            errors.explain(
                f"augmentation of task {spec.name!r}",
                f"one of {', '.join(_KINDS)}",
                spec.kind,
                "Tags and answers belong to words, which augmentation exchanges.",
            )
        )
    for name in names:
        if augment.cell(name) != name:
            raise errors.DataError(
                errors.explain("label", "a name without tab or line break", repr(name))
            )
    return cells


def _check_request(
    train: Examples, finder: CandidateFinder, options: augment.AugmentOptions, shard_size: int
) -> None:
    if not len(train):
        raise errors.DataError(errors.explain("augmentation", "at least one example", "none"))
    if shard_size < 1:
        raise errors.ConfigError(errors.explain("shard_size", "at least 1", shard_size))
    if finder.num_candidates != options.num_candidates:
        raise errors.ConfigError(
            errors.explain(
                "num_candidates of the finder", options.num_candidates, finder.num_candidates
            )
        )


def _fingerprint(train: Examples, labels: Sequence[str]) -> dict[str, Any]:
    digest = hashlib.sha256()
    sides = [train.texts, *([] if train.pairs is None else [train.pairs]), labels]
    for row in zip(*sides, strict=True):
        digest.update(("\t".join(map(augment.cell, row)) + "\n").encode())
    return {
        "task": train.spec.name,
        "columns": _header(train),
        "num_examples": len(train),
        "examples_sha256": digest.hexdigest(),
    }


def _open_folder(
    folder: pathlib.Path,
    identity: dict[str, Any],
    shard_size: int,
    *,
    resume: bool,
    overwrite: bool,
) -> dict[str, Any]:
    """Returns the manifest to go on with: an earlier one, or a new one that it has written."""
    manifest = folder / MANIFEST
    if manifest.is_file() and not overwrite:
        if not resume:
            raise errors.OutputExistsError(
                errors.explain(
                    f"{folder}",
                    "an empty folder",
                    "an earlier augmentation",
                    "--resume goes on with it, --overwrite begins again.",
                )
            )
        return _earlier(manifest, identity)
    if not manifest.is_file() and (folder / FILE).exists():
        raise errors.OutputExistsError(
            errors.explain(
                f"{folder}",
                "a folder of its own",
                f"one with a {FILE} that no augmentation has written",
                "Choose another folder.",
            )
        )
    manifest.unlink(missing_ok=True)  # first: what is left of an earlier run is then no run
    (folder / FILE).unlink(missing_ok=True)
    shutil.rmtree(folder / PARTS, ignore_errors=True)
    record = {
        "format_version": FORMAT_VERSION,
        "complete": False,
        "identity": identity,
        "shard_size": shard_size,
    }
    files.atomic_write_json(manifest, record)
    return record


def _earlier(manifest: pathlib.Path, identity: dict[str, Any]) -> dict[str, Any]:
    try:
        record = json.loads(manifest.read_text(encoding="utf-8"))
        version, before = record["format_version"], record["identity"]
    except (ValueError, KeyError, TypeError) as error:
        raise errors.DataError(
            errors.explain(f"{manifest}", "the manifest of an augmentation", f"a fault: {error!r}")
        ) from None
    if version != FORMAT_VERSION:
        raise errors.DataError(
            errors.explain(
                f"{manifest}, format_version", FORMAT_VERSION, version, "Use --overwrite."
            )
        )
    names = dict.fromkeys([*before, *identity])
    differing = [name for name in names if before.get(name) != identity.get(name)]
    if differing:
        raise errors.ConfigError(
            errors.explain(
                f"{manifest.parent}",
                "an augmentation of the same inputs and options",
                ", ".join(
                    f"{n} {before.get(n)!r} instead of {identity.get(n)!r}" for n in differing
                ),
                "Use --overwrite or another folder.",
            )
        )
    return record
