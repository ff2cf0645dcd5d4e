"""Which options of a stage its method reads: the others are refused, not ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_LAYERS = ("general", "intermediate")
_ANSWERS = ("prediction", "logits", "patient")
_MASKED = ("mlm", "distilbert", "mobilebert")
_EITHER = ("relations", "combination")
_CORPUS = ("general", *_MASKED, *_EITHER)
_CLASSIFIER = ("labels", "prediction", "logits", "patient", "combination")
# Option -> the kinds of stage that read it. What is not here, every kind reads.
_READERS: dict[str, tuple[str, ...]] = {
    "augmented": ("intermediate", "relations", *_CLASSIFIER),
    "token_budget": ("general", "intermediate", "relations", *_CLASSIFIER),
    "reads": _EITHER,
    "corpus": _CORPUS,
    "max_tokens": _CORPUS,
    "layer_weights": _LAYERS,
    "layer_map": (*_LAYERS, "patient"),
    "projection": _LAYERS,
    "prediction": _ANSWERS,
    "temperature": (*_ANSWERS, "distilbert"),
    "scale_by_t2": ("logits",),
    "reduction": (*_LAYERS, "prediction", "relations"),
    "terms": ("combination",),
    "relation_heads": ("relations",),
    "teacher_layer": ("relations",),
    "mask_rate": _MASKED,
    "mask_smoothing": _MASKED,
    "next_sentence": _MASKED,
    "strategy": ("mobilebert",),
    "transfer_epochs": ("mobilebert",),
    "transfer_steps": ("mobilebert",),
    "transfer_learning_rate": ("mobilebert",),
    "earlier": ("mobilebert",),
    "compress": ("intermediate", "relations", *_CLASSIFIER),
    "keep_best": _CLASSIFIER,
    "patience": _CLASSIFIER,
}


def reads(kind: str, option: str) -> bool:
    """Tells whether a stage of `kind` reads `option`."""
    return option not in _READERS or kind in _READERS[option]


def unread(stages: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """Finds options that are given to a stage whose method does not read them.

    A value that equals the default says nothing, so that a recipe that is written out in full
    reads back.

    Args:
      stages: Stage name -> its options as plain values; what is malformed is left out.
      defaults: Option -> its default.

    Returns:
      One line for each.
    """
    faults = []
    for name, stage in stages.items():
        kind = stage.get("kind") if isinstance(stage, Mapping) else None
        if not isinstance(kind, str):
            continue
        for option, value in stage.items():
            if not reads(kind, option) and _plain(value) != _plain(defaults[option]):
                faults.append(
                    f"stages.{name}.{option}: expected none in a stage of kind {kind}, which does "
                    f"not read it, received {value!r}. Stages that do: "
                    f"{', '.join(_READERS[option])}"
                )
    return faults


def _plain(value: Any) -> Any:
    """Lists and tuples are the same to a recipe."""
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
