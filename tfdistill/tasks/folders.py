"""A folder for each label with a file for each text: the layout of the IMDb reviews (aclImdb)."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from tfdistill import errors
from tfdistill.tasks import tables

_UNLABELLED = "unsup"  # IMDb's reviews without a label, next to those with one
_ALIASES = {"dev": ("validation", "valid", "val")}


class LabelledTexts(NamedTuple):
    """The texts of a split."""

    texts: list[str]
    labels: list[str]  # the name of each text's folder
    paths: list[pathlib.Path]


def split_folder(source: str | os.PathLike[str], split: str) -> pathlib.Path:
    """Finds the folder of a split in one that holds a folder for each."""
    root = pathlib.Path(source)
    for name in (split, *_ALIASES.get(split, ())):
        if (root / name).is_dir():
            return root / name
    there = sorted(path.name for path in root.iterdir()) if root.is_dir() else []
    raise errors.AbsentSplitError(
        f"{root}, split {split!r}",
        f"a folder {split} with a folder for each label",
        ", ".join(there[:8]) or ("an empty folder" if root.is_dir() else "no folder"),
    )


def labels_in(folder: pathlib.Path) -> set[str]:
    """Returns the names of the folders that hold texts, IMDb's unlabelled ones left out."""
    return {
        path.name
        for path in folder.iterdir()
        if path.is_dir() and path.name != _UNLABELLED and any(path.glob("*.txt"))
    }


def read_folders(folder: pathlib.Path, labels: Sequence[str]) -> LabelledTexts:
    """Reads the texts of a split, whose folder has one for each of `labels` and no other.

    They are sorted by the numbers and names of their files, so that the labels take turns and the
    first few are a sample of all.
    """
    folder_names = labels_in(folder)
    strange = sorted(folder_names - set(labels))
    if strange:
        raise errors.DataError(
            f"{folder}",
            f"folders among {', '.join(map(repr, labels))}",
            f"{strange[0]!r}",
            errors.nearest(strange[0], labels),
        )
    missing = [label for label in labels if label not in folder_names]
    if missing:
        raise errors.DataError(
            f"{folder}", f"a folder {missing[0]!r} with .txt files", ", ".join(sorted(folder_names))
        )
    files = [(path, label) for label in labels for path in (folder / label).glob("*.txt")]
    files.sort(key=lambda item: (_natural(item[0].name), labels.index(item[1])))
    texts = [tables.read_text(path).strip() for path, _ in files]
    return LabelledTexts(texts, [label for _, label in files], [path for path, _ in files])


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Orders names with numbers by the numbers: 2_7.txt comes before 10_9.txt."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]
