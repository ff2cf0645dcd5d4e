"""The words that may stand in a place, against one pass of the model for each masked word."""

import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import errors, models
from tfdistill.augmentation import CandidateFinder
from tfdistill.data.vectors import WordVectors
from tfdistill.tokenization.reading import read_tokenizer

# In the toy vocabulary "film", "story", "good" are one piece; "films" and "goodly" are two.
TEXTS = (
    "The film is good .",
    "a story , a play - films ! goodly film",
    "good",
    "",
    "?!",
    "bad film is bad film is bad film",
)
STOP_WORDS = frozenset({"the", "a", "is"})
K = 6


@pytest.fixture(scope="module")
def tokenizer(toy_vocab_file):
    return read_tokenizer(toy_vocab_file)


def masked_lm(vocab_size, *, seed=0, **changes):
    config = toys.SHALLOW_STUDENT.replace(vocab_size=vocab_size, max_positions=40, **changes)
    return toys.randomise(models.build_masked_lm(config), seed)


@pytest.fixture(scope="module")
def model(tokenizer):
    return masked_lm(tokenizer.vocab_size + 2)  # embeddings are often padded


@pytest.fixture(scope="module")
def vectors():
    values = np.random.default_rng(5).standard_normal((9, 3))
    return WordVectors(["films", "good", "x", "y", "z", "u", "v", "w", "nearby"], values)


@pytest.fixture(scope="module")
def finder(model, tokenizer, vectors):
    return CandidateFinder(
        model, tokenizer, vectors, num_candidates=K, stop_words=STOP_WORDS, token_budget=200
    )


def guesses(model, tokenizer, tokens, place, count=K):
    """One pass of the model with all its positions, one row of logits sorted."""
    masked = [*tokens[:place], "[MASK]", *tokens[place + 1 :]]
    row = ["[CLS]", *masked, "[SEP]", *tokens, "[SEP]"]
    ids = [tokenizer.vocab.index(token) for token in row]
    types = [0] * (len(tokens) + 2) + [1] * (len(tokens) + 1)
    features = {
        "input_ids": ids,
        "attention_mask": [1] * len(ids),
        "token_type_ids": types,
        "prediction_mask": [1] * len(ids),
    }
    logits = model({name: tf.constant([features[name]]) for name in model.input_names})[
        "mlm_logits"
    ]
    best = np.argsort(-logits.numpy()[place + 1], kind="stable")[:count]
    names = [tokenizer.vocab[i] for i in sorted(best) if i < tokenizer.vocab_size]
    return [name for name in names if name[:2] != "##" and name not in SPECIAL]


SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PIECES = {"films": ["film", "##s"], "goodly": ["good", "##ly"]}


def test_words_of_one_piece_get_the_models_guesses_one_masked_word_at_a_time(
    finder, model, tokenizer
):
    queries = 0
    for text, text_words in zip(TEXTS, finder.find(TEXTS), strict=True):
        words = text.lower().split()
        if text != "?!":
            assert text_words.words == words
        tokens = [piece for word in text_words.words for piece in PIECES.get(word, [word])]
        for place, word in enumerate(text_words.words):
            if word in PIECES or not word.isalpha() or word in STOP_WORDS:
                continue
            position = sum(len(PIECES.get(before, [before])) for before in text_words.words[:place])
            expected = guesses(model, tokenizer, tokens, position)
            assert text_words.candidates[place] == (expected or [word])
            queries += 1
    assert queries == 2 + 3 + 1 + 6
    # The model's guesses differ by place: a wrong mask or order would show above.
    distinct = {
        tuple(c) for text_words in finder.find(TEXTS) for c in text_words.candidates.values()
    }
    assert len(distinct) > 6


def test_stop_words_punctuation_and_capitals_of_a_cased_tokenizer_have_no_candidates(
    model, toy_vocab_file
):
    cased = read_tokenizer(toy_vocab_file, lower_case=False)
    finder = CandidateFinder(model, cased, None, num_candidates=K, stop_words=STOP_WORDS)
    (words,) = finder.find(["the Film is good ."])
    assert words.words == ["the", "Film", "is", "good", "."]
    assert set(words.candidates) == {3}


def test_a_long_text_is_cut_first_behind_and_then_around_the_word(model, tokenizer, monkeypatch):
    finder = CandidateFinder(model, tokenizer, None, num_candidates=K, max_length=12)
    seen = []
    best = finder._best
    monkeypatch.setattr(
        finder, "_best", lambda features: (seen.append(features), best(features))[1]
    )
    words = [*"good bad film story play set alarm".split()]
    finder.find([" ".join(words)])  # 7 tokens: 2 are left for the repetition
    ids = [tokenizer.vocab.index(word) for word in words]
    cls, sep, mask = tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id
    for row, position in zip(_rows(seen), range(7), strict=True):
        masked = [*ids[:position], mask, *ids[position + 1 :]]
        assert row == [cls, *masked, sep, *ids[:2], sep]
    seen.clear()
    finder.find([" ".join(words + words)])  # 14 tokens: 9 around the word, nothing is repeated
    long = ids + ids
    for row, place in zip(_rows(seen), range(14), strict=True):
        start = min(max(place - 4, 0), 5)
        window = [mask if start + i == place else long[start + i] for i in range(9)]
        assert row == [cls, *window, sep, sep]


def _rows(seen):
    """The ids of all queries without padding, in the order of the masked place."""
    return [
        row[mask.astype(bool)].tolist()
        for features in seen
        for row, mask in zip(
            features["input_ids"].numpy(), features["attention_mask"].numpy(), strict=True
        )
    ]


def test_the_identity_tells_what_decides_the_candidates(finder, model, tokenizer, vectors):
    usual = {"num_candidates": K, "stop_words": STOP_WORDS}
    same = CandidateFinder(model, tokenizer, vectors, token_budget=9, **usual)
    assert same.identity() == finder.identity()
    other = masked_lm(tokenizer.vocab_size + 2, seed=1)
    for finder_ in (
        CandidateFinder(model, tokenizer, vectors, num_candidates=K),
        CandidateFinder(model, tokenizer, None, **usual),
        CandidateFinder(model, tokenizer, vectors, num_candidates=1, stop_words=STOP_WORDS),
        CandidateFinder(other, tokenizer, vectors, **usual),
    ):
        differing = [k for k, v in finder_.identity().items() if finder.identity()[k] != v]
        assert len(differing) == 1


def test_what_does_not_fit_is_refused(model, tokenizer):
    with pytest.raises(errors.ShapeError):
        CandidateFinder(toys.classifier(toys.SHALLOW_STUDENT), tokenizer, None)
    small = models.build_masked_lm(toys.SHALLOW_STUDENT)
    with pytest.raises(errors.VocabularyError):
        CandidateFinder(small, tokenizer, None)
    for changes, message in (
        ({"max_length": 41}, "max_length: expected 8 to 40"),
        ({"max_length": 7}, "max_length"),
        ({"num_candidates": 0}, "num_candidates: expected 1 to"),
    ):
        with pytest.raises(errors.ConfigError, match=message):
            CandidateFinder(model, tokenizer, None, **changes)
