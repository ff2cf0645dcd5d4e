"""data augment: a training set of more sentences than were written."""

from __future__ import annotations

import argparse
import functools
import os
from typing import TYPE_CHECKING, Any

from tfdistill import config, errors
from tfdistill.commands import base, options, plan
from tfdistill.data import from_config

if TYPE_CHECKING:
    from tfdistill.augmentation import CandidateFinder
    from tfdistill.tasks import Examples


def _arguments(parser: argparse.ArgumentParser) -> None:
    options.add_data(parser)
    group = parser.add_argument_group("augmentation")
    section = config.AugmentConfig
    options.add_field(group, section, "masked_lm", required=True)
    options.add_field(group, section, "vectors")
    copies = section.model_fields["copies"].description
    shown = f"{copies} (default: 10 for mnli and qqp, 20 for sst2 and qnli, 30 else)"
    options.add_field(group, section, "copies", None, help=shown)
    options.add_field(group, section, "probability")
    options.add_field(group, section, "candidates")
    group.add_argument("--stop-words", metavar="FILE", help="words to keep (default: English ones)")
    group.add_argument(
        "--originals",
        choices=("keep", "leave-out"),
        default="keep",
        help="what to do with the original sentences (default: %(default)s)",
    )
    text = f"seed of the choice of words (default: {options.SEED})"
    options.add_field(group, section, "seed", options.SEED, help=text)
    group.add_argument(
        "--token-budget",
        type=int,
        default=4096,
        metavar="TOKENS",
        help="tokens in one batch of the model (default: %(default)s)",
    )
    group.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="number format in which the model computes (default: %(default)s)",
    )
    options.add_output(parser, resume=True, kind="augmentation")
    options.add_json(parser)
    options.add_runner(parser)


def _execute(args: argparse.Namespace) -> None:
    if args.pipeline is not None:
        _make_absolute(args)
    plan.model(args.masked_lm, "--masked-lm")
    for option, kind in (("vectors", "word vectors (GloVe, word2vec)"), ("stop_words", "words")):
        file = getattr(args, option)
        if file is not None and not os.path.isfile(file):
            raise errors.DataError(
                options.flag_of(option), f"an existing file of {kind}", repr(file)
            )
    settings = plan.check_data(options.data_of(args, args.masked_lm), ["train"])
    from tfdistill import augmentation

    train = _train_examples(settings)
    copies = augmentation.copies_for(train.spec.name) if args.copies is None else args.copies
    chosen = augmentation.AugmentOptions(
        copies=copies,
        probability=args.probability,
        num_candidates=args.candidates,
        seed=args.seed,
        keep_originals=args.originals == "keep",
    )
    done = augmentation.augment_train(
        train,
        _finder(args),
        chosen,
        args.out,
        pipeline=args.pipeline,
        load=functools.partial(_inputs, args, settings),
        resume=args.resume,
        overwrite=args.overwrite,
    )
    result: dict[str, Any] = {
        "file": str(done.file),
        "num_examples": done.num_examples,
        "num_rows": done.num_rows,
        "num_augmented": done.num_augmented,
    }
    line = f"{done.file}: {done.num_rows} rows, {done.num_augmented} of them augmented"
    base.show(result, as_json=args.json, lines=[line])


def _make_absolute(args: argparse.Namespace) -> None:
    """Names files so that workers of a pipeline, which work elsewhere, find them."""
    from tfdistill.data import parallel

    for name in ("data_dir", "masked_lm", "vectors", "stop_words"):
        path = getattr(args, name)
        if path is not None:
            parallel.check_pipeline(args.pipeline, path)
            if os.path.exists(path):
                setattr(args, name, os.path.abspath(path))


def _inputs(
    args: argparse.Namespace, settings: config.DataConfig
) -> tuple[Examples, CandidateFinder]:
    return _train_examples(settings), _finder(args)


def _train_examples(settings: config.DataConfig) -> Examples:
    """The training split; there is no way to name another one."""
    _, examples = from_config.labelled(settings, "train")
    limit = settings.train_limit
    return examples if limit is None else examples.select(range(min(limit, len(examples))))


def _finder(args: argparse.Namespace) -> CandidateFinder:
    from tfdistill import augmentation

    stop_words = augmentation.STOP_WORDS
    if args.stop_words is not None:
        stop_words = augmentation.read_stop_words(args.stop_words)
    return augmentation.load_finder(
        args.masked_lm,
        vectors_file=args.vectors,
        max_length=args.max_length or config.usual_max_length(args.masked_lm),
        dtype_policy=args.precision,
        num_candidates=args.candidates,
        stop_words=stop_words,
        token_budget=args.token_budget,
    )


DATA_ACTIONS = (
    base.Command(
        name="augment",
        summary="write a training set with augmented sentences",
        description="Exchanges words of the training sentences for others that a masked language "
        "model or word vectors offer, as TinyBERT does, and writes train.tsv with the task's "
        "columns. Only the train split is read. The model sees each text twice side by side, at "
        "most 2 x --max-length tokens. --resume continues a run that was stopped.",
        arguments=_arguments,
        execute=_execute,
        usual=(
            "--task --data-dir --text-column --label-column --masked-lm --vectors --copies "
            "--seed --out --resume"
        ),
        examples=(
            "data augment --task sst2 --data-dir glue/SST-2 --masked-lm bert-base-uncased "
            "--vectors glove.6B.300d.txt --out data/sst2-augmented",
            "data augment --task intents --data-dir data --text-column text --label-column intent "
            "--masked-lm ./my-bert --copies 10 --out data/intents-augmented --resume",
        ),
    ),
)
