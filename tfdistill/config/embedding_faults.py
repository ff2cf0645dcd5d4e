"""What a recipe of kind embedding cannot have: faults between its sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfdistill import errors
from tfdistill.config.pruned import is_static

KIND = "embedding"
_LAST = (KIND, "combination")
_BEFORE = ("general", "intermediate", "relations")  # stages that compare layers alone


def embedding_faults(values: Mapping[str, Any]) -> list[str]:
    """Faults between a task of kind embedding and the teacher, the student and the stages.

    Args:
      values: A recipe as plain values. What is malformed by itself is left to the fields.

    Returns:
      A sentence for each.
    """
    data, stages = _section(values, "data"), _section(values, "stages")
    used = {name for variant in _section(values, "variants").values() for name in _stages(variant)}
    kinds = {name: _kind(stages.get(name)) for name in sorted(used & stages.keys())}
    if data.get("kind") != KIND:
        alone = [f"stages.{name}, kind {KIND}" for name, kind in kinds.items() if kind == KIND]
        if _section(values, "student").get("vector_size") is not None:
            alone.append("student.vector_size")
        return [errors.explain(what, f"data.kind {KIND}", data.get("kind")) for what in alone]
    faults = [
        errors.explain(
            f"stages.{name}, kind, for an embedding",
            ", ".join((*_LAST, *_BEFORE)),
            kind,
            "Vectors have no classes. On the command line: --stages embedding.",
        )
        for name, kind in kinds.items()
        if kind is not None and kind not in (*_LAST, *_BEFORE)
    ]
    faults += [
        errors.explain(
            f"variants.{name}.stages, the last one", " or ".join(_LAST), kinds[_stages(variant)[-1]]
        )
        for name, variant in _section(values, "variants").items()
        if _stages(variant) and kinds.get(_stages(variant)[-1]) in _BEFORE
    ]
    faults += [
        errors.explain(f"stages.{name}.compress, for an embedding", "none", "a compression")
        for name in kinds
        if _section(stages, name).get("compress") is not None
    ]
    return faults + _model_faults(values)


def _model_faults(values: Mapping[str, Any]) -> list[str]:
    teacher, student = _section(values, "teacher"), _section(values, "student")
    faults = []
    made = str(teacher.get("source", "")).startswith("preset:")
    given = [name for name in ("finetune", "pretrain") if teacher.get(name)]
    if made or given:
        faults.append(
            errors.explain(
                "teacher of an embedding",
                "a sentence encoder that is trained already, as source alone, or its vectors",
                "a preset" if made else " and ".join(given),
                "Name a sentence-transformers folder, or a file in answers.",
            )
        )
    preset = str(student.get("preset", ""))
    if preset == "static" or is_static(preset) or preset.startswith("bilstm"):
        faults.append(
            errors.explain(
                "student.preset of an embedding", "an encoder of the BERT family", preset
            )
        )
    for name, received in (
        ("baselines", values.get("baselines") == "all"),
        ("data.augment", _section(values, "data").get("augment") is not None),
        ("student.keep_head", bool(student.get("keep_head"))),
    ):
        if received:
            faults.append(errors.explain(f"{name} of an embedding", "the default", "another value"))
    return faults


def _section(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}


def _stages(variant: Any) -> list[str]:
    named = variant.get("stages") if isinstance(variant, Mapping) else None
    return [name for name in named if isinstance(name, str)] if named else []


def _kind(stage: Any) -> Any:
    return stage.get("kind") if isinstance(stage, Mapping) else None
