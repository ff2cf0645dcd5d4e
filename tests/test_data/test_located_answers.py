"""Answers about words and ranges of characters in files: read, written, refused by place."""

import json

import numpy as np
import pytest

from tfdistill import errors, tasks
from tfdistill.data import answer_files, located_answers, tokenize
from tfdistill.data.batches import encode_examples
from tfdistill.tasks import squad

WORDS = tasks.TaskSpec("ner", "0", "-1", kind="token", labels=("O", "B-X", "I-X"))
SPANS = tasks.task("squad_v2")
TOKEN_ROW = {
    "words": ["Ann", "ran"],
    "logits": {"B-X": [1.5, -1], "O": [0.25, 2], "I-X": [0, 0]},
}
SPAN_ROW = {
    "question": "who?",
    "context": "Ann ran",
    "offsets": [[0, 0], [0, 3], [4, 7]],
    "logits": {"start": [1, 2, 3.5], "end": [0.5, -1, 2]},
}


def read(tmp_path, *rows, spec=WORDS, **options):
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return located_answers.read_answers(path, spec, **options)


def test_words_are_found_by_the_words_with_the_labels_by_name(tmp_path):
    other = {"text": "So  Ann ran", "offsets": [[0, 2], [4, 7], [8, 11]], "answer": ["O"] * 3}
    found = read(tmp_path, TOKEN_ROW)
    np.testing.assert_array_equal(found.logits, [[0.25, 1.5, 0], [2, -1, 0]])
    assert found.bounds.tolist() == [0, 2] and found.given == "logits"
    assert found.find([("Ann", "ran"), ("ANN", "ran"), ("Ann ran",)]).tolist() == [0, 0, -1]
    found = read(tmp_path, other, {**other, "answer": ["O"] * 3})
    assert found.find([("So", "Ann", "ran")]).tolist() == [0]
    assert found.logits.argmax(axis=1).tolist() == [0] * 6
    p = {"O": [0.5, 0.1], "B-X": [0.5, 0.1], "I-X": [0, 0.8]}
    found = read(tmp_path, {"words": ["Ann", "ran"], "probabilities": p})
    expected = np.log([[0.5, 0.5, 1e-7], [0.1, 0.1, 0.8]])
    np.testing.assert_allclose(found.logits, expected, rtol=1e-6)


def test_ranges_are_found_by_question_and_context_to_the_character(tmp_path):
    found = read(tmp_path, SPAN_ROW, spec=SPANS)
    np.testing.assert_array_equal(found.logits, [[1, 0.5], [2, -1], [3.5, 2]])
    assert found.offsets.tolist() == SPAN_ROW["offsets"]
    asked = [("who?", "Ann ran"), ("who?", "Ann  ran"), ("who?", "ann ran"), ("who", "Ann ran")]
    assert found.find(asked).tolist() == [0, -1, -1, -1]
    assert found.nearest(asked[1]) == ("who?", "Ann ran")
    best = {**SPAN_ROW, "probabilities": [0.1, 0.9, 0], "id": "q7"}
    del best["logits"]
    found = read(tmp_path, best, spec=SPANS, key="id")
    assert found.find([("q7",)]).tolist() == [0]
    np.testing.assert_allclose(np.exp(found.logits), [[0.1] * 2, [0.9] * 2, [0] * 2], rtol=1e-6)


