import json
import random
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
import transformers
from random_texts import random_texts

from tfdistill import errors
from tfdistill.tokenization import words as tokenizer_words
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.tokenization.wordpiece import WordPiece

NASTY = [
    "",
    "   ",
    "\x00",
    "a\x00b",
    "e\u0301le\u0300ve élève",
    "ÉCOLE İstanbul IĞDIR ı i\u0307",
    "ｆｕｌｌ　ｗｉｄｔｈ！？ ＡＢＣ１２３",
    "？",
    "…wait…",
    "ﬁne ﬂow",
    "Straße ẞ ß",
    "ΟΔΥΣΣΕΥΣ ΣΑΣ σς Σ",
    "😀 hi👨‍👩‍👧 🇩🇪 👍🏽 a😀b",
    "[SEP] [CLS] [MASK] [PAD] [UNK] x[SEP]y [sep]",
    "a" * 100,
    "a" * 101,
    "b " + "a" * 5000 + " b",
    "é" * 100,
    "é" * 101,
    "é" * 399 + " é" * 3,
    "x" * 100 + "\u0301",
    "\u0301" * 120 + "b",
    "中" * 130,
    "中文 mixed文本english",
    "日本語のテスト ガギグ",
    "한국어 텍스트",
    "สวัสดีครับ",
    "हिन्दी में",
    "العربية النصُّ",
    "עִבְרִית",
    "a\u200bb\u200d\ufeffc\u00ad\u2060\u180e",
    "tab\tnew\nline\rret\x0bvt\x0cff\x85nel\x1cfs\x7f",
    "nb\u00a0sp\u202fx\u2007y\u2028z\u2029w\u3000v\u1680u",
    "$+<=>^`|~ @#%&*_-/\\",
    "don't_stop ##ing # ##",
    "\ufffd bad \ufffe",
    "x\U000e0041y \U0010ffff \ue000",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ①②③ ½ ™ ® © ªº Ⅷ",
    "Ǆǅǆ ŉ ǰ ΐ K\u212a Å\u212b \u2126",
    "≠ ≮ ≯ \u1fef \u037e \u0387",
    "\uf900\uf901\U0002f800\U0002b820\U0002b920\U0002a700",
    "\u1e9b\u0323 \u0345 \u1734 \U000111c9",
    "http://a.b/c?d=e&f=g",
]


def visible(character):
    return not character.isspace() and unicodedata.category(character) != "Cc"


@pytest.fixture(scope="module")
def character_vocab_file(tmp_path_factory):
    """Every character that a right or a wrong normalisation can make of NASTY: no word is unknown,
    so every difference shows."""
    text = "".join(NASTY)
    forms = [text, text.lower(), text.casefold(), text.upper()]
    forms += [unicodedata.normalize(form, t) for form in ("NFD", "NFKD", "NFKC") for t in forms]
    characters = sorted(set(filter(visible, "".join(forms))))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters]
    tokens += ["##" + character for character in characters]
    path = tmp_path_factory.mktemp("characters") / "vocab.txt"
    path.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return path


def reference(vocab_file, lower_case=True):
    return transformers.BertTokenizerFast(
        vocab_file=str(vocab_file), do_lower_case=lower_case, split_special_tokens=True
    )


def assert_equal_to_reference(vocab_file, texts, pairs=None, *, lower_case=True, max_length=512):
    ours = read_tokenizer(vocab_file, lower_case).encode_batch(texts, pairs, max_length)
    expected = reference(vocab_file, lower_case)(
        texts, pairs, truncation="longest_first", max_length=max_length
    )
    assert len(ours.offsets) == len(texts) + 1
    for index, text in enumerate(texts):
        row = slice(ours.offsets[index], ours.offsets[index + 1])
        assert ours.ids[row].tolist() == expected["input_ids"][index], repr(text)
        assert ours.types[row].tolist() == expected["token_type_ids"][index], repr(text)


