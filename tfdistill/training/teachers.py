"""The teacher of a distillation: loaded by name, its labels in the order of the task's.

Its answers over a training set are computed once: in blocks, here or anywhere.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
from collections.abc import Callable, Sequence

import numpy as np
import tf_keras as keras

from tfdistill import analysis, config, errors, models, tasks, weights
from tfdistill.data import parallel
from tfdistill.data.batches import Batches
from tfdistill.io import arrays, files, storage
from tfdistill.models import predict_logits
from tfdistill.tasks import schemes
from tfdistill.tasks.encoded import EncodedExamples
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
        `LabelTrainer` trains before it teaches; `training.start_head` starts it at the data.

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
    kinds = (str, tasks.TaskSpec, type(None))
    errors.check_types(source=(source, (str, os.PathLike)), task=(task, kinds))
    source = config.model_folder(os.fspath(source))
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


def align_labels(
    model: keras.Model,
    labels: tuple[str, ...] | None,
    task: tasks.TaskSpec,
    examples: Callable[[], EncodedExamples] | None = None,
) -> None:
    """Puts a classifier's outputs into the order of the task's label names, see `label_order`.

    Args:
      model: The classifier, changed in place: once, since `labels` no longer describe it then.
      labels: Its label names, in the order of its outputs.
      task: Names the labels in the wanted order.
      examples: Gives labelled examples, by whose answers outputs with names such as LABEL_0 are
        matched to the labels (`analysis.match_outputs`); None takes them in order.

    Raises:
      TeacherError: If the names, or their number, differ from the task's, or another match of
        outputs without names fits the examples about as well.
    """
    order = label_order(model, labels, task)
    others = not task.traits.nameless and labels and sorted(labels) != sorted(task.labels)
    if examples is not None and others and head_checks.are_unnamed(enumerate(labels or ())):
        order = _order_by_answers(model, task, examples())
    if order is None:
        return
    classifier = model.get_layer(models.read_head(model).layer)
    # A quantization-aware layer also has ranges, which no order changes.
    for weight in classifier.weights:
        if weight.name.rsplit("/", 1)[-1] in ("kernel:0", "bias:0"):
            weight.assign(weight.numpy()[..., order])


def _order_by_answers(
    model: keras.Model, task: tasks.TaskSpec, examples: EncodedExamples
) -> list[int]:
    """The output for each label by the answers to labelled examples, 300 or 20 a label."""
    number = min(len(examples), max(_FEWEST_MATCHED, _MATCHED_A_LABEL * task.num_labels))
    rows = np.random.default_rng(0).permutation(len(examples))[:number]
    chosen = examples.select(np.sort(rows))
    gold, logits = chosen.labels, predict_logits(model, Batches(chosen, shuffle=False))
    assert gold is not None
    if task.traits.many_classes:
        answers, gold = logits > 0, gold > 0
    else:
        logits, gold = logits[gold >= 0], gold[gold >= 0]  # of words also their other tokens
        classes = np.arange(task.num_labels)
        answers = logits.argmax(axis=1)[:, None] == classes
        gold = gold[:, None] == classes
    match = analysis.match_outputs(answers, gold)
    names = [f"LABEL_{i} is {name}" for i, name in zip(match.order, task.labels, strict=True)]
    _log.info(
        f"labels by the answers to {number} labelled rows: {', '.join(names)}; {match.right:.1%} "
        f"of the rows are right, {match.next_right:.1%} by the next best match"
    )
    return match.order


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
    tags = [[name] for name in labels or ()]  # names alone, in no sentence
    scheme = schemes.scheme_of(tags, "the model") if task.traits.over_tokens else ""
    if scheme not in ("", schemes.BIO) and "O" in task.labels:
        raise errors.TeacherError(
            f"tags of the model, for {task.name}",
            f"{schemes.BIO}, as which the files are read",
            f"{scheme}, such as {labels[-1]!r}" if labels else scheme,
            "Fine-tune it on the task (`tfdistill finetune`, teacher.finetune in a recipe).",
        )
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


_log = logging.getLogger(__name__)

BLOCK = 8192  # examples of a unit of work
_FEWEST_MATCHED, _MATCHED_A_LABEL = 300, 20  # examples, by which outputs are matched to labels
_BATCH = 64
_LOGITS = "logits"
_SEEN = ("ids", "offsets", "types", "pad_id")  # what a teacher sees of examples

Load = Callable[[], keras.Model]
Predict = Callable[[Batches], np.ndarray]


@dataclasses.dataclass(frozen=True)
class _Answers:
    """Answers blocks of examples; each comes from a file and goes into one."""

    load: Load | None  # only for workers elsewhere
    teacher: str

    def setup(self) -> Predict:
        assert self.load is not None
        teacher = self.load()
        digest = teacher_digest(teacher).hexdigest()
        if digest != self.teacher:
            raise errors.TeacherError("teacher of a worker", f"sha256 {self.teacher}", digest)
        return models.predictor(teacher)

    def process(self, unit: parallel.WorkUnit, tools: Predict) -> None:
        seen = arrays.read_arrays(unit.task, error=errors.DataError)
        encoded = EncodedExamples(**{**seen, "pad_id": int(seen["pad_id"])})
        answers = tools(Batches(encoded, batch_size=_BATCH, shuffle=False))
        target = storage.located(unit.target)
        arrays.write_arrays(target, {_LOGITS: answers}, made_from=self.teacher)


def cached_logits(
    teacher: keras.Model,
    examples: EncodedExamples,
    folder: files.Path,
    *,
    pipeline: Sequence[str] | None = None,
    load: Load | None = None,
) -> np.ndarray:
    """The teacher's logits over a training set, from a file if they were computed before.

    The file is named by a hash of the teacher's architecture, precision and weights and of the
    examples, which it holds, too, with a checksum: it never answers for another teacher or another
    set, and a damaged one is computed again. Blocks of examples are
    answered one by one, each into a file of its own: an interrupted call continues, and the result
    is the same here and in a pipeline of like machines.

    Args:
      teacher: A classifier.
      examples: The examples.
      folder: The folder of the file, a path or an address.
      pipeline: Options of Apache Beam, whose workers answer then, see
        `data.preparation.prepare_corpus`.
      load: With `pipeline`: gives the teacher to a worker, which compares its hash; a function of
        a module, or a `functools.partial` of one.

    Returns:
      Logits, float32 (examples, classes), in the order of the examples; of a head over tokens or
      spans (tokens, classes).

    Raises:
      ConfigError: If `load` is missing, or the pipeline has no such runner.
      TeacherError: If a worker has another teacher.
      EnvironmentFault: If Apache Beam is not installed, or the pipeline fails.
    """
    if pipeline is not None:
        if load is None:
            raise errors.ConfigError("load", "a function for the workers", load)
        parallel.check_pipeline(pipeline, folder)
        folder = storage.absolute(folder)
    digest = teacher_digest(teacher)
    work = _Answers(load, digest.hexdigest())
    for array in (examples.ids, examples.offsets, examples.types):
        _update(digest, array)
    made_from = digest.hexdigest()
    path = storage.located(folder) / f"logits-{made_from[:16]}.safetensors"
    cached = _read(path, made_from)
    if cached is not None:
        return cached
    todo, left = [], []
    for start in range(0, len(examples), BLOCK):
        end = min(start + BLOCK, len(examples))
        file = str(path.with_suffix("") / f"{start:09d}-{end:09d}")
        unit = parallel.WorkUnit(
            f"examples {start} to {end - 1}", f"{file}.safetensors", f"{file}.task.safetensors"
        )
        todo.append(unit)
        if _read(unit.target, work.teacher) is None:
            left.append(unit)
            block = examples.select(np.arange(start, end))
            seen = {name: np.asarray(getattr(block, name)) for name in _SEEN}
            arrays.write_arrays(storage.located(unit.task), seen)
    for _ in parallel.run(work, left, pipeline=pipeline, tools=models.predictor(teacher)):
        pass
    logits = np.concatenate(
        [arrays.read_arrays(unit.target, made_from=work.teacher)[_LOGITS] for unit in todo]
    )
    arrays.write_arrays(path, {_LOGITS: logits}, made_from=made_from)
    storage.remove_folder(path.with_suffix(""))
    return logits


def _read(path: files.Path, made_from: str) -> np.ndarray | None:
    """Reads logits that were computed before; None where there are none, or damaged ones."""
    if not storage.located(path).exists():
        return None
    try:
        return arrays.read_arrays(path, made_from=made_from)[_LOGITS]
    except (errors.WeightsError, KeyError) as fault:
        _log.info(f"{fault} The teacher's answers are computed again.")
        return None


def teacher_digest(teacher: keras.Model) -> hashlib._Hash:
    """Begins a hash with a teacher's architecture, precision and weights."""
    policies = [layer.dtype_policy.name for layer in teacher.layers]
    digest = hashlib.sha256(repr((models.config_of(teacher), policies)).encode())
    for array in teacher.get_weights():
        _update(digest, array)
    return digest


def _update(digest: hashlib._Hash, array: np.ndarray) -> None:
    digest.update(repr((array.dtype.str, array.shape)).encode())
    digest.update(array.tobytes())
