"""The stages of a recipe: a class for each kind, with the options that its method reads.

On a corpus learn general (TinyBERT's first stage), mlm, distilbert and mobilebert; on the task
intermediate and prediction (TinyBERT's second stage), joint, labels, logits, patient and embedding;
on either of the two relations and combination. Defaults are those of `losses.methods`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import pydantic

from tfdistill.config import unions
from tfdistill.config.compression import Compress
from tfdistill.config.training import OptimizerConfig, PathText, Section, at_least

LayerMap = Literal["uniform", "top", "bottom"] | tuple[int, ...]
"""Which teacher layer each student layer learns from: a rule, or the layers."""
Prediction = Literal["soft_cross_entropy", "kl_divergence", "logit_mse"]
TOKEN_NOISE = PAIR_NOISE = 0.5
Temperature = Annotated[float, pydantic.Field(gt=0)]


class StageConfig(OptimizerConfig):
    """What every stage reads.

    Attributes:
      has_teacher: Whether the student learns from a teacher.
      kind: Which class of this module it is.
      epochs: Passes over the examples.
      steps: Batches in all, instead of epochs.
      batch_size: Examples of a batch.
      gradient_accumulation: Batches of an optimizer step.
      bucketing: Whether batches hold examples of like lengths, padded to the longest of them.
      max_length: Tokens of an example; None: the task's.
      loss_weights: Factors of the terms by name, 0 switches one off.
    """

    has_teacher: ClassVar[bool] = True

    kind: str
    epochs: int = pydantic.Field(default=3, gt=0)
    steps: int | None = pydantic.Field(default=None, gt=0)
    batch_size: int = pydantic.Field(default=32, gt=0)
    gradient_accumulation: int = pydantic.Field(default=1, gt=0)
    bucketing: bool = True
    max_length: int | None = pydantic.Field(default=None, ge=3, le=512)
    loss_weights: dict[str, float] = pydantic.Field(default={})

    def num_epochs(self, steps_per_epoch: int) -> int:
        """The epochs to train, of so many batches each."""
        return self.epochs

    @property
    def on_corpus(self) -> bool:
        """Whether the stage reads plain text, not the task's examples."""
        if isinstance(self, EitherStage):
            return self.reads == "corpus"
        return isinstance(self, CorpusStage)

    @property
    def trains_classifier(self) -> bool:
        """Whether the student answers the task after it."""
        return isinstance(self, ClassifierStage) and not self.on_corpus


class BudgetStage(StageConfig):
    """A stage whose batches may be as large as a number of tokens allows."""

    token_budget: int | None = pydantic.Field(default=None, gt=0)


class CorpusStage(StageConfig):
    """A stage on plain text: files, or one folder of shards."""

    corpus: tuple[PathText, ...] = ()


class PlainTextStage(CorpusStage, BudgetStage):
    """A stage on text as it is; `max_tokens` of it are drawn where it is read into memory."""

    max_tokens: int | None = pydantic.Field(default=None, gt=0)


class MaskedStage(CorpusStage):
    """A stage that guesses masked words; frequent ones less often with `mask_smoothing`."""

    mask_rate: float = pydantic.Field(default=0.15, gt=0, lt=1)
    mask_smoothing: float = pydantic.Field(default=0.0, ge=0)  # DistilBERT: 0.7
    next_sentence: bool = False


class TaskStage(BudgetStage):
    """A stage on the task's examples, or with `augmented` on the augmented ones."""

    augmented: bool = False
    compress: Compress | None = None


class ClassifierStage(TaskStage):
    """A stage that trains the classifier, watched on the development set.

    `keep_best` None keeps the best epoch, but not while a stage prunes: early epochs have few
    zeros. Where `epochs` are fewer than `min_steps` batches, there are as many as these need.
    After `patience` epochs without a better one training stops, but not before `min_steps`.
    """

    keep_best: bool | None = None
    min_steps: int | None = pydantic.Field(default=None, gt=0)
    patience: int | None = pydantic.Field(default=None, gt=0)

    def num_epochs(self, steps_per_epoch: int) -> int:
        """The epochs to train, of so many batches each."""
        return at_least(self.epochs, self.min_steps, steps_per_epoch)


class EitherStage(PlainTextStage, TaskStage):
    """A stage that can learn from the task's text or from a corpus; None: the task's."""

    reads: Literal["corpus", "task"] | None = None


