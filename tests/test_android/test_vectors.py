"""What is checked in for the Kotlin tests is still what Python says."""

import json
import pathlib
import re

import numpy as np
import pytest
import tokenizers
import yaml
from test_android import running_texts, vectors

from export.targets import android_bundle
from tfdistill import manifest
from tfdistill.benchmark.statistics import stats
from tfdistill.data import text_index, windows
from tfdistill.tasks import spans, squad, words
from tfdistill.tasks.spec import SpanRules
from tfdistill.tflite import TfliteModel
from tfdistill.tokenization import unicode_classes
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.tokenization.unigram import read_unigram

TEXT = vectors.ROOT / "android_demo" / "text" / "src" / "main" / "kotlin"
BUNDLES = vectors.RESOURCES / "bundles"
NAMES = ("pairs-float32", "spans-float32", "tags-float32", "vectors-float32")


def read_lines(path: pathlib.Path):
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def golden(name):
    return json.loads((BUNDLES / name / "golden.json").read_bytes())


def test_the_character_classes_of_kotlin_are_those_of_python():
    (file,) = TEXT.rglob("UnicodeClasses.kt")
    constants = re.findall(r'const val (\w+)\s*=\s*"+([^"]*)"', file.read_text("utf-8"))
    classes = {
        name: value
        for name, value in vars(unicode_classes).items()
        if name.isupper() and isinstance(value, str)
    }
    assert {name: value.split() for name, value in constants} == {
        name: value.split() for name, value in classes.items()
    }
    assert len(classes) == 7


def test_the_classes_of_words_in_kotlin_are_those_of_python():
    (file,) = TEXT.rglob("WordClasses.kt")
    constants = re.findall(r'const val (\w+)\s*=\s*"+([^"]*)"', file.read_text("utf-8"))
    classes = yaml.safe_load(words._TABLE.read_text("ascii"))
    assert [(name.lower(), value.split()) for name, value in constants] == [
        (name, classes[name].split()) for name in words._CLASSES
    ]


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 31])
def test_the_odd_texts_are_still_read_as_they_were(every):
    lines = read_lines(vectors.RESOURCES / "running.jsonl")
    assert len(lines) == running_texts.COUNT
    lines = lines[::every]
    again = running_texts.running_lines(BUNDLES / "tags-float32", vectors.unigram(), every)
    for line, other in zip(lines, again, strict=True):
        # Exponents and sums of another NumPy may be rounded in another way.
        assert line.pop("probability") == pytest.approx(other.pop("probability"), rel=1e-6)
        entities, others = (it.pop("entities") + it.pop("hidden", []) for it in (line, other))
        assert line == other
        assert [entity[:3] for entity in entities] == [entity[:3] for entity in others]
        shares, other_shares = ([entity[3] for entity in all_] for all_ in (entities, others))
        assert shares == pytest.approx(other_shares, rel=1e-6)
    assert set("".join(line["sure"] for line in lines)) == {"0", "1"}


@pytest.mark.slow
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.thorough), 16])
def test_the_words_of_the_edge_cases_are_those_of_the_tokenizer(every):
    lines = read_lines(vectors.RESOURCES / "words.jsonl")
    assert lines[::every] == vectors.words_lines(every)


def test_the_places_of_pieces_are_those_of_the_tokenizer():
    vocab_file = BUNDLES / "pairs-float32" / "vocab.txt"
    places = read_lines(vectors.RESOURCES / "places.jsonl")
    assert places == vectors.places_lines(vocab_file)
    whole = [line for line in places if "".join(line["parts"]) == "".join(line["text"].split())]
    assert 10 < len(whole) < len(places) - 10


def test_the_texts_that_lose_their_middle_are_cut_as_the_tokenizer_cuts_them():
    vocab_file = BUNDLES / "pairs-float32" / "vocab.txt"
    lines = read_lines(vectors.RESOURCES / "cut.jsonl")
    assert lines == vectors.cut_lines(vocab_file)
    cut_at_end = read_tokenizer(vocab_file)
    others = [
        line
        for line in lines
        if cut_at_end.encode(line["text"], line.get("pair"), line["max_length"]) != line["ids"]
    ]
    assert 40 < len(others) < len(lines) - 40


def test_the_small_unigram_tokenizer_is_what_python_writes():
    path = vectors.RESOURCES / "unigram.json"
    assert path.read_text("utf-8") == vectors.unigram().file_text
    ours = read_unigram(path, json.loads(path.read_bytes()))
    assert len(set(ours.scores.tolist())) < ours.vocab_size / 4  # ties matter


def test_the_pieces_of_odd_texts_are_those_of_the_library():
    lines = read_lines(vectors.RESOURCES / "unigram.jsonl")
    assert lines == vectors.unigram_lines()
    assert len({id_ for line in lines for id_ in line["ids"]}) > 55
    assert sum("\u0301" in line["text"] for line in lines) > 20


