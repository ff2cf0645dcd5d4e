"""AdamW and LAMB as BERT is trained: decoupled decay, warm-up, linear or constant rate."""

from __future__ import annotations

import functools
import inspect
from typing import Any, get_args

import tensorflow as tf
import tf_keras as keras
from official.nlp import optimization

from tfdistill import errors
from tfdistill.config import OptimizerConfig
from tfdistill.config.training import Clip, Schedule
from tfdistill.losses import checks

NO_DECAY = ("layer_norm", "bias")
_FEW_ROWS = 0.4  # of a table: so many at most are updated by themselves
Rate = float | keras.optimizers.schedules.LearningRateSchedule


def build(settings: OptimizerConfig, total_steps: int) -> keras.optimizers.Optimizer:
    """Builds the optimizer that a section of a recipe describes, over so many updates."""
    make = {"adamw": adamw, "lamb": lamb}[settings.optimizer]
    parameters = inspect.signature(make).parameters
    keys = [key for key in OptimizerConfig.model_fields if key in parameters]
    options = {key: getattr(settings, key) for key in keys}
    return make(**options, total_steps=max(total_steps, 1))


def adamw(
    learning_rate: float,
    *,
    total_steps: int | None = None,
    schedule: Schedule = "constant",
    warmup: float = 0.0,
    warmup_steps: int = 0,
    end_learning_rate: float = 0.0,
    weight_decay: float = 0.01,
    clip: Clip = "per_tensor",
    clip_norm: float = 1.0,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    bias_correction: bool = True,
) -> keras.optimizers.Optimizer:
    """Builds the Model Garden's AdamWeightDecay with BERT's exclusions.

    The rate at step k of n, with w warm-up steps and the end rate e, is ``learning_rate * k / w``
    while k < w, then ``learning_rate`` (constant) or ``learning_rate + (e - learning_rate) * k /
    n`` (linear; e from step n on) or ``learning_rate + (e - learning_rate) * (k - w) / (n - w)``
    (linear_after_warmup). LayerNorm variables and biases are not decayed.

    With the moments m and v of a gradient (decay beta_1 and beta_2, from 0), a step is
    ``p -= rate * (c * m / (sqrt(v) + epsilon) + weight_decay * p)``, where ``c = sqrt(1 - beta_2^t)
    / (1 - beta_1^t)`` at step t from 1, or 1 without bias correction: BertAdam, whose first steps
    are up to 6.5 times as long, and those of the first 1,000 on average 2.0 times. Of a table whose
    gradient is rows, the rows that have had one are computed so; the moments of the others are 0.

    Args:
      learning_rate: The peak rate.
      total_steps: n, in optimizer steps; needed for a linear schedule and for `warmup`.
      schedule: "linear", "linear_after_warmup" or "constant".
      warmup: The fraction of all steps that warms up, 0 <= warmup < 1; w is rounded down, but not
        for linear_after_warmup.
      warmup_steps: w itself, instead of `warmup`.
      end_learning_rate: e, where a linear schedule ends.
      weight_decay: Decay per step, multiplied with the current rate.
      clip: "per_tensor" clips each gradient to `clip_norm` (as TinyBERT does), "global" the norm
        over all of them (as BERT does).
      clip_norm: The L2 norm that is clipped to.
      beta_1: Decay of the first moment.
      beta_2: Decay of the second moment.
      epsilon: Added to the root of the second moment.
      bias_correction: Whether the moments are corrected for starting at 0. False with
        ``schedule="linear_after_warmup"`` is the optimizer of TinyBERT's published code.

    Raises:
      ConfigError: If a schedule needs `total_steps` and it is missing, or an option is unknown or
        out of range.

    Examples:
      >>> optimizer = tfdistill.adamw(2e-5, total_steps=100, schedule="linear", warmup=0.1)
      >>> [round(float(optimizer.learning_rate(step)), 7) for step in (0, 10, 100)]
      [0.0, 1.8e-05, 0.0]
    """
    clipping = _clipping(clip, clip_norm)
    build = _AdamW if bias_correction else _BertAdam
    return build(
        learning_rate=_rate(
            learning_rate, total_steps, schedule, warmup, warmup_steps, end_learning_rate
        ),
        beta_1=beta_1,
        beta_2=beta_2,
        epsilon=epsilon,
        weight_decay_rate=weight_decay,
        exclude_from_weight_decay=list(NO_DECAY),
        gradient_clip_norm=0.0,
        **clipping,
    )


