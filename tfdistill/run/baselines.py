"""What a student has to beat: linear models, and the same student without a teacher."""

from __future__ import annotations

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import analysis, config, models, results, training, weights
from tfdistill.data import answers, batches, task_data
from tfdistill.run import corpora, cutting, students
from tfdistill.run.folder import RunContext
from tfdistill.run.initialise import new_student
from tfdistill.run.lessons import num_batches
from tfdistill.run.stages import build_stage, by_width
from tfdistill.run.task_models import PRESET
from tfdistill.tasks import splitting
from tfdistill.training import precision

_MOST_EXAMPLES = 20_000  # training texts; more change a linear model little and cost minutes
_MOST_STATES = 10_000  # training texts that the teacher reads for "frozen_teacher"
_MOST_UNCUT = 2_000  # texts that the uncut teacher reads, to compare with that
_STAGE = "no_teacher_baseline"
_TIMED = 100  # development texts that a latency is the median of


# A baseline that is ready to answer: its logits to the development set (of an embedding vectors, an
# array or sparse), its number of weights, and what answers one development example, for its time:
# from the text on where the features are words, else from the tokens on; None where a model does
# the work, or nothing does.
_Answers = tuple[Any, int, Callable[[int], Any] | None]
_Fit = Callable[[RunContext], _Answers]
# The training and the development set, what makes features of such sets, and its weights.
_Features = Callable[[RunContext], tuple[Any, Any, Callable[[Any], Any], int]]


def measure_baselines(context: RunContext) -> tuple[results.BaselineResult, ...]:
    """Scores baselines on the development set, unless that is done, and keeps their answers.

    "majority" answers the most frequent class, "tfidf" is a logistic regression over words and
    pairs of words, "word_vectors" one over the mean of the teacher's word vectors, "frozen_teacher"
    one over the mean of its last hidden states before it was fine-tuned, where the run knows that
    one; of few texts also before its vocabulary was cut. Numbers are regressed. Tasks over words or
    spans have none of these: where words have tags of entities "gazetteer" answers those of the
    training set, and "linear_tagger" is a logistic regression over words (`analysis.fit_tagger`). A
    BiLSTM teacher has no hidden states, and one that is known by its answers alone neither these
    nor word vectors. "no_teacher", only with ``baselines: all``, is the student with the same
    start, trained on gold labels alone for as many batches.

    Of an embedding "tfidf_cosine" and "mean_word_vectors" are vectors by themselves, compared by
    cosine: TF-IDF of words and pairs of words, and the mean of the teacher's word vectors, where it
    is a model, without [CLS] and [SEP].
    """
    wanted = context.recipe.baselines
    task = context.data.of_task.task
    alone = task.traits.vectors or task.traits.tags_words or analysis.has_linear(task)
    if wanted == "none" or (wanted == "cheap" and not alone):
        return ()

    def work() -> results.Baselines:
        rows = [_measure(context, name, fit, note) for name, (fit, note) in _wanted(context)]
        return results.Baselines(rows=tuple(rows))

    return context.folder.step("results/baselines.json", results.Baselines, work).rows


def _measure(context: RunContext, name: str, fit: _Fit, note: str) -> results.BaselineResult:
    data, folder = context.data.of_task, f"baselines/{name}"
    started = time.monotonic()
    logits, parameters, answer = fit(context)
    seconds = time.monotonic() - started
    recorded = answers.of_examples(data.dev_examples, {"model": logits}, with_texts=False)
    if recorded is not None:
        answers.write(recorded, context.root / folder / answers.FILE_NAME)
    num_answers = len(data.dev_examples)
    return results.BaselineResult(
        name=name,
        note=note,
        metrics=data.task.score(logits, data.dev.encoded),
        seconds=seconds,
        parameters=parameters,
        latency_ms=None if answer is None else _latency_ms(answer, num_answers),
        folder=None if recorded is None else folder,
    )


def _latency_ms(answer: Callable[[int], Any], num_examples: int) -> float:
    """The median time of an answer, one example at a time; the first answer does not count."""
    taken = []
    for index in [0, *range(min(num_examples, _TIMED))]:
        started = time.perf_counter()
        answer(index)
        taken.append(time.perf_counter() - started)
    return 1e3 * statistics.median(taken[1:])


