"""data augment: a training set of more sentences than were written."""

from __future__ import annotations

import argparse
import functools
import os
from typing import TYPE_CHECKING, Any

from tfdistill import errors
from tfdistill.commands import base

if TYPE_CHECKING:
    from tfdistill.data.tasks import Examples
    from tfdistill.training import CandidateFinder

_ORIGINALS = ("keep", "leave-out")


def _arguments(parser: argparse.ArgumentParser) -> None:
    base.add_data(parser)
    group = parser.add_argument_group("augmentation")
    group.add_argument(
        "--masked-lm",
        required=True,
        metavar="MODEL",
        help="a Hugging Face folder or hub id with a masked-LM head and a vocab.txt",
    )
    group.add_argument(
        "--vectors",
        metavar="FILE",
        help="word vectors as text (GloVe, word2vec) for words of several pieces; without them "
        "such words stay",
    )
    group.add_argument(
        "--copies",
        type=int,
        metavar="N",
        help="draws for each text (default: 10 for mnli and qqp, 20 for sst2 and qnli, 30 else)",
    )
    group.add_argument(
        "--probability",
        type=float,
        default=0.4,
        help="with which a word is exchanged (default: %(default)s)",
    )
    group.add_argument(
        "--candidates",
        type=int,
        default=15,
        metavar="K",
        help="words to choose from in its place (default: %(default)s)",
    )
    group.add_argument("--stop-words", metavar="FILE", help="words to leave alone (default: ours)")
    group.add_argument(
        "--originals",
        choices=_ORIGINALS,
        default="keep",
        help="the sentences as they were (default: %(default)s)",
    )
    group.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    group.add_argument(
        "--token-budget",
        type=int,
        default=4096,
        metavar="TOKENS",
        help="that go through the model at a time (default: %(default)s)",
    )
    group.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="in which the model guesses (default: %(default)s)",
    )
    base.add_output(parser)
    parser.add_argument("--resume", action="store_true", help="go on with an earlier run")
    base.add_json(parser)
    base.add_runner(parser)


def _execute(args: argparse.Namespace) -> None:
    if args.resume and args.overwrite:
        raise errors.ConfigError(
            errors.explain("--resume", "without --overwrite", "both", "Choose one.")
        )
    from tfdistill import training
    from tfdistill.data import augment

    if args.pipeline is not None:
        _make_absolute(args)
    train = _train_examples(args)
    copies = augment.copies_for(train.spec.name) if args.copies is None else args.copies
    options = augment.AugmentOptions(
        copies=copies,
        probability=args.probability,
        num_candidates=args.candidates,
        seed=args.seed,
        keep_originals=args.originals == "keep",
    )
    done = training.augment_train(
        train,
        _finder(args),
        options,
        args.out,
        pipeline=args.pipeline,
        load=functools.partial(_inputs, args),
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
    from tfdistill.data import beam

    for name in ("data_dir", "masked_lm", "vectors", "stop_words"):
        path = getattr(args, name)
        if path is not None:
            beam.check(args.pipeline, path)
            if os.path.exists(path):
                setattr(args, name, os.path.abspath(path))


def _inputs(args: argparse.Namespace) -> tuple[Examples, CandidateFinder]:
    return _train_examples(args), _finder(args)


def _train_examples(args: argparse.Namespace) -> Examples:
    """The training split; there is no way to name another one."""
    from tfdistill import config
    from tfdistill.data import from_config

    settings = config.parse_section(config.DataConfig, base.data_of(args), source="command line")
    _, examples = from_config.labelled(settings, "train")
    limit = settings.train_limit
    return examples if limit is None else examples.select(range(min(limit, len(examples))))


def _finder(args: argparse.Namespace) -> CandidateFinder:
    from tfdistill import models, training, weights
    from tfdistill.data import stop_words, tokenize, vectors

    kept = stop_words.STOP_WORDS
    if args.stop_words is not None:
        kept = stop_words.read_stop_words(args.stop_words)
    known = None if args.vectors is None else vectors.read_vectors(args.vectors)
    loaded = weights.load_masked_lm(args.masked_lm)
    if loaded.vocab_file is None:
        raise errors.WeightsError(
            errors.explain(args.masked_lm, "a vocab.txt beside the weights", "none")
        )
    model = loaded.model
    if args.precision != "float32":
        model = models.with_policy(model, args.precision)
    return training.CandidateFinder(
        model,
        tokenize.Tokenizer(loaded.vocab_file, lower_case=loaded.lower_case),
        known,
        num_candidates=args.candidates,
        stop_words=kept,
        max_length=min(2 * args.max_length, loaded.config.max_positions),
        token_budget=args.token_budget,
    )


DATA_ACTIONS = (
    base.Command(
        name="augment",
        summary="write a training set with augmented sentences",
        description="Exchanges words of the training sentences for others that a masked language "
        "model or word vectors offer, as TinyBERT does, and writes train.tsv with the task's "
        "columns. Only the train split is read. The model sees each text twice side by side, at "
        "most 2 x --max-length tokens. A run that was stopped goes on with --resume.",
        arguments=_arguments,
        execute=_execute,
        examples=(
            "augment --task sst2 --data-dir glue/SST-2 --masked-lm bert-base-uncased "
            "--vectors glove.6B.300d.txt --out data/sst2-augmented",
            "augment --task intents --data-dir data --text-column text --label-column intent "
            "--masked-lm ./my-bert --copies 10 --out data/intents-augmented --resume",
        ),
    ),
)
