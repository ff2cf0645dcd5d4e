"""What the tool prints, of several releases, and what is no output of it."""

import dataclasses
import pathlib
import pprint

import golden_page
import pytest

from tfdistill import errors
from tfdistill.benchmark.adb import output

TEXTS = pathlib.Path(__file__).parent / "texts"
NEW = """\
INFO: STARTING!
INFO: Log parameter values verbosely: [0]
INFO: Num threads: [2]
INFO: Using signature: len16
INFO: XNNPACK delegate created.
VERBOSE: Replacing 70 out of 75 node(s) with delegate (TfLiteXNNPackDelegate) node, \
yielding 3 partitions for subgraph 0 (main).
VERBOSE: Replacing 71 out of 75 node(s) with delegate (TfLiteXNNPackDelegate) node, \
yielding 5 partitions for subgraph 1 (len16).
INFO: Explicitly applied XNNPACK delegate, and the model graph will be partially executed by the \
delegate w/ 2 delegate kernels.
INFO: The input model file size (MB): 14.4
INFO: Initialized session in 12.5ms.
INFO: Running benchmark for at least 10 iterations and at least 0.5 seconds but terminate if \
exceeding 150 seconds.
INFO: count=120 first=5103 curr=4102 min=4051 max=5103 avg=4170.5 std=120 p5=4060 median=4150 \
p95=4300

INFO: Running benchmark for at least 10 iterations and at least 0 seconds but terminate if \
exceeding 150 seconds.
INFO: count=10 first=4102 curr=4098 min=4051 max=1.2e+06 avg=4.1105e+03 std=31 p5=4051 \
median=4105 p95=4189

INFO: Inference timings in us: Init: 12500, First inference: 5103, Warmup (avg): 4170.5, \
Inference (avg): 4110.5
INFO: Note: as the benchmark tool itself affects memory footprint, the following is only ...
INFO: Memory footprint delta from the start of the tool (MB): init=10.5 overall=21.25
INFO: Overall peak memory footprint (MB) via periodic monitoring: 34.5
"""
OLD = """\
STARTING!
Min num runs: [50]
Loaded model m.tflite
INFO: Initialized TensorFlow Lite runtime.
INFO: Replacing 60 out of 75 node(s) with delegate (TfLiteGpuDelegateV2) node, \
yielding 2 partitions.
Explicitly applied GPU delegate, and the model graph will be completely executed by the delegate.
Initialized session in 870.557ms.
count=0
count=50 first=119212 curr=118055 min=113737 max=124776 avg=119375 std=1948
Inference timings in us: Init: 870557, First inference: 0, Warmup (avg): nan, \
Inference (avg): 119375
"""


def parse(text, **more):
    return output.parse(text, what="m, 16 tokens", **more)


