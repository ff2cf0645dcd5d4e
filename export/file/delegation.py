"""What XNNPACK takes over of a file, counted in a process of its own, as the file may be damaged.

``python -m export.file.delegation FILE`` writes JSON. The fewer the chains of operators that are
taken over, the better: of a good file one, or two.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from tfdistill import errors, files
from tfdistill.tflite import xnnpack
from tfdistill.tflite.xnnpack import Delegation

from . import child


def delegate(path: files.Path, *, timeout_s: float = 300) -> dict[str | None, Delegation]:
    """Opens a file in a process of its own and counts what XNNPACK takes over.

    Args:
      path: A .tflite file.
      timeout_s: Seconds after which the process is stopped.

    Returns:
      By key of the signature; by None for the only subgraph of a file without signatures. A
      signature that runs several subgraphs, as loops do, is left out.

    Raises:
      ExportError: If LiteRT cannot open the file, crashes or takes too long.
    """
    what = f"model file {path}"
    done = child.run("file.delegation", [os.path.abspath(path)], timeout_s=timeout_s, what=what)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        last = " | ".join(done.stderr.strip().splitlines()[-2:])
        raise errors.ExportError(
            what,
            "LiteRT to open it",
            f"exit code {done.returncode}. Its last words: {last or 'none'}",
            "Export it again.",
        ) from None
    if "error" in answer:
        raise errors.ExportError(what, "LiteRT to open it", answer["error"])
    return {row.pop("signature"): Delegation(**row) for row in answer["subgraphs"]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Opens each signature by itself; what the module runs as a program."""
    (path,) = sys.argv[1:] if arguments is None else arguments
    try:
        found = xnnpack.delegations(path)
        rows = [{"signature": key, **dataclasses.asdict(value)} for key, value in found.items()]
        answer: dict[str, Any] = {"subgraphs": rows}
    except (ValueError, RuntimeError, OSError) as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
