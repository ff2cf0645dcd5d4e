"""Windows over contexts, and answers read off logits."""

import dataclasses

import numpy as np
import pytest

from tfdistill import errors, tasks
from tfdistill.data import batches, windows
from tfdistill.tasks import spans, squad
from tfdistill.tasks.spec import SpanRules
from tfdistill.tokenization.reading import read_tokenizer

RULES = SpanRules()
V2 = SpanRules(unanswerable=True)


def ask(context, answer=None, *, question="is it", key="k", occurrence=0):
    if answer is None:
        return squad.Question(key, question, context, (), None)
    start = -1
    for _ in range(occurrence + 1):
        start = context.index(answer, start + 1)
    return squad.Question(key, question, context, (answer,), start)


def tokens_of(tokenizer, encoded, row):
    return [tokenizer.vocab[index] for index in encoded.row(row)]


LETTERS = "abcdefghijklmnopqrst"
LONG = " ".join(LETTERS)  # a token a letter


def test_windows_step_by_the_stride_and_cover_everything(tokenizer):
    item = ask(LONG, "k l")
    encoded = windows.encode_questions([item], tokenizer, 13, doc_stride=5)  # 8 tokens of context
    shown = [tokens_of(tokenizer, encoded, row)[4:-1] for row in range(len(encoded))]
    assert ["".join(letters) for letters in shown] == [
        LETTERS[0:8],
        LETTERS[5:13],
        LETTERS[10:18],
        LETTERS[15:20],
    ]
    assert encoded.sources.tolist() == [0, 0, 0, 0]
    for row, size in enumerate((8, 8, 8, 5)):
        assert encoded.row_types(row).tolist() == [0] * 4 + [1] * (size + 1)
    # "k l" is wholly in the second and third window only; elsewhere the label is [CLS].
    assert encoded.labels.tolist() == [[0, 0], [9, 10], [4, 5], [0, 0]]
    assert max(encoded.lengths) == 13


def test_each_token_is_shown_best_by_one_window(tokenizer):
    encoded = windows.encode_questions([ask(LONG)], tokenizer, 13, doc_stride=5)
    seen = np.flatnonzero(encoded.span_sources.shown_best)
    assert sorted(encoded.span_sources.characters[seen, 0].tolist()) == list(range(0, 40, 2))
    rows = {}
    for row in range(4):
        tokens = slice(int(encoded.offsets[row]), int(encoded.offsets[row + 1]))
        best = encoded.span_sources.shown_best[tokens]
        rows[row] = "".join(np.array(tokens_of(tokenizer, encoded, row))[best])
    # h: 0 to its right in the first window, 2 to its left in the second one.
    expected = {0: "abcdef", 1: "", 2: "", 3: ""}
    for letter, place in zip(LETTERS, range(20), strict=True):
        scores = [
            min(place - begin, end - 1 - place) + 0.01 * (end - begin)
            if begin <= place < end
            else -1
            for begin, end in ((0, 8), (5, 13), (10, 18), (15, 20))
        ]
        expected[int(np.argmax(scores))] += "" if letter in "abcdef" else letter
    assert rows == expected


@pytest.mark.parametrize(
    ("context", "answer", "pieces"),
    [
        ("Thé film", "Thé", ["the"]),
        ("playing a set", "playing", ["play", "##ing"]),
        ("playing a set", "ing", ["##ing"]),
        ("playing a set", "lay", ["play"]),  # part of a piece: the whole piece
        ("good, bad", "good,", ["good", ","]),
        ("a\u200b film", "\u200b film", ["film"]),
        ("is it 中 good", "中", ["[UNK]"]),
    ],
)
def test_the_label_is_the_pieces_that_share_a_character(tokenizer, context, answer, pieces):
    encoded = windows.encode_questions([ask(context, answer)], tokenizer, 30)
    first, last = encoded.labels[0]
    assert tokens_of(tokenizer, encoded, 0)[first : last + 1] == pieces


def test_windows_without_room_or_with_gaps_are_refused(tokenizer):
    items = [ask(LONG, question="a b c d")]
    for max_length, stride, told in (
        (7, 128, "max_length: expected at least 8, received 7"),
        (20, 0, "doc_stride: expected at least 1, received 0"),
        (12, 6, r"at most 5, .* question 'k', received 6"),
    ):
        with pytest.raises(errors.DataError, match=told):
            windows.encode_questions(items, tokenizer, max_length, doc_stride=stride)
    # A stride beyond the window is fine where each context is one.
    items = [ask("the film is not good."), ask("good story"), ask("not a bad film")]
    encoded = windows.encode_questions(items, tokenizer, 11, doc_stride=7)  # 6 tokens of context
    assert encoded.sources.tolist() == [0, 1, 2]


# From logits to answers.


def logits_for(encoded, low=-5.0):
    return np.full((encoded.num_tokens, 2), low, np.float32)


def put(logits, encoded, row, first, last, value):
    logits[encoded.offsets[row] + first, 0] = value
    logits[encoded.offsets[row] + last, 1] = value


@pytest.fixture(scope="module")
def encoded(tokenizer):
    items = [ask(LONG, "k l"), ask("the film is not good.", "not good", key="second")]
    return windows.encode_questions(items, tokenizer, 13, doc_stride=5)


def test_gold_places_decode_to_the_gold_answers(encoded):
    logits = logits_for(encoded)
    for row, (first, last) in enumerate(encoded.labels):
        if first:
            put(logits, encoded, row, first, last, 9.0)
    decoded = spans.decode(logits, encoded, RULES)
    assert {source: answer.text for source, answer in decoded.items()} == {0: "k l", 1: "not good"}
    assert decoded[1].score == 18.0
    assert spans.score(logits, encoded, RULES) == {"f1": 1.0, "exact_match": 1.0}


