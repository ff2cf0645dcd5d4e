"""Units of work as an Apache Beam pipeline, on any runner whose workers see the same folders.

What a worker finds out comes back through files, for every runner has those: the target of a unit
that is done, and beside it, for one that failed, a file that says why.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import pathlib
import shutil
import threading
import uuid
from collections.abc import Sequence
from typing import Any

from tfdistill import errors, files
from tfdistill.data.units import Unit, Work

_DIRECT = ("direct", "directrunner")


def check(options: Sequence[str], *paths: files.Path) -> None:
    """Refuses a pipeline that could not run, before any long work.

    Args:
      options: Options of Apache Beam, such as ["--runner", "FlinkRunner", "--parallelism=64"].
      paths: What the workers read and write.

    Raises:
      EnvironmentFault: If Apache Beam, or what the runner needs, is not installed.
      ConfigError: If there is no such runner, or DirectRunner has no such option.
      DataError: If a path is the address of an object store.
    """
    for path in paths:
        if "://" in os.fspath(path):
            raise errors.DataError(
                "path of a pipeline",
                "one of a file system that all workers mount, such as /mnt/corpus",
                os.fspath(path),
                "Object stores are not read or written; mount the bucket.",
            )
    shutil.rmtree(_pipeline(options).local_tempdir)  # else running it does this


def run(work: Work, units: Sequence[Unit], options: Sequence[str], tools: Any = None) -> None:
    """Does units in a pipeline and returns when every target is there.

    A unit whose target is there is passed over, so that a bundle that a runner tries again does
    only what is left. A `TfdistillError` of ``work.do`` fails its unit alone; any other error, or
    one of ``work.tools``, fails the bundle, and the runner tries again or gives up.

    Args:
      work: What is done.
      units: To what.
      options: Options of Apache Beam.
      tools: What ``work.tools()`` would load, for workers that are threads of this process.

    Raises:
      TfdistillError: If units failed: the first one's error, preceded by the unit in words.
      EnvironmentFault: If a target is missing for another reason.
    """
    token = uuid.uuid4().hex  # a fault of an earlier pipeline is not one of this
    if tools is not None:
        _tools[token] = tools
    pipeline = _pipeline(options)
    create, apply = _beam().Create(units), _beam().Map(functools.partial(_do, work, token))
    _ = pipeline | "Units" >> create | "Do" >> apply
    state: Any = None
    failure: Exception | None = None
    try:
        result = pipeline.run()
        try:
            state = result.wait_until_finish()
        except KeyboardInterrupt:
            result.cancel()
            raise
    except Exception as error:  # what it means, the targets tell
        failure = error
    finally:
        _tools.pop(token, None)
    _check_targets(units, token, failure or f"a pipeline that ended as {state}")


def _check_targets(units: Sequence[Unit], token: str, ending: Exception | str) -> None:
    missing = [unit for unit in units if not pathlib.Path(unit.target).is_file()]
    if not missing:
        return
    cause = ending if isinstance(ending, Exception) else None
    faults = [path for unit in missing if (path := _fault_file(unit, token)).is_file()]
    if faults:
        fault = json.loads(faults[0].read_text(encoding="utf-8"))
        kind = getattr(errors, fault["kind"], errors.EnvironmentFault)
        others = f" (So did {len(faults) - 1} more.)" if len(faults) > 1 else ""
        raise kind(fault["message"] + others) from cause
    lines = str(ending).strip().splitlines()  # of a worker's traceback the last one tells
    raise errors.EnvironmentFault(
        missing[0].what,
        f"{missing[0].target} from a worker",
        f"none, and {lines[-1] if lines else repr(ending)}",
        "Workers need tfdistill, and the folder under the same path as here. What is finished "
        "is kept: go on with --resume.",
    ) from cause


def _do(work: Work, token: str, unit: Unit) -> None:
    """Does one unit on a worker."""
    if os.path.isfile(unit.target):
        return
    ready = False
    try:
        tools = _tools_of(work, token)
        ready = True
        work.do(unit, tools)
    except Exception as error:
        known = isinstance(error, errors.TfdistillError)
        said = str(error) if known else f"{type(error).__name__}: {error}"
        fault = {"kind": type(error).__name__, "message": f"{unit.what}: {said}"}
        files.atomic_write_json(_fault_file(unit, token), fault)
        if not (known and ready):
            raise


def _fault_file(unit: Unit, token: str) -> pathlib.Path:
    return pathlib.Path(f"{unit.target}.{token}.fault")


_tools: dict[str, Any] = {}  # what this process has loaded for a run
_loading = threading.Lock()


def _tools_of(work: Work, token: str) -> Any:
    with _loading:  # threads of a worker share one model
        if token not in _tools:
            _tools.clear()
            _tools[token] = work.tools()
        return _tools[token]


def _pipeline(options: Sequence[str]) -> Any:
    beam = _beam()
    parsed = importlib.import_module("apache_beam.options.pipeline_options")
    given = parsed.PipelineOptions(list(options))
    name = given.view_as(parsed.StandardOptions).runner or _DIRECT[0]
    runner = None
    if name.lower() in _DIRECT:
        strange = given.get_all_options(retain_unknown_options=True).keys()
        strange -= given.get_all_options().keys()
        if strange:
            known = [f"--{option}" for option in given.get_all_options()]
            option = f"--{min(strange)}"
            raise errors.ConfigError(
                "option of DirectRunner",
                "one of Apache Beam's",
                option,
                errors.nearest(option, known),
            )
        # What Beam runs under this name may be a program that it fetches, with one worker only.
        local = importlib.import_module("apache_beam.runners.portability.fn_api_runner.fn_runner")
        runner = local.FnApiRunner()
    try:
        return beam.Pipeline(runner, options=given)
    except ImportError as error:
        raise errors.EnvironmentFault(
            f"runner {name}", "what it needs to be installed", f"{error}"
        ) from error
    except (ValueError, AttributeError) as error:
        raise errors.ConfigError(
            "runner", "a name and options of Apache Beam", repr(name), f"{error}"
        ) from error


def _beam() -> Any:
    try:
        return importlib.import_module("apache_beam")
    except ImportError as error:
        raise errors.EnvironmentFault(
            "Apache Beam", "it to be installed", error, "pip install 'tfdistill[beam]'"
        ) from error