@pytest.mark.parametrize("lower_case", [True, False])
def test_nasty_texts_have_the_ids_of_the_fast_tokenizer(character_vocab_file, lower_case):
    assert_equal_to_reference(character_vocab_file, NASTY, lower_case=lower_case)


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False])
def test_random_texts_have_the_ids_of_the_fast_tokenizer(toy_vocab_file, lower_case):
    assert_equal_to_reference(toy_vocab_file, random_texts(4000), lower_case=lower_case)


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False])
def test_the_graph_and_the_library_have_one_contract(toy_vocab_file, lower_case):
    tokenizer = read_tokenizer(toy_vocab_file, lower_case)
    texts = random_texts(20_000)
    pairs = [text if number % 3 else "" for number, text in enumerate(reversed(texts))]
    graph, fast = (t.encode_batch(texts, pairs, 20) for t in (tokenizer, tokenizer.fast))
    for name in ("ids", "offsets", "types"):
        graph_value, fast_value = getattr(graph, name), getattr(fast, name)
        assert graph_value.dtype == fast_value.dtype
        np.testing.assert_array_equal(graph_value, fast_value, err_msg=name)
    assert graph.pad_id == fast.pad_id
    for number in range(0, 20_000, 400):
        single = tokenizer.encode(texts[number], pairs[number], 20)
        assert single == graph.row(number).tolist()


def code_point_differences(vocab_file, codes, lower_case):
    texts = [f"a{chr(code)}b" for code in codes]
    rows = tokenizer_words.split(tf.constant(texts), lower_case=lower_case).to_list()
    ours = [[word.decode() for word in row] for row in rows]
    backend = reference(vocab_file, lower_case).backend_tokenizer
    normalise, split = backend.normalizer.normalize_str, backend.pre_tokenizer.pre_tokenize_str
    expected = [[word for word, _ in split(normalise(text))] for text in texts]
    return [code for code, x, y in zip(codes, ours, expected, strict=True) if x != y]


def test_characters_of_the_first_plane_split_like_the_fast_tokenizers(toy_vocab_file):
    codes = [*range(0, 0xD800), *range(0xF900, 0x10000)]
    different = code_point_differences(toy_vocab_file, codes, lower_case=True)
    # Capitals that Unicode 14 and later added: ICU in TensorFlow does not know them yet. They
    # stand in no vocabulary in either case, so the word is [UNK] all the same.
    recent = [0x1C89, 0x2C2F, 0xA7C0, 0xA7CB, 0xA7CC, 0xA7CE, *range(0xA7D0, 0xA7DD, 2)]
    assert different == recent


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False])
def test_every_character_splits_like_the_fast_tokenizers(toy_vocab_file, lower_case):
    # Every code point of the planes that have characters; of empty and private planes some.
    codes = [*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE1000)]
    codes += range(0x40000, 0x110000, 61)
    different = code_point_differences(toy_vocab_file, sorted(set(codes)), lower_case)
    # Only lower-casing differs, and only of capitals newer than TensorFlow's ICU.
    assert len(different) == (116 if lower_case else 0)


@pytest.mark.parametrize("max_length", range(3, 14))
def test_pairs_are_cut_longest_first(toy_vocab_file, max_length):
    # At least one token each: called with lists, the reference gives an empty second text a [SEP].
    cases = [(i, j) for i in range(10) for j in range(1, 10)]
    texts = [" ".join("abcdefghij"[:i]) for i, _ in cases]
    pairs = [" ".join("zyxwvutsrq"[:j]) for _, j in cases]
    assert_equal_to_reference(toy_vocab_file, texts, pairs, max_length=max_length)


def test_lengths_are_those_of_rows_that_are_not_cut(toy_vocab_file):
    tokenizer = read_tokenizer(toy_vocab_file)
    texts, pairs = [*NASTY, "x"], ["b a", *NASTY]
    for second in (None, pairs):
        rows = tokenizer.encode_batch(texts, second, 100_000)
        whole = rows.offsets[1:] - rows.offsets[:-1]
        assert tokenizer.lengths(texts, second).tolist() == whole.tolist()


@pytest.mark.parametrize("max_length", [2, 3, 4, 11, 12, 13])
def test_single_texts_are_cut_at_the_end(toy_vocab_file, max_length):
    texts = [" ".join("abcdefghij"[:i]) for i in range(11)]
    assert_equal_to_reference(toy_vocab_file, texts, max_length=max_length)


