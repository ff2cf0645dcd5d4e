"""The conditions of the results: the run, the measurement, the recipe. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tfdistill import config, errors
from tfdistill.io import reading, safe_paths
from tfdistill.report.document import Definitions, Details
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.report.sections.device import description
from tfdistill.results import tables


def environment(run: RunAnalysis) -> Iterator[Details]:
    """Yields what a reader opens at the end of the page."""
    results = run.results
    metrics, benchmark, recorded = results.metrics, results.benchmark, results.environment or {}
    rows: list[tuple[str, object]] = []
    if metrics is not None:
        rows += [
            ("Task", metrics.task.name),
            ("Labels", ", ".join(metrics.task.labels)),
            ("Exported student", metrics.chosen),
            ("Texts without labels, distilled from", metrics.num_unlabelled),
            ("Finished", metrics.created),
        ]
    packages = recorded.get("packages")
    machine = [recorded.get(name) for name in ("platform", "machine", "cores", "devices")]
    rows += [
        ("Command", safe_paths.without_folders(_words(recorded.get("command"), " "))),
        ("Version", _words([recorded.get("tfdistill_version"), recorded.get("commit")])),
        ("Machine", _words(machine)),
        ("Python", recorded.get("python")),
        ("Packages", _pairs(packages) if isinstance(packages, dict) else packages),
    ]
    if any(value for _, value in rows):
        yield Details("Run and software", _shown(rows))
    if benchmark is not None:
        rows = [
            ("Measured", benchmark.created),
            ("Command", safe_paths.without_folders(_words(benchmark.command, " "))),
            ("Device", benchmark.device.name),
            *description(benchmark.device),
            ("Runtime", _pairs(benchmark.runtime.model_dump())),
            ("Settings", _pairs(benchmark.settings)),
        ]
        yield Details("Measurement", _shown(rows))
    if results.recipe:
        text = safe_paths.without_folders(_short(results.recipe))
        yield Details("The recipe, without defaults", text=text)


def _short(recipe: str) -> str:
    try:
        return config.without_defaults(config.parse_recipe(reading.parse_yaml(recipe, "recipe")))
    except errors.ConfigError:  # of another version: as it is
        return recipe


def _shown(rows: Sequence[tuple[str, object]]) -> Definitions:
    return tuple((name, tables.cut(str(value))) for name, value in rows if value)


def _words(values: object, separator: str = ", ") -> str:
    """Joins values, also the values of lists in them; None and empty ones are left out."""
    if isinstance(values, list | tuple):
        return separator.join(filter(None, (_words(value) for value in values)))
    if isinstance(values, dict):
        return _pairs(values)
    return "" if values is None else str(values)


def _pairs(values: Mapping[str, object]) -> str:
    """Names and values in one line; what is None, empty or off is left out."""
    words = {name.replace("_", " "): _words(value) for name, value in values.items()}
    return ", ".join(f"{name} {text}" for name, text in words.items() if text not in ("", "False"))
