"""The stages of a recipe: one section, and a table of the kinds, which read parts of it.

On a corpus learn general (TinyBERT's first stage), mlm, distilbert and mobilebert; on the task
intermediate and prediction (TinyBERT's second stage), joint, labels, logits, patient and embedding;
on either of the two relations and combination. Defaults are those of `losses.methods`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic

from tfdistill import errors
from tfdistill.config import schema
from tfdistill.config.training import Compress, OptimizerConfig, PathText, at_least
from tfdistill.tasks.kind import TaskKind

LayerMap = Literal["uniform", "top", "bottom"] | tuple[int, ...]
"""Which teacher layer each student layer learns from: a rule, or the layers."""
Objective = Literal["soft_cross_entropy", "kl_divergence", "logit_mse"]
TOKEN_NOISE = PAIR_NOISE = 0.5
Temperature = Annotated[float, pydantic.Field(gt=0)]


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
      keep_best: Whether the best epoch on the development set is kept; None: yes, but not while the
        stage prunes: early epochs have few zeros.
      patience: Epochs without a better one after which training stops, not before `min_steps`.
      projection: Projections of TinyBERT's states; see `distillers.TinyBertDistiller`.
      objective: The loss on the teacher's logits, of an embedding on its vectors.
      temperature: T of the teacher's answers. None, in joint: 1, or for a teacher whose answers are
        nearly uniform the one below 1 that calibrates them on the development set.
      token_noise: The share of a batch's examples with replaced tokens, see `data.noise`; None:
        `TOKEN_NOISE`, but 0 where gold labels count or the answers were stored before.
      pair_noise: The share of a batch's pairs of texts that become other pairs, see
        `data.noise.PairNoise`; None: `PAIR_NOISE` where tokens are replaced, otherwise 0.
      prefixes: Widths that the vectors shall be of use cut to (Matryoshka).
      teacher_layer: The layer whose relations are learnt; -1: the last.
      losses: The class and the arguments of each loss of a combination by name.
      transfer_epochs: Epochs of each layer (pkt), or of all (jkt), of MobileBERT's transfer.
      learning_rate: None, where the student may start pruned: by its width.
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

    def num_epochs(self, steps_per_epoch: int) -> int:
        """The epochs to train, of so many batches each."""
        return at_least(self.epochs, self.min_steps, steps_per_epoch)

    def weight_of(self, loss: str) -> float:
        """The factor of a loss of its kind; 0 of one that it has not."""
        default = self.traits.losses.get(loss)
        return 0.0 if default is None else self.loss_weights.get(loss, default)

    def needs_labels(self, task: TaskKind | None = None) -> bool:
        """Whether it learns from gold labels, which unlabelled text does not have.

        Args:
          task: The kind of the task: TinyBERT's prediction stage learns gold numbers.
        """
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
        shares = {"token_noise": self.token_noise, "pair_noise": self.pair_noise}
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


_PLAIN_TEXT = ("token_budget", "corpus", "max_tokens")
_MASKED = ("corpus", "mask_rate", "mask_smoothing", "next_sentence")
_TASK = ("token_budget", "augmented", "compress")
_CLASSIFIER = (*_TASK, "keep_best", "min_steps", "patience")
_LAYERS = ("layer_weights", "layer_map", "projection", "reduction")
_ANSWERS = ("objective", "temperature")
_TRANSFER = ("transfer_epochs", "transfer_steps", "transfer_learning_rate")
_FROM_START = {"learning_rate": None, "min_steps": 1000, "patience": 5}
_BY_WIDTH = schema.Rate | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class StageKind:
    """What is true of all stages of a kind.

    Attributes:
      name: The kind.
      reads: The text that it learns from: the task's, a corpus, or either of them.
      keys: The options that it reads beside those of every stage.
      losses: Name -> weight by default, as `losses.methods` has them; empty where a recipe names
        the losses.
      defaults: Option -> default, where it is not that of `Stage`.
      types: Option -> type, where it is not that of `Stage`.
      has_teacher: Whether the student learns from a teacher.
      answers_alone: Whether it needs no more of a teacher than its answers.
      trains_classifier: Whether it trains the classifier, watched on the development set.
      predicts_words: The words that it guesses: masked ones, all, or none.
      in_parts: Whether it is MobileBERT's transfer, which trains layers in fits of their own.
      from_start: Whether rate and compared layers follow from how the student starts.
      for_vectors: Whether it learns the vectors of a sentence encoder.
      gold_numbers: Whether the numbers of a regression are learnt from its labels.
      watched_every: The fewest steps between evaluations, where it trains `steps`: they may cost as
        much as the training.
    """

    name: str
    reads: Literal["task", "corpus", "either"]
    keys: tuple[str, ...]
    losses: Mapping[str, float] = dataclasses.field(default_factory=dict)
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    types: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    has_teacher: bool = True
    answers_alone: bool = False
    trains_classifier: bool = False
    predicts_words: Literal["masked", "all"] | None = None
    in_parts: bool = False
    from_start: bool = False
    for_vectors: bool = False
    gold_numbers: bool = False
    watched_every: int = 1

    @property
    def layers_alone(self) -> bool:
        """Whether it compares layers and trains no answers."""
        return not self.trains_classifier and self.predicts_words is None

    def reads_option(self, option: str) -> bool:
        """Whether a stage of this kind reads an option of `Stage`."""
        return not self.section.model_fields[option].exclude

    @functools.cached_property
    def section(self) -> type[Stage]:
        """Its part of `Stage`: the options that it reads, with its defaults."""
        return schema.section_of(
            Stage,
            "kind",
            self.name,
            readers=_READERS,
            what="in a stage of kind",
            defaults=self.defaults,
            types=self.types,
        )


_KINDS = (
    StageKind(
        name="general",
        reads="corpus",
        keys=(*_PLAIN_TEXT, *_LAYERS),
        losses={"attention": 1.0, "embedding": 1.0, "hidden": 1.0},
    ),
    StageKind(
        name="intermediate",
        reads="task",
        keys=(*_TASK, *_LAYERS),
        losses={"attention": 1.0, "embedding": 1.0, "hidden": 1.0},
    ),
    StageKind(
        name="prediction",
        reads="task",
        keys=(*_CLASSIFIER, *_ANSWERS, "reduction"),
        losses={"logits": 1.0, "label": 0.0},
        defaults={"objective": "soft_cross_entropy"},
        answers_alone=True,
        trains_classifier=True,
        gold_numbers=True,
    ),
    StageKind(
        name="labels",
        reads="task",
        keys=_CLASSIFIER,
        losses={"label": 1.0},
        has_teacher=False,
        trains_classifier=True,
    ),
    StageKind(
        name="logits",
        reads="task",
        keys=(*_CLASSIFIER, *_ANSWERS, "scale_by_t2"),
        losses={"logits": 1.0, "label": 0.0},
        answers_alone=True,
        trains_classifier=True,
    ),
    StageKind(
        name="joint",
        reads="task",
        keys=(*_CLASSIFIER, *_ANSWERS, "layer_map", "token_noise", "pair_noise"),
        losses={"logits": 1.0, "label": 0.0, "hidden": 1.0},
        defaults={**_FROM_START, "temperature": None},
        types={"learning_rate": _BY_WIDTH, "temperature": Temperature | None},
        answers_alone=True,
        trains_classifier=True,
        from_start=True,
        watched_every=50,
    ),
    StageKind(
        name="embedding",
        reads="task",
        keys=(*_CLASSIFIER, *_ANSWERS, "layer_map", "prefixes"),
        losses={"vectors": 1.0, "similarity": 1.0, "hidden": 0.0},
        defaults={**_FROM_START, "objective": "vector_cosine", "temperature": 0.05},
        types={
            "learning_rate": _BY_WIDTH,
            "objective": Literal["vector_cosine", "vector_mse"],
        },
        answers_alone=True,
        trains_classifier=True,
        from_start=True,
        for_vectors=True,
    ),
    StageKind(
        name="patient",
        reads="task",
        keys=(*_CLASSIFIER, *_ANSWERS, "layer_map"),
        losses={"label": 0.5, "logits": 0.5, "patient": 100.0},
        defaults={"layer_map": "skip", "temperature": 10.0},
        types={"layer_map": Literal["skip", "last"] | tuple[int, ...]},
        trains_classifier=True,
    ),
    StageKind(
        name="relations",
        reads="either",
        keys=(*_PLAIN_TEXT, *_TASK, "reads", "relation_heads", "teacher_layer", "reduction"),
        losses={"query": 1.0, "key": 1.0, "value": 1.0},
    ),
    StageKind(
        name="combination",
        reads="either",
        keys=(*_PLAIN_TEXT, *_CLASSIFIER, "reads", "losses"),
        trains_classifier=True,
    ),
    StageKind(
        name="mlm",
        reads="corpus",
        keys=_MASKED,
        losses={"mlm": 1.0, "nsp": 1.0},
        has_teacher=False,
        predicts_words="masked",
    ),
    StageKind(
        name="distilbert",
        reads="corpus",
        keys=(*_MASKED, "temperature"),
        losses={"logits": 5.0, "mlm": 2.0, "cosine": 1.0},
        defaults={"temperature": 2.0},
        predicts_words="all",
    ),
    StageKind(
        name="mobilebert",
        reads="corpus",
        keys=(*_MASKED, "strategy", *_TRANSFER, "earlier"),
        losses={
            **{"feature_map": 100.0, "mean": 5000.0, "variance": 5.0, "attention": 1.0},
            **{"mlm": 0.5, "logits": 0.5, "nsp": 1.0},
        },
        predicts_words="masked",
        in_parts=True,
    ),
)
STAGES: Mapping[str, StageKind] = {kind.name: kind for kind in _KINDS}
"""The kinds of stages by name."""
_READERS = {
    option: [kind.name for kind in _KINDS if option in kind.keys]
    for option in Stage.__annotations__
    if any(option in kind.keys for kind in _KINDS)
}
_VARYING = {option for kind in _KINDS for option in kind.types}
if TYPE_CHECKING:
    AnyStage = Stage
else:
    AnyStage = schema.union_of(
        Stage, "kind", {kind.name: kind.section for kind in _KINDS}, _VARYING
    )


def new_stage(kind: str, **options: Any) -> Stage:
    """A stage of a kind, with the options that are given."""
    return STAGES[kind].section.model_validate({"kind": kind, **options})
