import pytest
import tiny_tflite

from tfdistill import errors, manifest
from tfdistill.tflite import described

INT32, FLOAT32 = ({"dtype": kind, "shape": [1, 4]} for kind in ("int32", "float32"))
INPUTS = dict.fromkeys(("input_ids", "token_type_ids", "attention_mask"), INT32)
OUTPUTS = {"logits": {"dtype": "float32", "shape": [1, 3]}}


def card(*, task=None, softmax=False, key="len4", **changes):
    values = {"sequence_length": 4, "inputs": INPUTS, "outputs": OUTPUTS, **changes}
    signature = manifest.SignatureRecord.model_validate(values)
    about = {"task": task, "softmax": softmax}
    return manifest.Manifest.model_construct(signatures={key: signature}, **about)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "model.tflite"
    return tiny_tflite.write(path, [tiny_tflite.bert(8), tiny_tflite.bert(4)])


def of_task(kind, labels):
    return {"task": manifest.TaskRecord(name="t", kind=kind, labels=tuple(labels))}


def test_a_file_may_have_more_signatures_than_are_described_and_labels_for_each_output(file):
    described.check_signatures(card(), file)
    described.check_signatures(card(**of_task("multi_label", "abc")), file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": {**INPUTS, "input_ids": FLOAT32}}, "inputs"),
        ({"inputs": {**INPUTS, "word_rows": INT32}}, "inputs"),
        ({"inputs": {"input_ids": INT32}}, "inputs"),
        ({"outputs": {"logits": {"dtype": "float32", "shape": [1, 2]}}}, "outputs"),
        ({"outputs": {"scores": OUTPUTS["logits"]}}, "outputs"),
        ({"sequence_length": 8}, r"sequence_length: .* received \[4\]"),
        (of_task("classification", "ab"), ".*task classification of 2 labels"),
        (of_task("classification", "abcd"), ".*task classification of 4 labels"),
        (of_task("regression", ""), ".*task regression of 0 labels"),
        (of_task("token", "abc"), ".*task token of 3 labels"),
        ({"softmax": True}, ".*softmax True"),
        ({"key": "len5"}, "none of"),
    ],
)
def test_what_differs_is_named(file, changes, message):
    with pytest.raises(errors.ManifestError, match=f"^model.tflite, signature len[45].*{message}"):
        described.check_signatures(card(**changes), file)
