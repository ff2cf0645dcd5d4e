"""Starts of a student's weights: from a teacher's embeddings at any width, or from its layers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import tf_keras as keras

from tfdistill import errors, losses, models
from tfdistill.losses import checks
from tfdistill.models.layers import layer_of
from tfdistill.tasks import Examples
from tfdistill.tasks.encoded import EncodedExamples

_SCALED = 1000  # examples that the scale of word vectors is measured on
_TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
# Fields in which a student may differ from a teacher whose layers it copies.
_FREE = ("family", "num_layers", "max_positions", "type_vocab_size", "pooler")
_FREE += ("dropout", "attention_dropout", "classifier_dropout")


def start_at_numbers(model: keras.Model, examples: Examples) -> None:
    """Starts the new head of a regression at the mean and the spread of its training labels.

    The kernel is multiplied by their standard deviation, and the bias becomes their mean: the
    encoder then learns prices in thousands as it learns grades from 0 to 5. Adam's steps, as long
    as the learning rate, would never take a bias of 0 to a mean of 2,500.

    Args:
      model: Changed in place, unless its task has other answers than a number.
      examples: The training set.
    """
    if examples.labels is None or not examples.spec.traits.one_number:
        return
    labels = np.asarray(examples.labels, np.float64)
    head = layer_of(model, models.read_head(model).layer)
    kernel, bias = head.get_weights()
    spread = np.std(labels) or 1.0
    head.set_weights([kernel * np.float32(spread), np.full_like(bias, np.mean(labels))])


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

    MobileBERT's positions and types are added behind the projection of its word embeddings, in
    another space than theirs: they are copied from a teacher of that width, and stay as they are
    under any other.

    Args:
      student: Changed in place.
      teacher: The same vocabulary, at least as wide.

    Raises:
      ShapeError: If the tables do not fit.

    Examples:
      >>> config = tfdistill.models.config_of(teacher).replace(hidden_size=12)
      >>> narrow = tfdistill.models.build_classifier(config, num_labels=2)
      >>> tfdistill.initialise_from_teacher(narrow, teacher)
      >>> narrow.output_shape
      (None, 2)
    """
    basis = _basis(student, teacher)
    for name in _TABLES:
        table, target = _table(teacher, name), _table(student, name)
        if table is None or target is None:
            continue
        rows = min(len(table), len(target))
        if (table.shape[1], target.shape[1]) == basis.shape:
            target[:rows] = table[:rows] @ basis
        elif table.shape[1] == target.shape[1]:
            target[:rows] = table[:rows]
        student.get_layer(name).set_weights([target])


def scale_words(student: keras.Model, examples: EncodedExamples) -> None:
    """Scales the word vectors of a static student: the mean square of the texts' means becomes 1.

    Weights that let frequent words count less (Arora et al. 2017, as in model2vec) are left out:
    on questions, whose type hangs on words such as "how many", they cost accuracy.

    Args:
      student: A static student, changed in place.
      examples: Training texts; the first 1,000 are measured.
    """
    layer = student.get_layer(_TABLES[0])
    (table,) = layer.get_weights()
    some = examples.select(range(min(len(examples), _SCALED)))
    means = np.add.reduceat(table[some.ids], some.offsets[: len(some)]) / some.lengths[:, None]
    layer.set_weights([table / max(np.sqrt(np.mean(np.square(means))), 1e-12)])


def initialise_projections(
    projections: Sequence[keras.layers.Layer], student: keras.Model, teacher: keras.Model
) -> None:
    """Starts hidden projections as ``W = V^T``, ``b = 0``, the way back from the student's basis.

    A student state in the basis V of `initialise_from_teacher` is then mapped to where the
    teacher has it. States of another width than the word embeddings (MobileBERT's) are in no such
    basis: their projections stay as they are, as do all where the student's are the wider words.

    Args:
      projections: Dense layers from the student's to the teacher's width, changed in place.
      student: Gives the width.
      teacher: Gives V.

    Raises:
      ShapeError: If the tables do not fit.
    """
    words, ours = (_table(model, _TABLES[0]) for model in (teacher, student))
    if words is not None and ours is not None and ours.shape[1] > words.shape[1]:
        return  # such a student starts at random
    basis = _basis(student, teacher)
    for projection in projections:
        if tuple(projection.kernel.shape) != basis.T.shape:
            continue
        projection.set_weights([basis.T, np.zeros(len(basis), np.float32)])


