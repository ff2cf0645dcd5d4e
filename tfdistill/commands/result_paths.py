"""Where results go: a file each, under names that tell nothing of a device but its id."""

from __future__ import annotations

import glob
import itertools
import pathlib
import re
from collections.abc import Sequence

_ID = "[0-9a-f]" * 12
_UNKNOWN = "unknown"  # of a device that told nothing


def earlier(out: pathlib.Path, *, several: bool) -> list[pathlib.Path]:
    """Lists what is there already where results would go."""
    stem, suffix = glob.escape(out.stem), glob.escape(out.suffix)
    paths = [out] if out.exists() else []
    for label in (_ID, _UNKNOWN) if several else ():
        for number in ("", "-[0-9]*"):
            paths += sorted(out.parent.glob(f"{stem}-{label}{number}{suffix}"))
    return paths


def choose(
    out: pathlib.Path, ids: Sequence[str | None], *, several: bool, overwrite: bool
) -> list[pathlib.Path]:
    """Chooses a file for each result: no two share one, and none is replaced unasked.

    Some makers give all their devices one serial number, and so one id; and while it was measured
    another benchmark may have written a file that was not there at the start. Such a name gets the
    first number that is free. `ids` are those of the devices; `several` puts them behind the name,
    although there may be one result.
    """
    chosen: list[pathlib.Path] = []
    for device in ids:
        label = ""
        if several or len(ids) > 1:
            label = f"-{device if re.fullmatch(_ID, device or '') else _UNKNOWN}"
        names = itertools.chain([label], (f"{label}-{number}" for number in itertools.count(1)))
        paths = (out.with_name(f"{out.stem}{name}{out.suffix}") for name in names)
        free = (p for p in paths if p not in chosen and (overwrite or not p.exists()))
        chosen.append(next(free))
    return chosen