class LayerOptions(Section):
    """What TinyBERT's layer losses read; see `distillers.TinyBertDistiller`."""

    layer_weights: dict[str, tuple[float, ...]] = pydantic.Field(default={})
    layer_map: LayerMap = "uniform"
    projection: Literal["shared", "per_layer", "none"] = "shared"
    reduction: Literal["tokens", "reference"] = "tokens"


class GeneralStage(PlainTextStage, LayerOptions):
    """TinyBERT's general distillation: layers, on plain text."""

    kind: Literal["general"] = "general"


class IntermediateStage(TaskStage, LayerOptions):
    """TinyBERT's task distillation of layers."""

    kind: Literal["intermediate"] = "intermediate"


class PredictionStage(ClassifierStage):
    """TinyBERT's task distillation of answers."""

    kind: Literal["prediction"] = "prediction"
    prediction: Prediction = "soft_cross_entropy"
    temperature: Temperature = 1.0
    reduction: Literal["tokens", "reference"] = "tokens"


class LabelsStage(ClassifierStage):
    """Gold labels, no teacher."""

    has_teacher: ClassVar[bool] = False

    kind: Literal["labels"] = "labels"


class LogitsStage(ClassifierStage):
    """Answers alone: Hinton, PD, logit MSE and mixes; see `distillers.LogitDistiller`."""

    kind: Literal["logits"] = "logits"
    prediction: Prediction = "kl_divergence"
    temperature: Temperature = 1.0
    scale_by_t2: bool = True


class PrunedStage(ClassifierStage):
    """What stages read that usually train a student which starts pruned.

    Attributes:
      learning_rate: None: by the student's width, see `run.stages.joint_rate`.
    """

    learning_rate: float | None = pydantic.Field(default=None, gt=0)  # pyright: ignore
    min_steps: int | None = pydantic.Field(default=1000, gt=0)
    patience: int | None = pydantic.Field(default=5, gt=0)
    layer_map: LayerMap = "uniform"


class JointStage(PrunedStage):
    """Answers and hidden states of mapped layers together, for a student that starts pruned.

    The terms are "answers" (`prediction` with `temperature`), "hidden" (mean over layers of the
    MSE of hidden states) and "label" (gold labels, weight 0 unless `loss_weights` has another). A
    student without layers learns from the answers alone.

    Attributes:
      temperature: None: 1, or for a teacher whose answers are nearly uniform the one below 1 that
        calibrates them on the development set.
      token_noise: The share of a batch's examples with replaced tokens, see `data.noise`; None:
        `TOKEN_NOISE`, but 0 where gold labels count or the answers were stored before.
      pair_noise: The share of a batch's pairs of texts that become other pairs, see
        `data.noise.PairNoise`; None: `PAIR_NOISE` where tokens are replaced, otherwise 0.
    """

    kind: Literal["joint"] = "joint"
    prediction: Prediction = "kl_divergence"
    temperature: Temperature | None = None
    token_noise: float | None = pydantic.Field(default=None, ge=0, le=1)
    pair_noise: float | None = pydantic.Field(default=None, ge=0, le=1)

    @pydantic.model_validator(mode="after")
    def _check_noise(self) -> JointStage:
        for name, share in self.asked_noise.items():
            if needs_labels(self):
                raise ValueError(
                    f"{name}: expected 0 with a weight for gold labels, which are not those of "
                    f"changed texts, received {share}. Leave one of the two out."
                )
        return self

    @property
    def asked_noise(self) -> dict[str, float]:
        """The kinds of noise that the recipe asks for, with their shares."""
        shares = {"token_noise": self.token_noise, "pair_noise": self.pair_noise}
        return {name: share for name, share in shares.items() if share}

    @property
    def noisy_share(self) -> float:
        """The share of examples with noise, where the teacher answers during the training."""
        if self.token_noise is not None:
            return self.token_noise
        return 0.0 if needs_labels(self) else TOKEN_NOISE

    @property
    def noisy_pairs(self) -> float:
        """The same of pairs of texts."""
        if self.pair_noise is not None:
            return self.pair_noise
        return PAIR_NOISE if self.noisy_share else 0.0