@pytest.mark.parametrize(
    ("spec", "changes", "message"),
    [
        (WORDS, {"logits": {"O": [1, 2], "B-X": [1, 2]}}, r"labels of .*the names \['O', 'B-X'"),
        (WORDS, {"logits": {"O": [1, 2], "B-X": [1], "I-X": [1, 2]}},
         r"line 1, 'logits.B-X': expected 2 entries, one a word, received 1"),
        (WORDS, {"logits": {"O": [1, 2], "B-X": [1, None], "I-X": [1, 2]}},
         "line 1, word 2, 'logits.B-X': expected a finite number, received None"),
        (WORDS, {"logits": None, "probabilities": {"O": [1, 0.2], "B-X": [0, 0.2], "I-X": [0, 0]}},
         "line 1, word 2: expected probabilities that sum to 1, received 0.4"),
        (WORDS, {"logits": None, "answer": ["O", "B-Y"]},
         "line 1, word 2, 'answer': expected one of O, B-X, I-X, received 'B-Y'"),
        (WORDS, {"words": []}, "line 1, 'words': expected a list that is not empty"),
        (WORDS, {"words": "Ann ran"}, "line 1, 'words': expected a list"),
        (WORDS, {"words": None, "text": "Ann ran", "offsets": [[0, 3], [2, 7]]},
         r"words one after the other in the 7 characters of the text, received \[2, 7\]"),
        (SPANS, {"offsets": [[0, 0], [0, 3], [4, 8]]},
         r"line 1, 'offsets': expected ranges inside the 7 characters .*received \[4, 8\]"),
        (SPANS, {"offsets": [[0, 0], [3, 3], [4, 7]]}, r"received \[3, 3\]"),
        (SPANS, {"offsets": [[0, 0], [0, 3], [4, 7.5]]}, r"pairs \[first character"),
        (SPANS, {"logits": {"start": [1, 2, float("nan")], "end": [1, 2, 3]}},
         "line 1, range 3, 'logits.start': expected a finite number, received nan"),
        (SPANS, {"logits": {"start": [1, 2, 3]}}, "logits or probabilities"),
        (SPANS, {"logits": None, "probabilities": {"start": [0, 0.2, 0.2], "end": [0, 0, 1]}},
         "line 1: expected probabilities that sum to 1, received 0.4"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_place(spec, changes, message, tmp_path):
    row = (TOKEN_ROW if spec is WORDS else SPAN_ROW) | changes
    with pytest.raises(errors.DataError, match=message):
        read(tmp_path, {n: v for n, v in row.items() if v is not None}, spec=spec)


def test_a_row_that_is_doubled_needs_the_same_answer(tmp_path):
    message = "line 2: expected the answer of .*line 1, which has the same text or key"
    other = {**SPAN_ROW, "logits": {"start": [1, 2, 4], "end": [0.5, -1, 2]}}
    moved = {**SPAN_ROW, "offsets": [[0, 0], [0, 3], [4, 6]]}
    words = {**TOKEN_ROW, "logits": {**TOKEN_ROW["logits"], "O": [3, 2]}}
    for spec, rows in ((SPANS, (SPAN_ROW, other)), (SPANS, (SPAN_ROW, moved)),
                       (WORDS, (TOKEN_ROW, words))):  # fmt: skip
        with pytest.raises(errors.DataError, match=message):
            read(tmp_path, *rows, spec=spec)
    read(tmp_path, SPAN_ROW, SPAN_ROW, spec=SPANS)
    with pytest.raises(errors.DataError, match=r"line 2, 'logits[.]B-X': expected a list"):
        read(tmp_path, TOKEN_ROW, {"words": ["a"], "answer": ["O"]})


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_files_without_lists_are_refused(suffix, tmp_path):
    with pytest.raises(errors.DataError, match=r"one of .jsonl, .parquet, which hold lists"):
        located_answers.read_answers(tmp_path / f"a{suffix}", WORDS)
    with pytest.raises(errors.DataError, match="which hold lists"):
        located_answers.check_suffix(tmp_path / f"a{suffix}")


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_what_is_written_is_read_to_the_bit(suffix, tmp_path, toy_vocab_file, rng):
    tokenizer = tokenize.Tokenizer(toy_vocab_file)
    words = [["good", "films"], ["bad"]]
    tags = np.empty(2, object)
    tags[:] = [np.zeros(len(row), np.int32) for row in words]
    examples = tasks.Examples(WORDS, ["good films", "bad"], None, tags, words=words)
    encoded = encode_examples(examples, tokenizer, 16)
    logits = rng.normal(size=(encoded.num_tokens, 3)).astype(np.float32)
    path = tmp_path / f"a{suffix}"
    located_answers.write_answers(path, examples, encoded, logits)
    found = located_answers.read_answers(path, WORDS)
    firsts = np.flatnonzero(encoded.labels >= 0)
    assert found.find([tuple(row) for row in words]).tolist() == [0, 1]
    np.testing.assert_array_equal(found.logits, logits[firsts])

    question = squad.Question("q", "good?", "a good film, a bad story", (), None)
    examples = tasks.Examples(SPANS, ["good?"], [question.context], None, questions=[question])
    encoded = encode_examples(examples, tokenizer, 8, doc_stride=2, max_question_length=2)
    assert len(encoded) > 2
    logits = rng.normal(size=(encoded.num_tokens, 2)).astype(np.float32)
    located_answers.write_answers(path, examples, encoded, logits)
    found = located_answers.read_answers(path, SPANS)
    best = encoded.span_sources.shown_best
    least = encoded.offsets[:-1][logits[encoded.offsets[:-1]].sum(axis=1).argmin()]
    np.testing.assert_array_equal(found.logits, np.vstack([logits[least], logits[best]]))
    pieces = tokenizer.locate([question.context])
    expected = np.stack([pieces.starts, pieces.ends], axis=1)
    np.testing.assert_array_equal(found.offsets[1:], expected)


def test_rows_are_whole_or_not_there(tmp_path):
    def rows():
        yield {"a": [1]}
        raise ValueError("stopped")

    with pytest.raises(ValueError, match="stopped"):
        answer_files.write_rows(tmp_path / "a.jsonl", rows())
    assert not list(tmp_path.iterdir())
