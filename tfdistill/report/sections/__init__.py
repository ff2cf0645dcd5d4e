"""The sections of a run's report, a module each. Pure.

A section is a function of the analysed run that yields `ReportSection`s, or nothing where the run
has nothing to show. To add one, write its module and list it in `SECTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tfdistill.report.document import Report, ReportSection
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.report.run_results import RunResults
from tfdistill.report.sections import (
    answers,
    device,
    environment,
    limits,
    model_answers,
    parity,
    quality,
    training,
    verdict,
)

SECTIONS: tuple[Callable[[RunAnalysis], Iterable[ReportSection]], ...] = (
    quality.sections,
    answers.sections,
    model_answers.sections,
    device.sections,
    training.sections,
    parity.sections,
)


def of_run(results: RunResults) -> Report:
    """Computes everything that the report of a run shows."""
    run = RunAnalysis(results)
    metrics = results.metrics
    return Report(
        name=results.name,
        headline=verdict.headline(run),
        tags=tuple(verdict.tags(run)),
        synthetic=bool(metrics and metrics.synthetic_data),
        figures=tuple(verdict.key_figures(run)),
        missing=results.missing,
        sections=tuple(section for sections in SECTIONS for section in sections(run)),
        limits=tuple(limits.limits(run)),
        environment=tuple(environment.environment(run)),
    )
