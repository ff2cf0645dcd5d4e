"""The teacher of a run: loaded, fitted to the task's labels, fine-tuned, checked."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import compress, config, distillers, models, training, weights
from tfdistill.data import batches, tasks, vocab
from tfdistill.data import metrics as task_metrics
from tfdistill.run import corpora, prepare

PRESET = "preset:"
PRETRAINED = "teacher/pretrained"


class Teachers:
    """The teachers of a run, loaded when the first stage needs them.

    Args:
      recipe: The recipe.
      prepared: Its data, which says what the teacher answers.
      root: The run folder, in which a teacher that is pre-trained or fine-tuned here lies.
      pipeline: Options of Apache Beam, whose workers answer for the teacher of the task, or None.
    """

    def __init__(
        self,
        recipe: config.Recipe,
        prepared: prepare.Texts,
        root: pathlib.Path,
        pipeline: Sequence[str] | None = None,
    ):
        """Keeps the arguments; nothing is loaded yet."""
        self._prepared, self._pipeline = prepared, pipeline
        self._recipe, self._root = recipe, root
        self._forward: dict[str, keras.Model] = {}

    @functools.cached_property
    def task(self) -> keras.Model:
        """The fine-tuned teacher of the task."""
        assert isinstance(self._prepared, prepare.Prepared)
        return open_saved(self._root / "teacher" / "model", self._prepared.task)

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
        nsp = any(stage.next_sentence for stage in self._recipe.stages.values())
        return weights.load_masked_lm(source, next_sentence=nsp).model

    def check(self) -> None:
        """Loads the masked language model, if a stage needs one: before any fine-tuning.

        Raises:
          WeightsError: If the teacher before fine-tuning is none.
        """
        used = {stage for variant in self._recipe.variants.values() for stage in variant.stages}
        kinds = {self._recipe.stages[name].kind for name in used}
        if kinds & {"distilbert", "mobilebert"}:
            _ = self.words

    def in_float32(self, stage: config.StageConfig) -> keras.Model:
        """The teacher of a stage, for its weights."""
        return getattr(self, _role(stage))

    def for_stage(self, stage: config.StageConfig) -> keras.Model:
        """The teacher of a stage in the chosen arithmetic, for its forward passes."""
        role = _role(stage)
        if role not in self._forward:
            dtype = self._recipe.teacher.dtype
            self._forward[role] = _in_precision(self.in_float32(stage), dtype)
        return self._forward[role]

    def answers(self, model: keras.Model, examples: batches.EncodedExamples) -> np.ndarray:
        """The logits of a teacher of a stage over a training set, computed once in a run.

        Workers of a pipeline find the teacher of the task in the run folder; another one, such as
        a student that teaches the next, answers here.
        """
        ours = model is self._forward.get("task")
        load = None
        if ours and isinstance(self._prepared, prepare.Prepared):
            folder = (self._root / "teacher" / "model").absolute()
            dtype = self._recipe.teacher.dtype
            load = functools.partial(open_in_precision, folder, self._prepared.task, dtype)
        return training.cached_logits(
            model,
            examples,
            self._root / "teacher" / "cache",
            pipeline=None if load is None else self._pipeline,
            load=load,
        )


def _role(stage: config.StageConfig) -> str:
    if stage.kind in config.MASKED_KINDS:
        return "words"
    return "general" if stage.on_corpus else "task"


def teacher_source(recipe: config.Recipe, root: pathlib.Path) -> str:
    """Where the teacher before fine-tuning comes from: what was pre-trained here, or its source."""
    if recipe.teacher.pretrain is not None:
        return str(root / PRETRAINED / "hf")
    return recipe.teacher.source


def general_source(recipe: config.Recipe, root: pathlib.Path) -> str:
    """Where the teacher that stages on plain text learn from comes from."""
    if recipe.teacher.pretrain is None and recipe.teacher.general is not None:
        return recipe.teacher.general
    return teacher_source(recipe, root)


def shape_of(preset: str, sizes: config.ShapeConfig, vocab_size: int) -> models.EncoderConfig:
    """The shape of a preset, with the sizes that a recipe gives instead.

    Raises:
      ConfigError: If the preset is unknown, or has not one of the sizes.
    """
    given = sizes.sizes()
    shape = models.preset(preset)
    if "dropout" in given and hasattr(shape, "attention_dropout"):
        given["attention_dropout"] = given["dropout"]
    return shape.replace(vocab_size=vocab_size, **given)


def pretrain(
    recipe: config.Recipe, prepared: prepare.Texts, folder: pathlib.Path
) -> tuple[keras.Model, dict[str, Any]]:
    """Pre-trains the teacher as a masked language model, resumable.

    Args:
      recipe: The recipe, with `teacher.pretrain`.
      prepared: Its data.
      folder: Gets checkpoints and history.

    Returns:
      The masked language model, and {"metrics", "train_seconds", "steps"}; the metrics are those
      of held-out text.
    """
    settings = recipe.teacher.pretrain
    assert settings is not None
    seed = recipe.seeds[0]
    keras.utils.set_random_seed(seed)
    source = recipe.teacher.source
    if source.startswith(PRESET):
        shape = shape_of(source.removeprefix(PRESET), recipe.teacher, prepared.tokenizer.vocab_size)
        model = models.build_masked_lm(shape, next_sentence=settings.next_sentence)
    else:
        model = weights.load_masked_lm(
            source, new_head=True, next_sentence=settings.next_sentence
        ).model
    text = prepared.corpora[prepare.TEACHER]
    assert text.folder is not None
    result, metrics = training.pretrain(
        model,
        text.folder,
        prepared.tokenizer,
        training.PretrainConfig(
            steps=settings.steps,
            epochs=settings.epochs,
            batch_size=settings.batch_size,
            optimizer=settings.optimizer,
            learning_rate=settings.learning_rate,
            schedule=settings.schedule,
            warmup=settings.warmup,
            weight_decay=settings.weight_decay,
            next_sentence=settings.next_sentence,
            mask_rate=settings.mask_rate,
            held_out=corpora.HELD_OUT,
            seed=seed,
        ),
        folder=folder,
    )
    return model, {"metrics": metrics, "train_seconds": result.seconds, "steps": result.steps}


def task_teacher(
    recipe: config.Recipe, prepared: prepare.Prepared, root: pathlib.Path
) -> tuple[keras.Model, dict[str, Any]]:
    """Loads or fine-tunes the teacher of the task and measures it.

    Args:
      recipe: The recipe.
      prepared: Its data.
      root: The run folder; checkpoints and history of the fine-tuning go below it.

    Returns:
      The classifier, and {"metrics", "train_seconds", "steps"}.

    Raises:
      TeacherError: If it answers near chance.
      VocabularyError: If its vocabulary is not that of the data.
      WeightsError: If its checkpoint cannot be read.
    """
    keras.utils.set_random_seed(recipe.seeds[0])
    model = load_task_teacher(
        teacher_source(recipe, root),
        prepared,
        sizes=recipe.teacher,
        fresh_head=recipe.teacher.finetune is not None,
    )
    result = training.FitResult(steps=0, seconds=0.0)
    if recipe.teacher.finetune is not None:
        result = finetune(
            model,
            prepared,
            recipe.teacher.finetune,
            root / "teacher" / "finetune",
            seed=recipe.seeds[0],
            description="teacher",
        )
    metrics = training.evaluate(model, prepared.dev, prepared.task)
    training.check_teacher(
        metrics,
        prepared.task,
        training.gold_labels(prepared.dev),
        allow_weak=recipe.teacher.allow_weak,
    )
    return model, {
        "metrics": metrics,
        "train_seconds": result.seconds,
        "steps": result.steps,
    }


def load_task_teacher(
    source: str,
    prepared: prepare.Prepared,
    *,
    sizes: config.ShapeConfig | None = None,
    fresh_head: bool = False,
) -> keras.Model:
    """Loads a model whose outputs are the task's labels, in the task's order.

    Args:
      source: A Hugging Face folder or hub id, or ``preset:NAME``.
      prepared: Names the labels and the vocabulary.
      sizes: Sizes that replace those of a preset.
      fresh_head: Whether a head may start at random (it will be fine-tuned).

    Returns:
      The model.
    """
    if source.startswith(PRESET):
        shape = shape_of(
            source.removeprefix(PRESET),
            sizes or config.ShapeConfig(),
            prepared.tokenizer.vocab_size,
        )
        return build_for_task(shape, prepared.task)
    loaded = open_for_task(source, prepared.task, new_head=fresh_head)
    if loaded.vocab_file is not None:
        vocab.check_same_vocabulary(loaded.vocab_file, prepared.vocab_file)
    if not fresh_head and prepared.task.head != "span":
        training.align_labels(loaded.model, loaded.labels, prepared.task)
    return loaded.model


def build_for_task(shape: models.EncoderConfig, task: tasks.TaskSpec) -> keras.Model:
    """Builds a fresh model with the head that the task needs."""
    return models.build_model(shape, models.head_for(task.head, task.num_labels))


def open_for_task(
    source: str, task: tasks.TaskSpec, *, family: str | None = None, new_head: bool = False
) -> Any:
    """Loads a checkpoint under the head that the task needs."""
    head = models.head_for(task.head, task.num_labels)
    width = head.num_labels if new_head else None
    return weights.load_model(source, head.kind, num_labels=width, family=family, new_head=new_head)


def open_saved(folder: pathlib.Path, task: tasks.TaskSpec) -> keras.Model:
    """Loads what `deliver.save_model` saved."""
    if (folder / "hf").is_dir():
        return with_saved_ranges(open_for_task(str(folder / "hf"), task).model, folder)
    return keras.models.load_model(folder / "model.keras", compile=False)


def open_in_precision(folder: pathlib.Path, task: tasks.TaskSpec, dtype: str) -> keras.Model:
    """Loads what `deliver.save_model` saved, for forward passes in the given arithmetic."""
    return _in_precision(open_saved(folder, task), dtype)


def _in_precision(model: keras.Model, dtype: str) -> keras.Model:
    return model if dtype == "float32" else models.with_policy(model, dtype)


def with_saved_ranges(model: keras.Model, folder: pathlib.Path) -> keras.Model:
    """Makes a model quantization-aware where `folder` says that it was."""
    path = folder / compress.RANGES
    return compress.with_ranges(model, path) if path.is_file() else model


def finetune(
    model: keras.Model,
    prepared: prepare.Prepared,
    settings: config.FineTuneConfig,
    folder: pathlib.Path,
    *,
    seed: int,
    description: str,
) -> training.FitResult:
    """Trains a classifier on the task's gold labels, resumable; keeps the best epoch if asked."""
    train = batches.Batches(
        prepared.train,
        batch_size=settings.batch_size,
        token_budget=settings.token_budget,
        seed=seed,
    )
    trainer = distillers.LabelTrainer(model, head=prepared.task.head, seed=seed)
    trainer.compile(optimizer_of(settings, train.steps_per_epoch * settings.epochs))
    return training.fit(
        trainer,
        train,
        epochs=settings.epochs,
        folder=folder,
        evaluate=watcher(model, prepared),
        monitor=prepared.task.primary_metric if settings.keep_best else None,
        description=description,
    )


def watcher(model: keras.Model, prepared: prepare.Prepared) -> Callable[[], dict[str, float]]:
    """What measures a model on the development set after every epoch, traced once."""
    predict = training.predictor(model)

    def measure() -> dict[str, float]:
        logits = predict(prepared.dev)
        return task_metrics.score(prepared.task, logits, prepared.dev.encoded)

    return measure


def optimizer_of(settings: config.OptimizerConfig, total_steps: int) -> keras.optimizers.Optimizer:
    """The optimizer of a fine-tuning or a stage, over so many updates."""
    make = training.lamb if settings.optimizer == "lamb" else training.adamw
    return make(
        settings.learning_rate,
        total_steps=max(total_steps, 1),
        schedule=settings.schedule,
        end_learning_rate=settings.end_learning_rate,
        warmup=settings.warmup,
        weight_decay=settings.weight_decay,
        clip=settings.clip,
        clip_norm=settings.clip_norm,
        beta_2=settings.beta_2,
        epsilon=settings.epsilon,
    )
