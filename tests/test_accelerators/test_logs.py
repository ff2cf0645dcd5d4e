"""What LiteRT 2.3 logs about the division of a file is read as it says it."""

from tfdistill.accelerators import logs
from tfdistill.accelerators.logs import Share

# As LiteRT wrote it for a file of float16 with two signatures, on SwiftShader.
GPU = """I0000 00:00:1795358830.850285   22518 delegate_webgpu.cc:759] # of threads = 0
ERROR: Following operations are not supported by GPU delegate:
DEQUANTIZE: 
GATHER: Only support 1D indices
95 operations will run on the GPU, and the remaining 44 operations will run on the CPU.
I0000 00:00:1795358830.851021   22518 delegate_kernel.cc:984] Initializing WebGPU-based API.
ERROR: Following operations are not supported by GPU delegate:
GATHER: Only support 1D indices
91 operations will run on the GPU, and the remaining 6 operations will run on the CPU.
"""
NPU = """INFO: [compiler_plugin.cc:742] Partitioned subgraph<0>, selected 97 ops, from a total of 97 ops. resulted in 1 partitions.
INFO: [compiler_plugin.cc:742] Partitioned subgraph<1>, selected 61 ops, from a total of 63 ops. resulted in 3 partitions.
"""  # noqa: E501


def test_what_stays_on_the_cpu_is_read_with_its_reason():
    assert logs.gpu_shares(GPU) == [
        Share(95, None, {"DEQUANTIZE": "", "GATHER": "Only support 1D indices"}),
        Share(91, None, {"GATHER": "Only support 1D indices"}),
    ]
    nothing = "No operations will run on the GPU, and all 5 operations will run on the CPU."
    assert logs.gpu_shares(nothing) == [Share(0, None, {})]
    assert logs.gpu_shares("INFO: all is well\n") == []


def test_partitions_are_read_by_subgraph():
    assert logs.npu_shares(NPU) == {0: Share(97, 1, {}), 1: Share(61, 3, {})}


def test_the_last_words_leave_out_what_tells_nothing():
    log = "ERROR: no device\nINFO: [a.cc:1] DestroyAccelerator\n[LITERT_TOOLS:APPLY] Failed\n"
    assert logs.last_words(log) == "ERROR: no device"
    assert logs.last_words("INFO: fine\n") == "none"
