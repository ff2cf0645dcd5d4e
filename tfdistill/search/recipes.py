"""Proposed students as recipes that are ready to run."""

from __future__ import annotations

import pathlib

from tfdistill import config
from tfdistill.io import files
from tfdistill.results import quantities
from tfdistill.search import result


def write_recipes(
    folder: pathlib.Path, outcome: result.SearchResult, proposed: config.Recipe
) -> None:
    """Writes ``recipes/NAME.yaml`` for each student, in place of earlier ones."""
    length = max(outcome.lengths)
    with files.atomic_folder(folder / "recipes") as temporary:
        for proposal in outcome.proposals:
            file = f"{proposal.name}.yaml"
            student = proposed.student.model_copy(update={"preset": proposal.preset})
            name = f"pruned_{proposal.name}_{outcome.task}"
            recipe = proposed.model_copy(update={"name": name, "student": student})
            notes = [
                "Proposed by tfdistill search.",
                f"At {length} tokens on {outcome.device.name} ({outcome.kind}), "
                f"{outcome.threads} thread(s), {outcome.quantize}:",
                f"  {proposal.latency_ms:.2f} ms with random weights, "
                f"{quantities.size(proposal.size_bytes)}.",
                _accuracy(proposal, outcome.distillation),
                f"What it needs: tfdistill recipes check {file}",
            ]
            # A device names itself: whatever YAML takes for a new line stays in the comment.
            header = "".join(f"# {' '.join(note.splitlines())}".rstrip() + "\n" for note in notes)
            files.atomic_write_text(temporary / file, header + config.without_defaults(recipe))


def _accuracy(proposal: result.Proposal, trained: result.ShortDistillation | None) -> str:
    if proposal.metric is None or trained is None:
        return "Nothing is known of its accuracy before it is trained."
    figures = trained.figures
    teacher = "" if figures.teacher is None else f" (its teacher: {figures.teacher:.4f})"
    return f"After {trained.updates} updates: {figures.metric} {proposal.metric:.4f}{teacher}."