class EmbeddingStage(PrunedStage):
    """The teacher's vectors of texts, for a task of kind embedding.

    The terms are "vectors" (`objective`), "similarity" (`losses.similarity_kl` with
    `temperature` and `prefixes`) and "hidden" (mean over layers of the MSE of hidden states; weight
    0 unless `loss_weights` has another).

    Attributes:
      prefixes: Widths that the vectors shall be of use cut to (Matryoshka).
    """

    kind: Literal["embedding"] = "embedding"
    objective: Literal["vector_cosine", "vector_mse"] = "vector_cosine"
    temperature: Temperature = 0.05
    prefixes: tuple[pydantic.PositiveInt, ...] = ()


class PatientStage(ClassifierStage):
    """BERT-PKD; see `distillers.PatientDistiller`."""

    kind: Literal["patient"] = "patient"
    layer_map: Literal["skip", "last"] | tuple[int, ...] = "skip"
    prediction: Prediction = "kl_divergence"
    temperature: Temperature = 10.0


class RelationsStage(EitherStage):
    """MiniLM v2; see `distillers.MiniLmDistiller`."""

    kind: Literal["relations"] = "relations"
    relation_heads: int | None = pydantic.Field(default=None, gt=0)
    teacher_layer: int = -1  # the last
    reduction: Literal["tokens", "reference"] = "tokens"


class CombinationStage(EitherStage, ClassifierStage):
    """Any losses: `losses` holds the class and the arguments of each by name."""

    kind: Literal["combination"] = "combination"
    losses: dict[str, dict[str, Any]] = pydantic.Field(default={})


class MaskedWordsStage(MaskedStage):
    """Masked words without a teacher."""

    has_teacher: ClassVar[bool] = False

    kind: Literal["mlm"] = "mlm"


class DistilBertStage(MaskedStage):
    """Masked words, the teacher's distribution, cosine; see `distillers.DistilBertDistiller`."""

    kind: Literal["distilbert"] = "distilbert"
    temperature: Temperature = 2.0


class MobileBertStage(MaskedStage):
    """Layer transfer by `strategy`, then masked words; see `training.transfer_stages`."""

    kind: Literal["mobilebert"] = "mobilebert"
    strategy: Literal["akt", "jkt", "pkt"] = "pkt"
    transfer_epochs: int = pydantic.Field(default=1, gt=0)  # pkt: of each layer; jkt: of all
    transfer_steps: int | None = pydantic.Field(default=None, gt=0)
    transfer_learning_rate: float | None = pydantic.Field(default=None, gt=0)
    earlier: Literal["freeze", "soft", "full"] = "freeze"


ANSWERS_ALONE = ("joint", "logits", "prediction", "embedding")
"""Kinds of stages that need no more of a teacher than its answers."""
VECTOR_LOSSES = ("VectorMSE", "VectorCosine", "SimilarityKL")
"""Losses of a combination that need no more than the vectors of a sentence encoder."""


def needs_labels(stage: StageConfig, *, regression: bool = False) -> bool:
    """Whether a stage of the task learns from gold labels, which unlabelled text does not have.

    Args:
      stage: A stage.
      regression: Whether the task is one: TinyBERT's prediction stage then learns gold numbers.
    """
    if isinstance(stage, CombinationStage):
        weights = {
            name: stage.loss_weights.get(name, term.get("weight", 1.0))
            for name, term in stage.losses.items()
            if term.get("loss") == "GoldLabels"
        }
        return any(weights.values())
    if isinstance(stage, PredictionStage) and regression:
        return True
    usual = isinstance(stage, LabelsStage | PatientStage)
    return stage.loss_weights.get("label", float(usual)) > 0


STAGES: dict[str, type[StageConfig]] = {
    "general": GeneralStage,
    "intermediate": IntermediateStage,
    "prediction": PredictionStage,
    "labels": LabelsStage,
    "logits": LogitsStage,
    "joint": JointStage,
    "embedding": EmbeddingStage,
    "patient": PatientStage,
    "relations": RelationsStage,
    "combination": CombinationStage,
    "mlm": MaskedWordsStage,
    "distilbert": DistilBertStage,
    "mobilebert": MobileBertStage,
}
"""The kinds of stages and their settings."""
if TYPE_CHECKING:
    Stage = StageConfig
else:
    Stage = unions.union_of("AnyStage", "kind", STAGES)
