import dataclasses
import json
import shutil

import numpy as np
import pytest

from tfdistill import errors
from tfdistill.benchmark import inputs
from tfdistill.benchmark.subjects import feeds_for, open_subject
from tfdistill.io import files
from tfdistill.tflite.golden import Example, read_golden
from tfdistill.tokenization.wordpiece import WordPiece


def test_an_export_folder_is_fed_with_its_golden_examples(export_folder):
    subject = open_subject(export_folder)
    golden = json.loads((export_folder / "golden.json").read_text())["examples"]
    assert subject.source == "golden"
    assert [list(e.input_ids) for e in subject.examples] == [e["input_ids"] for e in golden]
    assert subject.name == "student"
    assert open_subject(export_folder / "model.json") == subject
    assert open_subject(export_folder / "model.tflite") == subject


def test_without_golden_examples_words_of_the_vocabulary_are_taken(export_folder):
    card = json.loads((export_folder / "model.json").read_text())
    card["golden_file"] = None
    files.atomic_write_json(export_folder / "model.json", card)
    subject = open_subject(export_folder, seed=1)
    vocab = (export_folder / "vocab.txt").read_text().splitlines()
    assert subject.source == "vocabulary"
    for example in subject.examples:
        assert example.input_ids[0] == vocab.index("[CLS]")
        assert example.input_ids[-1] == vocab.index("[SEP]")
        words = [vocab[i] for i in example.input_ids[1:-1]]
        assert " ".join(words) == example.text
        assert all(word.isalpha() for word in words)
    assert open_subject(export_folder, seed=1).examples == subject.examples
    assert open_subject(export_folder, seed=2).examples != subject.examples
    for length in (8, 16):
        sizes = [len(feed["input_ids"]) for feed in feeds_for(subject, length)]
        assert length / 2 < max(sizes) <= length


def test_a_line_separator_is_an_entry_of_a_vocabulary_and_ends_none(export_folder):
    path = export_folder / "vocab.txt"
    lines = path.read_text().split("\n")
    lines[5] = "\u2028"  # among the words: what follows would move by a line
    path.write_bytes("\r\n".join(lines).encode())
    card = json.loads((export_folder / "model.json").read_text())
    card["golden_file"] = None
    record = {"sha256": files.sha256_of(path), "size_bytes": path.stat().st_size}
    card["tokenizer"]["vocab"].update(record)
    files.atomic_write_json(export_folder / "model.json", card)
    for example in open_subject(export_folder).examples:
        words = " ".join(lines[i] for i in example.input_ids[1:-1])
        assert words == example.text


def test_a_file_without_a_manifest_of_its_own_is_fed_with_random_ids(tflite_files, export_folder):
    subject = open_subject(tflite_files / "fast.tflite")
    drawn = [i for example in subject.examples for i in example.input_ids]
    assert subject.source == "random"
    assert set(drawn) <= set(range(90)) and max(drawn) > 80  # the table has 90 rows
    assert subject.name == "fast"
    shutil.copy(tflite_files / "slow.tflite", export_folder / "other.tflite")
    subject = open_subject(export_folder / "other.tflite")
    assert (subject.manifest, subject.source, subject.name) == (None, "random", "other")


def test_each_length_gets_the_examples_that_it_is_the_shortest_fit_for(export_folder):
    subject = open_subject(export_folder)
    texts = tuple(Example(tuple(range(n)), (0,) * n) for n in (3, 8, 9, 16, 30))
    subject = dataclasses.replace(subject, examples=texts)
    assert [len(f["input_ids"]) for f in feeds_for(subject, 8)] == [3, 8]
    assert [len(f["input_ids"]) for f in feeds_for(subject, 16)] == [9, 16]
    short = dataclasses.replace(subject, examples=texts[:1])
    assert [len(f["input_ids"]) for f in feeds_for(short, 16)] == [3]
    long = dataclasses.replace(subject, examples=texts[-1:])
    assert feeds_for(long, 8)[0]["input_ids"] == [0, 1, 2, 3, 4, 5, 6, 29]


def test_a_malformed_golden_file_is_explained(tmp_path):
    path = tmp_path / "golden.json"
    wrong_ones = ("{", "{}", "[]", '{"examples": [{"signature": "len4"}]}')
    entries = (
        '"input_ids": [], "text": "a"',
        '"input_ids": [1.5]',
        '"input_ids": ["1"]',
        '"input_ids": [[1, 2], [3, 4]]',
        '"input_ids": [1, 2], "token_type_ids": [[0], [1]]',
        '"input_ids": [1], "text": 5',
        '"input_ids": [1], "signature": ["len4"]',
        '"input_ids": [1], "outputs": [[1.0], [1.0, 2.0]]',
        '"input_ids": [1], "outputs": ["a"]',
        '"input_ids": [1], "logits": [null]',
    )
    for wrong in (*wrong_ones, *(f'{{"examples": [{{{entry}}}]}}' for entry in entries)):
        path.write_text(wrong)
        with pytest.raises(errors.BenchmarkError, match=r"golden\.json"):
            read_golden(path)


def test_pairs_of_words_have_two_parts_with_their_types_and_no_words_are_explained():
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
    examples = inputs.examples_of_words(WordPiece(vocab), 12, np.random.default_rng(0), pairs=True)
    for example in examples:
        assert 6 <= len(example.input_ids) <= 12
        first, second, rest = " ".join(vocab[i] for i in example.input_ids[1:]).split("[SEP]")
        assert (first.strip(), second.strip(), rest) == (example.text, example.pair, "")
        cut = example.input_ids.index(3) + 1
        assert example.token_type_ids == (0,) * cut + (1,) * (len(example.input_ids) - cut)
    with pytest.raises(errors.VocabularyError, match="whole words"):
        none = WordPiece([*vocab[:5], "##a", "!"])
        inputs.examples_of_words(none, 8, np.random.default_rng(0))


@pytest.mark.parametrize("pairs", [False, True])
def test_made_up_sentences_fit_the_shortest_lengths(pairs):
    vocab = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"])
    for length in (3, 4, 5, 6, 8):
        for example in inputs.examples_of_words(vocab, length, np.random.default_rng(0)):
            assert 3 <= len(example.input_ids) <= length
        sentences = inputs.examples_of_words(vocab, length, np.random.default_rng(0), pairs=pairs)
        assert all(len(e.input_ids) == len(e.token_type_ids) for e in sentences)
        assert all(len(e.input_ids) <= max(length, 5) for e in sentences)
