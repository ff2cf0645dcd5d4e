"""Folders that tfdistill writes: which are ours, which files in them we may remove.

A folder is ours only if it holds a valid `ledger.MARKER`, written before all else into an absent or
empty folder: its kind ("run", "report", ...), and the files and folders in it that tfdistill wrote.
``--overwrite`` removes these and nothing else; where the folder holds more, it refuses and names
it. Links are never followed, and the paths are relative: a folder may be copied or moved.

`WorkFolder.save` brings the list up to date, also when the folder is closed or after an exception:
what has appeared since it was opened is ours, a user's file too; what was there and not in the list
never becomes ours. After a kill, files since the last update are thus not in the list: the folder
can be resumed, but ``--overwrite`` refuses and names them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Iterator

from tfdistill import errors
from tfdistill.io import files, ledger, locks

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
        """Refuses a folder that may not be written; says whether there is an earlier result.

        That is one that is not empty and not ours, is ours and neither flag was given, or is to be
        replaced and holds files that tfdistill did not write, and where nothing can be written.
        """
        if self.path.is_dir():
            if (self.path / locks.LOCK).is_file():
                locks.check_unlocked(self.path)
            return self._check(resume, overwrite)
        if self.path.exists():
            raise self._exists(self._free, "a file", "Choose another path.")
        check_writable(self.path)
        return False

    def _check(self, resume: bool, overwrite: bool) -> bool:
        names = _top(self.path)
        if names:
            listed = self._listed(names)
            if overwrite:
                others = sorted(ledger.entries(self.path) - listed)
                self._refuse(others, "only files that tfdistill wrote")
            elif not resume:
                remedy = "Use --overwrite or choose another path."
                if self.kind in _RESUMABLE:
                    remedy = "Use --resume to continue it or --overwrite to start again."
                raise self._exists("an absent folder", f"an earlier {self.kind}", remedy)
        check_writable(self.path / ledger.MARKER, self.path)
        return bool(names)

    def _listed(self, names: list[str]) -> set[str]:
        marker = ledger.read_marker(self.path)
        if marker is None:
            self._refuse(names, self._free)
        kind, listed = marker or ("", set())
        if kind != self.kind:
            received = f"the folder of another kind of result: {kind}"
            raise self._exists(self._free, received, "Choose another path.")
        return listed

    @property
    def _free(self) -> str:
        return f"an empty or absent folder, or an earlier {self.kind}"

    def _exists(self, *parts: str) -> errors.OutputExistsError:
        return errors.OutputExistsError(f"--out {self.path}", *parts)

    def _refuse(self, names: list[str], expected: str) -> None:
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise self._exists(
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
            if earlier and overwrite:  # the marker stays: until the end the folder is ours
                _remove(self.path, ledger.entries(self.path) & _listed_in(self.path))
            self.start()
            try:
                yield self
            except BaseException:
                if not earlier and all(n.endswith("/") for n in ledger.entries(self.path)):
                    self.discard()  # nothing was written
                raise
            finally:
                if self.path.is_dir():
                    self.save()

    def start(self) -> None:
        """Writes the marker where there is none, and notes the files that are not ours."""
        self._others = ledger.entries(self.path) - _listed_in(self.path)
        if ledger.read_marker(self.path) is None:
            ledger.write_marker(self.path, self.kind, set())

    def save(self) -> None:
        """Brings the list up to date, and the lists of our folders around it."""
        listed = self.written()
        ledger.write_marker(self.path, self.kind, listed)
        _record_around(self.path, {locks.LOCK, *listed})

    def written(self) -> set[str]:
        """Our files, relative to the folder."""
        return ledger.entries(self.path) - self._others

    def discard(self) -> None:
        """Removes what was written, marker and all, and the folder where that leaves it empty."""
        if not self.path.is_dir():  # discarded inside the block of `open`
            return
        _remove(self.path, self.written())
        if not ledger.entries(self.path):
            for name in ledger.NOT_LISTED:
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
        ledger.write_marker(temporary, kind, ledger.entries(temporary))
        folder.check(overwrite=overwrite)  # again: the block may have taken long
    _record_around(target, ledger.entries(target))


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
    others = set(_top(root))
    if (marker := ledger.read_marker(root)) is not None:
        others = {
            other
            for other in ledger.entries(root) - marker[1]
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
        marker = ledger.read_marker(root)
        if marker is None:
            continue
        paths = (pathlib.Path(os.path.abspath(path)) for path in written)
        names = {ledger.name_below(root, path) for path in paths if path != root}
        names.discard(ledger.MARKER)
        if names - marker[1]:
            ledger.write_marker(root, marker[0], marker[1] | names)


def _record_around(folder: pathlib.Path, names: set[str]) -> None:
    """Adds a folder of ours, its marker and the names in it to the lists of those around it."""
    record(folder.absolute().parent, [folder, *(folder / n for n in {ledger.MARKER, *names})])


def _listed_in(folder: pathlib.Path) -> set[str]:
    marker = ledger.read_marker(folder)
    return set() if marker is None else marker[1]


def is_listed(path: files.Path) -> bool:
    """Whether the list of a folder of ours around a file names it."""
    absolute = pathlib.Path(os.path.abspath(path))
    roots = absolute.parents
    return any(absolute.relative_to(root).as_posix() in _listed_in(root) for root in roots)


def _top(folder: pathlib.Path) -> list[str]:
    """The entries of a folder, without locks and what is being written; the marker counts."""
    names = set(os.listdir(folder)) - {locks.LOCK, *ledger.NOT_LISTED[2:]}
    return sorted(name for name in names if not files.is_unfinished(name))


def remove_recorded(folder: files.Path) -> None:
    """Removes the files in the record of a folder, the record, and folders that are empty then."""
    root = pathlib.Path(folder)
    if names := set(ledger.recorded(root)):
        names |= {str(pathlib.PurePath(name).with_name(ledger.MARKER)) for name in names}
        present = ledger.entries(root)
        _remove(root, {name for name in present if name in names or name.endswith("/")})
        (root / ledger.CHECKSUMS).unlink()  # last: until then the rest is known
        with contextlib.suppress(OSError):  # it holds something else
            root.rmdir()


def _remove(root: pathlib.Path, names: set[str]) -> None:
    for name in sorted(names, reverse=True):
        path = root / name
        if not name.endswith("/"):
            path.unlink(missing_ok=True)
    for name in sorted(names, reverse=True):
        if name.endswith("/"):
            with contextlib.suppress(OSError):  # it holds something that is not ours
                (root / name).rmdir()
