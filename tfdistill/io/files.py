"""Files that are whole or absent: atomic writes, checksums."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfdistill import errors
from tfdistill.io import contents, safe_paths, storage

Path = safe_paths.Path
# Of what is being written: .NAME.tfdistill-XXXXXXXX.SUFFIX, locked by its writer while that lives.
_UNFINISHED = re.compile(r"\.(?P<name>.+)\.tfdistill-[a-z0-9_]{8}(?P<suffix>.*)", re.DOTALL)
_TEMPORARY = re.compile(r"tfdistill-[a-z]+\.[a-z0-9_]{8}")
_ASIDE = "-old"
CHECKSUM = "checksum"  # the key of it in JSON that tfdistill writes for itself
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # s3://bucket; pathlib leaves one slash of two


def is_there(path: Path) -> bool:
    """Whether a file stands at a path; refuses a folder, and a link that leads nowhere."""
    if os.path.isfile(path):
        return True
    if os.path.lexists(path):
        kind = "a folder" if os.path.isdir(path) else "a link that leads to no file"
        raise errors.DataError(f"{path}", "a file", kind, "Restore the file, or remove this.")
    return False


def check_readable(path: Path) -> None:
    """Raises PermissionError for a file that may not be read: safetensors calls it absent."""
    if not storage.is_remote(path) and os.path.isfile(path) and not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))


def check_local(path: Path) -> pathlib.Path:
    """Refuses to write to an address such as s3://bucket/x: it would be a folder s3: here."""
    if _ADDRESS.match(os.fspath(path)):
        raise errors.ConfigError(
            f"{path}", "a path on this machine", "an address", "Mount it, or write here and copy."
        )
    return pathlib.Path(path)


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[pathlib.Path]:
    """Yields a temporary path next to `path` and renames it over `path` when the block succeeds.

    For an address that `storage.located` opened it is one on this machine, which is uploaded.

    Whatever happens inside the block (an exception, a full disk, a kill), `path` holds either its
    old content or the whole new one. What a killed process left is removed by the next one that
    writes into the folder. The `filename` of an OSError is `path`.
    """
    if storage.is_remote(path):
        with temporary_folder("upload") as folder:
            yield folder / path.name
            storage.upload(folder / path.name, path)
        return
    target = check_local(path)
    with _naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep_once(target.parent)
        temporary, lock = _made_and_locked(
            lambda: tempfile.mkstemp(
                prefix=f".{target.stem}.tfdistill-", suffix=target.suffix, dir=target.parent
            )
        )
        try:
            yield temporary
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o666 & ~_umask())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
            os.close(lock)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[pathlib.Path]:
    """Yields a temporary folder next to `path` that replaces it when the block succeeds.

    A folder cannot be replaced in one system call, so an existing one is moved aside first and
    comes back if the second rename fails, Ctrl-C comes between the two, or, when the next process
    writes into the parent folder, after a kill between the two.
    """
    target = check_local(path)
    with _naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep_once(target.parent)
        with _temporary(target.parent, f".{target.name}.tfdistill-") as temporary:
            aside = temporary.with_name(temporary.name + _ASIDE)
            try:
                yield temporary
                temporary.chmod(0o777 & ~_umask())
                try:
                    if target.exists():
                        os.replace(target, aside)
                    os.replace(temporary, target)
                except BaseException:
                    if aside.exists() and not target.exists():
                        os.replace(aside, target)
                    raise
            finally:
                if target.exists():  # the old folder is removed where a new one replaced it
                    shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def temporary_folder(purpose: str, parent: Path | None = None) -> Iterator[pathlib.Path]:
    """Yields an empty folder that is removed afterwards; after a kill by `remove_leftovers`.

    `purpose` is a word for its name, `parent` the folder that holds it, by default the system's.
    """
    folder = pathlib.Path(tempfile.gettempdir() if parent is None else parent)
    prefix = f"tfdistill-{purpose}." if parent is None else f".{purpose}.tfdistill-"
    with _naming(folder), _temporary(folder, prefix) as temporary:
        yield temporary


def remove_leftovers(folder: Path | None = None) -> None:
    """Removes what killed processes left in a folder; default the system's temporary one.

    A folder that was moved aside and not yet replaced is put back.
    """
    parent = pathlib.Path(tempfile.gettempdir() if folder is None else folder)
    form = _TEMPORARY if folder is None else _UNFINISHED
    with contextlib.suppress(OSError):
        leftovers = sorted(path for path in parent.iterdir() if form.fullmatch(path.name))
        for path in (path for path in leftovers if not path.name.endswith(_ASIDE)):
            _remove_if_dead(path)
        for path in (path for path in leftovers if path.name.endswith(_ASIDE) and path.is_dir()):
            writer = path.with_name(path.name.removesuffix(_ASIDE))
            if writer.exists():  # alive, between its two renames
                continue
            parts = _UNFINISHED.fullmatch(path.name)
            target = None if parts is None else parent / parts["name"]
            if target is not None and not target.exists():
                os.replace(path, target)
            else:
                shutil.rmtree(path, ignore_errors=True)


