"""Starts a student as a pruned copy of its teacher."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import tf_keras as keras

from tfdistill import errors, losses, models
from tfdistill.pruning.importance import measure
from tfdistill.pruning.refitting import refit
from tfdistill.pruning.sample import Sample, in_few_passes
from tfdistill.pruning.shape import check_prunable
from tfdistill.pruning.weights import Selection, choose, pruned_weights, stream_basis


@dataclasses.dataclass(frozen=True)
class PrunedStart:
    """The origin of a student that was cut.

    Attributes:
      selection: Layers, neurons and heads.
      basis: The teacher's directions that the student keeps, (d, w): a student state y stands for
        the teacher state ``basis y``. None where the widths are equal.
    """

    selection: Selection
    basis: np.ndarray | None


def initialise_by_pruning(
    student: keras.Model,
    teacher: keras.Model,
    sample: Sample,
    *,
    layers: str | Sequence[int] = "uniform",
    outputs: bool = True,
    norms: bool = True,
    head: bool = True,
    multi_label: bool = False,
) -> PrunedStart:
    """Starts a smaller student as a part of its teacher.

    Layers are chosen by `losses.layer_map`, neurons and heads by importance (`measure`), directions
    of a narrower student by the second moments of the hidden states (`stream_basis`). The weights
    are cut (`pruned_weights`) and then fitted to the teacher's states (`refit`). Pooler and
    classifier are carried over where both models have them; a head that only the student has
    stays as it is.

    Args:
      student: A model of `tfdistill.models` with the teacher's vocabulary, in no size larger than
        the teacher; changed in place.
      teacher: A BERT, TinyBERT or DistilBERT; fine-tuned, if the student has a task. Not changed.
      sample: Batches of training texts, see `take_sample`; the same sample gives the same student.
      layers: "uniform", "top", "bottom", or a list of the teacher's layers from 0.
      outputs: Whether `refit` fits the output matrices.
      norms: Whether it fits the LayerNorms.
      head: Whether it fits the classifier.
      multi_label: Whether a text may have several labels.

    Returns:
      What was kept.

    Raises:
      ConfigError: If the student is larger in any size, or `layers` does not fit.
      ShapeError: If one of the two is no BERT, TinyBERT or DistilBERT.
      DataError: If the sample is empty. The student is then as it was.

    Reference: Xia et al. 2022, CoFi, for pruning by task data and distilling what is left; there
    masks are learned, here the importances are measured once.
    """
    teacher_config, student_config = models.config_of(teacher), models.config_of(student)
    check_prunable(teacher_config, student_config)
    sample = in_few_passes(sample)
    chosen = losses.layer_map(teacher_config.num_layers, student_config.num_layers, layers)
    if list(chosen) != sorted(set(chosen)):
        raise errors.ConfigError("layers of a pruned student", "each once, ascending", list(chosen))
    measured = measure(teacher, sample, multi_label=multi_label)
    selection = choose(measured, student_config, chosen)
    basis = stream_basis(measured, student_config, chosen)
    source = {layer.name: layer.get_weights() for layer in teacher.layers if layer.weights}
    for name, arrays in pruned_weights(source, measured, student_config, selection, basis).items():
        _fill(student, name, arrays)
    smaller = dataclasses.replace(student_config, family=teacher_config.family) != teacher_config
    if smaller:
        refit(student, teacher, sample, chosen, basis, outputs=outputs, norms=norms, head=head)
    return PrunedStart(selection, basis)


def _fill(student: keras.Model, name: str, arrays: Sequence[np.ndarray]) -> None:
    """Sets the weights of a layer that the student has; of position and type tables common rows."""
    if name not in {layer.name for layer in student.layers}:
        return
    layer = student.get_layer(name)
    current = layer.get_weights()
    if name in ("position_embeddings", "token_type_embeddings"):
        rows = min(len(current[0]), len(arrays[0]))
        table = current[0] if name == "position_embeddings" else np.zeros_like(current[0])
        table[:rows] = arrays[0][:rows]
        arrays = [table]
    if [array.shape for array in current] == [array.shape for array in arrays]:
        layer.set_weights(list(arrays))
