"""AdamW as BERT is trained: decoupled decay, warm-up, linear or constant learning rate."""

from __future__ import annotations

from typing import Literal

import tf_keras as keras
from official.nlp import optimization

from tfdistill import errors

NO_DECAY = ("layer_norm", "bias")


def adamw(
    learning_rate: float,
    *,
    total_steps: int | None = None,
    schedule: Literal["linear", "constant"] = "constant",
    warmup: float = 0.0,
    weight_decay: float = 0.01,
    clip: Literal["per_tensor", "global", "none"] = "per_tensor",
    clip_norm: float = 1.0,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
) -> keras.optimizers.Optimizer:
    """Builds the Model Garden's AdamWeightDecay with BERT's exclusions.

    The rate at step k of n, with w = warmup * n warm-up steps, is
    ``learning_rate * k / w`` while k < w, then ``learning_rate`` (constant) or
    ``learning_rate * (1 - k / n)`` (linear). LayerNorm variables and biases are not decayed.

    Args:
      learning_rate: The peak rate.
      total_steps: n; needed for a linear schedule and for warm-up.
      schedule: "linear" or "constant".
      warmup: The fraction of all steps that warms up, 0 <= warmup < 1.
      weight_decay: Decay per step, multiplied with the current rate.
      clip: "per_tensor" clips each gradient to `clip_norm` (as TinyBERT does), "global" the norm
        over all of them (as BERT does).
      clip_norm: The L2 norm that is clipped to.
      beta_2: Decay of the second moment.
      epsilon: Added to the root of the second moment.

    Returns:
      The optimizer.

    Raises:
      ConfigError: If a schedule needs `total_steps` and it is missing, or an option is unknown or
        out of range.
    """
    if schedule not in ("linear", "constant") or clip not in ("per_tensor", "global", "none"):
        raise errors.ConfigError(
            errors.explain(
                "optimizer",
                "schedule linear or constant, clip per_tensor, global or none",
                f"{schedule!r}, {clip!r}",
            )
        )
    if not 0 <= warmup < 1:
        raise errors.ConfigError(
            errors.explain("warmup", "a fraction of all steps, 0 <= warmup < 1", warmup)
        )
    if (schedule == "linear" or warmup) and not total_steps:
        raise errors.ConfigError(
            errors.explain("total_steps", "the number of steps of the schedule", total_steps)
        )
    rate: float | keras.optimizers.schedules.LearningRateSchedule = learning_rate
    if total_steps:
        rate = keras.optimizers.schedules.PolynomialDecay(
            learning_rate, total_steps, 0.0 if schedule == "linear" else learning_rate
        )
        warmup_steps = int(total_steps * warmup)
        if warmup_steps:
            rate = optimization.WarmUp(learning_rate, rate, warmup_steps)
    # Not by the optimizer's own gradient_clip_norm: it clips each replica's part before they are
    # summed, Keras' options clip the sum.
    clipping: dict[str, dict[str, float]] = {
        "per_tensor": {"clipnorm": clip_norm},
        "global": {"global_clipnorm": clip_norm},
        "none": {},
    }
    return optimization.AdamWeightDecay(
        learning_rate=rate,
        beta_2=beta_2,
        epsilon=epsilon,
        weight_decay_rate=weight_decay,
        exclude_from_weight_decay=list(NO_DECAY),
        gradient_clip_norm=0.0,
        **clipping[clip],
    )
