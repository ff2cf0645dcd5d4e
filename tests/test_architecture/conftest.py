"""What the tests of examples share: the files that a reader has at hand, at toy size."""

import shutil

import benchmark_results
import numpy as np
import pytest

from tfdistill.benchmark import result

WORDS = ("good", "bad", "film", "story", "dull", "bright", "a", "the", "very", "and")


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """What the examples name, at toy size: a teacher with a head for SST-2, the task's files."""
    from tfdistill import models, weights

    vocab_size = models.preset("bert_tiny").vocab_size
    place = tmp_path_factory.mktemp("named")
    random = np.random.default_rng(0)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    fill = [f"[unused{i}]" for i in range(vocab_size - len(special) - len(WORDS))]
    vocab_file = place / "vocab.txt"
    vocab_file.write_text("\n".join([*special, *WORDS, *fill]) + "\n", encoding="utf-8")
    config = models.preset("bert_tiny").replace(
        num_layers=4, hidden_size=24, num_heads=12, intermediate_size=768
    )
    teacher = models.build_classifier(config, 2)
    weights.save_hf(
        teacher, place / "teacher", labels=("negative", "positive"), tokenizer=vocab_file
    )
    (place / "glue" / "SST-2").mkdir(parents=True)
    for split, count in (("train", 32), ("dev", 16)):
        rows = [
            f"{' '.join(random.choice(WORDS, random.integers(3, 12)))}\t{random.integers(2)}"
            for _ in range(count)
        ]
        table = "\n".join(["sentence\tlabel", *rows]) + "\n"
        (place / "glue" / "SST-2" / f"{split}.tsv").write_text(table, encoding="utf-8")
    return place


@pytest.fixture
def working_folder(named, tmp_path, monkeypatch):
    """A copy of what the examples name, and a result of a benchmark."""
    shutil.copytree(named, tmp_path, dirs_exist_ok=True)
    # Toy models answer near chance; what refuses them has tests of its own.
    monkeypatch.setattr("tfdistill.analysis.chance.MARGIN", -10.0)
    measured = benchmark_results.measurement([1.0, 1.1, 1.2])
    result.write_result(benchmark_results.assembled([measured]), tmp_path / "phone.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path
