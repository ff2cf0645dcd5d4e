"""A run that goes on refuses other inputs than it began with, by name."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import toys

from tfdistill import config, errors, models, tasks, weights
from tfdistill.data import synthetic, vocab
from tfdistill.run import digests, prepare


def flip(path):
    """Replaces a letter by another: the size stays."""
    content = path.read_text()
    place = content.index("e", len(content) // 2)
    path.write_text(content[:place] + "a" + content[place + 1 :])


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run that has read its inputs: their folder, the run folder, and the recipe."""
    root = tmp_path_factory.mktemp("begun")
    synthetic.write_task(root / "data", num_train=40, num_dev=10, num_test=5, num_documents=5)
    sentences = (root / "data" / "train.tsv").read_text().splitlines()
    vocab.write_vocab(vocab.train_vocab(sentences, 300), root / "vocab.txt")
    for name in ("corpus.txt", "more.txt"):
        shutil.copy(root / "data" / "corpus.txt", root / name)
    (root / "unlabelled.txt").write_text("set a very new timer\nplay some gentle jazz\n")
    shape = models.preset("bert_tiny").replace(
        vocab_size=len((root / "vocab.txt").read_text().splitlines())
    )
    for name in ("teacher", "general"):
        model = toys.randomise(models.build_encoder(shape))
        weights.save_hf(model, root / name, tokenizer=root / "vocab.txt")
    recipe = config.parse_recipe(
        {
            "name": "toy",
            "data": {
                "task": "assistant",
                "dir": str(root / "data"),
                "max_length": 24,
                "vocab": str(root / "vocab.txt"),
                "unlabelled": [str(root / "unlabelled.txt")],
            },
            "teacher": {
                "source": str(root / "teacher"),
                "general": str(root / "general"),
                "finetune": {"epochs": 1},
                "allow_weak": True,
            },
            "student": {"preset": "bert_tiny"},
            "stages": {
                "general": {
                    "kind": "general",
                    "corpus": [str(root / "corpus.txt"), str(root / "more.txt")],
                },
                "logits": {"kind": "logits"},
            },
            "variants": {"full": {"stages": ["general", "logits"]}},
        }
    )
    prepare.prepare(recipe, root / "run")
    return root, recipe


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("vocab.txt", "data.vocab"),
        ("teacher/vocab.txt", "teacher.source"),
        ("teacher/tokenizer.json", "teacher.source"),
        ("teacher/config.json", "teacher.source"),
        ("general/config.json", "teacher.general"),
        ("corpus.txt", "stages.general.corpus.0"),
        ("more.txt", "stages.general.corpus.1"),
        ("unlabelled.txt", "unlabelled"),
        ("data/train.tsv", "train"),
    ],
)
def test_another_input_is_refused_by_name(begun, name, key):
    root, recipe = begun
    whole = (root / name).read_bytes()
    flip(root / name)
    try:
        with pytest.raises(errors.ConfigError, match=rf"others: {key}\. Restore them"):
            prepare.prepare(recipe, root / "run")
    finally:
        (root / name).write_bytes(whole)


def test_a_labelled_file_that_changed_is_another_input(begun, tmp_path):
    root, recipe = begun
    file = shutil.copy(root / "data" / "train.tsv", tmp_path / "rows.tsv")
    section = recipe.data.model_copy(update={"dir": None, "file": str(file)})
    before = digests.of_inputs(recipe.model_copy(update={"data": section}))
    flip(file)
    after = digests.of_inputs(recipe.model_copy(update={"data": section}))
    assert [name for name in before if before[name] != after[name]] == ["data.file"]


def test_the_same_inputs_go_on_and_what_nobody_reads_may_change(begun):
    root, recipe = begun
    prepare.prepare(recipe, root / "run")
    (root / "teacher" / "README.md").write_text("another")
    prepare.prepare(recipe, root / "run")


@pytest.mark.parametrize(
    "pairs, labels",
    [
        (None, None),
        (["é", "b", ""], np.array([1, 0, 2], np.int32)),
        (None, np.array([[0.0, 1.0], [1.0, 0.5], [0.0, 0.0]], np.float32)),
        (None, np.array([np.array([1]), np.array([1, 2]), np.array([0])], object)),
    ],
)
def test_the_digest_of_examples_is_that_of_their_json(pairs, labels, monkeypatch):
    monkeypatch.setattr(digests, "_ROWS", 2)  # written in parts
    texts = ["a", 'say "no"', "c"]
    examples = tasks.Examples(synthetic.TASK, texts, pairs, labels)
    listed = None if labels is None else labels.tolist()
    whole = json.dumps([texts, pairs, listed], default=np.ndarray.tolist)
    assert digests.of_examples(examples) == hashlib.sha256(whole.encode()).hexdigest()
