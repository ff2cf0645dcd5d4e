import numpy as np
import pytest

from export.checking.outputs import file_outputs
from tfdistill import errors
from tfdistill.tflite import TfliteModel, editing

IDS = [2, 17, 40, 3, 99, 3]
TYPES = [0, 0, 0, 0, 1, 1]


def test_the_shortest_signature_that_fits_is_taken(exported, monkeypatch):
    file = TfliteModel(exported("float32").path)
    taken, run = [], file.run

    def spy(signature, values):
        taken.append(signature.key)
        return run(signature, values)

    monkeypatch.setattr(file, "run", spy)
    for count in (1, 8, 9, 16):
        file.predict([5] * count)
    assert (file.lengths, taken) == ((8, 16), ["len8", "len8", "len16", "len16"])


def test_inputs_are_bound_by_name_whatever_their_order(exported, toy, tmp_path):
    source = exported("float32").path
    model = editing.read(source)
    for graph in model.subgraphs:
        graph.inputs = graph.inputs[::-1].copy()
    for entry in model.signatureDefs:
        entry.inputs = entry.inputs[1:] + entry.inputs[:1]
    editing.write(model, tmp_path / "shuffled.tflite")
    straight, turned = (TfliteModel(path) for path in (source, tmp_path / "shuffled.tflite"))
    few = toy.encoded.select(range(20))
    np.testing.assert_array_equal(file_outputs(turned, few), file_outputs(straight, few))


@pytest.mark.parametrize(
    ("ids", "more", "message"),
    [
        ([5] * 17, {}, r"at most 16 tokens.*received 17 tokens"),
        ([5] * 9, {"length": 8}, r"one of \(8, 16\) that holds 9 tokens"),
        ([5] * 9, {"length": 12}, "one of"),
        ([], {}, "at least one id"),
        ([[5, 6]], {}, "expected"),
        ([5, 6], {"token_type_ids": [0]}, "token_type_ids"),
    ],
)
def test_an_example_that_does_not_fit_is_told(ids, more, message, exported):
    with pytest.raises(errors.ShapeError, match=message):
        TfliteModel(exported("float32").path).predict(ids, **more)


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