@pytest.mark.parametrize("text", ["good", ""])
@pytest.mark.parametrize("pair", [None, "", " ", "bad"])
def test_an_empty_second_text_has_its_separator_as_in_a_batch_of_transformers(
    toy_vocab_file, text, pair
):
    pairs = None if pair is None else [pair]
    expected = reference(toy_vocab_file)([text], pairs)
    tokenizer = read_tokenizer(toy_vocab_file)
    assert tokenizer.encode(text, pair) == expected["input_ids"][0]
    assert tokenizer.fast.encode_typed(text, pair) == (
        expected["input_ids"][0],
        expected["token_type_ids"][0],
    )
    for encoder in (tokenizer, tokenizer.fast):
        rows = encoder.encode_batch([text], pairs)
        assert rows.row(0).tolist() == expected["input_ids"][0]
        assert rows.row_types(0).tolist() == expected["token_type_ids"][0]
    assert tokenizer.lengths([text], pairs).tolist() == [len(expected["input_ids"][0])]


def test_special_ids_are_those_of_the_vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("x\n[MASK]\n[SEP]\n[CLS]\n[UNK]\n[PAD]\n##x\n", encoding="utf-8")
    tokenizer = read_tokenizer(path)
    assert (tokenizer.mask_id, tokenizer.sep_id, tokenizer.cls_id) == (1, 2, 3)
    assert (tokenizer.unk_id, tokenizer.pad_id, tokenizer.vocab_size) == (4, 5, 7)
    assert tokenizer.encode("xx y") == [3, 0, 6, 4, 2]


def test_broken_utf_8_in_a_graph_neither_fails_nor_touches_its_neighbours(toy_vocab_file):
    tokenizer = read_tokenizer(toy_vocab_file)
    rows = tokenizer.tokenize(tf.constant([b"good \xff\xfe film", b"bad"])).to_list()
    assert rows[1] == tokenizer.encode("bad")[1:-1]
    assert rows[0][0] == tokenizer.encode("good")[1]


def test_a_tokenizer_whose_first_use_is_inside_a_graph_is_one_outside_too(toy_vocab_file):
    tokenizer_words.pieces_graph.cache_clear()
    tokenizer = read_tokenizer(toy_vocab_file)
    rows = tf.function(tokenizer.tokenize, autograph=False)(tf.constant(["the film", "good"]))
    assert rows.flat_values.numpy().tolist() == tokenizer.pieces(["the film", "good"])[0].tolist()
    assert tokenizer.wordpiece_model


def test_many_texts_keep_their_order(toy_vocab_file):
    tokenizer = read_tokenizer(toy_vocab_file)
    texts = [" ".join(str(number)) for number in range(3000)]  # more than one call of the graph
    encoded = tokenizer.encode_batch(texts)
    for number in (0, 1023, 1024, 2999):
        assert encoded.row(number).tolist() == tokenizer.encode(texts[number])


def test_a_lone_surrogate_is_dropped(toy_vocab_file):
    tokenizer = read_tokenizer(toy_vocab_file)
    assert tokenizer.encode("go\ud800od") == tokenizer.encode("good")


def test_bad_arguments_are_refused(toy_vocab_file):
    tokenizer = read_tokenizer(toy_vocab_file)
    for pair, max_length, told in (
        (None, 1, r"max_length: expected at least 2, .* received 1"),
        ("bad", 2, r"at least 3, room for .* received 2"),
        (None, None, "whole number"),
    ):
        with pytest.raises(errors.DataError, match=told):
            tokenizer.encode("good", pair, max_length)  # type: ignore[arg-type]
    with pytest.raises(errors.DataError, match="text 1: expected a string, received float nan"):
        tokenizer.encode_batch(["good", float("nan")])  # type: ignore[list-item]
    with pytest.raises(errors.DataError, match="pairs: expected 2 as texts, received 1"):
        tokenizer.encode_batch(["good", "bad"], ["film"])


def assert_located_like_the_reference(vocab_file, texts, *, lower_case=True):
    located = read_tokenizer(vocab_file, lower_case).locate(texts)
    expected = reference(vocab_file, lower_case)(
        texts, add_special_tokens=False, return_offsets_mapping=True
    )
    assert len(located.offsets) == len(texts) + 1
    for index, text in enumerate(texts):
        row = slice(located.offsets[index], located.offsets[index + 1])
        assert located.ids[row].tolist() == expected["input_ids"][index], repr(text)
        places = list(zip(located.starts[row].tolist(), located.ends[row].tolist(), strict=True))
        assert places == expected["offset_mapping"][index], repr(text)


