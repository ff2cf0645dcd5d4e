"""The modules of scripts/benchmarks can be imported as the scripts there import them."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2] / "scripts" / "benchmarks"))
