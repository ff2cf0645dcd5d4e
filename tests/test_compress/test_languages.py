"""The pieces that an app keeps of a vocabulary: of its texts and of its languages' words."""

import sys
import types

import pytest
import unigrams

from tfdistill import errors
from tfdistill.compress import languages
from tfdistill.tokenization.unigram import MARK, Unigram


def test_words_of_languages_are_kept_by_turns_as_far_as_there_is_room(monkeypatch, tmp_path):
    lists = {"de": ["gut", "schlecht", "nicht"], "hi": ["अच्छा", "फिल्म"], "en": ["film", "good"]}
    package = types.SimpleNamespace(
        available_languages=lambda: lists, top_n_list=lambda code, count: lists[code][:count]
    )
    monkeypatch.setitem(sys.modules, "wordfreq", package)
    capital = (f"{MARK}Nicht", -9.0)  # the lists of words are in lower case
    tokenizer = Unigram([*unigrams.pieces(), capital], unigrams.charsmap())

    def pieces(**options):
        choice = languages.choose(tokenizer, ["a film"], **options)
        return choice, {tokenizer.vocab[index] for index in choice.ids}

    alone, few = pieces()
    assert f"{MARK}gut" not in few and "अ" not in few and "--languages CODE" in alone.note
    most, all_of_them = pieces(languages=("de", "hi"))
    assert {MARK + word for word in lists["de"] + lists["hi"]} <= all_of_them and "अ" in all_of_them
    assert f"{MARK}Nicht" in all_of_them and f"{MARK}Nicht" not in few
    assert "words of de, hi" in most.note and len(most.ranked) == len(most.ids)
    bounded, some = pieces(languages=("de", "hi"), vocab_size=most.num_needed + 3)
    assert len(bounded.ids) == most.num_needed + 3 and "had no room" in bounded.note
    assert {MARK, f"{MARK}gut", f"{MARK}अच्छा"} <= some, "the most frequent of each"
    assert sorted(most.first(len(bounded.ids)).ids) == sorted(bounded.ids)
    pair = (most.ranked, most.shares)
    rank = {tokenizer.vocab[index]: share for index, share in zip(*pair, strict=True)}
    assert rank[f"{MARK}अच्छा"] > rank[f"{MARK}फिल्म"] > 0 == rank[f"{MARK}film"]
    assert sum(most.shares) == pytest.approx(1), "of the languages, not of the texts"
    assert sum(alone.shares) == pytest.approx(1) and len(alone.ranked) == len(alone.ids)
    (tmp_path / "hindi.txt").write_text("फिल्म фильм\nफिल्म\n", encoding="utf-8")
    _, of_file = pieces(languages_of=str(tmp_path / "hindi.txt"))
    assert {f"{MARK}फिल्म", f"{MARK}фильм", "अ"} <= of_file and f"{MARK}gut" not in of_file
    (tmp_path / "blank.txt").write_text(" \n\u200b\n", encoding="utf-8")
    with pytest.raises(errors.DataError, match=r"languages_of .*blank\.txt: expected text"):
        pieces(languages_of=str(tmp_path / "blank.txt"))
    with pytest.raises(errors.ConfigError, match=f"vocab_size: expected at least {len(few)}"):
        pieces(vocab_size=9)
    with pytest.raises(errors.ConfigError, match="expected of de, en, hi, received 'dr'"):
        pieces(languages=("dr",))
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    with pytest.raises(errors.ConfigError, match=r"pip install 'tfdistill\[languages\]'"):
        pieces(languages=("de",))
