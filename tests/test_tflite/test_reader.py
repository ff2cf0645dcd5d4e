"""A .tflite file is read into the values that its writer put there, or refused."""

import tracemalloc

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from tests import tiny_tflite
from tfdistill import errors
from tfdistill.tflite import editing, reader


@pytest.fixture
def file(tmp_path):
    """Two signatures, with inputs in another order than their subgraph's."""
    return tiny_tflite.write(
        tmp_path / "m.tflite", [tiny_tflite.bert(4), tiny_tflite.bert(8, labels=5)]
    )


def numbers(vector):
    return () if vector is None else tuple(vector)


def declared(tensor):
    return tensor.shape if tensor.shapeSignature is None else tensor.shapeSignature


def test_everything_is_as_the_generated_reader_has_it(file, tmp_path):
    """Fields with their defaults, optional inputs, dynamic shapes, names beyond ASCII."""
    tree = editing.read(file)
    tree.subgraphs[1].tensors[0].shapeSignature = [-1, 8]
    tree.subgraphs[1].tensors[1].name = "Wörter"
    tree.subgraphs[0].tensors[2].shape = tree.subgraphs[0].tensors[3].name = None
    tree.subgraphs[0].operators[1].inputs = [2, -1, 0]
    tree.subgraphs[0].operators[0].outputs = None
    tree.operatorCodes.append(schema.OperatorCodeT())
    tree.operatorCodes[1].builtinCode = schema.BuiltinOperator.STABLEHLO_WHILE
    tree.operatorCodes[1].deprecatedBuiltinCode = 127
    tree.subgraphs[1].operators[2].opcodeIndex = 1
    editing.write(tree, tmp_path / "m.tflite")
    tree, model = editing.read(tmp_path / "m.tflite"), reader.read(tmp_path / "m.tflite")
    for expected, graph in zip(tree.subgraphs, model.subgraphs, strict=True):
        assert graph.inputs == tuple(expected.inputs)
        assert graph.outputs == tuple(expected.outputs)
        assert [(t.name, t.shape, t.dtype, t.buffer) for t in graph.tensors] == [
            (reader.text(t.name), numbers(declared(t)), reader.dtype_name(t.type), t.buffer)
            for t in expected.tensors
        ]
        assert [*graph.operators] == [
            reader.OperatorInfo(editing.name_of(tree, o), numbers(o.inputs), numbers(o.outputs))
            for o in expected.operators
        ]
    assert model.subgraphs[1].tensors[1].name == "Wörter"
    assert model.subgraphs[1].operators[-1].name == "STABLEHLO_WHILE"


def test_operators_are_named_and_list_their_tensors(file, tmp_path):
    model = editing.read(file)
    code = model.operatorCodes[0]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.WHILE
    model.subgraphs[0].operators[0].inputs = [1, -1]
    editing.write(model, tmp_path / "loop.tflite")
    graph = reader.read(tmp_path / "loop.tflite").subgraphs[0]
    assert graph.operators[0] == reader.OperatorInfo("WHILE", (1, -1), (3,))
    assert graph.runs_others
    assert not reader.read(file).subgraphs[0].runs_others
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode = "Unheard"
    editing.write(model, tmp_path / "custom.tflite")
    (graph, _) = reader.read(tmp_path / "custom.tflite").subgraphs
    assert graph.operators[0].name == "CUSTOM:Unheard"


def test_constants_may_follow_the_flatbuffer_and_end_in_the_file(file):
    model = editing.read(file)
    model.buffers[0].offset, model.buffers[0].size = 100, 24
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=reader.IDENTIFIER)
    content = bytes(builder.Output())
    file.write_bytes(content)
    assert reader.read(file).buffer_bytes == (24,)
    for number, other in (
        (24, len(content).to_bytes(8, "little")),  # a size
        (100, b"\xff" * 8),  # a start near 2^64, from which the end comes round to the first bytes
    ):
        held = number.to_bytes(8, "little")
        assert content.count(held) == 1
        file.write_bytes(content.replace(held, other))
        with pytest.raises(errors.ModelFileError):
            reader.read(file)


def test_names_that_share_their_bytes_take_no_more_memory_than_they_have(file):
    model = editing.read(file)
    tensors, name = model.subgraphs[0].tensors, b"n" * 1_000_000
    for tensor in tensors:
        tensor.name = name
    editing.write(model, file)  # equal strings once
    assert len(name) < file.stat().st_size < 2 * len(name)
    tracemalloc.start()
    reader.read(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * len(name) * len(tensors)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (None, "no such file"),
        (lambda content: b"", "no TFLite file"),
        (lambda content: b"PK\x03\x04" * 30, "no TFLite file"),
        *(
            (lambda content, share=share: content[: int(share * len(content))], "")
            for share in (0.05, 0.3, 0.6, 0.95)
        ),
    ],
)
def test_what_is_no_whole_tflite_file_is_an_error_of_export_and_of_the_benchmark(
    damage, message, file
):
    content = file.read_bytes()
    file.unlink()
    if damage is not None:
        file.write_bytes(damage(content))
    with pytest.raises(errors.ModelFileError, match=rf"m\.tflite.*{message}") as caught:
        reader.read(file)
    assert isinstance(caught.value, errors.ExportError)
    assert isinstance(caught.value, errors.BenchmarkError)


BREAKS = {
    "of a tensor": (lambda model: model.subgraphs[0].operators[0], "inputs", [99]),
    # It is one of the next subgraph, where tables are read together.
    "of a tensor elsewhere": (lambda model: model.subgraphs[0].operators[0], "inputs", [4]),
    "of an input": (lambda model: model.subgraphs[1], "inputs", [-1]),
    "of an output": (lambda model: model.signatureDefs[1].outputs[0], "tensorIndex", 4),
    "of a subgraph": (lambda model: model.signatureDefs[0], "subgraphIndex", 7),
    "of a buffer": (lambda model: model.subgraphs[0].tensors[0], "buffer", 50),
    "of an operator": (lambda model: model.subgraphs[1].operators[0], "opcodeIndex", 1),
}


@pytest.mark.parametrize(("part", "name", "index"), BREAKS.values(), ids=BREAKS)
def test_an_index_outside_the_file_is_damage(part, name, index, file, tmp_path):
    model = editing.read(file)
    setattr(part(model), name, index)
    editing.write(model, tmp_path / "broken.tflite")
    with pytest.raises(errors.ModelFileError):
        reader.read(tmp_path / "broken.tflite")


def test_a_changed_byte_gives_other_values_or_an_error_of_the_file(file):
    content = file.read_bytes()
    chance = np.random.default_rng(1)
    refused = 0
    for _ in range(300):
        changed = bytearray(content)
        changed[chance.integers(8, len(content))] ^= 1 << chance.integers(8)
        file.write_bytes(changed)
        try:
            for graph in reader.read(file).subgraphs:
                assert len([*graph.tensors]) == len(graph.tensors)
                assert len([*graph.operators]) == len(graph.operators)
        except errors.ModelFileError:
            refused += 1
    assert 30 < refused < 300
