"""Any objectives together, described by plain values: the distiller of a recipe of your own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tf_keras as keras

from tfdistill import errors, models, objectives
from tfdistill.distillers import answers, checks, minilm, patient, terms
from tfdistill.objectives import relations

_LAYERS = {"layers": None, "layer_map": None, "over_layers": "sum"}
_STATES = {**_LAYERS, "states": "hidden_states"}
_TOKENS = {"reduction": "tokens"}
_ANSWERS = {"head": None, "reduction": "batch"}
# Objective -> its options with their defaults.
OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {**_LAYERS, **_TOKENS} for name in terms.ATTENTION},
    "hidden_state_mse": {**_STATES, **_TOKENS, "projection": "none"},
    "cosine_distance": _STATES,
    **{name: {**_STATES, **_TOKENS} for name in terms.FEATURES},
    "patient_mse": {**_LAYERS, "reduction": "batch", "projection": "none"},
    "relation_kl": {**_LAYERS, **_TOKENS, "vectors": "values", "num_relation_heads": None},
    **{name: {**_ANSWERS, "temperature": 1.0, "scale_by_t2": True} for name in terms.ANSWERS},
    "logit_mse": _ANSWERS,
    **{name: {"projection": "none"} for name in ("vector_mse", "vector_cosine")},
    "similarity_kl": {"temperature": 0.05, "prefixes": ()},
    "label": {"head": None},
    **{name: {} for name in terms.WORDS},
}
# The options that are the objective's own arguments.
_ARGUMENTS = ("reduction", "temperature", "scale_by_t2", "num_relation_heads", "prefixes")
_CHOICES = {
    "over_layers": ("sum", "mean"),
    "states": ("hidden_states", "embeddings"),
    "vectors": ("queries", "keys", "values"),
    "projection": ("none", "shared", "per_layer"),
}


class CombinationDistiller(terms.TermDistiller):
    """Distils with any objectives, each described by plain values.

    ``terms`` maps the name of a term to its description, for example:

        {
            "scores": {"objective": "attention_score_mse", "layer_map": "uniform"},
            "states": {"objective": "hidden_state_mse", "layers": [[11, 3]],
                       "projection": "per_layer", "weight": 0.5},
            "values": {"objective": "relation_kl", "vectors": "values"},
            "answers": {"objective": "kl_divergence", "temperature": 4},
            "gold": {"objective": "label"},
        }

    The loss is ``sum over terms of weight * term``. Objectives and their options, with defaults:

    - attention_score_mse, attention_cross_entropy, attention_kl_divergence: layers,
      reduction (tokens).
    - hidden_state_mse, cosine_distance, feature_map_mse, feature_mean_mse,
      feature_variance_mae: layers, states (hidden_states; embeddings compares those and has no
      layers), reduction (tokens; cosine_distance has one only); hidden_state_mse also projection.
    - patient_mse: layers, projection, reduction (batch).
    - relation_kl: layers, vectors (values; queries, keys), num_relation_heads (as
      `MiniLmDistiller` chooses it), reduction (tokens).
    - soft_cross_entropy, kl_divergence, logit_mse, on what the head answers, for a masked
      language model on its predicted rows: temperature (1), scale_by_t2 (true), reduction (batch),
      head (the student's own); logit_mse only the last two.
    - vector_mse, vector_cosine: projection; similarity_kl: temperature (0.05), prefixes. These are
      for sentence encoders.
    - label (`answers.gold_loss`): head. mlm, nsp (`mlm.mlm_loss`, `mlm.nsp_loss`): none.

    Common options. ``weight`` (1), for every objective. ``layers``: pairs [teacher layer, student
    layer], from 0 or, negative, from the end; or ``layer_map``: uniform, top, bottom, skip, last or
    a list (`objectives.layer_map`, `patient_layer_map`). Without either: uniform; skip for
    patient_mse; both last layers for relation_kl. ``over_layers`` (sum, or mean): how the layers of
    a term are added up. ``projection`` (none, shared by the term's layers, or per_layer): Dense
    layers from the student's to the teacher's width.

    Args:
      teacher: The teacher, a model of `tfdistill.models`; where only answers are compared, any
        function that returns logits.
      student: The student; the same vocabulary.
      terms: The descriptions.
      same_tokens: As for `TermDistiller`.
      vector_width: The same.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ConfigError: If a description is not valid; the message lists every fault of all.
      ShapeError: If the vocabularies differ in size. What else does not fit, such as unequal
        heads, is refused by `compile`, for the terms that have a weight, all at once.
    """

    def __init__(
        self,
        teacher: keras.Model,
        student: keras.Model,
        *,
        terms: Mapping[str, Mapping[str, Any]],
        same_tokens: bool = True,
        vector_width: int | None = None,
        seed: int = 0,
        name: str | None = None,
    ):
        """Reads the descriptions and builds the projections; see the class."""
        shape = models.config_of(teacher) if isinstance(teacher, keras.Model) else None
        described = parse_terms(terms, shape, models.config_of(student))
        super().__init__(
            teacher,
            student,
            terms=described,
            same_tokens=same_tokens,
            vector_width=vector_width,
            seed=seed,
            name=name,
        )


def parse_terms(
    descriptions: Mapping[str, Mapping[str, Any]],
    teacher: models.EncoderConfig | None,
    student: models.EncoderConfig,
) -> dict[str, terms.Term]:
    """Reads the descriptions of a `CombinationDistiller`.

    Args:
      descriptions: Name -> description; see there.
      teacher: The teacher's shape, None where only its answers are known.
      student: The student's.

    Returns:
      The terms, in the order of the descriptions.

    Raises:
      ConfigError: If a description is not valid; the message lists every fault of all.
    """
    if not isinstance(descriptions, Mapping) or not descriptions:
        raise errors.ConfigError(
            "terms", "at least one, {name: {'objective': ...}}", repr(descriptions)
        )
    faults: list[str] = []
    parsed = {}
    for name, description in descriptions.items():

        def gather(check: Callable[..., Any], *arguments: Any, name: Any = name) -> Any:
            try:
                return check(*arguments)
            except (errors.ConfigError, errors.ShapeError) as fault:
                faults.append(f"terms[{name!r}]: {fault}")

        gather(_check_name, str(name))
        if isinstance(description, Mapping) and "objective" in description:
            parsed[str(name)] = _parse(str(name), description, teacher, student, gather)
        else:
            wanted = "{'objective': ..., ...}"
            faults.append(errors.explain(f"terms[{name!r}]", wanted, repr(description)))
    if faults:
        raise errors.ConfigError("\n".join(faults))
    return parsed


def _parse(
    name: str,
    description: Mapping[str, Any],
    teacher: models.EncoderConfig | None,
    student: models.EncoderConfig,
    gather: Callable[..., Any],
) -> terms.Term | None:
    """Reads one description; `gather` notes what is wrong with it."""
    given = {"weight": 1.0, **description}
    objective, weight = given.pop("objective"), given.pop("weight")
    gather(checks.check_choice, "objective", objective, tuple(OPTIONS))
    gather(checks.check_number, "weight", weight)
    if not isinstance(objective, str) or objective not in OPTIONS:
        return None
    known = OPTIONS[objective]
    for key, value in given.items():
        gather(_check_option, objective, key, value)
    options = {**known, **given}
    layers = ()
    if objective in terms.LAYERED:
        if teacher is None:
            gather(_refuse_layers, objective)
            return None
        layers = gather(_layers_of, objective, options, teacher, student) or ()
    tap = options.get("vectors", options.get("states", "hidden_states"))
    if objective == "relation_kl" and options["num_relation_heads"] is None:
        assert teacher is not None
        options["num_relation_heads"] = minilm.default_relation_heads(teacher, student)
    pairs = max(len(layers), 1)  # vectors are one
    return terms.Term(
        objective,
        weight,
        {key: options[key] for key in _ARGUMENTS if key in known},
        layers=layers,
        tap="attention_scores" if objective in terms.ATTENTION else tap,
        over_layers=options.get("over_layers", "sum"),
        projections={
            "shared": (f"{name}_projection",) * pairs,
            "per_layer": tuple(f"{name}_projection_{index}" for index in range(pairs)),
        }.get(options.get("projection", "none"), ()),
        head=options.get("head"),
    )


def _refuse_layers(objective: str) -> None:
    raise errors.ShapeError(objective, "a teacher with layers to compare", "answers alone")


def _check_name(name: str) -> None:
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) or name in ("loss", "mlm_accuracy"):
        raise errors.ConfigError(
            "name of a term", "letters, digits and _, not what the log has already", repr(name)
        )


def _check_option(objective: str, key: str, value: Any) -> None:
    """Checks one option by itself; how it fits the models comes later."""
    known = OPTIONS[objective]
    if key not in known:
        checks.check_choice(f"option of {objective}", key, (*known, "weight"))
    elif key in _CHOICES:
        checks.check_choice(key, value, _CHOICES[key])
    elif key == "reduction":
        checks.check_choice(key, value, (known[key], "reference"))
    elif key == "temperature":
        checks.check_number(key, value, above=0)
    elif key == "scale_by_t2" and not isinstance(value, bool):
        raise errors.ConfigError(key, "true or false", repr(value))
    elif key == "head" and value is not None:
        checks.check_choice(key, value, answers.HEADS)
    elif key == "prefixes" and not _are_widths(value):
        raise errors.ConfigError(key, "a list of widths, each at least 1", repr(value))
    elif key == "num_relation_heads" and value is not None:
        relations.check_relation_heads(value, None, None)


def _are_widths(value: Any) -> bool:
    return isinstance(value, Sequence) and all(type(width) is int and width > 0 for width in value)


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
            "layers, layer_map and states='embeddings'",
            "at most one of them",
            ", ".join(
                f"{key}={options[key]!r}"
                for key in ("layers", "layer_map", "states")
                if options.get(key) not in (None, "hidden_states")
            ),
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
        raise errors.ConfigError("layer_map", "a name or a list of teacher layers", repr(mapped))
    return tuple((source, layer) for layer, source in enumerate(sources))


def _checked_pairs(
    pairs: Any, teacher_layers: int, student_layers: int
) -> tuple[tuple[int, int], ...]:
    def is_list(value: Any) -> bool:
        return isinstance(value, Sequence) and not isinstance(value, str)

    if not is_list(pairs) or not pairs or any(not is_list(p) or len(p) != 2 for p in pairs):
        raise errors.ConfigError(
            "layers", "pairs [[teacher layer, student layer], ...]", repr(pairs)
        )
    return tuple(
        (
            checks.checked_layer("layers: teacher layer", source, teacher_layers),
            checks.checked_layer("layers: student layer", layer, student_layers),
        )
        for source, layer in pairs
    )
