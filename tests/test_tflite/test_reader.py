"""A .tflite file is read into the values that its writer put there, or refused."""

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


def test_signatures_name_the_tensors_of_their_subgraph(file):
    model = reader.read(file)
    assert [entry.key for entry in model.signatures] == ["len4", "len8"]
    longer = model.signatures[1]
    graph = model.subgraphs[longer.subgraph]
    assert {t.name: (t.graph_name, t.dtype, t.shape) for t in longer.inputs} == {
        name: (f"len8_{name}:0", "int32", (1, 8))
        for name in ("attention_mask", "input_ids", "token_type_ids")
    }
    assert [t.index for t in longer.inputs] == list(graph.inputs)
    assert [graph.tensors[i].name for i in graph.inputs] == [
        "len8_token_type_ids:0",
        "len8_input_ids:0",
        "len8_attention_mask:0",
    ]
    assert (longer.outputs[0].name, longer.outputs[0].shape) == ("logits", (1, 5))
    assert graph.outputs == (3,)


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
    assert (
        reader.read(tmp_path / "custom.tflite").subgraphs[0].operators[0].name == "CUSTOM:Unheard"
    )


def test_a_dynamic_dimension_is_minus_one(tmp_path):
    ids = ("input_ids", "ids", tiny_tflite.INT32, (1, 1), [1, -1])
    file = tiny_tflite.write(tmp_path / "m.tflite", [(None, [ids], [ids])])
    model = reader.read(file)
    assert model.signatures == ()
    assert model.subgraphs[0].tensors[0].shape == (1, -1)


def test_the_sizes_of_constants_are_read_and_not_their_content(file, tmp_path):
    model = editing.read(file)
    constant = schema.BufferT()
    constant.data = list(range(24))
    model.buffers.append(constant)
    model.subgraphs[1].tensors[0].buffer = 1
    editing.write(model, tmp_path / "m.tflite")
    read = reader.read(tmp_path / "m.tflite")
    assert read.buffer_bytes == (0, 24)
    assert read.subgraphs[1].tensors[0].buffer == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), (b"", "no TFLite file"), (b"PK\x03\x04" * 30, "no TFLite file")],
)
def test_what_is_no_tflite_file_is_refused(content, message, tmp_path):
    if content is not None:
        (tmp_path / "m.tflite").write_bytes(content)
    with pytest.raises(errors.ModelFileError, match=rf"m\.tflite.*{message}"):
        reader.read(tmp_path / "m.tflite")


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95])
def test_a_file_that_was_cut_off_is_damaged(share, file):
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(errors.ModelFileError):
        reader.read(file)


def break_operator(model):
    model.subgraphs[0].operators[0].inputs = [99]


def break_signature(model):
    model.signatureDefs[0].subgraphIndex = 7


def break_buffer(model):
    model.subgraphs[0].tensors[0].buffer = 50


@pytest.mark.parametrize("break_it", [break_operator, break_signature, break_buffer])
def test_an_index_outside_the_file_is_damage(break_it, file, tmp_path):
    model = editing.read(file)
    break_it(model)
    editing.write(model, tmp_path / "broken.tflite")
    with pytest.raises(errors.ModelFileError):
        reader.read(tmp_path / "broken.tflite")


def test_a_name_that_is_no_text_is_damage(file, tmp_path):
    # The frames of the error hold arrays of the mapped file.
    name = b"len8_input_ids:0"
    content = file.read_bytes()
    assert content.count(name) == 1
    (tmp_path / "broken.tflite").write_bytes(content.replace(name, b"\xff" * len(name)))
    with pytest.raises(errors.ModelFileError):
        reader.read(tmp_path / "broken.tflite")


def test_a_damaged_file_is_an_error_of_export_and_of_the_benchmark():
    assert issubclass(errors.ModelFileError, (errors.ExportError, errors.BenchmarkError))
    assert issubclass(errors.ModelFileError, errors.BenchmarkError)
