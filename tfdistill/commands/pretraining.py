"""pretrain, data prepare, data vocab: from plain text to a masked language model."""

from __future__ import annotations

import argparse
import math
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from tfdistill import config, errors, models
from tfdistill.commands import base, options, plan
from tfdistill.io import storage

_SPAN_BYTES = 1 << 20  # text that is counted at a time
_CASED = {"--cased": "keep capitals and accents"}


def _add_reading(parser: argparse._ActionsContainer) -> None:
    """How text files become examples: the options that `data prepare` and `pretrain` share."""
    text = "longest example in tokens (default: 128)"
    options.add_field(parser, config.TeacherPretrainConfig, "max_length", 128, help=text)
    options.add_plain(parser, {"--workers N": "processes that tokenize (default: 1)"}, default=1)
    _add_invalid(parser)


def _add_invalid(parser: argparse._ActionsContainer) -> None:
    text = "bytes that are not UTF-8: stop and name the line, or drop them (default: error)"
    options.add_plain(parser, {"--on-invalid": text}, choices=("error", "replace"), default="error")


def _existing_files(paths: Sequence[str]) -> None:
    missing = [path for path in paths if not storage.located(path).exists()]
    if missing:
        raise errors.ConfigError("text", "existing files", ", ".join(missing), "Check the path.")


def _vocab_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="+", help="UTF-8 text files, in any language")
    options.add_output(parser, what="vocab.txt to write", metavar="FILE", kind="file")
    text = "maximum number of tokens (default: %(default)s)"
    options.add_plain(parser, {"--size TOKENS": text}, default=30_522)
    options.add_plain(parser, _CASED)
    _add_invalid(parser)
    options.add_json(parser)


def _vocab(args: argparse.Namespace) -> None:
    _existing_files(args.text)
    from tfdistill.data import textspans, vocab

    out = pathlib.Path(args.out)
    spans = textspans.plan_spans(args.text, _SPAN_BYTES)
    counts = vocab.count_words(
        (textspans.read_span(span, args.on_invalid) for span in spans),
        lower_case=not args.cased,
    )
    tokens = vocab.train_from_counts(counts, args.size)
    vocab.write_vocab(tokens, out)
    result = {
        "vocab_file": str(out),
        "num_tokens": len(tokens),
        "lower_case": not args.cased,
        "num_words": counts.total(),
        "num_different_words": len(counts),
    }
    base.show(
        result,
        as_json=args.json,
        lines=[f"{out}: {len(tokens)} tokens from {counts.total()} words"],
    )


def _prepare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="+", help="UTF-8 text files; blank lines separate documents")
    text = "the model's tokenizer.json or vocab.txt"
    options.add_plain(parser, {"--vocab FILE": text}, required=True)
    pairs = "write sentence pairs with labels, half of them random"
    options.add_plain(parser, {**_CASED, "--next-sentence": pairs})
    options.add_plain(
        parser, {"--shard-mb MB": "text per shard, 2^20 bytes (default: 4)"}, default=4.0
    )
    _add_reading(parser)
    options.add_seed(parser, "lengths and pairs")
    options.add_output(parser, resume=True, kind="corpus")
    options.add_json(parser)
    options.add_runner(parser)


def _prepare(args: argparse.Namespace) -> None:
    _existing_files([*args.text, args.vocab])
    shard_bytes = args.shard_mb * 2**20
    if not 1 <= shard_bytes < math.inf:
        raise errors.DataError(
            "--shard-mb", "a finite size of at least one byte", f"{args.shard_mb:g} MB"
        )
    from tfdistill.data import shards
    from tfdistill.tokenization import reading

    corpus = shards.prepare_corpus(
        args.text,
        reading.read_tokenizer(args.vocab, False if args.cased else None),
        args.out,
        max_length=args.max_length,
        shard_bytes=round(shard_bytes),
        workers=args.workers,
        pipeline=args.pipeline,
        next_sentence=args.next_sentence,
        seed=args.seed,
        on_invalid=args.on_invalid,
        resume=args.resume,
        overwrite=args.overwrite,
        progress=_report if sys.stderr.isatty() else None,
    )
    result = {
        "folder": args.out,
        "num_examples": corpus.num_examples,
        "num_tokens": corpus.num_tokens,
        "num_shards": corpus.num_shards,
    }
    line = f"{corpus.num_examples} examples, {corpus.num_tokens} tokens, {corpus.num_shards} shards"
    base.show(result, as_json=args.json, lines=[f"{args.out}: {line}"])


def _report(corpus: Any) -> None:
    end = "\n" if corpus.complete else ""
    print(f"\rshard {len(corpus.shards)} of {corpus.num_shards}", end=end, file=sys.stderr)


