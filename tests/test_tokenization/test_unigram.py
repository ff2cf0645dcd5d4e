import base64
import json
import math

import numpy as np
import pytest
import transformers
import unigrams

from tfdistill import errors
from tfdistill.tokenization import edge_cases, reading
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.tokenization.unigram import Unigram

TEXTS = [
    *edge_cases.tokenizer_edge_cases()[::7],
    "the good film",
    "ＴＨＥ ﬁlm, nicht gut!",
    "अच्छा फिल्म фильм",
    "a  \n b\u3000c\x00d ",
    "the <mask> film </s> <pad>",
    "x" * 300,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("unigram")
    tokenizer = unigrams.unigram()
    tokenizer.save_files(path)
    settings = {**tokenizer.hf_settings("bert"), "model_max_length": 128}
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


@pytest.fixture(scope="module")
def reference(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("max_length", [4, 7, 16, 128])
@pytest.mark.parametrize("paired", [False, True])
def test_ids_and_types_are_those_of_transformers(reference, folder, max_length, paired):
    texts = [text for text in TEXTS if text == text.encode("utf-8", "ignore").decode()]
    pairs = texts[::-1] if paired else None
    tokenizer = reading.read_folder(folder).tokenizer
    rows = tokenizer.encode_batch(texts, pairs, max_length)
    expected = reference(texts, pairs, truncation="longest_first", max_length=max_length)[
        "input_ids"
    ]
    assert [rows.row(index).tolist() for index in range(len(texts))] == expected
    assert not rows.types.any()
    assert rows.pad_id == reference.pad_token_id == 1
    for index in range(0, len(texts), 9):
        pair = pairs[index] if pairs else None
        assert tokenizer.encode(texts[index], pair, max_length) == expected[index]
    lengths = [len(row) for row in reference(texts, pairs)["input_ids"]]
    assert tokenizer.lengths(texts, pairs).tolist() == lengths


def test_pieces_are_located_as_transformers_locates_them(reference):
    texts = ["the ＴＨＥ ﬁlm", "अच्छा é film", "a u\u0308ber b"]
    located = unigrams.unigram().locate(texts)
    there = reference(texts, add_special_tokens=False, return_offsets_mapping=True)
    assert np.split(located.ids, located.offsets[1:-1])[1].tolist() == there["input_ids"][1]
    places = np.stack([located.starts, located.ends], 1).tolist()
    assert places == [list(place) for row in there["offset_mapping"] for place in row]


def test_lone_surrogates_are_dropped_and_texts_must_be_strings():
    tokenizer = unigrams.unigram()
    assert tokenizer.encode("the \ud800film") == tokenizer.encode("the film")
    with pytest.raises(errors.DataError, match="expected a string"):
        tokenizer.encode_batch(["the", 3])
    with pytest.raises(errors.DataError, match="at least 4"):
        tokenizer.encode_batch(["the"], ["film"], 3)


def test_a_long_text_may_lose_its_middle(folder):
    whole = unigrams.unigram().encode("the good film is not bad")
    cut = unigrams.unigram(truncation="middle").encode("the good film is not bad", max_length=6)
    assert cut == [whole[0], *whole[1:3], *whole[-3:-1], whole[-1]]


def test_a_prompt_stands_in_front_of_every_text_and_first_text():
    plain, prompted = unigrams.unigram(), unigrams.unigram(prompt="the good ")
    assert prompted.encode("film", "bad") == plain.encode("the good film", "bad")
    rows = prompted.encode_batch(["film", ""], ["bad", "was"])
    again = plain.encode_batch(["the good film", "the good "], ["bad", "was"])
    assert rows.ids.tolist() == again.ids.tolist()
    assert prompted.lengths(["film"]).tolist() == [len(plain.encode("the good film"))]
    assert prompted.replace(prompt="").encode("film") == plain.encode("film")


def test_a_text_whose_pieces_are_all_kept_has_the_same_pieces():
    whole = unigrams.unigram()
    lowest = int(np.argmin(whole.scores))
    keep = sorted({*range(5), *whole.encode("the good film is bad"), lowest, whole.mask_id})
    cut = whole.subset(keep)
    assert cut.mask_id == len(keep) - 1
    for text in ("the good film is bad", "bad bad film", "the § good", "the <mask> film"):
        assert [keep[index] for index in cut.encode(text)] == whole.encode(text)
    assert cut.digest != whole.digest == unigrams.unigram().digest


def test_words_and_what_begins_one():
    tokenizer = unigrams.unigram()
    assert tokenizer.words(["ＴＨＥ  ﬁlm\nwas", " "]) == [["THE", "film", "was"], []]
    vocab = tokenizer.vocab
    assert [tokenizer.word_of(vocab[index]) for index in (0, 4, 5, 30)] == ["", "", "the", ""]
    assert tokenizer.begins_word[[0, 4, 5]].tolist() == [False, True, True]


def described(**changes):
    content = json.loads(unigrams.unigram().file_text)
    for name, value in changes.items():
        part, _, key = name.rpartition("__")
        (content[part] if part else content)[key] = value
    return content


def pieces_with(**changes):
    pieces = [list(piece) for piece in unigrams.pieces()]
    for index, piece in changes.items():
        pieces[int(index[1:])] = piece
    return pieces


BLANKS = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
TABLE = {"type": "Precompiled", "precompiled_charsmap": unigrams.charsmap()}
MARKED = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"model__type": None},
        {"normalizer": {"type": "Sequence", "normalizers": [TABLE]}},
    ],
)
def test_other_forms_of_the_same_tokenizer_are_read(tmp_path, changes):
    content = described(**changes)
    if content["model"]["type"] is None:
        del content["model"]["type"]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    assert read_tokenizer(path).digest == unigrams.unigram().digest


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model__vocab": pieces_with(i6=["▁good", math.nan])}, "(?i)nan"),
        ({"model__vocab": pieces_with(i7=["▁the", -4.5])}, "each piece once.*'▁the' as 5 and 7"),
        ({"model__vocab": pieces_with(i7=["", -4.5])}, "each piece once, received '' as 7 and 7"),
        ({"model__vocab": pieces_with(i0=["<x>", 0.0])}, "without <s>"),
        ({"model__vocab": {"a": 1}}, "pieces with their scores"),
        ({"model__unk_id": 0}, "unk_id 3"),
        ({"model__byte_fallback": True}, "no byte_fallback"),
        ({"normalizer": None}, "one Precompiled"),
        ({"normalizer": {**TABLE, "precompiled_charsmap": "AAAA"}}, "charsmap: expected"),
        ({"normalizer": {**TABLE, "precompiled_charsmap": "?"}}, "charsmap: expected"),
        ({"pre_tokenizer": {**MARKED, "prepend_scheme": "first"}}, "tokens of .* XLM-RoBERTa's"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "tokens of"),
        ({"post_processor": None}, "that the package tokenizers can read"),
        ({"added_tokens": []}, "tokens of"),
        ({"added_tokens": [*json.loads(unigrams.unigram().file_text)["added_tokens"],
                           {"id": 136, "content": "<x>", "single_word": False, "lstrip": False,
                            "rstrip": False, "normalized": False, "special": False}]},
         "added_tokens: .* 1 added: '<x>'"),
        ({"added_tokens": [{"id": 4}]}, "a list of tokens"),
        ({"normalizer": {"type": "Sequence", "normalizers": [TABLE, {"type": "Lowercase"}]}}, "of"),
        ({"truncation": {"direction": "Left", "max_length": 9, "stride": 0,
                         "strategy": "LongestFirst"}}, r"truncation\.direction"),
        ({"normalizer": {"type": "Sequence", "normalizers": [
            TABLE, {**BLANKS, "pattern": {"Regex": "(a+)+b"}}]}}, "no regular expressions"),
    ],
)  # fmt: skip
def test_a_tokenizer_that_answers_otherwise_is_refused(tmp_path, changes, message):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(described(**changes)))
    with pytest.raises(errors.VocabularyError, match=f"(?s){message}"):
        read_tokenizer(path)


