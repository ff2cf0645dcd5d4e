"""Projections of a student's states to its teacher's width."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras


def projection(student_width: int, teacher_width: int, name: str) -> keras.layers.Dense:
    """Makes a Dense with bias that learns with the student and is no part of it.

    Args:
      student_width: Width of what it is given.
      teacher_width: Width of what it returns.
      name: Tells its variables apart in a checkpoint.

    Returns:
      The layer, built, so that its variables are there before the first step.
    """
    layer = keras.layers.Dense(
        teacher_width,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.02),
        name=name,
    )
    with tf.name_scope(name):  # as a call would
        layer.build((None, student_width))
    return layer