@pytest.mark.parametrize("lower_case", [True, False])
def test_pieces_stand_where_the_fast_tokenizer_says(character_vocab_file, lower_case):
    assert_located_like_the_reference(character_vocab_file, NASTY, lower_case=lower_case)


GLUE = ("CoLA", "MRPC", "QNLI", "RTE", "SST-2", "STS-B", "WNLI")


def cells(path):
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    return [cell for line in lines for cell in line.split("\t") if len(cell) > 5]


@pytest.mark.slow
@pytest.mark.shared_data
@pytest.mark.parametrize("name", GLUE)
def test_glue_dev_sentences_have_the_ids_of_the_fast_tokenizer(shared_data, name):
    vocab_file = shared_data / "vocab" / "bert-base-uncased-vocab.txt"
    assert_equal_to_reference(vocab_file, cells(shared_data / "glue" / name / "dev.tsv"))


@pytest.mark.slow
@pytest.mark.shared_data
@pytest.mark.parametrize("lower_case", [True, False])
@pytest.mark.parametrize("language", ["chinese", "uncased"])
def test_chinese_and_nasty_texts_agree_under_real_vocabularies(shared_data, language, lower_case):
    vocab_file = shared_data / "vocab" / f"bert-base-{language}-vocab.txt"
    chinese = (shared_data / "vocab" / "bert-base-chinese-vocab.txt").read_text(encoding="utf-8")
    tokens = chinese.replace("##", "").split("\n")
    source = random.Random(2)
    texts = ["".join(source.choices(tokens, k=30)) for _ in range(1500)]
    texts += [
        "今天天气很好，我们去公园吧！",
        "？！……——《书名》「引号」",
        "繁體中文測試，包括標點。",
    ]
    texts += [*NASTY, *random_texts(2000)]
    assert_equal_to_reference(vocab_file, texts, lower_case=lower_case)


@pytest.mark.shared_data
@pytest.mark.parametrize("language", ["chinese", "uncased"])
def test_pieces_under_real_vocabularies_stand_where_the_fast_tokenizer_says(shared_data, language):
    data = json.loads((shared_data / "squad" / "xquad.en.json").read_text(encoding="utf-8"))["data"]
    texts = [paragraph["context"] for article in data for paragraph in article["paragraphs"]]
    texts += ["今天天气很好，我们去公园吧！", "《书名》「引号」 ＡＢＣ", "繁體中文測試é。", *NASTY]
    vocab_file = shared_data / "vocab" / f"bert-base-{language}-vocab.txt"
    assert_located_like_the_reference(vocab_file, texts)


@pytest.mark.shared_data
def test_squad_pairs_are_cut_like_the_fast_tokenizers(shared_data):
    data = json.loads((shared_data / "squad" / "xquad.en.json").read_text(encoding="utf-8"))["data"]
    pairs = [
        (question["question"], paragraph["context"])
        for article in data[:3]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    texts, contexts = map(list, zip(*pairs, strict=True))
    vocab_file = shared_data / "vocab" / "bert-base-uncased-vocab.txt"
    for max_length in (16, 25, 128):
        assert_equal_to_reference(vocab_file, texts, contexts, max_length=max_length)
        assert_equal_to_reference(vocab_file, contexts, texts, max_length=max_length)


def test_what_texts_of_the_same_scripts_do_not_have_is_spare():
    others = ["[unused0]", "дом", "##ж", "中", "ñ中"]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film", "##s", "é", "7", "!", "€"]
    tokenizer = WordPiece([*others, *words], lower_case=False)
    counts = np.array([token in ("film", "##s") for token in tokenizer.vocab], np.int64)
    assert tokenizer.spare(counts).tolist() == [True] * len(others) + [False] * len(words)
    # a script of fewer than one letter in 1,000 is none of the texts'; its word, which is used, is
    rare = np.array([2000 * (token == "film") + (token == "дом") for token in tokenizer.vocab])
    assert tokenizer.spare(rare)[:5].tolist() == [True, False, True, True, True]
    often = np.array([9 * (token in ("film", "дом")) for token in tokenizer.vocab])
    assert tokenizer.spare(often)[:5].tolist() == [True, False, False, True, True]
