import numpy as np
import pytest
from ai_edge_litert import interpreter as litert
from ai_edge_litert.tools import flatbuffer_utils

from export.checking.outputs import file_outputs
from tfdistill import errors
from tfdistill.tflite import TfliteModel

IDS = [2, 17, 40, 3, 99, 3]
TYPES = [0, 0, 0, 0, 1, 1]


def test_the_shortest_signature_that_fits_is_taken(exported, monkeypatch):
    file = TfliteModel(exported("float32").path)
    assert file.lengths == (8, 16)
    taken, run = [], file.run

    def spy(signature, values):
        taken.append((signature.key, {value.shape for value in values}))
        return run(signature, values)

    monkeypatch.setattr(file, "run", spy)
    for count in (1, 8, 9, 16):
        file.predict([5] * count)
    shorter, longer = ("len8", {(1, 8)}), ("len16", {(1, 16)})
    assert taken == [shorter, shorter, longer, longer]


def test_ids_mask_and_types_reach_the_model(exported, toy):
    file = TfliteModel(exported("float32").path)
    model_inputs = {"input_ids": [IDS], "attention_mask": [[1] * 6], "token_type_ids": [TYPES]}
    inputs = {name: np.array(value, np.int32) for name, value in model_inputs.items()}
    expected = toy.model(inputs, training=False).numpy()[0]
    np.testing.assert_allclose(file.predict(IDS, TYPES), expected, rtol=0, atol=1e-5)
    assert np.abs(file.predict(IDS) - expected).max() > 0.1  # other types, another answer


def test_inputs_are_bound_by_name_whatever_their_order(exported, toy, tmp_path):
    model = flatbuffer_utils.read_model(str(exported("float32").path))
    for graph in model.subgraphs:
        graph.inputs = list(reversed([int(index) for index in graph.inputs]))
    for entry in model.signatureDefs:
        entry.inputs = entry.inputs[1:] + entry.inputs[:1]
    shuffled = tmp_path / "shuffled.tflite"
    flatbuffer_utils.write_model(model, str(shuffled))
    straight, turned = TfliteModel(exported("float32").path), TfliteModel(shuffled)
    np.testing.assert_array_equal(
        file_outputs(turned, toy.encoded), file_outputs(straight, toy.encoded)
    )

    def by_position(path):
        interpreter = litert.Interpreter(str(path))
        interpreter.allocate_tensors()
        values = [np.full((1, 16), filler, np.int32) for filler in (1, 20, 0)]
        for details, value in zip(interpreter.get_input_details(), values, strict=True):
            interpreter.set_tensor(details["index"], value)
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])

    # The order did change: whoever binds by position gets another answer.
    assert np.abs(by_position(shuffled) - by_position(exported("float32").path)).max() > 0.1


def test_an_example_that_does_not_fit_is_told(exported):
    file = TfliteModel(exported("float32").path)
    with pytest.raises(errors.ShapeError, match=r"at most 16 tokens.*received 17 tokens"):
        file.predict([5] * 17)
    with pytest.raises(errors.ShapeError, match=r"one of \(8, 16\) that holds 9 tokens"):
        file.predict([5] * 9, length=8)
    with pytest.raises(errors.ShapeError, match="one of"):
        file.predict([5] * 9, length=12)
    with pytest.raises(errors.ShapeError, match="at least one id"):
        file.predict([])
    with pytest.raises(errors.ShapeError):
        file.predict([[5, 6]])
    with pytest.raises(errors.ShapeError, match="token_type_ids"):
        file.predict([5, 6], [0])


def test_an_unusable_file_is_told(tmp_path):
    with pytest.raises(errors.ModelFileError):
        TfliteModel(tmp_path / "none.tflite")
    (tmp_path / "text.tflite").write_text("hello, I am text")
    with pytest.raises(errors.ModelFileError):
        TfliteModel(tmp_path / "text.tflite")


@pytest.mark.parametrize("isolated", [False, True])
def test_a_call_takes_and_gives_arrays_by_name(exported, isolated):
    features = {"input_ids": [[*IDS, 0, 0]], "attention_mask": [[1] * 6 + [0, 0]]}
    features["token_type_ids"] = [[*TYPES, 0, 0]]
    with TfliteModel(exported("float32").path, isolated=isolated) as model:
        outputs = model(**features, signature="len8")
        assert [*outputs] == ["logits"]
        np.testing.assert_array_equal(outputs["logits"][0], model.predict(IDS, TYPES))
        with pytest.raises(errors.ModelFileError, match="len16"):
            model(**features, signature="len9")
        with pytest.raises(errors.ShapeError, match=r"expected \(1, 16\), received"):
            model(**features, signature="len16")
        with pytest.raises(errors.ShapeError, match="token_type_ids"):
            model(input_ids=[IDS], signature="len8")
        with pytest.raises(errors.ModelFileError, match=r"gather index out of bounds"):
            model.predict([2, 10_000, 3])
