"""finetune, distill, compress: single steps on models of your own."""

from __future__ import annotations

import argparse
import functools
import pathlib
import shlex
import sys
from typing import Any

from tfdistill import config, results, tasks
from tfdistill.commands import base, options, plan, runs, vocabulary_options

STAGES = (
    *("joint", "intermediate", "prediction", "logits", "patient", "relations", "labels"),
    "embedding",
)
# MiniLM on MRPC, development F1: 0.853 after 345 steps, see docs/guides/getting-started.md.
# What a student gets by default, a teacher gets, too.
_JOINT = config.STAGE_SECTIONS["joint"].model_fields
_OF_TEACHER = config.DataConfig.model_fields["vocab"].default
_MIN_STEPS, _PATIENCE = config.LEAST_STEPS, _JOINT["patience"].default
RATE = config.FineTuneConfig.model_fields["learning_rate"].default
# Of a compression: method -> keys of its section, where not the default.
_USUAL = {"cluster": {"clusters": 32}}
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
    options.add_data(parser, of_run=of_run, one_file=True, cuts=True)
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
    plan.run(recipe, args, "finetune", _summary, devices=args.gpus)


def general_of(teacher: str) -> str | None:
    """The model before the fine-tuning that a run folder holds, where that is a folder still."""
    recipe = config.saved_recipe(teacher)
    if recipe is None:
        return None
    if recipe.data.cut is not None:
        from tfdistill.run import cutting

        named, recipe = recipe, cutting.with_cut_models(recipe, pathlib.Path(teacher))
        if recipe.teacher.source == named.teacher.source:  # it reads other words
            return None
    settings = recipe.teacher
    source = settings.general or settings.source
    return source if settings.finetune is not None and pathlib.Path(source).is_dir() else None


def _distill_arguments(parser: argparse.ArgumentParser) -> None:
    described = config.AnswersConfig.model_fields["files"].description
    options.add_teacher_or_answers(
        parser,
        "a run folder: the teacher of a finetune run, otherwise the student; or a fine-tuned "
        "Hugging Face folder or hub id; with --kind embedding a sentence-transformers folder or id",
        f"{described}; several are an ensemble (see `tfdistill answers`)",
    )
    student: dict[str, Any] = {
        **{"flag": "--student", "required": True, "metavar": "STUDENT"},
        "help": "a preset, such as tinybert_4l_312d (see `tfdistill recipes presets`), a part of "
        "the teacher, such as pruned:layers=3,ffn=384,heads=6,width=192 (also head_size, "
        "embedding=128 for a factorised word table, choose=top), a static student over the "
        "mean of word vectors (static, static:width=64), or a Hugging Face folder (./NAME) or id, "
        "whose shape and weights are taken",
    }
    options.add_field(parser, config.StudentConfig, "preset", **student)
    options.add_field(parser, config.StudentConfig, "hidden_act")
    text = f"in order, of {', '.join(STAGES)} (default: joint; with --kind embedding that one); "
    text += "labels alone trains the student without a teacher"
    stages = {"flag": "--stages", "metavar": "KIND,...", "help": text}
    options.add_field(parser, config.Stage, "kind", **stages)
    options.add_field(parser, config.DataConfig, "vocab")
    options.add_field(parser, config.DataConfig, "unlabelled", None)
    text = "plain text, on which the student first learns the teacher's hidden states and "
    text += "attention, in a general stage"
    options.add_field(parser, config.Stage, "corpus", None, place="stages.general", help=text)
    options.add_field(parser, config.Recipe, "baselines")
    options.add_allow_weak(parser, "a teacher or a student that answers near chance")
    training = add_run(parser, rate=None, of_run="--teacher")
    description = config.FineTuneConfig.model_fields["min_steps"].description
    narrow = config.joint_steps(192)
    usual = f"of joint and embedding {_MIN_STEPS}, of joint {narrow} at width 192; else none"
    shown = f"{description} (default: {usual})"
    options.add_field(training, config.FineTuneConfig, "min_steps", help=shown)
    options.add_field(training, config.DataConfig, "class_weights")
    vocabulary_options.add(parser, "cut of a teacher of many languages, and of others where asked")


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
    data = options.data_of(args, model=args.teacher)
    of_teacher = teacher.get("source") if args.vocab == _OF_TEACHER else None
    data |= vocabulary_options.cut_of(args, of_teacher, fetch=not args.dry_run)
    recipe = recipe_of(
        args,
        teacher={**teacher, "export": False, "allow_weak": args.allow_weak},
        student=student,
        stages=stages,
        variants={"student": {"stages": list(stages)}},
        data=data,
    )
    if general_stage:
        recipe = _comparable(recipe)
    plan.run(recipe, args, "distill_variant", _summary, devices=args.gpus)


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


