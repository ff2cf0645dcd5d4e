"""answers: a teacher's answers to the texts of a task, as a file that `distill --answers` reads."""

from __future__ import annotations

import argparse
from typing import Any

from tfdistill import config, errors
from tfdistill.commands import base, options, plan
from tfdistill.io import storage


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a run folder, or a Hugging Face folder or id")
    options.add_data(parser, reads_train=False, of_run="model", cuts=True)
    parser.add_argument(
        "--split",
        default="train,dev",
        metavar="NAME,...",
        help="splits whose texts are answered (default: %(default)s)",
    )
    options.add_field(
        parser,
        config.DataConfig,
        "unlabelled",
        None,
        help="further texts: plain text, one a line, or tables with the text columns of the task",
    )
    options.add_output(
        parser, what="file to write: .jsonl, .csv or .parquet", metavar="FILE", kind="file"
    )
    options.add_json(parser)
    options.add_runner(parser, "answer")


def _execute(args: argparse.Namespace) -> None:
    from tfdistill.data import parallel, soft_labels

    splits = options.names(args.split)
    if not (splits or args.unlabelled):
        expected = "names such as train,dev, or --unlabelled"
        raise errors.ConfigError("--split", expected, repr(args.split))
    soft_labels.check_writable(args.out)
    if storage.located(args.out).exists() and not args.overwrite:
        raise errors.OutputExistsError(
            f"--out {args.out}", "an absent file", "an earlier one", "Use --overwrite."
        )
    plan.model(args.model, "model", roberta=True)
    if args.pipeline is not None:
        parallel.check_pipeline(args.pipeline, args.out, args.model)
    settings = plan.check_data(options.data_of(args, args.model), splits, may_hide_labels=True)
    from tfdistill.run import answering

    count = answering.answer(args.model, settings, splits, args.out, pipeline=args.pipeline)
    result: dict[str, Any] = {"file": str(args.out), "num_texts": count}
    base.show(result, as_json=args.json, lines=[f"{args.out}: answers to {count} texts"])


COMMANDS = (
    base.Command(
        name="answers",
        summary="write a teacher's answers to a task's texts",
        description="Writes a row for each different text: the text columns of the task, and a "
        "logit for each label, by name; of words lists of logits, of --kind embedding a vector for "
        "each text (both .jsonl, .parquet). "
        "`distill --answers` reads such files, also those of other programs. Texts are answered in "
        "blocks; the same command continues one that was stopped. The file may be an address of "
        "s3://, gs:// or hdfs:// (needs tfdistill[remote]).",
        addresses=("out",),
        arguments=_arguments,
        execute=_execute,
        usual=(
            "--task --data-dir --text-column --label-column --kind --max-length --split "
            "--unlabelled --out --overwrite"
        ),
        examples=(
            "answers ./my-bert --task intents --data-dir data --text-column text --label-column "
            "intent --unlabelled more.txt --out teacher.parquet",
            "answers ./all-MiniLM-L6-v2 --kind embedding --task stsb --data-dir glue/STS-B --out "
            "vectors.parquet",
        ),
    ),
)
