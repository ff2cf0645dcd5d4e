"""Units of work: done here, in processes of this machine, or as a pipeline of Apache Beam.

Units may be done in any order, anywhere and more than once: each ends in a file. A pipeline runs on
any runner whose workers see the same folders. Workers report through files, which every runner
has: the target of a unit that is done, and next to it, for one that failed, a file with the error.
"""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.process
import contextlib
import dataclasses
import functools
import importlib
import multiprocessing
import os
import shutil
import signal
import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from tfdistill import errors
from tfdistill.io import files, processes, reading, storage

_DIRECT = ("direct", "directrunner")


@dataclasses.dataclass(frozen=True)
class WorkUnit:
    """A piece of a large piece of work."""

    what: str  # the piece in words, for messages
    target: str  # the file that exists when the unit is done, a path or an address
    task: Any  # what `UnitWorker.process` needs to know; small, because it is sent to a worker


class UnitWorker(Protocol):
    """The work on units. It is sent to workers: it holds paths and settings, no arrays.

    A unit may be done twice, also by two workers at the same time: then both write the same
    bytes. Each file is written with `files.atomic_write`, the target last.
    """

    def setup(self) -> Any:
        """Loads what the units of a process share, such as a model."""
        ...

    def process(self, unit: WorkUnit, tools: Any) -> None:
        """Writes the target of a unit."""
        ...


def run(
    work: UnitWorker,
    units: Sequence[WorkUnit],
    *,
    workers: int = 1,
    pipeline: Sequence[str] | None = None,
    tools: Any = None,
) -> Iterator[WorkUnit]:
    """Does units in this process, in several, or as an Apache Beam pipeline; yields each once done.

    Those that are done already are the caller's to leave out. More `workers` than one are spawned.
    `pipeline` are options of Apache Beam, see `check_pipeline`, whose units are yielded when it has
    ended; `tools` are what ``work.setup()`` would load, where this process has it. An error is
    preceded by the unit in words: a process stops the others, a pipeline does the other units
    first.
    """
    if not units:
        return
    if pipeline is not None:
        run_pipeline(work, units, pipeline, tools)
        yield from units
    elif workers == 1 or len(units) == 1:
        tools = work.setup() if tools is None else tools
        for unit in units:
            with _naming(unit):
                work.process(unit, tools)
            yield unit
    else:
        yield from _in_processes(work, units, workers)


@contextlib.contextmanager
def _naming(unit: WorkUnit) -> Iterator[None]:
    """Puts the unit before the message of an error."""
    try:
        yield
    except errors.TfdistillError as error:
        raise type(error)(f"{unit.what}: {error}") from error


