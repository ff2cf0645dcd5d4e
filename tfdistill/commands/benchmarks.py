"""benchmark: measure exported files on this host and on phones."""

from __future__ import annotations

import argparse
import dataclasses
import glob
import itertools
import pathlib
import re
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfdistill import config, errors
from tfdistill.benchmark.settings import Settings
from tfdistill.commands import base, measurement_options, options, plan
from tfdistill.io import work_folder
from tfdistill.tflite import roles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfdistill.benchmark import schema

_DEFAULTS = Settings()


def _arguments(parser: argparse.ArgumentParser) -> None:
    text = "an export folder, a run folder or a .tflite file; several take turns, and the others "
    options.add_plain(parser, {"models MODEL": f"{text}are compared with the first"}, nargs="+")
    _add_what(parser.add_argument_group("what to measure"))
    _add_how_long(parser.add_argument_group("how long"))
    device = parser.add_argument_group("where")
    measurement_options.add_device(device, several=True)
    text = "measure nothing: take results that the app wrote on a device farm, each of one MODEL"
    options.add_plain(device, {"--adopt FILE": text}, nargs="+")
    examples = parser.add_argument_group("a task's development examples instead of golden ones")
    options.add_task(examples, required=False)
    options.add_field(examples, config.DataConfig, "dev_limit")
    output = parser.add_argument_group("output")
    options.add_output(
        output, what="also write the result here, as JSON", metavar="FILE", required=False
    )
    text = "also write the latency card of the machine here, as Markdown: of this host, or of a "
    text += "phone with --adopt"
    options.add_plain(output, {"--card FILE": text})
    options.add_json(output)


def _add_what(group: argparse._ArgumentGroup) -> None:
    options.add_field(group, config.BenchmarkConfig, "threads", _DEFAULTS.threads)
    options.add_lengths(group, "all of the file")
    measurement_options.add_roles(group)
    group.add_argument(
        "--delegates",
        type=options.names,
        default=_DEFAULTS.delegates,
        metavar="NAME,...",
        help="of xnnpack, none, and on phones gpu, nnapi "
        f"(default: {','.join(_DEFAULTS.delegates)})",
    )
    text = "cores to run on: a hexadecimal mask such as f0, or big, little, all"
    options.add_plain(group, {"--affinity MASK": text})


def _add_how_long(group: argparse._ArgumentGroup) -> None:
    for name in ("warmup", "runs", "min_seconds", "repetitions"):
        options.add_field(group, config.BenchmarkConfig, name, getattr(_DEFAULTS, name))
    rest = {"dest": "cool_down_seconds", "default": _DEFAULTS.cool_down_seconds}
    text = f"rest before each repetition (default: {_DEFAULTS.cool_down_seconds:g})"
    options.add_plain(group, {"--cool-down S": text}, **rest)
    wait = {"dest": "timeout_seconds", "default": _DEFAULTS.timeout_seconds}
    text = "maximum wait for a block of samples (default: %(default)s)"
    options.add_plain(group, {"--timeout S": text}, **wait)


def _benchmark(args: argparse.Namespace) -> int:
    from tfdistill.benchmark import card, measuring

    _check_options(args)
    settings = _settings(args)
    if args.card is not None:
        settings = dataclasses.replace(settings, words=card.WORDS)
    for out in filter(None, (args.out, args.card)):
        _check_output(pathlib.Path(out), args)
    models = [export_folder(pathlib.Path(model)) for model in args.models]
    serials: dict[str, str] = {}
    stopped = None
    try:
        results = _measure(models, settings, args, serials)
    except measuring.BenchmarkInterrupted as error:
        stopped, results = error, error.results
    try:
        _write(results, args)
    finally:  # a full disk does not take the figures along
        if results:
            _show(results, args, serials)
    if stopped is not None:
        raise stopped
    return 1 if any(result.failures for result in results) else 0


def _measure(
    models: Sequence[pathlib.Path],
    settings: Settings,
    args: argparse.Namespace,
    shown: dict[str, str],
) -> Sequence[schema.Result]:
    """Measures, and fills `shown` with the serials of phones by the ids that results have."""
    examples, metric = (), None
    if args.task is not None:
        from tfdistill.run import labelled

        rows = labelled.labelled_rows(models, options.section_of(args, "data"))
        examples, metric = rows.examples, rows.metric
    progress = sys.stderr.isatty()
    if args.device == "host" and args.adopt is None:
        from tfdistill.benchmark import host

        return [host.compare(models, settings=settings, examples=examples, progress=progress)]
    from tfdistill.benchmark import adb

    if args.adopt is not None:
        return adb.adopt(args.adopt, models)
    return adb.measure(
        models,
        settings=settings,
        serials=tuple(args.serial),
        binary=args.binary,
        examples=examples,
        metric=metric,
        shown=shown,
        progress=progress,
    )


def _check_options(args: argparse.Namespace) -> None:
    faults = measurement_options.device_faults(args)
    if args.adopt is not None:
        faults += [errors.explain(o, "none with --adopt", "it") for o in _measuring_options(args)]
    if args.card is not None and args.device != "host":
        remedy = "Measure in the app, and use --adopt."
        faults.append(errors.explain("--card", "this host, or --adopt", "--device adb", remedy))
    if args.card is not None and args.card == args.out:
        faults.append(errors.explain("--card", "another file than --out", args.card))
    faults += options.without_task(args)
    if faults:
        raise errors.ConfigError("\n".join(faults))
    for model in args.models:
        plan.no_file_of_others(model, "MODEL", exported=True)
        plan.existing(model, "MODEL", hub=False)
    for path in args.adopt or ():
        plan.existing(path, "--adopt", hub=False)
    if args.task is not None:
        plan.check_data(options.section_of(args, "data"), ["dev"])


