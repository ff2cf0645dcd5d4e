"""The start of a file in this process: until the answers are there, and the memory that it takes.

``python scripts/benchmarks/cold_start.py FILE LENGTH,...`` opens the file in `TfliteModel`, answers
a text at each length, and prints JSON: milliseconds of the processor from the opening to the last
answer, and the bytes that became resident (Linux's VmHWM less what was before). What a program
imports is not counted.
"""

from __future__ import annotations

import argparse
import json
import time

from tfdistill.tflite import model, serving


def main() -> None:
    """Measures one file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file")
    parser.add_argument("lengths", help="tokens of the texts, separated by commas")
    args = parser.parse_args()
    before, started = serving.memory_bytes("VmRSS") or 0, time.process_time()
    file = model.TfliteModel(args.file)
    for length in args.lengths.split(","):
        file.predict([1] * int(length))
    processor_ms = 1000 * (time.process_time() - started)
    peak_bytes = (serving.memory_bytes("VmHWM") or 0) - before
    print(json.dumps({"processor_ms": processor_ms, "peak_bytes": peak_bytes}))


if __name__ == "__main__":
    main()