class _AdamW(optimization.AdamWeightDecay):
    """AdamWeightDecay that updates, of a table, the rows that have had a gradient.

    The moments of the others are 0, so that weight decay alone moves them: a step takes time for
    the words of the texts, not for those of the vocabulary.
    """

    takes_rows = True

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        self._tables = {v.ref() for g, v in pairs if isinstance(g, tf.IndexedSlices)}
        return super().apply_gradients(pairs, *args, **kwargs)

    def _create_slots(self, var_list: Any) -> None:
        super()._create_slots(var_list)
        for variable in var_list:
            if variable.ref() in self._tables:
                self.add_slot(variable, "reached", shape=variable.shape[:1])

    def _decay_weights_op(self, var: Any, learning_rate: Any, apply_state: Any) -> Any:
        if not self._do_use_weight_decay(var.name):
            return tf.no_op()
        now = apply_state[(var.device, var.dtype.base_dtype)]
        return var.assign(var * (1 - learning_rate * now["weight_decay_rate"]))

    def _resource_apply_sparse(
        self, grad: Any, var: Any, indices: Any, apply_state: Any = None
    ) -> Any:
        rate, _ = self._get_lr(var.device, var.dtype.base_dtype, apply_state)
        now = apply_state[(var.device, var.dtype.base_dtype)]
        reached = self.get_slot(var, "reached")
        reached.scatter_update(tf.IndexedSlices(tf.ones_like(indices, grad.dtype), indices))
        self._decay_weights_op(var, rate, apply_state)
        rows = tf.cast(tf.where(reached > 0)[:, 0], indices.dtype)

        def by_row() -> Any:
            places = tf.searchsorted(rows, indices)
            gradient = tf.scatter_nd(places[:, None], grad, [tf.size(rows), *grad.shape[1:]])

            def moved(slot: str, value: Any, decay: str) -> Any:
                moment = self.get_slot(var, slot)
                before = tf.gather(moment, rows)
                after = before + (value - before) * now[f"one_minus_{decay}_t"]
                moment.scatter_update(tf.IndexedSlices(after, rows))
                return after

            m = moved("m", gradient, "beta_1")
            v = moved("v", tf.square(gradient), "beta_2")
            step = now["lr"] * m / (tf.sqrt(v) + now["epsilon"])
            var.scatter_sub(tf.IndexedSlices(step, rows))
            return tf.size(rows)

        def whole() -> Any:
            gradient = tf.scatter_nd(indices[:, None], grad, var.shape)
            keras.optimizers.legacy.Adam._resource_apply_dense(self, gradient, var, apply_state)
            return tf.size(rows)

        # Rows are gathered and written back: of many, the whole table takes less time.
        return tf.cond(tf.size(rows) <= int(_FEW_ROWS * var.shape[0]), by_row, whole)


class _BertAdam(_AdamW):
    """AdamW whose moments are taken as they are."""

    def _prepare_local(self, var_device: str, var_dtype: Any, apply_state: Any) -> None:
        super()._prepare_local(var_device, var_dtype, apply_state)
        # Keras corrects by the powers beta^t: with 0 the factor is 1.
        zero = tf.zeros([], var_dtype)
        powers = {"beta_1_power": zero, "beta_2_power": zero}
        apply_state[(var_device, var_dtype)].update(
            powers, lr=apply_state[(var_device, var_dtype)]["lr_t"]
        )


