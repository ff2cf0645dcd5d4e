"""What is measured one file at a time: coverage, operators, runs without pauses; delegates."""

import numpy as np
import pytest
from ai_edge_litert import interpreter as litert

from tfdistill import errors
from tfdistill.benchmark import host, schema
from tfdistill.benchmark.backend import Findings
from tfdistill.benchmark.host import backend, profiler
from tfdistill.benchmark.host.backend import MODULE
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import open_subject
from tfdistill.tflite import child, roles, xnnpack
from tfdistill.tflite.signature import SignatureRunner

QUICK = {"runs": 4, "min_seconds": 0.0, "repetitions": 1, "rounds": 2, "warmup": 1}
SUMMARY = """
==== Run Order ====
        [node type]   [start]  [first]  [avg ms]     [%]  [cdf%] [mem KB] [times called] [Name]
               CAST     0.000    0.000     0.125  0.000%  0.000%    0.000              1 [Builtin]:0
 Delegate/Fully Connected (NC, F32) GEMM 0.1 0.1  1.500 90.00% 99.000%   0.000        1 [Delegate]:4
               CAST     0.000    0.000     0.250  0.000%  0.000%    0.000              1 [Builtin]:7

==== Top by Computation Time ====
 Delegate/Fully Connected (NC, F32) GEMM 0.1 0.1  1.500 90.00% 99.000%   0.000        1 [Delegate]:4
"""


@pytest.fixture
def subject(tflite_files):
    return open_subject(tflite_files / "fast.tflite")


def on_host(*subjects, **settings):
    return backend.HostBackend(subjects, Settings(**settings), None)


def case_of(subject, length, delegate="xnnpack"):
    return schema.BenchmarkCase(
        model=subject.name, sequence_length=length, threads=1, delegate=delegate
    )


def test_the_profiler_s_table_is_read_in_the_order_of_the_run_and_once():
    assert profiler.rows_of(SUMMARY) == [
        ("CAST", 0.125),
        ("Delegate/Fully Connected (NC, F32) GEMM", 1.5),
        ("CAST", 0.25),
    ]


@pytest.mark.parametrize("text", ["", "garbage", "==== Run Order ====\n\n==== Top ====\n"])
def test_a_profile_without_a_table_is_an_error(text):
    with pytest.raises(RuntimeError, match="no table of operators"):
        profiler.rows_of(text)


def test_profiled_runs_are_averaged_over_the_faster_half():
    runs = [
        [("ADD", 1.0), ("Delegate/MUL", 4.0), ("ADD", 1.0)],
        [("ADD", 2.0), ("Delegate/MUL", 4.0), ("ADD", 1.0)],
        [("ADD", 1.0), ("Delegate/MUL", 400.0), ("ADD", 1.0)],  # something disturbed it
    ]
    assert profiler.mean_of_quiet(runs) == [
        {"type": "MUL", "calls": 1, "ms": 4.0},
        {"type": "ADD", "calls": 2, "ms": 2.5},
    ]


@pytest.mark.parametrize(("ms", "noted"), [(0.001, True), (0.01, False)])
def test_operators_that_are_short_for_the_profiler_are_noted(monkeypatch, tflite_files, ms, noted):
    class Profiled(child.Child):
        def __init__(self, job, module, **options):
            super().__init__(job, module, **options)
            if job.get("kind") == "operators":
                self.report = {"operators": [{"type": "ADD", "calls": 2, "ms": ms}]}

    monkeypatch.setattr(child, "Child", Profiled)
    options = {**QUICK, "lengths": [8], "texts": False}
    result = host.measure(
        tflite_files / "fast.tflite", settings=Settings(operators=True, **options)
    )
    assert any("whole microseconds" in note for note in result.notes) is noted


@pytest.mark.parametrize("length", [8, 16])
def test_without_a_delegate_the_operators_are_those_of_the_file(subject, length):
    operators = on_host(subject, runs=3).operators(case_of(subject, length, "none"))
    calls = {row.type: row.calls for row in operators.operators}
    with xnnpack.interpreter(str(subject.file), f"len{length}") as opened:
        nodes = opened._get_ops_details()
    names = [node["op_name"] for node in nodes if node["op_name"] != "DELEGATE"]
    assert sum(calls.values()) == len(names) > 5
    assert {name.replace("_", "") for name in calls} == {name.replace("_", "") for name in names}
    times = [row.ms for row in operators.operators]
    assert times == sorted(times, reverse=True)


def test_xnnpack_tells_its_operators_one_by_one(tflite_files):
    slow = open_subject(tflite_files / "slow.tflite")
    operators = on_host(slow, runs=3).operators(case_of(slow, 16))
    assert operators.operators[0].type.startswith("Fully Connected")  # eight products of 256 x 1024
    assert operators.operators[0].calls >= 8
    share = operators.operators[0].ms / sum(row.ms for row in operators.operators)
    assert share > 0.5  # 8 M multiplications of 8.4 M operations; measured: 0.95
    assert not any("Delegate" in row.type for row in operators.operators)
    assert "profiler" in operators.source


