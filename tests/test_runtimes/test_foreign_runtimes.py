"""Exported files in runtimes of others: the same labels and scores as in LiteRT for Python.

scripts/runtimes sets them up. Without them the tests are skipped, except on CI.
"""

import csv
import pathlib

import numpy as np
import pytest
from test_android import vectors

import export
from export.targets import mediapipe_checks
from tfdistill.tflite import TfliteModel, inspection
from tfdistill.tokenization.edge_cases import tokenizer_edge_cases
from tfdistill.tokenization.reading import read_tokenizer

pytestmark = pytest.mark.slow

LABELS = ("good", "bad", "neither")
# Float32 kernels add in another order: 1e-6. Dynamic int8 rounds each activation to one of 255
# steps, and another kernel now and then puts one that lies between two steps on the other side:
# most answers are found 1e-7 apart, one in a hundred up to 0.01 (probabilities) or 0.06 (logits).
BOUNDS = {"float32": 1e-5, "dynamic_wi8_afp32": 0.03}
LOGIT_BOUNDS = {"float32": 1e-5, "dynamic_wi8_afp32": 0.1}  # relative to their root mean square
USUAL = 1e-5  # of the median


def scores_of(file: pathlib.Path, texts: list[str], vocab_file: pathlib.Path) -> np.ndarray:
    """What our own reading of the file gives: probabilities, (texts, labels)."""
    model = TfliteModel(file)
    encoded = read_tokenizer(vocab_file).encode_batch(texts, None, max(model.lengths))
    return np.stack([model.predict(encoded.row(i)) for i in range(len(texts))])


def assert_same(answers: list[dict[str, float]], expected: np.ndarray, bound: float) -> None:
    """Same score of every label, and the same label wherever two do not lie within the bound."""
    received = np.array([[answer[label] for label in LABELS] for answer in answers])
    assert received.shape == expected.shape
    assert np.abs(received - expected).max() <= bound
    assert np.median(np.abs(received - expected)) <= USUAL
    best = np.sort(expected, axis=1)
    clear = best[:, -1] - best[:, -2] > 2 * bound
    assert clear.mean() > 0.9
    assert (received.argmax(axis=1) == expected.argmax(axis=1))[clear].all()
    assert len(np.unique(expected.argmax(axis=1))) == len(LABELS)


@pytest.mark.parametrize(
    "quantize",  # int8: of real sentences, too
    ["float32", pytest.param("dynamic_wi8_afp32", marks=pytest.mark.thorough)],
)
def test_mediapipe_classifies_200_texts_like_python(
    mediapipe, browser, exports, toy, tmp_path, quantize
):
    file = export.to_mediapipe(exports(quantize), tmp_path / "mediapipe.tflite")
    expected = scores_of(file, toy.texts, toy.vocab_file)

    assert len(toy.texts) == 200
    assert_same(mediapipe(file, toy.texts), expected, BOUNDS[quantize])
    assert_same(browser(file, runner="mediapipe", texts=toy.texts), expected, BOUNDS[quantize])


def test_our_copy_of_mediapipes_tokenizer_gives_its_answers(mediapipe, exports, toy, tmp_path):
    """Accents, ideographs, controls, capitals beyond ASCII: what MediaPipe reads otherwise."""
    file = export.to_mediapipe(exports("float32"), tmp_path / "mediapipe.tflite")
    odd = [text for text in tokenizer_edge_cases()[::7] if "\0" not in text and text.strip()]
    texts = [text.encode("utf-8", "ignore").decode() for text in odd]
    texts += [text.replace("a", "á").replace("o", "Ö") for text in toy.texts[:50]]
    model, tokenizer = TfliteModel(file), read_tokenizer(toy.vocab_file)
    there = mediapipe_checks.encode(texts, tokenizer, max(model.lengths))
    expected = np.stack([model.predict(there.row(i)) for i in range(len(texts))])
    ours = tokenizer.encode_batch(texts, None, max(model.lengths))
    assert sum(there.row(i).tolist() != ours.row(i).tolist() for i in range(len(texts))) > 50

    answers = mediapipe(file, texts)

    received = np.array([[answer[label] for label in LABELS] for answer in answers])
    assert np.abs(received - expected).max() <= BOUNDS["float32"]


