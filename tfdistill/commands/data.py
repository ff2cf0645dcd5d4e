"""data: corpora, vocabularies and augmented training sets."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
from typing import TYPE_CHECKING

from tfdistill import config, errors
from tfdistill.commands import base, options, plan, pretraining
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
    text = f"seed of the choice of words (default: {options.SEED})"
    options.add_field(group, section, "seed", options.SEED, help=text)
    options.add_set(group, "data.augment of a recipe", "copies=10")
    options.add_output(parser, resume=True, kind="augmentation")
    options.add_json(parser)
    options.add_runner(parser)


def _execute(args: argparse.Namespace) -> None:
    if args.pipeline is not None:  # its workers work elsewhere
        from tfdistill.data import parallel

        for name in ("data_dir", "masked_lm", "vectors"):
            if (path := getattr(args, name)) is not None:
                parallel.check_pipeline(args.pipeline, path)
                setattr(args, name, os.path.abspath(path) if os.path.exists(path) else path)
    plan.model(args.masked_lm, "--masked-lm")
    file = args.vectors
    if file is not None and not os.path.isfile(file):
        expected = "an existing file of word vectors (GloVe, word2vec)"
        raise errors.DataError("--vectors", expected, repr(file))
    wanted = config.parse_section(
        config.AugmentConfig,
        options.section_of(args, "data.augment"),
        args.set,
        source="command line",
        place="data.augment",
    )
    settings = plan.check_data(options.data_of(args, args.masked_lm), ["train"])
    from tfdistill import augmentation

    train = _train_examples(settings)
    copies = augmentation.copies_for(train.spec.name) if wanted.copies is None else wanted.copies
    chosen = augmentation.AugmentOptions(
        copies=copies,
        probability=wanted.probability,
        num_candidates=wanted.candidates,
        seed=wanted.seed,
    )
    done = augmentation.augment_train(
        train,
        _finder(args, wanted),
        chosen,
        args.out,
        pipeline=args.pipeline,
        load=functools.partial(_inputs, args, settings, wanted),
        resume=args.resume,
        overwrite=args.overwrite,
    )
    result = {**dataclasses.asdict(done), "file": str(done.file)}
    line = f"{done.file}: {done.num_rows} rows, {done.num_augmented} of them augmented"
    base.show(result, as_json=args.json, lines=[line])


def _inputs(
    args: argparse.Namespace, settings: config.DataConfig, wanted: config.AugmentConfig
) -> tuple[Examples, CandidateFinder]:
    return _train_examples(settings), _finder(args, wanted)


def _train_examples(settings: config.DataConfig) -> Examples:
    return from_config.labelled(settings, "train")[1].first(settings.train_limit)


def _finder(args: argparse.Namespace, wanted: config.AugmentConfig) -> CandidateFinder:
    from tfdistill import augmentation

    return augmentation.load_finder(
        args.masked_lm,
        vectors_file=args.vectors,
        max_length=args.max_length or config.usual_max_length(args.masked_lm),
        num_candidates=wanted.candidates,
        stop_words=augmentation.STOP_WORDS,
    )


_ACTIONS = (
    *pretraining.DATA_ACTIONS,
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
            "--task --data-dir --text-column --label-column --masked-lm --vectors --seed --out "
            "--set --resume"
        ),
        examples=(
            "data augment --task sst2 --data-dir glue/SST-2 --masked-lm bert-base-uncased "
            "--vectors glove.6B.300d.txt --out data/sst2-augmented",
            "data augment --task intents --data-dir data --text-column text --label-column intent "
            "--masked-lm ./my-bert --set copies=10 --out data/intents-augmented --resume",
        ),
    ),
)

COMMANDS = (
    base.Command(
        name="data",
        summary="prepare corpora, vocabularies and training sets",
        actions=_ACTIONS,
        examples=tuple(action.examples[0] for action in _ACTIONS[:2]),
    ),
)
