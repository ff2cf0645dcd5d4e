"""A joint stage against the same one in PyTorch: transformers' BERT, torch.compile, in turns.

PyTorch runs in .runtimes/newest, a process of its own. Both start from the same weights and train
on the same batches, in length buckets; that they compute the same loss is checked before anything
is timed.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import bucketing
import numpy as np
import peer_environments
import record
import steps
import tf_keras as keras
import turns

from tfdistill import distillers, errors, models, weights
from tfdistill.data import batches as batching
from tfdistill.losses.base import LayerLoss

_HERE = pathlib.Path(__file__).parent
PYTHON = record.ROOT / ".runtimes" / "newest" / "bin" / "python"
PRECISIONS = ("float32", "bfloat16")
_CONTESTANTS = ("pytorch", "tfdistill")
_TARGET = 1.25
_RATE = 3e-4
# Measured: 1e-6 in float32, and 1e-3 where both round to bfloat16, each in its own places.
_BOUNDS = {"float32": 1e-4, "bfloat16": 2e-2}


def check_machine() -> None:
    """Refuses a machine without PyTorch, or without what torch.compile compiles with."""
    what = "scripts/bench training --torch"
    if not PYTHON.exists():
        raise errors.TfdistillError(
            errors.explain(what, f"PyTorch in {PYTHON}", "none", "Run scripts/runtimes.")
        )
    header = "import sysconfig; print(sysconfig.get_path('include'))"
    place = subprocess.run([PYTHON, "-c", header], capture_output=True, text=True, check=True)
    if not shutil.which(os.environ.get("CXX", "g++")):
        raise errors.TfdistillError(
            errors.explain(what, "a C++ compiler for torch.compile", "none", "apt install g++")
        )
    if not (pathlib.Path(place.stdout.strip()) / "Python.h").is_file():
        raise errors.TfdistillError(
            errors.explain(
                what, "Python.h for torch.compile", "none", "On Debian: apt install python3-dev."
            )
        )


def measure(*, quick: bool) -> record.Outcome:
    """Compares the losses, then times an epoch of each stage and arithmetic."""
    teacher_shape, student_shape = models.preset("bert_base"), models.preset("tinybert_4l_312d")
    num_batches, rounds, warmup = 4, 8, 2  # each length takes PyTorch a minute to compile
    if quick:
        teacher_shape = models.preset("bert_tiny").replace(vocab_size=2000)
        student_shape = teacher_shape.replace(hidden_size=64)
        num_batches, rounds, warmup = 2, 2, 1
    # transformers has no TinyBERT head: a ReLU in front of the classifier.
    student_shape = student_shape.replace(family="bert")
    counted = json.loads(bucketing.LENGTHS_FILE.read_text(encoding="utf-8"))
    lengths = bucketing.lengths_of(counted)
    examples = steps.random_examples(
        bucketing.every_nth_batch(lengths, num_batches, bucketing.BATCH_SIZE),
        vocab_size=teacher_shape.vocab_size,
    )
    batches = batching.Batches(
        examples, batch_size=bucketing.BATCH_SIZE, max_length=counted["max_length"]
    )
    features = [*batches.dataset(epochs=1)]
    head = models.Head("sequence", 2)
    teacher, student = (models.build_random(s, head) for s in (teacher_shape, student_shape))
    tasks: dict[str, Callable[[], Any]] = {}
    losses: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="tfdistill-bench-") as folder:
        _write(pathlib.Path(folder), _distiller(teacher, student, "float32"), features)
        command = [str(PYTHON), str(_HERE / "peer_joint_stage.py"), folder]
        with peer_environments.asking("PyTorch", command) as ask:
            for name in PRECISIONS:
                distiller = _distiller(teacher, student, name)
                tasks[f"tfdistill {name}"] = steps.epochs(distiller, batches, _RATE)
                tasks[f"pytorch {name}"] = functools.partial(ask, {"train": name})
                ours = float(distiller.test_step(features[0])["loss"])
                losses[name] = {"tfdistill": ours, "pytorch": ask({"loss": name})}
            _check(losses)
            samples = turns.take_turns(tasks, rounds=rounds, warmup=warmup)
    seconds, busy = (turns.medians(samples[key]) for key in ("seconds", "processor_seconds"))
    return record.Outcome(
        title="a joint stage against PyTorch",
        figures=[*_figures(seconds, busy)],
        details=[
            *(
                (
                    f"joint stage, {name}",
                    f"{busy[name]:.2f} s of the processor in {seconds[name]:.2f} s",
                )
                for name in tasks
            ),
            ("joint stage, machine taken by other processes", turns.describe_others(samples)),
        ],
        settings={
            "teacher": dataclasses.asdict(teacher_shape),
            "student": dataclasses.asdict(student_shape),
            "lengths": sorted({int(batch["input_ids"].shape[1]) for batch in features}),
            "batches": num_batches,
            "batch_size": bucketing.BATCH_SIZE,
            "rounds": rounds,
            "warmup": warmup,
        },
        samples={**samples, "losses": losses},
        notes=[
            "PyTorch: transformers' BERT under torch.compile, a graph for each length, the fused "
            "AdamW, batches that are tensors already; in bfloat16 the teacher's weights are "
            "bfloat16 and the student runs under autocast."
        ],
    )


def _distiller(
    teacher: keras.Model, student: keras.Model, arithmetic: str
) -> distillers.JointDistiller:
    """The stage in an arithmetic, of copies with the same weights."""
    policies = ("float32", "float32")
    if arithmetic == "bfloat16":
        policies = ("bfloat16", "mixed_bfloat16")
    copies = (
        models.with_policy(model, policy)
        for model, policy in zip((teacher, student), policies, strict=True)
    )
    keras.utils.set_random_seed(0)  # of the projection
    return distillers.JointDistiller(*copies)


def _figures(seconds: Mapping[str, float], busy: Mapping[str, float]) -> Iterator[record.Figure]:
    """The ratio of the faster arithmetic of each, which has the target, and that of every one."""

    def ratio(taken: Mapping[str, float], names: Sequence[str]) -> float:
        pytorch, ours = (min(taken[f"{who} {name}"] for name in names) for who in _CONTESTANTS)
        return pytorch / ours

    for names in (PRECISIONS, *((name,) for name in PRECISIONS)):
        best = len(names) > 1
        yield record.Figure(
            f"joint stage, PyTorch / tfdistill, {'the best of each' if best else names[0]}",
            ratio(busy, names),
            _TARGET if best else None,
            unit="x",
            note=f"processor time; by the clock {ratio(seconds, names):.2f}x",
        )


def _write(
    folder: pathlib.Path,
    distiller: distillers.JointDistiller,
    batches: Sequence[Mapping[str, np.ndarray]],
) -> None:
    """Writes what PyTorch starts from; see peer_joint_stage.py."""
    hidden = distiller.losses_by_name["hidden"]
    assert isinstance(hidden, LayerLoss)
    for name, model in (("teacher", distiller.teacher), ("student", distiller.student)):
        weights.save_hf(model, folder / name)
    (projection,) = distiller.projections
    kernel, bias = projection.get_weights()
    np.savez(folder / "projection.npz", kernel=kernel, bias=bias)
    for i, features in enumerate(batches):
        columns = [features[name] for name in ("input_ids", "attention_mask", "token_type_ids")]
        np.save(folder / f"batch{i:03}.npy", np.stack(columns))
    settings = {"pairs": hidden.pairs, "learning_rate": _RATE}
    (folder / "settings.json").write_text(json.dumps(settings))


def _check(losses: Mapping[str, Mapping[str, float]]) -> None:
    """Refuses another loss."""
    for name, values in losses.items():
        ours, pytorch = values["tfdistill"], values["pytorch"]
        if not abs(pytorch - ours) <= _BOUNDS[name] * abs(ours):
            raise errors.TfdistillError(
                errors.explain(f"loss of PyTorch in {name}", f"{ours:.6g}", f"{pytorch:.6g}")
            )
