"""What every training of a recipe is made of: rates, optimizer, fine-tuning, compression."""

from __future__ import annotations

import math
import os.path
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import pydantic

from tfdistill import errors
from tfdistill.config.schema import (
    HIGHEST_RATE,
    BatchSize,
    Rate,
    Section,
    Steps,
    Tokens,
    described,
    each_once,
    section_of,
    union_of,
)

# A path or a hub id. "~" is the home folder: shells do not expand it after "=".
PathText = Annotated[str, pydantic.AfterValidator(os.path.expanduser)]
Schedule = Literal["linear", "linear_after_warmup", "constant"]
Clip = Literal["per_tensor", "global", "none"]
Precision = Literal["float32", "mixed_bfloat16"]
FineTuning = Literal["labels", "contrastive", "frozen"]
Target = Literal["hard", "soft", "sharpened"]
# Peak learning rates where nobody names one. Wide models take smaller steps, in inverse proportion
# to their width, as in Yang et al. 2022, Tensor Programs V, for Adam.
TRAINING_RATE = 5e-5  # of a stage of a recipe, and of a teacher that is fine-tuned
PRETRAINING_RATE = 5e-4  # of a model that is trained from random weights on plain text
GENERAL_RATE = 3e-4
"""A general stage that `distill --corpus` puts in front."""
STATIC_RATE = 3e-3
"""A student of word vectors: tried on questions of 6 types."""
MOBILEBERT_RATE = 1.5e-3
"""MobileBERT's transfer, the paper's."""
_JOINT, _JOINT_WIDTH = 3e-4, 384
_LEAST_NEARNESS = 0.01  # of the rate that is left at least
LEAST_STEPS = 1000
"""The fewest steps of a student, where nobody names them; narrow ones get more."""
_TEACHER, _TEACHER_WIDTH = 5e-5, 768


def joint_rate(width: int, missed: float = 1.0) -> float:
    """The rate of a student that starts pruned: ``3e-4 min(1, 384/width) min(1, 3m)^2``.

    m is the share of the variance of its teacher's answers that it misses before it is trained: a
    student that answers nearly as its teacher does loses more by large steps than it learns (of
    few rows, docs/guides/languages.md). Measured for students that are 192 to 384 wide
    (docs/benchmarks/pruned.md).
    """
    nearness = max(_LEAST_NEARNESS, min(1.0, 3 * missed) ** 2)
    return _JOINT * min(1.0, _JOINT_WIDTH / width) * nearness


def joint_steps(width: int) -> int:
    """The fewest steps of a joint stage: ``1000 * (384 / width)^2``, at least 1,000, at most 4,000.

    A narrow student's steps cost less, and it goes on learning (docs/benchmarks/small-students.md).
    """
    return round(LEAST_STEPS * min(4.0, max(1.0, (_JOINT_WIDTH / width) ** 2)))


def teacher_rate(width: int) -> float:
    """The rate of a teacher that `quickstart` fine-tunes: 5e-5 at 768, at most twice as much."""
    return _TEACHER * min(2.0, max(1.0, _TEACHER_WIDTH / width))


