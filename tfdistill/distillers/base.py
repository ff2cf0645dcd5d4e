"""The step that every method shares: one teacher pass, one student pass, weighted named losses.

A distiller is a `keras.Model` used by plain `compile`, `fit` and `evaluate`. What it learns are
losses of `tfdistill.losses`: those of a method (`tfdistill.methods`), and your own.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.data.streaming import TrainingBatches
from tfdistill.distillers import binding, checks, judging, keras3, updates
from tfdistill.distillers.step import EpochCount, step_inputs
from tfdistill.distillers.teacher import FrozenTeacher, LogitsFunction, inputs_of
from tfdistill.losses import described, heads, labels, reduction
from tfdistill.losses.base import Loss, ModelPair, StepMetric
from tfdistill.losses.batch import StepInputs


class Distiller(keras.Model):
    """Trains a student on named losses, usually against a teacher.

    The total is ``sum over names of weight[name] * loss[name]``. The teacher runs with
    ``training=False``, outside the gradient tape, and is neither tracked, saved nor changed. The
    student runs forward once a step; `taps` gives every tensor that the terms need from that one
    pass. Dropout draws its masks from the seed and the number of batches so far, so that a resumed
    run repeats what an uninterrupted one would have done.

    A batch is ``features``, ``(features, labels)`` or ``(features, labels, sample_weight)``;
    ``features`` is a dictionary with ``input_ids``, ``attention_mask`` and ``token_type_ids``, each
    int32 (batch, tokens); without the last the type is 0 everywhere. A feature ``teacher_logits``,
    float32 (batch, classes), replaces the teacher's pass where only its logits are needed.

    Args:
      teacher: The teacher; or, for losses that take its logits alone, any function of the features
        above that returns them, such as a Keras 3 model; or None for losses without one.
      student: The student: a model of `tfdistill.models`, with the teacher's vocabulary.
      losses: Name -> loss. The log, `compile(loss_weights=...)` and the history call them by their
        names.
      metrics: Name -> values of a batch and their weights, whose weighted mean is logged with the
        losses and never trained on.
      same_tokens: Whether both read the same ids. Otherwise the batches hold the student's and
        bring the teacher's logits along, which must be all that it is compared with.
      vector_width: Width of the vectors of a teacher that is a function; None: the student's.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Attributes:
      projections: The Dense layers of the losses, which learn with the student.

    Raises:
      ConfigError: If there is no loss, or an option of one does not fit the models.
      ShapeError: If a loss cannot read the models, or the vocabularies differ in size. `compile`
        refuses all else that does not fit, for the losses that have a weight.

    Examples:
      >>> losses = tfdistill.methods.hinton(temperature=2.0, alpha=0.5)
      >>> distiller = tfdistill.Distiller(teacher, student, losses)
      >>> distiller.compile(tfdistill.adamw(1e-3))
      >>> history = distiller.fit(data.train, epochs=2, verbose=0).history
      >>> {name: len(values) for name, values in history.items()}
      {'loss': 2, 'logits': 2, 'label': 2}
    """

    def __init__(
        self,
        teacher: keras.Model | LogitsFunction | None,
        student: keras.Model,
        losses: Mapping[str, Loss],
        *,
        metrics: Mapping[str, StepMetric] | None = None,
        same_tokens: bool = True,
        vector_width: int | None = None,
        seed: int = 0,
        name: str | None = None,
    ):
        """Fits the losses to the models and builds their projections; see the class."""
        errors.check_types(student=(student, keras.Model), losses=(losses, Mapping))
        frozen = FrozenTeacher(teacher, student, vector_width)
        student_taps = models.taps(student)
        pair = ModelPair(
            teacher, student, vector_width, frozen.output_names, tuple(student_taps.output)
        )
        bound = binding.bind(losses, pair)
        if same_tokens:
            binding.check_vocabulary(pair)
        super().__init__(name=name)
        self.student = student
        self.built = True  # as the student is: `summary` works before the first step
        # Every replica logs means of the whole batch; Keras adds those of workers up.
        self.distribute_reduction_method = "first"
        self._learns_padding = not any(loss.counts_padding for loss in bound.values())
        # Judged on a batch: losses of this package are known to ignore padding.
        self._unjudged = {n for n, loss in bound.items() if type(loss) not in described.CLASSES}
        self._teacher_is_judged = False
        self._seed_offset = seed * 1_000_003 % 2**30  # far from the steps of another seed
        # Keras tracks the models that are attributes: in a closure the teacher stays out of the
        # variables, the checkpoints and the summary, and the views do not count twice.
        self._pair = lambda: pair
        self._teacher = lambda: frozen
        self._student_taps = lambda: student_taps
        self.losses_by_name = types.MappingProxyType(bound)  # Keras would wrap a dict
        self._default_weights = {name: float(loss.weight) for name, loss in bound.items()}
        self._term_weights = dict(self._default_weights)
        self._loss_tracker = keras.metrics.Mean(name="loss")
        self._term_trackers = {term: keras.metrics.Mean(name=term) for term in bound}
        self._step_metrics = dict(metrics or {})
        for loss in bound.values():
            self._step_metrics.update(loss.metrics)
        self._metric_trackers = {name: keras.metrics.Mean(name=name) for name in self._step_metrics}
        self.projections: list[keras.layers.Layer] = binding.build_projections(bound.values(), pair)

    @property
    def teacher(self) -> Any:
        """The teacher: a model, a function that returns logits, or None."""
        return self._pair().teacher

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the terms, in the order of the log."""
        return tuple(self._default_weights)

    @property
    def active_terms(self) -> tuple[str, ...]:
        """The terms whose weight is not zero; only these are computed."""
        return tuple(term for term in self.terms if self._term_weights[term] != 0)

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer | str = "adam",
        *,
        loss_weights: Mapping[str, float] | float | None = None,
        metrics: Sequence[Any] | None = None,
        weighted_metrics: Sequence[Any] | None = None,
        gradient_accumulation: int = 1,
        lr_multipliers: updates.Multipliers | None = None,
        dropout: bool = True,
        **options: Any,
    ) -> None:
        """Sets the optimizer, the weights of the terms, and metrics of the student's logits.

        Args:
          optimizer: A tf_keras optimizer; one of Keras 3 is made again from its configuration.
          loss_weights: Term -> weight; a term that is left out keeps its own, which is 1 unless the
            method has another, and 0 switches a term off. A single number scales every term.
          metrics: Keras metrics of (labels, logits); those of Keras 3 are made again likewise. Of a
            head over tokens they are weighted, since tokens without a label weigh 0.
          weighted_metrics: The same, which also take the sample weights.
          gradient_accumulation: Batches of one optimizer step, which takes the plain mean of their
            gradients (see `updates.Updater`). A schedule counts optimizer steps, all else counts
            batches. What remains at the end of a fit is not applied.
          lr_multipliers: (pattern, multiplier) pairs that scale the learning rate of the layers
            whose name matches; the first that matches decides. 0 freezes a layer, bit for bit.
          dropout: Whether the student's dropout layers drop anything.
          **options: `run_eagerly`, `jit_compile`, `steps_per_execution` as in Keras.

        Raises:
          ConfigError: If a term is unknown, a weight is negative, no term is left, a `loss` is
            passed (the terms are the loss), the optimizer has `use_ema`, or
            `gradient_accumulation` or `lr_multipliers` make no sense.
          ShapeError: If an active term cannot be computed for this teacher and student.
        """
        if options.get("loss") is not None:
            raise errors.ConfigError(
                "compile(loss=...)", "no loss", options["loss"], "The terms are the loss."
            )
        self._term_weights = binding.term_weights(self._default_weights, loss_weights)
        self.drops = dropout
        self.check_terms()
        metrics, weighted_metrics = map(keras3.convert_metrics, (metrics, weighted_metrics))
        if heads.labels_tokens(models.head_of(self.student)):
            metrics, weighted_metrics = None, [*(metrics or ()), *(weighted_metrics or ())]
        self._epochs = EpochCount()
        super().compile(
            optimizer=keras3.convert_optimizer(optimizer),
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            **options,
        )
        checks.check_optimizer(self.optimizer)
        with self.distribute_strategy.scope():
            self._updater = updates.Updater(
                self, batches=gradient_accumulation, lr_multipliers=lr_multipliers
            )
        # The step reads it; a variable that is made inside a traced step would trace it twice, and
        # cannot be made there under a distribution strategy.
        _ = self.optimizer.iterations

    @property
    def batches_trained(self) -> int:
        """Batches trained on so far; the optimizer's steps, unless one takes several batches."""
        return int(self._updater.batches_trained(self.optimizer.iterations).numpy())

    @property
    def gathered(self) -> updates.AccumulatedGradients:
        """The accumulated gradients: part of the state of a fit, as the optimizer is."""
        return self._updater.accumulated

    def weigh_classes(self, class_weights: np.ndarray) -> None:
        """Weighs the examples of losses on gold labels by their classes, from the next `fit` on.

        Other losses compare two models and keep the sample weights alone.

        Args:
          class_weights: float (labels,), such as `balanced_weights` gives; see `gold_loss`.

        Raises:
          ConfigError: If no loss is on gold labels, or the head not that of sequences' classes.
          ShapeError: If there is not one finite weight above 0 for each of its labels.
        """
        labels.weigh_classes(self.losses_by_name, self.student, class_weights)
        self.train_function = self.test_function = None  # traced with those before

    def compute_terms(self, batch: StepInputs) -> dict[str, tf.Tensor]:
        """Computes the unweighted losses of one batch that have a weight, float32 scalars."""
        losses = {name: self.losses_by_name[name] for name in self.active_terms}
        return {name: reduction.as_float32(loss.compute(batch)) for name, loss in losses.items()}

    def check_terms(self) -> None:
        """Refuses, before any batch is seen, losses with a weight that do not fit the models.

        Raises:
          ShapeError: If there is one; the message lists all.
        """
        active = {name: self.losses_by_name[name] for name in self.active_terms}
        binding.check(active, self._pair())

    def check_task(self, data: Any) -> None:
        """Refuses Batches of a task whose answers the losses with a weight read otherwise.

        Raises:
          ConfigError: If a loss has another head than the task.
        """
        checks.check_heads({name: self.losses_by_name[name] for name in self.active_terms}, data)

    def needs_only_logits(self) -> bool:
        """Whether the teacher's logits are all that the losses with a weight take from it."""
        taps = {self.losses_by_name[name].tap for name in self.active_terms}
        words = models.read_head(self.student).traits.predicts_words
        return self.teacher is not None and not words and taps <= {"logits", None}

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The loss, every term, and the compiled metrics."""
        trackers = [self._loss_tracker, *(self._term_trackers[term] for term in self.terms)]
        trackers += self._metric_trackers.values()
        return trackers + list(super().metrics)

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool | None = None) -> tf.Tensor:
        """Returns the student's answer, so that `predict` works on a distiller."""
        return self.student(inputs_of(self.student, inputs), training=training)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        *args: Any,
        allow_weak: bool = False,
        **options: Any,
    ) -> keras.callbacks.History:
        """`keras.Model.fit`, which also takes `data.batches.Batches` and callbacks of Keras 3.

        Batches give all their epochs, each in an order of its own; `epochs` is given here only. A
        later fit on the same Batches goes on with the first epoch that was not begun since
        `compile`, unless it names `initial_epoch` (a `StepRange` starts again). ConfigError if a
        loss has another head than their task.
        Losses of your own are first computed on a batch, as it is and padded further: ConfigError
        or ShapeError if they make no sense; not of generators, which that would use up. A teacher
        that answers `validation_data` near chance is refused before the first step, where these are
        labelled Batches of its task (TeacherError; `allow_weak` lets it pass).
        """
        options.update(zip(checks.FIT_OPTIONS, args, strict=False))
        checks.check_batch_size(x, batch_size)
        dev = options.get("validation_data")
        self.check_task(x)
        self.check_task(dev)
        checks.check_weights(self.losses_by_name, self.student, (x, y), options)
        if not (allow_weak or self._teacher_is_judged):
            self._teacher_is_judged = checks.check_teacher(self.teacher, dev)
        counting = contextlib.nullcontext()
        if isinstance(x, TrainingBatches):
            self._assert_compile_was_called()
            begun = 0 if "initial_epoch" in options else self._epochs.of(x)
            epoch = begun + options.get("initial_epoch", 0)
            counting = self._epochs.counting(x, epoch, lambda: self.batches_trained)
            options.setdefault("steps_per_epoch", x.steps_per_epoch)
            x = x.dataset(epochs=begun + epochs, start_step=epoch * x.steps_per_epoch)
        if isinstance(dev, TrainingBatches):
            options["validation_data"] = dev.dataset()
        new = {t: self.losses_by_name[t] for t in self.active_terms if t in self._unjudged}
        batch = (x, y, options.get("sample_weight"), batch_size, self.distribute_strategy)
        first = judging.first_batch(*batch) if new else None
        if first is not None:
            learn, run = (self.student, *self.projections), self._run_teacher
            judging.check_losses(new, first, learn, self.teacher, run, self._inferred)
            self._unjudged -= new.keys()
        callbacks = keras3.convert_callbacks(callbacks)
        with counting:
            return super().fit(x, y, batch_size, epochs, verbose, callbacks, **options)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **options: Any) -> Any:
        """`keras.Model.evaluate`, which takes what `fit` does; Batches are read once."""
        self.check_task(x)
        checks.check_batch_size(x, args[0] if args else options.get("batch_size"))
        checks.check_weights(self.losses_by_name, self.student, (x, y), options)
        x = x.dataset() if isinstance(x, TrainingBatches) else x
        if "callbacks" in options:
            options["callbacks"] = keras3.convert_callbacks(options["callbacks"])
        return super().evaluate(x, y, *args, **options)

    def predict(self, x: Any, *args: Any, **options: Any) -> Any:
        """`keras.Model.predict`; of Batches, which have an order of their own, a ConfigError."""
        checks.check_no_batches(x)
        return super().predict(x, *args, **options)

    def save(self, *args: Any, **options: Any) -> None:
        """Refuses with a ConfigError: what a distiller trains is its student."""
        checks.refuse_saving(type(self).__name__)

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Trains on one batch; returns the running means of the loss and of every term."""
        data = keras.utils.unpack_x_y_sample_weight(data)
        teacher = self._run_teacher(data[0])
        seed = models.dropout_seed(self._step_seed(), drops=self.drops)
        with tf.GradientTape() as tape, seed:
            batch = step_inputs(self._student_taps(), data, teacher, training=True)
            loss, terms = self._loss(batch)
            # Optimizers sum gradients over replicas; the loss is a mean.
            replica_loss = loss / tf.distribute.get_strategy().num_replicas_in_sync
            scaled = updates.scaled(self.optimizer, replica_loss)
        gradients = tape.gradient(scaled, self._updater.variables)
        gradients = updates.unscaled(self.optimizer, gradients)
        by_row = self._updater.takes_rows(self.optimizer) and not self.jit_compile
        gradients = [updates.summed(gradient, by_row=by_row) for gradient in gradients]
        if not self._learns_padding:
            gradients = updates.without_padding(self.student, self._updater.variables, gradients)
        self._updater.apply(self.optimizer, gradients)
        return self._update(loss, terms, batch)

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        """The same terms with the student in inference mode, without an update."""
        batch = self._inferred(keras.utils.unpack_x_y_sample_weight(data))
        loss, terms = self._loss(batch)
        return self._update(loss, terms, batch)

    def _step_seed(self) -> tf.Tensor:
        """A number that no other step and no other replica has, and a resumed step has again."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        context = tf.distribute.get_replica_context()
        replica = 0 if context is None else context.replica_id_in_sync_group
        step = tf.cast(self._updater.batches_trained(self.optimizer.iterations), tf.int32)
        return self._seed_offset + step * replicas + replica

    def _run_teacher(self, features: Mapping[str, tf.Tensor]) -> Mapping[str, Any]:
        return self._teacher().outputs(features, only_logits=self.needs_only_logits())

    def _inferred(self, data: tuple[Any, Any, Any], teacher: Any = None) -> StepInputs:
        teacher = self._run_teacher(data[0]) if teacher is None else teacher
        return step_inputs(self._student_taps(), data, teacher, training=False)

    def _loss(self, batch: StepInputs) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        terms = self.compute_terms(batch)
        active = [self._term_weights[term] * terms[term] for term in self.active_terms]
        return reduction.total(active), terms

    def _update(
        self, loss: tf.Tensor, terms: Mapping[str, tf.Tensor], batch: StepInputs
    ) -> dict[str, tf.Tensor]:
        # Weighted by examples, so that a short last batch does not count as a full one. Among
        # replicas all weigh alike: their terms are shares of the global batch's already.
        examples = reduction.replica_mean(tf.reduce_sum(batch.sample_weight))
        self._loss_tracker.update_state(loss, sample_weight=examples)
        for term in self.active_terms:
            self._term_trackers[term].update_state(terms[term], sample_weight=examples)
        results = {
            metric.name: metric.result()
            for metric in [self._loss_tracker, *(self._term_trackers[t] for t in self.active_terms)]
        }
        for metric, tracker in self._metric_trackers.items():
            values, weights = self._step_metrics[metric](batch)
            tracker.update_state(values, sample_weight=weights)
            results[metric] = tracker.result()
        answered = batch.labels is not None and "logits" in batch.student
        if answered and self.compiled_metrics is not None:
            head = models.head_of(self.student)
            self.compiled_metrics.update_state(*heads.metric_inputs(batch, head))
            results.update({m.name: m.result() for m in self.compiled_metrics.metrics})
        return results