def initialise_from_layers(
    student: keras.Model,
    teacher: keras.Model,
    *,
    layers: Sequence[int],
    mlm_head: bool = True,
    mlm_transform: bool = False,
    token_types: Literal["fold", "drop"] = "fold",
) -> None:
    """Starts a student of the teacher's width from some of its layers, as DistilBERT does.

    Student layer i becomes a copy of teacher layer ``layers[i]``. The word table, what else is
    before the blocks, and the pooler are copied where both have them; classifiers and
    next-sentence heads stay as they are. Of positions and token types the rows that both tables
    have are copied.

    Where only the teacher has token types, "fold" adds its type 0 to every row of the positions,
    ``P'_l = P_l + S_0``: the embeddings of a single text are then exactly the teacher's. (Added to
    the word table instead, it would move the tied decoder as well.) "drop" leaves it out, as the
    published script does. Where only the student has token types, they become 0.

    Args:
      student: Changed in place.
      teacher: Blocks, widths and vocabulary as in the student.
      layers: A teacher layer for each student layer, from 0, in any order, repeated or not.
        DistilBERT's 6 of 12 are [0, 2, 4, 7, 9, 11]; BERT-PKD starts from the first ones.
      mlm_head: Where both are masked language models, copies the decoder: the bias over the
        vocabulary; its matrix is the word table.
      mlm_transform: Copies what is before that decoder too, a Dense and a LayerNorm, which the
        published script does on request only.
      token_types: "fold" or "drop".

    Raises:
      ConfigError: If `layers` does not name a teacher layer for each student layer, or an option
        is unknown.
      ShapeError: If the shapes of the blocks differ, or `mlm_transform` is asked for and one of
        the two is no masked language model. The student is then as it was.

    Examples:
      >>> tfdistill.initialise_from_layers(student, teacher, layers=[0, 1, 3])
      >>> layers = [model.get_layer("word_embeddings") for model in (student, teacher)]
      >>> words = [layer.get_weights()[0] for layer in layers]
      >>> bool((words[0] == words[1]).all())
      True

    Reference: Sanh et al. 2019, DistilBERT, section 3, and the published extraction script.
    """
    checks.check_choice("token_types", token_types, ("fold", "drop"))
    teacher_config, student_config = models.config_of(teacher), models.config_of(student)
    _check_same_blocks(teacher_config, student_config)
    chosen = losses.layer_map(teacher_config.num_layers, student_config.num_layers, list(layers))
    for model, role in ((teacher, "teacher"), (student, "student")):
        if mlm_transform and not models.read_head(model).traits.predicts_words:
            raise errors.ShapeError("mlm_transform", f"a {role} with a masked-LM head", "none")
    copied = {"word_embeddings", "embedding_projection", "embeddings_layer_norm", "pooler"}
    copied |= {"mlm_bias", "mlm_extra_decoder"} if mlm_head else set()
    copied |= {"mlm_transform", "mlm_layer_norm"} if mlm_transform else set()
    sources = {layer.name: layer for layer in teacher.layers}
    for layer in student.layers:
        block = re.fullmatch(r"layer_(\d+)_(\w+)", layer.name)
        name = f"layer_{chosen[int(block[1])]}_{block[2]}" if block else layer.name
        if layer.weights and (block or name in copied) and name in sources:
            layer.set_weights(sources[name].get_weights())
    _copy_positions_and_types(student, teacher, fold=token_types == "fold")


def _copy_positions_and_types(student: keras.Model, teacher: keras.Model, *, fold: bool) -> None:
    positions, types = (_table(teacher, name) for name in _TABLES[1:])
    own_positions, own_types = (_table(student, name) for name in _TABLES[1:])
    assert positions is not None and own_positions is not None
    if own_types is None and types is not None and fold:
        positions = positions + types[0]
    rows = min(len(positions), len(own_positions))
    own_positions[:rows] = positions[:rows]
    student.get_layer(_TABLES[1]).set_weights([own_positions])
    if own_types is not None:
        if types is None:
            types = np.zeros_like(own_types)
        rows = min(len(types), len(own_types))
        own_types[:rows] = types[:rows]
        student.get_layer(_TABLES[2]).set_weights([own_types])


def _check_same_blocks(teacher: models.EncoderConfig, student: models.EncoderConfig) -> None:
    teacher_sizes, student_sizes = dataclasses.asdict(teacher), dataclasses.asdict(student)
    differing = [
        f"{field} {student_sizes.get(field)!r} instead of {teacher_sizes.get(field)!r}"
        for field in dict.fromkeys([*teacher_sizes, *student_sizes])
        if field not in _FREE and teacher_sizes.get(field) != student_sizes.get(field)
    ]
    if differing:
        raise errors.ShapeError(
            "student that copies layers",
            "the teacher's blocks, widths and vocabulary",
            ", ".join(differing),
            "A student of another width starts with initialise_from_teacher.",
        )


def _basis(student: keras.Model, teacher: keras.Model) -> np.ndarray:
    words, ours = _table(teacher, _TABLES[0]), _table(student, _TABLES[0])
    if words is None or ours is None or len(words) != len(ours):
        raise errors.ShapeError(
            "student vocabulary",
            f"{0 if words is None else len(words)} rows as in the teacher",
            0 if ours is None else len(ours),
            "Build the student with the teacher's vocab_size.",
        )
    if ours.shape[1] > words.shape[1]:
        raise errors.ShapeError(
            "student width",
            f"at most the teacher's {words.shape[1]}",
            ours.shape[1],
            "Start a wider student with student.initialise=random.",
        )
    return leading_directions(words, ours.shape[1])


def _table(model: keras.Model, name: str) -> np.ndarray | None:
    if name not in {layer.name for layer in model.layers}:
        return None
    return np.asarray(model.get_layer(name).get_weights()[0], np.float32)
