"""Checks of the teacher that a distiller learns from, and of the examples."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import analysis, errors, models
from tfdistill.data.batches import Batches
from tfdistill.data.streaming import TrainingBatches
from tfdistill.losses import labels
from tfdistill.losses.base import Loss

FIT_OPTIONS = tuple(inspect.signature(keras.Model.fit).parameters)[7:]
"""Options of `keras.Model.fit` after those that `Distiller.fit` names, in their order."""

_BY_EXAMPLE = (
    "Without labels give tf.data.Dataset.from_tensor_slices((features, weights)).batch(n)"
    ".map(lambda x, w: (x, None, w))."
)


def check_heads(losses: Mapping[str, Loss], data: Any) -> None:
    """Refuses losses with another head than the task of the examples, where Batches name it."""
    if isinstance(data, Batches) and data.encoded.task is not None:
        labels.check_heads(losses, data.encoded.task.head)


def check_weights(
    losses: Mapping[str, Loss],
    student: keras.Model,
    data: tuple[Any, Any],
    options: Mapping[str, Any],
) -> None:
    """Refuses weights of `fit` and `evaluate` that Keras would read otherwise, or not at all.

    `data` are features and labels. Keras reads any table of labels as one-hot: tags of tokens would
    weigh their whole text by the place of the largest. Sample weights without labels it drops.
    """
    dev = options.get("validation_data")
    weighted = [("sample_weight", *data, options.get("sample_weight"))]
    if isinstance(dev, tuple) and len(dev) == 3:
        weighted.append(("validation_data", *dev))
    for option, features, gold, weights in weighted:
        if gold is None and weights is not None:
            if not isinstance(features, Mapping | tuple | list | np.ndarray | tf.Tensor):
                remedy = "Let the data set give them: (features, labels, weights)."
                raise errors.ConfigError(option, "none beside a data set", "weights", remedy)
            expected = "labels with the weights of examples"
            raise errors.ConfigError(option, expected, "weights alone", _BY_EXAMPLE)
    by_class = options.get("class_weight")
    if not by_class:
        return
    read = (labels.LogitLoss, labels.GoldLabels)
    heads = {loss.head for loss in losses.values() if isinstance(loss, read)}
    heads.add(models.head_of(student))
    labels.check_class_weights(student, heads & labels.HEADS.keys())
    width = models.num_labels_of(student)
    if width is not None and set(by_class) != set(range(width)):
        expected = f"a weight for each of the {width} classes, from 0"
        raise errors.ConfigError("class_weight", expected, by_class)


def check_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    """Refuses an optimizer that puts averages into the weights at the end of a fit.

    It averages what the loss of a step reaches, before rates by layer, and Keras asks it for all
    that can be trained; a fit that is resumed would go on from the averages.
    """
    if getattr(optimizer, "use_ema", False):
        raise errors.ConfigError(
            "optimizer",
            "use_ema=False",
            "use_ema=True",
            "Average the weights in a callback: on_train_batch_end, and set them after the fit.",
        )


def check_batch_size(data: Any, batch_size: int | None) -> None:
    """Refuses a batch size beside Batches, which have their own."""
    if batch_size is not None and isinstance(data, TrainingBatches):
        raise errors.ConfigError(
            "batch_size",
            f"none beside {type(data).__name__}, which have a size of their own",
            batch_size,
            "Make others: tfdistill.data.batches.Batches(data.train.encoded, "
            f"batch_size={batch_size}).",
        )


def check_no_batches(data: Any) -> None:
    """Refuses batches where answers are wanted in the order of the examples."""
    if isinstance(data, TrainingBatches):
        raise errors.ConfigError(
            "predict(x)",
            "features by name, or a data set of them",
            f"{type(data).__name__}, which has the examples in an order of its own",
            "Call tfdistill.training.predict_logits(distiller.student, batches): its rows are in "
            "the order of the examples.",
        )


def check_teacher(teacher: Any, dev: Any) -> bool:
    """Refuses a teacher that answers labelled examples near chance; returns whether it was judged.

    Only a model with the head of the examples' task is, and only on Batches of a task, with labels.
    """
    if not isinstance(dev, Batches) or not isinstance(teacher, keras.Model):
        return False
    encoded, task = dev.encoded, dev.encoded.task
    if task is None or encoded.labels is None:
        return False
    head = models.head_for(task.head, task.num_labels)
    width = head.num_labels or models.num_labels_of(teacher)
    if (models.head_of(teacher), models.num_labels_of(teacher)) != (head.kind, width):
        return False
    reached = task.score(models.predict_logits(teacher, dev), encoded)
    analysis.check_model("teacher", reached, task, analysis.gold_labels(encoded))
    return True


def refuse_saving(name: str) -> None:
    """Refuses to save a distiller, whose class is called `name`: its student is what is saved."""
    raise errors.ConfigError(
        f"{name}.save",
        "a student to save",
        "the distiller, whose teacher and losses are no part of it",
        "Save distiller.student, with tfdistill.weights.save_hf or its own save; "
        "tfdistill.fit keeps checkpoints that resume.",
    )
