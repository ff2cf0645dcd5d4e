"""answers, evaluate: what a model answers to the texts of a task, as a file and as metrics."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfdistill import config, errors
from tfdistill.commands import base, benchmarks, options, plan
from tfdistill.io import storage

# Task of GLUE -> split -> the name of the server's file.
_NAMES = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "QNLI", "RTE", "WNLI")
_GLUE = {name.lower().replace("-", ""): {"test": name} for name in _NAMES}
_GLUE["mnli"] = {"test_matched": "MNLI-m", "test_mismatched": "MNLI-mm"}


def _answers_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_plain(parser, {"model": "a run folder, or a Hugging Face folder or id"})
    options.add_data(parser, of_run="model", cuts=True)
    text = "splits whose texts are answered (default: %(default)s)"
    options.add_plain(parser, {"--split NAME,...": text}, default="train,dev")
    text = "further texts: plain text, one a line, or tables with the text columns of the task"
    options.add_field(parser, config.DataConfig, "unlabelled", None, help=text)
    options.add_output(
        parser, what="file to write: .jsonl, .csv or .parquet", metavar="FILE", kind="file"
    )
    options.add_json(parser)
    options.add_runner(parser, "answer")


def _answers(args: argparse.Namespace) -> None:
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


def _evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a Hugging Face folder or id, a run, or an export folder")
    options.add_data(parser, of_run="model")
    what = parser.add_mutually_exclusive_group()
    text = "split to read, or a file of labelled texts in its form (default: %(default)s)"
    options.add_plain(what, {"--split NAME": text}, default="dev")
    text = "write the file that its server takes of a test split, such as predictions/SST-2.tsv"
    options.add_plain(what, {"--predictions-for NAME": text}, choices=("glue",))
    text = "tables with newer answers of the large model to other texts: is what the file promises "
    text += "of its agreement with it still kept?"
    options.add_plain(what, {"--answers FILE": text}, nargs="+")
    options.add_field(parser, config.ModelAnswersConfig, "answer_column", None)
    options.add_field(parser, config.DataConfig, "dev_limit")
    options.add_plain(parser, {"--patterns": options.PATTERNS})
    options.add_json(parser)


def _evaluate(args: argparse.Namespace) -> None:
    plan.model(args.model, "model", exported=True, roberta=True)
    if args.predictions_for is not None:
        return _predict_for_glue(args)
    settings = plan.check_data(options.data_of(args, args.model), [args.split])
    if args.answers is not None:
        declared = {"model_answers": settings.model_answers or config.ModelAnswersConfig()}
        settings = plan.with_answers(args, settings.model_copy(update=declared))
        return _evaluate_agreements(args, settings)
    if args.answer_column is not None:
        raise errors.ConfigError("--answer-column", "--answers FILE beside it", "none", "Add it.")
    from tfdistill.data import batches, from_config, unlabelled
    from tfdistill.run import inputs
    from tfdistill.tasks import decoding

    run_folder = config.run_folder(args.model)
    folder = None if run_folder is None else run_folder / "data"
    fields = options.section_of(args, "data")
    of_run = None if "task" in fields else config.data_of_run(args.model)
    task, examples = from_config.labelled(settings, args.split, folder=folder, of_run=of_run)
    labels = task.labels if task.traits.tags_words else ()
    if args.patterns and not ("O" in labels and decoding.allowed(tuple(labels)).begins.any()):
        expected, received = "a task whose tags name entities and O", f"{task.kind} {task.labels}"
        raise errors.ConfigError("--patterns", expected, errors.shortened(received))
    if run_folder is not None and args.split != "dev" and not task.traits.vectors:
        of_all = (of_run or settings).model_copy(update={"dev_limit": None})
        with contextlib.suppress(errors.DataError):  # it may not be here
            _, train = from_config.labelled(of_all, "train", folder=folder)
            unlabelled.warn_of_shared(examples, train, "texts")
    model = inputs.open_answerer(args.model, task)
    encoded = model.encode(examples, settings)
    rows = batches.Batches(encoded, batch_size=64, shuffle=False)
    outputs = model.outputs(rows, task)
    if args.patterns:
        outputs = model.with_patterns(outputs, rows.encoded, examples)
    metrics = model.score(outputs, rows.encoded, task)
    lines = [f"{name}: {value:.4f}" for name, value in metrics.items()]
    result: dict[str, Any] = {**metrics, "num_examples": examples.num_scored}
    if isinstance(model, inputs.ExportedSource):
        if calibration := model.calibration(outputs, rows.encoded, task):
            result["calibration"] = calibration
            lines.append(_calibrated(calibration))
        if promises := model.coverage_of_promises(outputs, rows.encoded, task):
            result["promises"] = promises
        record = model.card.confidence
        what = "entities" if record and record.entity_promises else "answers"
        lines += [
            f"at most {row['max_error']:.0%} of the sure {what} wrong: sure of "
            f"{row['coverage']:.1%}, {row['error']:.1%} of them wrong"
            for row in promises
        ]
        if mask := model.mask_figures(outputs, rows.encoded, task):
            result["mask"] = mask
            lines += [
                f"masked {where}: {mask['recall' + of]:.1%} of the entities, for "
                f"{mask['needless' + of]:.2%} of the other words"
                for of, where in (("", "with the threshold"), ("_of_path", "without a threshold"))
            ]
    base.show(result, as_json=args.json, lines=lines)


def _predict_for_glue(args: argparse.Namespace) -> None:
    """Writes index and prediction of every row of the test split: the files of GLUE's server."""
    from tfdistill.data import batches, from_config
    from tfdistill.io import files
    from tfdistill.run import inputs

    typed = {"--limit": "dev_limit" in options.section_of(args, "data")}
    typed |= {"--patterns": args.patterns, "--answer-column": args.answer_column}
    for option in filter(typed.get, typed):
        raise errors.ConfigError(option, "none with --predictions-for", "one", "Leave it out.")
    values = {**options.data_of(args, args.model), "dev_limit": None}
    name = from_config.declared_task(options.data_section(values)).name
    if name not in _GLUE:
        expected = f"a task of GLUE ({', '.join(_GLUE)})"
        raise errors.ConfigError("--predictions-for glue", expected, repr(name))
    settings = plan.check_data(values, list(_GLUE[name]), may_hide_labels=True)
    written = {}
    for split, stem in _GLUE[name].items():
        target = pathlib.Path("predictions") / f"{stem}.tsv"
        if target.exists():
            raise errors.OutputExistsError(f"{target}", "an absent file", "one", "Move it.")
        task, examples = from_config.labelled(settings, split, may_hide_labels=True)
        model = inputs.open_answerer(args.model, task)
        rows = batches.Batches(model.encode(examples, settings), batch_size=64, shuffle=False)
        logits = model.logits(model.outputs(rows, task), task)
        answers = logits[:, 0].clip(0, 5) if task.traits.one_number else logits.argmax(axis=-1)
        cells = enumerate(task.traits.cell(task, answer) for answer in answers)
        lines = ["index\tprediction\n", *(f"{row}\t{cell}\n" for row, cell in cells)]
        files.atomic_write_text(target, "".join(lines))
        written[str(target)] = len(answers)
    lines = [f"{path}: {count} predictions" for path, count in written.items()]
    base.show({"files": written}, as_json=args.json, lines=lines)


