"""The models of a run: each is trained, saved and described for metrics.json, once."""

from __future__ import annotations

import contextlib
import logging
import math
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import analysis, compress, errors, manifest, models, results, tasks, training
from tfdistill.data import answers, batches, from_config, model_answers, unlabelled
from tfdistill.data.task_data import TaskData
from tfdistill.io import files
from tfdistill.run import corpora, deliver, inputs, students, task_models, teachers
from tfdistill.run.folder import RunContext
from tfdistill.run.soft_labels import SoftLabels
from tfdistill.training import callbacks

_log = logging.getLogger(__name__)

_AS_IT_CAME = (
    "The teacher was not fine-tuned in this run: if it was trained on rows of this data, its "
    "figures and its student's are better than on new text."
)

PRETRAINED = "teacher/pretrained.json"
_TUNED = "teacher/finetune/history.csv"
_WORD_METRICS = ("mlm_accuracy", "mlm_loss")
_TEACHER: dict[str, Any] = {"name": "teacher", "role": "teacher", "folder": "teacher"}


def pretrain_teacher(context: RunContext) -> results.PretrainedTeacher:
    """Pre-trains the teacher and saves it, unless that is done."""

    def work() -> results.PretrainedTeacher:
        target = context.root / teachers.PRETRAINED
        folder = target.parent / "pretrain"
        text = context.corpora[corpora.TEACHER]
        model, result = teachers.pretrain(context.recipe, context.data.tokenizer, text, folder)
        deliver.save_model(model, context.data, target)
        return result

    fits = "teacher/pretrain"
    return context.folder.step(PRETRAINED, results.PretrainedTeacher, work, fits)


def pretrained_teacher(context: RunContext) -> results.ModelResult:
    """Describes a teacher that was pre-trained here, for a run without a task."""
    pretrained = results.read_result_file(context.root / PRETRAINED, results.PretrainedTeacher)
    return _describe(
        context,
        context.teachers.words,
        **_TEACHER,
        seed=context.recipe.seeds[0],
        stages=("mlm",),
        metrics={name: pretrained.metrics[name] for name in _WORD_METRICS},
        num_examples=0,
        train_seconds=pretrained.train_seconds,
        history=(results.HistoryFile.of(context.root, "mlm", "teacher/pretrain/history.csv"),),
    )


def train_teacher(context: RunContext) -> results.ModelResult:
    """Gets the teacher of the task and saves it, unless that is done."""
    data, tuned = context.data.of_task, context.recipe.teacher.finetune

    def work() -> results.ModelResult:
        if context.teachers.soft_labels is not None:
            return _score_soft_labels(context, context.teachers.soft_labels)
        model, seconds = teachers.task_teacher(context.recipe, data, context.root)
        if task_models.is_as_named(context.recipe, data, context.root):
            context.teachers.task = model  # it stays where it is, and is read once
        else:
            deliver.save_model(model, data, context.root / "teacher" / "model", data.task.labels)
        metrics = _evaluate(model, data, context.root / "teacher")
        return _describe(
            context,
            model,
            **_TEACHER,
            seed=context.recipe.seeds[0],
            stages=() if tuned is None else ("labels",),
            metrics=metrics,
            num_examples=data.dev_examples.num_scored,
            train_seconds=seconds,
            history=()
            if tuned is None or tuned.pooled
            else (results.HistoryFile.of(context.root, "labels", _TUNED),),
        )

    place, fits = "teacher/result.json", "teacher"
    return context.folder.step(place, results.ModelResult, work, fits, folder="teacher")


def _score_soft_labels(context: RunContext, teacher: SoftLabels) -> results.ModelResult:
    """Scores the answers in files on the development texts that they answer."""
    data, rows = context.data.of_task, teacher.dev_examples
    _keep_answers(data.dev_examples.select(rows), teacher.dev, context.root / "teacher")
    return results.ModelResult(
        **_TEACHER,
        seed=context.recipe.seeds[0],
        metrics=data.task.score(teacher.dev, teacher.dev_set(data.dev).encoded),
        num_examples=data.dev_examples.select(rows).num_scored,
    )


def check(context: RunContext, model: results.ModelResult) -> results.ModelResult:
    """Refuses a teacher or a student that answers near chance; it is saved all the same."""
    data, recipe = context.data.of_task, context.recipe
    section = recipe.student if model.role == "student" else recipe.teacher
    started = recipe.student.initialise if model.role == "student" else ""
    in_files = None if model.role == "student" else context.teachers.soft_labels
    remedy = ", or name their labels in another order" if data.task.labels else ""
    source, dev = "checkpoint" if recipe.teacher.finetune is None else "training", data.dev
    if in_files is not None:
        source, dev = "answers", in_files.dev_set(dev)

    def causes() -> list[str]:
        """What may have made it weak."""
        if in_files is not None:
            return [f"the files answer other texts{remedy}"]
        return likely_causes(context.root, model, initialise=started)

    analysis.check_model(
        model.role,
        model.metrics,
        data.task,
        analysis.gold_labels(dev.encoded),
        allow_weak=section.allow_weak,
        causes=causes,
        source=source,
    )
    return model