def test_mediapipe_runs_an_export_of_one_length_with_softmax_as_it_is_also_without_token_types(
    mediapipe, make_student, toy, tmp_path
):
    student = make_student("distilbert", toy.vocab_file, toy.texts)
    options = {"quantize": "float32", "lengths": (24,), "softmax": True}
    file = student.export(tmp_path / "model.tflite", **options)

    answers = mediapipe(file, toy.texts[:50])

    inputs = inspection.inspect(file).signatures["len24"].inputs
    assert {tensor.name for tensor in inputs} == {"input_ids", "attention_mask"}
    assert_same(answers, scores_of(file, toy.texts[:50], toy.vocab_file), BOUNDS["float32"])


def test_mediapipe_embeds_texts_like_python(mediapipe, browser, tmp_path):
    bundle = vectors.RESOURCES / "bundles" / vectors.INDEXED
    file = export.to_mediapipe(bundle, tmp_path / "mediapipe.tflite")
    random = np.random.default_rng(0)
    texts = [vectors.sentence(random, 1, 9) for _ in range(120)]
    texts = [text for text in texts if text.isascii()]
    expected = scores_of(file, texts, bundle / "vocab.txt")

    assert len(texts) > 20 and expected.shape == (len(texts), 16)
    for embedded in (
        mediapipe(file, texts, embed=True),
        browser(file, runner="embedder", texts=texts),
    ):
        assert np.abs(np.array(embedded) - expected).max() <= BOUNDS["float32"]


@pytest.mark.shared_data
def test_mediapipe_classifies_200_real_sentences_like_python(
    mediapipe, browser, make_student, shared_data, tmp_path
):
    with open(shared_data / "glue" / "SST-2" / "dev.tsv", encoding="utf-8", newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
    texts = [row["sentence"] for row in rows if row["sentence"].isascii()][:200]
    vocab_file = shared_data / "vocab" / "bert-base-uncased-vocab.txt"
    student = make_student("tinybert", vocab_file, texts)
    source = student.export(tmp_path / "model.tflite", lengths=(32, 64))
    file = export.to_mediapipe(source, tmp_path / "mediapipe.tflite")

    expected = scores_of(file, texts, vocab_file)

    assert len(texts) == 200
    bound = BOUNDS["dynamic_wi8_afp32"]
    assert_same(mediapipe(file, texts), expected, bound)
    assert_same(browser(file, runner="mediapipe", texts=texts), expected, bound)


def examples_of(toy, count: int) -> tuple[list[dict], list[list[int]]]:
    """Examples padded for each signature that holds them, and their ids."""
    encoded = read_tokenizer(toy.vocab_file).encode_batch(toy.texts, None, 32)
    examples, rows = [], []
    for i in range(count):
        ids = encoded.row(i).tolist()
        for length in (16, 32):
            if len(ids) <= length:
                gap = [0] * (length - len(ids))
                inputs = {
                    "input_ids": ids + gap,
                    "attention_mask": [1] * len(ids) + gap,
                    "token_type_ids": [0] * length,
                }
                examples.append({"signature": f"len{length}", "inputs": inputs})
                rows.append(ids)
    return examples, rows


def assert_outputs(answers, file, examples, rows, quantize):
    """The same logits as LiteRT in Python, through the same signatures."""
    assert {example["signature"] for example in examples} == {"len16", "len32"}
    model = TfliteModel(file)
    expected = np.stack(
        [
            model.predict(ids, length=int(example["signature"].removeprefix("len")))
            for example, ids in zip(examples, rows, strict=True)
        ]
    )
    assert all(answer.keys() == {"logits"} for answer in answers)
    received = np.array([answer["logits"] for answer in answers])
    rms = np.sqrt(np.mean(expected**2))
    assert np.abs(received - expected).max() <= LOGIT_BOUNDS[quantize] * rms
    assert np.median(np.abs(received - expected)) <= USUAL


@pytest.mark.parametrize("quantize", BOUNDS)
def test_litert_js_answers_like_python(browser, exports, toy, quantize):
    examples, rows = examples_of(toy, 60)

    answers = browser(exports(quantize), runner="litert", examples=examples)

    assert_outputs(answers, exports(quantize), examples, rows, quantize)


# With the dot products of a phone of today, and without any as on an old one. SME is left out:
# with it qemu 7.2 gives other numbers.
@pytest.mark.parametrize("processor", ["max,sme=off", "cortex-a53"])
@pytest.mark.parametrize("quantize", BOUNDS)
def test_litert_on_arm64_answers_like_python(arm64, exports, toy, quantize, processor):
    examples, rows = examples_of(toy, 60)

    answers = arm64(exports(quantize), examples, processor)

    assert_outputs(answers, exports(quantize), examples, rows, quantize)
