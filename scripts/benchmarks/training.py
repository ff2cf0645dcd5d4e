"""Training: how near a distillation step comes to what the processor can do.

One intermediate-stage step of TinyBERT4 from a BERT-base-shaped teacher, as `fit` runs it, takes
turns with a large float32 matrix product on all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import record
import turns

from tfdistill.benchmark import environment

_BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}


def measure(*, quick: bool, torch: bool = False) -> record.Outcome:
    """Measures the step with a float32 and a bfloat16 teacher, and the matrix peak between.

    `torch`: also a joint stage against the same one in PyTorch.
    """
    if torch:
        import joint_stage

        joint_stage.check_machine()
        return joint(_measure(quick=quick), joint_stage.measure(quick=quick))
    return _measure(quick=quick)


def joint(steps: record.Outcome, stage: record.Outcome) -> record.Outcome:
    """Adds a joint stage to the outcome of the steps."""
    return record.Outcome(
        title=f"{steps.title}; {stage.title}",
        figures=[*steps.figures, *stage.figures],
        details=[*steps.details, *stage.details],
        settings={**steps.settings, "joint_stage": stage.settings},
        samples={**steps.samples, "joint_stage": stage.samples},
        notes=[*steps.notes, *stage.notes],
    )


def _measure(*, quick: bool) -> record.Outcome:
    import steps

    from tfdistill import models
    from tfdistill.data import batches as batching

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
    import tensorflow as tf

    random = tf.random.Generator.from_seed(0)
    left, right = random.normal((side, side)), random.normal((side, side))

    def products() -> None:
        for _ in range(count):
            float(tf.matmul(left, right)[0, 0])

    return products