def _pretrain_arguments(parser: argparse.ArgumentParser) -> None:
    section = config.TeacherPretrainConfig
    text = "a preset for random weights, or a Hugging Face folder or id to continue"
    options.add_field(parser, config.TeacherConfig, "source", flag="model", help=text)
    text = "a folder of `tfdistill data prepare`, or text files; also at addresses"
    corpus = {"required": True, "metavar": "PATH", "help": text}
    options.add_field(parser, section, "corpus", None, **corpus)
    source = parser.add_argument_group("model")
    text = "tokenizer.json or vocab.txt (default: that of the model, or of the corpus)"
    options.add_field(source, config.DataConfig, "vocab", None, help=text)
    head = "add a masked-LM head that the folder lacks"
    options.add_plain(source, {**_CASED, "--new-head": head})
    text = "change a number of the preset, such as num_layers=6; may be repeated"
    options.add_plain(source, {"--shape KEY=NUMBER": text}, action="append", default=[])
    options.add_field(source, section, "next_sentence")
    text = parser.add_argument_group("text files")
    _add_reading(text)
    group = parser.add_argument_group("training")
    length = group.add_mutually_exclusive_group()
    for field in ("steps", "epochs"):
        options.add_field(length, section, field)
    for field in ("batch_size", "learning_rate", "precision"):
        options.add_field(group, section, field)
    options.add_seed(group)
    options.add_set(group, "teacher.pretrain of a recipe", "optimizer=lamb")
    options.add_gpus(group)
    options.add_output(parser, resume=True, kind="pre-training")
    options.add_json(parser)


def _pretrain(args: argparse.Namespace) -> None:
    overrides = _overrides(args.shape)
    if args.model not in models.presets():
        plan.model(args.model, "model")
    _existing_files([*args.corpus, *filter(None, [args.vocab])])
    from tfdistill.training import pretrain_run

    values = options.section_of(args, "teacher.pretrain")
    corpus, max_length = values.pop("corpus"), values.pop("max_length")
    settings = config.parse_section(
        config.PretrainConfig,
        values,
        args.set,
        source="command line",
        place="teacher.pretrain",
    )
    source = pretrain_run.PretrainSource(
        args.model,
        vocab_file=args.vocab,
        lower_case=False if args.cased else None,
        new_head=args.new_head,
        overrides=overrides,
    )
    metrics = pretrain_run.run_pretraining(
        source,
        corpus,
        args.out,
        settings,
        max_length=max_length,
        workers=args.workers,
        on_invalid=args.on_invalid,
        seed=args.seed,
        devices=args.gpus,
        resume=args.resume,
        overwrite=args.overwrite,
    )
    lines = [
        f"{name}: {math.nan if value is None else value:.4f}"
        for name, value in metrics["held_out"].items()
    ]
    where = pathlib.Path(args.out) / metrics["model_folder"]
    base.show(metrics, as_json=args.json, lines=[*lines, f"model: {where}"])


def _overrides(settings: list[str]) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        try:
            numbers[name] = float(text) if "." in text or "e" in text else int(text)
        except ValueError:
            expected = "KEY=NUMBER, such as num_layers=6"
            raise errors.ConfigError("--shape", expected, repr(setting)) from None
    return numbers


DATA_ACTIONS = (
    base.Command(
        name="prepare",
        summary="tokenize text files of any size into shards for pre-training",
        description="Tokenizes text files of any size into shards for pre-training. Texts, "
        "vocabulary and output may be addresses of s3://, gs:// or hdfs:// (needs "
        "tfdistill[remote]).",
        addresses=("text", "vocab", "out"),
        arguments=_prepare_arguments,
        execute=_prepare,
        usual=(
            "--vocab --cased --next-sentence --max-length --workers --seed --out --resume "
            "--overwrite --runner"
        ),
        examples=(
            "data prepare corpus.txt --vocab vocab.txt --out shards --workers 4",
            "data prepare a.txt b.txt --vocab bert/vocab.txt --next-sentence --max-length 512 "
            "--out /mnt/shards --resume --runner FlinkRunner --flink_master host:8081",
        ),
    ),
    base.Command(
        name="vocab",
        summary="learn a WordPiece vocabulary from text files",
        arguments=_vocab_arguments,
        execute=_vocab,
        examples=(
            "data vocab corpus.txt --out vocab.txt --size 8000",
            "data vocab chinese.txt --out zh/vocab.txt --size 21128 --on-invalid replace",
        ),
    ),
)

COMMANDS = (
    base.Command(
        name="pretrain",
        summary="pre-train a masked language model on text, from random or given weights",
        addresses=("corpus",),
        arguments=_pretrain_arguments,
        execute=_pretrain,
        usual=(
            "--corpus --vocab --new-head --shape --max-length --epochs --batch-size "
            "--learning-rate --out --resume"
        ),
        examples=(
            "pretrain ib_bert_6l_128d --corpus shards --next-sentence --steps 20000 "
            "--set optimizer=lamb --learning-rate 1.5e-3 --out runs/ib-bert",
            "pretrain ./all-MiniLM-L6-v2 --new-head --corpus corpus.txt --epochs 1 "
            "--learning-rate 2e-4 --out runs/minilm-mlm",
        ),
    ),
)
