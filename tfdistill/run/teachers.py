"""The teachers of a run: loaded, pre-trained, fine-tuned, checked."""

from __future__ import annotations

import functools
import logging
import operator
import pathlib
import shutil
from collections.abc import Callable, Sequence

import numpy as np
import tf_keras as keras

from tfdistill import config, distillers, errors, models, results, tasks, training, weights
from tfdistill.data import batches, vocab
from tfdistill.data import soft_labels as soft_label_files
from tfdistill.data.task_data import TaskData
from tfdistill.distillers.teacher import TEACHER_LOGITS
from tfdistill.io import files
from tfdistill.losses import methods
from tfdistill.run import corpora, soft_labels, task_models
from tfdistill.run.task_models import PRESET
from tfdistill.tokenization.tokenizer import Tokenizer
from tfdistill.training import optimizers, precision
from tfdistill.training.precision import MIXED
from tfdistill.weights import checkpoint as checkpoints

_log = logging.getLogger(__name__)

FOLDER, CACHE, PRETRAINED = "teacher", "teacher/cache", "teacher/pretrained"
FINETUNED = "finetune"
TARGETS = "targets.json"
"""In its folder: which of several targets was taken."""
Teacher = keras.Model | soft_labels.SoftLabels


class TeacherModels:
    """The teachers of a run, loaded when the first stage needs them.

    A teacher that is pre-trained or fine-tuned here is saved in `root`, the run folder. `pipeline`
    are options of Apache Beam, whose workers answer for the teacher of the task; `answers` those of
    a teacher that is no model.
    """

    def __init__(
        self,
        recipe: config.Recipe,
        task: tasks.TaskSpec | None,
        root: pathlib.Path,
        pipeline: Sequence[str] | None = None,
        answers: soft_labels.SoftLabels | None = None,
    ):
        """Keeps the arguments; nothing is loaded yet."""
        self._recipe, self._task, self._root = recipe, task, root
        self._pipeline = pipeline
        self.soft_labels = answers
        self._forward: dict[tuple[str, str], keras.Model] = {}

    @functools.cached_property
    def task(self) -> keras.Model:
        """The fine-tuned teacher of the task."""
        assert self._task is not None
        return task_models.open_saved(self._root / FOLDER, self._task)

    @functools.cached_property
    def general(self) -> keras.Model:
        """The encoder before fine-tuning, which stages on plain text learn from.

        A preset that is not pre-trained knows nothing before it is fine-tuned: then it is the
        fine-tuned one.
        """
        source = general_source(self._recipe, self._root)
        return self.task if source.startswith(PRESET) else weights.load_encoder(source)

    @functools.cached_property
    def words(self) -> keras.Model:
        """The masked language model before fine-tuning."""
        source = general_source(self._recipe, self._root)
        nsp = any(stage.next_sentence for stage in self._recipe.used_stages.values())
        return weights.load_masked_lm(source, next_sentence=nsp).model

    def check(self) -> None:
        """Loads the masked language model, if a stage needs one: before any fine-tuning."""
        stages = self._recipe.used_stages.values()
        if any(s.traits.predicts_words and s.traits.has_teacher for s in stages):
            _ = self.words

    def in_float32(self, stage: config.Stage) -> keras.Model:
        """The teacher of a stage, for its weights."""
        return getattr(self, _role(stage))

    def shape(self, stage: config.Stage) -> models.EncoderConfig | None:
        """The configuration of a stage's teacher; of the task's where it learns without one.

        None where the teacher is known by its answers alone.
        """
        if self.soft_labels is not None:
            return None
        alone = not stage.traits.has_teacher and self._task is not None
        return models.config_of(self.task if alone else self.in_float32(stage))

    def for_stage(self, stage: config.Stage) -> Teacher | None:
        """The teacher of a stage in the chosen arithmetic; None where it learns without one.

        A student that is trained in bfloat16 has a teacher in bfloat16.
        """
        if not stage.traits.has_teacher:
            return None
        if self.soft_labels is not None:
            return self.soft_labels
        dtype = "bfloat16" if stage.precision == MIXED else self._recipe.teacher.dtype
        key = (_role(stage), dtype)
        if key not in self._forward:
            self._forward[key] = task_models.in_precision(self.in_float32(stage), dtype)
        return self._forward[key]

    def knows(self, model: Teacher | None) -> bool:
        """Whether a model is one of the run's teachers, and not a student that teaches the next."""
        return any(model is teacher for teacher in self._forward.values())

    def answers(self, model: Teacher, examples: batches.EncodedExamples) -> np.ndarray:
        """The logits of a teacher of a stage over a training set, computed once in a run.

        Answers in files are those to the training set and the unlabelled texts, in that order; of
        words and spans those to their tokens.
        Workers of a pipeline find the teacher of the task in the run folder; another one, such as
        a student that teaches the next, answers here.
        """
        if isinstance(model, soft_labels.SoftLabels):
            over_tokens = examples.token_labels or examples.span_sources is not None
            return model.train[: examples.num_tokens if over_tokens else len(examples)]
        load = None
        for (role, dtype), forward in self._forward.items():
            if model is forward and role == "task" and self._task is not None:
                folder = (self._root / FOLDER).absolute()
                load = functools.partial(task_models.open_saved, folder, self._task, dtype)
        workers, folder = None if load is None else self._pipeline, self._root / CACHE
        return training.cached_logits(model, examples, folder, pipeline=workers, load=load)


