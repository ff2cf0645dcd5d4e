"""Threads that share what answers get the answers that one thread gets."""

import concurrent.futures
import itertools
import json
import pathlib
import sys
import threading

import numpy as np
import pytest

from tfdistill import predictor as predicting
from tfdistill import tflite
from tfdistill.data import text_index
from tfdistill.predictor import Predictor
from tfdistill.tflite import model
from tfdistill.tokenization.reading import read_tokenizer

ROOT = pathlib.Path(__file__).parents[2]
BUNDLE = ROOT / "android_demo/text/src/test/resources/bundles/pairs-float32"
THREADS = 4
ROUNDS = 10


@pytest.fixture(autouse=True)
def threads_that_change_often():
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def in_threads(function, inputs):
    """The results of a function on each input, again and again, in threads that begin at once."""
    begin = threading.Barrier(THREADS)

    def work(first):
        begin.wait()
        rows = [(first + i) % len(inputs) for i in range(ROUNDS * len(inputs))]
        return [(row, function(inputs[row])) for row in rows]

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return list(itertools.chain(*pool.map(work, range(THREADS))))


def examples():
    return json.loads((BUNDLE / "golden.json").read_text())["examples"]


@pytest.mark.parametrize("isolated", [False, True])
def test_a_file_answers_each_thread_its_own_ids(isolated):
    """In this process and in one of its own, which answers as this one does."""
    inputs = [(row["input_ids"], row["token_type_ids"]) for row in examples()][:6]
    with tflite.TfliteModel(BUNDLE / "model.tflite") as here:
        expected = [here.predict(*row) for row in inputs]
    with tflite.TfliteModel(BUNDLE / "model.tflite", isolated=isolated) as file:
        for row, answer in in_threads(lambda row: file.predict(*row), inputs):
            np.testing.assert_array_equal(answer, expected[row])


def test_a_predictor_answers_each_thread_its_own_text_and_leaves_waits_out(monkeypatch):
    """Each run takes a second of a clock that only runs while a file does."""
    seconds = []
    run = model._Here.run

    def run_for_a_second(self, *args):
        seconds.append(1)
        return run(self, *args)

    monkeypatch.setattr(model._Here, "run", run_for_a_second)
    monkeypatch.setattr(predicting.time, "perf_counter", lambda: float(len(seconds)))
    inputs = [(row["text"], row["pair"] or "") for row in examples()][:8]
    with Predictor(BUNDLE) as predictor:
        expected = [predictor.predict(*row) for row in inputs]
        assert {answer.milliseconds for answer in expected} == {1000}
        for row, answer in in_threads(lambda row: predictor.predict(*row), inputs):
            assert answer == expected[row]


def test_a_tokenizer_cuts_each_thread_at_its_own_length():
    tokenizer = read_tokenizer(BUNDLE / "vocab.txt", True).fast
    inputs = list(range(3, 12))
    text = " ".join(row["text"] for row in examples())

    def encode(length):
        located = tokenizer.locate([text])
        return tokenizer.encode(text, max_length=length), located.ids.tolist()

    expected = [encode(length) for length in inputs]
    assert [len(ids) for ids, _ in expected] == inputs
    assert all(answer == expected[row] for row, answer in in_threads(encode, inputs))


def test_an_index_is_searched_by_many_threads():
    (folder,) = ROOT.glob("android_demo/**/resources/bundles/*/search")
    index = text_index.read_index(folder)
    vectors = list(np.random.default_rng(1).normal(size=(8, index.card.model_width)))
    expected = [index.search(vector) for vector in vectors]
    for row, matches in in_threads(index.search, vectors):
        assert matches == expected[row]
