"""Stands in for `benchmark_model`: the real tool's options and output, over the real runtime.

It binds inputs by position, warns of other names, runs the file, and writes all outputs, as the
tool does. A GPU is pretended: answers are rounded to float16. What goes wrong stands in the file
says/benchmark_model.json of the device: {"fault": ..., "from": first run that it strikes}.
"""

import json
import os
import pathlib
import re
import resource
import signal
import sys
import time

import numpy as np
from ai_edge_litert import interpreter as litert
from ai_edge_litert import schema_py_generated as flat

FLAGS = {
    **{"num_runs": "50", "min_secs": "1", "max_secs": "150", "num_threads": "-1", "graph": ""},
    **{"warmup_runs": "1", "warmup_min_secs": "0.5", "signature_to_run_for": ""},
    **{"input_layer": "", "input_layer_shape": "", "input_layer_value_files": ""},
    **{"output_filepath": "", "report_peak_memory_footprint": "false"},
    "gpu_precision_loss_allowed": "true",
    **{"use_xnnpack": "", "use_gpu": "false", "use_nnapi": "false"},
}
KERNELS = {"XNNPACK": "TfLiteXNNPackDelegate", "GPU": "TfLiteGpuDelegateV2", "NNAPI": "TfLiteNnapi"}
DTYPES = {
    flat.TensorType.INT32: "<i4",
    flat.TensorType.INT64: "<i8",
    flat.TensorType.FLOAT32: "<f4",
}
DEVICE = pathlib.Path(os.environ["DEVICE"])


class Failed(Exception):
    """The tool ends with an error."""


def say(line):
    print(f"INFO: {line}", flush=True)


def parse(arguments):
    """The options by name; unknown ones are only warned of, as in the real tool."""
    values, unknown = {**FLAGS}, []
    accepted = set(FLAGS) - set(fault.get("unknown", ()))
    order = []
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        if name in accepted:
            values[name] = value
            order.append(name)
        else:
            unknown.append(argument)
    if unknown:
        print(f"WARN: Unconsumed cmdline flags: {' '.join(unknown)}")
    return values, order


class Graph:
    """The subgraph that runs: its tensors in its own order, and the function that runs it."""

    def __init__(self, options):
        try:
            content = pathlib.Path(options["graph"]).read_bytes()
        except OSError:
            raise Failed(f"Failed to load model {options['graph']}") from None
        model = flat.Model.GetRootAsModel(content, 0)
        signatures = [model.SignatureDefs(i) for i in range(model.SignatureDefsLength())]
        keys = [s.SignatureKey().decode() for s in signatures]
        key = options["signature_to_run_for"] or (keys[0] if len(keys) == 1 else "")
        if keys and key not in keys:
            listed = "\n".join(f" #> Signature key: {k}" for k in keys)
            raise Failed(f"Signature not specified or incorrect. Pass one of\n{listed}")
        if keys:
            say(f"Using signature: {key}")
        signature = signatures[keys.index(key)] if keys else None
        self.index = signature.SubgraphIndex() if signature else 0
        graph = model.Subgraphs(self.index)
        self.nodes = graph.OperatorsLength()
        self.sizes = [model.Subgraphs(i).OperatorsLength() for i in range(model.SubgraphsLength())]
        tensors = [graph.Tensors(i) for i in range(graph.TensorsLength())]
        self.names = [tensors[graph.Inputs(i)].Name().decode() for i in range(graph.InputsLength())]
        self.types = [
            np.dtype(DTYPES[tensors[graph.Inputs(i)].Type()]) for i in range(graph.InputsLength())
        ]
        self.shapes = [
            tuple(tensors[graph.Inputs(i)].ShapeAsNumpy()) for i in range(graph.InputsLength())
        ]
        plain = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self.runtime = litert.Interpreter(
            options["graph"],
            num_threads=max(1, int(options["num_threads"])),
            experimental_op_resolver_type=(
                plain if options["use_xnnpack"] == "false" else litert.OpResolverType.AUTO
            ),
        )
        if signature is None:
            self.runtime.allocate_tensors()
            self.inputs = [graph.Inputs(i) for i in range(graph.InputsLength())]
            self.outputs = [graph.Outputs(i) for i in range(graph.OutputsLength())]
            self.runner = None
            return
        by_index = {
            entry(i).TensorIndex(): entry(i).Name().decode()
            for entry, count in (
                (signature.Inputs, signature.InputsLength()),
                (signature.Outputs, signature.OutputsLength()),
            )
            for i in range(count)
        }
        self.inputs = [by_index[graph.Inputs(i)] for i in range(graph.InputsLength())]
        self.outputs = [by_index[graph.Outputs(i)] for i in range(graph.OutputsLength())]
        self.runner = self.runtime.get_signature_runner(key)

    def __call__(self, values):
        if self.runner is not None:
            outputs = self.runner(**dict(zip(self.inputs, values, strict=True)))
            return [outputs[name] for name in self.outputs]
        for index, value in zip(self.inputs, values, strict=True):
            self.runtime.set_tensor(index, value)
        self.runtime.invoke()
        return [self.runtime.get_tensor(index) for index in self.outputs]


