"""Trains on one CPU and on two logical ones; prints both results as JSON.

The arguments are cases of CASES and "dropout". On one CPU the steps are run eagerly: that a graph
takes the same steps is tested elsewhere.

A program of its own, because logical devices must be made before TensorFlow starts. Both replicas
get as many real tokens (and pairs of them): a replica takes the mean over its own tokens, so with
unequal counts the mean of the means is not the mean over the global batch, on two CPUs as on two
accelerators.
"""

import contextlib
import json
import sys

import numpy as np
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import distillers, losses, models, training

LENGTHS = (5, 3, 3, 5)
STEPS = 3


def batch():
    return toys.features(LENGTHS), toys.labels(4)


class CentredMSE(losses.Loss):
    """A loss of one's own: logits up to a constant."""

    def call(self, teacher, student):
        centred = [z - tf.reduce_mean(z, axis=-1, keepdims=True) for z in (teacher, student)]
        return tf.reduce_mean(tf.math.squared_difference(*centred), axis=-1)


MULTIPLIERS = [("layer_0_*", 0.3), ("*embeddings*", 0.0), ("classifier", 3.0)]
EQUAL_WIDTHS = toys.SHALLOW_STUDENT.replace(intermediate_size=16)


def trained(method, optimizer, strategy, **compiling):
    """Weights, optimizer state and logs after some steps on the same global batch."""
    batches = STEPS * compiling.get("gradient_accumulation", 1)
    data = tf.data.Dataset.from_tensors(batch()).repeat(batches)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    with strategy.scope() if strategy else contextlib.nullcontext():
        student = toys.classifier(toys.SHALLOW_STUDENT, seed=2)
        if method == "own":
            teacher = toys.classifier(toys.SHALLOW_TEACHER, seed=1)
            distiller = distillers.Distiller(teacher, student, {"centred": CentredMSE()})
        elif method == "similarities":
            encoders = [
                models.build_embedder(c) for c in (toys.SHALLOW_TEACHER, toys.SHALLOW_STUDENT)
            ]
            teacher, student = (toys.randomise(m, seed) for seed, m in enumerate(encoders))
            in_batch = {
                "of_teacher": losses.SimilarityKL(temperature=1.0),
                "of_labels": losses.LabelSimilarity(),
            }
            distiller = distillers.Distiller(teacher, student, in_batch)
        elif method == "label":
            distiller = distillers.LabelTrainer(student)
        elif method == "mobilebert":
            teacher = toys.classifier(EQUAL_WIDTHS, seed=1)
            distiller = distillers.MobileBertDistiller(teacher, student)
        else:
            teacher = toys.classifier(toys.SHALLOW_TEACHER, seed=1)
            distiller = distillers.TinyBertDistiller(teacher, student, stage=method)
            for layer in distiller.projections:
                layer.set_weights([np.full(array.shape, 0.1) for array in layer.get_weights()])
        distiller.compile(optimizer(), **compiling, run_eagerly=strategy is None)
    # Converting the source of functions is a third of the time that tracing takes.
    distiller.train_step = tf.autograph.experimental.do_not_convert(distiller.train_step)
    logs = distiller.fit(data.with_options(options), verbose=0).history
    state = distiller.optimizer.variables
    state = state() if callable(state) else state
    # Which rows of a table had a gradient is kept where gradients come by row: not on replicas.
    state = [variable for variable in state if "reached" not in variable.name]
    values = [variable.numpy() for variable in [*distiller.trainable_variables, *state]]
    return {"logs": logs, "values": [value.ravel().tolist() for value in values]}


def noisy(strategy):
    """The classifier's bias after a step with dropout: the same example for each replica."""
    count = strategy.num_replicas_in_sync if strategy else 1
    example = tf.nest.map_structure(lambda rows: tf.repeat(rows[:1], count, axis=0), batch())
    with strategy.scope() if strategy else contextlib.nullcontext():
        config = toys.SHALLOW_STUDENT.replace(dropout=0.5, attention_dropout=0.5)
        trainer = distillers.LabelTrainer(toys.classifier(config, seed=2))
        trainer.compile(keras.optimizers.SGD(0.5))
    trainer.fit(tf.data.Dataset.from_tensors(example), verbose=0)
    return trainer.student.get_layer("classifier").get_weights()[1].tolist()


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.5),
    "global": lambda: training.adamw(0.01, clip="global", clip_norm=0.05),
    "per_tensor": lambda: training.adamw(0.01, clip="per_tensor", clip_norm=0.05),
    "lamb": lambda: training.lamb(0.01, clip_norm=0.05),
    "gentle": lambda: keras.optimizers.SGD(0.01),
    "small": lambda: keras.optimizers.SGD(1e-4),
}
GROUPS = {"lr_multipliers": MULTIPLIERS, "gradient_accumulation": 2}
CASES = {
    "labels": ("label", "sgd", {}),
    "layers": ("intermediate", "sgd", {}),
    "clipped": ("label", "global", {}),
    "clipped by tensor": ("label", "per_tensor", {}),
    "groups": ("label", "lamb", GROUPS),
    "mobilebert": ("mobilebert", "small", {}),
    "own": ("own", "sgd", {}),
    "similarities": ("similarities", "gentle", {}),
}


def main(*names):
    cpus = tf.config.list_physical_devices("CPU")
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpus[0], two)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    assert strategy.num_replicas_in_sync == 2
    results = {}
    for name in names:
        if name == "dropout":
            results[name] = [noisy(None), noisy(strategy)]
            continue
        method, optimizer, options = CASES[name]
        results[name] = [
            trained(method, OPTIMIZERS[optimizer], where, **options) for where in (None, strategy)
        ]
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
