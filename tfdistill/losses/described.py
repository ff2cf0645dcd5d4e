"""Losses by name, as recipes write them: ``{loss: HiddenStateMSE, layers: uniform, weight: 2}``."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from typing import Any

from tfdistill import errors
from tfdistill.losses import answers, checks, embedded, labels, layered, words
from tfdistill.losses.base import Loss

BUILT_IN: dict[str, type[Loss]] = {
    loss.__name__: loss
    for loss in (
        layered.AttentionCrossEntropy,
        layered.AttentionKLDivergence,
        layered.AttentionScoreMSE,
        layered.CosineDistance,
        layered.FeatureMapMSE,
        layered.FeatureMeanMSE,
        layered.FeatureVarianceMAE,
        layered.HiddenStateMSE,
        layered.PatientMSE,
        layered.RelationKL,
        labels.GoldLabels,
        answers.KLDivergence,
        answers.LogitMSE,
        answers.SoftCrossEntropy,
        embedded.SimilarityKL,
        embedded.VectorCosine,
        embedded.VectorMSE,
        words.MaskedWords,
        words.NextSentence,
    )
}
"""The losses of this package by the names of their classes."""
CLASSES = frozenset(BUILT_IN.values())
_IMPORTED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_NAME = re.compile("[A-Za-z][A-Za-z0-9_]*")
_LOGGED = ("loss", "mlm_accuracy")


def check_name(name: str) -> None:
    """Requires a name that the log can have."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _LOGGED:
        raise errors.ConfigError(
            "name of a loss", "letters, digits and _, not what the log has already", repr(name)
        )


def build_losses(
    descriptions: Mapping[str, Mapping[str, Any]], *, import_classes: bool = True
) -> dict[str, Loss]:
    """Builds the losses that a recipe describes.

    Args:
      descriptions: Name -> ``loss``, the name of a class of `tfdistill.losses` or an import path
        such as "my_module:CentredMSE"; ``weight``; and the arguments of the class.
      import_classes: Whether classes by import path are imported, which runs their module;
        otherwise they are left out.

    Returns:
      Name -> loss, in the order of the descriptions.

    Raises:
      ConfigError: If a description is not valid; the message lists every fault of all.
    """
    if not isinstance(descriptions, Mapping) or not descriptions:
        raise errors.ConfigError("losses", "at least one, {name: {loss: ...}}", repr(descriptions))
    built, faults = {}, []
    for name, description in descriptions.items():
        try:
            check_name(name)
            loss = _build(description, import_classes)
        except (errors.ConfigError, errors.ShapeError) as fault:
            faults.append(f"losses.{name}: {fault}")
        else:
            if loss is not None:
                built[name] = loss
    if faults:
        raise errors.ConfigError("\n".join(faults))
    return built


def _build(description: Any, import_classes: bool) -> Loss | None:
    if not isinstance(description, Mapping) or not isinstance(description.get("loss"), str):
        raise errors.ConfigError("description", "{loss: <its class>, ...}", repr(description))
    options = dict(description)
    name, weight = options.pop("loss"), options.pop("weight", None)
    if _IMPORTED.fullmatch(name):
        if not import_classes:
            return None
        loss_class = _imported(name)
    elif name in BUILT_IN:
        loss_class = BUILT_IN[name]
    else:
        raise errors.ConfigError(
            "loss",
            "a class of tfdistill.losses, or one of your own as module:Class",
            repr(name),
            errors.nearest(name, BUILT_IN),
        )
    arguments = [key for key in inspect.signature(loss_class).parameters if key != "weight"]
    for key in options:
        checks.check_choice(f"option of {name}", key, (*arguments, "weight"))
    loss = loss_class(**options)
    if weight is not None:
        checks.check_number("weight", weight)
        loss.weight = float(weight)
    return loss


def _imported(path: str) -> type[Loss]:
    module_name, _, class_name = path.partition(":")
    try:
        loss_class = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as fault:
        raise errors.ConfigError(
            "loss", "a class that can be imported", repr(path), f"Importing it failed: {fault}."
        ) from fault
    if not (isinstance(loss_class, type) and issubclass(loss_class, Loss)):
        raise errors.ConfigError("loss", "a subclass of tfdistill.losses.Loss", repr(path))
    return loss_class
