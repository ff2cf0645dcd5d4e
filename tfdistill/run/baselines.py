"""What a student has to beat: linear models, and the same student without a teacher."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import analysis, config, models, results, training
from tfdistill.data import batches, metrics
from tfdistill.run import students
from tfdistill.run.context import RunContext
from tfdistill.run.initialise import new_student
from tfdistill.run.stage_batches import num_batches
from tfdistill.run.stages import build_stage, joint_rate
from tfdistill.run.task_models import PRESET

_MOST_EXAMPLES = 20_000  # training texts; more change a linear model little and cost minutes
_MOST_STATES = 10_000  # training texts that the teacher reads for "frozen_teacher"
_STAGE = "no_teacher_baseline"
_Answer = Callable[[RunContext], np.ndarray]


def measure_baselines(context: RunContext) -> tuple[results.BaselineResult, ...]:
    """Scores baselines on the development set, unless that is done.

    "majority" answers the most frequent class, "tfidf" is a logistic regression over words and
    pairs of words, "word_vectors" one over the mean of the teacher's word vectors,
    "frozen_teacher" one over the mean of its last hidden states: of the teacher before it was
    fine-tuned where the run knows that one, since what a fine-tuned teacher knows of the task is
    what the student is there to learn. Numbers are regressed. Tasks over words or spans have none
    of these, a BiLSTM teacher has no hidden states, and one that is known by its answers alone
    neither these nor word vectors. "no_teacher", only with ``baselines: all``,
    is the student with the same start, trained on gold labels alone for as many batches.

    Args:
      context: The run.

    Returns:
      One result each, in that order.
    """
    data, wanted = context.task_data, context.recipe.baselines
    if wanted == "none" or (wanted == "cheap" and not _has_linear(context)):
        return ()

    def work() -> results.Baselines:
        found = []
        for name, (answer, note) in _wanted(context).items():
            started = time.monotonic()
            scores = metrics.score(data.task, answer(context), data.dev.encoded)
            seconds = time.monotonic() - started
            row = results.BaselineResult(name=name, note=note, metrics=scores, seconds=seconds)
            found.append(row)
        return results.Baselines(rows=tuple(found))

    return context.folder.step("results/baselines.json", results.Baselines, work).rows


def _has_linear(context: RunContext) -> bool:
    return context.task_data.task.head in ("sequence", "multi_label")


def _wanted(context: RunContext) -> dict[str, tuple[_Answer, str]]:
    """Name -> what answers the development set, and a note."""
    rows: dict[str, tuple[_Answer, str]] = {}
    if _has_linear(context):
        rows = {"majority": (_majority, ""), "tfidf": (_tfidf, "")}
    if _has_linear(context) and context.teachers.given is None:
        rows["word_vectors"] = (_word_vectors, "")
        if not isinstance(models.config_of(context.teachers.task), models.WordVectorConfig):
            before = _knows_general(context.recipe)
            note = "the teacher before fine-tuning" if before else "the fine-tuned teacher"
            rows["frozen_teacher"] = (_frozen_teacher, note)
    if context.recipe.baselines == "all":
        rows["no_teacher"] = (_no_teacher, "")
    return rows


def _labels(context: RunContext, most: int = _MOST_EXAMPLES) -> np.ndarray:
    labels = context.task_data.train_examples.labels
    assert labels is not None
    return labels[:most]


def _majority(context: RunContext) -> np.ndarray:
    data = context.task_data
    return analysis.majority_logits(data.task, _labels(context), len(data.dev_examples))


def _tfidf(context: RunContext) -> np.ndarray:
    data = context.task_data
    train = data.train_examples.select(range(len(_labels(context))))
    features = analysis.text_features(train, data.dev_examples)
    return analysis.fit_linear(data.task, features[0], _labels(context), features[1])


def _word_vectors(context: RunContext) -> np.ndarray:
    data, labels = context.task_data, _labels(context)
    (table,) = context.teachers.task.get_layer("word_embeddings").get_weights()[:1]
    special = (data.tokenizer.cls_id, data.tokenizer.sep_id)
    features = [
        analysis.embedding_features(table, encoded, special_ids=special)
        for encoded in (data.train.select(range(len(labels))), data.dev.encoded)
    ]
    return analysis.fit_linear(data.task, features[0], labels, features[1])


def _frozen_teacher(context: RunContext) -> np.ndarray:
    data, labels = context.task_data, _labels(context, _MOST_STATES)
    before = _knows_general(context.recipe)
    encoder = context.teachers.general if before else context.teachers.task
    features = [
        mean_states(encoder, encoded)
        for encoded in (data.train.select(range(len(labels))), data.dev.encoded)
    ]
    return analysis.fit_linear(data.task, features[0], labels, features[1])


def _knows_general(recipe: config.Recipe) -> bool:
    teacher = recipe.teacher
    if teacher.general is not None or teacher.pretrain is not None:
        return True
    return teacher.finetune is not None and not teacher.source.startswith(PRESET)


def mean_states(encoder: keras.Model, encoded: batches.EncodedExamples) -> np.ndarray:
    """The mean of the last hidden states over the real tokens of each text.

    Args:
      encoder: A model of `tfdistill.models`.
      encoded: n texts or pairs.

    Returns:
      float32 (n, d); of pairs read together, with u and v the means over the tokens of either text,
      ``[u, v, |u - v|, u * v]``, (n, 4 d).
    """
    view = models.taps(encoder)
    view = keras.Model(view.inputs, view.get_layer("sequence_output").output)
    paired = bool(encoded.types.any())
    kinds = ("input_ids", "attention_mask", "token_type_ids")
    specs = {name: tf.TensorSpec((None, None), tf.int32) for name in kinds}

    @tf.function(input_signature=[specs])
    def pool(features: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        states = view({name: features[name] for name in view.input_names}, training=False)
        states = tf.cast(states, tf.float32)  # (batch, tokens, d)
        types = features["token_type_ids"]
        counted = [types == 0, types == 1] if paired else [tf.ones_like(types, tf.bool)]
        means = []
        for chosen in counted:
            mask = tf.cast(features["attention_mask"], tf.float32) * tf.cast(chosen, tf.float32)
            total = tf.einsum("btd,bt->bd", states, mask)
            means.append(tf.math.divide_no_nan(total, tf.reduce_sum(mask, axis=1)[:, None]))
        return means

    rows = batches.Batches(encoded, batch_size=64, shuffle=False)
    found: list[Sequence[np.ndarray]] = []
    for batch in rows.dataset():
        features = batch[0] if isinstance(batch, tuple) else batch
        found.append([mean.numpy() for mean in pool({name: features[name] for name in kinds})])
    joined = [np.concatenate(parts) for parts in zip(*found, strict=True)]
    states = joined[0] if len(joined) == 1 else analysis.pair_features(*joined)
    answers = np.empty_like(states)
    answers[np.concatenate(rows.plan(0))] = states
    return answers


def _no_teacher(context: RunContext) -> np.ndarray:
    """Trains the student that the last variant starts from on gold labels, resumable."""
    recipe, seed = context.recipe, context.recipe.seeds[0]
    names = list(recipe.variants.values())[-1].stages
    stages = [recipe.stages[name] for name in names]
    student = new_student(context, stages[0], seed).model
    counts = [
        num_batches(context, stage, name, seed)
        for name, stage in zip(names, stages, strict=True)
        if isinstance(stage, config.TaskStage) and not stage.on_corpus
    ]
    alone = config.labels_alone(
        stages[-1],
        learning_rate=stages[-1].learning_rate or joint_rate(models.config_of(student).hidden_size),
        batches=sum(counts),
    )
    changed = recipe.model_copy(update={"stages": {**recipe.stages, _STAGE: alone}})
    job = build_stage(dataclasses.replace(context, recipe=changed), _STAGE, seed, student)
    folder = context.root / "stages" / _STAGE / f"seed-{seed}"
    results.write_result_file(job.run(folder, "no teacher"), folder / students.RESULT)
    return training.predict_logits(student, context.student_task_data.dev)
