"""Does units of work: here, in processes of this machine, or as a pipeline of Apache Beam."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from tfdistill import errors
from tfdistill.data import beam
from tfdistill.data.units import Unit, Work


def run(
    work: Work,
    units: Sequence[Unit],
    *,
    workers: int = 1,
    pipeline: Sequence[str] | None = None,
    tools: Any = None,
) -> Iterator[Unit]:
    """Does units here, in processes, or as an Apache Beam pipeline.

    Args:
      work: What is done.
      units: To what; those that are done already are the caller's to leave out.
      workers: Processes on this machine; more than one are spawned.
      pipeline: Options of Apache Beam, see `beam.check`; None: without it.
      tools: What ``work.tools()`` would load, where this process has it.

    Yields:
      Each unit once its target is there; those of a pipeline when it has ended.

    Raises:
      TfdistillError: As `work` raises it, preceded by the unit in words. A process stops the
        others; a pipeline does the other units first.
      EnvironmentFault: If the pipeline fails for another reason.
    """
    if not units:
        return
    if pipeline is not None:
        beam.run(work, units, pipeline, tools)
        yield from units
    elif workers == 1 or len(units) == 1:
        tools = work.tools() if tools is None else tools
        for unit in units:
            with _naming(unit):
                work.do(unit, tools)
            yield unit
    else:
        yield from _in_processes(work, units, workers)


@contextlib.contextmanager
def _naming(unit: Unit) -> Iterator[None]:
    """Puts the unit before the message of an error."""
    try:
        yield
    except errors.TfdistillError as error:
        raise type(error)(f"{unit.what}: {error}") from error


def _in_processes(work: Work, units: Sequence[Unit], workers: int) -> Iterator[Unit]:
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
    finally:
        pool.shutdown(cancel_futures=True)


_worker: dict[str, Any] = {}  # the work and the tools of a worker process


def _start_worker(work: Work) -> None:
    """Sets up a process: no accelerator, one core, and no life without its parent."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends the rest
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    _worker.update(work=work, tools=work.tools())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do_in_worker(unit: Unit) -> Unit:
    with _naming(unit):
        _worker["work"].do(unit, _worker["tools"])
    return unit
