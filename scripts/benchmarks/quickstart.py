"""quickstart: the whole command on 2,000 short rows and on 2,000 pairs, against another tree.

Both trees run the same recipe on the same files with the same seed, in turns, each in a process of
its own. That they train the same student is a figure of its own: the weights are compared.
"""

from __future__ import annotations

import csv
import functools
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

import numpy as np
import record
import turns

from tfdistill import models, weights
from tfdistill.data import vocab
from tfdistill.io import ledger

_GOAL = 1 / 0.85  # of today's time, where no bfloat16 takes part
_CLASSES = ("person", "place", "number", "thing")
_WORDS = 2000  # of the vocabulary, besides special tokens


def measure(*, quick: bool, before: str) -> record.Outcome:
    """Runs both trees on both sets."""
    shape = models.preset("bert_tiny" if quick else "minilm_6l_384d")
    rows, rounds = (200, 1) if quick else (2000, 2)  # fewer rows are cross-validated
    steps = 4 if quick else 60
    roots = {"before": pathlib.Path(before).resolve(), "now": record.ROOT}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        teacher = _write_teacher(shape, folder)
        files = {kind: folder / f"{kind}.csv" for kind in ("rows", "pairs")}
        for kind, file in files.items():
            _write_rows(file, rows, pairs=kind == "pairs")
        command = [
            *("quickstart", "--teacher", str(teacher), "--overwrite"),
            *("--set", "teacher.allow_weak=true", "--set", "student.allow_weak=true"),
            *("--set", f"teacher.finetune.min_steps={steps}", "--set", "teacher.finetune.epochs=1"),
            *("--set", f"stages.joint.steps={2 * steps}"),
        ]
        tasks = {}
        for kind, file in files.items():
            for name, root in roots.items():
                out = folder / f"{kind}-{name}"
                arguments = [*command, "--data", str(file), "--out", str(out)]
                tasks[f"{kind}, {name}"] = functools.partial(_quickstart, root, arguments)
        samples = turns.take_turns(tasks, rounds=rounds, warmup=0)
        equal = {
            kind: _digest(folder / f"{kind}-before") == _digest(folder / f"{kind}-now")
            for kind in files
        }
    wall, busy = (turns.medians(samples[key]) for key in ("seconds", "processor_seconds"))
    return record.Outcome(
        title=f"quickstart on {rows} rows and on {rows} pairs, {steps} + {2 * steps} steps",
        figures=[
            record.Figure(
                f"processor time before / now, {kind}",
                busy[f"{kind}, before"] / busy[f"{kind}, now"],
                _GOAL,
                unit="x",
            )
            for kind in files
        ],
        details=[
            *(
                (f"{kind}, weights of the students", "equal" if same else "different")
                for kind, same in equal.items()
            ),
            *((f"{name}, processor", f"{value:.1f} s") for name, value in busy.items()),
            *((f"{name}, wall", f"{value:.1f} s") for name, value in wall.items()),
            ("machine taken by other processes", turns.describe_others(samples)),
        ],
        settings={"teacher": shape.family, "rows": rows, "steps": steps, "rounds": rounds},
        samples=samples,
        notes=["the steps are few, so that all else shows: a longer training gains less"],
    )


def _quickstart(root: pathlib.Path, arguments: list[str]) -> float:
    """Runs the command of a tree; returns the processor time of it and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "tfdistill", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _write_teacher(shape: models.EncoderConfig, folder: pathlib.Path) -> pathlib.Path:
    """Writes an encoder with random weights, on which the time does not depend."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_words()]
    vocab_file = folder / "vocab.txt"
    vocab.write_vocab(tokens, vocab_file)
    encoder = models.build_encoder(shape.replace(vocab_size=len(tokens)))
    return weights.save_hf(encoder, folder / "teacher", tokenizer=vocab_file)


def _words() -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return [first + second + third for first in letters for second in "aeiou" for third in letters][
        :_WORDS
    ]


def _write_rows(file: pathlib.Path, count: int, *, pairs: bool) -> None:
    """Writes rows of 6 to 14 words, whose first says the class three times in four."""
    random = np.random.default_rng(1)
    words = np.array(_words())
    names = ["premise", "hypothesis"] if pairs else ["text"]
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow([*names, "label"])
        for _ in range(count):
            label = int(random.integers(len(_CLASSES)))
            texts = [list(random.choice(words, random.integers(6, 15))) for _ in names]
            if random.random() < 0.75:
                texts[0][0] = words[label]
            writer.writerow([*map(" ".join, texts), _CLASSES[label]])


def _digest(run: pathlib.Path) -> str:
    return ledger.digest_of(run / "student" / "hf", (".safetensors",))
