"""How a student's weights start: from a teacher of any width, or at random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tf_keras as keras

from tfdistill import errors

_TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")


def leading_directions(table: np.ndarray, width: int) -> np.ndarray:
    """The directions that keep the most of a table of embeddings.

    The right singular vectors of ``table`` that belong to its `width` largest singular values:
    among all projections P of that rank, ``|table - table P P^T|^2`` is least for these. They
    come from the eigenvectors of ``table^T table``, which is small where the table is long. The
    sign of each is fixed (its largest entry is positive), so that runs agree.

    Args:
      table: Embeddings, (rows, teacher width).
      width: How many directions, at most the teacher's width.

    Returns:
      An orthonormal matrix, float32 (teacher width, width).
    """
    table = np.asarray(table, np.float64)
    _, vectors = np.linalg.eigh(table.T @ table)  # ascending
    leading = vectors[:, ::-1][:, :width]
    signs = np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(width)])
    return (leading * signs).astype(np.float32)


def initialise_from_teacher(student: keras.Model, teacher: keras.Model) -> None:
    """Starts a student, also a narrower one, from its teacher's embeddings.

    With V the leading directions of the teacher's word embeddings E (`leading_directions`), the
    student's word, position and type tables become E V, P V and S V. The encoder layers stay as
    they are. `initialise_projections` starts the hidden projections to match.

    Args:
      student: Changed in place.
      teacher: The same vocabulary, at least as wide.

    Raises:
      ShapeError: If the tables do not fit.
    """
    basis = _basis(student, teacher)
    for name in _TABLES:
        table, target = _table(teacher, name), _table(student, name)
        if table is None or target is None:
            continue
        rows = min(len(table), len(target))
        target[:rows] = table[:rows] @ basis
        student.get_layer(name).set_weights([target])


def initialise_projections(
    projections: Sequence[keras.layers.Layer], student: keras.Model, teacher: keras.Model
) -> None:
    """Starts hidden projections as ``W = V^T``, ``b = 0``, the way back from the student's basis.

    A student state in the basis V of `initialise_from_teacher` is then mapped to where the
    teacher has it.

    Args:
      projections: Dense layers from the student's to the teacher's width, changed in place.
      student: Gives the width.
      teacher: Gives V.

    Raises:
      ShapeError: If the tables do not fit.
    """
    basis = _basis(student, teacher)
    for projection in projections:
        projection.set_weights([basis.T, np.zeros(len(basis), np.float32)])


def _basis(student: keras.Model, teacher: keras.Model) -> np.ndarray:
    words, ours = _table(teacher, _TABLES[0]), _table(student, _TABLES[0])
    if words is None or ours is None or len(words) != len(ours):
        raise errors.ShapeError(
            errors.explain(
                "student vocabulary",
                f"{0 if words is None else len(words)} rows as in the teacher",
                0 if ours is None else len(ours),
                "Build the student with the teacher's vocab_size.",
            )
        )
    if ours.shape[1] > words.shape[1]:
        raise errors.ShapeError(
            errors.explain(
                "student width",
                f"at most the teacher's {words.shape[1]}",
                ours.shape[1],
                "Start a wider student with initialise='random'.",
            )
        )
    return leading_directions(words, ours.shape[1])


def _table(model: keras.Model, name: str) -> np.ndarray | None:
    if name not in {layer.name for layer in model.layers}:
        return None
    return np.asarray(model.get_layer(name).get_weights()[0], np.float32)