def train_student(context: RunContext, name: str, seed: int) -> results.ModelResult:
    """Trains a variant with a seed and saves the student, unless that is done."""
    folder = f"students/{name}/seed-{seed}"

    def work() -> results.ModelResult:
        stages = context.recipe.variants[name].stages
        student = students.train_stages(context, stages, seed)
        model, labels, metrics, num_examples = student.model, (), {}, 0
        if context.data.task is not None:
            data = context.student_data.of_task
            labels, num_examples = data.task.labels, data.dev_examples.num_scored
        elif student.masked_lm is not None:
            model, settings = student.masked_lm, context.recipe.stages[stages[-1]]
            held_out = context.corpora[stages[-1]].held_out(  # of the last stage
                batch_size=settings.batch_size, mask_rate=settings.mask_rate
            )
            measured = training.MaskedLmEvaluation(model, held_out)()
            metrics = {name: measured[name] for name in _WORD_METRICS}
        deliver.save_model(model, context.student_data, context.root / folder, labels)
        if context.data.task is not None:
            metrics = _evaluate(model, context.student_data.of_task, context.root / folder)
        return _describe(
            context,
            model,
            name=name,
            role="student",
            seed=seed,
            stages=stages,
            metrics=metrics,
            num_examples=num_examples,
            train_seconds=students.train_seconds(context, stages, seed),
            folder=folder,
            history=students.histories(context, stages, seed),
        )

    place = f"results/{name}-{seed}.json"
    return context.folder.step(place, results.ModelResult, work, folder=folder)


def choose(
    trained: Sequence[results.ModelResult], variant: str, metric: str
) -> results.ModelResult:
    """The variant's median seed (the lower one): the typical result, not the luckiest one."""
    scored = [(model, model.metrics[metric]) for model in trained if model.name == variant]
    ranked = [(model, -math.inf if value is None else value) for model, value in scored]
    median = statistics.median_low([value for _, value in ranked])
    return next(model for model, value in ranked if value == median)


def test_metrics(context: RunContext) -> dict[str, Any]:
    """Scores teacher, chosen student and its file on the test set, and keeps their answers.

    Returns fields of `results.RunMetrics`: "test_metrics" and "test_counts", by "teacher",
    "student" and "file", empty without a labelled test set, or where that is the development set;
    and "caveats", what makes the figures of the run doubtful, a sentence each.
    """
    settings, task, data = context.recipe.data, context.data.of_task.task, context.data.of_task
    dev = data.train_examples if settings.cross_fitted else data.dev_examples
    caveats = analysis.check_data(task, data.train_examples, dev).warnings
    if context.recipe.teacher.finetune is None:
        caveats += (_AS_IT_CAME,)
    try:
        examples = from_config.test_examples(settings, context.root / "data")
    except errors.DataError as error:
        _log.warning(f"no figures on the test set: {error}")
        return {"caveats": caveats}
    if examples is None:
        return {"caveats": caveats}
    caveats += unlabelled.warn_of_shared(examples, data.train_examples, "test texts")
    scores: dict[str, dict[str, float | None]] = {}
    counts: dict[str, dict[str, int]] = {}
    logits: dict[str, np.ndarray] = {}
    answered, itself = context.recipe.teacher.answers, context.recipe.student.is_teacher
    for role, folder in (("teacher", "teacher"), ("student", "student"), ("file", "export")):
        if (role == "teacher" and answered is not None) or (role == "student" and itself):
            continue
        model = inputs.open_answerer(str(context.root / folder), task)
        encoded = batches.Batches(model.encode(examples, settings), batch_size=64, shuffle=False)
        outputs = model.outputs(encoded, task)
        scores[role] = {**model.score(outputs, encoded.encoded, task)}
        logits[role] = model.logits(outputs, task)
        if counted := task.traits.counts(task, logits[role], encoded.encoded):
            counts[role] = counted
    labels = context.data.of_task.train_examples.labels
    if analysis.has_linear(task) and labels is not None:
        logits["majority"] = analysis.majority_logits(task, labels, len(examples))
    digest = ""
    if "file" in logits:
        digest = manifest.read_manifest(context.root / "export", verify=False).model.sha256
    large = None
    with contextlib.suppress(errors.DataError):  # the test set may lack them
        if (read := model_answers.read_model_answers(settings, examples)) is not None:
            large = np.stack([read.gold, read.classes], axis=1)
    test_answers = answers.of_examples(examples, logits, model_sha256=digest, large=large)
    if test_answers is not None:
        answers.write(test_answers, context.root / answers.TEST_FILE)
    return {"test_metrics": scores, "test_counts": counts, "caveats": caveats}


