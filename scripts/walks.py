#!/usr/bin/env python3
"""Counts the files that a reader passes: from a row of data to the step, from `distill` to its fit.

    python scripts/walks.py [--files]

A tiny run of `tfdistill distill` is followed call by call. The first walk is that of a training
row: the files whose functions return it, yield it or store it in an object, from the table to
`train_step`; checks and figures that only look at it are not on its way. The second is that of the
arguments: the files of the command line, the recipe, the run and the training (`cli`, `commands`,
`config`, `run`, `training`, `work_folder`) in which something is called before the fit begins. The
files of the models, the data and the weights that it calls are counted apart.

Then a tiny classifier is exported in dynamic_wi8_afp32. The third walk is that of the request: the
files of `export` in which something is called between `export_file` and the manifest; the converter
runs in another process. The fourth is the part of it inside `verify`. Of both the files that are
called with the request, or with a value that holds it, are counted, too: those carry it on.
--files lists them.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import pathlib
import pkgutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORDS = ("good", "bad", "film", "story", "dull", "bright", "very", "and")
MARK = "zyzzyva"  # a word of one row alone
ROW = f"film {MARK} story"
NUM_ROWS = 40
SHELL = ("__main__", "cli", "commands", "config", "run", "training", "work_folder")
_DEPTH = 8  # of objects in objects
Event = Callable[[str, Any, str, Any], None]  # file, frame, event, value


class Arrived(Exception):
    """Ends a walk."""


def write_toy(folder: pathlib.Path) -> int:
    """Writes teacher/ and data/; returns the id of the marked word."""
    from tfdistill import models, weights

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*special, *WORDS, *(f"[unused{i}]" for i in range(986)), MARK]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    shape = models.preset("bert_tiny").replace(
        num_layers=2, hidden_size=16, num_heads=2, intermediate_size=32, vocab_size=len(tokens)
    )
    teacher = models.build_classifier(shape, 2)
    labels = ("bad", "good")
    weights.save_hf(teacher, folder / "teacher", labels=labels, tokenizer=folder / "vocab.txt")
    random = np.random.default_rng(0)
    (folder / "data").mkdir()
    for split in ("train", "dev"):
        rows = [
            f"{' '.join(random.choice(WORDS, 6))}\t{labels[index % 2]}" for index in range(NUM_ROWS)
        ]
        rows += [f"{ROW}\tgood"] if split == "train" else []
        table = "\n".join(["text\tlabel", *rows]) + "\n"
        (folder / "data" / f"{split}.tsv").write_text(table, encoding="utf-8")
    return len(tokens) - 1


def arguments(folder: pathlib.Path, student: str) -> list[str]:
    """The command that is followed."""
    columns = ["--text-column", "text", "--label-column", "label"]
    data = ["--task", "toy", "--data-dir", str(folder / "data"), *columns, "--max-length", "16"]
    models = ["--teacher", str(folder / "teacher"), "--student", student]
    out = ["--out", str(folder / "out"), "--overwrite", "--allow-weak", "--baselines", "none"]
    return ["distill", *models, *data, *out]


@contextlib.contextmanager
def following(event: Event) -> Iterator[None]:
    """Calls `event` at each call and return of a function of ours."""
    packages = tuple(str(ROOT / name) for name in ("tfdistill", "export"))

    def profile(frame: Any, kind: str, value: Any) -> None:
        name = frame.f_code.co_filename
        ours = name.startswith(packages) and frame.f_code.co_name != "<module>"
        if ours and kind in ("call", "return"):
            sys.setprofile(None)
            event(str(pathlib.Path(name).relative_to(ROOT)), frame, kind, value)
            sys.setprofile(profile)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


def distil(folder: pathlib.Path, student: str, event: Event, arrive: Any) -> None:
    """Runs `tfdistill distill` until `arrive`, which takes the place of `training.fit`."""
    from tfdistill import cli, training

    fit = training.fit
    training.fit = arrive
    try:
        with contextlib.redirect_stderr(io.StringIO()), following(event):
            cli.main(arguments(folder, student))
    except Arrived:
        return
    finally:
        training.fit = fit
    sys.exit("The command ended before its fit.")


def holds_row(value: Any, number: int, depth: int = _DEPTH) -> bool:
    """Whether a value is or has the marked row, as text, ids or features."""
    if isinstance(value, str):
        return ROW in value
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return any(holds_row(one, number, depth - 1) for one in value.ravel().tolist())
        if value.dtype.kind in "US":
            return any(ROW in str(one) for one in value.ravel().tolist())
        return value.dtype.kind in "iu" and bool((value == number).any())
    if depth == 0:
        return False
    if isinstance(value, Mapping):
        return any(holds_row(one, number, depth - 1) for one in value.values())
    if isinstance(value, list | tuple):
        return any(holds_row(one, number, depth - 1) for one in value)
    ours = type(value).__module__.split(".")[0] in ("tfdistill", "export")
    if ours and not callable(value) and hasattr(value, "__dict__"):
        return holds_row(list(vars(value).values()), number, depth - 1)
    return False


def walk_of_row(folder: pathlib.Path, number: int) -> list[str]:
    """The files that the marked row passes, in their order."""
    passed: dict[str, None] = {}

    def event(file: str, frame: Any, kind: str, value: Any) -> None:
        if kind != "return":
            return
        if frame.f_code.co_name == "__init__":
            value = next(iter(frame.f_locals.values()))
        if holds_row(value, number):
            passed.setdefault(file)

    def arrive(distiller: Any, train: Any, **options: Any) -> None:
        distiller.train_step(next(batches_of(train)))

    def stop_at_step(file: str, frame: Any, kind: str, value: Any) -> None:
        event(file, frame, kind, value)
        if kind == "call" and frame.f_code.co_name == "train_step":
            passed.setdefault(file)
            raise Arrived

    distil(folder, "bert_tiny", stop_at_step, arrive)
    return list(passed)


def batches_of(train: Any) -> Iterator[Any]:
    """The batches of an epoch, drawn in this thread: TensorFlow draws them in one of its own."""
    import tensorflow as tf

    drawn: list[Any] = []
    real = tf.data.Dataset.from_generator

    def from_generator(generate: Any, **options: Any) -> Any:
        drawn.extend(generate())
        return real(lambda: iter(drawn), **options)

    tf.data.Dataset.from_generator = from_generator
    try:
        yield from train.dataset()
    finally:
        tf.data.Dataset.from_generator = real


def walk_of_arguments(folder: pathlib.Path) -> list[str]:
    """The files in which something is called before the fit, in their order."""
    passed: dict[str, None] = {}

    def event(file: str, frame: Any, kind: str, value: Any) -> None:
        if kind == "call":
            passed.setdefault(file)

    def arrive(*args: Any, **options: Any) -> None:
        raise Arrived

    distil(folder, "pruned:layers=1,ffn=16", event, arrive)
    return list(passed)


def holds_request(value: Any, depth: int = 3) -> bool:
    """Whether a value is an export's request, or an object of ours that holds it."""
    if type(value).__name__ == "ExportRequest":
        return True
    if isinstance(value, list | tuple):
        return any(holds_request(one, depth) for one in value[:3])
    ours = type(value).__module__.split(".")[0] == "export"
    if depth == 0 or not ours or callable(value) or not hasattr(value, "__dict__"):
        return False
    return any(holds_request(one, depth - 1) for one in vars(value).values())