def test_a_damaged_table_is_refused_or_reads_texts():
    table = base64.b64decode(unigrams.charsmap())
    size = int.from_bytes(table[:4], "little") // 4
    texts = ["".join(unigrams.TABLE), *unigrams.TABLE, "ＴＨＥ ﬁlm é", "अच्छा"]
    refused = 0
    for seed in range(400):
        random, damaged = np.random.default_rng(seed), bytearray(table)
        for place in random.integers(len(table), size=1 + seed % 5):
            damaged[place] = random.integers(256)
        if seed % 2:  # the end of a key that says no longer that it is one
            texts_of_keys = [4 * i for i in range(1, size + 1) if table[4 * i + 3] & 0x80]
            place = texts_of_keys[random.integers(len(texts_of_keys))]
            damaged[place : place + 4] = int(random.integers(1 << 20)).to_bytes(4, "little")
        try:
            tokenizer = Unigram(unigrams.pieces(), base64.b64encode(damaged).decode())
        except errors.VocabularyError:
            refused += 1
            continue
        assert tokenizer.encode_batch(texts, max_length=16).num_tokens > 2 * len(texts)
    assert 200 < refused < 400


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("tokenizer_config.json", {"mask_token": "[MASK]"}, "mask_token"),
        ("tokenizer_config.json", {"padding_side": "left"}, "padding_side"),
        ("tokenizer_config.json", {"extra_special_tokens": ["<x>"]}, "1 added: '<x>'"),
        ("tokenizer_config.json", {"tokenizer_class": "BertTokenizer"}, r"expected '\[PAD\]'"),
        ("special_tokens_map.json", {"pad_token": "<mask>"}, "pad_token"),
        ("added_tokens.json", {"<x>": 136}, "1 added"),
    ],
)
def test_files_that_say_otherwise_are_refused(folder, tmp_path, name, changes, message):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    path = tmp_path / name
    settings = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**settings, **changes}))
    with pytest.raises(errors.TfdistillError, match=message):
        reading.read_folder(tmp_path)


