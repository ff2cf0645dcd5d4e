"""compress: a finished student pruned, clustered, quantization-aware."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any

from tfdistill import config, errors
from tfdistill.commands import base
from tfdistill.config import compression


def _arguments(parser: argparse.ArgumentParser) -> None:
    shown = "(default: %(default)s)"
    parser.add_argument("student", help="a run folder, or a fine-tuned Hugging Face folder or id")
    parser.add_argument(
        "--methods",
        default="quantize",
        metavar="NAMES",
        help="of prune, cluster, quantize, in this order; each keeps what the one before made "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--teacher",
        metavar="MODEL",
        help="a fine-tuned model to learn from (default: the student as it is)",
    )
    parser.add_argument(
        "--stage",
        choices=("prediction", "intermediate", "labels"),
        default="prediction",
        help="what the training learns (default: %(default)s)",
    )
    parser.add_argument(
        "--sparsity", type=float, default=0.5, help=f"share of zeros, with prune {shown}"
    )
    parser.add_argument(
        "--clusters", type=int, default=32, help=f"numbers a matrix, with cluster {shown}"
    )
    base.add_data(parser)
    group = parser.add_argument_group("training")
    group.add_argument("--epochs", type=int, default=2, help=f"of each method {shown}")
    group.add_argument("--batch-size", type=int, default=32, help=f"examples of a step {shown}")
    group.add_argument(
        "--learning-rate", type=float, default=5e-5, help=f"at the end of the warm-up {shown}"
    )
    group.add_argument("--seed", type=int, default=1, help=shown)
    base.add_set(group, "the recipe that these options make", "data.vocab=vocab.txt")
    base.add_output(parser)
    parser.add_argument("--resume", action="store_true", help="go on with an earlier run")
    base.add_json(parser)


def _compress(args: argparse.Namespace) -> None:
    recipe = recipe_of(args)
    from tfdistill import run

    record = run.distill(recipe, args.out, devices=1, resume=args.resume, overwrite=args.overwrite)
    metrics = [f"{name}: {value:.4f}" for name, value in record["metrics"].items()]
    where = pathlib.Path(args.out) / record["model_folder"]
    quantize = "static_wi8_ai8" if args.methods.endswith("quantize") else "dynamic_wi8_afp32"
    lines = [
        *metrics,
        f"model: {where}",
        f"next: tfdistill export {args.out} --quantize {quantize}",
    ]
    base.show(record, as_json=args.json, lines=lines)


def recipe_of(args: argparse.Namespace) -> config.Recipe:
    """Returns the recipe that the options describe.

    Raises:
      ConfigError: If an option is not valid; with every fault.
    """
    names = args.methods.split(",")
    for name in names:
        if name not in compression.METHODS:
            raise errors.ConfigError(
                errors.explain(
                    "--methods",
                    f"names of {', '.join(compression.METHODS)}",
                    repr(name),
                    errors.nearest(name, compression.METHODS),
                )
            )
    own = args.teacher is None and args.stage != "labels"
    options: dict[str, dict[str, Any]] = {
        "prune": {"sparsity": args.sparsity},
        "cluster": {"clusters": args.clusters},
        "quantize": {},
    }
    student = _folder_of(args.student)
    stages = {
        name: {
            "kind": args.stage,
            "epochs": args.epochs,
            "batch_size": args.batch_size,
            "learning_rate": args.learning_rate,
            "compress": {
                "method": name,
                "teacher": "student" if own else "teacher",
                **options[name],
            },
        }
        for name in names
    }
    values = {
        "name": "command",
        "data": base.data_of(args),
        "teacher": {"source": args.teacher or student, "export": False, "allow_weak": True},
        "student": {"preset": "tinybert_4l_312d", "initialise": student, "keep_head": True},
        "stages": stages,
        "variants": {"student": {"stages": names}},
        "seeds": [args.seed],
    }
    return config.parse_recipe(values, args.set, source="command line")


def _folder_of(student: str) -> str:
    """The Hugging Face folder of a run or of a saved model; anything else as it is."""
    path = pathlib.Path(student)
    places = (path / "student" / "hf", path / "hf")
    return str(next((place for place in places if place.is_dir()), student))


COMMANDS = (
    base.Command(
        name="compress",
        summary="prune, cluster or quantize a finished student while it trains",
        arguments=_arguments,
        execute=_compress,
        examples=(
            "compress runs/sst2 --task sst2 --data-dir glue/SST-2 --out runs/sst2-int8",
            "compress runs/sst2 --methods prune,quantize --sparsity 0.5 --teacher ./bert-sst2 "
            "--task sst2 --data-dir glue/SST-2 --out runs/sst2-small",
        ),
        description="Trains a finished student a little longer while tensorflow-model-"
        "optimization takes something away from its weights.",
    ),
)
