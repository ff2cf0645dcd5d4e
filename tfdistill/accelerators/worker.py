"""Runs a file on an accelerator, in a process of its own, as drivers crash and hang.

``python -m tfdistill.accelerators.worker JOB`` reads a JSON file with the names of the others: the
model file, the inputs, and where to write the outputs; it prints JSON. LiteRT's log goes to stderr.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import numpy as np

from tfdistill import processes


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Compiles a file and answers all inputs.

    The job has "file"; "kind", "gpu" or "npu"; "dispatch", the folder of an NPU's library; the keys
    of "signatures"; "inputs" and "outputs", npz files whose arrays are called <place among the
    signatures>/<number>/<name>. Returns "whole": whether LiteRT says that the CPU has nothing to
    do.
    """
    from ai_edge_litert import compiled_model
    from ai_edge_litert import environment as environments
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    wanted = HardwareAccelerator[job["kind"].upper()] | HardwareAccelerator.CPU
    environment = None
    if job["dispatch"] is not None:
        environment = environments.Environment.create(dispatch_library_path=job["dispatch"])
    model = compiled_model.CompiledModel.from_file(
        job["file"], hardware_accel=wanted, environment=environment
    )
    examples: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    with np.load(job["inputs"], allow_pickle=False) as inputs:
        for key in inputs.files:
            place, number, name = key.split("/", 2)
            examples.setdefault(place, {}).setdefault(number, {})[name] = inputs[key]
    answers = {}
    for place, numbered in examples.items():
        for number, features in numbered.items():
            for name, value in _answer(model, job["signatures"][int(place)], features).items():
                answers[f"{place}/{number}/{name}"] = value
    np.savez(job["outputs"], **answers)
    return {"whole": model.is_fully_accelerated()}


def _answer(model: Any, signature: str, features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    inputs, outputs = {}, {}
    for name, value in features.items():
        inputs[name] = model.create_input_buffer_by_name(signature, name)
        inputs[name].write(np.ascontiguousarray(value))
    shapes = {
        name: tuple(detail["shape"])
        for name, detail in model.get_output_tensor_details(signature).items()
    }
    for name, shape in shapes.items():
        outputs[name] = model.create_output_buffer_by_name(signature, name)
        # What is not written stays no number, and is not mistaken for an answer.
        outputs[name].write(np.full(shape, np.nan, np.float32))
    model.run_by_name(signature, inputs, outputs)
    return {
        name: np.array(outputs[name].read(int(np.prod(shape)), np.float32)).reshape(shape)
        for name, shape in shapes.items()
    }


def main() -> None:
    """Runs the job that the first argument names; what the module runs as a program."""
    job = json.loads(pathlib.Path(sys.argv[1]).read_bytes())
    try:
        answer = run(job)
    except (RuntimeError, ValueError, OSError, KeyError) as error:
        answer = {"error": " ".join(str(error).split()) or type(error).__name__}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    processes.end_with_parent()
    main()
