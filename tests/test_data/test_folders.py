"""A folder for each label: the layout of IMDb."""

import numpy as np
import pytest

from tfdistill import errors, tasks

IMDB = tasks.task("imdb")
OWN = tasks.TaskSpec("topics", "text", "label", layout="folders")


def write(root, **splits):
    """write(root, train={"pos": {"0_9": "good"}})"""
    for split, folders in splits.items():
        for label, files in folders.items():
            (root / split / label).mkdir(parents=True)
            for name, text in files.items():
                (root / split / label / f"{name}.txt").write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def imdb(tmp_path):
    reviews = {
        "pos": {"0_9": "fine", "2_7": "great\n", "10_8": "good"},
        "neg": {"0_2": "bad", "1_1": "awful"},
    }
    unlabelled = {"unsup": {"0_0": "hm", "1_0": "well"}}
    write(
        tmp_path, train={**reviews, **unlabelled}, test={"pos": {"0_10": "yes"}, "neg": {"1": "no"}}
    )
    (tmp_path / "train" / "urls_pos.txt").write_text("http://...")
    return tmp_path


def test_labels_are_the_folders_and_take_turns_by_number(imdb):
    examples = tasks.load_examples(IMDB, imdb, "train")
    assert examples.texts == ["bad", "fine", "awful", "great", "good"]
    assert examples.labels.tolist() == [0, 1, 0, 1, 1]
    assert examples.labels.dtype == np.int32
    assert examples.spec.labels == ("negative", "positive")


def test_the_test_split_serves_as_development_set(imdb):
    assert tasks.load_examples(IMDB, imdb, "dev").texts == ["yes", "no"]
    assert tasks.load_examples(IMDB, imdb, "test").labels.tolist() == [1, 0]
    assert tasks.load_examples(IMDB, imdb, "dev", labelled=False).labels is None
    with pytest.raises(errors.DataError, match="split 'dev': expected a folder dev"):
        tasks.load_examples(OWN, imdb, "dev")


def test_names_of_own_labels_come_from_the_train_split(tmp_path):
    train = {"sport": {"b": "x"}, "arts": {"a": "y"}, "news": {"c": "z"}}
    write(tmp_path, train=train, validation={name: {"a": name} for name in train})
    dev = tasks.load_examples(OWN, tmp_path, "dev")
    assert dev.spec.labels == ("arts", "news", "sport")
    pairs = zip(dev.texts, dev.labels.tolist(), strict=True)
    assert sorted(pairs) == [("arts", 0), ("news", 1), ("sport", 2)]


def test_missing_and_strange_folders_are_explained(imdb, tmp_path):
    with pytest.raises(errors.DataError, match="received no folder"):
        tasks.load_examples(IMDB, tmp_path / "nowhere", "train")
    (imdb / "test" / "positive").mkdir()
    (imdb / "test" / "positive" / "a.txt").write_text("x")
    with pytest.raises(errors.DataError, match=r"folders among 'neg', 'pos', received 'positive'"):
        tasks.load_examples(IMDB, imdb, "test")
    (imdb / "train" / "pos" / "3_8.txt").write_bytes(b"\xe9t\xe9")
    with pytest.raises(errors.DataError, match=r"3_8\.txt, line 1: expected UTF-8 text"):
        tasks.load_examples(IMDB, imdb, "train")
    write(imdb / "one", train={"only": {"a": "x"}})
    with pytest.raises(errors.DataError, match="at least two different labels, received only 'on"):
        tasks.load_examples(OWN, imdb / "one", "train")
    (imdb / "test" / "positive" / "a.txt").unlink()
    (imdb / "test" / "neg" / "1.txt").unlink()
    with pytest.raises(errors.DataError, match=r"a folder 'neg' with \.txt files, received pos"):
        tasks.load_examples(IMDB, imdb, "test")
