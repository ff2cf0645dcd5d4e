"""compress: a finished student pruned, clustered, quantization-aware."""

from __future__ import annotations

import argparse

from tfdistill import config
from tfdistill.commands import base, models, options, plan

_USUAL = {"cluster": {"clusters": 32}}  # method -> keys of its section, where not the default


def _arguments(parser: argparse.ArgumentParser) -> None:
    text = "a run folder, or a fine-tuned Hugging Face folder or id"
    options.add_field(parser, config.StudentConfig, "initialise", None, flag="student", help=text)
    options.add_field(
        parser,
        config.CompressConfig,
        "method",
        "quantize",
        flag="--methods",
        metavar="NAME,...",
        help="of prune, cluster, quantize, in this order; each keeps the result of the one before "
        "(default: quantize)",
    )
    options.add_teacher(
        parser,
        "a run folder or fine-tuned model to learn from (default: the student as it is)",
    )
    options.add_allow_weak(parser, "a student that answers near chance")
    models.add_run(parser, epochs=2, gpus=False, of_run="student")


def _compress(args: argparse.Namespace) -> None:
    models.train(recipe_of(args), args, "distill_variant", devices=1, exported=True)


def recipe_of(args: argparse.Namespace) -> config.Recipe:
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
    return models.recipe_of(
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
        name="compress",
        summary="prune, cluster or quantize a finished student while it trains",
        arguments=_arguments,
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