def test_the_small_table_replaces_what_it_names():
    table = tokenizers.Tokenizer.from_str(vectors.unigram().file_text).normalizer
    others = {"ｶﾞ": "カﾞ", "A\u0301": "a"}  # six bytes are not one key, and the shorter key counts
    for key, replacement in vectors.NORMALIZED.items():
        assert table.normalize_str(f"x{key}") == f"x{others.get(key, replacement)}"


def test_the_statistics_are_those_of_the_harness():
    for case in json.loads((vectors.RESOURCES / "statistics.json").read_text()):
        samples = case.pop("samples_ms")
        # Sums of another NumPy may be rounded in another way.
        assert case == pytest.approx(stats.summarize(samples), rel=1e-14)


def test_the_bundles_are_whole():
    index = android_bundle.read_index(vectors.RESOURCES, verify=True)
    assert tuple(index.bundles) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_token_vectors_are_those_of_the_tokenizer(name):
    card = manifest.read_manifest(BUNDLES / name)
    tokenizer = read_tokenizer(BUNDLES / name / card.tokenizer.vocab.file)
    header, *cases = read_lines(BUNDLES / name / "tokens.jsonl")
    assert header["num_cases"] == len(cases) > 200
    for case in cases:
        ids = tokenizer.encode(case["text"], case.get("pair"), case["max_length"])
        assert case["input_ids"] == ids, case


@pytest.mark.parametrize("name", NAMES)
def test_the_files_still_give_their_golden_outputs(name):
    examples = golden(name)["examples"]
    with TfliteModel(BUNDLES / name / "model.tflite") as file:
        for example in examples:
            length = int(example["signature"].removeprefix("len"))
            types = example["token_type_ids"]
            outputs = file.predict(example["input_ids"], types, length=length)
            # Another processor's kernels; the toys' outputs are of size 1.
            np.testing.assert_allclose(outputs, example["outputs"], atol=2e-4)
    assert len(examples) >= 8


def test_the_golden_questions_are_answered_as_the_decoder_does():
    card = manifest.read_manifest(BUNDLES / "spans-float32")
    record = card.task.span
    rules = SpanRules(
        unanswerable=record.unanswerable,
        max_answer_length=record.max_answer_length,
        n_best=record.n_best,
        null_threshold=record.null_threshold,
    )
    tokenizer = read_tokenizer(BUNDLES / "spans-float32" / "vocab.txt")
    content = golden("spans-float32")
    for question in content["questions"]:
        encoded = windows.encode_questions(
            [squad.Question("0", question["question"], question["context"], (), None)],
            tokenizer,
            card.tokenizer.max_length,
            doc_stride=record.doc_stride,
            max_question_length=record.max_question_length,
            labelled=False,
        )
        windows_of_question = [content["examples"][i] for i in question["examples"]]
        assert [encoded.row(i).tolist() for i in range(len(encoded))] == [
            example["input_ids"] for example in windows_of_question
        ]
        logits = np.concatenate([np.array(example["outputs"]) for example in windows_of_question])
        answer = spans.decode(logits, encoded, rules)[0]
        assert answer.text == question["answer"]


def test_the_index_still_finds_what_it_found():
    bundle = BUNDLES / vectors.INDEXED
    index = text_index.read_index(bundle / text_index.FOLDER)
    text_index.check_model(index.card, manifest.read_manifest(bundle))
    searches = json.loads((vectors.RESOURCES / "search.json").read_bytes())
    assert searches == vectors.searches(bundle) and len(searches) > 10
    best = [search["matches"][0]["score"] for search in searches]
    assert min(best) < index.card.threshold < max(best)


def test_the_index_still_gives_the_labels_that_it_gave():
    expected = json.loads((vectors.RESOURCES / "routes.json").read_bytes())
    assert expected == vectors.routes(BUNDLES / vectors.INDEXED)
    answers = expected["answers"]
    assert {answer["sure"] for answer in answers} == {True, False}
    assert len({answer["label"] for answer in answers}) > 1


def test_the_predictor_is_still_as_sure_as_it_was():
    cases, both = json.loads((vectors.RESOURCES / "confidence.json").read_bytes()), set()
    for case, again in zip(cases, vectors.confidences(), strict=True):
        answers = [case.pop("answers"), again.pop("answers")]
        assert case == again
        assert {answer["sure"] for answer in answers[0]} == {True, False}
        both |= {(answer["sure"], answer["sure_by_agreement"]) for answer in answers[0]}
        for answer, other in zip(*answers, strict=True):
            # Seven digits of each logit, on whatever processor.
            assert answer.pop("probability") == pytest.approx(other.pop("probability"), rel=1e-5)
            scores = [each.pop("score", 0.0) for each in (answer, other)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-12)
            assert answer == other
    assert len(both) == 3  # an agreement's threshold is the higher one
