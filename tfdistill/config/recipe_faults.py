"""Faults between the sections of a recipe, which no section sees by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfdistill import errors, safe_paths
from tfdistill.config import compression
from tfdistill.config.embedding_faults import embedding_faults
from tfdistill.config.stages import STAGES, ClassifierStage, CorpusStage, EitherStage, Stage


def recipe_faults(values: Mapping[str, Any]) -> list[str]:
    """Faults between the fields of stages, and between variants and stages.

    What is malformed by itself is left to the fields.
    """
    stages = values.get("stages")
    own = compression.stage_faults(stages) if isinstance(stages, Mapping) else []
    return _name_faults(values) + own + _variant_faults(values) + embedding_faults(values)


def _name_faults(values: Mapping[str, Any]) -> list[str]:
    """Names of stages and variants are names of folders, too."""
    return [
        errors.explain(
            f"{section}, a name", "one of a folder: no / or \\, no dot at its start", repr(name)
        )
        for section in ("stages", "variants")
        if isinstance(values.get(section), Mapping)
        for name in values[section]
        if not isinstance(name, str) or not safe_paths.is_plain_name(name)
    ]


def _variant_faults(values: Mapping[str, Any]) -> list[str]:
    stages, variants = values.get("stages"), values.get("variants")
    if not isinstance(stages, Mapping) or not isinstance(variants, Mapping):
        return []
    data = values.get("data")
    has_task = not isinstance(data, Mapping) or data.get("task", "missing") is not None
    faults = []
    for name, variant in variants.items():
        names = variant.get("stages") if isinstance(variant, Mapping) else None
        if not isinstance(names, (list, tuple)) or not names:
            continue
        if not all(isinstance(stage, str) for stage in names):
            continue
        for stage in names:
            if stage not in stages:
                hint = errors.nearest(stage, stages)
                faults.append(f"variants.{name}.stages: no stage {stage!r}. {hint}")
        faults += compression.order_faults(name, names, stages)
        kinds = {stage: _class_of(stages.get(stage)) for stage in names}
        on_text = {stage: _reads_text(stages.get(stage)) for stage in names}
        last = kinds[names[-1]]
        classifies = last is None or (issubclass(last, ClassifierStage) and not on_text[names[-1]])
        if has_task and not classifies:
            faults.append(
                f"variants.{name}.stages: ends in a {stages[names[-1]]['kind']} stage, which "
                "trains no classifier. End with a prediction or a labels stage"
            )
        if not has_task:
            faults += [
                f"variants.{name}.stages: {stage} ({stages[stage]['kind']}) learns a task, and "
                "data.task is null"
                for stage in names
                if kinds[stage] is not None and not on_text[stage]
            ]
    return faults


def _reads_text(stage: Any) -> bool:
    kind = _class_of(stage)
    if kind is not None and issubclass(kind, EitherStage):
        return stage.get("reads") == "corpus"
    return kind is not None and issubclass(kind, CorpusStage)


def _class_of(stage: Any) -> type[Stage] | None:
    kind = stage.get("kind") if isinstance(stage, Mapping) else None
    return STAGES.get(kind) if isinstance(kind, str) else None
