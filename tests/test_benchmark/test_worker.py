import dataclasses
import json
import types

import numpy as np
import pytest
from ai_edge_litert import interpreter

from tfdistill.benchmark.host import worker
from tfdistill.tflite import roles
from tfdistill.tflite.signature import Signature, SignatureRunner, Tensor
from tfdistill.tokenization import reading
from tfdistill.tokenization.reading import read_tokenizer

NASTY = [
    "Turn the LIGHT on, please",
    "",
    "naïve   café\tTÜRN",
    "播放音乐 play 音乐",
    "e\u0301 ﬁ \u200b\x00 turn",
    "x" * 150 + " turn",
    "😀 turn!!",
]


@pytest.mark.parametrize("length", [8, 16])
@pytest.mark.parametrize("name", ["fast", "slow"])
def test_the_worker_feeds_every_input_by_its_name(tflite_files, name, length):
    reference = json.loads((tflite_files / f"{name}.json").read_text())
    signature = roles.read_signatures(tflite_files / f"{name}.tflite")[length]
    signature = Signature.from_json(json.loads(json.dumps(dataclasses.asdict(signature))))
    runtime = interpreter.Interpreter(str(tflite_files / f"{name}.tflite"), num_threads=1)
    runner = SignatureRunner(runtime, signature)
    (logits,) = runner(signature.padded(reference["input_ids"], reference["token_type_ids"]))
    # float32 sums over at most 1024 terms in another order.
    np.testing.assert_allclose(logits[0], reference["logits"], rtol=1e-4, atol=1e-4)


@pytest.mark.shared_data
def test_a_file_without_signatures_is_run(shared_data):
    path = shared_data / "tflite" / "average_word_vec_sst2.tflite"
    (signature,) = roles.read_signatures(path).values()
    runner = SignatureRunner(interpreter.Interpreter(str(path)), signature)
    scores = [runner(signature.padded([1, i, i], [0] * 3))[0][0].copy() for i in (40, 50)]
    assert np.allclose(np.sum(scores, axis=1), 1)  # the file ends in a softmax
    assert not np.allclose(scores[0], scores[1])


def test_a_file_without_signatures_allocates_in_its_first_inference():
    """As a signature does, so that first inferences of both kinds of files mean the same."""

    class Recorder:
        def __init__(self):
            self.calls = []

        def __getattr__(self, name):
            return lambda *arguments: self.calls.append(name)

    opened = Recorder()
    ids = Tensor("ids", "int32", (1, 4), 4, role="input_ids")
    signature = Signature(None, 0, (ids,), (Tensor("logits", "float32", (1, 2), 9),))
    runner = SignatureRunner(opened, signature)
    assert opened.calls == []
    values = signature.padded([1, 2], [0, 0])
    runner(values)
    runner(values)
    once = ["set_tensor", "invoke", "get_tensor"]
    assert opened.calls == ["allocate_tensors", *once, *once]


@pytest.mark.parametrize("text", NASTY)
def test_a_file_whose_texts_lose_their_middle_is_fed_with_those_texts(export_folder, text):
    file = export_folder / "vocab.txt"
    ours = read_tokenizer(file, True, "middle").fast.encode_typed
    expected = read_tokenizer(file, truncation="middle").encode_batch([text], ["a b c d e"], 9)
    assert ours(text, "a b c d e", 9) == (expected.ids.tolist(), expected.types.tolist())


@pytest.mark.parametrize(("delegate", "taken"), [("xnnpack", True), ("none", False)])
def test_the_delegate_is_the_one_that_is_asked_for(tflite_files, delegate, taken):
    job = {"file": str(tflite_files / "fast.tflite"), "threads": 1, "delegate": delegate}
    opened = worker.open_file(job)
    opened.allocate_tensors()
    names = {node["op_name"] for node in opened._get_ops_details()}
    assert ("DELEGATE" in names) is taken


@pytest.mark.parametrize("kind", ["ids", "text"])
def test_a_lead_in_does_not_move_what_the_samples_are_fed_with(monkeypatch, kind):
    fed = []

    class Recorder:
        sequence_length = 9

        def __init__(self, interpreter, signature):
            del interpreter, signature

        @classmethod
        def from_json(cls, content):
            return cls(None, content)

        def padded(self, input_ids, token_type_ids):
            return input_ids[0]

        def __call__(self, feed):
            fed.append(feed)
            return [np.zeros(2)]

    monkeypatch.setattr(worker, "open_file", lambda job: None)
    monkeypatch.setattr(worker, "SignatureRunner", Recorder)
    monkeypatch.setattr(worker, "Signature", Recorder)
    tokenizer = types.SimpleNamespace(encode_typed=lambda text, pair, longest: ([int(text)], [0]))
    monkeypatch.setattr(reading, "read_tokenizer", lambda **_: tokenizer)
    job = {"warmup": 0, "spawned_ns": 0, "threads": 1, "signature": {}, "tokenizer": {}}
    job["feeds"] = [{"input_ids": [i], "token_type_ids": [0]} for i in range(3)]
    job |= {"texts": [(str(i), None) for i in range(3)], "signatures": [{}]}
    _, run = {"ids": worker.open_ids_job, "text": worker.open_text_job}[kind](job)
    fed.clear()
    for number, lead_in in ((4, 2), (3, 0), (1, 1)):
        block = run(number, lead_in)
        assert (len(block["samples_ms"]), len(block["warmup_ms"])) == (number, lead_in)
    assert fed == [0, 1, *(0, 1, 2, 0), *(1, 2, 0), 1, 1]
