"""Where answers about words and characters stand among the pieces of a student."""

import pathlib

import numpy as np
import pytest
import scipy.special

from tfdistill import errors, tasks
from tfdistill.data import answer_logits, given_answers, placed_answers, tokenize
from tfdistill.data.batches import encode_examples
from tfdistill.tasks import squad

WORDS = tasks.TaskSpec("ner", "0", "-1", kind="token", labels=("O", "B-X"))
SPANS = tasks.task("squad_v2")
NO_CHANCE = np.float32(-1e30)


@pytest.fixture(scope="module")
def tokenizer(toy_vocab_file):
    return tokenize.Tokenizer(toy_vocab_file)


def answers(logits, bounds, offsets=None):
    return given_answers.AnswerFile(
        pathlib.Path("a.jsonl"), "logits", np.array(logits, np.float32), {}, {},
        np.array(bounds), None if offsets is None else np.array(offsets),
    )  # fmt: skip


def test_a_word_is_answered_at_its_first_piece_and_nowhere_else(tokenizer, rng):
    words = [["unwatchable", "films"], ["good"]]
    tags = np.empty(2, object)
    tags[:] = [np.array([1, 0], np.int32), np.array([1], np.int32)]
    examples = tasks.Examples(WORDS, ["", ""], None, tags, words=words)
    encoded = encode_examples(examples, tokenizer, 16)
    firsts = np.flatnonzero(encoded.labels >= 0)
    assert encoded.num_tokens > len(firsts) + 4  # a word has several pieces
    logits = rng.normal(size=(3, 2)).astype(np.float32)
    file = answers(logits, [0, 1, 3])  # of the second sentence, then of the first
    placed = placed_answers.place([file], [np.array([1, 0])], encoded, WORDS)
    np.testing.assert_array_equal(placed[firsts], logits[[1, 2, 0]])
    assert not np.delete(placed, firsts, axis=0).any()
    # Without a row: the gold labels, certain.
    placed = placed_answers.place([file], [np.array([-1, 0])], encoded, WORDS)
    gold = answer_logits.of_gold(np.array([1, 0]), WORDS)
    np.testing.assert_array_equal(placed[firsts], [*gold, logits[0]])
    # Two files: the mean of their probabilities, each with its temperature.
    both = placed_answers.place([file, file], [np.array([1, 0])] * 2, encoded, WORDS, (1.0, 2.0))
    expected = answer_logits.combine([logits, logits], "token", (1.0, 2.0))
    np.testing.assert_array_equal(both[firsts], expected[[1, 2, 0]])


def question_of(tokenizer, context, start, end, **options):
    question = squad.Question("q", "good?", context, (context[start:end],), start)
    examples = tasks.Examples(
        SPANS, ["good?"], [context], np.array([[start, end]], np.int32), questions=[question]
    )
    return encode_examples(examples, tokenizer, max_question_length=2, **options)


def reference(encoded, ranges, logits, window):
    """`placed_answers.place` for one window, piece by piece and range by range."""
    p = scipy.special.softmax(np.array(logits, np.float64), axis=0)
    tokens = range(encoded.offsets[window], encoded.offsets[window + 1])
    characters = encoded.span_sources.characters[list(tokens)]
    pieces = [i for i, (begin, _) in enumerate(characters) if begin >= 0]
    low = 0 if window == 0 else characters[pieces[0]][0]
    high = 10**6 if window == len(encoded) - 1 else characters[pieces[-1]][1]
    out = np.zeros((len(tokens), 2))
    for (begin, end), row in zip(ranges, p, strict=True):
        first = [i for i in pieces if characters[i][1] > begin]
        last = [i for i in pieces if characters[i][0] < end]
        answer = end > begin
        out[first[0] if answer and low <= begin < high else 0, 0] += row[0]
        out[last[-1] if answer and low <= end - 1 < high else 0, 1] += row[1]
    return out


@pytest.mark.parametrize("stride", [2, 16])
def test_characters_are_answered_at_the_pieces_that_cover_them(stride, tokenizer, rng):
    context = "a good film,  unwatchable story"
    length = 8 if stride == 2 else 32
    encoded = question_of(tokenizer, context, 2, 11, max_length=length, doc_stride=stride)
    assert (len(encoded) > 2) == (stride == 2)
    # Ranges of another tokenizer: parts of words, a blank before a word, several words.
    ranges = [(0, 0), (0, 1), (1, 6), (7, 9), (9, 11), (11, 12), (12, 17), (17, 25), (26, 31)]
    ranges += [(2, 11)]
    logits = rng.normal(size=(len(ranges), 2)) * 2
    file = answers(logits, [0, len(ranges)], ranges)
    placed = placed_answers.place([file], [np.array([0])], encoded, SPANS)
    solid = [(2, 6) if r == (1, 6) else (14, 17) if r == (12, 17) else r for r in ranges]
    for window in range(len(encoded)):
        tokens = slice(encoded.offsets[window], encoded.offsets[window + 1])
        expected = reference(encoded, solid, logits, window)
        found = scipy.special.softmax(placed[tokens].astype(np.float64), axis=0)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(expected.sum(axis=0), 1.0, rtol=1e-9)
        assert (placed[tokens][1:3] == NO_CHANCE).all()  # the question


def test_one_range_a_piece_keeps_its_logits_to_the_bit(tokenizer, rng):
    context = "a good film, a bad story"
    encoded = question_of(tokenizer, context, 2, 11, max_length=32, doc_stride=16)
    characters = encoded.span_sources.characters
    pieces = np.flatnonzero(characters[:, 0] >= 0)
    logits = rng.normal(size=(1 + len(pieces), 2)).astype(np.float32)
    file = answers(logits, [0, len(logits)], [[0, 0], *characters[pieces].tolist()])
    placed = placed_answers.place([file], [np.array([0])], encoded, SPANS)
    np.testing.assert_array_equal(placed[[0, *pieces]], logits)
    assert (np.delete(placed, [0, *pieces], axis=0) == NO_CHANCE).all()
    cooled = placed_answers.place([file], [np.array([0])], encoded, SPANS, (4.0,))
    np.testing.assert_array_equal(cooled[[0, *pieces]], logits / 4)

    other = answers(-logits, [0, len(logits)], file.offsets)
    both = placed_answers.place([file, other], [np.array([0])] * 2, encoded, SPANS, (1.0, 2.0))
    p = [scipy.special.softmax(z.astype(float), axis=0) for z in (logits, -logits / 2)]
    np.testing.assert_allclose(np.exp(both[[0, *pieces]]), (p[0] + p[1]) / 2, rtol=1e-5)


def test_a_question_without_a_row_has_its_gold_answer(tokenizer):
    encoded = question_of(tokenizer, "a good film", 2, 11, max_length=32, doc_stride=16)
    file = answers([[0.0, 0.0]], [0, 1], [[0, 0]])
    placed = placed_answers.place([file], [np.array([-1])], encoded, SPANS)
    p = scipy.special.softmax(placed.astype(np.float64), axis=0)
    first, last = encoded.labels[0]
    assert last == first + 1
    assert (p[first, 0], p[last, 1]) == (1.0, 1.0)


def test_ranges_of_a_key_outside_the_context_are_refused(tokenizer):
    encoded = question_of(tokenizer, "a good film", 2, 11, max_length=32, doc_stride=16)
    file = answers([[0.0, 0.0]], [0, 1], [[3, 14]])
    with pytest.raises(errors.DataError, match=r"inside the 11 characters .*received \[3, 14\]"):
        placed_answers.place([file], [np.array([0])], encoded, SPANS)
