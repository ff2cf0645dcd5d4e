"""finetune, distill, evaluate: single steps on models of one's own."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

from tfdistill import config
from tfdistill.commands import base
from tfdistill.config import stage_options


def _training_arguments(parser: argparse.ArgumentParser, *, epochs: int, rate: float) -> None:
    base.add_data(parser)
    group = parser.add_argument_group("training")
    shown = "(default: %(default)s)"
    group.add_argument("--epochs", type=int, default=epochs, help=f"of each training {shown}")
    group.add_argument("--batch-size", type=int, default=32, help=f"examples of a step {shown}")
    group.add_argument(
        "--learning-rate", type=float, default=rate, help=f"at the end of the warm-up {shown}"
    )
    group.add_argument("--seed", type=int, default=1, help=shown)
    base.add_set(group, "the recipe that these options make", "teacher.allow_weak=true")
    base.add_devices(group)
    base.add_output(parser)
    parser.add_argument("--resume", action="store_true", help="go on with an earlier run")
    base.add_json(parser)


def _finetune_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a Hugging Face folder or hub id, or preset:NAME")
    parser.add_argument(
        "--vocab", default="teacher", help="vocab.txt, or train:SIZE (default: the model's own)"
    )
    _training_arguments(parser, epochs=3, rate=5e-5)


def _finetune(args: argparse.Namespace) -> None:
    recipe = _recipe_of(
        args,
        teacher={"source": args.model, "finetune": _step_of(args), "export": False},
        stages={"labels": {"kind": "labels"}},
        data=base.data_of(args, vocab=args.vocab),
    )
    from tfdistill import run

    record = run.finetune(
        recipe, args.out, devices=args.devices, resume=args.resume, overwrite=args.overwrite
    )
    _show_record(record, args)


def _distill_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--teacher", required=True, help="a fine-tuned Hugging Face folder or id")
    parser.add_argument(
        "--student", required=True, help="a preset, such as tinybert_4l_312d or bert_mini"
    )
    parser.add_argument(
        "--stages",
        default="intermediate,prediction",
        help="in order, of intermediate, prediction, logits, patient, relations, labels "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--no-teacher",
        action="store_true",
        help="train the student on gold labels alone: the baseline (the same as --stages labels)",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        default=1.0,
        help="divides the logits of both models (default: %(default)s)",
    )
    parser.add_argument(
        "--layer-map",
        choices=("uniform", "top", "bottom", "skip", "last"),
        default="uniform",
        help="which teacher layer a student layer is compared with (default: %(default)s)",
    )
    _training_arguments(parser, epochs=3, rate=5e-5)


def _distill(args: argparse.Namespace) -> None:
    names = ["labels"] if args.no_teacher else args.stages.split(",")
    stages: dict[str, dict[str, Any]] = {name: {"kind": name, **_step_of(args)} for name in names}
    # An option goes to the stages that read it; where none does, all are told and refuse it.
    for option in ("temperature", "layer_map"):
        readers = [name for name in names if stage_options.reads(name, option)]
        for name in readers or names:
            stages[name][option] = getattr(args, option)
    recipe = _recipe_of(
        args,
        teacher={"source": args.teacher, "export": False},
        student={"preset": args.student},
        stages=stages,
        variants={"student": {"stages": names}},
        data=base.data_of(args),
    )
    from tfdistill import run

    record = run.distill(
        recipe, args.out, devices=args.devices, resume=args.resume, overwrite=args.overwrite
    )
    _show_record(record, args)


def _step_of(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "epochs": args.epochs,
        "batch_size": args.batch_size,
        "learning_rate": args.learning_rate,
    }


def _recipe_of(args: argparse.Namespace, **sections: Any) -> config.Recipe:
    values = {
        "name": "command",
        "student": {"preset": "tinybert_4l_312d"},
        "variants": {"student": {"stages": ["labels"]}},
        "seeds": [args.seed],
        **sections,
    }
    return config.parse_recipe(values, args.set, source="command line")


def _show_record(record: dict[str, Any], args: argparse.Namespace) -> None:
    metrics = [f"{name}: {value:.4f}" for name, value in record["metrics"].items()]
    where = pathlib.Path(args.out) / record["model_folder"]
    base.show(record, as_json=args.json, lines=[*metrics, f"model: {where}"])


def _evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a Hugging Face folder or id, a run, or an export folder")
    base.add_data(parser, reads_train=False)
    parser.add_argument(
        "--split", default="dev", metavar="NAME", help="which one is read (default: %(default)s)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N examples of it")
    base.add_json(parser)


def _evaluate(args: argparse.Namespace) -> None:
    from tfdistill.data import batches, from_config
    from tfdistill.run import inputs

    settings = _data_section(base.data_of(args, dev_limit=args.limit))
    task, examples = from_config.labelled(settings, args.split)
    model = inputs.open_answerer(args.model, task)
    encoded = model.encode(examples, settings)
    metrics = model.evaluate(batches.Batches(encoded, batch_size=64, shuffle=False), task)
    lines = [f"{name}: {value:.4f}" for name, value in metrics.items()]
    base.show({**metrics, "num_examples": len(encoded)}, as_json=args.json, lines=lines)


def _data_section(values: dict[str, Any]) -> config.DataConfig:
    return config.parse_section(config.DataConfig, values, source="command line")


COMMANDS = (
    base.Command(
        name="finetune",
        summary="fine-tune a teacher on a task",
        arguments=_finetune_arguments,
        execute=_finetune,
        examples=(
            "finetune bert-base-uncased --task sst2 --data-dir glue/SST-2 --out runs/teacher",
            "finetune ./my-bert --task intents --data-dir data --text-column text "
            "--label-column intent --out runs/intents",
        ),
    ),
    base.Command(
        name="distill",
        summary="distil a student from a fine-tuned teacher",
        arguments=_distill_arguments,
        execute=_distill,
        examples=(
            "distill --teacher runs/teacher/teacher/model/hf --student tinybert_4l_312d "
            "--task sst2 --data-dir glue/SST-2 --out runs/student",
            "distill --teacher ./bert-sst2 --student tinybert_4l_312d --stages prediction "
            "--task sst2 --data-dir glue/SST-2 --out runs/logits-only",
        ),
    ),
    base.Command(
        name="evaluate",
        summary="the task's metrics of a model or of an exported file",
        arguments=_evaluate_arguments,
        execute=_evaluate,
        examples=(
            "evaluate runs/student --task sst2 --data-dir glue/SST-2",
            "evaluate runs/demo/export --task assistant --data-dir runs/demo/data --json",
        ),
    ),
)