class OneTeacher(TeacherModels):
    """A loaded model in the place of all teachers of a run."""

    def __init__(self, model: keras.Model):
        """Takes the model as each of them, so that none is loaded."""
        self._task, self.soft_labels = None, None
        self.task = self.general = self.words = model


def _role(stage: config.Stage) -> str:
    if stage.traits.predicts_words:
        return "words"
    return "general" if stage.on_corpus else "task"


def teacher_source(recipe: config.Recipe, root: pathlib.Path) -> str:
    """Where the teacher before fine-tuning comes from: what was pre-trained here, or its source."""
    if recipe.teacher.pretrain is not None:
        return str(root / PRETRAINED / "hf")
    return recipe.teacher.source


def check_fit(recipe: config.Recipe, task: tasks.TaskSpec | None) -> None:
    """Fits the headers of the weights that the run will load to their models; reads no weights.

    What is on the hub, pre-trained in the run, or a file of answers is not looked at.
    """
    places = {}
    if recipe.teacher.pretrain is None and recipe.teacher.answers is None:
        places[recipe.teacher.source] = task if recipe.teacher.finetune is None else None
    if recipe.student.keep_head:
        places[recipe.student.start] = task
    elif config.is_checkpoint(recipe.student.preset):
        places.setdefault(recipe.student.preset, None)
    words, augment = general_source(recipe, pathlib.Path()), recipe.data.augment
    used = recipe.used_stages.values()
    sources = {words for s in used if s.traits.predicts_words and s.traits.has_teacher}
    sources |= {augment.masked_lm or words for s in used if s.augmented and augment is not None}
    for source in filter(_is_here, sources):
        weights.load_model(weights.open_checkpoint(source, shapes_only=True), "masked_lm")
    for source, answered in filter(lambda place: _is_here(place[0]), places.items()):
        checkpoint = weights.open_checkpoint(source, shapes_only=True)
        if answered is None or answered.traits.vectors:
            weights.load_model(checkpoint, models.Head().kind)
            continue
        kind = models.head_for(answered.head, answered.num_labels).kind
        paired = answered.pair_column is not None
        loaded = weights.load_model(checkpoint, kind, task_kind=answered.kind, pairs=paired)
        training.label_order(loaded.model, loaded.labels, answered)


def _is_here(source: str) -> bool:
    return bool(source) and (pathlib.Path(source) / checkpoints.CONFIG_FILE).is_file()


