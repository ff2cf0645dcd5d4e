"""What a file needs follows from its operators and their types, and older runtimes refuse it."""

import pathlib
import re
import types

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from export.checking import structure
from export.conversion import edge_quantizer
from tests import tiny_tflite
from tfdistill.tflite import editing, inspection, reader, runtimes

FLOAT32, INT32, INT16 = schema.TensorType.FLOAT32, schema.TensorType.INT32, schema.TensorType.INT16
INT8, INT4 = schema.TensorType.INT8, schema.TensorType.INT4
OPERATORS = schema.BuiltinOperator
ROOT = pathlib.Path(__file__).parents[2]
OLDEST, MODULE = runtimes.RUNTIMES[:2]


@pytest.fixture
def written(tmp_path):
    """Writes a file of one operator of some version, which reads tensors of some types."""

    def write(builtin, version, *types, blocks=False, also=None):
        tensors = [(f"t{i}", f"t{i}", kind, (4, 32)) for i, kind in enumerate((*types, FLOAT32))]
        path = tiny_tflite.write(tmp_path / "m.tflite", [("len4", tensors[:-1], tensors[-1:])])
        tree = editing.read(path)
        (code,), (graph,) = tree.operatorCodes, tree.subgraphs
        code.builtinCode, code.version = builtin, version
        code.deprecatedBuiltinCode = min(builtin, 127)
        graph.operators = graph.operators[:1]
        if blocks:
            quantization = graph.tensors[1].quantization = schema.QuantizationParametersT()
            quantization.detailsType = schema.QuantizationDetails.BlockwiseQuantization
            quantization.details = schema.BlockwiseQuantizationT()
            quantization.details.blockSize = 32
        if also is not None:  # another operator of the same code
            other = schema.OperatorT()
            other.opcodeIndex, other.inputs, other.outputs = 0, also, graph.outputs
            graph.operators.append(other)
        record, buffer = schema.MetadataT(), schema.BufferT()
        record.name, record.buffer = b"min_runtime_version", len(tree.buffers)
        buffer.data = np.frombuffer(b"2.9.0".ljust(16, b"\0"), np.uint8)
        tree.metadata, tree.buffers = [record], [*tree.buffers, buffer]
        editing.write(tree, path)
        return path

    return write


FC, LOOKUP, GELU = OPERATORS.FULLY_CONNECTED, OPERATORS.EMBEDDING_LOOKUP, OPERATORS.GELU
NEEDS = [
    ((FC, 5, FLOAT32, FLOAT32), 5, OLDEST),
    ((FC, 5, INT8, INT8), 5, OLDEST),
    ((FC, 5, FLOAT32, INT8), 11, MODULE),
    ((FC, 5, FLOAT32, INT4), 14, "LiteRT 2.1.0"),
    ((FC, 5, INT8, INT4), 14, "LiteRT 2.1.0"),
    ((LOOKUP, 1, INT32, FLOAT32), 1, OLDEST),
    ((LOOKUP, 4, INT32, INT8), 4, "LiteRT 1.0.1"),
    ((LOOKUP, 3, INT32, INT4), 4, "LiteRT 1.0.1"),
    ((GELU, 1, INT8), 1, OLDEST),
]


def stated(path):
    """Writes what a file needs into it; returns it and its release."""
    tree = editing.read(path)
    edge_quantizer.state_needs(tree, reader.read(path))
    editing.write(tree, path)
    release = bytes(tree.buffers[tree.metadata[0].buffer].data)
    assert len(release) == 16
    return reader.read(path), release.rstrip(b"\0").decode()


@pytest.mark.parametrize(("operator", "version", "runtime"), NEEDS)
def test_a_version_is_the_lowest_that_no_wrong_runtime_registers(
    written, operator, version, runtime
):
    path = written(*operator)
    assert bool(inspection.inspect(path).understated) == (version > operator[1])
    assert runtimes.least(reader.read(path)) == runtime
    model, release = stated(path)
    assert model.subgraphs[0].operators[0].version == version
    assert runtimes.least(model) == runtime and not runtimes.understated(model)
    assert (release == "2.9.0") == (runtime == OLDEST)


def test_a_table_in_blocks_needs_more_than_one_by_row(written):
    path = written(LOOKUP, 4, INT32, INT4, blocks=True)
    tensors = reader.read(path).subgraphs[0].tensors[:2]
    assert [tensor.in_blocks for tensor in tensors] == [False, True]
    model, release = stated(path)
    assert model.subgraphs[0].operators[0].version == 5
    assert (runtimes.least(model), release) == ("LiteRT 2.1.2", "2.21.0")


def test_operators_that_share_a_code_share_what_the_neediest_needs(written):
    """A float product beside one with int8 weights: one version in the file for both."""
    model, release = stated(written(FC, 5, FLOAT32, INT8, FLOAT32, also=[0, 2]))
    assert {operator.version for operator in model.subgraphs[0].operators} == {11}
    assert (runtimes.least(model), release) == (MODULE, "2.16.1")


@pytest.mark.parametrize(
    "operator",
    [(FC, 12, FLOAT32, INT8), (OPERATORS.CONV_2D, 1, FLOAT32), (GELU, 1, INT16)],
)
def test_of_what_was_not_measured_no_runtime_is_named(written, operator):
    report = inspection.inspect(written(*operator))
    assert report.least_runtime is None
    assert "runs in" not in inspection.format_text(report)


def test_the_module_has_the_runtime_that_is_said():
    versions = (ROOT / "android_demo/gradle/libs.versions.toml").read_text("utf-8")
    (version,) = re.findall(r'^tensorflow-lite = "(.*?)"', versions, re.MULTILINE)
    assert runtimes.OF_MODULE[-1] == f"TensorFlow Lite {version}"


def test_inspect_names_the_runtime_of_a_file_that_states_too_little_and_it_is_not_written(written):
    report = inspection.inspect(written(FC, 5, FLOAT32, INT8))
    lines = inspection.format_text(report).splitlines()
    assert f"runs in: {MODULE} and later" in lines
    assert "older runtimes may answer wrongly: FULLY_CONNECTED is not of version 11" in lines
    (fault,) = structure.versions(types.SimpleNamespace(report=report))
    assert fault == "version of FULLY_CONNECTED: expected at least 11, received a lower one."
