"""The Python that README and guides show runs as it stands."""

import pathlib
import re

import benchmark_results
import numpy as np
import pytest

from tfdistill.benchmark import result

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
VOCAB_SIZE = 30522  # the presets' own
WORDS = ("good", "bad", "film", "story", "dull", "bright", "a", "the", "very", "and")


def python_blocks() -> list[str]:
    """Returns the distinct blocks of Python in the documents."""
    texts = (document.read_text("utf-8") for document in DOCUMENTS)
    blocks = [
        block for text in texts for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    ]
    return list(dict.fromkeys(blocks))


@pytest.fixture
def working_folder(tmp_path, monkeypatch):
    """What the examples name, at toy size: a teacher with a head for SST-2, the task's files."""
    from tfdistill import models, weights

    random = np.random.default_rng(0)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    fill = [f"[unused{i}]" for i in range(VOCAB_SIZE - len(special) - len(WORDS))]
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("\n".join([*special, *WORDS, *fill]) + "\n", encoding="utf-8")
    config = models.preset("bert_tiny").replace(
        num_layers=4, hidden_size=24, num_heads=12, intermediate_size=768
    )
    teacher = models.build_classifier(config, 2)
    weights.save_hf(
        teacher, tmp_path / "teacher", labels=("negative", "positive"), vocab_file=vocab_file
    )
    (tmp_path / "glue" / "SST-2").mkdir(parents=True)
    for split, count in (("train", 32), ("dev", 16)):
        rows = [
            f"{' '.join(random.choice(WORDS, random.integers(3, 12)))}\t{random.integers(2)}"
            for _ in range(count)
        ]
        table = "\n".join(["sentence\tlabel", *rows]) + "\n"
        (tmp_path / "glue" / "SST-2" / f"{split}.tsv").write_text(table, encoding="utf-8")
    measured = benchmark_results.measurement([1.0, 1.1, 1.2])
    result.write_result(benchmark_results.assembled([measured]), tmp_path / "phone.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_is_an_example():
    assert python_blocks()


@pytest.mark.slow
@pytest.mark.parametrize("block", python_blocks(), ids=lambda block: f"{len(block)} characters")
def test_the_example_runs(block, working_folder, capsys):
    exec(compile(block, "example", "exec"), {"__name__": "example"})

    if "read_result" in block:
        assert "student 32 1 1.1" in capsys.readouterr().out
        return
    if "llm.jsonl" in block:
        assert len((working_folder / "llm.jsonl").read_text().splitlines()) == 32 + 16
        return
    assert "accuracy" in capsys.readouterr().out
    assert (working_folder / "student" / "model.tflite").stat().st_size > VOCAB_SIZE * 24
    assert (working_folder / "student" / "model.json").is_file()