def general_source(recipe: config.Recipe, root: pathlib.Path) -> str:
    """Where the teacher that stages on plain text learn from comes from."""
    if recipe.teacher.pretrain is None and recipe.teacher.general is not None:
        return recipe.teacher.general
    return teacher_source(recipe, root)


def pretrain(
    recipe: config.Recipe, tokenizer: Tokenizer, text: corpora.Corpus, folder: pathlib.Path
) -> tuple[keras.Model, results.PretrainedTeacher]:
    """Pre-trains the teacher as a masked language model, resumable, on a text in shards.

    `folder` gets checkpoints and history. Returns the model, and its metrics on held-out text.
    """
    settings, seed = recipe.teacher.pretrain, recipe.seeds[0]
    assert settings is not None
    keras.utils.set_random_seed(seed)
    source = recipe.teacher.source
    if source.startswith(PRESET):
        shape = task_models.shape_of(source, recipe.teacher, tokenizer.vocab_size)
        model = models.build_masked_lm(shape, next_sentence=settings.next_sentence)
    else:
        model = weights.load_masked_lm(
            source, new_head=True, next_sentence=settings.next_sentence
        ).model
    assert text.folder is not None
    result, metrics = training.pretrain(
        model, text.folder, tokenizer, settings, folder=folder, seed=seed
    )
    return model, results.PretrainedTeacher(
        metrics=metrics, train_seconds=result.seconds, steps=result.steps
    )


def task_teacher(
    recipe: config.Recipe, data: TaskData, root: pathlib.Path
) -> tuple[keras.Model, float]:
    """Loads or fine-tunes the teacher of the task: the classifier, and the seconds that took.

    Checkpoints and history of the fine-tuning go below the run folder.
    """
    seed, settings = recipe.seeds[0], recipe.teacher.finetune
    keras.utils.set_random_seed(seed)
    source = teacher_source(recipe, root)
    fresh, pooled = settings is not None, settings is not None and settings.pooled
    model = load_classifier(source, data, sizes=recipe.teacher, fresh_head=fresh, pooled=pooled)
    seconds = 0.0
    if settings is not None:
        tune = finetune if settings.targets == ("hard",) else _finetune_on_answers
        folder = root / "teacher" / FINETUNED
        seconds = tune(model, data, settings, folder, seed=seed, description="teacher").seconds
    return model, seconds


def _finetune_on_answers(
    model: keras.Model,
    data: TaskData,
    settings: config.FineTuneConfig,
    folder: pathlib.Path,
    *,
    seed: int,
    description: str,
) -> results.FitResult:
    """Fine-tunes on each of `settings.targets` from one start; takes the best, and tells.

    The answers are those of ``probabilities.LABEL`` in the training file; sharpened they are
    ``p^2 / sum p^2``.
    """
    examples, start = data.train_examples, model.get_weights()
    assert examples.path is not None
    answers = soft_label_files.read(examples.path, data.task)
    soft = answers.of_rows(answers.find(soft_label_files.example_keys(examples)))
    logits = {"hard": None, "soft": soft, "sharpened": 2 * soft}
    scores: dict[str, float] = {}
    fits, taken, best = [], "", start
    for target in settings.targets:
        model.set_weights(start)
        keras.utils.set_random_seed(seed)
        told = f"{description}, {target} answers"
        tune = functools.partial(finetune, seed=seed, description=told, answers=logits[target])
        fits.append(tune(model, data, settings, folder / target))
        scores[target] = watcher(model, data)()[data.task.primary_metric]
        if not taken or scores[target] > scores[taken]:
            taken, best = target, model.get_weights()
    model.set_weights(best)
    shutil.copyfile(folder / taken / "history.csv", folder / "history.csv")
    shown = ", ".join(f"{target} {score:.3f}" for target, score in scores.items())
    note = f"fine-tuned on {taken} answers: {data.task.primary_metric} {shown}"
    files.atomic_write_json(folder / TARGETS, {"notes": [note]})
    _log.info(f"{description}: {note}")
    steps, seconds = (sum(getattr(fit, name) for fit in fits) for name in ("steps", "seconds"))
    return results.FitResult(steps=steps, seconds=seconds)