def test_only_a_window_that_shows_the_start_best_may_answer(encoded):
    logits = logits_for(encoded)
    put(logits, encoded, 0, 11, 11, 9.0)  # h, at the very end of the first window
    assert spans.decode(logits, encoded, RULES)[0].text != "h"
    put(logits, encoded, 1, 6, 6, 8.0)  # h in the second one
    assert spans.decode(logits, encoded, RULES)[0].text == "h"


def test_an_answer_neither_ends_before_it_starts_nor_grows_too_long(encoded):
    logits = logits_for(encoded)
    row = 4  # [CLS] is it [SEP] the film is not good . [SEP]
    logits[encoded.offsets[row] + 8, 0] = 9.0
    logits[encoded.offsets[row] + 5, 1] = 9.0
    answer = spans.decode(logits, encoded, RULES)[1].text
    assert answer in ("good", "good.", "film", "the film")
    put(logits, encoded, row, 4, 9, 20.0)
    assert spans.decode(logits, encoded, RULES)[1].text == "the film is not good."
    short = dataclasses.replace(RULES, max_answer_length=5)
    assert spans.decode(logits, encoded, short)[1].text != "the film is not good."
    exactly = dataclasses.replace(RULES, max_answer_length=6)
    assert spans.decode(logits, encoded, exactly)[1].text == "the film is not good."


def test_question_and_special_tokens_are_no_answer(encoded):
    logits = logits_for(encoded)
    for place in (0, 1, 2, 3, 10):
        put(logits, encoded, 4, place, place, 50.0)
    put(logits, encoded, 4, 5, 5, 0.0)
    assert spans.decode(logits, encoded, RULES)[1].text == "film"


def test_no_answer_wins_by_the_least_score_of_its_windows(encoded):
    logits = logits_for(encoded)
    put(logits, encoded, 1, 9, 10, 2.0)  # "k l" with 4
    for row, value in ((0, 9.0), (1, 3.0), (2, 9.0), (3, 9.0)):
        put(logits, encoded, row, 0, 0, value)
    decoded = spans.decode(logits, encoded, V2)[0]
    assert (decoded.text, decoded.score, decoded.null_score) == ("", 4.0, 6.0)
    # The margin is 2: from this threshold on there is an answer.
    for threshold, text in ((1.9, ""), (2.0, "k l"), (2.1, "k l")):
        rules = dataclasses.replace(V2, null_threshold=threshold)
        assert spans.decode(logits, encoded, rules)[0].text == text
    assert spans.decode(logits, encoded, RULES)[0].text == "k l"  # version 1.1 always answers


def test_unusable_logits_are_refused(encoded):
    with pytest.raises(errors.ShapeError, match=rf"shape \({encoded.num_tokens}, 2\)"):
        spans.decode(logits_for(encoded)[:-1], encoded, RULES)
    broken = logits_for(encoded)
    broken[7, 1] = np.nan
    with pytest.raises(errors.DataError):
        spans.decode(broken, encoded, RULES)
    other = dataclasses.replace(encoded, span_sources=None)
    with pytest.raises(errors.DataError):
        spans.decode(logits_for(encoded), other, RULES)


def test_every_window_gets_the_weight_of_its_question(tokenizer):
    items = [ask(LONG, "k l"), ask("good", "good", key="second")]
    spec = tasks.task("squad")
    gold = np.array([[20, 23], [0, 4]], np.int32)
    examples = tasks.Examples(spec, ["is it"] * 2, [LONG, "good"], gold, questions=items)
    encoded = batches.encode_examples(
        examples, tokenizer, 13, weights=np.array([0.5, 2.0]), doc_stride=5
    )
    assert encoded.weights.tolist() == [0.5, 0.5, 0.5, 0.5, 2.0]
    bare = dataclasses.replace(examples, labels=None)
    assert batches.encode_examples(bare, tokenizer, 13, doc_stride=5).labels is None


@pytest.mark.slow
@pytest.mark.shared_data
def test_gold_places_of_a_real_file_decode_to_their_answers(shared_data):
    """Through tokens and back: exact match 100 but for one answer, which ends inside a word.

    The file itself cuts it: "(2,70" of "(2,700,000 square kilometres)". It comes back as far as
    the last piece that it touches.
    """
    vocab_file = shared_data / "vocab" / "bert-base-uncased-vocab.txt"
    questions, _ = squad.read_questions(shared_data / "squad" / "xquad.en.json", training=True)
    encoded = windows.encode_questions(questions, read_tokenizer(vocab_file), 128, doc_stride=64)
    assert len(encoded) > 1190 and max(encoded.lengths) == 128
    assert set(encoded.sources[encoded.labels[:, 0] > 0]) == set(range(1190))
    logits = logits_for(encoded)
    for row, (first, last) in enumerate(encoded.labels):
        if first:
            put(logits, encoded, row, first, last, 9.0)
    rules = dataclasses.replace(RULES, max_answer_length=128)
    answers = spans.decode(logits, encoded, rules)
    wrong = [
        (questions[source].answers[0], answer.text)
        for source, answer in answers.items()
        if not squad.exact_match(answer.text, questions[source].answers[0])
    ]
    assert wrong == [("7,000,000 square kilometres (2,70", "7,000,000 square kilometres (2,700")]
    assert spans.score(logits, encoded, rules)["exact_match"] == pytest.approx(1189 / 1190)
