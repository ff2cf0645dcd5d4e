"""The stages of a recipe: one section, of which each kind reads a part (`stage_kinds`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pydantic

from tfdistill import errors
from tfdistill.config import schema
from tfdistill.config.stage_kinds import KEYED_OPTIONS, STAGES, StageKind, Temperature
from tfdistill.config.training import Compress, OptimizerConfig, PathText, at_least
from tfdistill.tasks.kind import TaskKind

LayerMap = Literal["uniform", "top", "bottom"] | tuple[int, ...]
"""Which teacher layer each student layer learns from: a rule, or the layers."""
Objective = Literal["soft_cross_entropy", "kl_divergence", "logit_mse"]
TOKEN_NOISE, PAIR_NOISE = 0.75, 0.5


class Stage(OptimizerConfig):
    """A stage of any kind; `STAGES` says which kinds read an option, and with which default.

    Attributes:
      kind: What it is, a key of `STAGES`.
      epochs: Passes over the examples, more where these are fewer than `min_steps` batches.
      steps: Batches in all, instead of epochs.
      batch_size: Examples of a batch.
      gradient_accumulation: Batches of an optimizer step.
      bucketing: Whether batches hold examples of like lengths, padded to the longest of them.
      max_length: Tokens of an example; None: the task's.
      loss_weights: Factors of the terms by name, 0 switches one off.
      token_budget: Tokens of a batch, which then may have more or fewer examples.
      reads: Whether a stage that can do either learns from the task's text or from a corpus; None:
        the task's.
      corpus: Plain text: files, or one folder of shards.
      max_tokens: Tokens that are drawn of a corpus, where it is read into memory.
      mask_rate: Share of the tokens that are masked.
      mask_smoothing: Exponent that masks frequent words less often (DistilBERT: 0.7).
      augmented: Whether it learns from the augmented training set.
      keep_best: Whether the best epoch on the development set is kept, not the last one; None: yes,
        but not while the stage prunes, whose early epochs have few zeros, and not where texts have
        noise: the last epoch is then as good on new text, and closer to the teacher.
      patience: Epochs without a better one after which training stops, not before `min_steps`;
        only where the best epoch is kept.
      projection: Projections of TinyBERT's states; see `distillers.TinyBertDistiller`.
      objective: The loss on the teacher's logits, of an embedding on its vectors.
      temperature: T of the teacher's answers. None, in joint: 1, or for a teacher whose answers are
        nearly uniform the one below 1 that calibrates them on the development set.
      token_noise: The share of a batch's examples with replaced tokens, see `data.noise`; None:
        `TOKEN_NOISE`, but 0 where gold labels count or the answers were stored before.
      piece_noise: The share of a batch's examples with pieces of a Unigram cut into smaller ones,
        see `data.noise.PieceNoise`.
      pair_noise: The share of a batch's pairs of texts that become other pairs, see
        `data.noise.PairNoise`; None: `PAIR_NOISE` where tokens are replaced, otherwise 0.
      prefixes: Widths that the vectors shall be of use cut to (Matryoshka).
      teacher_layer: The layer whose relations are learnt; -1: the last.
      losses: The class and the arguments of each loss of a combination by name.
      transfer_epochs: Epochs of each layer (pkt), or of all (jkt), of MobileBERT's transfer.
      learning_rate: None, where the student may start pruned: by its width.
      min_steps: Batches that are reached by more epochs; "auto", in joint: by the student's width.
    """

    kind: str
    epochs: schema.Steps = 3
    steps: schema.Steps | None = None
    batch_size: schema.BatchSize = 32
    gradient_accumulation: schema.BatchSize = 1
    bucketing: bool = True
    max_length: schema.Tokens | None = None
    loss_weights: dict[str, schema.Weight] = pydantic.Field(default={})
    # Text.
    token_budget: int | None = pydantic.Field(default=None, gt=0)
    reads: Literal["corpus", "task"] | None = None
    corpus: tuple[PathText, ...] = ()
    max_tokens: int | None = pydantic.Field(default=None, gt=0)
    mask_rate: float = pydantic.Field(default=0.15, gt=0, lt=1)
    mask_smoothing: float = pydantic.Field(default=0.0, ge=0, le=10)
    next_sentence: bool = False
    augmented: bool = False
    # The student.
    compress: Compress | None = None
    keep_best: bool | None = None
    min_steps: schema.Steps | None = None
    patience: int | None = pydantic.Field(default=None, gt=0)
    # Losses.
    layer_weights: dict[str, tuple[schema.Weight, ...]] = pydantic.Field(default={})
    layer_map: LayerMap = "uniform"
    projection: Literal["shared", "per_layer", "none"] = "shared"
    objective: Objective = "kl_divergence"
    temperature: Temperature = 1.0
    scale_by_t2: bool = True
    reduction: Literal["tokens", "reference"] = "tokens"
    token_noise: schema.Share | None = None
    piece_noise: schema.Share = 0.0
    pair_noise: schema.Share | None = None
    prefixes: tuple[pydantic.PositiveInt, ...] = ()
    relation_heads: int | None = pydantic.Field(default=None, gt=0)
    teacher_layer: int = -1
    losses: dict[str, dict[str, Any]] = pydantic.Field(default={})
    strategy: Literal["akt", "jkt", "pkt"] = "pkt"
    transfer_epochs: schema.Steps = 1
    transfer_steps: schema.Steps | None = None
    transfer_learning_rate: schema.Rate | None = None
    earlier: Literal["freeze", "soft", "full"] = "freeze"

    @pydantic.model_validator(mode="after")
    def _weighs_its_losses(self) -> Stage:
        names = self.losses or self.traits.losses
        for name in self.loss_weights:
            if names and name not in names:
                expected = f"losses of a stage of kind {self.kind}"
                hint = errors.nearest(name, names)
                raise ValueError(errors.explain("loss_weights", expected, repr(name), hint))
        described = {name: loss.get("weight", 1.0) for name, loss in self.losses.items()}
        weights = {**(described or self.traits.losses), **self.loss_weights}
        if weights and not any(weights.values()):
            raise ValueError(errors.explain("loss_weights", "at least one above 0", weights))
        return self

    @pydantic.model_validator(mode="after")
    def _compresses_in_float32(self) -> Stage:
        if self.compress is not None and self.precision != "float32":
            raise ValueError(
                errors.explain("precision", "float32 with compress", repr(self.precision))
            )
        return self

    @pydantic.model_validator(mode="after")
    def _check_noise(self) -> Stage:
        for name, share in self.asked_noise.items():
            if self.needs_labels():
                raise ValueError(
                    f"{name}: expected 0 with a weight for gold labels, which are not those of "
                    f"changed texts, received {share}. Leave one of the two out."
                )
        return self

    @property
    def traits(self) -> StageKind:
        """What is true of all stages of its kind."""
        return STAGES[self.kind]

    @property
    def on_corpus(self) -> bool:
        """Whether the stage reads plain text, not the task's examples."""
        return (self.reads if self.traits.reads == "either" else self.traits.reads) == "corpus"

    @property
    def trains_classifier(self) -> bool:
        """Whether the student answers the task after it."""
        return self.traits.trains_classifier and not self.on_corpus

    @property
    def own_teacher(self) -> bool:
        """Whether the student as it enters the stage is the teacher."""
        return self.compress is not None and self.compress.teacher == "student"

    def length_faults(self, longest: int, what: str) -> Iterator[str]:
        """Finds a `max_length`, called `what`, that cuts nothing: the data has `longest`."""
        if not self.on_corpus and self.max_length is not None and self.max_length < longest:
            expected = f"at least data.max_length ({longest})"
            yield errors.explain(what, expected, self.max_length, "Shorten data.max_length.")

    def num_epochs(self, steps_per_epoch: int) -> int:
        """The epochs to train, of so many batches each."""
        return at_least(self.epochs, self.min_steps, steps_per_epoch)

    def weight_of(self, loss: str) -> float:
        """The factor of a loss of its kind; 0 of one that it has not."""
        default = self.traits.losses.get(loss)
        return 0.0 if default is None else self.loss_weights.get(loss, default)

    def needs_labels(self, task: TaskKind | None = None) -> bool:
        """Whether it learns from gold labels; TinyBERT's prediction stage learns gold numbers."""
        if "losses" in self.traits.keys:
            return any(
                self.loss_weights.get(name, loss.get("weight", 1.0))
                for name, loss in self.losses.items()
                if loss.get("loss") == "GoldLabels"
            )
        if self.traits.gold_numbers and task is not None and task.one_number:
            return True
        return self.weight_of("label") > 0

    @property
    def asked_noise(self) -> dict[str, float]:
        """The kinds of noise that the recipe asks for, with their shares."""
        names = ("token_noise", "piece_noise", "pair_noise")
        shares = {name: getattr(self, name) for name in names}
        return {name: share for name, share in shares.items() if share}

    @property
    def noisy_share(self) -> float:
        """The share of examples with noise, where the teacher answers during the training."""
        if self.token_noise is not None:
            return self.token_noise
        reads_noise = "token_noise" in self.traits.keys
        return TOKEN_NOISE if reads_noise and not self.needs_labels() else 0.0

    @property
    def noisy_pairs(self) -> float:
        """The same of pairs of texts."""
        if self.pair_noise is not None:
            return self.pair_noise
        return PAIR_NOISE if self.noisy_share else 0.0


_READERS = {
    option: [kind.name for kind in STAGES.values() if option in kind.keys]
    for option in Stage.__annotations__
    if option in KEYED_OPTIONS
}
STAGE_SECTIONS: Mapping[str, type[Stage]] = {
    kind.name: schema.section_of(
        Stage,
        "kind",
        kind.name,
        readers=_READERS,
        what="in a stage of kind",
        defaults=kind.defaults,
        types=kind.types,
    )
    for kind in STAGES.values()
}
"""Kind -> its part of `Stage`: the options that it reads, with its defaults."""
if TYPE_CHECKING:
    AnyStage = Stage
else:
    _varying = {option for kind in STAGES.values() for option in kind.types}
    AnyStage = schema.union_of(Stage, "kind", STAGE_SECTIONS, _varying)


def new_stage(kind: str, **options: Any) -> Stage:
    """A stage of a kind, with the options that are given."""
    return STAGE_SECTIONS[kind].model_validate({"kind": kind, **options})
