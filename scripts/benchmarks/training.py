"""Training: how near a distillation step comes to what the processor can do.

One intermediate-stage step of TinyBERT4 from a BERT-base-shaped teacher, as `fit` runs it, takes
turns with a large float32 matrix product on all cores.

With PyTorch also a joint stage against the same one there (transformers' BERT, torch.compile), in
.runtimes/newest, a process of its own. Both start from the same weights and train on the same
batches, in length buckets; that they compute the same loss is checked before anything is timed.
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

import numpy as np
import peer_environments
import record
import steps
import tensorflow as tf
import tf_keras as keras
import turns

from tfdistill import distillers, errors, models, weights
from tfdistill.benchmark import environment
from tfdistill.data import batches as batching
from tfdistill.losses.base import LayerLoss

_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
_HERE = pathlib.Path(__file__).parent
PYTHON = record.ROOT / ".runtimes" / "newest" / "bin" / "python"
PRECISIONS = ("float32", "bfloat16")
_CONTESTANTS = ("pytorch", "tfdistill")
_TARGET = 1.25
_RATE = 3e-4
_BATCH_SIZE = 32
# Of the batches in the middle of each quarter of SST-2's training examples, in the order of their
# lengths: tokens of bert-base-uncased with [CLS] and [SEP]. Each takes PyTorch a minute to compile.
_LENGTHS = (5, 8, 13, 25)
# Measured: 1e-6 in float32, and 1e-3 where both round to bfloat16, each in its own places.
_BOUNDS = {"float32": 1e-4, "bfloat16": 2e-2}


def measure(*, quick: bool, torch: bool = False) -> record.Outcome:
    """Measures the step with a float32 and a bfloat16 teacher, and the matrix peak between.

    `torch`: also a joint stage against the same one in PyTorch.
    """
    if torch:
        check_machine()
        return joint(_measure(quick=quick), _measure_joint_stage(quick=quick))
    return _measure(quick=quick)


def joint(step: record.Outcome, stage: record.Outcome) -> record.Outcome:
    """Adds a joint stage to the outcome of the step."""
    return record.Outcome(
        title=f"{step.title}; {stage.title}",
        figures=[*step.figures, *stage.figures],
        details=[*step.details, *stage.details],
        settings={**step.settings, "joint_stage": stage.settings},
        samples={**step.samples, "joint_stage": stage.samples},
        notes=[*step.notes, *stage.notes],
    )


def _measure(*, quick: bool) -> record.Outcome:
    teacher_name, student_name = ("bert_base", "tinybert_4l_312d")
    batch, length, side, products, rounds, warmup = 32, 128, 4096, 5, 10, 1
    if quick:
        teacher_name, student_name = "bert_tiny", "bert_tiny"
        batch, length, side, products, rounds, warmup = 4, 16, 256, 2, 3, 1

    batches = batching.Batches(steps.random_examples([length] * batch), batch_size=batch)
    teacher = models.build_classifier(teacher_name, 2)
    in_bfloat16 = models.with_policy(teacher, "bfloat16")
    samples = turns.take_turns(
        {
            "matmul": matrix_products(side, products),
            "float32": steps.intermediate_stage(teacher, student_name, batches),
            "bfloat16": steps.intermediate_stage(in_bfloat16, student_name, batches),
        },
        rounds=rounds,
        warmup=warmup,
    )

    flops_per_example = models.flops(models.preset(teacher_name), length)
    flops_per_example += 3 * models.flops(models.preset(student_name), length)
    operations = {"step": batch * flops_per_example, "products": products * 2 * side**3}
    seconds = turns.medians(samples["seconds"])
    share, faster = ratios(seconds, operations)
    busy_share, busy_faster = ratios(turns.medians(samples["processor_seconds"]), operations)
    fit_for_it = _BFLOAT16_FLAGS & set(environment.device().cpu_flags)
    return record.Outcome(
        title=f"training: {student_name} from {teacher_name}, intermediate stage, "
        f"batch {batch}, {length} tokens",
        figures=[
            record.Figure("share of the float32 matrix peak", share, 0.8),
            record.Figure(
                "samples/s with a bfloat16 teacher against float32",
                faster,
                1.4 if fit_for_it else None,
                unit="x",
                note="" if fit_for_it else "this processor has no bfloat16 instructions",
            ),
        ],
        details=[
            ("achieved", f"{operations['step'] / seconds['float32'] / 1e9:.1f} GFLOP/s"),
            ("matrix peak", f"{operations['products'] / seconds['matmul'] / 1e9:.1f} GFLOP/s"),
            ("float32 teacher", f"{batch / seconds['float32']:.2f} samples/s"),
            ("bfloat16 teacher", f"{batch / seconds['bfloat16']:.2f} samples/s"),
            ("both ratios by processor time", f"{busy_share:.2f} and {busy_faster:.2f}x"),
            ("machine taken by other processes", turns.describe_others(samples)),
        ],
        settings={
            "teacher": teacher_name,
            "student": student_name,
            "stage": "intermediate",
            "batch_size": batch,
            "sequence_length": length,
            "matrix_side": side,
            "matrix_products": products,
            "rounds": rounds,
            "warmup": warmup,
            "flops_per_example": flops_per_example,
        },
        samples=samples,
        notes=[
            "operations counted are the matrix products of one forward pass of the teacher and "
            "three of the student; projections, losses and optimizer are not counted"
        ],
    )


def ratios(seconds: Mapping[str, float], operations: Mapping[str, int]) -> tuple[float, float]:
    """Returns the share of the matrix peak, and the gain of a bfloat16 teacher."""
    achieved = operations["step"] / seconds["float32"]
    peak = operations["products"] / seconds["matmul"]
    return achieved / peak, seconds["float32"] / seconds["bfloat16"]


def matrix_products(side: int, count: int) -> Callable[[], Any]:
    """Returns what multiplies float32 (side, side) matrices: count x 2 side^3 operations.

    Several, so that a turn takes about as long as a step, and other work disturbs both alike.
    """
    random = tf.random.Generator.from_seed(0)
    left, right = random.normal((side, side)), random.normal((side, side))

    def products() -> None:
        for _ in range(count):
            float(tf.matmul(left, right)[0, 0])

    return products


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


def _measure_joint_stage(*, quick: bool) -> record.Outcome:
    """Compares the losses, then times an epoch of each stage and arithmetic."""
    teacher_shape, student_shape = models.preset("bert_base"), models.preset("tinybert_4l_312d")
    lengths, rounds, warmup = _LENGTHS, 8, 2
    if quick:
        teacher_shape = models.preset("bert_tiny").replace(vocab_size=2000)
        student_shape = teacher_shape.replace(hidden_size=64)
        lengths, rounds, warmup = _LENGTHS[:2], 2, 1
    # transformers has no TinyBERT head: a ReLU in front of the classifier.
    student_shape = student_shape.replace(family="bert")
    examples = steps.random_examples(
        np.repeat(lengths, _BATCH_SIZE), vocab_size=teacher_shape.vocab_size
    )
    batches = batching.Batches(examples, batch_size=_BATCH_SIZE, max_length=64)
    features = [*batches.dataset(epochs=1)]
    head = models.Head("sequence", 2)
    teacher, student = (models.build_random(s, head) for s in (teacher_shape, student_shape))
    tasks: dict[str, Callable[[], Any]] = {}
    losses: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="tfdistill-bench-") as folder:
        write_stage(pathlib.Path(folder), _distiller(teacher, student, "float32"), features)
        command = [str(PYTHON), str(_HERE / "peer_training.py"), folder]
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
            "batches": len(lengths),
            "batch_size": _BATCH_SIZE,
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


def write_stage(
    folder: pathlib.Path,
    distiller: distillers.JointDistiller,
    batches: Sequence[Mapping[str, np.ndarray]],
) -> None:
    """Writes what PyTorch starts from; see peer_training.py."""
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
