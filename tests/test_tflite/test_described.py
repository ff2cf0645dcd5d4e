import pytest
import tiny_tflite

from tfdistill import errors, manifest
from tfdistill.tflite import described

INT32, FLOAT32 = ({"dtype": kind, "shape": [1, 4]} for kind in ("int32", "float32"))
INPUTS = dict.fromkeys(("input_ids", "token_type_ids", "attention_mask"), INT32)
OUTPUTS = {"logits": {"dtype": "float32", "shape": [1, 3]}}


def card(*, task=None, softmax=False, **changes):
    values = {"sequence_length": 4, "inputs": INPUTS, "outputs": OUTPUTS, **changes}
    signature = manifest.SignatureRecord.model_validate(values)
    about = {"task": task, "softmax": softmax}
    return manifest.Manifest.model_construct(signatures={"len4": signature}, **about)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "model.tflite"
    return tiny_tflite.write(path, [tiny_tflite.bert(8), tiny_tflite.bert(4)])


def test_a_file_may_have_more_signatures_than_are_described(file):
    described.check_signatures(card(), file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": {**INPUTS, "input_ids": FLOAT32}}, "len4, inputs"),
        ({"inputs": {**INPUTS, "word_rows": INT32}}, "len4, inputs"),
        ({"inputs": {"input_ids": INT32}}, "len4, inputs"),
        ({"outputs": {"logits": {"dtype": "float32", "shape": [1, 2]}}}, "len4, outputs"),
        ({"outputs": {"scores": OUTPUTS["logits"]}}, "len4, outputs"),
        ({"sequence_length": 8}, r"len4, sequence_length: .* received \[4\]"),
    ],
)
def test_what_differs_is_named(file, changes, message):
    with pytest.raises(errors.ManifestError, match=f"^model.tflite, signature {message}"):
        described.check_signatures(card(**changes), file)


def test_a_signature_that_the_file_lacks_is_named(tmp_path):
    file = tiny_tflite.write(tmp_path / "other.tflite", [tiny_tflite.bert(8)])
    with pytest.raises(errors.ManifestError, match=r"other\.tflite, signature len4: .*none of"):
        described.check_signatures(card(), file)


@pytest.mark.parametrize(
    ("kind", "labels"),
    [("classification", "ab"), ("classification", "abcd"), ("regression", ""), ("token", "abc")],
)
def test_outputs_of_another_task_are_refused(file, kind, labels):
    task = manifest.TaskRecord(name="t", kind=kind, labels=tuple(labels))
    with pytest.raises(errors.ManifestError, match=rf"task {kind} of {len(labels)} labels"):
        described.check_signatures(card(task=task), file)
    right = manifest.TaskRecord(name="t", kind="multi_label", labels=("a", "b", "c"))
    described.check_signatures(card(task=right), file)


def test_logits_that_are_called_probabilities_are_refused(file):
    with pytest.raises(errors.ManifestError, match="softmax True"):
        described.check_signatures(card(softmax=True), file)
