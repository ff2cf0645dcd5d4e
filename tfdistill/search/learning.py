"""What is measured on a device, and what a search then knows of every student."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tfdistill import models
from tfdistill.search import bench, design, fit, result, work
from tfdistill.search.bench import CandidateBench, FileForm
from tfdistill.search.pareto import Budget, Estimate
from tfdistill.search.space import Candidate
from tfdistill.search.store import Reading


@dataclasses.dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
      blocks: Files to fit to, of BERT's layers and of MobileBERT's blocks, where there are any.
      whole: Whole students near the budget to fit to.
      held_out: Whole students near the budget to judge the fit by.
    """

    blocks: tuple[int, int] = (16, 10)
    whole: int = 10
    held_out: int = 8


QUICK = Effort(blocks=(10, 6), whole=4, held_out=4)


@dataclasses.dataclass
class Known:
    """What has been measured, by role, and what follows from it.

    Attributes:
      blocks: What the latency is fitted to, with few layers.
      whole: What it is fitted to, whole students.
      held_out: What it is judged by.
      proposals: What is proposed, or was to be; the fit knows those that are in `whole`, too.
      latency: Model by sequence length.
      held_out_errors: By sequence length.
      sizes: The model of a file's size.
    """

    blocks: list[tuple[Candidate, Reading]]
    whole: list[tuple[Candidate, Reading]]
    held_out: list[tuple[Candidate, Reading]]
    proposals: list[tuple[Candidate, Reading]]
    latency: dict[int, fit.LatencyModel]
    held_out_errors: dict[int, result.HeldOut]
    sizes: fit.SizeModel


def learn(
    device: CandidateBench,
    candidates: Sequence[Candidate],
    budget: Budget,
    form: FileForm,
    effort: Effort,
) -> Known:
    """Measures blocks and whole students near the budget, and fits latency and size to them.

    Args:
      device: Measures.
      candidates: All students that may be proposed.
      budget: Says which of them matter.
      form: Of the files.
      effort: How much to measure.

    Returns:
      What is known then.
    """
    longest, head = max(form.lengths), form.head
    counts = {False: effort.blocks[0], True: effort.blocks[1]}
    blocks = design.blocks(candidates, longest, head=head, count=counts)
    fitted = list(zip(blocks, device.readings(blocks, "blocks"), strict=True))
    known = {block.name for block in blocks}
    others = [candidate for candidate in candidates if candidate.name not in known]
    everything = work.matrix([c.config for c in others], longest, head=head)
    first = fit.fit_latency(
        work.matrix([block.config for block in blocks], longest, head=head),
        _typical(fitted, longest),
    )
    drawn = design.near_budget(
        others,
        first.predict(everything).tolist(),
        budget.latency_ms,
        count=effort.whole + effort.held_out,
    )
    students = list(zip(drawn, device.readings(drawn, "students"), strict=True))
    held_out, near = students[: effort.held_out], students[effort.held_out :]
    seen = [*fitted, *near]
    shapes = [candidate.config for candidate, _ in seen]
    sizes = fit.fit_size(
        work.contents_matrix(shapes, form.lengths), [reading.size_bytes for _, reading in seen]
    )
    latency, judged = {}, {}
    for n in form.lengths:
        measured = np.array(_typical([*seen, *held_out], n))
        counted = work.matrix([c.config for c, _ in [*seen, *held_out]], n, head=head)
        end = len(seen)
        model = fit.fit_latency(counted[:end], measured[:end])
        unseen = model.predict(counted[end:])
        judged[n] = fit.errors_of(unseen, measured[end:])
        # What the answer is about are whole students near the budget, not the outermost blocks.
        near_ones = range(len(fitted), end)
        left_out = fit.leave_one_out(counted[:end], measured[:end], near_ones)
        compared = np.concatenate([left_out, unseen]), measured[len(fitted) :]
        latency[n] = dataclasses.replace(model, margin=fit.margin_of(*compared))
    return Known(fitted, near, held_out, [], latency, judged, sizes)


def _typical(measured: Sequence[tuple[Candidate, Reading]], length: int) -> list[float]:
    readings = [reading for _, reading in measured]
    return bench.drift_corrected(readings, length, bench.usual_latency(readings, length))


def estimates(candidates: Sequence[Candidate], known: Known, form: FileForm) -> list[Estimate]:
    """Predicts what every candidate costs."""
    longest = max(form.lengths)
    shapes = [candidate.config for candidate in candidates]
    latencies = known.latency[longest].predict(work.matrix(shapes, longest, head=form.head))
    sizes = known.sizes.predict(work.contents_matrix(shapes, form.lengths))
    return [
        Estimate(
            candidate=candidate,
            latency_ms=float(latency),
            interval_ms=known.latency[longest].interval(float(latency)),
            size_bytes=round(float(bytes_)),
            capacity=work.encoder_parameters(candidate.config),
            parameters=models.count_parameters(candidate.config),
            flops=models.flops(candidate.config, longest),
        )
        for candidate, latency, bytes_ in zip(candidates, latencies, sizes, strict=True)
    ]
