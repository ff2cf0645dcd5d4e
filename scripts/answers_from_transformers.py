#!/usr/bin/env python3
"""Writes the answers of any Hugging Face classifier in PyTorch as a file for `distill --answers`.

With `--kind token` it answers words (CoNLL files), and with `--kind embedding` a sentence encoder
gives each text a vector.

It runs in an environment of its own and needs no tfdistill:

    python -m venv answers && answers/bin/pip install torch "transformers>=4.40"
    answers/bin/python scripts/answers_from_transformers.py ./roberta-sst2 \
        --texts glue/SST-2/train.tsv glue/SST-2/dev.tsv --text-column sentence --out roberta.jsonl

Any AutoModelForSequenceClassification will do (RoBERTa, DeBERTa, ModernBERT, XLM-R, ELECTRA ...)
with any tokenizer; for words any AutoModelForTokenClassification with a fast
tokenizer; for vectors any folder of sentence-transformers that pools by mean, [CLS] or maximum. A
line of the output has the texts and a logit for each label by name, or the number that a regression
answers, or a vector (of a pair of texts each has its own line). Words have lists, whatever the
model's pieces: a word has the logits of the piece that covers its first character; long sentences
are read in windows that overlap. Lines are written as they come: the same
command continues one that was stopped. OUT.meta.json names the model and its settings; others are
not mixed in. The two modules beside this one belong to it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import answered_texts
import sentence_vectors

Row = answered_texts.Row
Names = tuple[str, ...]
# The cells of rows -> for each row the cells of its answer.
Predict = Callable[[Sequence[Row]], list[dict[str, Any]]]
COLUMNS = {"token": ["words"]}
_LOGITS = "logits."
VECTOR = ["vector"]  # the names of what a sentence encoder answers
DEFAULT_LENGTH = 256
_UNSEEN = ("offset_mapping", "overflow_to_sample_mapping")  # what a model does not take
_BATCHES_AT_ONCE = 64  # sorted by length, so that batches hold texts of like lengths


class Piece(NamedTuple):
    """A piece of a text: its characters, and where its logits are.

    Attributes:
      begin: The first character.
      end: One past the last.
      window: The row of a batch.
      index: The token in it.
      around: The fewer of the tokens before and after it in the window.
    """

    begin: int
    end: int
    window: int
    index: int
    around: int


def read_done(path: pathlib.Path, columns: Sequence[str]) -> tuple[set[Row], set[Names]]:
    """Reads which texts an earlier, stopped call has answered; cuts off an unfinished line.

    Args:
      path: The output.
      columns: Those of the texts.

    Returns:
      The texts, and the names of their labels, none of a number, `VECTOR` of a vector.

    Raises:
      SystemExit: If the file holds something else; it stays as it is.
    """
    if not path.exists() or not path.stat().st_size:
        return set(), set()
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    try:
        rows = [json.loads(line) for line in whole.decode().split("\n") if line]
        done = {tuple(_cell(row[column]) for column in columns) for row in rows}
        named = {_names(row) for row in rows}
        if not rows:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        sys.exit(f"{path}: expected answers to {', '.join(columns)}, received another file.")
    if whole != content:
        with path.open("r+b") as file:
            file.truncate(len(whole))
    return done, named


def _names(row: dict[str, Any]) -> Names:
    if "vector" in row:
        return tuple(VECTOR)
    names = [name.removeprefix(_LOGITS) for name in row if name.startswith(_LOGITS)]
    if not names and "label" not in row:
        raise KeyError("label")
    return tuple(sorted(names))


def _cell(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def check_same(path: pathlib.Path, settings: dict[str, Any], named: set[Names]) -> None:
    """Refuses to mix answers with those that the output holds.

    Args:
      path: The output; what its lines were made with is beside it.
      settings: What the next lines are made with: model, length, names of the labels.
      named: The names of the labels in the lines that are there.

    Raises:
      SystemExit: If the lines that are there are of another model, length or other labels.
    """
    if not named:
        return
    labels = settings.get("labels")
    one_number = labels is not None and len(labels) == 1 and labels != VECTOR
    if labels is not None and named != {() if one_number else tuple(sorted(labels))}:
        sys.exit(f"{path}: expected answers with the labels {labels}, received {sorted(named)}.")
    meta = meta_file(path)
    if not meta.exists():
        return
    try:
        earlier = json.loads(meta.read_text(encoding="utf-8"))
        earlier = {name: earlier[name] for name in settings}
    except (ValueError, KeyError, TypeError, RecursionError):
        sys.exit(f"{meta}: expected what {path.name} was made with, received another file.")
    if earlier != settings:
        sys.exit(
            f"{path}: expected answers of {json.dumps(settings)}, received those of "
            f"{json.dumps(earlier)}. Choose another --out, or delete it."
        )


def meta_file(path: pathlib.Path) -> pathlib.Path:
    """Where it is noted what an output was made with."""
    return path.with_name(path.name + ".meta.json")


def write_meta(path: pathlib.Path, settings: dict[str, Any]) -> None:
    """Notes what an output is made with; the file is whole or unchanged."""
    temporary = path.with_name(path.name + ".meta.tmp")
    temporary.write_text(json.dumps(settings) + "\n", encoding="utf-8")
    temporary.replace(meta_file(path))


def load_predict(args: argparse.Namespace) -> tuple[Predict, list[str]]:
    """Loads model and tokenizer, see the module; and the names of its labels.

    Raises:
      SystemExit: If words are asked of a model without a fast tokenizer.
    """
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    kind = {
        "text": "AutoModelForSequenceClassification",
        "token": "AutoModelForTokenClassification",
    }[args.kind]
    model = getattr(transformers, kind).from_pretrained(args.model).to(device).eval()
    names = [model.config.id2label[index] for index in range(model.config.num_labels)]
    if args.kind != "text" and not tokenizer.is_fast:
        sys.exit(f"{args.model}: expected a fast tokenizer, which knows its characters.")

    columns = [_LOGITS + name for name in names]

    def run(*texts: list[str], **options: Any) -> tuple[Any, Any]:
        inputs = tokenizer(
            *texts, max_length=args.max_length, padding=True, return_tensors="pt", **options
        ).to(device)
        with torch.inference_mode():
            return inputs, model(**{name: inputs[name] for name in inputs if name not in _UNSEEN})

    def numbers(tensor: Any) -> Any:
        return tensor.float().cpu().tolist()

    def of_texts(rows: Sequence[Row]) -> list[dict[str, Any]]:
        texts = [list(column) for column in zip(*rows, strict=True)]
        logits = numbers(run(*texts, truncation=True)[1].logits)
        if len(names) == 1:
            return [{"label": row[0]} for row in logits]
        return [dict(zip(columns, row, strict=True)) for row in logits]

    def windows(texts: list[str]) -> tuple[Any, list[list[Piece]]]:
        """The pieces of each text, each in the window that shows most around it."""
        inputs, outputs = run(
            texts,
            truncation="longest_first",
            stride=args.max_length // 4,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        pieces: list[dict[tuple[int, int, int], Piece]] = [{} for _ in texts]
        ranges = inputs["offset_mapping"].tolist()
        for window, text in enumerate(inputs["overflow_to_sample_mapping"].tolist()):
            tokens = [i for i, of in enumerate(inputs.sequence_ids(window)) if of == 0]
            seen: dict[tuple[int, int], int] = {}
            for place, index in enumerate(tokens):
                begin, end = ranges[window][index]
                # Several pieces may be of one character.
                seen[begin, end] = count = seen.get((begin, end), -1) + 1
                around = min(place, len(tokens) - 1 - place)
                piece = Piece(begin, end, window, index, around)
                old = pieces[text].get((begin, end, count))
                if end > begin and (old is None or around > old.around):
                    pieces[text][begin, end, count] = piece
        return outputs, [[part[key] for key in sorted(part)] for part in pieces]

    def of_words(rows: Sequence[Row]) -> list[dict[str, Any]]:
        texts = [" ".join(words) for (words,) in rows]
        outputs, pieces = windows(texts)
        logits = numbers(outputs.logits)
        answers = []
        for (words,), of_text in zip(rows, pieces, strict=True):
            if not of_text:
                sys.exit(f"{words}: expected words that the tokenizer knows, received none.")
            begin, chosen = 0, []
            for word in words:
                # A word without a piece, such as a control character, has that of the next one.
                after = (p for p in of_text if p.end > begin)
                piece = next(after, of_text[-1])
                chosen.append(logits[piece.window][piece.index])
                begin += len(word) + 1
            by_label = zip(columns, zip(*chosen, strict=True), strict=True)
            answers.append({name: list(row) for name, row in by_label})
        return answers

    return {"text": of_texts, "token": of_words}[args.kind], names


def answer(
    rows: Sequence[Row],
    columns: Sequence[str],
    predict: Predict,
    path: pathlib.Path,
    batch_size: int,
) -> None:
    """Appends a line for each row, in stretches that are sorted by length.

    Raises:
      SystemExit: If an answer is not finite.
    """
    stretch = batch_size * _BATCHES_AT_ONCE
    with path.open("a", encoding="utf-8") as file:
        for start in range(0, len(rows), stretch):
            part = sorted(rows[start : start + stretch], key=_length)
            for first in range(0, len(part), batch_size):
                batch = part[first : first + batch_size]
                for row, logits in zip(batch, predict(batch), strict=True):
                    if not all(map(math.isfinite, _numbers(logits))):
                        sys.exit(f"{row[0]!r}: expected finite logits, received {logits}.")
                    line = {**dict(zip(columns, row, strict=True)), **logits}
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
                file.flush()
            print(f"{min(start + stretch, len(rows))} of {len(rows)} texts", file=sys.stderr)


def _length(row: Row) -> int:
    return sum(len(cell) if isinstance(cell, str) else sum(map(len, cell)) for cell in row)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _numbers(inner)
    else:
        yield value


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("model", help="a folder or hub id")
    options.add_argument("--kind", choices=("text", "token", "embedding"), default="text")
    options.add_argument("--texts", nargs="+", required=True, type=pathlib.Path, metavar="FILE")
    options.add_argument("--text-column", default="text", metavar="NAME")
    options.add_argument("--pair-column", metavar="NAME")
    options.add_argument("--out", required=True, type=pathlib.Path, metavar="FILE.jsonl")
    options.add_argument("--batch-size", type=int, default=32, metavar="N")
    options.add_argument(
        "--max-length",
        type=int,
        metavar="TOKENS",
        help="(default: that of a sentence encoder, otherwise 256)",
    )
    options.add_argument(
        "--prompt",
        metavar="TEXT",
        help="in front of each text that a sentence encoder reads (default: what its folder names)",
    )
    options.add_argument("--device", help="of PyTorch (default: cuda if there is one)")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Answers every different text that has no answer yet."""
    args = parser().parse_args(arguments)
    if args.out.suffix != ".jsonl":
        sys.exit(f"--out {args.out}: expected a .jsonl file.")
    if args.prompt is not None and args.kind != "embedding":
        sys.exit(f"--prompt: expected --kind embedding, received --kind {args.kind}.")
    columns = [args.text_column, *([args.pair_column] if args.pair_column else [])]
    columns = COLUMNS.get(args.kind, columns)
    readers: dict[str, Callable[[pathlib.Path], Iterator[Row]]] = {
        "text": lambda path: answered_texts.read_rows(path, columns),
        "token": answered_texts.read_sentences,
        "embedding": lambda path: answered_texts.read_texts(path, columns),
    }
    rows = dict.fromkeys(row for path in args.texts for row in readers[args.kind](path))
    settings: dict[str, Any] = {"model": args.model}
    modules = None
    if args.kind == "embedding":
        modules = sentence_vectors.read_modules(
            sentence_vectors.find_folder(args.model), args.prompt
        )
        args.max_length = min(args.max_length or modules.max_length, modules.max_length)
        settings |= {"prompt": modules.prompt, "labels": VECTOR}
        columns = columns[:1]
    settings["max_length"] = args.max_length = args.max_length or DEFAULT_LENGTH
    done, named = read_done(args.out, columns)
    check_same(args.out, settings, named)
    left = [row for row in rows if row not in done]
    print(f"{len(rows)} different texts, {len(rows) - len(left)} answered before", file=sys.stderr)
    if left:
        if modules is None:
            predict, settings["labels"] = load_predict(args)
        else:
            predict = sentence_vectors.load_predict(modules, args.device, args.max_length)
        check_same(args.out, settings, named)
        write_meta(args.out, settings)
        answer(left, columns, predict, args.out, args.batch_size)


if __name__ == "__main__":
    main()