def lamb(
    learning_rate: float,
    *,
    total_steps: int | None = None,
    schedule: Schedule = "constant",
    warmup: float = 0.0,
    warmup_steps: int = 0,
    end_learning_rate: float = 0.0,
    weight_decay: float = 0.01,
    clip: Clip = "global",
    clip_norm: float = 1.0,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
) -> keras.optimizers.Optimizer:
    """Builds the Model Garden's LAMB with BERT's exclusions: for batches of thousands of examples.

    With the bias-corrected moments m and v of a tensor w and ``u = m / (sqrt(v) + epsilon) +
    weight_decay * w``, a step is ``w -= rate * |w| / |u| * u``: every tensor moves by the rate
    times its own length. LayerNorm variables (also those of NoNorm) and biases are neither
    decayed nor scaled by their length. The rate follows the schedule of `adamw`.

    Args:
      learning_rate: The peak rate; MobileBERT takes 1.5e-3.
      total_steps: As for `adamw`, as all others; MobileBERT warms up for 10,000 of 500,000 steps
        and falls to 1.5e-7.
      schedule: As for `adamw`.
      warmup: The fraction of all steps that warms up.
      warmup_steps: The warm-up in steps, instead of `warmup`.
      end_learning_rate: Where a linear schedule ends.
      weight_decay: See the formula.
      clip: "global", "per_tensor" or "none".
      clip_norm: The L2 norm that is clipped to.
      beta_1: Decay of the first moment.
      beta_2: Decay of the second moment.
      epsilon: Added to the root of the second moment.

    Raises:
      ConfigError: If a schedule needs `total_steps` and it is missing, or an option is unknown or
        out of range.

    Examples:
      >>> optimizer = tfdistill.lamb(1.5e-3, total_steps=500, schedule="linear", warmup_steps=10)
      >>> [round(float(optimizer.learning_rate(step)), 6) for step in (0, 5, 500)]
      [0.0, 0.00075, 0.0]

    Reference: You et al. 2020, LAMB, algorithm 2; Sun et al. 2020, MobileBERT, section 4.2.
    """
    clipping = _clipping(clip, clip_norm)
    return optimization.LAMB(
        learning_rate=_rate(
            learning_rate, total_steps, schedule, warmup, warmup_steps, end_learning_rate
        ),
        beta_1=beta_1,
        beta_2=beta_2,
        epsilon=epsilon,
        weight_decay_rate=weight_decay,
        exclude_from_weight_decay=list(NO_DECAY),
        **clipping,
    )


def _clipping(clip: str, norm: float) -> dict[str, Any]:
    """The optimizer's options.

    Not AdamWeightDecay's own gradient_clip_norm: it clips each replica's part before they are
    summed, Keras' options clip the sum.
    """
    choices: dict[str, dict[str, Any]] = {
        "per_tensor": {"gradient_transformers": [functools.partial(_clip_each, norm)]},
        "global": {"global_clipnorm": norm},
        "none": {},
    }
    checks.check_choice("clip", clip, tuple(choices))
    return choices[clip]


def _clip_each(norm: float, grads_and_vars: Any) -> Any:
    """Clips each gradient to a norm, as Keras' clipnorm does in three times as many passes."""
    clipped = []
    for gradient, variable in grads_and_vars:
        rows = isinstance(gradient, tf.IndexedSlices)
        values = gradient.values if rows else gradient
        length = tf.sqrt(2 * tf.nn.l2_loss(values))
        values *= norm / tf.maximum(length, norm)
        if rows:
            values = tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        clipped.append((values, variable))
    return clipped


def _rate(
    learning_rate: float,
    total_steps: int | None,
    schedule: str,
    warmup: float,
    warmup_steps: int,
    end_learning_rate: float,
) -> Rate:
    checks.check_choice("schedule", schedule, get_args(Schedule))
    if not 0 <= warmup < 1:
        raise errors.ConfigError("warmup", "a fraction of all steps, 0 <= warmup < 1", warmup)
    if warmup_steps < 0 or (warmup_steps and warmup):
        raise errors.ConfigError(
            "warmup_steps",
            "a number of steps >= 0, and warmup=0 with it",
            f"warmup_steps={warmup_steps}, warmup={warmup}",
        )
    if (schedule != "constant" or warmup) and not total_steps:
        raise errors.ConfigError("total_steps", "the number of steps of the schedule", total_steps)
    if end_learning_rate and (schedule == "constant" or not 0 < end_learning_rate <= learning_rate):
        raise errors.ConfigError(
            "end_learning_rate",
            f"a rate from 0 to {learning_rate:g}, and a linear schedule",
            f"{end_learning_rate:g} with schedule={schedule!r}",
        )
    rising: float = warmup_steps or (total_steps or 0) * warmup
    if schedule != "linear_after_warmup":
        rising = int(rising)
    if not total_steps and not rising:
        return learning_rate
    first = learning_rate
    if schedule == "linear_after_warmup":
        # The line through the peak at the end of the warm-up, from step 0 on.
        assert total_steps
        rest = 1 - min(rising, total_steps - 1) / total_steps
        first = end_learning_rate + (learning_rate - end_learning_rate) / rest
    rate = keras.optimizers.schedules.PolynomialDecay(
        first,
        total_steps or 1,
        learning_rate if schedule == "constant" else end_learning_rate,
    )
    if rising:
        return optimization.WarmUp(learning_rate, rate, rising)
    return rate