@pytest.mark.parametrize("named", ["XLMRobertaTokenizerFast", "PreTrainedTokenizerFast", None])
def test_the_tokenizer_is_found_by_its_class_or_that_of_the_model(folder, tmp_path, named):
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    settings = {} if named is None else {"tokenizer_class": named}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "config.json").write_text('{"model_type": "xlm-roberta"}')
    assert reading.read_folder(tmp_path).tokenizer.digest == unigrams.unigram().digest
    (tmp_path / "tokenizer.json").unlink()
    if named == "XLMRobertaTokenizerFast":
        with pytest.raises(errors.WeightsError, match="save_pretrained"):
            reading.read_folder(tmp_path)


def test_words_that_are_tagged_and_questions_are_framed_by_its_tokens():
    from tfdistill.data.tagged_words import encode_words
    from tfdistill.data.windows import encode_questions
    from tfdistill.tasks.squad import Question
    from tfdistill.tasks.words import find_words

    tokenizer = unigrams.unigram()
    places = [find_words("good film §")]
    rows = encode_words(["good film §"], places, [np.array([1, 0, 2])], tokenizer, 16)
    assert rows.row(0).tolist() == tokenizer.encode("good film §")
    question = Question("k", "the film is", "the good bad film was fun " * 4, ("good",), 4)
    windows = encode_questions([question], tokenizer, 14, doc_stride=4)
    for index in range(len(windows)):
        row = windows.row(index).tolist()
        assert row[:6] == [*tokenizer.encode("the film is")[:4], 2, 2]
        assert row[-1] == 2 and len(row) <= 14
    first, last = windows.labels[0]
    assert tokenizer.vocab[windows.row(0)[first]] == "▁good" and first == last == 7
