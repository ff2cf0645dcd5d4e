"""Damages files and runs the commands that read them, each in a process of its own.

A case is refused, or gives the result of the undamaged files, or another one. Of a file that
tfdistill wrote the last is a fault, as tracebacks, signals and hangs are; of a file that a user
wrote it is another input.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from typing import NoReturn

import kinds
import mutations
import outcomes
import readers
import undamaged

_UNCAUGHT = 70  # exit code of a process whose command raised what it should not
_MEMORY_BYTES = 12 << 30  # of a process
_TIMEOUT_S, _WRITES_BYTES = 180, 1 << 30
_GOOD = {0, 1, 2}


@dataclasses.dataclass
class Running:
    """A case that runs."""

    number: int
    kind: kinds.Kind
    command: tuple[str, ...]
    folder: pathlib.Path
    deadline: float


def main() -> int:
    """Runs the cases; returns 1 where one is a fault."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--kinds", default="", help="names, or fast: those without training")
    parser.add_argument("--only", default="", help="numbers of cases")
    parser.add_argument("--files", type=pathlib.Path, help="folder of the undamaged files")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    fast = args.kinds == "fast"
    chosen = [
        kind
        for kind in kinds.KINDS
        if (not fast or not kind.needs_training)
        and (fast or not args.kinds or kind.name in args.kinds.split(","))
    ]
    if not chosen:
        parser.error(f"--kinds: choose of {', '.join(kind.name for kind in kinds.KINDS)}")
    _import_all(light=all(kind.light for kind in chosen))
    with tempfile.TemporaryDirectory(prefix="tfdistill-fuzz-") as temporary:
        source = (args.files or pathlib.Path(temporary) / "undamaged").absolute()
        source.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        undamaged.make(source, _made_in(source), fast=all(not k.needs_training for k in chosen))
        print(f"files made in {time.monotonic() - started:.0f} s", flush=True)
        numbers = [int(n) for n in args.only.split(",") if n] or range(
            args.first, args.first + args.count
        )
        where = pathlib.Path(temporary)
        faults = _run_all(args.seed, numbers, chosen, source, where, args.jobs)
    print(f"seed {args.seed}: {len(numbers)} cases, {len(faults)} faults")
    return 1 if faults else 0


def _import_all(*, light: bool) -> None:
    """Imports once what every process needs; no operation of TensorFlow runs before the forks."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tfdistill.benchmark.comparing.comparison_text
    import tfdistill.benchmark.comparing.gate
    import tfdistill.cli
    import tfdistill.config
    import tfdistill.data.shard_files
    import tfdistill.data.text_index
    import tfdistill.report
    import tfdistill.tflite.golden

    if light:
        return
    warnings.simplefilter("ignore", FutureWarning)
    import tensorflow_text  # noqa: F401

    import export.trials  # noqa: F401
    import tfdistill.augmentation
    import tfdistill.run.inputs  # noqa: F401


def _made_in(folder: pathlib.Path):
    def tfdistill(*arguments: str) -> None:
        log = folder / "log.txt"
        before = undamaged.keep_scratch if arguments[0] == "run" else None
        pid = _start(arguments, folder, log, before)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            sys.exit(f"tfdistill {' '.join(arguments)}: exit {status}\n{log.read_text()}")

    return tfdistill


def _start(arguments: Sequence[str], folder: pathlib.Path, log: pathlib.Path, before=None) -> int:
    """Forks a process that runs a command in a folder; `before` runs there first."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_WRITES_BYTES, _WRITES_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(os.open(log.with_name("out.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(output, 2)
        os.chdir(folder)
        if before is not None:
            before()
    except BaseException:
        traceback.print_exc()
        os._exit(99)
    _command(arguments)


def _command(arguments: Sequence[str]) -> NoReturn:
    from tfdistill import cli

    code = _UNCAUGHT
    try:
        code = _read(arguments[1]) if arguments[0] == "read" else cli.main(list(arguments))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _read(name: str) -> int:
    from tfdistill import errors

    try:
        print(readers.text_of(readers.READERS[name]()))
    except (errors.TfdistillError, OSError) as error:  # as the command line does
        print(error, file=sys.stderr)
        return 2
    return 0


def _run_all(
    seed: int,
    numbers: Sequence[int],
    chosen: Sequence[kinds.Kind],
    source: pathlib.Path,
    where: pathlib.Path,
    jobs: int,
) -> list[int]:
    running: dict[int, Running] = {}
    undamaged_results: dict[tuple[str, ...], list[outcomes.Outcome]] = {}
    counted: collections.Counter[str] = collections.Counter()
    faults: list[int] = []
    todo = list(numbers)[::-1]
    started = time.monotonic()
    while todo or running:
        while todo and len(running) < jobs:
            number = todo.pop()
            pid, case = _begin(seed, number, chosen, source, where)
            running[pid] = case
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in running:
            case = running.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            fault = None if code in _GOOD else _ending(code)
            if case.kind.full_disk:
                fault = fault or _silent(case, code)
                subprocess.run(["umount", "-l", case.folder / "work" / "disk"], capture_output=True)
            result = f"refused ({code})"
            if code == 0 and not case.kind.full_disk:
                if case.command not in undamaged_results:
                    undamaged_results[case.command] = [
                        _undamaged(case, chosen, source, where) for _ in range(2)
                    ]
                damaged, _, done = (case.folder / "case.txt").read_text().partition(": ")
                results = outcomes.outcome(case.folder, source, case.command[0])
                first, second = undamaged_results[case.command]
                places = outcomes.differences(first, second, results, damaged, source)
                result = "another input" if places else "the same result"
                # Of an absent result the page of a report says so, which is not compared.
                untold = not done.startswith(("delete", mutations.FORGED))
                if places and untold and not case.kind.inputs:
                    fault = "taken, with another result"
                    with open(case.folder / "log.txt", "a") as log:
                        print(*places[:8], sep="\n", file=log)
            if fault:
                faults.append(case.number)
            _report(case, fault)
            counted[f"{case.kind.name}: {fault or result}"] += 1
            shutil.rmtree(case.folder, ignore_errors=True)
            continue
        for pid, case in running.items():
            if time.monotonic() > case.deadline:
                (case.folder / "late").touch()
                os.killpg(pid, signal.SIGKILL)
                case.deadline = float("inf")
        time.sleep(0.005)
    for line, count in sorted(counted.items()):
        print(f"{count:6} {line}")
    print(f"{time.monotonic() - started:.0f} s")
    return faults


