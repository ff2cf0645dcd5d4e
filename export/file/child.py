"""A module of `export` as a program of its own, which a crash or a leak cannot outlive.

``python -m export.file.child MODULE ARGUMENTS`` is that program; it ends with its parent.
"""

from __future__ import annotations

import os
import pathlib
import runpy
import subprocess
import sys
from collections.abc import Sequence

from tfdistill import errors, processes

_ROOT = pathlib.Path(__file__).resolve().parents[2]  # the folder that holds the package export


def run(
    module: str,
    arguments: Sequence[str],
    *,
    timeout_s: float,
    what: str,
    remedy: str = "Raise timeout_s.",
) -> subprocess.CompletedProcess[str]:
    """Runs ``python -m export.<module> ARGUMENTS`` and waits for its end, whatever that is.

    Args:
      module: Name of the module inside `export`, with its package: "file.delegation".
      arguments: Its arguments; paths must be absolute.
      timeout_s: Seconds after which it is stopped.
      what: What it works on, for the message.
      remedy: What to do when it takes too long.

    Returns:
      Exit code, stdout and stderr, both as text.

    Raises:
      ExportError: If it takes too long.
    """
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "2"}
    try:
        return subprocess.run(
            [sys.executable, "-m", __name__, f"export.{module}", *arguments],
            cwd=_ROOT,  # Python looks there first: no folder of the user's shadows a package
            env={**processes.child_environment(), **own},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise errors.ExportError(what, f"an end within {timeout_s:g} s", "none", remedy) from None


if __name__ == "__main__":
    processes.end_with_parent()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
