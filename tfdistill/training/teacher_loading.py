"""The teacher of a distillation: loaded by name, its labels in the order of the task's."""

from __future__ import annotations

import tf_keras as keras

from tfdistill import config, errors, models, tasks, weights
from tfdistill.weights import head_checks


def load_teacher(
    source: str,
    task: str | tasks.TaskSpec | None = None,
    num_labels: int | None = None,
    *,
    new_head: bool = False,
) -> keras.Model:
    """Loads a teacher from a run, a Hugging Face folder or a hub id.

    Args:
      source: A run folder (of `finetune` its teacher, otherwise its student), a Hugging Face
        folder or a hub id.
      task: The task whose labels it must answer, in the task's order; its outputs are permuted
        by label name where the checkpoint has another order.
      num_labels: The number of outputs, where there is no named task.
      new_head: Whether the head starts at random instead of from the checkpoint: for a model that
        `LabelTrainer` trains before it teaches. That of a regression starts at 0; see
        `training.start_at_numbers`.

    Returns:
      A model with the task's head, a classifier of `num_labels`, or an encoder when neither is
      given.

    Raises:
      WeightsError: If the checkpoint cannot be read or does not fit.
      TeacherError: If it has no head for the task and `new_head` is not given, or its labels are
        not the task's.

    Examples:
      >>> teacher = tfdistill.load_teacher("teacher", task="sst2")
      >>> teacher.output_shape
      (None, 2)
    """
    source = config.model_folder(source)
    if task is None and num_labels is None:
        return weights.load_encoder(source)
    spec = tasks.task(task) if isinstance(task, str) else task
    head = models.Head("sequence", num_labels or 0)
    if spec is not None:
        head = models.head_for(spec.head, spec.num_labels)
    if head.traits.vectors:
        fresh = models.Head("embedding") if new_head else None
        return weights.load_embedder(source, head=fresh).model
    checkpoint = weights.open_checkpoint(source)
    if not new_head and not weights.has_head(checkpoint, head.kind):
        raise errors.TeacherError(
            f"teacher {source}" + ("" if spec is None else f" for {spec.name}"),
            f"a model with a head of kind {head.kind!r}",
            weights.other_head(checkpoint),
            "Fine-tune it first: `tfdistill finetune`, or load it with new_head=True and train it "
            "with tfdistill.LabelTrainer.",
        )
    loaded = weights.load_model(
        checkpoint,
        head.kind,
        num_labels=head.num_labels,
        new_head=new_head,
        task_kind=None if spec is None else spec.kind,
        pairs=spec is not None and spec.pair_column is not None,
    )
    if spec is not None:
        align_labels(loaded.model, loaded.labels, spec)
    return loaded.model


def align_labels(model: keras.Model, labels: tuple[str, ...] | None, task: tasks.TaskSpec) -> None:
    """Puts a classifier's outputs into the order of the task's label names, see `label_order`.

    Args:
      model: The classifier, changed in place: once, since `labels` no longer describe it then.
      labels: Its label names, in the order of its outputs.
      task: Names the labels in the wanted order.

    Raises:
      TeacherError: If the names, or their number, differ from the task's.
    """
    order = label_order(model, labels, task)
    if order is None:
        return
    classifier = model.get_layer(models.read_head(model).layer)
    # A quantization-aware layer also has ranges, which no order changes.
    for weight in classifier.weights:
        if weight.name.rsplit("/", 1)[-1] in ("kernel:0", "bias:0"):
            weight.assign(weight.numpy()[..., order])


def label_order(
    model: keras.Model, labels: tuple[str, ...] | None, task: tasks.TaskSpec
) -> list[int] | None:
    """Finds the order of a classifier's outputs in which they answer for the task's labels.

    Checkpoints of one task differ in the order of their labels, so the names decide. Names such
    as LABEL_0 say nothing: then the order is taken as it is.

    Args:
      model: The classifier; not changed.
      labels: Its label names, in the order of its outputs.
      task: Names the labels in the wanted order.

    Returns:
      The index of the output for each label of the task; None where they are in order.

    Raises:
      TeacherError: If the names, or their number, differ from the task's.
    """
    if task.traits.vectors:  # vectors, of any width
        return None
    expected = task.num_labels
    if models.num_labels_of(model) != expected:
        raise errors.TeacherError(
            "model",
            f"{expected} outputs for {task.name}",
            models.num_labels_of(model),
            "Fine-tune it on the task (`tfdistill finetune`, teacher.finetune in a recipe).",
        )
    if task.traits.nameless or not labels:
        return None
    model_labels, task_labels = [*labels], [*task.labels]
    if sorted(model_labels) != sorted(task_labels):  # case tells nothing, unless it is all
        model_labels = [name.casefold() for name in labels]
        task_labels = [name.casefold() for name in task.labels]
    same = sorted(model_labels) == sorted(task_labels)
    if not same and head_checks.are_unnamed(enumerate(labels)):
        return None
    if not same or len({*model_labels}) < len(model_labels):
        raise errors.TeacherError(
            f"labels of the model, for {task.name}",
            f"the names {list(task.labels)}",
            list(labels),
            "Spell the labels of the files as the model names them, or fine-tune it on them.",
        )
    order = [model_labels.index(name) for name in task_labels]
    return None if order == sorted(order) else order
