"""search: propose students within a budget of latency and size on a measured device."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import pathlib
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfdistill import config, errors
from tfdistill.benchmark.settings import Settings
from tfdistill.commands import base, measurement_options, models, options, plan

if TYPE_CHECKING:
    from tfdistill.search.result import ShortDistillation
    from tfdistill.search.searching import Distil

_USUAL = Settings()
_LENGTH, _TASK = 64, "sst2"
_QUANTIZE = config.ExportConfig.model_fields["quantize"].default
_UPDATES = 200


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
    text = f"CPU threads of the measurement (default: {_USUAL.threads[0]})"
    options.add_field(
        budget, config.BenchmarkConfig, "threads", _USUAL.threads[0], type=int, metavar="N",
        help=text,
    )  # fmt: skip
    students = parser.add_argument_group("students")
    options.add_teacher(
        students,
        "what students are cut out of: a run folder, a fine-tuned Hugging Face folder or "
        "preset:NAME",
        required=True,
    )
    text = f"quantization of the files (default: {_QUANTIZE})"
    options.add_field(
        students,
        config.ExportConfig,
        "quantize",
        choices=None,
        metavar="NAME",
        help=text,
        type=config.quantization_name,
    )
    students.add_argument(
        "--count", type=int, default=6, metavar="N", help="how many to propose (default: 6)"
    )
    data = parser.add_argument_group("data (default: that of the run --teacher)")
    options.add_task(data, required=False)
    options.add_field(data, config.DataConfig, "train_limit")
    device = parser.add_argument_group("device")
    measurement_options.add_device(device)
    measurement_options.add_affinity(device)
    effort = parser.add_argument_group("how long")
    options.add_field(
        effort,
        config.Stage,
        "steps",
        flag="--updates",
        place="stages.joint",
        help="batches that each proposed student is distilled for, to rank them by what they reach "
        f"as well (default: {_UPDATES}; 0 if the data is not given)",
    )
    measurement_options.add_measurement(effort, _USUAL)
    what = "gets search.json, search.txt, recipes/ and measurements/; a search that was stopped "
    output = parser.add_argument_group("output")
    options.add_output(output, what=f"{what}continues from these", kind="search", continues=True)
    options.add_json(parser)


def _search(args: argparse.Namespace) -> int:
    _check_options(args)
    recipe = _recipe(args)
    from tfdistill.benchmark import environment
    from tfdistill.search import result, searching

    outcome = searching.search(
        args.out,
        recipe,
        searching.Budget(args.latency_ms, args.size_mb),
        measure=measurement_options.measurer(args),
        settings=_settings(args),
        count=args.count,
        distil=_distil(args, recipe),
        command=environment.command(),
        overwrite=args.overwrite,
        progress=sys.stderr.isatty(),
    )
    lines = [result.format_text(outcome)]
    if outcome.chosen is not None:
        recipe = pathlib.Path(args.out) / outcome.chosen.recipe
        lines.append(f"next: tfdistill recipes check {shlex.quote(str(recipe))}")
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
    plan.model(args.teacher, "--teacher")
    if args.updates is not None and args.updates < 0:
        faults.append(errors.explain("--updates", "at least 0", args.updates))
    if faults:
        raise errors.ConfigError("\n".join(faults))


def _recipe(args: argparse.Namespace) -> config.Recipe:
    """The recipe of all proposals: its data are those of the options, else of the teacher's run."""
    data = options.section_of(args, "data")
    of_run = config.data_of_run(args.teacher)
    if of_run is not None and not {"task", "dir"} & data.keys():
        data = {**of_run.model_dump(mode="json", exclude_defaults=True), **data}
    for name in ("max_length", "doc_stride", "vocab", "augment"):
        data.pop(name, None)  # by the lengths of the files; the words are the teacher's
    named = {"lengths": sorted(args.lengths)} if args.lengths else {}
    longest = max(args.lengths or [config.trained_length(args.teacher) or _LENGTH])
    return config.parse_recipe(
        {
            "name": "search",
            "data": {**data, "task": data.get("task") or _TASK, "max_length": longest},
            "teacher": {"source": config.model_folder(args.teacher)},
            "student": {"preset": "pruned:layers=1", "initialise": "pruned"},
            "stages": {"joint": {"kind": "joint"}},
            "variants": {"full": {"stages": ["joint"]}},
            "export": {**options.section_of(args, "export"), **named},
            "benchmark": {"threads": [args.threads]},
        },
        source="command line",
    )


def _distil(args: argparse.Namespace, proposed: config.Recipe) -> Distil | None:
    """What trains proposals for a few updates, or None; its inputs are checked first."""
    updates = _UPDATES if args.updates is None else args.updates
    if not updates:
        return None
    if proposed.data.dir is None and proposed.data.task != config.BUILT_IN_DATA:
        if args.updates is None:
            return None
        remedy = "Give --task and --data-dir, or a run folder as --teacher."
        raise errors.ConfigError("--updates", "the task's files", "none", remedy)
    values = proposed.model_dump()
    values["teacher"] |= {"general": models.general_of(args.teacher), "export": False}
    values["stages"]["joint"] |= {"steps": updates, "min_steps": updates}
    recipe = config.Recipe.model_validate(values)
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


def _settings(args: argparse.Namespace) -> Settings:
    return dataclasses.replace(
        _USUAL,
        affinity=args.affinity,
        warmup=args.warmup,
        runs=args.runs,
        min_seconds=args.min_seconds,
        repetitions=args.repetitions,
        cool_down_seconds=args.cool_down,
        when_throttled="repeat" if args.device == "adb" else "flag",
    )


COMMANDS = (
    base.Command(
        name="search",
        summary="propose parts of a teacher within a latency and size budget on a measured device",
        arguments=_arguments,
        execute=_search,
        usual=(
            "--latency-ms --size-mb --lengths --teacher --task --data-dir --device --serial --out"
        ),
        examples=(
            "search --teacher runs/teacher --latency-ms 3 --out runs/search",
            "search --teacher runs/teacher --latency-ms 8 --lengths 128 --size-mb 20 --device adb "
            "--out runs/phone",
        ),
        description="Measures a few files with random weights on the device, fits latency and size "
        "to a student's shape, measures the best within the budget (the error of the prediction is "
        "reported), and writes those that no other beats as recipes. Where the data is known "
        "they are distilled for a few updates each and ranked by what they reach, next to the "
        "teacher and baselines.",
    ),
)