PRINTED = {
    "a new release": NEW,
    "an old release without percentiles and warm-up": OLD,
    "a single run": NEW.replace(
        "count=10 first=4102", "count=1 curr=900 p5=900 median=900 p95=900\ncount_"
    ),
    "runs that all took the same": OLD.replace(
        "count=50 first=119212", "count=50 curr=7(all same)\ncount_"
    ),
    "no peak": NEW.replace("monitoring: 34.5", "monitoring: nan"),
    "a peak of no machine": NEW.replace("monitoring: 34.5", "monitoring: 9e+300"),
    "a deviation below zero": NEW.replace("std=31", "std=-31"),
    "an endless percentile": NEW.replace("p95=4189", "p95=1e+400"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_a_release_printed_is_read_as_the_text_of_its_name(name):
    """Figures that can be none are unknown; standard error may stand before or behind."""
    lines = PRINTED[name].splitlines(keepends=True)
    behind = "".join(sorted(lines, key=lambda line: line.startswith("VERBOSE")))
    printed = [dataclasses.replace(parse(text), text="") for text in (PRINTED[name], behind)]
    file = TEXTS / f"{name.replace(' ', '_')}.txt"
    golden_page.check(pprint.pformat(printed[0], width=100) + "\n", file)
    assert printed[0] == printed[1]


def coverage(text, delegate, **more):
    where = {"subgraph": 1, "num_nodes": 75, **more}
    return output.coverage(parse(text), delegate, **where)


def test_coverage_is_that_of_the_graph_that_ran_or_that_the_sizes_fit():
    share = coverage(NEW, "xnnpack")
    assert (share.delegated_nodes, share.nodes, share.partitions) == (71, 75, 2)
    assert coverage(NEW, "xnnpack", subgraph=0).delegated_nodes == 70
    assert coverage(NEW, "none") is None
    share = coverage(OLD, "gpu")
    assert (share.delegated_nodes, share.nodes, share.partitions) == (60, 75, 1)
    other = OLD.replace("out of 75", "out of 99")
    assert coverage(other, "gpu").delegated_nodes == 75  # "completely executed" says it as well
    partly = other.replace("completely executed", "partially executed")
    partly = partly.replace("by the delegate.", "by the delegate w/ 3 delegate kernels.")
    assert coverage(partly, "gpu") is None
    text = NEW.replace("Explicitly applied XNNPACK", "Explicitly applied OTHER")
    with pytest.raises(errors.BenchmarkError, match="XNNPACK takes part in"):
        coverage(text, "xnnpack")


@pytest.mark.parametrize(
    "line",
    [
        "GPU acceleration is unsupported on this platform.",
        "Though GPU delegate is explicitly applied, the model graph will not be executed by the "
        "delegate.",
        "Explicitly applied GPU delegate, and the model graph will be partially executed by the "
        "delegate w/ 0 delegate kernels.",
    ],
)
def test_a_silent_fallback_to_the_cpu_is_an_error_that_quotes_why(line):
    text = NEW.replace("XNNPACK delegate created.", line)  # XNNPACK took the graph instead
    with pytest.raises(errors.BenchmarkError, match="GPU takes part in") as caught:
        coverage(text, "gpu")
    assert line[:60] in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "\n", "hello", NEW[: NEW.index("INFO: Inference timings")], NEW.replace("count=", "c=")],
)
def test_other_output_is_refused_with_its_last_lines(text):
    with pytest.raises(errors.BenchmarkError, match="line `Inference timings in us`") as caught:
        parse(text)
    last = text.strip().splitlines()[-1].strip()[:300] if text.strip() else "It printed nothing"
    assert last in str(caught.value)


@pytest.mark.parametrize(
    "broken",
    [
        ("min=4051 max=1.2e+06", "min=0 max=1.2e+06"),
        ("avg=4.1105e+03", "avg=nan"),
        ("avg=4.1105e+03", "avg=4e+300"),
        ("Init: 12500", "Init: -12500"),
    ],
)
def test_figures_of_nothing_are_refused(broken):
    with pytest.raises(errors.BenchmarkError, match="figures without any"):
        parse(NEW.replace(*broken))


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (1, "ERROR: Failed to load model x\nERROR: Benchmarking failed.\n", "Failed to load model"),
        (126, "sh: ./benchmark_model: not executable: 64-bit ELF file", "64-bit ELF file"),
        (126, "", "built for its processor"),
        (126, "sh: ./benchmark_model: can't execute: Permission denied", "mounted noexec"),
        (127, "sh: benchmark_model: inaccessible or not found", "built for Android"),
        (134, "ERROR: The size of a is 4 bytes. It should be 64 bytes.", "signal SIGABRT"),
        (137, NEW, "takes too much memory"),
        (132, "", "instructions that this processor does not have"),
        (1, "Unconsumed cmdline flags: --input_layer=a --input_layer_shape=1,8\nBENCHMARK RESULTS",
         "Use the benchmark_model of the Interpreter API"),
        # Refused even with figures.
        (0, "WARN: Unconsumed cmdline flags: --signature_to_run_for=len16\n" + NEW,
         "does not know signature_to_run_for"),
        (0, "WARN: Tensor # 0 is named mask:0 but flags call it ids:0\n" + NEW,
         "ids:0 instead of mask:0"),
    ],
)  # fmt: skip
def test_what_the_tool_said_of_a_failure_is_told(code, text, expected):
    with pytest.raises(errors.BenchmarkError) as caught:
        parse(text, exit_code=code)
    assert expected in str(caught.value)