class OptimizerConfig(Section):
    """AdamW or LAMB; learning rates are per step, warm-up is a fraction of all steps.

    See `training.optimizers.build`; `bias_correction` false makes it BertAdam.
    """

    optimizer: Literal["adamw", "lamb"] = described("adamw", "optimizer")
    learning_rate: Rate = described(TRAINING_RATE, "peak learning rate, after the warm-up")
    end_learning_rate: float = pydantic.Field(default=0.0, ge=0)
    beta_2: float = pydantic.Field(default=0.999, gt=0, le=0.999999)  # float32 rounds more to 1
    epsilon: float = pydantic.Field(default=1e-6, ge=1e-12, le=1)
    schedule: Schedule = described(
        "linear", "learning rate after the warm-up: falls to 0 at the last step, or stays"
    )
    bias_correction: bool = True
    warmup: float = described(
        0.1, "share of the steps in which the learning rate rises", ge=0, lt=1
    )
    weight_decay: float = described(0.01, "weight decay of matrices", ge=0, le=1)
    clip: Clip = "per_tensor"
    clip_norm: float = pydantic.Field(default=1.0, gt=0)
    precision: Precision = described(
        "float32",
        "compute dtype; weights stay float32",
    )

    @pydantic.model_validator(mode="after")
    def _only_adam_goes_without(self) -> OptimizerConfig:
        if self.optimizer == "lamb" and not self.bias_correction:
            raise ValueError(
                errors.explain("bias_correction", "true for the optimizer lamb", False)
            )
        return self

    @pydantic.model_validator(mode="after")
    def _falls_to_its_end(self) -> OptimizerConfig:
        peak = self.learning_rate or HIGHEST_RATE  # None: by the student's width
        if self.end_learning_rate > (0 if self.schedule == "constant" else peak):
            raise ValueError(
                errors.explain(
                    "end_learning_rate",
                    f"at most the learning rate {peak:g}, and a linear schedule",
                    f"{self.end_learning_rate:g} with schedule {self.schedule}",
                )
            )
        return self


class FineTuneConfig(OptimizerConfig):
    """Fine-tuning of the teacher on gold labels.

    Where `epochs` are fewer than `min_steps` batches, there are as many as these need.
    """

    clip: Clip = "global"
    epochs: Steps = described(3, "passes over the training set")
    min_steps: Steps | None = described(
        None, "minimum number of steps: small training sets get more than --epochs epochs"
    )
    batch_size: BatchSize = described(32, "examples per step")
    token_budget: int | None = pydantic.Field(default=None, gt=0)
    method: FineTuning = described(
        "labels",
        "labels: all weights learn the labels; for few rows frozen: a linear head over the pooled "
        "states of the encoder as it is; contrastive: over those of the encoder fine-tuned on "
        "pairs of rows, unless the one as it is does better in cross-validation",
    )
    keep_best: bool = True
    patience: int | None = pydantic.Field(default=None, gt=0)  # evaluations, one an epoch
    # Of the answers of a model that stand in the training file: each is learnt from the same start,
    # and the result that is best on the development set is taken.
    targets: Annotated[tuple[Target, ...], pydantic.AfterValidator(each_once)] = pydantic.Field(
        default=("hard",), min_length=1
    )

    @property
    def pooled(self) -> bool:
        """Whether the result is a linear head over pooled states."""
        return self.method != "labels"

    @property
    def unread(self) -> tuple[str, ...]:
        """The fields that its method does not read."""
        if self.method == "labels":
            return ()
        watched = ("token_budget", "keep_best", "patience", "targets")
        return watched if self.method == "contrastive" else (*_OF_STEPS, *watched)

    def num_epochs(self, steps_per_epoch: int) -> int:
        """The epochs to train, of so many batches each."""
        return at_least(self.epochs, self.min_steps, steps_per_epoch)


_OF_STEPS = (*OptimizerConfig.model_fields, "epochs", "min_steps", "batch_size")


def at_least(epochs: int, min_steps: int | None, steps_per_epoch: int) -> int:
    """Epochs of so many batches each: more than are named where these have too few steps."""
    return max(epochs, math.ceil((min_steps or 0) / steps_per_epoch))