def read_inputs(options, graph):
    """The values of the inputs by position, from files, or made up where there are none."""
    names = [name for name in options["input_layer"].split(",") if name]
    shapes = [s for s in options["input_layer_shape"].split(":") if s]
    if len(names) != len(shapes):
        raise Failed(
            f"The number of items in --input_layer_shape ({options['input_layer_shape']}, with "
            f"{len(shapes)} items) must match the number of items in --input_layer"
        )
    files = {}
    for item in filter(None, options["input_layer_value_files"].split(",")):
        name, file = re.split(r"(?<!:):(?!:)", item)
        if (name := name.replace("::", ":")) not in names:
            raise Failed(f"Cannot find the corresponding input_layer name({name})")
        files[name] = file.replace("::", ":")
    if names and len(names) != len(graph.names):
        raise Failed(f"Inputs mismatch: Model inputs #:{len(names)} expected: {len(graph.names)}")
    values = []
    for i, (real, dtype, shape) in enumerate(
        zip(graph.names, graph.types, graph.shapes, strict=True)
    ):
        called = names[i] if names else real
        if called != real:
            print(f"WARN: Tensor # {i} is named {real} but flags call it {called}")
        if names and tuple(map(int, shapes[i].split(","))) != shape:
            raise Failed("Failed to allocate tensors!")
        if called not in files:
            values.append(np.random.default_rng(0).integers(0, 100, shape).astype(dtype))
            continue
        content = pathlib.Path(files[called]).read_bytes()
        if len(content) != int(np.prod(shape)) * dtype.itemsize:
            print(
                f"FATAL: The size of {files[called]} is {len(content)} bytes. It should be "
                f"{int(np.prod(shape)) * dtype.itemsize} bytes.",
                file=sys.stderr,
            )
            os.abort()
        values.append(np.frombuffer(content, dtype).reshape(shape))
    return values


def apply_delegates(order, options, graph):
    """Says who takes which nodes, in the order of the options, as the runtime does."""
    left = graph.nodes
    for option, name in (("use_gpu", "GPU"), ("use_nnapi", "NNAPI"), ("use_xnnpack", "XNNPACK")):
        if option in order and options[option] == "true":
            if name != "XNNPACK" and fault.get("fault") == "no accelerator":
                print(f"WARN: {name} acceleration is unsupported on this platform.")
                continue
            say(f"{name} delegate created.")
            if name != "XNNPACK" and fault.get("fault") == "nothing delegated":
                say(
                    f"Though {name} delegate is explicitly applied, the model graph will not be "
                    "executed by the delegate."
                )
                continue
            taken = max(1, left - 2) if name == "XNNPACK" else left // 2
            for index, size in enumerate([] if fault.get("fault") == "quiet" else graph.sizes):
                print(
                    f"INFO: Replacing {taken} out of {size} node(s) with delegate "
                    f"({KERNELS[name]}) node, yielding 3 partitions for subgraph {index} ().",
                    file=sys.stderr,
                )
            left -= taken
            say(
                f"Explicitly applied {name} delegate, and the model graph will be partially "
                "executed by the delegate w/ 1 delegate kernels."
            )