def _evaluate(model: keras.Model, data: TaskData, folder: pathlib.Path) -> dict[str, float]:
    """Scores a model on the development set, and keeps its answers for the report."""
    if data.settings.cross_fitted:
        logits = training.read_unseen(folder / teachers.FINETUNED)
    else:
        logits = training.predict_logits(model, data.dev)
    metrics = data.task.score(logits, data.dev.encoded)
    _keep_answers(data.dev_examples, logits, folder)
    return metrics


def _keep_answers(examples: tasks.Examples, logits: np.ndarray, folder: pathlib.Path) -> None:
    # The texts once: the answers of a run are paired.
    recorded = answers.of_examples(examples, {"model": logits}, with_texts=folder.name == "teacher")
    if recorded is not None:
        answers.write(recorded, folder / answers.FILE_NAME)


def _describe(context: RunContext, model: keras.Model, **facts: Any) -> results.ModelResult:
    """Adds parameters, FLOPs by length and shape to what is known of a model."""
    shape = models.config_of(model)
    head = models.read_head(model)
    width = None if head.traits.vectors else head.num_labels or None
    sizes = ("family", "num_layers", "hidden_size", "num_heads", "intermediate_size")
    return results.ModelResult(
        **facts,
        parameters=sum(weight.shape.num_elements() for weight in compress.float_weights(model)),
        flops={
            str(length): models.flops(shape, length, width, over_tokens=head.over_tokens)
            for length in context.recipe.export_lengths
        },
        architecture={
            **{name: getattr(shape, name) for name in sizes},
            **({"head_size": shape.head_width} if shape.num_heads else {}),
        },
    )


_FEW_STEPS = 500
_ONE_ANSWER = 0.9  # share of the examples that get the same answer
_LEAST_FALL = 0.05  # of the loss, from the first epoch to the last


def likely_causes(
    root: pathlib.Path, model: results.ModelResult, *, initialise: str = ""
) -> list[str]:
    """Lists what may have made a model weak, the most likely first, each with what to try.

    `initialise` says how a student started. Clauses; empty where nothing stands out.
    """
    part = f"stages.{model.stages[-1]}" if model.role == "student" else "teacher.finetune"
    rows = [callbacks.read_history(root / part.csv) for part in model.history]
    rows = [part for part in rows if part]
    causes = []
    teacher = _logits(root / "teacher") if model.role == "student" else None
    if teacher is not None and teacher.shape[1] > 1 and model.stages != ("labels",):
        share = analysis.entropy_share(teacher)
        if share >= analysis.NEARLY_UNIFORM:
            causes.append(
                f"the teacher's answers are nearly uniform (entropy {share:.2f} of the largest): "
                f"add gold labels (--set {part}.loss_weights.label=1)"
            )
    if initialise == "random":
        causes.append("it started from random weights: student.initialise=auto starts it pruned")
    steps = sum(int(float(part[-1].get("step") or 0)) for part in rows)
    if rows and steps < _FEW_STEPS:
        causes.append(f"it had {steps} updates: give it more, with --set {part}.epochs=N")
    causes += _of_loss(rows[-1] if rows else [], part)
    logits = _logits(root / str(model.folder))
    if logits is not None and logits.shape[1] > 1:
        share = np.bincount(logits.argmax(axis=1)).max() / len(logits)
        if share >= _ONE_ANSWER:
            causes.append(
                f"it gives one answer to {100 * share:.0f}% of the examples: where other labels "
                "are rare, weigh them with data.class_weights=balanced"
            )
    return causes


def _of_loss(rows: list[dict[str, str]], part: str) -> list[str]:
    losses = [float(row["loss"]) for row in rows if row.get("loss")]
    rates = [float(row["learning_rate"]) for row in rows if row.get("learning_rate")]
    if len(losses) < 2:
        return []
    first, last = losses[0], losses[-1]
    rate = f" at a learning rate of {max(rates):.1e}" if rates else ""
    key = f"--set {part}.learning_rate="
    fell = f"its loss went from {first:.3g} to {last:.3g}{rate}"
    if not last < first:
        return [f"{fell}: try a lower rate, {key}{max(rates, default=1e-4) / 3:.1e}"]
    if first - last < _LEAST_FALL * abs(first):
        return [f"{fell}: try a higher rate, {key}{max(rates, default=1e-5) * 3:.1e}"]
    return []


def _logits(folder: pathlib.Path) -> np.ndarray | None:
    path = folder / answers.FILE_NAME
    return answers.read(path).logits["model"] if files.is_there(path) else None
