"""Folders that tfdistill writes: which are ours, which files in them we may remove.

A folder is ours only if it holds a valid `marker_file.MARKER`: a small JSON file, written before
all else into an absent or empty folder. It names the kind of the folder ("run", "report", ...) and
the files and folders in it that tfdistill wrote. ``--overwrite`` removes these and nothing else;
where the folder holds anything more, it refuses and names it. Links are never followed, and the
paths are relative, so that a folder may be copied or moved.

The list is brought up to date by `WorkFolder.save` and when the folder is closed, also after an
exception: what has appeared since the folder was opened is ours. What was there and not in the list
is not, and never becomes ours. After a kill, files that were written since the last update
are thus not in the list. The folder can be resumed, but ``--overwrite`` refuses and names them:
nobody can tell them from a user's. For the same reason a file that a user puts into the folder of
a command while that command runs counts as ours.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Iterator

from tfdistill import errors
from tfdistill.io import files, locks, marker_file

_RESUMABLE = ("run", "pre-training", "corpus", "augmentation")  # by --resume
_SHOWN = 5
_PROBE_BYTES = 4_000_000  # a large result: some 200,000 samples


@dataclasses.dataclass
class WorkFolder:
    """A folder of one kind that tfdistill writes."""

    path: pathlib.Path
    kind: str  # what is in it, a word for the marker and for messages: "run"
    _others: set[str] = dataclasses.field(default_factory=set)

    def __post_init__(self):
        """Takes a path as text, too."""
        self.path = pathlib.Path(self.path)

    def check(self, *, resume: bool = False, overwrite: bool = False) -> bool:
        """Refuses a folder that may not be written; changes nothing.

        Args:
          resume: Whether an earlier result of this kind is continued.
          overwrite: Whether it is replaced.

        Returns:
          Whether there is an earlier result.

        Raises:
          OutputExistsError: If the folder is not empty and not ours, is ours and neither flag was
            given, or is to be replaced and holds files that tfdistill did not write.
          ConfigError: If nothing can be written there.
        """
        if self.path.is_dir():
            if (self.path / locks.LOCK).is_file():
                locks.check_unlocked(self.path)
            return self._check(resume, overwrite)
        if self.path.exists():
            raise errors.OutputExistsError(
                f"--out {self.path}",
                f"an empty or absent folder, or an earlier {self.kind}",
                "a file",
                "Choose another path.",
            )
        check_writable(self.path)
        return False

    def _check(self, resume: bool, overwrite: bool) -> bool:
        names = _top(self.path)
        if names:
            listed = self._listed(names)
            if overwrite:
                others = sorted(marker_file.entries(self.path) - listed)
                self._refuse(others, "only files that tfdistill wrote")
            elif not resume:
                raise errors.OutputExistsError(
                    f"--out {self.path}",
                    "an absent folder",
                    f"an earlier {self.kind}",
                    "Use --resume to continue it or --overwrite to start again."
                    if self.kind in _RESUMABLE
                    else "Use --overwrite or choose another path.",
                )
        check_writable(self.path / marker_file.MARKER, self.path)
        return bool(names)

    def _listed(self, names: list[str]) -> set[str]:
        """The paths that the marker names; refused without a valid one of this kind."""
        marker = marker_file.read_marker(self.path)
        if marker is None:
            self._refuse(names, f"an empty or absent folder, or an earlier {self.kind}")
        kind, listed = marker or ("", set())
        if kind != self.kind:
            raise errors.OutputExistsError(
                f"--out {self.path}",
                f"an empty or absent folder, or an earlier {self.kind}",
                f"the folder of another kind of result: {kind}",
                "Choose another path.",
            )
        return listed

    def _refuse(self, names: list[str], expected: str) -> None:
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise errors.OutputExistsError(
                f"--out {self.path}",
                expected,
                f"a folder with other files: {', '.join(names[:_SHOWN])}{more}",
                "tfdistill neither replaces nor removes what it did not write: choose another "
                "path, or move these files.",
            )

    @contextlib.contextmanager
    def open(self, *, resume: bool = False, overwrite: bool = False) -> Iterator[WorkFolder]:
        """Holds the folder for this process, with its marker and, when it ends, its list.

        With `resume` an earlier result of this kind is continued and nothing is removed;
        `overwrite` removes it first. For what is refused see `check`; also a folder that another
        process works in.
        """
        self.check(resume=resume, overwrite=overwrite)
        with locks.exclusive_lock(self.path):
            earlier = self._check(resume, overwrite)  # nobody else works in it now
            if earlier and overwrite:
                self.clear()
            self.start()
            try:
                yield self
            except BaseException:
                if (
                    all(name.endswith("/") for name in marker_file.entries(self.path))
                    and not earlier
                ):
                    self.discard()  # nothing was written
                raise
            finally:
                if self.path.is_dir():
                    self.save()

    def start(self) -> None:
        """Writes the marker where there is none, and notes the files that are not ours."""
        marker = marker_file.read_marker(self.path)
        listed = marker[1] if marker is not None else set()
        self._others = marker_file.entries(self.path) - listed
        if marker is None:
            marker_file.write_marker(self.path, self.kind, set())

    def save(self) -> None:
        """Brings the list up to date, and the lists of our folders around it."""
        listed = self.written()
        marker_file.write_marker(self.path, self.kind, listed)
        above = self.path.absolute().parent
        record(
            above,
            [self.path, *(self.path / name for name in (*marker_file.NOT_LISTED[:2], *listed))],
        )

    def written(self) -> set[str]:
        """Our files, relative to the folder."""
        return marker_file.entries(self.path) - self._others

    def clear(self) -> None:
        """Removes what the list names; the marker stays: until the end the folder is ours."""
        marker = marker_file.read_marker(self.path)
        if marker is not None:
            _remove(self.path, marker_file.entries(self.path) & marker[1])

    def discard(self) -> None:
        """Removes what was written, marker and all, and the folder where that leaves it empty."""
        if not self.path.is_dir():  # discarded inside the block of `open`
            return
        _remove(self.path, self.written())
        if not marker_file.entries(self.path):
            for name in marker_file.NOT_LISTED:
                (self.path / name).unlink(missing_ok=True)
            self.path.rmdir()


@contextlib.contextmanager
def replaced(path: files.Path, kind: str, *, overwrite: bool) -> Iterator[pathlib.Path]:
    """Yields an empty folder that becomes `path`, whole or not at all, with a marker.

    For what is refused see `WorkFolder.check`.
    """
    folder = WorkFolder(pathlib.Path(path), kind)
    folder.check(overwrite=overwrite)
    target = folder.path.resolve() if folder.path.is_symlink() else folder.path
    with files.atomic_folder(target) as temporary:
        yield temporary
        marker_file.write_marker(temporary, kind, marker_file.entries(temporary))
        folder.check(overwrite=overwrite)  # again: the block may have taken long
    around = [
        target,
        target / marker_file.MARKER,
        *(target / name for name in marker_file.entries(target)),
    ]
    record(target.parent, around)


def check_writable(path: files.Path, named: files.Path | None = None) -> None:
    """Finds out before any work whether a file or folder can be written; leaves nothing.

    Neither it nor its parents need exist. Messages call it `named`. A full disk raises OSError.
    """
    named = path if named is None else named
    parent = pathlib.Path(path).absolute().parent
    try:
        while not os.path.lexists(parent):
            parent = parent.parent
        descriptor, name = tempfile.mkstemp(prefix=".probe.tfdistill-", dir=parent)
        os.close(descriptor)
        try:
            pathlib.Path(name).write_bytes(bytes(_PROBE_BYTES))
        finally:
            os.unlink(name)
        if os.path.islink(path) and not os.path.exists(path):
            raise FileNotFoundError(0, "a link to nothing", str(path))
    except OSError as error:
        if error.errno in errors.FULL_DISK:
            error.filename = str(named)
            raise
        raise errors.ConfigError(
            f"--out {named}",
            "a path that can be written",
            (error.strerror or str(error)).lower(),
            "Use another --out.",
        ) from error


def check_file(path: files.Path, *, overwrite: bool) -> None:
    """Refuses an output file that exists, unless `overwrite`, or cannot be written."""
    target = pathlib.Path(path)
    if target.is_dir():
        raise errors.OutputExistsError(
            f"--out {target}", "an absent file", "a folder", "Name a file in it."
        )
    if target.exists() and not overwrite:
        raise errors.OutputExistsError(
            f"{target}",
            "an absent file",
            "an earlier result",
            "Use --overwrite, or name another file.",
        )
    check_writable(target)


def check_ours(folder: files.Path, names: list[str]) -> None:
    """Refuses to write into a folder that is not ours, or over files there that are not.

    For outputs inside a folder of any kind, such as the report of a run. `names` are relative to
    it; one that ends in "/" is all that is in a folder.
    """
    root = pathlib.Path(folder)
    if not root.is_dir() or not _top(root):
        return
    marker = marker_file.read_marker(root)
    present = marker_file.entries(root) if marker is not None else set(_top(root))
    others = present if marker is None else present - marker[1]
    if marker is not None:
        others = {
            other
            for other in others
            for name in names
            if other.rstrip("/") == name.rstrip("/") or (name[-1] == "/" and other.startswith(name))
        }
    WorkFolder(root, "result")._refuse(sorted(others), "an empty folder, or files that it wrote")


def record(folder: files.Path, written: list[pathlib.Path]) -> None:
    """Adds files to the lists of all folders of ours that hold them; for those written singly.

    `folder` is the innermost that may have a list. The files may be written later, folders exist.
    """
    start = pathlib.Path(os.path.abspath(folder))
    for root in (start, *start.parents):
        marker = marker_file.read_marker(root)
        if marker is None:
            continue
        names = set()
        for path in map(os.path.abspath, written):
            if pathlib.Path(path) != root:
                relative = pathlib.Path(path).relative_to(root)
                if relative.as_posix() != marker_file.MARKER:
                    names.add(
                        marker_file.relative_name(
                            relative, os.path.isdir(path) and not os.path.islink(path)
                        )
                    )
        if names - marker[1]:
            marker_file.write_marker(root, marker[0], marker[1] | names)


def is_listed(path: files.Path) -> bool:
    """Whether the list of a folder of ours around a file names it."""
    absolute = pathlib.Path(os.path.abspath(path))
    for root in absolute.parents:
        marker = marker_file.read_marker(root)
        if marker is not None and absolute.relative_to(root).as_posix() in marker[1]:
            return True
    return False


def _top(folder: pathlib.Path) -> list[str]:
    """The entries of a folder, without locks and what is being written; the marker counts."""
    names = set(os.listdir(folder)) - {locks.LOCK, *marker_file.NOT_LISTED[2:]}
    return sorted(name for name in names if not files.is_unfinished(name))


def _remove(root: pathlib.Path, names: set[str]) -> None:
    """Removes files, then folders that are empty, the deepest first."""
    for name in sorted(names, reverse=True):
        path = root / name
        if not name.endswith("/"):
            path.unlink(missing_ok=True)
    for name in sorted(names, reverse=True):
        if name.endswith("/"):
            with contextlib.suppress(OSError):  # it holds something that is not ours
                (root / name).rmdir()
