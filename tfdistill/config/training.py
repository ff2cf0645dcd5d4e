"""What every training of a recipe is made of: optimizer, fine-tuning, pre-training."""

from __future__ import annotations

import os.path
from typing import Annotated, Any, Literal, TypeVar

import pydantic

# A path or a hub id. "~" is the home folder: shells do not expand it after "=".
PathText = Annotated[str, pydantic.AfterValidator(os.path.expanduser)]


class Section(pydantic.BaseModel):
    """A part of a recipe: every key known, nothing changed later."""

    model_config = pydantic.ConfigDict(
        extra="forbid", protected_namespaces=(), frozen=True, allow_inf_nan=False
    )


SectionType = TypeVar("SectionType", bound=Section)


def described(default: Any, description: str, **limits: Any) -> Any:
    """A field whose description is also the help of the command line's option.

    Args:
      default: Its default; ``...`` for none.
      description: What it is, in lower case without a full stop.
      **limits: Of `pydantic.Field`, such as ``gt=0``.
    """
    return pydantic.Field(default, description=description, **limits)


class OptimizerConfig(Section):
    """AdamW or LAMB; learning rates are per step, warm-up is a fraction of all steps."""

    optimizer: Literal["adamw", "lamb"] = "adamw"
    learning_rate: float = pydantic.Field(default=5e-5, gt=0)
    end_learning_rate: float = pydantic.Field(default=0.0, ge=0)
    beta_2: float = pydantic.Field(default=0.999, gt=0, lt=1)
    epsilon: float = pydantic.Field(default=1e-6, gt=0)
    schedule: Literal["linear", "constant"] = "linear"
    warmup: float = pydantic.Field(default=0.1, ge=0, lt=1)
    weight_decay: float = pydantic.Field(default=0.01, ge=0)
    clip: Literal["per_tensor", "global", "none"] = "per_tensor"
    clip_norm: float = pydantic.Field(default=1.0, gt=0)


class FineTuneConfig(OptimizerConfig):
    """Fine-tuning of the teacher on gold labels."""

    learning_rate: float = described(5e-5, "peak learning rate, after the warm-up", gt=0)
    clip: Literal["per_tensor", "global", "none"] = "global"
    epochs: int = described(3, "passes over the training set", gt=0)
    batch_size: int = described(32, "examples per step", gt=0)
    token_budget: int | None = pydantic.Field(default=None, gt=0)
    keep_best: bool = True


class PretrainConfig(Section):
    """Pre-training of a masked language model; the defaults suit a small model.

    Attributes:
      steps: Batches in all; None counts `epochs` instead.
      epochs: Epochs of the corpus.
      batch_size: Examples of a batch.
      gradient_accumulation: Batches of an optimizer step.
      optimizer: "adamw" or "lamb".
      learning_rate: The peak rate.
      schedule: "linear" falls to 0 at the last step, "constant" stays.
      warmup: The share of the steps in which the rate rises.
      weight_decay: Decay, not of biases and norms.
      next_sentence: Whether to train next-sentence prediction too.
      mask_rate: The share of tokens that is chosen for prediction.
      smoothing: Exponent of smoothed masking (DistilBERT: 0.7), or None for equal probabilities.
      whole_words: Whether the pieces of a word are masked together.
      held_out: The share of the corpus, at the end of each shard, that is never trained on.
      held_out_examples: At most so many of them are evaluated.
      evaluations: The most evaluations on the way; the steps are cut into as many equal parts as
        divide them, each with its row in history.csv.
      checkpoint_every: Steps between checkpoints.
      precision: "float32" or "mixed_bfloat16".
    """

    steps: int | None = pydantic.Field(default=None, ge=1)
    epochs: int = pydantic.Field(default=1, ge=1)
    batch_size: int = pydantic.Field(default=32, ge=1)
    gradient_accumulation: int = pydantic.Field(default=1, ge=1)
    optimizer: Literal["adamw", "lamb"] = "adamw"
    learning_rate: float = pydantic.Field(default=5e-4, gt=0)
    schedule: Literal["linear", "constant"] = "linear"
    warmup: float = pydantic.Field(default=0.05, ge=0, lt=1)
    weight_decay: float = pydantic.Field(default=0.01, ge=0)
    next_sentence: bool = False
    mask_rate: float = pydantic.Field(default=0.15, gt=0, lt=1)
    smoothing: float | None = pydantic.Field(default=None, ge=0)
    whole_words: bool = False
    held_out: float = pydantic.Field(default=0.01, gt=0, lt=1)
    held_out_examples: int = pydantic.Field(default=2000, ge=1)
    evaluations: int = pydantic.Field(default=10, ge=1)
    checkpoint_every: int = pydantic.Field(default=500, ge=1)
    precision: Literal["float32", "mixed_bfloat16"] = "float32"


class TeacherPretrainConfig(PretrainConfig):
    """Pre-training of the teacher before all else, and its text.

    For a teacher that nobody has published (IB-BERT), or one without a head for masked words.
    """

    corpus: tuple[PathText, ...] = ()
    max_length: int | None = pydantic.Field(default=None, ge=3, le=512)
