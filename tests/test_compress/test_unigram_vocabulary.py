"""A Unigram vocabulary that is cut to the user's languages: the same pieces, the same vectors."""

import numpy as np
import pytest
import toys
import unigrams

from tfdistill import compress, models
from tfdistill.compress import vocabulary
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.tokenization.unigram import MARK, Unigram

TEXTS = ("the film is not good.", "gut, nicht schlecht!", "a dull film")
# "qz§" is cut as ▁ q z§ (-45) where what is unknown costs 70, as ▁qz and an unknown one where 40.
RARE = [(f"{MARK}qz", -1.0), ("z§", -30.0), ("☃", -60.0)]


def tokenizer_of(*more):
    return Unigram([*unigrams.pieces(), *more], unigrams.charsmap())


def cut(tokenizer, texts, **options):
    counts = vocabulary.count_pieces(texts, tokenizer)
    return vocabulary.choose_tokens(counts, tokenizer, **options)


def pieces_of(tokenizer, text):
    return [tokenizer.vocab[index] for index in tokenizer.encode(text)]


def test_a_text_of_kept_pieces_has_the_same_pieces_scores_and_answers_bit_for_bit(tmp_path):
    tokenizer = tokenizer_of()
    shape = toys.SHALLOW_STUDENT.replace(vocab_size=tokenizer.vocab_size + 9, pad_token_id=1)
    model = toys.classifier(shape.replace(family="tinybert"))
    result = compress.prune_vocabulary(model, tokenizer, TEXTS)
    result.write_vocab(tmp_path / "tokenizer.json")
    after = read_tokenizer(tmp_path / "tokenizer.json")

    assert len(result.old_ids) < 110 and after.pad_id == 1 and after.vocab == result.tokenizer.vocab
    assert models.config_of(result.model).pad_token_id == 1
    np.testing.assert_array_equal(after.scores, tokenizer.scores[result.old_ids])
    for text in [*TEXTS, "schlecht is the film", "a gut nicht the 7", "dull?"]:
        old, new = tokenizer.encode(text), after.encode(text)
        assert list(result.old_ids[new]) == old and tokenizer.unk_id not in old
        features = [
            {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
            for ids in (np.array([old], np.int32), np.array([new], np.int32))
        ]
        expected, received = model(features[0]).numpy(), result.model(features[1]).numpy()
        np.testing.assert_array_equal(expected, received)


def test_the_lowest_scored_piece_stays_since_what_is_unknown_is_scored_by_it():
    tokenizer = tokenizer_of(*RARE)
    expected = ["<s>", MARK, "q", "z§", "</s>"]
    assert pieces_of(tokenizer, "qz§") == expected

    old_ids = cut(tokenizer, ["qz§", "qz"])
    assert pieces_of(tokenizer.subset(old_ids), "qz§") == expected
    lost = [index for index in old_ids if tokenizer.vocab[index] != "☃"]
    assert pieces_of(tokenizer.subset(lost), "qz§") != expected, "the trap is there"


def test_single_characters_of_the_scripts_that_occur_stay_and_a_stray_letter_brings_none():
    tokenizer = tokenizer_of((f"{MARK}ж", -20.0), ("€", -21.0), ("☃", -22.0), ("低", -40.0))

    tokens = {tokenizer.vocab[index] for index in cut(tokenizer, ["фильм"])}
    assert {*"абвщюяz7.!€", MARK, f"{MARK}ж", f"{MARK}фильм", "低"} <= tokens, "低 is the lowest"
    assert tokens.isdisjoint({"अ", "च", "ä", "☃", f"{MARK}хорош"})
    assert {"<s>", "<pad>", "</s>", "<unk>", "<mask>"} <= tokens
    few = cut(tokenizer, ["фильм", "a film " * 2000])
    tokens = {tokenizer.vocab[index] for index in few}
    assert f"{MARK}фильм" in tokens and "щ" not in tokens and "ä" in tokens


def test_listed_pieces_come_in_their_order_as_far_as_there_is_room():
    tokenizer = tokenizer_of()
    needed = cut(tokenizer, ["the film"])
    listed = np.array([tokenizer.vocab.index(MARK + word) for word in ("хорош", "the", "फिल्म")])

    counts = vocabulary.count_pieces(["the film"], tokenizer)
    ranked, num_needed, num_wanted = vocabulary.rank_tokens(counts, tokenizer, listed=listed)
    assert sorted(ranked) == list(range(tokenizer.vocab_size))
    more = {*ranked[:num_needed]} - {*needed}
    assert {tokenizer.vocab[index] for index in more} > {"щ", "ъ"}, "characters of their script"
    assert list(ranked[num_needed:num_wanted]) == [listed[0], listed[2]], "one is needed already"


@pytest.mark.parametrize(("limit", "expected"), [(50, True), (1000, False)])
def test_a_large_vocabulary_says_that_it_is_of_many_languages(limit, expected, monkeypatch):
    monkeypatch.setattr("tfdistill.tokenization.unigram._OF_MANY_LANGUAGES", limit)
    assert tokenizer_of().of_many_languages is expected
