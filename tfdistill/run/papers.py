"""`tfdistill table`: exports the papers' models, measures them in turns, and gathers the results.

Every file and every measurement is kept as soon as it is finished, so that a table that was killed
goes on where it stood.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import tqdm

from tfdistill import errors, files, manifest
from tfdistill.benchmark import result, schema
from tfdistill.benchmark.settings import Settings
from tfdistill.report import papers, papers_tables
from tfdistill.run import paper_files, paper_results
from tfdistill.run.paper_request import FILES, HOW, MEASUREMENTS, Request, Unit, units_of

REQUEST, TABLE = "request.json", "table.json"
_WRITTEN = (REQUEST, FILES, MEASUREMENTS, TABLE, "table.md", "table.csv")
Measure = Callable[[Sequence[pathlib.Path], Settings], schema.Result]


def make_table(
    out: files.Path,
    request: Request,
    measure: Measure,
    *,
    overwrite: bool = False,
    progress: bool = False,
) -> papers.PapersTable:
    """Exports, measures and gathers; goes on with what an earlier run into the folder left.

    Args:
      out: The folder: files/, measurements/, table.json, table.md, table.csv.
      request: What to do.
      measure: Measures files in turns, as `benchmark.compare` does, on the device of the table.
      overwrite: Whether to remove an earlier table first.
      progress: Whether to draw a progress bar on stderr, if that is a terminal.

    Returns:
      The table.

    Raises:
      OutputExistsError: If the folder holds another table, or something else.
      BenchmarkError: If a file could not be measured, or two were on different machines.
      ExportError: If a file could not be made.
    """
    folder = pathlib.Path(out)
    _prepare(folder, json.loads(json.dumps(request.fixed())), overwrite=overwrite)
    units = list(units_of(request))
    steps = len(request.presets) + len(units)
    with tqdm.tqdm(total=steps, unit="step", disable=None if progress else True) as bar:
        cards: dict[tuple[str, str], manifest.Manifest] = {}
        for preset in request.presets:
            bar.set_description(f"export {papers.title(preset)}")
            found = paper_files.export_missing(
                folder / FILES,
                preset,
                request.quantizations,
                lengths=request.settings.lengths or (),
                scaled_down=request.scaled_down,
                seed=request.settings.seed,
            )
            cards.update({(preset, quantization): card for quantization, card in found.items()})
            bar.update()
        results = {}
        for unit in units:
            bar.set_description(f"measure {unit.file.removesuffix('.json')}")
            results[unit] = _measured(folder, request, unit, cards, measure)
            bar.update()
    paper_results.check_one_device(list(results.values()))
    table = paper_results.gather(request, cards, results)
    write(table, folder)
    return table


def write(table: papers.PapersTable, folder: files.Path) -> None:
    """Writes table.json, table.md and table.csv, each whole or unchanged."""
    root = pathlib.Path(folder)
    files.atomic_write_text(root / TABLE, result.to_json(table.model_dump(mode="json")))
    files.atomic_write_text(root / "table.md", papers_tables.render_markdown(table))
    files.atomic_write_text(root / "table.csv", papers_tables.render_csv(table))


def _prepare(folder: pathlib.Path, asked: dict[str, Any], *, overwrite: bool) -> None:
    """Makes the folder, or checks that what it holds belongs to the same table."""
    there = [name for name in _WRITTEN if (folder / name).exists()]
    if overwrite and (not there or (folder / REQUEST).is_file()):
        for name in reversed(there):  # the request last: it says that the rest is of a table
            path = folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    elif (folder / REQUEST).is_file():
        earlier = _earlier(folder / REQUEST)
        other = [name for name in asked if earlier.get(name) != asked[name]]
        if other:
            raise errors.OutputExistsError(
                errors.explain(
                    f"table in {folder}",
                    f"one of the same {' and '.join(other)}",
                    ", ".join(str(earlier.get(name)) for name in other),
                    "Use --overwrite or another --out.",
                )
            )
        return
    elif folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise errors.OutputExistsError(
            errors.explain(
                f"{folder}",
                "a new or empty folder, or an earlier table",
                "other files",
                "Use another --out.",
            )
        )
    files.atomic_write_json(folder / REQUEST, asked)


def _earlier(path: pathlib.Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        value = None
    return value if isinstance(value, dict) else {}  # no request at all: another table


def _measured(
    folder: pathlib.Path,
    request: Request,
    unit: Unit,
    cards: dict[tuple[str, str], manifest.Manifest],
    measure: Measure,
) -> schema.Result:
    """Reads the result of a unit, or measures it and keeps it."""
    wanted = [(preset, unit.quantization) for preset in request.presets]
    reference = (request.reference, "float32")
    if unit.quantization != "float32" and "float32" in request.quantizations:
        wanted.append(reference)
    digests = [cards[key].model.sha256 for key in wanted]
    kept = folder / MEASUREMENTS / request.place / unit.file
    if kept.is_file():
        found = result.read_result(kept)
        how = {name: found.settings.get(name) for name in HOW}
        if [model.sha256 for model in found.models] != digests or how != request.how():
            raise errors.OutputExistsError(
                errors.explain(
                    f"{kept}",
                    f"a measurement of the files in {FILES}/ with {request.how()}",
                    "one of other files" if how == request.how() else f"one with {how}",
                    "Remove it to measure again, or use --overwrite.",
                )
            )
        return found
    settings = dataclasses.replace(
        request.settings, lengths=(unit.sequence_length,), threads=(unit.threads,), texts=False
    )
    paths = [folder / FILES / paper_files.name_of(*key) for key in wanted]
    measured = measure(paths, settings)
    if measured.failures:
        raise errors.BenchmarkError(
            "\n".join(f"{failure.what}: {failure.error}" for failure in measured.failures)
        )
    result.write_result(measured, kept)
    return measured
