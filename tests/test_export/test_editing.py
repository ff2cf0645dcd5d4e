import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from scipy import special

from export.checking.outputs import file_outputs
from tfdistill import errors
from tfdistill.tflite import TfliteModel, editing, inspection


def answers(file, toy, length=16):
    return file_outputs(TfliteModel(file), toy.encoded.select(range(12)), length=length)


@pytest.fixture
def longest(exported):
    """The float32 file, and what is read of it but for its longest signature."""
    source = exported("float32").path
    model = editing.read(source)
    editing.keep_signature(model, "len16")
    return source, model


def test_what_all_signatures_have_is_written_once(exported, tmp_path):
    model = editing.read(exported("dynamic_wi8_afp32").path)
    first, *others = (
        {
            tensor.buffer: tensor.quantization.scale.tobytes()
            for tensor in graph.tensors
            if tensor.quantization is not None and tensor.quantization.scale is not None
        }
        for graph in model.subgraphs
    )
    vectors = {scale for scale in first.values() if len(scale) > 64}
    assert len(vectors) > 4 and others and all(first == other for other in others)

    editing.write(model, tmp_path / "copy.tflite")

    for file in (exported("dynamic_wi8_afp32").path, tmp_path / "copy.tflite"):
        content = file.read_bytes()
        assert {content.count(vector) for vector in vectors} == {1}
        operators = [
            {graph.Operators(index)._tab.Pos for index in range(graph.OperatorsLength())}
            for graph in map(schema.Model.GetRootAs(content).Subgraphs, range(2))
        ]
        assert len(operators[0] & operators[1]) > 0.9 * len(operators[0])  # but for shapes


def test_constants_are_aligned_to_16_bytes(exported, tmp_path):
    editing.write(editing.read(exported("float32").path), tmp_path / "copy.tflite")

    content = (tmp_path / "copy.tflite").read_bytes()
    held = [buffer.data for buffer in editing.read(tmp_path / "copy.tflite").buffers]
    large = [data for data in held if data is not None and len(data) > 64]
    assert len(large) > 10
    assert {content.index(bytes(data)) % 16 for data in large} == {0}


def test_one_signature_alone_answers_as_it_did_among_the_others(exported, toy, tmp_path):
    source = exported("dynamic_wi8_afp32").path
    model = editing.read(source)
    count = len(model.buffers)

    editing.keep_signature(model, "len8")
    editing.write(model, tmp_path / "one.tflite")

    before, after = inspection.inspect(source), inspection.inspect(tmp_path / "one.tflite")
    assert after.signatures == {"len8": before.signatures["len8"]}
    # 16 of 24 position rows of 32 floats belong to len16.
    assert before.weight_bytes["float32"] - after.weight_bytes["float32"] >= 16 * 32 * 4
    assert len(model.buffers) < count
    fitting = [i for i in range(40) if len(toy.encoded.row(i)) <= 8]
    one, all_of_them = (TfliteModel(f) for f in (tmp_path / "one.tflite", source))
    for row in map(toy.encoded.row, fitting):
        np.testing.assert_array_equal(one.predict(row), all_of_them.predict(row, length=8))
    assert len(fitting) > 3


def test_neither_an_unknown_signature_nor_a_graph_that_runs_others_can_be_cut_out(exported):
    model = editing.read(exported("float32").path)
    with pytest.raises(errors.ExportError, match=r"\['len16', 'len8'\], received 'len32'"):
        editing.keep_signature(model, "len32")

    code = model.operatorCodes[model.subgraphs[0].operators[0].opcodeIndex]
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.WHILE
    key = next(e.signatureKey.decode() for e in model.signatureDefs if e.subgraphIndex == 0)
    with pytest.raises(errors.ExportError, match="as loops do"):
        editing.keep_signature(model, key)


def test_softmax_behind_the_logits_gives_probabilities(longest, toy, tmp_path):
    source, model = longest
    editing.add_softmax(model, "scores")
    editing.write(model, tmp_path / "scores.tflite")

    expected = special.softmax(answers(source, toy), axis=1)
    scores = answers(tmp_path / "scores.tflite", toy)
    np.testing.assert_allclose(scores, expected, atol=1e-6)  # float32 sums in another order
    assert expected.std() > 0.1
    report = inspection.inspect(tmp_path / "scores.tflite")
    assert [tensor.name for tensor in report.graphs[0].outputs] == ["scores"]


def test_an_added_input_is_one_of_the_graph_but_not_of_the_signature(longest, toy, tmp_path):
    source, model = longest
    index = editing.add_input(model, "extra", int(model.subgraphs[0].inputs[0]))
    editing.write(model, tmp_path / "more.tflite")

    (graph,) = editing.read(tmp_path / "more.tflite").subgraphs
    assert list(graph.inputs)[-1] == index
    assert (graph.tensors[index].name, list(graph.tensors[index].shape)) == (b"extra", [1, 16])
    np.testing.assert_array_equal(answers(tmp_path / "more.tflite", toy), answers(source, toy))