def _wanted(context: RunContext) -> Iterator[tuple[str, tuple[_Fit, str]]]:
    """Yields name, what fits it, and a note."""
    is_model = context.teachers.soft_labels is None
    has_linear = analysis.has_linear(context.data.of_task.task)
    if context.data.of_task.task.traits.vectors:
        yield "tfidf_cosine", (functools.partial(_by_themselves, _words), "")
        if is_model:
            yield "mean_word_vectors", (functools.partial(_by_themselves, _word_vectors), "")
    task = context.data.of_task.task
    if task.traits.tags_words:
        if not task.traits.metrics_for(task.labels):
            yield "gazetteer", (functools.partial(_tagger, analysis.fit_gazetteer), "")
        yield "linear_tagger", (functools.partial(_tagger, analysis.fit_tagger), "")
    if has_linear:
        yield "majority", (_majority, "")
        yield "tfidf", (functools.partial(_linear, _words), "")
    if has_linear and is_model:
        yield "word_vectors", (functools.partial(_linear, _word_vectors), "")
        tuned = context.recipe.teacher.finetune
        frozen = tuned is not None and tuned.method == "frozen"  # the teacher is one
        encodes = not isinstance(models.config_of(context.teachers.task), models.WordVectorConfig)
        if encodes and not frozen and _knows_general(context.recipe):
            note = "the teacher before fine-tuning"
            yield "frozen_teacher", (functools.partial(_linear, _states, most=_MOST_STATES), note)
            data = context.data.of_task
            rows = len(data.train_examples) + len(data.dev_examples)
            if cutting.record_of(context.root) is not None and rows <= _MOST_UNCUT:
                yield "frozen_teacher_uncut", (functools.partial(_linear, _uncut), results.UNCUT)
    if context.recipe.baselines == "all":
        yield "no_teacher", (_no_teacher, "")


def _majority(context: RunContext) -> _Answers:
    data = context.data.of_task
    labels = _labels(context, _MOST_EXAMPLES)
    logits = analysis.majority_logits(data.task, labels, len(data.dev_examples))
    return logits, data.task.num_labels, None


def _tagger(fit: Callable[..., analysis.Tagger], context: RunContext) -> _Answers:
    data, encoded = context.data.of_task, context.data.of_task.dev.encoded
    train = data.train_examples.select(
        range(min(analysis.MOST_TAGGED_TEXTS, len(data.train_examples)))
    )
    model, words = fit(data.task, train), data.dev_examples.words or []
    assert encoded.word_counts is not None
    pieces, counts = encoded.word_tokens, encoded.word_counts[encoded.word_tokens]
    logits = np.zeros((encoded.num_tokens, data.task.num_labels), np.float32)
    logits[pieces] = model.predict(words)[np.cumsum(counts) - counts]  # of a piece's first word
    return logits, model.num_weights, lambda index: model.predict(words[index : index + 1])


def _labels(context: RunContext, most: int) -> np.ndarray:
    labels = context.data.of_task.train_examples.labels
    assert labels is not None
    return labels[:most]


def _linear(make: _Features, context: RunContext, most: int = _MOST_EXAMPLES) -> _Answers:
    """A linear model; of a cross-fitted task each row is answered by one without it."""
    data, labels = context.data.of_task, _labels(context, most)
    train, dev, features, size = make(context)
    rows = features(train.select(range(len(labels))))
    model = analysis.fit_linear(data.task, rows, labels)
    if data.settings.cross_fitted:
        logits = analysis.answer_unseen(
            rows,
            labels,
            splitting.folds_of(labels),
            lambda part, gold: analysis.fit_linear(data.task, part, gold).predict,
        )
    else:
        logits = model.predict(features(dev))
    answer = (
        None if make in (_states, _uncut) else lambda i: model.predict(features(dev.select([i])))
    )
    return logits, size + model.num_weights, answer


def _by_themselves(make: _Features, context: RunContext) -> _Answers:
    """Features that are vectors."""
    _, dev, features, size = make(context)
    return features(dev), size, lambda index: features(dev.select([index]))


def _words(context: RunContext) -> tuple[Any, Any, Callable[[Any], Any], int]:
    """Counts of words and pairs of words."""
    data = context.data.of_task
    train = data.train_examples.select(range(min(_MOST_EXAMPLES, len(data.train_examples))))
    words = analysis.TextFeatures(train)
    return train, data.dev_examples, words, words.num_weights


def _word_vectors(context: RunContext) -> tuple[Any, Any, Callable[[Any], Any], int]:
    """Means of the teacher's word vectors."""
    data = context.data.of_task
    (table,) = context.teachers.task.get_layer("word_embeddings").get_weights()[:1]
    special = (data.tokenizer.cls_id, data.tokenizer.sep_id)
    features = functools.partial(analysis.embedding_features, table, special_ids=special)
    return data.train.encoded, data.dev.encoded, features, table.size


def _states(context: RunContext) -> tuple[Any, Any, Callable[[Any], Any], int]:
    """Means of the teacher's last hidden states."""
    return _states_of(context.teachers.general, context.data.of_task)


