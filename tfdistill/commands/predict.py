"""predict: the exported file answers texts."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tfdistill import config, errors, manifest
from tfdistill.commands import base, benchmarks, options, plan
from tfdistill.tasks import kind_named, tables

if TYPE_CHECKING:
    from tfdistill.predictor import Prediction

_SHOWN = 100  # characters of a text
_TEACHER = "teacher"
_TABLES = (".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".tsv", ".xlsx")


def _arguments(parser: argparse.ArgumentParser) -> None:
    options.add_plain(parser, {"run RUN": "a run folder, or an export folder or a file in it"})
    text = "a text; for a pair both texts, separated by a tab"
    options.add_plain(parser, {"text TEXT": text}, nargs="*")
    text = "a table with the columns of the task, or texts, one a line, for pairs separated by a "
    text += "tab (default without TEXT: the standard input)"
    options.add_plain(parser, {"--file FILE": text})
    for field, which in (("text_column", "first"), ("pair_column", "second")):
        text = f"column of the {which} text in the table (default: that of the task's files)"
        options.add_field(parser, config.DataConfig, field, None, metavar="NAME", help=text)
    text = "maximum error rate of answers that are marked sure: 0.01, 0.02, 0.05 or 0.1 "
    text += "(default: 0.05)"
    options.add_plain(parser, {"--max-error SHARE": text})
    text = "in its place: an answer is sure if the file promises that at most this share of all "
    text += "requests gets a sure answer unlike the large model's: 0.01, 0.02, 0.05 or 0.1"
    options.add_plain(parser, {"--max-disagreement SHARE": text})
    options.add_plain(parser, {"--patterns": options.PATTERNS})
    text = "also show the answers of the teacher's file in the run"
    options.add_plain(parser, {"--against": text}, choices=(_TEACHER,))
    options.add_json(parser)


def _predict(args: argparse.Namespace) -> None:
    plan.no_file_of_others(args.run, "RUN", exported=True)
    plan.existing(args.run, "RUN", hub=False)
    folder = benchmarks.export_folder(pathlib.Path(args.run))
    card = folder / manifest.FILE_NAME if folder.is_dir() else manifest.manifest_path(folder)
    if not card.is_file():
        raise errors.ConfigError(
            "RUN", "a run, or an export with its model.json", f"{args.run!r}",
            "If it is a run, continue it with --resume; `tfdistill export MODEL` writes a file of "
            "a model or a run.",
        )  # fmt: skip
    if args.file is not None and args.text:
        raise errors.ConfigError("--file", "no TEXT beside it", args.file)
    is_table = pathlib.Path(args.file or "").suffix.lower() in _TABLES
    if (args.text_column or args.pair_column) and not is_table:
        raise errors.ConfigError("--text-column", "a table in --file", args.file or "none")
    from tfdistill.predictor import Predictor

    level = {name: getattr(args, name) for name in ("max_error", "max_disagreement")}
    with contextlib.ExitStack() as stack:
        predictor = stack.enter_context(Predictor(folder, **level))
        predictor.patterns = args.patterns
        teacher = None
        if args.against == _TEACHER:
            file = _teacher(pathlib.Path(args.run))
            teacher = stack.enter_context(Predictor(file, **level))
            teacher.patterns = args.patterns
        if not args.json:
            promise = "not known, because the file promises nothing (export with --promise-on FILE)"
            promise = promise if predictor.promise is None else predictor.promise.summary
            print(f"sure: {promise}", file=sys.stderr)
            record = predictor.card.confidence
            if record is not None and record.recall is not None:
                print(f"mask: {record.recall.summary}", file=sys.stderr)
        assert predictor.card.task is not None  # or it would answer no texts
        rows = (_of_table if is_table else _of_lines)(args, predictor.card.task)
        for row in rows:
            answers = {"": predictor.predict(*row)}
            if teacher is not None:
                answers[_TEACHER] = teacher.predict(*row)
            print(_as_json(answers) if args.json else _as_line(answers), flush=True)
            if not base.is_read():
                return  # as the rest of an endless input would not be


def _teacher(run: pathlib.Path) -> pathlib.Path:
    folder = run / _TEACHER / "export"
    if not (folder / "model.json").is_file():
        raise errors.ConfigError(
            "--against teacher", f"the teacher's file in {folder}", "none",
            "A run exports its teacher unless teacher.export is false.",
        )  # fmt: skip
    return folder


def _of_table(args: argparse.Namespace, task: manifest.TaskRecord) -> Iterator[Sequence[str]]:
    usual = "text" if kind_named(task.kind).over_tokens else None
    named = (args.text_column or task.text_column or usual, args.pair_column or task.pair_column)
    columns = [name for name in named[: 1 + task.pair] if name]
    if len(columns) < 1 + task.pair or (args.pair_column and not task.pair):
        remedy = "Name them with --text-column" + (
            " and --pair-column." if task.pair else " alone."
        )
        raise errors.ConfigError("--file", "columns of the task's texts", columns or "none", remedy)
    table = tables.read_table(pathlib.Path(args.file), columns)
    yield from zip(*map(table.columns.__getitem__, columns), strict=True)


def _of_lines(args: argparse.Namespace, task: manifest.TaskRecord) -> Iterator[Sequence[str]]:
    for text in args.text:
        if task.pair:
            tables.check_line("TEXT", text, tabs=1)
        yield text.split("\t") if task.pair else [text]
    if args.text:
        return
    columns = list(filter(None, (task.text_column, task.pair_column)))
    with contextlib.ExitStack() as stack:
        lines, source = sys.stdin, args.file or "standard input"
        if args.file is not None:
            lines = stack.enter_context(open(args.file, encoding="utf-8-sig"))
        blank = 0
        try:
            # The standard input keeps a lone "\r", which ends a line of a file.
            split = (text for line in lines for text in line.rstrip("\r\n").split("\r"))
            for number, text in enumerate(split, start=1):
                if text.strip():
                    first = number == blank + 1  # its columns may be named on top
                    where = f"{source}, line {number}"
                    tables.check_line(where, text, columns if first else (), tabs=int(task.pair))
                    yield text.split("\t")
                else:
                    blank += 1
        except UnicodeDecodeError as error:
            remedy = "Convert it, for example with `iconv -f windows-1252 -t utf-8`."
            raise errors.DataError(source, "text in UTF-8", error, remedy) from error
        if blank:
            print(f"{blank} blank line(s) were left out", file=sys.stderr)


def _as_json(answers: dict[str, Prediction]) -> str:
    student = answers[""]
    values: dict[str, Any] = {"text": student.text}
    if student.pair is not None:
        values["pair"] = student.pair
    if student.words and student.entities is None:
        values["words"] = student.words
    of_tags = "label" if student.entities is None else "entities"
    names = (of_tags, "probability", "sure", "reason", "milliseconds")
    for name, answer in answers.items():
        fields = dataclasses.asdict(answer)
        chosen = {key: fields[key] for key in names}
        values |= {name: chosen} if name else chosen
    return base.json_text(values)


def _as_line(answers: dict[str, Prediction]) -> str:
    student = answers[""]
    text = student.text if student.pair is None else f"{student.text} | {student.pair}"
    shown = base.plain(errors.shortened(text, _SHOWN))
    parts = [
        (f"{name}: " if name else "") + "  ".join(_fields(answer))
        for name, answer in answers.items()
    ]
    return "  ".join(parts if student.entities is not None else [*parts, shown])


def _marked(answer: Prediction) -> str:
    """The text with its entities: "[Anna|PER 0.98] left."."""
    parts, end = [], 0
    for entity in answer.entities or ():
        label = f"|{entity.label} {entity.probability:.2f}{' sure' if entity.sure else ''}]"
        parts += [answer.text[end : entity.start], "[", entity.text, label]
        end = entity.end
    return "".join([*parts, answer.text[end:]])


def _fields(answer: Prediction) -> Iterator[str]:
    label = answer.label
    if answer.entities is not None:
        label = _marked(answer)
    elif isinstance(label, tuple) and answer.words:
        label = " ".join(f"{word}/{tag}" for word, tag in zip(answer.words, label, strict=True))
    elif isinstance(label, tuple):
        label = ", ".join(label) or "none"
    yield base.plain(label) if isinstance(label, str) else f"{label:.4f}"
    if answer.probability is not None:
        yield f"{answer.probability:.4f}"
    if answer.sure is not None:
        yield "sure" if answer.sure else "not sure"
    if answer.reason is not None:
        yield f"({answer.reason})"
    yield f"{answer.milliseconds:.1f} ms"


COMMANDS = (
    base.Command(
        name="predict",
        summary="let the exported file answer texts",
        description="Answers texts with the exported file: label, probability, whether it is sure, "
        "milliseconds. It imports no TensorFlow.",
        arguments=_arguments,
        execute=_predict,
        examples=(
            'predict runs/sst2 "A film to remember." "Two hours of nothing."',
            "predict runs/sst2/export --file reviews.txt --max-error 0.1 --json",
        ),
    ),
)
