"""search: propose students within a budget of latency and size on a measured device."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import pathlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from tfdistill import config, errors
from tfdistill.benchmark.settings import Delegate, Settings
from tfdistill.commands import base, measurement_options, models, options, plan

if TYPE_CHECKING:
    from tfdistill.search.measuring import Measure
    from tfdistill.search.recipes import Goal
    from tfdistill.search.result import ShortDistillation
    from tfdistill.search.searching import Distil

# Some twenty files: shorter than a benchmark of a few.
_USUAL = Settings(min_seconds=1.0)
_QUICK = dataclasses.replace(_USUAL, runs=30, min_seconds=0.3, repetitions=1)
_LENGTH, _TASK = 64, "sst2"
_UPDATES, _QUICK_UPDATES = 200, 50


def _arguments(parser: argparse.ArgumentParser) -> None:
    budget = parser.add_argument_group("budget")
    budget.add_argument(
        "--latency-ms",
        type=float,
        required=True,
        metavar="MS",
        help="median latency of one inference at the longest length",
    )
    shown = f"{_LENGTH}, or the max_length of the run --teacher"
    options.add_lengths(budget, shown)
    budget.add_argument(
        "--size-mb",
        type=float,
        metavar="MB",
        help="largest file in millions of bytes (default: any)",
    )
    budget.add_argument(
        "--threads",
        type=int,
        default=_USUAL.threads[0],
        metavar="N",
        help="CPU threads of the measurement (default: %(default)s)",
    )
    students = parser.add_argument_group("students")
    students.add_argument(
        "--teacher",
        metavar="MODEL",
        required=True,
        help="what students are cut out of: a run folder, a fine-tuned Hugging Face folder or "
        "preset:NAME",
    )
    students.add_argument(
        "--quantize",
        default="dynamic_wi8_afp32",
        metavar="NAME",
        help="quantization of the files (default: %(default)s)",
    )
    students.add_argument(
        "--count", type=int, default=6, metavar="N", help="how many to propose (default: 6)"
    )
    data = parser.add_argument_group("data (default: that of the run --teacher)")
    options.add_task(data, required=False)
    options.add_field(data, config.DataConfig, "train_limit")
    _add_device(parser.add_argument_group("device"))
    _add_effort(parser.add_argument_group("how long"))
    what = "gets search.json, search.txt, recipes/ and measurements/; a search that was stopped "
    output = parser.add_argument_group("output")
    options.add_output(output, what=f"{what}continues from these", kind="search", continues=True)
    options.add_json(parser)


def _add_device(group: argparse._ArgumentGroup) -> None:
    measurement_options.add_device(group)
    group.add_argument(
        "--delegates",
        choices=get_args(Delegate),
        default=_USUAL.delegates[0],
        help="delegate that computes, one of them (default: %(default)s)",
    )
    measurement_options.add_affinity(group)


def _add_effort(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--quick", action="store_true", help="measure two thirds of the files, a tenth as long"
    )
    group.add_argument(
        "--updates",
        type=int,
        metavar="N",
        help="batches that each proposed student is distilled for, to rank them by what they reach "
        f"as well (default: {_UPDATES}; quick: {_QUICK_UPDATES}; 0 if the data is not given)",
    )
    measurement_options.add_measurement(group, _USUAL, _QUICK)


def _search(args: argparse.Namespace) -> int:
    _check_options(args)
    from tfdistill.benchmark import environment
    from tfdistill.search import estimating, recipes, result, searching, shapes

    teacher = shapes.find_teacher(config.model_folder(args.teacher))
    data = _data(args)
    goal = recipes.Goal(
        head=_head(data),
        task=data.pop("task"),
        lengths=tuple(sorted(args.lengths or [config.trained_length(args.teacher) or _LENGTH])),
        quantize=args.quantize,
        threads=args.threads,
        data=data,
    )
    outcome = searching.search(
        args.out,
        teacher,
        searching.Budget(args.latency_ms, args.size_mb),
        goal,
        measure=_measure(args),
        settings=_settings(args),
        count=args.count,
        effort=estimating.QUICK if args.quick else None,
        distil=_distil(args, goal, teacher.source),
        command=environment.command(),
        overwrite=args.overwrite,
        progress=sys.stderr.isatty(),
    )
    lines = [result.format_text(outcome)]
    if outcome.chosen is not None:
        recipe = pathlib.Path(args.out) / outcome.chosen.recipe
        lines.append(f"next: tfdistill recipes check {recipe}")
    base.show(outcome.model_dump(mode="json"), as_json=args.json, lines=lines)
    return 0 if outcome.proposals else 1


def _check_options(args: argparse.Namespace) -> None:
    """Refuses options before TensorFlow is imported."""
    from export.conversion import quantize

    faults = []
    if quantize.quantization(args.quantize).needs_calibration:
        faults.append(
            errors.explain(
                "--quantize",
                "one without calibration, for random weights have no real activations",
                args.quantize,
            )
        )
    faults += measurement_options.device_faults(args)
    plan.existing(args.teacher, "--teacher")
    if args.updates is not None and args.updates < 0:
        faults.append(errors.explain("--updates", "at least 0", args.updates))
    if faults:
        raise errors.ConfigError("\n".join(faults))


def _data(args: argparse.Namespace) -> dict[str, Any]:
    """What is known of the task: by options, else by the run that the teacher comes from."""
    saved = pathlib.Path(args.teacher) / "recipe.yaml"
    data = options.section_of(args, "data")
    if args.task is None and args.data_dir is None and saved.is_file():
        of_run = config.load_recipe(str(saved)).data.model_dump(mode="json", exclude_defaults=True)
        data = {**of_run, **data}
    for name in ("max_length", "doc_stride", "placeholder_data", "vocab", "augment"):
        data.pop(name, None)  # by the lengths of the files; the words are the teacher's
    return {**data, "task": data.get("task") or _TASK}


def _distil(args: argparse.Namespace, goal: Goal, source: str) -> Distil | None:
    """What trains proposals for a few updates, or None; its inputs are checked first.

    Raises:
      ConfigError: If --updates asks for it and the task's files are not known.
    """
    usual = _QUICK_UPDATES if args.quick else _UPDATES
    updates = usual if args.updates is None else args.updates
    if not updates:
        return None
    if "dir" not in goal.data and goal.task != config.BUILT_IN_DATA:
        if args.updates is None:
            return None
        remedy = "Give --task and --data-dir, or a run folder as --teacher."
        raise errors.ConfigError("--updates", "the task's files", "none", remedy)
    stage = {"kind": "joint", "steps": updates, "min_steps": updates}
    general = models.general_of(args.teacher)
    recipe = config.parse_recipe(
        {
            "name": "search",
            "data": {**goal.data, "task": goal.task, "max_length": max(goal.lengths)},
            "teacher": {"source": source, "general": general, "export": False},
            "student": {"preset": "pruned:layers=1", "initialise": "pruned"},
            "stages": {"joint": stage},
            "variants": {"student": {"stages": ["joint"]}},
        }
    )
    faults = config.missing_inputs(recipe)
    if faults:
        raise errors.ConfigError("\n".join(faults))
    plan.check_data(recipe.data.model_dump(), ("train", "dev"))
    # Other updates, data or another teacher are another folder: nothing is taken for the same.
    digest = hashlib.sha256(config.dump_recipe(recipe).encode()).hexdigest()[:12]
    place = pathlib.Path(args.out) / "measurements" / f"distilled-{digest}"

    def distil(students: Mapping[str, str]) -> ShortDistillation:
        from tfdistill import run
        from tfdistill.search import result

        figures = run.distill_candidates(recipe, students, place)
        return result.ShortDistillation(updates=updates, figures=figures)

    return distil


def _head(data: Mapping[str, Any]) -> str:
    """What files of a task answer; a task that is not known is about whole texts."""
    from tfdistill import models
    from tfdistill.data import from_config

    try:
        task = from_config.declared_task(config.DataConfig.model_validate(data))
    except errors.TfdistillError:
        return "sequence"
    return models.head_for(task.head, 2).kind


def _settings(args: argparse.Namespace) -> Settings:
    usual = _QUICK if args.quick else _USUAL
    return dataclasses.replace(
        usual,
        delegates=(args.delegates,),
        affinity=args.affinity,
        warmup=args.warmup,
        runs=usual.runs if args.runs is None else args.runs,
        min_seconds=usual.min_seconds if args.min_seconds is None else args.min_seconds,
        repetitions=usual.repetitions if args.repetitions is None else args.repetitions,
        cool_down_seconds=args.cool_down,
        when_throttled="repeat" if args.device == "adb" else "flag",
    )


def _measure(args: argparse.Namespace) -> Measure:
    from tfdistill.search import devices

    if args.device == "host":
        return devices.measure_on_host
    binary = None
    if args.binary is not None:
        from tfdistill.benchmark import adb

        binary = adb.Binary(args.binary, sha256=args.binary_sha256)
    return devices.MeasureOnPhone(args.serial, binary)


COMMANDS = (
    base.Command(
        name="search",
        summary="propose parts of a teacher within a latency and size budget on a measured device",
        arguments=_arguments,
        execute=_search,
        examples=(
            "search --teacher runs/teacher --latency-ms 3 --out runs/search",
            "search --teacher runs/teacher --latency-ms 8 --lengths 128 --size-mb 20 --device adb "
            "--out runs/phone",
        ),
        description="Measures a few files with random weights on the device, fits latency and size "
        "to a student's shape (the error on students left out of the fit is reported), and writes "
        "a few of those within the budget that no other beats as recipes. Where the data is known "
        "they are distilled for a few updates each and ranked by what they reach, next to the "
        "teacher and baselines.",
    ),
)
