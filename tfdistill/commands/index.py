"""index: texts with their vectors, for search on a phone; and a search in one."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import shlex
from typing import TYPE_CHECKING, Any

from tfdistill import errors
from tfdistill.commands import base, options, plan
from tfdistill.io import locks, work_folder
from tfdistill.results import quantities

if TYPE_CHECKING:
    from tfdistill.data.text_index import IndexManifest

_TOP = 5
_SHOWN = 100  # characters of a text


def _arguments(parser: argparse.ArgumentParser) -> None:
    texts = {
        "source": "texts: a table (.csv, .tsv, .jsonl), or plain text, one a line; with --query "
        "the folder of an index",
        "--model MODEL": "a run of --kind embedding with its export, or an export or bundle (with "
        "--query default: the folder of the index)",
    }
    options.add_plain(parser, texts)
    texts = {
        "--text-column NAME": "column of the texts (default: text)",
        "--answer-column NAME": "column of their answers",
        "--dim N": "keep only the first N features (default: all)",
    }
    group = parser.add_argument_group("making an index")
    options.add_plain(group, texts)
    options.add_output(
        group,
        what="folder to write, or a folder of Android assets with a bundle of this model "
        "(default: the folder `search` in the export)",
        required=False,
        overwrite="replace an earlier index",
    )
    texts = {
        "--query TEXT": "show the nearest texts to this one",
        "--evaluate FILE": "labelled texts, in a table as for an index: print the share with a "
        "sure label, and the error rate among these",
        "--top N": f"number of texts shown (default: {_TOP})",
    }
    options.add_plain(parser.add_argument_group("searching one"), texts)
    options.add_json(parser)


def _execute(args: argparse.Namespace) -> None:
    plan.existing(args.source, "source")
    if args.model is not None:
        plan.no_file_of_others(args.model, "--model", exported=True)
        plan.existing(args.model, "--model")
    if args.evaluate is not None:
        _evaluate(args)
    elif args.query is not None:
        _search(args)
    elif args.model is None:
        raise errors.ConfigError("--model", "the model that gives the vectors", "none")
    else:
        _build(args)


def _build(args: argparse.Namespace) -> None:
    if args.top is not None:
        raise errors.ConfigError("--top", "--query too", "none")
    from export.targets import android_bundle
    from tfdistill.data import index_rows

    if args.out is not None:
        assets = pathlib.Path(args.out) / android_bundle.FOLDER / android_bundle.INDEX
        if not assets.is_file():
            work_folder.WorkFolder(pathlib.Path(args.out), "index").check(overwrite=args.overwrite)
    if pathlib.Path(args.source).is_dir():
        raise errors.ConfigError(
            "source", "a file of texts", "a folder", "To search an index, name a --query."
        )
    rows = index_rows.read_rows(args.source, args.text_column, args.answer_column)
    from tfdistill.run import indexing

    encoder = indexing.open_encoder(args.model)
    target = indexing.target_of(encoder, args.out)
    locked = args.out is not None and pathlib.Path(args.out) == target  # by the command line
    with contextlib.nullcontext() if locked else locks.output_lock(target):
        card, notes = indexing.build(
            rows, encoder, target, width=args.dim, overwrite=args.overwrite
        )
    result = {**card.model_dump(mode="json"), "folder": str(target), "notes": list(notes)}
    lines = _built(card, target, args.model)
    base.show(result, as_json=args.json, lines=[lines[0], *notes, *lines[1:]])


def _built(card: IndexManifest, folder: pathlib.Path, model: str) -> list[str]:
    lines = [
        f"{folder}: {card.count:,} texts, {card.width} of {card.model_width} features, "
        f"{quantities.size(card.vectors.size_bytes)} of vectors",
    ]
    if card.checks is not None:
        lines.append(
            f"checked on {card.checks.num_queries:,} texts: "
            f"{card.checks.recall_at_10:.1%} of the ten nearest as by float vectors, mean error of "
            f"a cosine {card.checks.mean_cosine_error:.1e}"
        )
    for what, spread in (
        ("two different texts", card.scores.others),
        ("a text and the nearest other one", card.scores.nearest_other),
        ("a text and the nearest with the same answer", card.scores.nearest_same),
    ):
        if spread is not None:
            lines.append(
                f"score of {what}: 5% below {spread.p05:.2f}, median {spread.p50:.2f}, "
                f"95% below {spread.p95:.2f}"
            )
    if card.threshold is not None:
        lines.append(
            f"threshold: {card.threshold:.2f}; 95% of unrelated questions score less with all of "
            f"{card.count:,} texts"
        )
    if card.routes is not None:
        routed = _routed(card.routes.coverage, card.routes.error, card.routes.accuracy)
        lines.append(f"labels: {routed} of the rows, each left out once")
    names = " --model ".join(shlex.quote(str(path)) for path in (folder, model))
    lines.append(f'next: tfdistill index {names} --query "..."')
    return lines


def _routed(coverage: float, error: float | None, accuracy: float) -> str:
    wrong = "" if error is None else f", {error:.1%} of them wrong,"
    return f"sure of {coverage:.1%}{wrong} and right in {accuracy:.1%}"


def _evaluate(args: argparse.Namespace) -> None:
    _check_alone(args, "--evaluate", "query", "top", "dim", "out")
    plan.existing(args.evaluate, "--evaluate")
    from tfdistill.data import index_rows
    from tfdistill.run import indexing

    rows = index_rows.read_rows(args.evaluate, args.text_column, args.answer_column)
    figures = indexing.evaluate(args.source, rows, source=args.model)
    routed = _routed(figures["coverage"], figures["error"], figures["accuracy"])
    lines = [f"{figures['num_texts']:,} texts: {routed} of all", *rows.notes]
    base.show({**figures, "notes": list(rows.notes)}, as_json=args.json, lines=lines)


def _check_alone(args: argparse.Namespace, option: str, *refused: str) -> None:
    named = [options.flag_of(name) for name in refused if getattr(args, name) is not None]
    if named or args.overwrite:
        raise errors.ConfigError(", ".join(named) or "--overwrite", f"no {option} beside it", "one")


def _search(args: argparse.Namespace) -> None:
    _check_alone(args, "--query", "text_column", "answer_column", "dim", "out")
    count = _TOP if args.top is None else args.top
    if count < 1:
        raise errors.ConfigError("--top", "at least 1", count)
    from tfdistill.run import indexing

    card, matches, routed = indexing.search(args.source, args.query, source=args.model, count=count)
    answered = card.threshold is None or matches[0].score >= card.threshold
    lines = [] if answered else [f"No answer: nothing scores {card.threshold:.2f}. The nearest:"]
    if routed is not None:
        sure = "sure" if routed.sure else "not sure"
        shown = errors.shortened(routed.label, _SHOWN)
        lines.append(
            f"label: {shown}, {sure} (score {routed.score:.4f}, margin {routed.margin:.4f})"
        )
    for match in matches:
        answer = "" if match.answer is None else f" -> {errors.shortened(match.answer, _SHOWN)}"
        lines.append(f"{match.score:.4f}  {errors.shortened(match.text, _SHOWN)}{answer}")
    result: dict[str, Any] = {
        "answered": answered,
        "threshold": card.threshold,
        "matches": [match._asdict() for match in matches],
        "route": None if routed is None else routed._asdict(),
    }
    base.show(result, as_json=args.json, lines=lines)


COMMANDS = (
    base.Command(
        name="index",
        summary="index texts for search on a phone, or search such an index",
        description="Runs the exported sentence encoder on every text, keeps its vectors as int8, "
        "and checks that they have the same neighbours. The app, and --query, find the nearest "
        "texts of a question by an exact search.",
        arguments=_arguments,
        execute=_execute,
        usual=(
            "--model --text-column --answer-column --dim --out --overwrite --query --evaluate "
            "--top --json"
        ),
        examples=(
            "index questions.csv --model runs/near --text-column question --answer-column answer",
            'index runs/near/export/search --query "how do I reset my password"',
        ),
    ),
)