def _uncut(context: RunContext) -> tuple[Any, Any, Callable[[Any], Any], int]:
    """The same of the teacher whose vocabulary is whole."""
    recipe = config.saved_recipe(context.root)
    assert recipe is not None  # a run writes it first
    source = recipe.teacher.general or recipe.teacher.source
    data = context.data.of_task.read_by(corpora.tokenizer_of(recipe.data, source))
    return _states_of(weights.load_encoder(source), data)


def _states_of(
    encoder: keras.Model, data: task_data.TaskData
) -> tuple[Any, Any, Callable[[Any], Any], int]:
    size = sum(weight.shape.num_elements() for weight in encoder.weights)
    return data.train.encoded, data.dev.encoded, functools.partial(mean_states, encoder, data), size


def _knows_general(recipe: config.Recipe) -> bool:
    teacher = recipe.teacher
    if teacher.general is not None or teacher.pretrain is not None:
        return True
    return teacher.finetune is not None and not teacher.source.startswith(PRESET)


def mean_states(
    encoder: keras.Model, data: task_data.TaskData, encoded: batches.EncodedExamples
) -> np.ndarray:
    """The mean of the last hidden states over the real tokens of each text, float32 (n, d).

    Of pairs, with u and v the means over ``[CLS] a [SEP]`` and ``b [SEP]`` (further separators
    between the texts belong to u), it is ``[u, v, |u - v|, u * v]``, (n, 4 d). `data` are those of
    the run, which say how the texts were read.
    """
    template, paired = data.tokenizer.template, data.train_examples.pairs is not None
    view = models.taps(encoder)
    view = keras.Model(view.inputs, view.get_layer("sequence_output").output)
    kinds = ("input_ids", "attention_mask", "token_type_ids")
    specs = {name: tf.TensorSpec((None, None), tf.int32) for name in kinds}

    @tf.function(input_signature=[specs])
    def pool(features: dict[str, tf.Tensor]) -> list[tf.Tensor]:
        states = view({name: features[name] for name in view.input_names}, training=False)
        states = tf.cast(states, tf.float32)  # (batch, tokens, d)
        ids = features["input_ids"]
        counted = [tf.ones_like(ids, tf.bool)]
        if paired:
            ends = tf.cast(ids == template.sep_id, tf.int32)
            begins = tf.argmax(ends, axis=1, output_type=tf.int32) + template.separators
            second = tf.range(tf.shape(ids)[1]) >= begins[:, None]  # (batch, tokens)
            counted = [~second, second]
        means = []
        for chosen in counted:
            mask = tf.cast(features["attention_mask"], tf.float32) * tf.cast(chosen, tf.float32)
            total = tf.einsum("btd,bt->bd", states, mask)
            means.append(tf.math.divide_no_nan(total, tf.reduce_sum(mask, axis=1)[:, None]))
        return means

    rows = batches.Batches(encoded, batch_size=64, shuffle=False)
    means_of_batches: list[Sequence[np.ndarray]] = []
    for batch in rows.dataset():
        features = batch[0] if isinstance(batch, tuple) else batch
        means_of_batches.append(
            [mean.numpy() for mean in pool({name: features[name] for name in kinds})]
        )
    joined = [np.concatenate(parts) for parts in zip(*means_of_batches, strict=True)]
    states = joined[0] if len(joined) == 1 else analysis.pair_features(*joined)
    ordered = np.empty_like(states)
    ordered[np.concatenate(rows.plan(0))] = states
    return ordered


def _no_teacher(context: RunContext) -> _Answers:
    """Trains the student that the last variant starts from on gold labels, resumable."""
    recipe, seed = context.recipe, context.recipe.seeds[0]
    names = list(recipe.variants.values())[-1].stages
    first = recipe.stages[names[0]]
    student = new_student(students.start_of(context, first), seed).model
    shape = models.config_of(student)
    stages = [by_width(recipe.stages[name], shape) for name in names]
    counts = [
        num_batches(stage, students.stage_data_without_teacher(context, name), seed)
        for name, stage in zip(names, stages, strict=True)
        if not stage.on_corpus
    ]
    alone = config.labels_alone(
        stages[-1],
        learning_rate=stages[-1].learning_rate,
        batches=sum(counts),
    )
    changed = recipe.model_copy(update={"stages": {**recipe.stages, _STAGE: alone}})
    folder = context.root / "stages" / _STAGE / f"seed-{seed}"
    lesson = students.lesson_of(dataclasses.replace(context, recipe=changed), _STAGE, alone)
    keras.utils.set_random_seed(seed)
    with precision.training_in(student, alone.precision) as learner:
        fit, _ = build_stage(alone, lesson, learner, seed)
        result = fit(folder, "no teacher")
    results.write_result_file(result, folder / students.RESULT)
    logits = training.predict_logits(student, context.student_data.of_task.dev)
    return logits, sum(weight.shape.num_elements() for weight in student.weights), None