def _in_processes(work: UnitWorker, units: Sequence[WorkUnit], workers: int) -> Iterator[WorkUnit]:
    pool = concurrent.futures.ProcessPoolExecutor(
        min(workers, len(units)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(work,),
    )
    try:
        pending = [pool.submit(_do_in_worker, unit) for unit in units]
        for done in concurrent.futures.as_completed(pending):
            yield done.result()
    except concurrent.futures.process.BrokenProcessPool as error:
        raise errors.EnvironmentFault(
            f"one of {min(workers, len(units))} worker processes",
            "one that stays until the end",
            "one that ended before it answered",
            "Memory ran out (use fewer --workers), its set-up failed (its error is above), or a "
            'script calls this outside of `if __name__ == "__main__":`. Finished units are kept: '
            "continue with --resume.",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


_worker: dict[str, Any] = {}  # the work and the tools of a worker process


def _start_worker(work: UnitWorker) -> None:
    """Sets up a process: no accelerator, one core, and no life without its parent."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    processes.ignore_dated_python()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends the rest
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    _worker.update(work=work, tools=work.setup())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do_in_worker(unit: WorkUnit) -> WorkUnit:
    with _naming(unit):
        _worker["work"].process(unit, _worker["tools"])
    return unit


def check_pipeline(options: Sequence[str], *paths: files.Path) -> None:
    """Refuses a pipeline that could not run, before any long work.

    Options are Apache Beam's, such as ["--runner", "FlinkRunner", "--parallelism=64"];
    `paths` are what the workers read and write.
    """
    for path in paths:
        if storage.is_address(path):
            storage.check(path)
    shutil.rmtree(_pipeline(options).local_tempdir)  # else running it does this


def run_pipeline(
    work: UnitWorker, units: Sequence[WorkUnit], options: Sequence[str], tools: Any = None
) -> None:
    """Does units in a pipeline and returns when every target exists.

    A unit whose target exists is skipped, so that a bundle that a runner retries does only what is
    left. A `TfdistillError` of ``work.process`` fails its unit alone; any other error, or one of
    ``work.setup``, fails the bundle, and the runner retries or gives up. `tools` are for workers
    that are threads of this process. The first error of a unit is raised, preceded by the unit in
    words.
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
    except Exception as error:  # whether it matters, the targets tell
        failure = error
    finally:
        _tools.pop(token, None)
    _check_targets(units, token, failure or f"a pipeline that ended as {state}")


def _check_targets(units: Sequence[WorkUnit], token: str, ending: Exception | str) -> None:
    missing = [unit for unit in units if not storage.located(unit.target).is_file()]
    if not missing:
        return
    cause = ending if isinstance(ending, Exception) else None
    faults = [path for unit in missing if (path := _fault_file(unit, token)).is_file()]
    if faults:
        fault = reading.read_json_object(faults[0])
        kind = getattr(errors, fault["kind"], errors.EnvironmentFault)
        others = f" (So did {len(faults) - 1} more.)" if len(faults) > 1 else ""
        raise kind(fault["message"] + others) from cause
    lines = str(ending).strip().splitlines()  # of a worker's traceback the last one tells
    raise errors.EnvironmentFault(
        missing[0].what,
        f"{missing[0].target} from a worker",
        f"none, and {lines[-1] if lines else repr(ending)}",
        "Workers need tfdistill, and the folder under the same path as here. Finished "
        "units are kept: continue with --resume.",
    ) from cause


def _do(work: UnitWorker, token: str, unit: WorkUnit) -> None:
    """Does one unit on a worker."""
    if storage.located(unit.target).is_file():
        return
    ready = False
    try:
        tools = _tools_of(work, token)
        ready = True
        work.process(unit, tools)
    except Exception as error:
        is_explained = isinstance(error, errors.TfdistillError)
        text = str(error) if is_explained else f"{type(error).__name__}: {error}"
        fault = {"kind": type(error).__name__, "message": f"{unit.what}: {text}"}
        files.atomic_write_json(_fault_file(unit, token), fault)
        if not (is_explained and ready):
            raise


def _fault_file(unit: WorkUnit, token: str) -> Any:
    return storage.located(f"{unit.target}.{token}.fault")


_tools: dict[str, Any] = {}  # what this process has loaded for a run
_loading = threading.Lock()


def _tools_of(work: UnitWorker, token: str) -> Any:
    with _loading:  # threads of a worker share one model
        if token not in _tools:
            _tools.clear()
            _tools[token] = work.setup()
        return _tools[token]


def _pipeline(options: Sequence[str]) -> Any:
    beam = _beam()
    parsed = importlib.import_module("apache_beam.options.pipeline_options")
    pipeline_options = parsed.PipelineOptions(list(options))
    name = pipeline_options.view_as(parsed.StandardOptions).runner or _DIRECT[0]
    runner = None
    if name.lower() in _DIRECT:
        strange = pipeline_options.get_all_options(retain_unknown_options=True).keys()
        strange -= pipeline_options.get_all_options().keys()
        if strange:
            listed = [f"--{option}" for option in pipeline_options.get_all_options()]
            option = f"--{min(strange)}"
            raise errors.ConfigError(
                "option of DirectRunner",
                "one of Apache Beam's",
                option,
                errors.nearest(option, listed),
            )
        # What Beam runs under this name may be a program that it fetches, with one worker only.
        local = importlib.import_module("apache_beam.runners.portability.fn_api_runner.fn_runner")
        runner = local.FnApiRunner()
    try:
        return beam.Pipeline(runner, options=pipeline_options)
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