class PretrainConfig(OptimizerConfig):
    """Pre-training of a masked language model; the defaults suit a small model.

    Without `steps` it trains `epochs` of the corpus. The share `held_out`, at the end of each
    shard, is never trained on. The steps are cut into at most `evaluations` equal parts that divide
    them, each with its row in history.csv.
    """

    steps: Steps | None = described(None, "train so many batches instead of epochs")
    epochs: Steps = described(1, "passes over the text")
    batch_size: BatchSize = described(32, "examples per batch")
    gradient_accumulation: BatchSize = described(1, "batches per optimizer step")
    learning_rate: Rate = described(PRETRAINING_RATE, "peak learning rate, after the warm-up")
    warmup: float = described(
        0.05, "share of the steps in which the learning rate rises", ge=0, lt=1
    )
    clip: Clip = "global"
    next_sentence: bool = described(False, "also learn next-sentence prediction, as BERT does")
    mask_rate: float = described(0.15, "share of the tokens that are masked", gt=0, lt=1)
    smoothing: float | None = described(
        None, "exponent that masks rare tokens more often (DistilBERT: 0.7)", ge=0, le=10
    )
    whole_words: bool = described(False, "mask all pieces of a word together")
    held_out: float = described(0.01, "share of the text kept for evaluation", gt=0, lt=1)
    held_out_examples: int = described(2000, "most examples of it that are evaluated", ge=1)
    evaluations: int = described(10, "most evaluations during training", ge=1)


class TeacherPretrainConfig(PretrainConfig):
    """Pre-training of the teacher before all else, and its text.

    For a teacher that nobody has published (IB-BERT), or one without a head for masked words.
    """

    corpus: tuple[PathText, ...] = ()
    max_length: Tokens | None = None


class CompressConfig(Section):
    """What a stage does to the student's weights while it trains.

    Attributes:
      method: "prune" prunes by magnitude to `sparsity`, from the share `begin` of the stage's steps
        to `end`; with "cluster" each matrix is made of `clusters` numbers; "quantize" is
        quantization-aware training: with 8 `bits` the export as static_wi8_ai8 needs no calibration
        then, with 4 that as dynamic_wi4_afp32_block32 loses nothing.
      teacher: The model that the stage learns from: "teacher", or "student", the float student as
        it enters the stage.
      layers: Patterns of layer names; None: the method's own.
    """

    method: str
    teacher: Literal["teacher", "student"] = "teacher"
    layers: tuple[str, ...] | None = pydantic.Field(default=None, min_length=1)
    sparsity: float = described(0.5, "share of weights that become zero, with prune", gt=0, lt=1)
    begin: float = pydantic.Field(default=0.0, ge=0, lt=1)
    end: float = pydantic.Field(default=0.7, gt=0, le=1)
    block_size: tuple[pydantic.PositiveInt, pydantic.PositiveInt] = (1, 1)
    bits: Literal[8, 4] = described(8, "of a weight, with quantize")
    clusters: int = described(16, "different values in each matrix, with cluster", ge=2, le=256)
    start: Literal["linear", "density", "kmeans++"] = "linear"

    @property
    def learns_ranges(self) -> bool:
        """Whether the student has the ranges of its activations afterwards."""
        return self.method == "quantize" and self.bits == 8

    @pydantic.model_validator(mode="after")
    def _begins_before_it_ends(self) -> CompressConfig:
        if self.begin >= self.end:
            raise ValueError(errors.explain("begin", f"a share below end ({self.end})", self.begin))
        return self


METHODS: Mapping[str, tuple[str, ...]] = {
    "prune": ("sparsity", "begin", "end", "block_size"),
    "cluster": ("clusters", "start"),
    "quantize": ("bits",),
}
"""Compressions in the order in which a student may go through them, and the options of each.

A later one keeps what an earlier one made.
"""
QUANTIZE_AWARE = "static_wi8_ai8"
"""The quantization that a quantization-aware model of 8 bits is trained for."""
_METHOD_READERS = {option: [method] for method, keys in METHODS.items() for option in keys}
COMPRESS_SECTIONS = {
    method: section_of(
        CompressConfig,
        "method",
        method,
        readers=_METHOD_READERS,
        what="with method",
        defaults={},
        types={},
    )
    for method in METHODS
}
"""Method -> its section."""
if TYPE_CHECKING:
    Compress = CompressConfig
else:
    Compress = union_of(CompressConfig, "method", COMPRESS_SECTIONS, ())
