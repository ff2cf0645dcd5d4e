import dataclasses
import re

import pytest

from export.checking import structure
from export.conversion import quantize
from export.conversion.prepare import StoredWeight
from export.model.heads import HEADS
from tfdistill.tflite.inspection import GraphReport, ModelReport
from tfdistill.tflite.signature import Tensor

INPUTS = ("attention_mask", "input_ids")
# 1,000 x 32 in int8, then 32 x 32 in int8, a bias and a small matrix in float32.
SHAPES = ((1000, 32), (32, 32), (32,), (2, 32))
INT8_WEIGHTS = quantize.quantization("dynamic_wi8_afp32")
EXPECTED = structure.Expectation(
    quantization=INT8_WEIGHTS,
    lengths=(8, 16),
    inputs=INPUTS,
    head=HEADS["sequence"],
    outputs=("logits",),
    num_labels=2,
    weights=tuple(StoredWeight("layer", shape, INT8_WEIGHTS) for shape in SHAPES),
    position_width=32,
)
INT8, FLOAT32 = 33_024, (32 + 64 + 24 * 32) * 4


def tensors(dtype, shape, *names):
    return tuple(Tensor(name, dtype, shape, index) for index, name in enumerate(names))


def graph(length, **changes):
    report = GraphReport(
        signature=f"len{length}",
        inputs=tensors("int32", (1, length), *INPUTS),
        outputs=tensors("float32", (1, 2), "logits"),
        operators={"FULLY_CONNECTED": 4, "GELU": 1},
        dynamic_tensors=(),
    )
    return dataclasses.replace(report, **changes)


def report(*graphs, weight_bytes=None):
    sizes = weight_bytes or {"int8": INT8, "float32": FLOAT32, "int32": 100}
    return ModelReport("m.tflite", 40_000, "0" * 64, graphs or (graph(8), graph(16)), sizes, ())


def test_a_file_as_expected_passes():
    assert EXPECTED.weight_bytes == (INT8 + FLOAT32, INT8 + FLOAT32)
    assert faults(report(), EXPECTED) == []


def faults(built, expected):
    """What the four checks of the structure list."""
    lines = structure.signature_faults(built, expected) + structure.size_faults(built, expected)
    for each in built.graphs:
        lines += structure.graph_faults(each) + structure.float_faults(each, expected)
    return lines


FAULTS = {
    "signatures": ([graph(8)], "signatures: expected .'len8', 'len16'."),
    "other_signature": ([graph(8), graph(16), graph(32)], "signatures"),
    "no_signature": ([graph(8), graph(16, signature=None)], "signatures"),
    "int64_input": (
        [
            graph(8),
            graph(16, inputs=tensors("int64", (1, 16), *INPUTS)),
        ],
        "inputs of len16.*int64",
    ),
    "missing_input": (
        [graph(8, inputs=tensors("int32", (1, 8), "input_ids")), graph(16)],
        "inputs of len8",
    ),
    "wrong_length": ([graph(8, inputs=graph(16).inputs), graph(16)], "inputs of len8"),
    "output_name": (
        [graph(8, outputs=tensors("float32", (1, 2), "Identity")), graph(16)],
        "outputs of len8.*Identity",
    ),
    "output_width": (
        [graph(8, outputs=tensors("float32", (1, 3), "logits")), graph(16)],
        "outputs of len8",
    ),
    "flex": ([graph(8, operators={"CUSTOM:FlexErf": 1}), graph(16)], "built-in ones only.*FlexErf"),
    "variable": (
        [graph(8), graph(16, operators={"VAR_HANDLE": 1, "READ_VARIABLE": 2})],
        "operators of len16.*no variables.*VAR_HANDLE",
    ),
    "dynamic": ([graph(8, dynamic_tensors=("x",)), graph(16)], "tensors of len8.*static shapes"),
}


@pytest.mark.parametrize(("graphs", "message"), FAULTS.values(), ids=FAULTS)
def test_each_fault_of_the_graphs_is_found(graphs, message):
    assert re.search(message, "\n".join(faults(report(*graphs), EXPECTED)))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"int8": 2 * INT8, "float32": FLOAT32}, "stored twice or not quantized"),
        ({"float32": 4 * INT8 + FLOAT32}, "stored twice or not quantized"),
        ({"int8": INT8 - 32 * 32, "float32": FLOAT32 - 2000}, "weights are lost"),
    ],
)
def test_constants_of_another_size_are_found(sizes, message):
    assert re.search(message, "\n".join(faults(report(weight_bytes=sizes), EXPECTED)))


def test_all_faults_are_told_at_once():
    damaged = report(graph(8, operators={"CUSTOM:X": 1}), weight_bytes={"float32": 1})
    assert len(faults(damaged, EXPECTED)) == 3  # signatures, operators, bytes


def stored_as(name, of_first=None):
    """The expectation of another quantization; `own` is that of the first weight."""
    base = quantize.quantization(name)
    first = quantize.quantization(of_first or name)
    weights = [StoredWeight("layer", shape, base) for shape in SHAPES[1:]]
    weights.insert(0, StoredWeight("word_embeddings", SHAPES[0], first))
    return dataclasses.replace(EXPECTED, quantization=base, weights=tuple(weights))


def test_blocks_cost_a_float16_scale_for_each():
    expected = stored_as("dynamic_wi4_afp32_block32").weight_bytes
    assert expected == (INT8 * (0.5 + 2 / 32) + FLOAT32,) * 2
    sizes = {"int4": INT8 // 2, "float16": INT8 // 16, "float32": FLOAT32}
    assert faults(report(weight_bytes=sizes), stored_as("dynamic_wi4_afp32_block32")) == []
    assert re.search(
        "not quantized", "\n".join(faults(report(), stored_as("dynamic_wi4_afp32_block32")))
    )


def test_a_layer_of_its_own_counts_in_its_own_format():
    expected = stored_as("dynamic_wi8_afp32", of_first="float32")
    table = 1000 * 32
    sizes = {"int8": INT8 - table, "float32": FLOAT32 + 4 * table}
    assert faults(report(weight_bytes=sizes), expected) == []
    assert re.search("weights are lost", "\n".join(faults(report(), expected)))


INTEGERS = {"int8": INT8 + FLOAT32 // 4, "int32": 100}


def test_products_alone_in_floats_are_no_static_quantization():
    static = stored_as("static_wi8_ai8")
    left = graph(16, float_operators={"FULLY_CONNECTED": 2})
    assert re.search(
        r"of len16.*floats in 2 FULLY_CONN",
        "\n".join(faults(report(graph(8), left, weight_bytes=INTEGERS), static)),
    )
    other = graph(16, float_operators={"GELU": 1})
    assert faults(report(graph(8), other, weight_bytes=INTEGERS), static) == []