def _measuring_options(args: argparse.Namespace) -> list[str]:
    """Lists the options that say how to measure, and are not at their defaults."""
    chosen, defaults = (dataclasses.asdict(settings) for settings in (_settings(args), _DEFAULTS))
    changed = [
        f"--{(name if name == 'min_seconds' else name.removesuffix('_seconds')).replace('_', '-')}"
        for name in defaults
        if chosen[name] != defaults[name]
    ]
    named = {"--device": args.device != "host", "--task": args.task is not None}
    return [*(name for name, is_given in named.items() if is_given), *changed]


def _settings(args: argparse.Namespace) -> Settings:
    fields = dataclasses.asdict(_DEFAULTS)
    chosen = {name: value for name, value in vars(args).items() if name in fields}
    try:
        chosen["roles"] = None if args.roles is None else roles.parse(args.roles)
        settings = Settings(**chosen)
        if args.device == "host":
            from tfdistill.benchmark import host

            host.check(settings)
    except errors.BenchmarkError as error:
        raise errors.ConfigError(str(error)) from None
    return settings


def _check_output(out: pathlib.Path, args: argparse.Namespace) -> None:
    """Finds out before anything is measured whether a file can be written."""
    earlier = earlier_results(out, several=_several(args))
    if out.is_dir() or (earlier and not args.overwrite):
        raise errors.OutputExistsError(
            str(earlier[0]),
            "an absent file",
            "a folder" if out.is_dir() else "an earlier result",
            "Name a file in it." if out.is_dir() else "Use --overwrite or another name.",
        )
    work_folder.check_writable(out)


def _several(args: argparse.Namespace) -> bool:
    """Says whether each device, or each adopted result, gets a file of its own."""
    if args.adopt is not None:
        return len(args.adopt) > 1
    return len(args.serial) > 1 or "all" in args.serial


def _write(results: Sequence[schema.Result], args: argparse.Namespace) -> None:
    from tfdistill import benchmark
    from tfdistill.benchmark import card

    ids = [result.device.id for result in results]
    for name, write in ((args.card, card.write), (args.out, benchmark.write_result)):
        if name is None:
            continue
        out = pathlib.Path(name)
        paths = choose_paths(out, ids, several=_several(args), overwrite=args.overwrite)
        for result, path in zip(results, paths, strict=True):
            write(result, path)
            if name == args.out:
                print(f"report: tfdistill report {shlex.quote(str(path))}", file=sys.stderr)
            if path != out and not _several(args):
                print(f"{out} was written meanwhile: this result is in {path}", file=sys.stderr)


def _show(
    results: Sequence[schema.Result], args: argparse.Namespace, serials: Mapping[str, str]
) -> None:
    from tfdistill import benchmark

    values: list[Any] = [result.model_dump(mode="json") for result in results]
    text = "\n\n".join(benchmark.format_text(result) for result in results)
    if serials:
        from tfdistill.benchmark.adb import measuring as on_devices

        text = on_devices.show_serials(text, serials)
    base.show(
        values[0] if len(values) == 1 else {"results": values}, as_json=args.json, lines=[text]
    )


def export_folder(path: pathlib.Path) -> pathlib.Path:
    """Returns the export of a run folder, and anything else as it is."""
    is_run = path.is_dir() and not (path / "model.json").is_file()
    return path / "export" if is_run and (path / "export" / "model.json").is_file() else path


_ID = "[0-9a-f]" * 12
_UNKNOWN = "unknown"  # of a device that told nothing


def earlier_results(out: pathlib.Path, *, several: bool) -> list[pathlib.Path]:
    """Lists what is there already where results would go."""
    stem, suffix = glob.escape(out.stem), glob.escape(out.suffix)
    paths = [out] if out.exists() else []
    for label in (_ID, _UNKNOWN) if several else ():
        for number in ("", "-[0-9]*"):
            paths += sorted(out.parent.glob(f"{stem}-{label}{number}{suffix}"))
    return paths


def choose_paths(
    out: pathlib.Path, ids: Sequence[str | None], *, several: bool, overwrite: bool
) -> list[pathlib.Path]:
    """Chooses a file for each result: no two share one, and none is replaced unasked.

    Some makers give all their devices one serial number, and so one id; and while it was measured
    another benchmark may have written a file that was not there at the start. Such a name gets the
    first number that is free. `ids` are those of the devices; `several` puts them behind the name,
    although there may be one result.
    """
    chosen: list[pathlib.Path] = []
    for device in ids:
        label = ""
        if several or len(ids) > 1:
            label = f"-{device if re.fullmatch(_ID, device or '') else _UNKNOWN}"
        names = itertools.chain([label], (f"{label}-{number}" for number in itertools.count(1)))
        paths = (out.with_name(f"{out.stem}{name}{out.suffix}") for name in names)
        free = (p for p in paths if p not in chosen and (overwrite or not p.exists()))
        chosen.append(next(free))
    return chosen


COMMANDS = (
    base.Command(
        name="benchmark",
        summary="measure exported files on this host or on phones",
        arguments=_arguments,
        execute=_benchmark,
        usual=("--threads --lengths --runs --device --serial --binary --out --overwrite --json"),
        examples=(
            "benchmark runs/demo/export --threads 1,2 --out latency.json",
            "benchmark runs/demo/export runs/other/export --device adb --binary benchmark_model",
        ),
        description="Measure exported files: start, first inference, steady latency, memory, "
        "tokenizer. Several files take turns in random order and are compared with the first. "
        "Ctrl-C keeps what is finished: it is shown, and written to --out.",
    ),
)
