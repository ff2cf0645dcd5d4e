"""MobileBERT's knowledge transfer: its stages, where its student starts, and carrying it out."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import tensorflow as tf
import tf_keras as keras

from tfdistill import config, distillers, errors
from tfdistill.data.streaming import StepRange, TrainingBatches
from tfdistill.io import files, reading
from tfdistill.losses import checks, methods
from tfdistill.results import FitResult, read_finished, write_result_file
from tfdistill.training import checkpoints, multi_worker, optimizers, variables
from tfdistill.training.fit import fit

STRATEGIES = ("akt", "jkt", "pkt")
EARLIER = ("freeze", "soft", "full")
SOFT_RATES = (0.3, 3.0)  # of earlier layers and of the current one, as published


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransferStage:
    """One fit of a knowledge transfer.

    Attributes:
      name: Names the stage's folder.
      layers: Student layers (0-based) whose transfer is learnt.
      predict_words: Whether masked words (and the teacher's answers, and next sentences) are.
      rates: Multipliers of the learning rate by layer name, as `Distiller.compile` takes them.
      steps: Its length in batches, or None.
      epochs: Its length in epochs of the data; one of the two is given.
    """

    name: str
    layers: tuple[int, ...]
    predict_words: bool
    rates: tuple[tuple[str, float], ...] = ()
    steps: int | None = None
    epochs: int | None = None

    def __post_init__(self) -> None:
        """Refuses a stage without a length or with two."""
        _check_length(f"stage {self.name}", self.steps, self.epochs)

    def num_batches(self, steps_per_epoch: int) -> int:
        """Its length in batches."""
        return self.steps if self.steps is not None else (self.epochs or 0) * steps_per_epoch


def transfer_stages(
    strategy: Literal["akt", "jkt", "pkt"],
    *,
    num_layers: int,
    transfer_steps: int | None = None,
    transfer_epochs: int | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    earlier: Literal["freeze", "soft", "full"] = "freeze",
) -> tuple[TransferStage, ...]:
    """Lists the stages of a strategy.

    - "akt", auxiliary: one stage ("all") learns layers and words together.
    - "jkt", joint: all layers ("layers"), then the words ("words").
    - "pkt", progressive: layer after layer ("layer_0", "layer_1", ...), then the words. While
      layer l learns, the embeddings and the layers before it

      - "freeze": do not change, bit for bit, as the paper has it;
      - "soft": the layers learn at 0.3 of the rate, layer l at 3 times the rate, and the
        embeddings do not change, as in the published TF1 code;
      - "full": all learn at the full rate, as in the published TF2 code.

      Later layers learn nothing, since no term reaches them.

    The published lengths are 10,000 steps a layer (PKT; JKT as many in all, 240,000) and 500,000
    for the words.

    Args:
      strategy: "akt", "jkt" or "pkt".
      num_layers: Layers of the student.
      transfer_steps: Batches of each stage that learns layers alone.
      transfer_epochs: Or its epochs; "akt" has no such stage and takes neither.
      steps: Batches of the stage that learns words.
      epochs: Or its epochs. Neither: no such stage, for encoders and classifiers ("akt" needs it).
      earlier: What earlier layers do, for "pkt".

    Raises:
      ConfigError: If an option is unknown, or a length is missing or given twice.

    Examples:
      >>> stages = tfdistill.transfer_stages("jkt", num_layers=24, transfer_steps=100, steps=500)
      >>> [(stage.steps, stage.predict_words) for stage in stages]
      [(100, False), (500, True)]

    Reference: Sun et al. 2020, MobileBERT, section 3.5 and figure 2.
    """
    checks.check_choice("strategy", strategy, STRATEGIES)
    checks.check_choice("earlier", earlier, EARLIER)
    every = tuple(range(num_layers))
    if strategy == "akt":
        _check_length("length of akt (steps, epochs)", steps, epochs)
        return (
            TransferStage(name="all", layers=every, predict_words=True, steps=steps, epochs=epochs),
        )
    _check_length(
        f"length of {strategy} (transfer_steps, transfer_epochs)", transfer_steps, transfer_epochs
    )
    length = {"predict_words": False, "steps": transfer_steps, "epochs": transfer_epochs}
    if strategy == "jkt":
        stages = [TransferStage(name="layers", layers=every, **length)]
    else:
        stages = [
            TransferStage(
                name=f"layer_{layer}", layers=(layer,), rates=_rates(layer, earlier), **length
            )
            for layer in every
        ]
    if steps is not None or epochs is not None:
        stages.append(
            TransferStage(name="words", layers=(), predict_words=True, steps=steps, epochs=epochs)
        )
    return tuple(stages)


def _rates(layer: int, earlier: str) -> tuple[tuple[str, float], ...]:
    if earlier == "full":
        return ()
    slow, fast = SOFT_RATES if earlier == "soft" else (0.0, 1.0)
    before = [(f"layer_{index}_*", slow) for index in range(layer) if slow]
    return (*before, (f"layer_{layer}_*", fast), ("*", 0.0))


def _check_length(what: str, steps: int | None, epochs: int | None) -> None:
    limits = [length for length in (steps, epochs) if length is not None]
    if len(limits) != 1 or limits[0] < 1:
        raise errors.ConfigError(
            what, "either steps or epochs, at least 1", f"{steps} and {epochs}"
        )


def published_optimizer(
    stage: TransferStage, total_steps: int, *, learning_rate: float = config.MOBILEBERT_RATE
) -> keras.optimizers.Optimizer:
    """MobileBERT's optimizer for a stage: LAMB, decay 0.01, global norm clipped to 1.

    Stages of layers run at a constant rate; a stage that learns words warms up over 2% of its
    steps (10,000 of 500,000) and falls to 1.5e-7.

    Args:
      stage: The stage.
      total_steps: Its optimizer steps.
      learning_rate: The (peak) rate.
    """
    if not stage.predict_words:
        return optimizers.lamb(learning_rate)
    return optimizers.lamb(
        learning_rate,
        total_steps=total_steps,
        schedule="linear",
        warmup=0.02,
        end_learning_rate=min(1.5e-7, learning_rate),
    )


EMBEDDING_LAYERS = (
    *("word_embeddings", "embedding_projection", "position_embeddings", "token_type_embeddings"),
    "embeddings_layer_norm",
)
HEAD_LAYERS = (
    *("mlm_transform", "mlm_layer_norm", "mlm_extra_decoder", "mlm_bias", "nsp_classifier"),
)


def initialise_from_mobilebert_teacher(
    student: keras.Model, teacher: keras.Model, *, heads: bool = False
) -> None:
    """Starts a MobileBERT from its teacher's embeddings, bit for bit.

    Copied are the word, position and type tables, the projection of the trigrams and the scale
    and shift of the norm after them (also where the teacher has a LayerNorm and the student
    NoNorm, as published). With `heads` also the masked-LM and next-sentence heads, as in the
    published TF1 code. The blocks stay as they are.

    Args:
      student: Changed in place.
      teacher: As wide between its blocks, with the same embeddings.
      heads: Whether the heads are copied too.

    Raises:
      ShapeError: If a layer of the student is not in the teacher or has another shape; the
        message lists them all, and nothing is changed.
    """
    names = EMBEDDING_LAYERS + (HEAD_LAYERS if heads else ())
    ours = {layer.name: layer for layer in student.layers if layer.name in names}
    teacher_layers = {layer.name: layer for layer in teacher.layers}
    differing = {}
    for name, layer in ours.items():
        expected = _shapes(layer)
        received = _shapes(teacher_layers[name]) if name in teacher_layers else "no such layer"
        if received != expected:
            differing[name] = f"{expected} here, {received} there"
    if differing or (heads and "mlm_transform" not in ours):
        raise errors.ShapeError(
            "teacher",
            "the student's embeddings" + (" and masked-LM heads" if heads else ""),
            differing or "a student without heads",
            "Build both with the same vocabulary, positions, embedding_size and hidden_size.",
        )
    for name, layer in ours.items():
        layer.set_weights(teacher_layers[name].get_weights())


def _shapes(layer: keras.layers.Layer) -> list[tuple[int, ...]]:
    return [tuple(variable.shape) for variable in layer.weights]


FORMAT_VERSION = 1
PLAN, START, WEIGHTS, RESULT = (
    "plan.json",
    "start.safetensors",
    "weights.safetensors",
    "result.json",
)
_REMEDY = f"Delete {RESULT} next to it and resume, or take the student of the first call."


def run_transfer(
    stages: Sequence[TransferStage],
    teacher: keras.Model,
    student: keras.Model,
    train: TrainingBatches,
    folder: files.Path,
    *,
    optimizer: Callable[[TransferStage, int], keras.optimizers.Optimizer] = published_optimizer,
    loss_weights: Mapping[str, float] | None = None,
    distiller_options: Mapping[str, Any] | None = None,
    compile_options: Mapping[str, Any] | None = None,
    gradient_accumulation: int = 1,
    seed: int = 0,
    evaluate: Callable[[], Mapping[str, float]] | None = None,
    checkpoint_seconds: float | None = None,
    description: str = "",
    extra_callbacks: tuple[keras.callbacks.Callback, ...] = (),
) -> tuple[FitResult, ...]:
    """Carries out stages one after the other; killed at any moment, it resumes when called again.

    Each stage is a `fit` in a folder of its own, ``<number>-<name>``, with a fresh optimizer. It
    starts from the weights that the stage before it ended with, and takes the batches that follow
    those of the stage before it. The weights that the student came with are kept as well, so that
    a second call does not depend on how its student starts.

    Args:
      stages: From `transfer_stages`.
      teacher: As for `MobileBertDistiller`.
      student: Trained in place.
      train: The batches; masked ones where words are predicted.
      folder: Gets the stages' folders and what a resume needs.
      optimizer: Makes the optimizer of a stage, given the number of its optimizer steps.
      loss_weights: Weights by term; each stage takes those of its own terms.
      distiller_options: More options of `MobileBertDistiller`: attention, reduction, ...
      compile_options: More options of `compile`: run_eagerly, jit_compile, ...
      gradient_accumulation: Batches of an optimizer step.
      seed: Seed of the dropout masks.
      evaluate: Returns development metrics, for the history.
      checkpoint_seconds: As for `fit`.
      description: Shown in front of the stage's name in the progress bar.
      extra_callbacks: Keras callbacks of your own.

    Returns:
      The result of each stage.

    Raises:
      ConfigError: If `folder` holds another list of stages, or an option does not fit.
      ShapeError: If teacher and student cannot be compared.
      NonFiniteLossError: If a loss or a weight is NaN or infinite.
      WeightsError: If a checkpoint cannot be written or read.

    Examples:
      >>> student = tfdistill.load_teacher("teacher", task=data.task)  # as deep and as wide
      >>> stages = tfdistill.transfer_stages("jkt", num_layers=4, transfer_steps=2)
      >>> results = tfdistill.run_transfer(stages, teacher, student, data.train, "runs/jkt")
      >>> [result.steps for result in results]
      [2]
    """
    for term in loss_weights or {}:
        checks.check_choice(
            "loss_weights", term, (*methods.TRANSFER_WEIGHTS, *methods.WORD_WEIGHTS)
        )
    with multi_worker.working_folder(folder, tf.distribute.get_strategy()) as root:
        _open(root, stages, student)
        results = []
        weights, done = root / START, 0
        for index, stage in enumerate(stages):
            where = root / f"{index:02d}-{stage.name}"
            steps = stage.num_batches(train.steps_per_epoch)
            result = read_finished(where / RESULT, FitResult)
            if result is None or not (where / WEIGHTS).is_file():
                variables.load(student.weights, weights, remedy=_REMEDY)
                distiller = distillers.MobileBertDistiller(
                    teacher,
                    student,
                    layers=stage.layers,
                    predict_words=stage.predict_words,
                    seed=1000 * seed + index,
                    **(distiller_options or {}),
                )
                distiller.compile(
                    optimizer(stage, steps // gradient_accumulation),
                    loss_weights={
                        term: weight
                        for term, weight in (loss_weights or {}).items()
                        if term in distiller.terms
                    },
                    gradient_accumulation=gradient_accumulation,
                    lr_multipliers=stage.rates,
                    **(compile_options or {}),
                )
                part = StepRange(train, start=done, steps=steps)
                result = fit(
                    distiller,
                    part,
                    epochs=part.parts,
                    folder=where,
                    evaluate=evaluate,
                    checkpoint_seconds=checkpoint_seconds,
                    description=f"{description} {stage.name}".strip(),
                    extra_callbacks=extra_callbacks,
                )
                variables.save(student.weights, where / WEIGHTS)
                write_result_file(result, where / RESULT)
            # The weights are all that a later stage needs.
            checkpoints.remove(where)
            results.append(result)
            weights, done = where / WEIGHTS, done + steps
        variables.load(student.weights, weights, remedy=_REMEDY)
        return tuple(results)


def _open(folder: pathlib.Path, stages: Sequence[TransferStage], student: keras.Model) -> None:
    """Begins a folder, or makes sure that it was begun with the same stages."""
    plan = {
        "format_version": FORMAT_VERSION,
        "stages": [dataclasses.asdict(stage) for stage in stages],
    }
    plan = json.loads(json.dumps(plan))  # tuples become lists, as they come back from a file
    if not plan["stages"] or len({stage["name"] for stage in plan["stages"]}) < len(stages):
        raise errors.ConfigError(
            "stages", "at least one, each with a name of its own", list(stages)
        )
    if not ((folder / PLAN).is_file() and (folder / START).is_file()):
        variables.save(
            student.weights, folder / START
        )  # before the plan, which says that all is there
        files.atomic_write_json(folder / PLAN, plan)
        return
    saved = reading.read_json_object(folder / PLAN, error=errors.ConfigError)
    if saved != plan:
        raise errors.ConfigError(
            f"stages in {folder}",
            f"those in {PLAN}, {[stage['name'] for stage in saved['stages']]}",
            [stage.name for stage in stages],
            "Choose another folder, or the strategy and lengths of the first call.",
        )
