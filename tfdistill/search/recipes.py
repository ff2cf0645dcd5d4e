"""Proposed students as recipes that are ready to run."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import yaml

from tfdistill import config, files
from tfdistill.search import result


@dataclasses.dataclass(frozen=True)
class Goal:
    """What the recipes of a search are for.

    Attributes:
      task: The task.
      lengths: Of the exported file.
      quantize: Of the exported file.
      threads: That it is measured with.
      head: "sequence", "token" or "span": what the task's files answer.
      data: What else is known of the task's files: fields of a recipe's `data`.
    """

    task: str
    lengths: tuple[int, ...]
    quantize: str = "dynamic_wi8_afp32"
    threads: int = 1
    head: str = "sequence"
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def write_recipes(folder: pathlib.Path, outcome: result.SearchResult, goal: Goal) -> None:
    """Writes ``recipes/NAME.yaml`` for each student, in place of earlier ones."""
    with files.atomic_folder(folder / "recipes") as temporary:
        for proposal in outcome.proposals:
            name = f"{proposal.name}.yaml"
            values = {
                "name": f"pruned_{proposal.name}_{goal.task}",
                "data": {**goal.data, "task": goal.task, "max_length": max(goal.lengths)},
                "teacher": {"source": outcome.teacher},
                "student": {"preset": proposal.preset, "initialise": "pruned"},
                "stages": {"joint": {"kind": "joint"}},
                "variants": {"full": {"stages": ["joint"]}},
                "export": {"quantize": goal.quantize, "lengths": list(goal.lengths)},
                "benchmark": {"threads": [goal.threads]},
            }
            missing = config.missing_inputs(config.parse_recipe(values, source=name))
            notes = [
                "Proposed by tfdistill search.",
                f"At {max(goal.lengths)} tokens on {outcome.device.name} ({outcome.kind}), "
                f"{goal.threads} thread(s), {goal.quantize}:",
                f"  predicted {proposal.latency_ms:.2f} ms, measured {proposal.measured_ms:.2f} ms "
                f"with random weights, {proposal.measured_size_bytes / 1e6:.1f} MB.",
                _accuracy(proposal, outcome.distillation),
                f"Run it: tfdistill run {name}",
                f"The same path in minutes on generated data: tfdistill run {name} --scaled-down",
                *(["Before it can run it needs"] if missing else []),
                *(f"  {line}" for line in missing),
            ]
            # A device names itself: whatever YAML takes for a new line stays in the comment.
            header = "".join(f"# {' '.join(note.splitlines())}".rstrip() + "\n" for note in notes)
            body = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
            files.atomic_write_text(temporary / name, header + body)


def _accuracy(proposal: result.Proposal, trained: result.ShortDistillation | None) -> str:
    if proposal.metric is None or trained is None:
        return "Nothing is known of its accuracy before it is trained."
    figures = trained.figures
    whole = "" if figures.teacher is None else f" (its teacher: {figures.teacher:.4f})"
    return f"After {trained.updates} updates: {figures.metric} {proposal.metric:.4f}{whole}."