def load_classifier(
    source: str,
    data: TaskData,
    *,
    sizes: config.ShapeConfig | None = None,
    fresh_head: bool = False,
    pooled: bool = False,
) -> keras.Model:
    """Loads a model whose outputs are the task's labels, in the task's order.

    `source` is a Hugging Face folder or hub id, or ``preset:NAME``, whose sizes `sizes` replace. A
    `fresh_head` may start at random (it will be fine-tuned); for `pooled` see `weights.load_model`.
    """
    if source.startswith(PRESET):
        sizes = sizes or config.ShapeConfig()
        shape = task_models.shape_of(source, sizes, data.tokenizer.vocab_size)
        model = task_models.build_for_task(shape, data.task)
        training.start_at_numbers(model, data.train_examples)
        return model
    loaded = task_models.open_for_task(source, data.task, new_head=fresh_head, pooled=pooled)
    limit, longest = loaded.max_length, int(data.train.encoded.lengths.max())
    if not fresh_head and limit is not None and longest > limit:
        raise errors.ConfigError(
            "data.max_length",
            f"at most {limit} tokens, where the tokenizer of {source} cuts",
            f"texts of {longest} tokens",
            f"Use --max-length {limit}, or fine-tune the teacher on longer texts.",
        )
    if loaded.tokenizer is not None:
        vocab.check_same_vocabulary(loaded.tokenizer.vocab, data.tokenizer.vocab)
    if fresh_head:
        training.start_head(loaded.model, data)
    else:
        # Built-in tasks have an order of their own, which such models follow.
        rows = (lambda: data.train.encoded) if data.settings.has_own_labels else None
        training.align_labels(loaded.model, loaded.labels, data.task, rows)
    return loaded.model


def finetune(
    model: keras.Model,
    data: TaskData,
    settings: config.FineTuneConfig,
    folder: pathlib.Path,
    *,
    seed: int,
    description: str,
    answers: np.ndarray | None = None,
) -> results.FitResult:
    """Trains a classifier on the task's gold labels, resumable; keeps the best epoch if asked.

    Stops early only where the best epoch is kept. Of few rows a head over pooled states is fitted.
    With `answers`, logits (n, labels), it learns these instead of the labels.
    """
    if settings.pooled:
        return training.fit_linear_head(
            model, data, settings, folder, seed=seed, description=description
        )
    train = batches.Batches(
        data.train.encoded,
        batch_size=settings.batch_size,
        token_budget=settings.token_budget,
        seed=seed,
        extra=None if answers is None else {TEACHER_LOGITS: answers},
    )
    epochs = settings.num_epochs(train.steps_per_epoch)
    with precision.training_in(model, settings.precision) as trained:
        trainer = distillers.LabelTrainer(trained, head=data.task.head, seed=seed)
        if answers is not None:
            teacher = operator.itemgetter(TEACHER_LOGITS)  # they come with each batch
            trainer = distillers.Distiller(teacher, trained, methods.hinton(), seed=seed)
        elif data.class_weights is not None:
            trainer.weigh_classes(data.class_weights)
        trainer.compile(optimizers.build(settings, train.steps_per_epoch * epochs))
        return training.fit(
            trainer,
            train,
            epochs=epochs,
            folder=folder,
            evaluate=watcher(trained, data),
            monitor=data.task.primary_metric if settings.keep_best else None,
            patience=settings.patience,
            min_steps=settings.min_steps,
            description=description,
        )


def watcher(model: keras.Model, data: TaskData) -> Callable[[], dict[str, float]]:
    """What measures a model on the development set after every epoch, traced once."""
    predict = training.predictor(model)

    def measure() -> dict[str, float]:
        logits = predict(data.dev)
        return data.task.score(logits, data.dev.encoded)

    return measure