def _evaluate_agreements(args: argparse.Namespace, settings: config.DataConfig) -> None:
    """Tests what a file promises of a large model on newer answers, to texts new to its run."""
    from tfdistill import tasks
    from tfdistill.data import model_answers, unlabelled
    from tfdistill.run import inputs, prepare
    from tfdistill.tasks import answer_cells

    folder = (config.run_folder(args.model) or pathlib.Path(args.model)) / "data"
    model = inputs.open_answerer(str(benchmarks.export_folder(pathlib.Path(args.model))))
    whole = settings.model_copy(update={"train_limit": None, "dev_limit": None})
    used = prepare.texts_used(whole, folder)
    task = used[0].spec
    if (path := settings.promise_on) is not None:
        used.append(tasks.load_examples(task, path, "promise", labelled=False))
        for beside in model_answers.abstained_files(path):
            used.append(unlabelled.read_unlabelled(task, [beside]).examples)
    result: dict[str, Any] = {}
    lines = []
    for path in args.answers:
        texts = tasks.load_examples(task, path, "answers", labelled=False)
        texts = texts.select(unlabelled.rows_apart(texts, used))
        answers = model_answers.read_model_answers(settings, texts, path)
        assert answers is not None
        answered_rows = np.flatnonzero(answers.classes != answer_cells.UNANSWERED)
        if not len(answered_rows):
            raise errors.DataError(f"--answers {path}", "answers to texts new to the run", "none")
        encoded, tested = model.encode(texts.select(answered_rows), settings), []
        if isinstance(model, inputs.ExportedSource):
            tested = model.agreements_again(answers.classes[answered_rows], encoded, task)
        if not tested:
            remedy = "Export with --promise-on FILE: held-out texts with a model's answers."
            raise errors.ConfigError("--answers", "a file with agreements", args.model, remedy)
        result[path] = {"num_texts": len(answered_rows), "agreements": tested}
        lines += filter(None, [answers.note])
        lines += [f"{path}: {_kept(row, len(answered_rows))}" for row in tested]
    base.show(result, as_json=args.json, lines=lines)


def _kept(row: Mapping[str, Any], number: int) -> str:
    low, high = row["interval"]
    return (
        f"{row['verdict']}: at most {row['max_disagreement']:.0%} of all requests sure and unlike "
        f"the model's answer: {row['disagreement']:.1%} [{low:.1%}, {high:.1%}] of {number} new "
        f"texts; sure of {row['coverage']:.1%}, promised {row['promised_coverage']:.1%}"
    )


def _calibrated(calibration: Mapping[str, Any]) -> str:
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
        name="answers",
        summary="write a teacher's answers to a task's texts",
        description="Writes a row for each different text: the text columns of the task, and a "
        "logit for each label, by name; of words lists of logits, of --kind embedding a vector for "
        "each text (both .jsonl, .parquet). "
        "`distill --answers` reads such files, also those of other programs. Texts are answered in "
        "blocks; the same command continues one that was stopped. The file may be an address of "
        "s3://, gs:// or hdfs:// (needs tfdistill[remote]).",
        addresses=("out",),
        arguments=_answers_arguments,
        execute=_answers,
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
            "evaluate runs/router --answers fresh.jsonl --answer-column answer",
            "evaluate ./bert-sst2 --task sst2 --data-dir glue/SST-2 --predictions-for glue",
        ),
    ),
)