def _undamaged(
    case: Running, chosen: Sequence[kinds.Kind], source: pathlib.Path, where: pathlib.Path
) -> outcomes.Outcome:
    """The result of the command of a case where nothing is damaged."""
    folder = where / f"undamaged-{case.number}"
    (folder / "work").mkdir(parents=True)
    pid = _start(
        case.command,
        folder / "work",
        folder / "log.txt",
        lambda: _lay_out(folder / "work", case.kind, chosen, source),
    )
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        sys.exit(f"{case.command} of undamaged files: {code}\n{(folder / 'log.txt').read_text()}")
    result = outcomes.outcome(folder, source, case.command[0])
    shutil.rmtree(folder)
    return result


def _lay_out(
    work: pathlib.Path, kind: kinds.Kind, chosen: Sequence[kinds.Kind], source: pathlib.Path
) -> None:
    """Links the undamaged files into a working folder, but for those that the kind removes."""
    names = sorted(
        {pattern.split("/")[0] for k in chosen for pattern in k.files} | {"text", "pairs"}
    )
    for name in names:
        if (source / name).is_dir():
            ignore = shutil.ignore_patterns(".lock", "tensorboard")
            shutil.copytree(source / name, work / name, copy_function=os.link, ignore=ignore)
        elif (source / name).is_file():
            os.link(source / name, work / name)
    for pattern in kind.without:
        for path in sorted(work.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _begin(
    seed: int,
    number: int,
    chosen: Sequence[kinds.Kind],
    source: pathlib.Path,
    where: pathlib.Path,
) -> tuple[int, Running]:
    """Draws a case and starts it."""
    draw = random.Random(f"{seed}:{number}")
    (kind,) = draw.choices(chosen, [kind.weight for kind in chosen])
    command = draw.choice(kind.commands)
    folder = where / f"case-{number}"
    work = folder / "work"

    def before() -> None:
        _lay_out(work, kind, chosen, source)
        if kind.full_disk:
            (folder / "case.txt").write_text(
                f"{_small_disk(work / 'disk', draw)}\n  tfdistill {' '.join(command)}"
            )
            return
        input_files = sorted({path for p in kind.files for path in work.glob(p) if path.is_file()})
        path = draw.choice(input_files)
        done = mutations.damage(path, input_files, draw)
        (folder / "case.txt").write_text(
            f"{path.relative_to(work)}: {done}\n  tfdistill {' '.join(command)}"
        )

    work.mkdir(parents=True)
    pid = _start(command, work, folder / "log.txt", before)
    return pid, Running(number, kind, tuple(command), folder, time.monotonic() + _TIMEOUT_S)


def _small_disk(path: pathlib.Path, draw: random.Random) -> str:
    """Makes a file system of a few kB; who is not root gets a limit on the size of a file."""
    path.mkdir()
    size = int(4 ** draw.uniform(1, 7.5))  # kB
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", path], capture_output=True
    )
    if done.returncode == 0:
        return f"a disk of {size} kB"
    resource.setrlimit(resource.RLIMIT_FSIZE, (size << 10, _WRITES_BYTES))
    return f"files of at most {size} kB"


def _silent(case: Running, code: int) -> str | None:
    """A full disk that is not told in one line with the path is a fault."""
    lines = (case.folder / "log.txt").read_text("utf-8", "replace").strip().splitlines()
    if code == 0 or (code == 1 and "disk" in (lines or [""])[-1]):
        return None
    return "a full disk without a path"


def _ending(code: int) -> str:
    if code == _UNCAUGHT:
        return "traceback"
    return f"signal {-code}" if code < 0 else f"exit {code}"


def _report(case: Running, fault: str | None) -> None:
    text = (case.folder / "log.txt").read_text("utf-8", "replace")
    if fault is None and "Traceback (most recent call last)" not in text:
        return
    if (case.folder / "late").exists():
        fault = f"hang ({_TIMEOUT_S} s)"
    said = case.folder / "case.txt"
    print(f"case {case.number} ({case.kind.name}): {fault or 'a traceback on the way'}")
    print(f"  {said.read_text() if said.exists() else 'not begun'}")
    lines = [line for line in text.splitlines() if line.strip()]
    print(*(f"    {line[:200]}" for line in lines[-14:]), sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
