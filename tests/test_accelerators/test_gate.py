"""An accelerator's answers are held against the CPU's; planted faults are never reported right."""

import json
import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import interpreter as litert

from tfdistill import errors
from tfdistill.accelerators import gate, outcome
from tfdistill.tflite import editing, golden

PLANTED = (sys.executable, str(pathlib.Path(__file__).with_name("planted_worker.py")))
LENGTHS = (4, 8)


def convert(folder: pathlib.Path, seed: int) -> pathlib.Path:
    """A file that answers with spans: rows of a table, one product, two outputs."""
    random = np.random.default_rng(seed)
    module = tf.Module()
    module.table = tf.Variable(random.standard_normal((50, 8)), dtype=tf.float32)
    module.kernel = tf.Variable(random.standard_normal((8, 2)), dtype=tf.float32)
    signatures = {}
    for length in LENGTHS:
        names = ("input_ids", "attention_mask")
        specs = [tf.TensorSpec((1, length), tf.int32, name=name) for name in names]

        def run(input_ids, attention_mask, length=length):
            rows = tf.gather(module.table, tf.reshape(input_ids, (length,)))
            rows *= tf.cast(tf.reshape(attention_mask, (-1, 1)), tf.float32)
            start, end = tf.split(tf.transpose(tf.matmul(rows, module.kernel)), 2)
            return {"start_logits": start, "end_logits": end}

        function = tf.function(run, input_signature=specs, autograph=False)
        signatures[f"len{length}"] = function.get_concrete_function()
    tf.saved_model.save(module, str(folder / "saved"), signatures=signatures)
    converter = tf.lite.TFLiteConverter.from_saved_model(
        str(folder / "saved"), signature_keys=list(signatures)
    )
    file = folder / "model.tflite"
    file.write_bytes(converter.convert())
    return file


@pytest.fixture(scope="module")
def spans(tmp_path_factory):
    """Two files of the same shape and different weights."""
    return [convert(tmp_path_factory.mktemp(f"spans{seed}"), seed) for seed in (1, 2)]


@pytest.fixture
def on_gpu(spans, tmp_path):
    """Runs the gate for a GPU whose answers are the CPU's, with a planted fault."""
    (tmp_path / "libvk_swiftshader.so").touch()

    def check(fault, *, timeout_s=60.0, golden=()):
        return gate.check(
            spans[0],
            [("gpu", "")],
            golden=golden,
            libraries={"gpu": tmp_path},
            timeout_s=timeout_s,
            worker=(*PLANTED, fault),
        )[0]

    return check


def test_right_answers_of_a_whole_file_are_reported_as_such(on_gpu):
    report = on_gpu("none")

    assert (report.verdict, report.fault, report.good) == ("whole", None, True)
    assert [row.signature for row in report.signatures] == ["len4", "len8"]
    assert all(row.delegated == row.operators > 3 for row in report.signatures)
    assert all(row.answers.num_examples == 4 for row in report.signatures)
    lines = outcome.format_text([report]).splitlines()
    assert lines[0].startswith("gpu: whole")
    assert "operators, 4 answers" in lines[1]


@pytest.mark.parametrize("fault", ["zeros", "swapped", "weights"])
def test_wrong_answers_fail_though_all_is_delegated(on_gpu, fault):
    report = on_gpu(fault)

    assert (report.verdict, report.good) == ("wrong", False)
    assert report.fault.startswith("len4, ")
    assert all(row.delegated == row.operators for row in report.signatures)


def test_another_file_under_the_same_name_is_wrong(on_gpu, spans):
    assert on_gpu(str(spans[1])).verdict == "wrong"


def test_a_hang_ends_with_the_time_limit(on_gpu):
    report = on_gpu("hang", timeout_s=1.0)

    assert (report.verdict, report.good, report.signatures) == ("failed", False, ())
    assert report.fault == "the accelerator: expected an end within 1 s, received none."


def test_a_crash_is_reported_with_its_signal_and_last_words(on_gpu):
    report = on_gpu("crash")

    assert report.verdict == "failed"
    assert report.fault == (
        "the accelerator: expected answers, received signal SIGSEGV. "
        "Its last words: driver: out of memory"
    )


def test_golden_examples_of_another_file_are_refused(on_gpu, spans, tmp_path):
    ids = [7, 8, 9]
    example = {"signature": "len4", "input_ids": ids, "token_type_ids": [0, 0, 0]}
    recorded = []
    for file in spans:
        run = litert.Interpreter(str(file)).get_signature_runner("len4")
        padded = [np.array([[*ids, 0]], np.int32), np.array([[1, 1, 1, 0]], np.int32)]
        answer = run(input_ids=padded[0], attention_mask=padded[1])
        pairs = np.stack([answer["start_logits"][0, :3], answer["end_logits"][0, :3]], axis=-1)
        recorded.append({"examples": [{**example, "outputs": pairs.tolist()}]})
    (tmp_path / "golden.json").write_text(json.dumps(recorded[0]))

    right = golden.read_golden(tmp_path / "golden.json")
    assert on_gpu("none", golden=right).signatures[0].answers.num_examples == 5
    with pytest.raises(errors.ExportError, match="json is of another file"):
        on_gpu("none", golden=golden.examples_of(recorded[1]))
    longer = {**recorded[0]["examples"][0], "input_ids": [7] * 5, "token_type_ids": [0] * 5}
    with pytest.raises(errors.ExportError, match="at most 4 tokens, received 5"):
        on_gpu("none", golden=golden.examples_of({"examples": [longer]}))


def test_a_signature_may_have_any_name_but_none(spans, tmp_path):
    (tmp_path / "libvk_swiftshader.so").touch()
    file, model = tmp_path / "model.tflite", editing.read(spans[0])
    options = {"libraries": {"gpu": tmp_path}, "worker": (*PLANTED, "none")}
    model.signatureDefs[0].signatureKey = b"text/short"
    editing.write(model, file)
    (report,) = gate.check(file, [("gpu", "")], **options)
    assert (report.verdict, report.signatures[0].signature) == ("whole", "text/short")
    editing.keep_signature(model, "text/short")
    model.signatureDefs = []
    editing.write(model, file)
    with pytest.raises(errors.BenchmarkError, match="expected signatures"):
        gate.check(file, [("gpu", "")], **options)


@pytest.mark.parametrize(
    ("tensor", "layer"),
    [
        ("model_12/word_embeddings/embedding_lookup;model/x", "word_embeddings"),
        ("StatefulPartitionedCall:0", "StatefulPartitionedCall"),
        ("layer_0_key/MatMul", "layer_0_key"),
        ("all_tokens/token_type_embeddings/embedding_lookup;", "token_type_embeddings"),
    ],
)
def test_a_layer_is_known_by_its_tensor(tensor, layer):
    assert gate.layer_of(tensor) == layer