def _summary(record: results.SavedModel, out: pathlib.Path, *, exported: bool = False) -> list[str]:
    lines = [
        f"{name}: {'-' if value is None else f'{value:.4f}'}"
        for name, value in record.metrics.items()
    ]
    lines.append(f"model: {out / record.model_folder}")
    metric = record.primary_metric
    if record.role == "student" and record.baselines:
        lines += runs.compared(
            metric,
            record.metrics.get(metric),
            record.teacher_metrics.get(metric),
            record.baselines,
            answered=results.part_of(record.teacher_examples, record.num_examples),
        )
    lines.append(f"report: {out / 'report.html'}")
    if exported:
        lines.append(f"next: tfdistill export {shlex.quote(str(out))}")
    return lines


def _compress_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a run folder, or a fine-tuned Hugging Face folder or id"
    options.add_field(parser, config.StudentConfig, "initialise", None, flag="student", help=text)
    text = "of prune, cluster, quantize, in this order; each keeps the result of the one before "
    methods = {"flag": "--methods", "metavar": "NAME,...", "help": f"{text}(default: quantize)"}
    options.add_field(parser, config.CompressConfig, "method", "quantize", **methods)
    options.add_teacher(
        parser,
        "a run folder or fine-tuned model to learn from (default: the student as it is)",
    )
    options.add_allow_weak(parser, "a student that answers near chance")
    add_run(parser, epochs=2, gpus=False, of_run="student")


def _compress(args: argparse.Namespace) -> None:
    lines_of = functools.partial(_summary, exported=True)
    plan.run(compression_recipe(args), args, "distill_variant", lines_of, devices=1)


def compression_recipe(args: argparse.Namespace) -> config.Recipe:
    """Returns the recipe that the options describe."""
    names = options.chosen_from(args.methods, "--methods", list(config.METHODS))
    plan.model(args.student, "student")
    if args.teacher is not None:
        plan.model(args.teacher, "--teacher")
    student = config.model_folder(args.student)
    teacher = student if args.teacher is None else config.model_folder(args.teacher)
    itself = args.teacher is None
    step = {"kind": "prediction", **options.section_of(args, "stages.*")}
    teaches = "student" if itself else "teacher"
    stages = {
        name: {**step, "compress": {"method": name, "teacher": teaches, **_USUAL.get(name, {})}}
        for name in names
    }
    return recipe_of(
        args,
        data=options.data_of(args, model=args.student),
        teacher={"source": teacher, "export": False, "allow_weak": itself or args.allow_weak},
        student={
            "preset": "tinybert_4l_312d",
            "initialise": student,
            "keep_head": True,
            "allow_weak": args.allow_weak,
        },
        stages=stages,
        baselines="none",  # the student was compared with them when it was distilled
        variants={"student": {"stages": names}},
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
        name="compress",
        summary="prune, cluster or quantize a finished student while it trains",
        arguments=_compress_arguments,
        execute=_compress,
        usual=("--methods --teacher --data --task --data-dir --epochs --out --resume --dry-run"),
        examples=(
            "compress runs/sst2 --out runs/sst2-int8",
            "compress ./student --methods prune,quantize --set stages.prune.compress.sparsity=0.7 "
            "--teacher ./bert-sst2 --task sst2 --data-dir glue/SST-2 --out runs/sst2-small",
        ),
        description="Trains a finished student a little longer while tensorflow-model-"
        "optimization prunes, clusters or quantizes its weights.",
    ),
)
