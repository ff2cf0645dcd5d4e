"""``python -m tfdistill``: the command line."""

import os
import pathlib
import sys

# Python puts the working directory first: an export.py there would hide our package `export`.
_HOME = pathlib.Path(__file__).resolve().parents[1]
if sys.path[0] == os.getcwd() and pathlib.Path.cwd() != _HOME:
    del sys.path[0]

from tfdistill.cli import program  # noqa: E402

program()
