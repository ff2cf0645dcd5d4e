"""The worker of the gate on the CPU, with a fault: python planted_worker.py FAULT JOB."""

import json
import os
import pathlib
import signal
import sys
import time

import numpy as np

from tfdistill.accelerators import worker
from tfdistill.tflite import editing


def change_a_weight(job):
    """Turns the sign of one matrix of the file that runs."""
    model = editing.read(job["file"])
    graph = model.subgraphs[0]
    products = next(o for o in graph.operators if editing.name_of(model, o) == "FULLY_CONNECTED")
    buffer = model.buffers[graph.tensors[products.inputs[1]].buffer]
    kind = {"float32": np.float32, "int8": np.int8}[
        editing.dtype_of(graph.tensors[products.inputs[1]])
    ]
    buffer.data = (-np.frombuffer(bytes(buffer.data), kind)).view(np.uint8)
    job["file"] = job["outputs"] + ".tflite"
    editing.write(model, job["file"])


def change_outputs(job, fault):
    with np.load(job["outputs"]) as outputs:
        values = {key: outputs[key] for key in outputs.files}
    if fault == "zeros":
        values = {key: np.zeros_like(value) for key, value in values.items()}
    if fault == "swapped":
        other = {"start_logits": "end_logits", "end_logits": "start_logits"}
        values = {
            "/".join([*key.split("/")[:2], other[key.split("/")[2]]]): value
            for key, value in values.items()
        }
    np.savez(job["outputs"], **values)


def main(fault, path):
    job = json.loads(pathlib.Path(path).read_bytes())
    job["kind"] = "cpu"
    if fault == "hang":
        time.sleep(600)
    if fault == "crash":
        print("driver: out of memory", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "weights":
        change_a_weight(job)
    if fault.endswith(".tflite"):
        job["file"] = fault
    answer = worker.run(job)
    change_outputs(job, fault)
    print(json.dumps({**answer, "whole": True}))


if __name__ == "__main__":
    main(*sys.argv[1:])
