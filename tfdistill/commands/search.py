"""search: propose students within a budget of latency and size on a measured device."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import pathlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from tfdistill import config, errors, files
from tfdistill.benchmark.settings import Delegate, Settings
from tfdistill.commands import base, measurement_options, models, options, plan

if TYPE_CHECKING:
    from tfdistill.search.bench import Measure
    from tfdistill.search.recipes import Goal
    from tfdistill.search.result import ShortDistillation
    from tfdistill.search.searching import Distil

# Some forty files: shorter than a benchmark of a few.
_USUAL = Settings(min_seconds=1.0)
_QUICK = dataclasses.replace(_USUAL, runs=30, min_seconds=0.3, repetitions=1)
_LENGTH, _TASK = 64, "sst2"
_UPDATES, _QUICK_UPDATES = 200, 50
_METHODS = ("pruned", "tinybert", "minilm", "logits", "mobilebert")


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
    _add_students(parser.add_argument_group("students"))
    data = parser.add_argument_group("data (default: that of the run --teacher)")
    options.add_task(data, required=False)
    options.add_field(data, config.DataConfig, "train_limit")
    _add_device(parser.add_argument_group("device"))
    _add_effort(parser.add_argument_group("how long"))
    output = parser.add_argument_group("output")
    output.add_argument(
        "--out",
        metavar="DIR",
        required=True,
        help="gets search.json, search.txt, recipes/ and measurements/; a search that was stopped "
        "continues from these",
    )
    output.add_argument(
        "--measurements",
        metavar="DIR",
        help="where measurements are kept, for other budgets too (default: OUT/measurements)",
    )
    output.add_argument(
        "--overwrite", action="store_true", help="replace an earlier result; keep its measurements"
    )
    parser.set_defaults(output_kind="search", output_continues=True)
    options.add_json(parser)


def _add_students(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--distiller",
        choices=_METHODS,
        default="tinybert",
        help="method that the recipes distil with; pruned cuts parts out of a fine-tuned teacher "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--blocks",
        type=options.names,
        metavar="NAME,...",
        help="kinds of transformer blocks, of gelu, relu, no_norm, no_norm_2ffn (default: all "
        "that the distiller can teach)",
    )
    group.add_argument(
        "--teacher",
        metavar="MODEL",
        default="bert-base-uncased",
        help="a run folder, a Hugging Face folder, a hub id or preset:NAME (default: %(default)s)",
    )
    for name in ("layers", "heads", "width"):
        text = "of the teacher, where its config.json is not at hand"
        group.add_argument(f"--teacher-{name}", type=int, metavar="N", help=text)
    group.add_argument(
        "--vocab-size",
        type=int,
        default=30522,
        metavar="N",
        help="rows of the word table (default: 30522)",
    )
    group.add_argument(
        "--quantize",
        default="dynamic_wi8_afp32",
        metavar="NAME",
        help="quantization of the files (default: %(default)s)",
    )
    group.add_argument(
        "--count", type=int, default=6, metavar="N", help="how many to propose (default: 6)"
    )


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
        "--quick", action="store_true", help="measure half as many files, a tenth as long"
    )
    group.add_argument(
        "--updates",
        type=int,
        metavar="N",
        help="batches that each proposed student is distilled for, to rank them by what they reach "
        f"as well (default: {_UPDATES}; quick: {_QUICK_UPDATES}; 0 if students are not pruned or "
        "the data is not given)",
    )
    measurement_options.add_measurement(group, _USUAL, _QUICK)


def _search(args: argparse.Namespace) -> int:
    _check_options(args)
    from tfdistill.benchmark import environment
    from tfdistill.search import learning, pareto, recipes, result, searching, teachers

    data = _data(args)
    head = _head(data["task"])
    teacher = teachers.find_teacher(
        config.model_folder(args.teacher),
        num_layers=args.teacher_layers,
        num_heads=args.teacher_heads,
        hidden_size=args.teacher_width,
    )
    goal = recipes.Goal(
        method=args.distiller,
        teacher=teacher,
        task=data.pop("task"),
        lengths=tuple(sorted(args.lengths or [options.trained_length(args.teacher) or _LENGTH])),
        quantize=args.quantize,
        threads=args.threads,
        data=data,
    )
    distil = _distil(args, goal)
    found = searching.search(
        args.out,
        pareto.Budget(args.latency_ms, args.size_mb),
        goal,
        measure=_measure(args),
        settings=_settings(args),
        kinds=args.blocks,
        vocab_size=args.vocab_size,
        head=head,
        count=args.count,
        effort=learning.QUICK if args.quick else None,
        distil=distil,
        measurements=args.measurements,
        command=environment.command(),
        overwrite=args.overwrite,
        progress=sys.stderr.isatty(),
    )
    lines = [result.format_text(found)]
    if found.distillation is not None:
        lines.append(f"report: {pathlib.Path(args.out) / 'report.html'}")
    if found.chosen is not None:
        lines.append(
            f"next: tfdistill recipes check {pathlib.Path(args.out) / found.chosen.recipe}"
        )
    base.show(found.model_dump(mode="json"), as_json=args.json, lines=lines)
    return 0 if found.proposals else 1


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
    if args.updates and args.distiller != "pruned":
        faults.append(
            errors.explain(
                "--updates",
                "--distiller pruned, whose students start close to their teacher",
                args.distiller,
            )
        )
    if args.vocab_size < 1:
        faults.append(errors.explain("--vocab-size", "at least 1", args.vocab_size))
    if faults:
        raise errors.ConfigError("\n".join(faults))


def _data(args: argparse.Namespace) -> dict[str, Any]:
    """What is known of the task: by options, else by the run that the teacher comes from."""
    saved = pathlib.Path(args.teacher) / "recipe.yaml"
    given = {**options.task_of(args), "train_limit": args.train_limit}
    if args.task is None and args.data_dir is None and saved.is_file():
        of_run = config.load_recipe(str(saved)).data.model_dump(mode="json", exclude_defaults=True)
        given = {**of_run, **{name: value for name, value in given.items() if value is not None}}
    found = {name: value for name, value in given.items() if value is not None}
    for name in ("max_length", "doc_stride", "placeholder_data", "vocab", "augment"):
        found.pop(name, None)  # by the lengths of the files; the words are the teacher's
    return {**found, "task": found.get("task") or _TASK}


def _distil(args: argparse.Namespace, goal: Goal) -> Distil | None:
    """What trains proposals for a few updates, or None; its inputs are checked first.

    Raises:
      ConfigError: If --updates asks for it and the task's files are not known.
    """
    usual = _QUICK_UPDATES if args.quick else _UPDATES
    updates = usual if args.updates is None else args.updates
    if not updates or goal.method != "pruned":
        return None
    if "dir" not in goal.data and goal.task != config.BUILT_IN_DATA:
        if args.updates is None:
            return None
        remedy = "Give --task and --data-dir, or a run folder as --teacher."
        raise errors.ConfigError("--updates", "the task's files", "none", remedy)
    stage = {"kind": "joint", "steps": updates, "min_steps": updates}
    recipe = config.parse_recipe(
        {
            "name": "search",
            "data": {**goal.data, "task": goal.task, "max_length": max(goal.lengths)},
            "teacher": {
                "source": goal.teacher.source,
                "general": models.general_of(args.teacher),
                "export": False,
            },
            "student": {"preset": "pruned:layers=1", "initialise": "pruned"},
            "stages": {"joint": stage},
            "variants": {"student": {"stages": ["joint"]}},
        }
    )
    faults = config.missing_inputs(recipe)
    if faults:
        raise errors.ConfigError("\n".join(faults))
    plan.check_data(recipe.data.model_dump(), ("train", "dev"))
    # Other updates, data or another teacher are another folder: what is known is not trained again.
    digest = hashlib.sha256(config.dump_recipe(recipe).encode())
    for path in _files_of(recipe):
        digest.update(files.sha256_of(path).encode())
    name = f"distilled-{digest.hexdigest()[:12]}"
    kept = pathlib.Path(args.measurements or pathlib.Path(args.out) / "measurements")

    def distil(students: Mapping[str, str]) -> ShortDistillation:
        from tfdistill import run
        from tfdistill.search import result

        figures = run.distill_candidates(recipe, students, kept / name)
        return result.ShortDistillation(updates=updates, figures=figures)

    return distil


def _files_of(recipe: config.Recipe) -> list[pathlib.Path]:
    """The teacher's files as far as they are here (a hub id names its own), then the data's."""
    from tfdistill.data import from_config

    found: list[pathlib.Path] = []
    for source in (recipe.teacher.source, recipe.teacher.general):
        folder = pathlib.Path(source or "").expanduser()
        if source and folder.is_dir():
            names = ("*.json", "vocab.txt", "*.safetensors")
            found += sorted(path for name in names for path in folder.glob(name))
    if recipe.data.dir is not None:
        task = from_config.declared_task(recipe.data)
        for split in ("train", task.dev_split):
            path = task.split_file(from_config.source_of(recipe.data), split)
            found += sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return [*found, *map(pathlib.Path, recipe.data.unlabelled)]


def _head(task: str) -> str:
    """What files of a task answer; a task of one's own is about whole texts."""
    from tfdistill import tasks

    try:
        kind = tasks.task(task).kind
    except errors.TfdistillError:
        kind = "classification"
    return kind if kind in ("token", "span") else "sequence"


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
        summary="propose students within a latency and size budget on a measured device",
        arguments=_arguments,
        execute=_search,
        examples=(
            "search --distiller pruned --teacher runs/teacher --latency-ms 3 --out runs/parts",
            "search --latency-ms 8 --lengths 128 --size-mb 20 --device adb --out runs/phone",
        ),
        description="Measures files with random weights on the device, learns how latency follows "
        "from a student's shape (the error on students that it has not seen is reported), and "
        "writes a few of those within the budget that no other beats as recipes. Accuracy is not "
        "predicted: it takes training. Students that are parts of a fine-tuned teacher are "
        "distilled for a few updates each and ranked by what they reach, next to the teacher and "
        "baselines.",
    ),
)
