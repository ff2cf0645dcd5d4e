"""The proposals of a search, and its models and warnings, as search.json and recipes have them."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Literal

from tfdistill import files
from tfdistill.benchmark import schema
from tfdistill.search import bench, recipes, result, space, work
from tfdistill.search.bench import FileForm
from tfdistill.search.learning import Known
from tfdistill.search.pareto import Budget, Estimate
from tfdistill.search.space import Candidate
from tfdistill.search.store import Reading

_Role = Literal["block", "held_out", "proposal"]
_UNSTEADY = 0.1  # of the anchor, slowest / fastest batch - 1


def keeps(reading: Reading, budget: Budget) -> bool:
    """Whether the measured file keeps the budget at every length."""
    slowest = max(reading.p50_ms.values())
    return slowest <= budget.latency_ms and budget.allows_size(reading.size_bytes)


def write_recipes(
    folder: pathlib.Path,
    chosen: Sequence[tuple[Estimate, Reading]],
    goal: recipes.Goal,
    measured_on: schema.Result,
    trained: result.ShortDistillation | None = None,
) -> tuple[result.Proposal, ...]:
    """Writes ``recipes/NAME.yaml`` for each student, in place of earlier ones.

    Args:
      folder: Of the search.
      chosen: The students with their readings.
      goal: What the recipes are for.
      measured_on: Any measurement of the device.
      trained: What they reach after a short distillation.

    Returns:
      The proposals, those with the best metric first, or those of the largest capacity.
    """
    longest = max(goal.lengths)
    reached = {} if trained is None else trained.figures.students
    proposals = []
    with files.atomic_folder(folder / "recipes") as temporary:
        for estimate, reading in sorted(chosen, key=lambda pair: -pair[0].capacity):
            name = estimate.candidate.name
            low, high = estimate.interval_ms
            path = temporary / f"{name}.yaml"
            notes = (
                f"Proposed by tfdistill search: {space.KINDS[estimate.candidate.kind]}.",
                "",
                f"At {longest} tokens on {measured_on.device.name} ({measured_on.kind}), "
                f"{goal.threads} thread(s), {goal.quantize}:",
                f"  predicted {estimate.latency_ms:.2f} ms (90%: {low:.2f} to {high:.2f}), "
                f"measured {reading.p50_ms[longest]:.2f} ms with random weights, "
                f"{reading.size_bytes / 1e6:.1f} MB.",
                _accuracy(reached.get(name), trained),
                f"Run it: tfdistill run {name}.yaml",
                "The same path in minutes on generated data: "
                f"tfdistill run {name}.yaml --scaled-down",
            )
            recipes.write_recipe(path, estimate, goal, notes)
            proposals.append(_proposal(estimate, reading, longest, reached.get(name)))
    # Stable: of equal metrics the one of the largest capacity is first.
    return tuple(sorted(proposals, key=lambda found: -(found.metric or 0.0)))


def _accuracy(metric: float | None, trained: result.ShortDistillation | None) -> str:
    if metric is None or trained is None:
        return "Nothing is known of its accuracy before it is trained."
    figures = trained.figures
    teacher = "" if figures.teacher is None else f" (its teacher: {figures.teacher:.4f})"
    return f"After {trained.updates} updates: {figures.metric} {metric:.4f}{teacher}."


def _proposal(
    estimate: Estimate, reading: Reading, longest: int, metric: float | None
) -> result.Proposal:
    return result.Proposal(
        name=estimate.candidate.name,
        kind=estimate.candidate.kind,
        config=dataclasses.asdict(estimate.candidate.config),
        recipe=f"recipes/{estimate.candidate.name}.yaml",
        latency_ms=estimate.latency_ms,
        interval_ms=estimate.interval_ms,
        measured_ms=reading.p50_ms[longest],
        measured_ci_ms=reading.p50_ci_ms[longest],
        size_bytes=estimate.size_bytes,
        measured_size_bytes=reading.size_bytes,
        capacity=estimate.capacity,
        parameters=estimate.parameters,
        flops=estimate.flops,
        metric=metric,
    )


def length_models(known: Known, form: FileForm) -> tuple[result.LengthModel, ...]:
    """Returns the latency model of each length, with its errors."""
    readings = [r for _, r in (*known.blocks, *known.whole, *known.held_out, *known.proposals)]
    return tuple(
        result.LengthModel(
            sequence_length=n,
            coefficients=dict(known.latency[n].coefficients),
            margin=known.latency[n].margin,
            held_out=known.held_out_errors[n],
            anchor_spread=bench.unsteadiness(readings, n),
        )
        for n in form.lengths
    )


def measured(known: Known, form: FileForm) -> tuple[result.Measured, ...]:
    """Returns everything that was measured, with the predictions of the fit."""
    roles: dict[_Role, list[tuple[Candidate, Reading]]] = {
        "block": [*known.blocks, *known.whole],
        "held_out": known.held_out,
        "proposal": known.proposals,
    }
    rows = []
    for role, pairs in roles.items():
        for candidate, reading in pairs:
            one = [candidate.config]
            predicted = {
                n: float(known.latency[n].predict(work.matrix(one, n, head=form.head))[0])
                for n in form.lengths
            }
            stored = known.sizes.predict(work.contents_matrix(one, form.lengths))[0]
            rows.append(
                result.Measured(
                    role=role,
                    key=reading.key,
                    name=reading.name,
                    p50_ms=reading.p50_ms,
                    predicted_ms=predicted,
                    size_bytes=reading.size_bytes,
                    predicted_size_bytes=round(float(stored)),
                )
            )
    return tuple(rows)


def warnings(
    known: Known,
    form: FileForm,
    proposals: Sequence[result.Proposal],
    broken: Sequence[Estimate],
    count: int,
) -> tuple[str, ...]:
    """Returns what a reader of the figures has to know.

    Args:
      known: What was measured.
      form: Of the files.
      proposals: What is proposed.
      broken: What was to be, and broke the budget.
      count: How many proposals were asked for.

    Returns:
      A sentence or two each.
    """
    found = []
    for model in length_models(known, form):
        where = f"at {model.sequence_length} tokens"
        if model.held_out.median > result.LARGEST_MEDIAN_ERROR:
            found.append(
                f"the latency {where} is predicted with a median error of "
                f"{model.held_out.median:.0%}: trust the measured column alone. Stop what else "
                "runs on the device, or measure longer (--min-seconds, --repetitions)."
            )
        if model.anchor_spread > _UNSTEADY:
            found.append(
                f"the same file took up to {model.anchor_spread:.0%} longer in one batch than in "
                f"another {where}: something else ran on the device, or it was hot."
            )
    if broken:
        names = ", ".join(estimate.candidate.name for estimate in broken)
        found.append(f"left out, for their files break the budget when measured: {names}.")
    if len(proposals) < count:
        found.append(f"{len(proposals)} students instead of {count}.")
    return tuple(found)
