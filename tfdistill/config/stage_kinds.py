"""The kinds of stages: which options of `stages.Stage` each reads, its losses, what is true of it.

On a corpus learn general (TinyBERT's first stage), mlm, distilbert and mobilebert; on the task
intermediate and prediction (TinyBERT's second stage), joint, labels, logits, patient and embedding;
on either of the two relations and combination. Defaults are those of `losses.methods`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic

from tfdistill.config import schema
from tfdistill.config.training import LEAST_STEPS

Temperature = Annotated[float, pydantic.Field(gt=0)]
_PLAIN_TEXT = ("token_budget", "corpus", "max_tokens")
_MASKED = ("corpus", "mask_rate", "mask_smoothing", "next_sentence")
_TASK = ("token_budget", "augmented", "compress")
_CLASSIFIER = (*_TASK, "keep_best", "min_steps", "patience")
_LAYERS = ("layer_weights", "layer_map", "projection", "reduction")
_ANSWERS = ("objective", "temperature")
_TRANSFER = ("transfer_epochs", "transfer_steps", "transfer_learning_rate")
_OF_LOGITS = {"reduction": "batch"}
_BATCHES = {"reduction": Literal["batch", "reference"]}
_FROM_START = {"learning_rate": None, "min_steps": LEAST_STEPS, "patience": 5}
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

    def reads_option(self, option: str) -> bool:
        """Whether a stage of this kind reads an option of `Stage`."""
        return option in self.keys or option not in KEYED_OPTIONS


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
        keys=(*_CLASSIFIER, *_ANSWERS, "scale_by_t2", "reduction"),
        losses={"logits": 1.0, "label": 0.0},
        defaults=_OF_LOGITS,
        types=_BATCHES,
        answers_alone=True,
        trains_classifier=True,
    ),
    StageKind(
        name="joint",
        reads="task",
        keys=(*_CLASSIFIER, *_ANSWERS, "layer_map", "token_noise", "piece_noise", "pair_noise"),
        losses={"logits": 1.0, "label": 0.0, "hidden": 1.0},
        defaults={**_FROM_START, "min_steps": "auto", "temperature": None},
        types={
            "learning_rate": _BY_WIDTH,
            "min_steps": schema.Steps | Literal["auto"] | None,
            "temperature": Temperature | None,
        },
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
        keys=(*_CLASSIFIER, *_ANSWERS, "layer_map", "reduction"),
        losses={"label": 0.5, "logits": 0.5, "patient": 100.0},
        defaults={**_OF_LOGITS, "layer_map": "skip", "temperature": 10.0},
        types={**_BATCHES, "layer_map": Literal["skip", "last"] | tuple[int, ...]},
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
KEYED_OPTIONS = {option for kind in _KINDS for option in kind.keys}
"""The options that not every stage reads."""
