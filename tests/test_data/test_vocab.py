import pytest

from tfdistill import errors
from tfdistill.data import textspans, vocab
from tfdistill.tokenization import words as tokenizer_words
from tfdistill.tokenization.reading import read_tokenizer, read_vocab
from tfdistill.tokenization.wordpiece import WordPiece

SPECIAL = list(vocab.SPECIAL_TOKENS)


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize("form", ["{}\n", "{}", "\ufeff{}\n"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_line_breaks_and_a_byte_order_mark_are_no_part_of_a_token(tmp_path, form, line_break):
    text = form.format("\n".join(SPECIAL)).replace("\n", line_break)
    assert read_vocab(write(tmp_path / "vocab.txt", text)) == SPECIAL


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "received an empty file"),
        ("\n".join([*SPECIAL, "a", "", "b"]), "received an empty line 7"),
        ("\n".join([*SPECIAL, "a", "b\t17"]), r"line 7: .*'\\t' in 'b\\t17'"),
        ("\n".join([*SPECIAL, "a "]), "line 6: .*' ' in 'a '"),
        ("\n".join([*SPECIAL, "a\0b"]), "line 6: .*control characters"),
        ("\n".join([*SPECIAL, "a", "b", "a"]), "'a' on lines 6 and 8"),
        ("[PAD]\n[UNK]\n[CLS]\na\n", r"4 tokens without \[SEP\] \[MASK\]"),
        (b"[PAD]\n\xff\n", "UTF-8"),
    ],
)
def test_an_unusable_vocabulary_is_refused(tmp_path, content, message):
    with pytest.raises(errors.VocabularyError, match=message):
        read_vocab(write(tmp_path / "vocab.txt", content))
    with pytest.raises(errors.VocabularyError, match=r"nowhere\.txt', which is not a file"):
        read_vocab(tmp_path / "nowhere.txt")


def test_a_vocabulary_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "vocab.txt"
    vocab.write_vocab(SPECIAL, path)
    for tokens in ([*SPECIAL, "a\nb"], [*SPECIAL, "a", "a"], SPECIAL[1:]):
        with pytest.raises(errors.VocabularyError):
            vocab.write_vocab(tokens, path)
    assert read_vocab(path) == SPECIAL
    assert [file.name for file in tmp_path.iterdir()] == ["vocab.txt"]


@pytest.mark.parametrize(
    ("student", "message"),
    [
        ([*SPECIAL, "b", "a"], r"id 5 \(line 6\): expected 'a' as in the teacher's, received 'b'"),
        ([*SPECIAL, "a"], r"id 6 .*: expected 'b' as in the teacher's, received no token"),
        ([*SPECIAL, *"abc"], r"id 7 .*: expected no token as in the teacher's, received 'c'"),
    ],
)
def test_the_first_token_that_differs_is_named(student, message):
    with pytest.raises(errors.VocabularyError, match=message):
        vocab.check_same_vocabulary([*SPECIAL, "a", "b"], student)


TEXTS = [
    "the walker walks, walking in the walkway",
    "a talker talks while talking of talkies",
    "The Walking and the Talking: straße, élan!",
] * 20


def test_a_trained_vocabulary_spells_every_word_and_is_no_larger_than_asked(tmp_path):
    characters = set("".join(tokenizer_words.split_texts(TEXTS)))
    least = 5 + 2 * len(characters)
    for size in (least, least + 1, least + 5, 90, 200):
        tokens = vocab.train_vocab(TEXTS, size)
        assert len(tokens) <= size
        assert tokens[:5] == SPECIAL
        vocab.write_vocab(tokens, tmp_path / "vocab.txt")
        tokenizer = read_tokenizer(tmp_path / "vocab.txt")
        encoded = tokenizer.encode_batch([*TEXTS, *(letter * 2 for letter in characters)])
        assert tokenizer.unk_id not in encoded.ids


def test_a_vocabulary_of_nothing_or_without_room_is_refused():
    with pytest.raises(errors.DataError, match="at least one word, received none"):
        vocab.train_vocab(["", "  "], 100)
    with pytest.raises(errors.VocabularyError):
        vocab.train_vocab(["ab ba"], 8)
    assert len(vocab.train_vocab(["ab ba"], 9)) == 9


@pytest.mark.shared_data
@pytest.mark.parametrize(("name", "size"), [("uncased", 30522), ("chinese", 21128)])
def test_the_real_vocabularies_are_read_whole(shared_data, name, size):
    tokens = read_vocab(shared_data / "vocab" / f"bert-base-{name}-vocab.txt")
    assert len(tokens) == size


@pytest.mark.parametrize("lower_case", [True, False])
def test_the_case_is_that_of_a_tokenizer_json_beside_it_unless_a_setting_is_malformed(
    lower_case, tmp_path
):
    path = tmp_path / "vocab.txt"
    vocab.write_vocab(SPECIAL, path)
    WordPiece(SPECIAL, lower_case=lower_case).save_json(str(tmp_path / "tokenizer.json"))
    assert read_tokenizer(path).lower_case is lower_case
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": "yes"}')
    with pytest.raises(errors.VocabularyError, match="do_lower_case: expected true or false"):
        read_tokenizer(path)


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
