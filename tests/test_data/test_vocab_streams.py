"""Vocabularies from text of any size and any language."""

import pytest

from tfdistill import errors
from tfdistill.data import textspans, vocab
from tfdistill.tokenization import words as tokenizer_words
from tfdistill.tokenization.reading import read_tokenizer

CHINESE = "我们今天去北京看电影。天气很好，我们很高兴！\n电影很好看。" * 5


def test_text_in_pieces_gives_the_vocabulary_of_the_whole(tmp_path):
    text = "the walker walks\nwalking in the walkway\n\na talker talks 。\n" * 30
    path = tmp_path / "a.txt"
    path.write_text(text, encoding="utf-8")
    spans = textspans.plan_spans(path, 100)
    assert len(spans) > 10
    pieces = [textspans.read_span(span) for span in spans]
    assert vocab.count_words(pieces) == vocab.count_words([text])
    assert vocab.train_vocab(pieces, 100) == vocab.train_vocab([text], 100)


def test_ideographs_and_punctuation_take_one_place_each(tmp_path):
    """They never stand inside a word, so a ## form of them could not be used."""
    text = CHINESE + " ok"
    letters = set("".join(tokenizer_words.split_texts([text])))
    least = 5 + len(letters) + 2  # o and k also as suffixes
    tokens = vocab.train_vocab([text], least)
    assert len(tokens) == least
    assert {"我", "。", "！", "##o", "##k"} <= set(tokens)
    assert not {"##我", "##。"} & set(tokens)
    with pytest.raises(errors.VocabularyError, match=f"at least {least} "):
        vocab.train_vocab([text], least - 1)
    vocab.write_vocab(tokens, tmp_path / "vocab.txt")
    tokenizer = read_tokenizer(tmp_path / "vocab.txt")
    assert tokenizer.unk_id not in tokenizer.encode(text, max_length=10_000)


def test_only_the_most_frequent_characters_are_kept_on_request():
    tokens = vocab.train_vocab(["aaab aab ab 我我我 去"], 30, max_characters=3)
    assert {"a", "b", "我"} <= set(tokens)
    assert not any("去" in token for token in tokens)
    assert vocab.train_vocab(["ab ab cd"], 9, max_characters=2)[5:] == ["a", "b", "##a", "##b"]


def test_short_texts_are_split_together(monkeypatch):
    """One by one they took 700 times as long."""
    sizes, split = [], tokenizer_words.split_texts

    def counted(texts, **options):
        sizes.append(len(texts))
        return split(texts, **options)

    monkeypatch.setattr(tokenizer_words, "split_texts", counted)
    texts = [f"often\nw{number}" for number in range(1500)]
    assert sum(vocab.count_words(texts).values()) == 3000
    assert sizes == [1024, 1024, 952]


def test_the_rarest_words_are_forgotten_before_memory_runs_out():
    texts = [f"often often w{number}" for number in range(50)]
    counts = vocab.count_words(texts, max_words=20)
    assert counts["often"] == 100
    assert len(counts) <= 20
    assert counts == vocab.count_words(texts, max_words=20)