def run(graph, values, count, min_secs, max_secs, slower):
    """Runs until there are enough inferences; returns durations in us and the last outputs."""
    say(
        f"Running benchmark for at least {count} iterations and at least {min_secs:g} seconds but "
        f"terminate if exceeding {max_secs:g} seconds."
    )
    durations, outputs, start = [], [], time.monotonic()
    while (
        len(durations) < count or time.monotonic() - start < min_secs
    ) and time.monotonic() - start <= max_secs:
        before = time.perf_counter_ns()
        outputs = graph(values)
        durations.append(max(1, int((time.perf_counter_ns() - before) / 1000 * slower)))
    say(stats(durations) + "\n")
    return durations, outputs


def stats(durations):
    if not durations:
        return "count=0 p5=0 median=0 p95=0"
    ordered = sorted(durations)
    tail = " ".join(
        f"{name}={ordered[len(ordered) * q // 100]}"
        for name, q in (("p5", 5), ("median", 50), ("p95", 95))
    )
    if ordered[0] == ordered[-1]:
        same = "(all same)" if len(durations) > 1 else ""
        return f"count={len(durations)} curr={durations[-1]}{same} {tail}"
    return (
        f"count={len(durations)} first={durations[0]} curr={durations[-1]} min={ordered[0]} "
        f"max={ordered[-1]} avg={np.mean(durations):g} std={int(np.std(durations))} {tail}"
    )


def strike():
    """What goes wrong with this run of the tool."""
    folder = DEVICE / "says"
    counter = folder / "benchmark_model.runs"
    number = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(number + 1))
    plan = folder / "benchmark_model.json"
    planned = json.loads(plan.read_text()) if plan.exists() else {}
    return (
        planned if planned.get("from", 0) <= number < planned.get("until", 1 << 30) else {}
    ), number


def main():
    say("STARTING!")
    options, order = parse(sys.argv[1:])
    say("Log parameter values verbosely: [0]")
    kind = fault.get("fault")
    if kind == "hang":
        time.sleep(1000)
    if kind == "killed":
        os.kill(os.getpid(), getattr(signal, fault.get("signal", "SIGKILL")))
    if kind == "garbage":
        print("\x00\x17 4 8 15 16 23 42 count= nonsense")
        return 0
    start = time.perf_counter_ns()
    graph = Graph(options)
    say(f"Loaded model {options['graph']}")
    apply_delegates(order, options, graph)
    init_us = (time.perf_counter_ns() - start) // 1000
    say(f"The input model file size (MB): {os.path.getsize(options['graph']) / 1e6:g}")
    say(f"Initialized session in {init_us / 1e3:g}ms.")
    values = read_inputs(options, graph)
    slower = 1.0
    if kind == "throttle":
        slower = 1.0 + 0.5 * (number - fault.get("from", 0) + 1)
        service = DEVICE / "says/dumpsys/thermalservice"
        service.write_text(re.sub(r"Status: \d", "Status: 2", service.read_text(), count=1))
    most = float(options["max_secs"])
    warm, _ = run(
        graph, values, int(options["warmup_runs"]), float(options["warmup_min_secs"]), most, slower
    )
    if kind == "truncated":
        return 0
    counted, outputs = run(
        graph, values, int(options["num_runs"]), float(options["min_secs"]), most, slower
    )
    mean = np.mean(counted)
    say(
        f"Inference timings in us: Init: {init_us}, First inference: {warm[0] if warm else 0}, "
        f"Warmup (avg): {np.mean(warm) if warm else np.nan:g}, Inference (avg): {mean:g}"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say("Note: as the benchmark tool itself affects memory footprint, the following is only ...")
    say(f"Memory footprint delta from the start of the tool (MB): init=1.5 overall={peak / 2:g}")
    if options["report_peak_memory_footprint"] == "true":
        say(f"Overall peak memory footprint (MB) via periodic monitoring: {peak:g}")
    if options["output_filepath"]:
        if options["use_gpu"] == "true":
            outputs = [np.float32(np.float16(output)) for output in outputs]
        content = b"".join(np.ascontiguousarray(output).tobytes() for output in outputs)
        content = content[: len(content) // 2] if kind == "half the answers" else content
        pathlib.Path(options["output_filepath"]).write_bytes(content)
    return 0


if __name__ == "__main__":
    fault, number = strike()
    try:
        code = main()
    except Failed as error:
        print(f"ERROR: {error}\nERROR: Benchmarking failed.", file=sys.stderr)
        code = 1
    sys.exit(code)
