"""``python -m tfdistill`` and the program ``tfdistill``: the command line."""

import atexit
import os
import pathlib
import sys

# Python puts the working directory first: an export.py there would hide our package `export`.
_HOME = pathlib.Path(__file__).resolve().parents[1]
if sys.path[0] == os.getcwd() and pathlib.Path.cwd() != _HOME:
    del sys.path[0]

from tfdistill.io import processes  # noqa: E402


def program() -> None:
    """Runs `cli.program`; the half second of its imports can be interrupted like the rest."""
    atexit.register(processes.end_with_the_result)  # the first one is called last
    processes.on_interruption(processes.leave)
    from tfdistill import cli

    cli.program()


if __name__ == "__main__":
    program()
