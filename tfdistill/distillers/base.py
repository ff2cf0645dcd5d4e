"""The step that every method shares: one teacher pass, one student pass, weighted named terms.

A distiller is a `keras.Model` used by plain `compile`, `fit` and `evaluate`. `terms.TermDistiller`
computes the terms of every method of this package; a subclass of your own may compute others.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.data.streaming import TrainingBatches
from tfdistill.distillers import batch as batches
from tfdistill.distillers import checks, keras3, updates
from tfdistill.distillers.batch import StepInputs
from tfdistill.objectives import reduction

TEACHER_LOGITS = "teacher_logits"
# Features by name -> logits: all that methods need that compare answers only.
LogitsFunction = Callable[[Mapping[str, tf.Tensor]], tf.Tensor]
_TEXT_FEATURES = ("input_ids", "attention_mask", "token_type_ids")
# Values of a batch, (n,), and their weights, (n,); the log has their weighted mean.
StepMetric = Callable[[StepInputs], tuple[tf.Tensor, tf.Tensor]]


class Distiller(keras.Model, abc.ABC):
    """Trains a student on named loss terms, usually against a teacher.

    The loss is ``sum over terms of weight[term] * term``. The teacher runs with
    ``training=False``, outside the gradient tape, and is neither tracked, saved nor changed. The
    student runs forward once a step; `taps` gives every tensor that the terms need from that one
    pass. Dropout draws its masks from the seed and the number of batches so far, so that a resumed
    run repeats what an uninterrupted one would have done.

    A batch is ``features``, ``(features, labels)`` or ``(features, labels, sample_weight)``;
    ``features`` is a dictionary with ``input_ids``, ``attention_mask`` and ``token_type_ids``, each
    int32 (batch, tokens); without the last the type is 0 everywhere. A feature ``teacher_logits``,
    float32 (batch, classes), replaces the teacher's pass where only its logits are needed.

    Args:
      teacher: The teacher; or, for terms that take its logits alone, any function of the features
        above that returns them, such as a Keras 3 model; or None for a method without one.
      student: The student: an encoder or a classifier of `tfdistill.models`.
      terms: The terms that `compute_terms` may return, with their weights unless `compile` sets
        others (0: off).
      metrics: Name -> values of a batch and their weights, whose weighted mean is logged with the
        terms and never trained on.
      reports: The former name of `metrics`.
      learns_padding: Whether the row of [PAD] in the student's word table is learnt, where a term
        counts padding.
      seed: Seed of the dropout masks.
      name: The Keras name.
    """

    def __init__(
        self,
        teacher: keras.Model | LogitsFunction | None,
        student: keras.Model,
        *,
        terms: Mapping[str, float],
        metrics: Mapping[str, StepMetric] | None = None,
        reports: Mapping[str, StepMetric] | None = None,
        learns_padding: bool = True,
        seed: int = 0,
        name: str | None = None,
    ):
        """Builds the tapped views; see the class for the arguments."""
        super().__init__(name=name)
        self.student = student
        self.built = True  # as the student is: `summary` works before the first step
        # Every replica logs the means of the whole batch; Keras adds those of workers up.
        self.distribute_reduction_method = "first"
        self._learns_padding = learns_padding
        self._teacher_is_judged = False
        self._seed_offset = seed * 1_000_003 % 2**30  # far from the steps of another seed
        # Keras tracks the models that are attributes: in a closure the teacher stays out of the
        # variables, the checkpoints and the summary, and the views do not count twice.
        teacher_taps = models.taps(teacher) if isinstance(teacher, keras.Model) else None
        student_taps = models.taps(student)
        self._teacher = lambda: teacher
        self._teacher_taps = lambda: teacher_taps
        self._student_taps = lambda: student_taps
        self._default_weights = dict(terms)
        self._term_weights = dict(terms)
        self._loss_tracker = keras.metrics.Mean(name="loss")
        self._term_trackers = {term: keras.metrics.Mean(name=term) for term in terms}
        self._step_metrics = dict(metrics or reports or {})
        # The names of the attributes that hold trackers are those in checkpoints of earlier runs.
        self._report_trackers = {name: keras.metrics.Mean(name=name) for name in self._step_metrics}

    @property
    def teacher(self) -> Any:
        """The teacher: a model, a function that returns logits, or None."""
        return self._teacher()

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
        gradient_accumulation: int = 1,
        lr_multipliers: updates.Multipliers | None = None,
        rates: updates.Multipliers | None = None,
        **options: Any,
    ) -> None:
        """Sets the optimizer, the weights of the terms, and metrics of the student's logits.

        Args:
          optimizer: A tf_keras optimizer; one of Keras 3 is made again from its configuration.
          loss_weights: Term -> weight; a term that is left out keeps its own, which is 1 unless the
            method has another, and 0 switches a term off. A single number scales every term.
          metrics: Keras metrics of (labels, logits); those of Keras 3 are made again likewise.
          gradient_accumulation: Batches of one optimizer step, which takes the plain mean of their
            gradients (see `updates.Updater`). A schedule counts optimizer steps, all else counts
            batches. What remains at the end of a fit is not applied.
          lr_multipliers: (pattern, multiplier) pairs that scale the learning rate of the layers
            whose name matches; the first that matches decides. 0 freezes a layer, bit for bit.
          rates: The former name of `lr_multipliers`.
          **options: `run_eagerly`, `jit_compile`, `steps_per_execution` as in Keras.

        Raises:
          ConfigError: If a term is unknown, a weight is negative, no term is left, a `loss` is
            passed (the terms are the loss), or `gradient_accumulation` or `lr_multipliers` make no
            sense.
          ShapeError: If an active term cannot be computed for this teacher and student.
        """
        if options.get("loss") is not None:
            raise errors.ConfigError(
                "compile(loss=...)", "no loss", options["loss"], "The terms are the loss."
            )
        self._term_weights = self._checked_weights(loss_weights)
        self.check_terms()
        super().compile(
            optimizer=keras3.convert_optimizer(optimizer),
            metrics=keras3.convert_metrics(metrics),
            **options,
        )
        with self.distribute_strategy.scope():
            self._updater = updates.Updater(
                self, batches=gradient_accumulation, lr_multipliers=lr_multipliers or rates
            )
        # The step reads it; a variable that is made inside a traced step would trace it twice, and
        # cannot be made there under a distribution strategy.
        _ = self.optimizer.iterations

    def _checked_weights(self, weights: Mapping[str, float] | float | None) -> dict[str, float]:
        if weights is None:
            weights = {}
        if not isinstance(weights, Mapping):
            weights = {term: weights * own for term, own in self._default_weights.items()}
        for term, weight in weights.items():
            checks.check_choice("loss_weights", term, self.terms)
            checks.check_number(f"loss_weights[{term!r}]", weight)
        checked = {**self._default_weights, **{t: float(w) for t, w in weights.items()}}
        if not any(checked.values()):
            raise errors.ConfigError("loss_weights", "at least one term above 0", checked)
        return checked

    @property
    def batches_trained(self) -> int:
        """Batches trained on so far; the optimizer's steps, unless one takes several batches."""
        return int(self._updater.batches_trained(self.optimizer.iterations).numpy())

    @property
    def gathered(self) -> updates.AccumulatedGradients:
        """The accumulated gradients: part of the state of a fit, as the optimizer is."""
        return self._updater.accumulated

    @abc.abstractmethod
    def compute_terms(self, batch: StepInputs) -> dict[str, tf.Tensor]:
        """Computes the unweighted terms of one batch, each a float32 scalar.

        Terms that are not in `active_terms` may be left out.
        """

    @abc.abstractmethod
    def check_terms(self) -> None:
        """Refuses, before any batch is seen, an active term that does not fit the models.

        Raises:
          ShapeError: If there is one.
        """

    @abc.abstractmethod
    def needs_only_logits(self) -> bool:
        """Whether the teacher's logits are all that the active terms take from it."""

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The loss, every term, and the compiled metrics."""
        trackers = [self._loss_tracker, *(self._term_trackers[term] for term in self.terms)]
        trackers += self._report_trackers.values()
        return trackers + list(super().metrics)

    def call(self, inputs: Mapping[str, tf.Tensor], training: bool | None = None) -> tf.Tensor:
        """Returns the student's answer, so that `predict` works on a distiller."""
        return self.student(_inputs_of(self.student, inputs), training=training)

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

        Batches give all their epochs, each in an order of its own; `epochs` is given here only.
        A teacher that answers `validation_data` near chance is refused before the first step,
        where these are labelled Batches of its task (TeacherError; `allow_weak` lets it pass).
        """
        if not (allow_weak or self._teacher_is_judged):
            dev = options.get("validation_data")
            self._teacher_is_judged = checks.check_teacher(self.teacher, dev)
        if isinstance(x, TrainingBatches):
            start = options.get("initial_epoch", 0) * x.steps_per_epoch
            options.setdefault("steps_per_epoch", x.steps_per_epoch)
            x = x.dataset(epochs=epochs, start_step=start)
        if isinstance(options.get("validation_data"), TrainingBatches):
            options["validation_data"] = options["validation_data"].dataset()
        callbacks = keras3.convert_callbacks(callbacks)
        return super().fit(x, y, batch_size, epochs, verbose, callbacks, *args, **options)

    def save(self, *args: Any, **options: Any) -> None:
        """Refuses: what a distiller trains is its student.

        Raises:
          ConfigError: Always.
        """
        raise errors.ConfigError(
            f"{type(self).__name__}.save",
            "a student to save",
            "the distiller, whose teacher and losses are no part of it",
            "Save distiller.student, with tfdistill.weights.save_hf or its own save; "
            "tfdistill.fit keeps checkpoints that resume.",
        )

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Trains on one batch; returns the running means of the loss and of every term."""
        features, labels, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        teacher = self._run_teacher(features)
        with tf.GradientTape() as tape, models.dropout_seed(self._step_seed()):
            batch = self._step_inputs(features, labels, sample_weight, teacher, training=True)
            loss, terms = self._loss(batch)
            # Optimizers sum gradients over replicas; the loss is a mean.
            replica_loss = loss / tf.distribute.get_strategy().num_replicas_in_sync
            scaled = self._scale(replica_loss)
        gradients = self._unscale(tape.gradient(scaled, self._updater.variables))
        # Rows of one token that occurs often must be added up before a norm is taken of them.
        dense = [
            tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient
            for gradient in gradients
        ]
        if not self._learns_padding:
            dense = self._without_padding(dense)
        self._updater.apply(self.optimizer, dense)
        return self._update(loss, terms, batch)

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        """The same terms with the student in inference mode, without an update."""
        features, labels, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        teacher = self._run_teacher(features)
        batch = self._step_inputs(features, labels, sample_weight, teacher, training=False)
        loss, terms = self._loss(batch)
        return self._update(loss, terms, batch)

    def _without_padding(self, gradients: list[Any]) -> list[Any]:
        """Sets the gradient of the row of [PAD] in the word table to 0."""
        table = self.student.get_layer("word_embeddings").weights[0]
        row = [[models.config_of(self.student).pad_token_id]]
        return [
            gradient
            if gradient is None or variable is not table
            else tf.tensor_scatter_nd_update(gradient, row, tf.zeros_like(gradient[:1]))
            for gradient, variable in zip(gradients, self._updater.variables, strict=True)
        ]

    def _step_seed(self) -> tf.Tensor:
        """A number that no other step and no other replica has, and a resumed step has again."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        context = tf.distribute.get_replica_context()
        replica = 0 if context is None else context.replica_id_in_sync_group
        step = tf.cast(self._updater.batches_trained(self.optimizer.iterations), tf.int32)
        return self._seed_offset + step * replicas + replica

    def _run_teacher(self, features: Mapping[str, tf.Tensor]) -> Mapping[str, Any]:
        taps = self._teacher_taps()
        if TEACHER_LOGITS in features and self.needs_only_logits():
            return {"logits": features[TEACHER_LOGITS]}
        if taps is None:
            return {} if self.teacher is None else {"logits": self._called_logits(features)}
        outputs = taps(_inputs_of(taps, features), training=False)
        return tf.nest.map_structure(tf.stop_gradient, outputs)

    def _called_logits(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The logits of a teacher that is a function, or a Keras 3 model of known inputs."""
        given = {name: features[name] for name in _TEXT_FEATURES if name in features}
        if keras3.is_keras3(self.teacher):
            logits = keras3.call_model(self.teacher, given)
        else:
            logits = self.teacher(given)
        logits = tf.cast(logits, tf.float32)
        labels = self._answer_width()
        if logits.shape.rank is None or logits.shape[-1] != labels:
            raise errors.ShapeError("logits of the teacher", f"(..., {labels})", logits.shape)
        return tf.stop_gradient(logits)

    def _answer_width(self) -> int | None:
        """The last axis of what a teacher that is a function answers."""
        return models.num_labels_of(self.student)

    def _step_inputs(
        self,
        features: Mapping[str, tf.Tensor],
        labels: tf.Tensor | None,
        sample_weight: tf.Tensor | None,
        teacher: Mapping[str, Any],
        *,
        training: bool,
    ) -> StepInputs:
        taps = self._student_taps()
        student = taps(_inputs_of(taps, features), training=training)
        mask = tf.cast(features["attention_mask"], tf.float32)  # (batch, tokens)
        if sample_weight is None:
            weight = tf.ones_like(mask[:, 0])
        else:
            weight = tf.cast(sample_weight, tf.float32)
        return StepInputs(teacher, student, labels, mask * weight[:, None], weight, features)

    def _loss(self, batch: StepInputs) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        terms = self.compute_terms(batch)
        active = [self._term_weights[term] * terms[term] for term in self.active_terms]
        return tf.add_n(active), terms

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
        for metric, tracker in self._report_trackers.items():
            values, weights = self._step_metrics[metric](batch)
            tracker.update_state(values, sample_weight=weights)
            results[metric] = tracker.result()
        answered = batch.labels is not None and "logits" in batch.student
        if answered and self.compiled_metrics is not None:
            head = models.head_of(self.student)
            self.compiled_metrics.update_state(*batches.metric_inputs(batch, head))
            results.update({m.name: m.result() for m in self.compiled_metrics.metrics})
        return results

    def _scale(self, loss: tf.Tensor) -> tf.Tensor:
        if isinstance(self.optimizer, keras.mixed_precision.LossScaleOptimizer):
            return self.optimizer.get_scaled_loss(loss)
        return loss

    def _unscale(self, gradients: list[Any]) -> list[Any]:
        if isinstance(self.optimizer, keras.mixed_precision.LossScaleOptimizer):
            return self.optimizer.get_unscaled_gradients(gradients)
        return gradients


def _inputs_of(model: keras.Model, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Picks the features that a model takes, by name; types of tokens are 0 where none come."""
    if "token_type_ids" not in features and "input_ids" in features:
        features = {**features, "token_type_ids": tf.zeros_like(features["input_ids"])}
    missing = [name for name in model.input_names if name not in features]
    if missing:
        raise errors.ShapeError("features", f"the inputs {model.input_names}", sorted(features))
    return {name: features[name] for name in model.input_names}
