"""Terms of a loss described by plain values, as a recipe writes them: parsed and checked."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfdistill import errors, models, objectives
from tfdistill.distillers import answers, checks, patient
from tfdistill.objectives import relations

ATTENTION = ("attention_score_mse", "attention_cross_entropy", "attention_kl_divergence")
FEATURES = ("feature_map_mse", "feature_mean_mse", "feature_variance_mae")
STATES = ("hidden_state_mse", "cosine_distance", *FEATURES)
LAYERED = (*ATTENTION, *STATES, "patient_mse", "relation_kl")
ANSWERS = answers.OBJECTIVES
GOLD = ("label", "mlm", "nsp")

_LAYERS = {"layers": None, "layer_map": None, "over_layers": "sum"}
_STATES = {**_LAYERS, "states": "hidden_states"}
_TOKENS = {"reduction": "tokens"}
_ANSWERS = {"head": None, "reduction": "batch"}
_SOFT = {**_ANSWERS, "temperature": 1.0, "scale_by_t2": True}
# Objective -> its options with their defaults.
OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {**_LAYERS, **_TOKENS} for name in ATTENTION},
    "hidden_state_mse": {**_STATES, **_TOKENS, "projection": "none"},
    "cosine_distance": _STATES,
    **{name: {**_STATES, **_TOKENS} for name in FEATURES},
    "patient_mse": {**_LAYERS, "reduction": "batch", "projection": "none"},
    "relation_kl": {**_LAYERS, **_TOKENS, "vectors": "values", "num_relation_heads": None},
    **{name: _SOFT for name in ANSWERS},
    "logit_mse": _ANSWERS,
    "label": {"head": None},
    "mlm": {},
    "nsp": {},
}

_CHOICES = {
    "over_layers": ("sum", "mean"),
    "states": ("hidden_states", "embeddings"),
    "vectors": ("queries", "keys", "values"),
    "projection": ("none", "shared", "per_layer"),
}


@dataclasses.dataclass(frozen=True)
class Term:
    """One term of a loss.

    Attributes:
      name: Its name in the log and in `compile(loss_weights=...)`.
      objective: A key of `OPTIONS`.
      options: All options of the objective, given or default.
      layers: Pairs of a teacher and a student layer, from 0, where the objective is about layers.
      weight: Its weight unless `compile` says otherwise.
    """

    name: str
    objective: str
    options: Mapping[str, Any]
    layers: tuple[tuple[int, int], ...]
    weight: float


def parse_terms(
    descriptions: Mapping[str, Mapping[str, Any]],
    teacher: models.EncoderConfig,
    student: models.EncoderConfig,
) -> tuple[Term, ...]:
    """Reads the descriptions of a `CombinationDistiller`.

    Args:
      descriptions: Term -> its description; see there.
      teacher: The teacher's shape.
      student: The student's.

    Returns:
      The terms, in the order of the descriptions.

    Raises:
      ConfigError: If a description is not valid; the message lists every fault of all.
    """
    faults: list[str] = []
    if not isinstance(descriptions, Mapping) or not descriptions:
        raise errors.ConfigError(
            errors.explain("terms", "at least one, {name: {'objective': ...}}", repr(descriptions))
        )
    terms = []
    for name, description in descriptions.items():
        before = len(faults)
        term = _parse(str(name), description, teacher, student, faults)
        if term is not None and len(faults) == before:
            terms.append(term)
    if faults:
        raise errors.ConfigError("\n".join(faults))
    return tuple(terms)


def _parse(
    name: str,
    description: Any,
    teacher: models.EncoderConfig,
    student: models.EncoderConfig,
    faults: list[str],
) -> Term | None:
    """Reads one description; appends what is wrong with it."""

    def gather(check: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return check(*arguments)
        except (errors.ConfigError, errors.ShapeError) as fault:
            faults.append(f"terms[{name!r}]: {fault}")
            return None

    gather(_check_name, name)
    if not isinstance(description, Mapping) or "objective" not in description:
        wanted = "{'objective': ..., ...}"
        faults.append(errors.explain(f"terms[{name!r}]", wanted, repr(description)))
        return None
    objective = description["objective"]
    before = len(faults)
    gather(checks.check_choice, "objective", objective, tuple(OPTIONS))
    if len(faults) > before:
        return None
    known = OPTIONS[objective]
    given = {key: value for key, value in description.items() if key not in ("objective", "weight")}
    for key, value in given.items():
        if key not in known:
            gather(_refuse_option, key, objective, (*known, "weight"))
        else:
            gather(_check_value, key, value, known[key])
    weight = description.get("weight", 1.0)
    gather(_check_weight, weight)
    options = {**known, **given}
    layers: tuple[tuple[int, int], ...] = ()
    if objective in LAYERED:
        layers = gather(_layers_of, objective, options, teacher, student) or ()
    return Term(name, objective, options, layers, weight)


def _check_name(name: str) -> None:
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) or name in ("loss", "mlm_accuracy"):
        raise errors.ConfigError(
            errors.explain(
                "name of a term", "letters, digits and _, not what the log has already", repr(name)
            )
        )


def _refuse_option(key: str, objective: str, known: Sequence[str]) -> None:
    raise errors.ConfigError(
        errors.explain(
            f"option of {objective}",
            f"one of {', '.join(known)}",
            repr(key),
            errors.nearest(key, known),
        )
    )


def _check_value(key: str, value: Any, default: Any) -> None:
    """Checks one option by itself; how it fits the models comes later."""
    if key in _CHOICES:
        checks.check_choice(key, value, _CHOICES[key])
    elif key == "reduction":
        checks.check_choice(key, value, (default, "reference"))
    elif key == "temperature":
        _check_is_number(key, value)
        checks.check_number(key, value, above=0)
    elif key == "scale_by_t2" and not isinstance(value, bool):
        raise errors.ConfigError(errors.explain(key, "true or false", repr(value)))
    elif key == "head" and value is not None:
        checks.check_choice(key, value, answers.HEADS)
    elif key == "num_relation_heads" and value is not None:
        relations.check_relation_heads(value, None, None)


def _check_weight(weight: Any) -> None:
    _check_is_number("weight", weight)
    if not 0 <= weight < float("inf"):
        raise errors.ConfigError(errors.explain("weight", "a finite number >= 0", repr(weight)))


def _check_is_number(key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise errors.ConfigError(errors.explain(key, "a number", repr(value)))


def _layers_of(
    objective: str,
    options: Mapping[str, Any],
    teacher: models.EncoderConfig,
    student: models.EncoderConfig,
) -> tuple[tuple[int, int], ...]:
    """The pairs of layers that `layers`, `layer_map` or neither of them asks for."""
    pairs, mapped = options["layers"], options["layer_map"]
    embeddings = options.get("states") == "embeddings"
    if sum((pairs is not None, mapped is not None, embeddings)) > 1:
        raise errors.ConfigError(
            errors.explain(
                "layers, layer_map and states='embeddings'",
                "at most one of them",
                ", ".join(
                    f"{key}={options[key]!r}"
                    for key in ("layers", "layer_map", "states")
                    if options.get(key) not in (None, "hidden_states")
                ),
            )
        )
    if embeddings:
        return ((0, 0),)
    counts = teacher.num_layers, student.num_layers
    if pairs is not None:
        return _checked_pairs(pairs, *counts)
    if mapped is None and objective == "relation_kl":
        return ((counts[0] - 1, counts[1] - 1),)
    if mapped is None:
        mapped = "skip" if objective == "patient_mse" else "uniform"
    if mapped in patient.STRATEGIES:
        sources = patient.patient_layer_map(*counts, mapped)
    elif isinstance(mapped, (str, Sequence)):
        sources = objectives.layer_map(*counts, mapped)
    else:
        raise errors.ConfigError(
            errors.explain("layer_map", "a name or a list of teacher layers", repr(mapped))
        )
    return tuple((source, layer) for layer, source in enumerate(sources))


def _checked_pairs(
    pairs: Any, teacher_layers: int, student_layers: int
) -> tuple[tuple[int, int], ...]:
    def is_list(value: Any) -> bool:
        return isinstance(value, Sequence) and not isinstance(value, str)

    if not is_list(pairs) or not pairs or any(not is_list(p) or len(p) != 2 for p in pairs):
        raise errors.ConfigError(
            errors.explain("layers", "pairs [[teacher layer, student layer], ...]", repr(pairs))
        )
    return tuple(
        (
            checks.checked_layer("layers: teacher layer", source, teacher_layers),
            checks.checked_layer("layers: student layer", layer, student_layers),
        )
        for source, layer in pairs
    )
