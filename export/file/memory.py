"""The memory that a file takes: measured in a process of its own that does nothing else.

``python -m export.file.memory FILE SIGNATURE,... [--apart]`` writes JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from tfdistill import errors, files

from . import child


def peak_memory(
    path: files.Path,
    signatures: Sequence[str],
    *,
    share_weights: bool = True,
    timeout_s: float = 300,
) -> int:
    """Measures what opening a file and answering once with each of some signatures takes.

    Args:
      path: A .tflite file. All of its signatures are opened, as LiteRT always does; for the memory
        of one length alone, pass a file that holds only this one.
      signatures: Keys of the signatures to answer with, in this order.
      share_weights: Whether they share rearranged weights, see `compiled`; otherwise each has its
        own, as in LiteRT's Interpreter.
      timeout_s: Seconds after which the process is stopped.

    Returns:
      Bytes: the most that was resident (Linux's VmHWM) less what was before the file was opened.
      The pages of the file itself that were read are part of it.

    Raises:
      ExportError: If the file cannot be run, or this system does not tell (other than Linux).
    """
    what = f"memory of {path}"
    arguments = [os.path.abspath(path), ",".join(signatures)]
    arguments += [] if share_weights else ["--apart"]
    done = child.run("file.memory", arguments, timeout_s=timeout_s, what=what)
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        last = " | ".join(done.stderr.strip().splitlines()[-2:])
        answer = {"error": f"exit code {done.returncode}. Its last words: {last or 'none'}"}
    if "error" in answer:
        raise errors.ExportError(what, "a file that runs", answer["error"])
    return answer["peak_bytes"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Opens the file and answers; what the module runs as a program."""
    parser = argparse.ArgumentParser(prog="python -m export.file.memory", description=__doc__)
    parser.add_argument("file")
    parser.add_argument("signatures", help="keys, separated by commas")
    parser.add_argument("--apart", action="store_true", help="do not share rearranged weights")
    options = parser.parse_args(arguments)
    try:
        answer = {"peak_bytes": _measure(options.file, options.signatures, options.apart)}
    except (errors.ExportError, ValueError, RuntimeError, OSError) as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)


def _measure(file: str, signatures: str, apart: bool) -> int:
    from . import compiled

    before = _resident_bytes("VmRSS")
    opened = compiled.CompiledFile(file, share_weights=not apart)
    for key in signatures.split(","):
        opened.answer(key, **opened.ones(key))
    return _resident_bytes("VmHWM") - before


def _resident_bytes(field: str) -> int:
    """Returns resident memory of this process: "VmRSS" now, "VmHWM" at its peak."""
    try:
        status = pathlib.Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return 1024 * int(status.split(f"{field}:")[1].split()[0])
    except (OSError, IndexError):
        raise errors.ExportError("this system", "Linux's /proc", sys.platform) from None


if __name__ == "__main__":
    main()
