"""Names and paths that come from outside: plain, inside their folder, without home folders."""

from __future__ import annotations

import os
import pathlib
import re

from tfdistill import errors

Path = str | os.PathLike[str]
_LONGEST_NAME = 100  # bytes: a file name has at most 255, and others are made from it
_ABSOLUTE = re.compile(r"""(?<![^\s=,'"(\[])~?/[^\s'",)\]]+""")  # a path where a word begins


def inside(folder: Path, name: str) -> pathlib.Path:
    """Resolves a file name that came from outside, and refuses one that leaves its folder.

    Absolute names and links that lead out of it are refused, too.
    """
    if not isinstance(folder, str | os.PathLike):  # an address that `storage` opened
        if not is_plain_name(name):
            raise errors.ManifestError("file name", f"a name in {folder}", repr(name))
        return folder / name
    root = pathlib.Path(folder).resolve()
    try:
        path = (root / name).resolve()
        held = path != root and path.is_relative_to(root)
    except (ValueError, RuntimeError, OSError):  # a null character, a ring of links
        path, held = root, False
    if pathlib.PurePath(name).is_absolute() or not held:
        inside, received, remedy = f"a path inside {root.name}/", repr(name), ""
        if is_plain_name(str(name)) and (root / name).is_symlink():
            received, remedy = f"{name!r}, a link that leads out", "Copy the files: cp -rL."
        raise errors.ManifestError("file name", inside, received, remedy)
    return path


def is_plain_name(name: str) -> bool:
    """Whether a name from outside can name a file or a folder: one part of a path, printable.

    Blanks and letters of any alphabet are plain; separators, control characters, a leading dot or
    dash, and more than 100 bytes are not.
    """
    return (
        0 < len(name.encode(errors="replace")) <= _LONGEST_NAME
        and name.isprintable()
        and name == name.strip()
        and not name.startswith((".", "-"))
        and not set(name) & set("/\\")
    )


def without_folders(text: str) -> str:
    """Shortens absolute paths in a text to at most two parts: a shared result tells no more.

    "data.dir=/home/ann/glue/SST-2" becomes "data.dir=glue/SST-2", "/home/ann/run" becomes "run".
    Folders of a phone stay: they name nobody, and commands that clean it up need them.
    """

    def shortened(match: re.Match[str]) -> str:
        if match[0].startswith(("/data/local/tmp/", "/sdcard/")):
            return match[0]
        parts = pathlib.PurePosixPath(os.path.expanduser(match[0])).parts[1:]
        return "/".join(parts[max(2, len(parts) - 2) :] or parts[-1:])

    return _ABSOLUTE.sub(shortened, text)


def check_links(folder: Path) -> None:
    """Refuses to work in a folder of which a link, at any depth, leads elsewhere."""
    if not isinstance(folder, str | os.PathLike):
        return  # no links on other storage
    root = pathlib.Path(folder).resolve()
    for parent, folders, names in os.walk(root):
        for path in (pathlib.Path(parent, name) for name in (*folders, *names)):
            if path.is_symlink():
                held = str(path.relative_to(root))
                try:
                    inside(root, held)
                except errors.ManifestError:
                    raise errors.OutputExistsError(
                        f"{folder}",
                        "links that stay in it",
                        f"{held}, which leads to {os.readlink(path)}",
                        "Put the files themselves there, or choose another folder.",
                    ) from None