def test_the_profiled_model_is_fed_by_name(tflite_files):
    """Its answers are those of the interpreter, for two different inputs of the longer length."""
    file = tflite_files / "fast.tflite"
    signature = roles.read_signatures(file)[16]
    runner = SignatureRunner(litert.Interpreter(str(file)), signature)
    model = profiler.ProfiledModel(str(file), "len16", threads=1, delegate="none")
    names = [tensor.name for tensor in signature.inputs]
    for ids, types in ([2, 9, 17, 3], [0, 0, 1, 1]), ([2, 80, 3], [0, 1, 0]):
        values = signature.padded(ids, types)
        model.run(dict(zip(names, values, strict=True)))
        (expected,) = runner(values)
        # XNNPACK against LiteRT's own kernels: float32 sums in another order.
        np.testing.assert_allclose(_output(model, expected), expected, rtol=1e-5)


def _output(model, like):
    import ctypes

    (buffer,) = model._outputs.values()
    place = ctypes.c_void_p()
    model._call("LockTensorBuffer", buffer, ctypes.byref(place), 0)
    values = (ctypes.c_float * like.size).from_address(place.value)
    copied = np.array(values, dtype=np.float32).reshape(like.shape)
    model._call("UnlockTensorBuffer", buffer)
    return copied


def test_a_litert_without_the_profiler_is_told_with_a_way_out(subject, monkeypatch):
    monkeypatch.setattr(child.Child, "_receive", _no_profiler)
    with pytest.raises(errors.BenchmarkError, match=r"no LiteRtFoo.*--device adb"):
        on_host(subject, runs=3).operators(case_of(subject, 8))


def _no_profiler(self):
    raise errors.BenchmarkError("this version of LiteRT has no LiteRtFoo.")


def test_a_function_that_the_library_lacks_is_named(tflite_files):
    model = profiler.ProfiledModel(
        str(tflite_files / "fast.tflite"), "len8", threads=1, delegate="xnnpack"
    )
    with pytest.raises(RuntimeError, match="has no LiteRtFlyToTheMoon"):
        model._call("FlyToTheMoon")
    with pytest.raises(RuntimeError, match="no signature 'len9'"):
        profiler.ProfiledModel(
            str(tflite_files / "fast.tflite"), "len9", threads=1, delegate="none"
        )
    with pytest.raises(RuntimeError, match="expected 32 bytes, received 8"):
        model.run(dict.fromkeys(model._inputs, np.zeros((1, 2), np.int32)))


def test_the_coverage_of_each_length_is_counted(tflite_files):
    subjects = [open_subject(tflite_files / f"{name}.tflite") for name in ("fast", "slow")]
    measured, findings = on_host(*subjects), Findings()
    with measured.opened(findings):
        coverages = measured._coverage
    assert findings.failures == []
    assert set(coverages) == {(name, length) for name in ("fast", "slow") for length in (8, 16)}
    assert coverages["slow", 8].nodes > coverages["fast", 8].nodes  # four layers against one
    for counted in coverages.values():
        assert counted.partitions >= 1
        assert 0 < counted.delegated_nodes < counted.nodes  # the lookups stay with LiteRT


def test_a_signature_that_is_cut_out_is_the_one_that_is_opened(tflite_files):
    file = tflite_files / "fast.tflite"
    before = file.read_bytes()
    for length in (8, 16):
        with xnnpack.interpreter(str(file), f"len{length}") as opened:
            opened.allocate_tensors()
            shapes = {tuple(detail["shape"]) for detail in opened.get_input_details()}
        assert shapes == {(1, length)}
    assert file.read_bytes() == before


def test_coverage_is_told_of_xnnpack_and_not_of_no_delegate(tflite_files):
    result = host.measure(
        tflite_files / "fast.tflite",
        settings=Settings(lengths=(16,), delegates=("xnnpack", "none"), **QUICK),
    )
    rows = {row.delegate: row.coverage for row in result.measurements}
    assert rows["none"] is None
    assert rows["xnnpack"].partitions >= 1


def test_operators_are_profiled_at_each_length_and_with_each_delegate(tflite_files):
    result = host.measure(
        tflite_files / "fast.tflite",
        settings=Settings(operators=True, delegates=("xnnpack", "none"), **QUICK),
    )
    places = {(row.sequence_length, row.delegate) for row in result.operators}
    assert places == {(8, "xnnpack"), (8, "none"), (16, "xnnpack"), (16, "none")}
    assert result.failures == ()


def test_a_worker_stays_on_its_cores(subject, tmp_path):
    import os

    from tfdistill.benchmark import cores

    core = min(os.sched_getaffinity(0))
    pinned = backend.HostBackend([subject], Settings(warmup=1), cores.mask_of([core]))
    job = pinned._ids_job(case_of(subject, 8).model_copy(update={"threads": 2}), "ids")
    with child.Child(job, MODULE, what="x", timeout_seconds=60) as opened:
        status = f"/proc/{opened._process.pid}/task"
        threads = [os.sched_getaffinity(int(thread)) for thread in os.listdir(status)]
        opened.ask({"run": 1, "lead_in": 0})
    assert len(threads) >= 2
    assert all(bound == {core} for bound in threads)  # those of the imports, too
