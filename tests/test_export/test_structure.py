import dataclasses
import re
import types

import pytest

from export.checking import pairing, structure, weights
from export.model.heads import HEADS
from tfdistill.tflite.inspection import GraphReport, ModelReport
from tfdistill.tflite.signature import Tensor

INPUTS = ("attention_mask", "input_ids")
PLAN = types.SimpleNamespace(
    lengths=(8, 16),
    model=types.SimpleNamespace(input_names=INPUTS),
    head=HEADS["sequence"],
    num_labels=2,
    request=types.SimpleNamespace(softmax=False),
)


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


def faults(*graphs):
    """What the checks of signatures and operators list."""
    built = ModelReport("m.tflite", 40_000, "0" * 64, graphs, {}, ())
    lines = structure.signature_faults(built, PLAN)
    return lines + [fault for each in graphs for fault in structure.graph_faults(each)]


def test_a_file_as_expected_passes():
    assert faults(graph(8), graph(16)) == []


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
    assert re.search(message, "\n".join(faults(*graphs)))


def test_a_matrix_that_a_signature_has_a_copy_of_is_found():
    def tensor(buffer, shape):
        return types.SimpleNamespace(buffer=buffer, shape=shape)

    def pair(key, buffer, shape=(64, 32)):
        graphs = (types.SimpleNamespace(tensors=[tensor(place, shape)]) for place in (1, buffer))
        constant = pairing.Constant("key/MatMul", "FULLY_CONNECTED", 0, 0, 1, False, (0,))
        return pairing.Pair(key, next(graphs), None, next(graphs), (), (constant,), {}, {}, ())

    assert weights.copied([pair("len8", 2), pair("len16", 2)]) == []
    assert weights.copied([pair("len8", 2, (2048,)), pair("len16", 3, (2048,))]) == []  # biases
    assert weights.copied([pair("len8", 2), pair("len16", 3)]) == [
        "len16, matrices: expected those of the other signatures, received copies of 1."
    ]
