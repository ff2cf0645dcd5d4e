"""Serial numbers stay on the terminal: a result is shared, and names its device by a hash."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping, Sequence

from tfdistill.benchmark import environment, schema
from tfdistill.benchmark.adb.phone import Phone


def hide(
    result: schema.Result,
    phones: Sequence[Phone],
    devices: Sequence[schema.Device | None],
    shown: MutableMapping[str, str] | None = None,
) -> schema.Result:
    """Replaces serial numbers by ids of devices in the texts of a result.

    adb's own messages name serials, too, so that texts are searched as they are: the command line,
    failures and notes, for the serials of all devices, since one command line names them all.

    Args:
      result: Of one device.
      phones: All that were measured.
      devices: What each of them is; None for one that is not known.
      shown: Is filled with serials by the ids that replace them: for a terminal, not for a file.

    Returns:
      The result without any serial.
    """
    ids: dict[str, str] = {}
    known_ids: list[str] = []
    for phone, device in zip(phones, devices, strict=True):
        known = (device and device.id) or environment.short_hash(phone.serial)
        # Some makers give all their devices one serial number; numbers as files of results have.
        ids[phone.serial] = f"{known}-{known_ids.count(known)}" if known in known_ids else known
        known_ids.append(known)
    if shown is not None:
        shown.update({known: serial for serial, known in ids.items()})
    longest_first = sorted(ids, key=len, reverse=True)
    # Not inside of a word: a serial may be as short as one.
    pattern = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    def without(text: str) -> str:
        return pattern.sub(lambda found: ids[found.group()], text)

    failures = [
        schema.Failure(what=without(row.what), error=without(row.error)) for row in result.failures
    ]
    return result.model_copy(
        update={
            "command": tuple(map(without, result.command)),
            "failures": tuple(failures),
            "notes": tuple(map(without, result.notes)),
        }
    )


def show(text: str, shown: Mapping[str, str]) -> str:
    """Puts the serials back into a text for a terminal: commands in it have to work there.

    Args:
      text: Of a result that `hide` made.
      shown: Serials by the ids that replace them.
    """
    for known in sorted(shown, key=len, reverse=True):  # an id may begin another one
        text = text.replace(known, shown[known])
    return text


def show_failures(result: schema.Result, shown: Mapping[str, str]) -> schema.Result:
    """Puts the serials back into the failures of a result that is not kept."""
    failures = [
        schema.Failure(what=show(row.what, shown), error=show(row.error, shown))
        for row in result.failures
    ]
    return result.model_copy(update={"failures": tuple(failures)})
