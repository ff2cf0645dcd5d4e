"""finetune, distill, evaluate: single steps on models of your own."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from tfdistill import config, errors, results, tasks
from tfdistill.commands import base, baseline_lines, options, plan

STAGES = (
    *("joint", "intermediate", "prediction", "logits", "patient", "relations", "labels"),
    "embedding",
)
# MiniLM on MRPC, development F1: 0.853 after 345 steps, see docs/guides/getting-started.md.
# What a student gets by default, a teacher gets, too.
_JOINT = config.STAGE_SECTIONS["joint"].model_fields
_MIN_STEPS, _PATIENCE = config.LEAST_STEPS, _JOINT["patience"].default
RATE = config.FineTuneConfig.model_fields["learning_rate"].default
# The stage that --corpus puts in front: one pass, at the rate of a student that starts pruned.
_GENERAL = {"kind": "general", "epochs": 1, "batch_size": 32, "learning_rate": config.GENERAL_RATE}


def add_run(
    parser: argparse.ArgumentParser,
    *,
    epochs: int = 3,
    rate: float | None = RATE,
    gpus: bool = True,
    of_run: str | None = None,
    place: str = "stages.*",
) -> argparse._ActionsContainer:
    """Adds what every command has that trains one model; returns the group of training."""
    options.add_data(parser, reads_train=False, of_run=of_run, one_file=True, cuts=True)
    group = parser.add_argument_group("training")
    options.add_training(group, epochs, rate, place)
    if gpus:
        options.add_gpus(group)
    options.add_output(parser, resume=True, kind="run")
    options.add_dry_run(parser)
    options.add_json(parser)
    return group


def _finetune_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a Hugging Face folder or hub id, or preset:NAME"
    options.add_field(parser, config.TeacherConfig, "source", flag="model", help=text)
    options.add_field(parser, config.DataConfig, "vocab")
    place = "teacher.finetune"
    training = add_run(parser, place=place)
    options.add_field(training, config.FineTuneConfig, "min_steps", _MIN_STEPS, place=place)
    options.add_field(training, config.DataConfig, "class_weights")


def _finetune(args: argparse.Namespace) -> None:
    plan.model(args.model, "model")
    recipe = recipe_of(
        args,
        teacher={
            "source": args.model,
            "finetune": {**options.section_of(args, "teacher.finetune"), "patience": _PATIENCE},
            "export": False,
        },
        stages={"labels": {"kind": "labels"}},
        data=options.data_of(args, args.model),
    )
    train(recipe, args, "finetune", devices=args.gpus)


def general_of(teacher: str) -> str | None:
    """The model before the fine-tuning that a run folder holds, where that is a folder still."""
    recipe = config.saved_recipe(teacher)
    if recipe is None:
        return None
    settings = recipe.teacher
    source = settings.general or settings.source
    return source if settings.finetune is not None and pathlib.Path(source).is_dir() else None


def _distill_arguments(parser: argparse.ArgumentParser) -> None:
    teacher = parser.add_mutually_exclusive_group(required=True)
    options.add_teacher(
        teacher,
        "a run folder (of finetune its teacher, otherwise its student), or a fine-tuned "
        "Hugging Face folder or id; with --kind embedding a sentence-transformers folder or id",
    )
    described = config.AnswersConfig.model_fields["files"].description
    options.add_field(
        teacher,
        config.AnswersConfig,
        "files",
        flag="--answers",
        help=f"instead of a model, {described}; several are an ensemble (see `tfdistill answers`)",
    )
    options.add_field(
        parser,
        config.StudentConfig,
        "preset",
        flag="--student",
        required=True,
        metavar="STUDENT",
        help="a preset, such as tinybert_4l_312d (see `tfdistill recipes presets`), a part of the "
        "teacher, such as pruned:layers=3,ffn=384,heads=6,width=192 (also head_size, "
        "embedding=128 for a factorised word table, choose=greedy), a static student over the "
        "mean of word vectors (static, static:width=64), or a Hugging Face folder (./NAME) or id, "
        "whose shape and weights are taken",
    )
    options.add_field(parser, config.StudentConfig, "hidden_act")
    options.add_field(
        parser,
        config.Stage,
        "kind",
        flag="--stages",
        metavar="KIND,...",
        help=f"in order, of {', '.join(STAGES)} (default: joint; with --kind embedding that one); "
        "labels alone trains the student without a teacher",
    )
    options.add_field(parser, config.DataConfig, "vocab")
    options.add_field(parser, config.DataConfig, "unlabelled", None)
    options.add_field(
        parser,
        config.Stage,
        "corpus",
        None,
        place="stages.general",
        help="plain text, on which the student first learns the teacher's hidden states and "
        "attention, in a general stage",
    )
    options.add_field(parser, config.Recipe, "baselines")
    options.add_allow_weak(parser, "a teacher or a student that answers near chance")
    training = add_run(parser, rate=None, of_run="--teacher")
    description = config.FineTuneConfig.model_fields["min_steps"].description
    narrow = config.joint_steps(192)
    usual = f"of joint and embedding {_MIN_STEPS}, of joint {narrow} at width 192; else none"
    shown = f"{description} (default: {usual})"
    options.add_field(training, config.FineTuneConfig, "min_steps", help=shown)
    options.add_field(training, config.DataConfig, "class_weights")


def _distill(args: argparse.Namespace) -> None:
    usual = "embedding" if args.kind and tasks.KINDS[args.kind].vectors else "joint"
    step = options.section_of(args, "stages.*")
    names = options.chosen_from(step.pop("kind", usual), "--stages", STAGES)
    if args.teacher is not None:
        plan.model(args.teacher, "--teacher")
    stages: dict[str, dict[str, Any]] = {name: {"kind": name} for name in names}
    # An option goes to the stages that read it; where none does, all are told and refuse it.
    for option, value in step.items():
        readers = [name for name in names if config.STAGES[name].reads_option(option)]
        for name in readers or names:
            stages[name][option] = value
    general_stage = options.section_of(args, "stages.general")
    if general_stage:
        stages = {"general": {**_GENERAL, **general_stage}, **stages}
    teacher: dict[str, Any] = {"answers": options.section_of(args, "teacher.answers") or None}
    if args.teacher is not None:
        source, general = config.model_folder(args.teacher), general_of(args.teacher)
        teacher = {"source": source, "general": general}
    student = {**options.section_of(args, "student"), "preset": plan.student(args.student)}
    recipe = recipe_of(
        args,
        teacher={**teacher, "export": False, "allow_weak": args.allow_weak},
        student=student,
        stages=stages,
        variants={"student": {"stages": list(stages)}},
        data=options.data_of(args, model=args.teacher),
    )
    if general_stage:
        recipe = _comparable(recipe)
    train(recipe, args, "distill_variant", devices=args.gpus)


def _comparable(recipe: config.Recipe) -> config.Recipe:
    """Leaves attention out of the general stage where teacher and student have unequal heads."""
    from tfdistill.run import shapes

    if not shapes.unequal_heads(recipe):
        return recipe
    print(
        "The general stage learns hidden states alone: the numbers of heads differ.",
        file=sys.stderr,
    )
    values = recipe.model_dump()
    values["stages"]["general"]["loss_weights"]["attention"] = 0.0
    return config.Recipe.model_validate(values)


def recipe_of(args: argparse.Namespace, **sections: Any) -> config.Recipe:
    """The recipe that options describe, with what --set changes."""
    values = {
        "name": "command",
        "student": {"preset": "tinybert_4l_312d", "initialise": "teacher"},
        "variants": {"student": {"stages": ["labels"]}},
        **options.section_of(args, ""),
        "seeds": [args.seed],
        **sections,
    }
    return config.parse_recipe(values, args.set, source="command line")


def train(
    recipe: config.Recipe,
    args: argparse.Namespace,
    work: str,
    *,
    devices: int | None,
    exported: bool = False,
) -> None:
    """Checks a recipe, then trains the model of one command, or prints the plan."""
    plan.check(recipe, args.out, args)
    if args.dry_run:
        plan.show(recipe, args.out, args)
        return
    from tfdistill import run

    record = getattr(run, work)(
        recipe, args.out, devices=devices, resume=args.resume, overwrite=args.overwrite
    )
    lines = [*record.metric_lines(), f"model: {pathlib.Path(args.out) / record.model_folder}"]
    metric = record.primary_metric
    if record.role == "student" and record.baselines:
        teacher = record.teacher_metrics.get(metric)
        lines += baseline_lines.compared(
            metric,
            record.metrics.get(metric),
            teacher,
            record.baselines,
            answered=results.part_of(record.teacher_examples, record.num_examples),
        )
    lines.append(f"report: {pathlib.Path(args.out) / 'report.html'}")
    if exported:
        lines.append(f"next: tfdistill export {shlex.quote(args.out)}")
    base.show(record.model_dump(mode="json"), as_json=args.json, lines=lines)


def _evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a Hugging Face folder or id, a run, or an export folder")
    options.add_data(parser, reads_train=False, of_run="model")
    parser.add_argument(
        "--split",
        default="dev",
        metavar="NAME",
        help="split to read, or a file of labelled texts in its form (default: %(default)s)",
    )
    options.add_field(parser, config.DataConfig, "dev_limit")
    options.add_json(parser)


def _evaluate(args: argparse.Namespace) -> None:
    plan.model(args.model, "model", exported=True, roberta=True)
    settings = plan.check_data(options.data_of(args, args.model), [args.split])
    from tfdistill.data import batches, from_config, unlabelled
    from tfdistill.run import inputs

    run_folder = config.run_folder(args.model)
    folder = None if run_folder is None else run_folder / "data"
    fields = options.section_of(args, "data")
    of_run = None if "task" in fields else config.data_of_run(args.model)
    task, examples = from_config.labelled(settings, args.split, folder=folder, of_run=of_run)
    if run_folder is not None and args.split != "dev" and not task.traits.vectors:
        of_all = (of_run or settings).model_copy(update={"dev_limit": None})
        with contextlib.suppress(errors.DataError):  # it may not be here
            _, train = from_config.labelled(of_all, "train", folder=folder)
            unlabelled.warn_of_shared(examples, train, "texts")
    model = inputs.open_answerer(args.model, task)
    encoded = model.encode(examples, settings)
    rows = batches.Batches(encoded, batch_size=64, shuffle=False)
    outputs = model.outputs(rows, task)
    metrics = model.score(outputs, rows.encoded, task)
    lines = [f"{name}: {value:.4f}" for name, value in metrics.items()]
    result: dict[str, Any] = {**metrics, "num_examples": examples.num_scored}
    if isinstance(model, inputs.ExportedSource):
        if calibration := model.calibration(outputs, rows.encoded, task):
            result["calibration"] = calibration
            lines.append(_calibrated(calibration))
        if promises := model.coverage_of_promises(outputs, rows.encoded, task):
            result["promises"] = promises
        lines += [
            f"at most {row['max_error']:.0%} of the sure answers wrong: sure of "
            f"{row['coverage']:.1%}, {row['error']:.1%} of them wrong"
            for row in promises
        ]
    base.show(result, as_json=args.json, lines=lines)


def _calibrated(calibration: Mapping[str, Any]) -> str:
    """How well the probabilities fit, without the temperature and with it."""
    before, after = calibration["before"], calibration["after"]
    nll, ece = after["nll"], after["ece"]
    return (
        f"probabilities at temperature {calibration['temperature']:.3g}: "
        f"NLL {before['nll']['value']:.3f} -> {nll['value']:.3f} "
        f"[{nll['interval'][0]:.3f}, {nll['interval'][1]:.3f}], "
        f"ECE {before['ece']['value']:.1%} -> {ece['value']:.1%} "
        f"[{ece['interval'][0]:.1%}, {ece['interval'][1]:.1%}], "
        f"{calibration['ece_noise']:.1%} if the file were calibrated"
    )


COMMANDS = (
    base.Command(
        name="finetune",
        summary="fine-tune a teacher on a task",
        arguments=_finetune_arguments,
        execute=_finetune,
        usual=(
            "--data --task --data-dir --kind --max-length --epochs --learning-rate --out "
            "--resume --dry-run"
        ),
        examples=(
            "finetune bert-base-uncased --task sst2 --data-dir glue/SST-2 --out runs/teacher",
            "finetune ./my-bert --task intents --data-dir data --text-column text "
            "--label-column intent --out runs/intents",
        ),
    ),
    base.Command(
        name="distill",
        summary="distil a student from a fine-tuned teacher, or from answers in files",
        arguments=_distill_arguments,
        execute=_distill,
        usual=(
            "--teacher --answers --student --stages --data --task --data-dir --epochs --out "
            "--dry-run"
        ),
        addresses=("answers", "corpus"),
        examples=(
            "distill --teacher runs/teacher --student tinybert_4l_312d --task sst2 "
            "--data-dir glue/SST-2 --out runs/student",
            "distill --answers llm.jsonl --student ./bert-small --unlabelled reviews.txt "
            "--task sst2 --data-dir glue/SST-2 --out runs/unlabelled",
        ),
    ),
    base.Command(
        name="evaluate",
        summary="compute the task's metrics of a model or of an exported file",
        arguments=_evaluate_arguments,
        execute=_evaluate,
        usual=(
            "--task --data-dir --text-column --label-column --kind --max-length --split --limit "
            "--json"
        ),
        examples=(
            "evaluate runs/student --split test",
            "evaluate ./bert-sst2 --task sst2 --data-dir glue/SST-2 --json",
        ),
    ),
)
