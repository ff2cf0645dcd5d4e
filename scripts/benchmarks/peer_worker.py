"""Runs one model in one runtime on one thread: ``peer_worker.py RUNTIME FILE``.

The first line of stdin holds the examples, a list of name -> rows; the answer is what the model
says to each. ``{"run": n}`` is answered with n durations in milliseconds, the examples in turn:
"clock", what passed, and "processor", what this process worked.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Feed = dict[str, np.ndarray]


def litert(file: str, length: int) -> Callable[[Feed], np.ndarray]:
    """Opens a TFLite file with a signature for `length` tokens."""
    from ai_edge_litert import interpreter

    opened = interpreter.Interpreter(file, num_threads=1)
    runner = opened.get_signature_runner(f"len{length}")
    return lambda feed: next(iter(runner(**feed).values()))


def onnxruntime(file: str, length: int) -> Callable[[Feed], np.ndarray]:
    """Opens an ONNX file with every optimization."""
    import onnxruntime as ort  # pyright: ignore[reportMissingImports]

    del length
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return lambda feed: session.run(None, feed)[0]


def openvino(file: str, length: int) -> Callable[[Feed], np.ndarray]:
    """Opens a model of OpenVINO for the shortest time of one request."""
    import openvino as ov  # pyright: ignore[reportMissingImports]

    del length
    compiled = ov.Core().compile_model(
        file, "CPU", {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}
    )
    request = compiled.create_infer_request()
    return lambda feed: next(iter(request.infer(feed, share_inputs=True).values()))


def mnn(file: str, length: int) -> Callable[[Feed], np.ndarray]:
    """Opens a model of MNN, which then multiplies in int8."""
    import MNN  # pyright: ignore[reportMissingImports]

    names = ["input_ids", "attention_mask", "token_type_ids"]
    chosen = {"backend": "CPU", "numThread": 1, "memory": "low"}
    manager = MNN.nn.create_runtime_manager((chosen,))
    module = MNN.nn.load_module_from_file(file, names, ["classifier"], runtime_manager=manager)
    layout = (MNN.expr.data_format.NCHW, MNN.expr.int)

    def run(feed: Feed) -> np.ndarray:
        inputs = [MNN.expr.const(feed[name], [1, length], *layout) for name in names]
        return module.forward(inputs)[0].read()

    return run


def executorch(file: str, length: int) -> Callable[[Feed], np.ndarray]:
    """Opens a program of ExecuTorch."""
    import torch  # pyright: ignore[reportMissingImports]
    from executorch import runtime  # pyright: ignore[reportMissingImports]
    from executorch.extension.pybindings import (  # pyright: ignore[reportMissingImports]
        portable_lib,
    )

    del length
    portable_lib._unsafe_reset_threadpool(1)
    method = runtime.Runtime.get().load_program(file).load_method("forward")
    names = ("input_ids", "attention_mask", "token_type_ids")
    return lambda feed: method.execute([torch.from_numpy(feed[name]) for name in names])[0].numpy()


RUNTIMES: dict[str, Callable[[str, int], Callable[[Feed], np.ndarray]]] = {
    "litert": litert,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "mnn": mnn,
    "executorch": executorch,
}


def main() -> None:
    """Serves until stdin ends; what a runtime prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value: Any) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    feeds = [
        {name: np.array([row], np.int32) for name, row in example.items()}
        for example in json.loads(sys.stdin.readline())
    ]
    length = feeds[0]["input_ids"].shape[1]
    model = RUNTIMES[sys.argv[1]](sys.argv[2], length)
    gc.disable()
    answer([np.asarray(model(feed), np.float64).ravel().tolist() for feed in feeds])
    position = 0
    for line in sys.stdin:
        taken: dict[str, list[float]] = {"clock": [], "processor": []}
        for _ in range(json.loads(line)["run"]):
            feed = feeds[position % len(feeds)]
            position += 1
            busy, start = time.process_time_ns(), time.perf_counter_ns()
            model(feed)
            taken["clock"].append((time.perf_counter_ns() - start) / 1e6)
            taken["processor"].append((time.process_time_ns() - busy) / 1e6)
        answer(taken)


if __name__ == "__main__":
    main()
