"""The memory that a file's signatures take, with one copy of the weights or one each.

``python scripts/benchmarks/signature_memory.py FILE SIGNATURE,... [--copies]`` opens the file in
LiteRT's CompiledModel, runs each signature once, and prints the bytes that became resident (Linux's
VmHWM less what was before). XNNPACK rearranges the weights for each signature; given a cache, here
in memory, it keeps them once. On Android this is ``CompiledModel.Options`` with
``CpuOptions(xnnPackWeightCachePath = ...)``.
"""

from __future__ import annotations

import argparse
import math
import pathlib

import numpy as np
from ai_edge_litert import compiled_model, cpu_options, options

_IN_MEMORY = ":memory:"  # what LiteRT calls a cache without a file


def open_compiled(file: str, *, share_weights: bool) -> compiled_model.CompiledModel:
    """Opens a file on one thread of the CPU."""
    cache = _IN_MEMORY if share_weights else ""
    cpu = cpu_options.CpuOptions(num_threads=1, xnnpack_weight_cache_path=cache)
    return compiled_model.CompiledModel.from_file(file, options=options.Options(cpu_options=cpu))


def answer(
    model: compiled_model.CompiledModel, key: str, features: dict[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Runs a signature on its inputs by name (None: on ones) and returns its outputs by name."""
    names = model.get_signature_list()[key]
    inputs = {name: model.create_input_buffer_by_name(key, name) for name in names["inputs"]}
    outputs = {name: model.create_output_buffer_by_name(key, name) for name in names["outputs"]}
    if features is None:
        tensors = model.get_input_tensor_details(key)
        features = {name: np.ones(t["shape"], t["dtype"]) for name, t in tensors.items()}
    for name, buffer in inputs.items():
        buffer.write(features[name])
    model.run_by_name(key, inputs, outputs)
    arrays = {}
    for name, buffer in outputs.items():
        tensor = model.get_output_tensor_details(key)[name]
        values = buffer.read(math.prod(tensor["shape"]), np.dtype(tensor["dtype"]))
        arrays[name] = values.reshape(tensor["shape"])
    return arrays


def _resident_bytes(field: str) -> int:
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return 1024 * int(status.split(f"{field}:")[1].split()[0])


def main() -> None:
    """Measures one file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file")
    parser.add_argument("signatures", help="keys, separated by commas")
    parser.add_argument("--copies", action="store_true", help="rearranged weights for each")
    args = parser.parse_args()
    before = _resident_bytes("VmRSS")
    model = open_compiled(args.file, share_weights=not args.copies)
    for key in args.signatures.split(","):
        answer(model, key)
    print(_resident_bytes("VmHWM") - before)


if __name__ == "__main__":
    main()
