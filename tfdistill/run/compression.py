"""The student of a stage that compresses it: what goes into the fit, and what comes out."""

from __future__ import annotations

import tf_keras as keras

from tfdistill import compress, config, models


def begin(settings: config.CompressConfig, student: keras.Model, total_steps: int) -> keras.Model:
    """Prepares a student for a stage that compresses it.

    Args:
      settings: What the stage does.
      student: The plain student; not changed.
      total_steps: Batches of the stage.

    Returns:
      The model that the stage trains.
    """
    options = {} if settings.layers is None else {"layers": settings.layers}
    if settings.method == "prune":
        return compress.prune(
            student,
            sparsity=settings.sparsity,
            total_steps=total_steps,
            begin=settings.begin,
            end=settings.end,
            block_size=settings.block_size,
            **options,
        )
    if settings.method == "cluster":
        return compress.cluster(
            student, clusters=settings.clusters, start=settings.start, **options
        )
    return compress.quantize_aware(student, **options)


def finish(trained: keras.Model) -> keras.Model:
    """Returns the student that a stage leaves: plain, or quantization-aware with its ranges."""
    return trained if compress.is_quantize_aware(trained) else compress.strip(trained)


def restart(settings: config.CompressConfig, student: keras.Model) -> keras.Model:
    """Returns a model of the form of `finish`, to load the stage's weights into."""
    if settings.method == "quantize":
        return begin(settings, student, total_steps=1)
    return student


def student_as_teacher(settings: config.CompressConfig, student: keras.Model) -> keras.Model | None:
    """Copies the student as it enters a stage, where the stage learns from it."""
    return models.with_policy(student, "float32") if settings.teacher == "student" else None