def walks_of_export(folder: pathlib.Path) -> dict[str, list[str]]:
    """The files of `export` that an export calls, and those that carry its request."""
    import export
    from export.checking import verify
    from tfdistill import models

    shape = models.preset("bert_tiny").replace(num_layers=2, hidden_size=16, num_heads=2)
    shape = shape.replace(intermediate_size=32, vocab_size=200, max_positions=16)
    model = models.build_classifier(shape, 2)
    called: dict[str, None] = {}
    carrying: dict[str, None] = {}
    verifying: dict[str, None] = {}
    carrying_inside: dict[str, None] = {}
    inside = 0

    def event(file: str, frame: Any, kind: str, value: Any) -> None:
        nonlocal inside
        if not file.startswith("export/"):
            return
        if frame.f_code is verify.verify.__code__:
            inside += 1 if kind == "call" else -1
        carries = kind == "call" and any(map(holds_request, frame.f_locals.values()))
        for passed, counts in (
            (called, True),
            (carrying, carries),
            (verifying, inside),
            (carrying_inside, inside and carries),
        ):
            if counts:
                passed.setdefault(file)

    with following(event):
        export.to_tflite(model, folder / "walk" / "model.tflite", lengths=(8, 16))
    return {
        "export_file to manifest": list(called),
        "export_file to manifest, with the request": list(carrying),
        "verify": list(verifying),
        "verify, with the request": list(carrying_inside),
    }


def import_everything() -> None:
    """Imports all modules, so that an import is not taken for a call."""
    import tfdistill

    for module in pkgutil.walk_packages(tfdistill.__path__, "tfdistill."):
        if "__main__" not in module.name:
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def show(title: str, files: list[str], *, listed: bool) -> None:
    """Prints how many files a walk has, and which."""
    print(f"{title}: {len(files)} files")
    if listed:
        print("".join(f"  {file}\n" for file in files), end="")


def main() -> None:
    """Follows the walks and prints them."""
    parser = argparse.ArgumentParser(description="Counts the files that a reader passes.")
    parser.add_argument("--files", action="store_true", help="list the files")
    listed = parser.parse_args().files
    sys.path.insert(0, str(ROOT))
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import_everything()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        number = write_toy(folder)
        row = walk_of_row(folder, number)
        called = walk_of_arguments(folder)
        exported = walks_of_export(folder)
    shell = [file for file in called if pathlib.Path(file).with_suffix("").parts[1] in SHELL]
    show("row to train_step", row, listed=listed)
    show("arguments of distill to fit", shell, listed=listed)
    show(
        "called on that way: models, data, weights",
        [f for f in called if f not in shell],
        listed=listed,
    )
    for title, files in exported.items():
        show(title, files, listed=listed)


if __name__ == "__main__":
    main()
