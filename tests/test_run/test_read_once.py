"""A command reads each of its inputs once, and hands on what it read."""

import collections
import json
import subprocess
import sys

import pytest
import toys

from tfdistill import models, weights
from tfdistill.tokenization import reading

# Counts the files that Python opens to read below a folder, and those that safetensors opens; the
# counts are those of `strace -f -e openat`.
COUNTING = """
import collections, json, os, sys
import safetensors, safetensors.numpy
from tfdistill import cli
folder, counts = os.path.realpath(sys.argv[1]) + os.sep, collections.Counter()
def count(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)) and not arguments[2] & 3:
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if path.startswith(folder) and os.path.isfile(path):
            counts[path.removeprefix(folder)] += 1
opened = safetensors.safe_open
def open_tensors(path, *more, **options):
    count("open", (str(path), "r", 0))
    return opened(path, *more, **options)
safetensors.safe_open = open_tensors
sys.addaudithook(count)
code = cli.main(sys.argv[2:])
print(json.dumps(counts))
sys.exit(code)
"""
WORDS = {"music": ("song", "tune", "band"), "weather": ("rain", "sun", "wind")}


def rows(count, first):
    return [
        (
            f"{words[i % 3]} {words[i // 3 % 3]} {chr(97 + (first + i) % 26)} {i // 26 + first}",
            label,
        )
        for label, words in WORDS.items()
        for i in range(count)
    ]


def opened(folder, *command):
    program = [sys.executable, "-c", COUNTING, str(folder), *command]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return collections.Counter(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A teacher in bert/, the tables data/train.tsv and dev.tsv, and all their rows in all.csv."""
    folder = tmp_path_factory.mktemp("read-once")
    train, dev = rows(40, 0), rows(20, 100)
    (folder / "data").mkdir()
    for name, examples in (("train", train), ("dev", dev)):
        lines = ["text\tlabel", *("\t".join(row) for row in examples)]
        (folder / "data" / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    lines = ["text,label", *(",".join(row) for row in [*train, *dev])]
    (folder / "all.csv").write_text("\n".join(lines) + "\n")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sum(WORDS.values(), ())]
    pieces += [
        mark + sign for sign in "abcdefghijklmnopqrstuvwxyz0123456789" for mark in ("", "##")
    ]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    shape = models.EncoderConfig(
        num_layers=2, hidden_size=16, num_heads=2, intermediate_size=16,
        vocab_size=len(pieces), max_positions=32,
    )  # fmt: skip
    for name, model in (
        ("bert", models.build_classifier(shape, 2)),
        ("encoder", models.build_encoder(shape)),
    ):
        tokenizer = reading.read_tokenizer(folder / "vocab.txt")
        labels = tuple(WORDS) if name == "bert" else None
        weights.save_hf(
            toys.randomise(model, seed=1), folder / name, labels=labels, tokenizer=tokenizer
        )
    return folder


@pytest.mark.slow
def test_distill_opens_each_table_vocabulary_and_checkpoint_once(inputs):
    command = ["distill", "--teacher", str(inputs / "bert"), "--student", "pruned:layers=1"]
    command += ["--data-dir", str(inputs / "data"), "--text-column", "text", "--task", "own"]
    command += ["--label-column", "label", "--max-length", "16", "--allow-weak"]
    command += ["--set", "stages.joint.min_steps=4", "--epochs", "1", "--out", str(inputs / "run")]

    counts = opened(inputs, *command)

    read = {name: counts[name] for name in counts if not name.startswith("run/")}
    weights_file = read.pop("bert/model.safetensors")
    assert read == dict.fromkeys(read, 1)
    assert {"data/train.tsv", "data/dev.tsv", "bert/vocab.txt", "bert/config.json"} <= read.keys()
    assert weights_file <= 3  # header, tensors, digest
    assert counts["run/.tfdistill.json"] <= 5


@pytest.mark.slow
def test_quickstart_opens_its_table_once_and_its_vocabulary_twice(inputs):
    quick = ("benchmark.runs=3", "benchmark.min_seconds=0", "benchmark.repetitions=1")
    command = ["quickstart", "--teacher", str(inputs / "encoder")]
    command += ["--data", str(inputs / "all.csv")]
    for value in (*quick, "teacher.allow_weak=true", "student.allow_weak=true"):
        command += ["--set", value]

    counts = opened(inputs, *command, "--out", str(inputs / "quick"))

    read = {name: counts[name] for name in counts if not name.startswith("quick/")}
    assert read.pop("encoder/model.safetensors") <= 4  # the baseline reads it as it came
    assert read == dict.fromkeys(read, 1)
    assert {"all.csv", "encoder/vocab.txt", "encoder/config.json"} <= read.keys()
    assert counts["quick/.tfdistill.json"] <= 5