def is_unfinished(name: str) -> bool:
    """Whether a file or folder of this name is being written, or is left of a killed process."""
    return _UNFINISHED.fullmatch(name) is not None


def is_open_file(descriptor: int, path: pathlib.Path) -> bool:
    """Whether a descriptor belongs to the file that now has a name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _made_and_locked(make: Callable[[], tuple[int | None, str]]) -> tuple[pathlib.Path, int]:
    """Makes something temporary and locks it; again, if another process took it for a leftover."""
    while True:
        descriptor, name = make()
        if descriptor is None:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        except OSError:  # a file system without locks: nobody takes it for a leftover there
            return pathlib.Path(name), descriptor
        if is_open_file(descriptor, pathlib.Path(name)):
            return pathlib.Path(name), descriptor
        os.close(descriptor)


@contextlib.contextmanager
def _temporary(parent: pathlib.Path, prefix: str) -> Iterator[pathlib.Path]:
    def make() -> tuple[int | None, str]:
        name = tempfile.mkdtemp(prefix=prefix, dir=parent)
        try:
            return os.open(name, os.O_RDONLY | os.O_CLOEXEC), name
        except FileNotFoundError:  # removed before it could be locked
            return None, name

    path, lock = _made_and_locked(make)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _remove_if_dead(path: pathlib.Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


@functools.cache
def sweep_once(folder: pathlib.Path) -> None:
    """Removes what killed processes left in a folder, once in this process."""
    remove_leftovers(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def _naming(target: pathlib.Path) -> Iterator[None]:
    """Lets an error that a write raises name the file that was to be written.

    Libraries report a full disk in exceptions of their own, and the system without a name.
    """
    try:
        yield
    except OSError as error:
        number = errors.errno_of(error)
        if number is None or number not in errors.WRITE_FAULTS:
            raise
        if error.errno is None:  # a library's, with a text alone
            raise OSError(number, os.strerror(number), str(target)) from error
        name = f"{error.filename or ''}"
        if not name or _UNFINISHED.search(name):
            error.filename, error.filename2 = str(target), None
        raise
    except Exception as error:
        if isinstance(error, errors.TfdistillError):
            raise
        number = errors.errno_of(error)
        if number is None:
            raise
        raise OSError(number, os.strerror(number), str(target)) from error


def atomic_write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text so that the file is either whole or unchanged."""
    with atomic_write(path) as temporary:
        temporary.write_text(_in_utf8(text), encoding="utf-8")


def _in_utf8(text: str) -> str:
    """Text that may hold paths, whose undecoded bytes Python keeps as half surrogates.

    Bytes beyond ASCII are such in the locale C; those that are no UTF-8 become U+FFFD.
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def checksum_of(value: Mapping[str, Any]) -> str:
    """The checksum of a JSON object without its own: of values, types and order, not layout."""
    text = json.dumps({key: part for key, part in value.items() if key != CHECKSUM})
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def json_text(value: Mapping[str, Any]) -> str:
    """A JSON object as the files of tfdistill hold it: indented, its checksum last.

    Another content is refused, unless the line of the checksum is deleted. NaN has no text.
    """
    value = json.loads(_in_utf8(json.dumps(value, ensure_ascii=False)))  # as it will be read
    whole = {**value, CHECKSUM: checksum_of(value)}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def atomic_write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON object as `json_text` so that the file is whole or unchanged."""
    atomic_write_text(path, json_text(value))


@contextlib.contextmanager
def local_copy(path: Path) -> Iterator[pathlib.Path]:
    """Yields a file on this machine with the content of `path`; itself where it is one."""
    source = storage.located(path)
    if not storage.is_remote(source):
        yield source
        return
    with temporary_folder("download") as folder:
        storage.download(source, folder / source.name)
        yield folder / source.name


@contents.once(max_files=4096)
def _local_digest(path: Path) -> str:
    source = pathlib.Path(path)
    if contents.is_small(source):
        return hashlib.sha256(contents.content_of(source)).hexdigest()
    return _digest(source)


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file as 64 lower-case hexadecimal digits."""
    source = storage.located(path)
    return _digest(source) if storage.is_remote(source) else _local_digest(source)


def _digest(source: Any) -> str:
    digest = hashlib.sha256()
    with source.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
