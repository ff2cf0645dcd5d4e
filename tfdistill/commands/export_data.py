"""export --data: whether a model answers the labels of a file, and the student to train of both."""

from __future__ import annotations

import argparse
import pathlib
import shlex
import sys

from tfdistill import config, errors, weights
from tfdistill.commands import base, options, plan, quickstart, quickstart_budget, quickstart_recipe
from tfdistill.data import from_config
from tfdistill.data.labelled_file import LabelledFile
from tfdistill.results import quantities
from tfdistill.weights import Checkpoint


def check(args: argparse.Namespace) -> list[str]:
    """Refuses data that the model does not fit; returns what the command says of both at its end.

    Only what is read quickly: the files of the data, and headers of weights.
    """
    if args.task is None:
        if args.android is not None and config.data_of_run(args.model) is None:
            remedy = "Add --data FILE, the labelled texts of the model."
            received = "neither data nor a run"
            raise errors.ConfigError("--android", "a task with texts", received, remedy)
        return []
    if args.data is not None:
        plan.existing(args.data, "--data", hub=False)
    described = options.data_of(args, model=args.model)
    settings = plan.check_data(described, ["dev"], may_hide_labels=True)
    return [] if args.data is None else check_fit(args.model, settings)


def check_fit(model: str, settings: config.DataConfig) -> list[str]:
    """Prints what was recognised in the file; refuses labels that a model's head has not.

    Reads the model's headers alone; of a run nothing, whose models have labels of their own, and
    whose student is exported. Returns what to say of the student that quickstart would train.
    """
    data = from_config.of_file(settings)
    for note in data.notes:
        print(note, file=sys.stderr, flush=True)
    if config.saved_recipe(model) is not None:
        return []
    checkpoint = weights.open_checkpoint(config.model_folder(model), shapes_only=True)
    answers, why = quickstart_recipe.answers_task(checkpoint, data.task)
    if not answers:
        labels = errors.shortened(", ".join(data.task.labels) or "numbers", _SHOWN)
        raise errors.ConfigError(
            model,
            f"a model fine-tuned on the labels of {settings.file} ({labels})",
            why,
            "Name the file that it was fine-tuned on, or fine-tune it on this one: "
            f"`tfdistill {_quickstart(model, settings)}`.",
        )
    if settings.promise_on is None:
        print(
            f"no promise: {model} may have learnt these rows, and its figures and probabilities "
            "on them are better than on new text; --promise-on FILE takes labelled rows that it "
            "has not",
            file=sys.stderr,
            flush=True,
        )
    return _proposal(_quickstart(model, settings), checkpoint, data)


_SHOWN = 100  # characters of label names


def _proposal(command: str, checkpoint: Checkpoint, data: LabelledFile) -> list[str]:
    """The student that a command would train: its size and its time.

    No accuracy, which only training shows.
    """
    parser = base.Parser()
    quickstart.COMMANDS[0].arguments(parser)
    args = parser.parse_args(shlex.split(command)[1:])
    folder = pathlib.Path("runs")
    plan = quickstart_recipe.make_plan(args, data.task.name, checkpoint, data, folder)
    plan = quickstart_budget.within(plan, args, None)
    if plan.recipe.student.is_teacher:
        return ["a smaller file: none proposed; the model is no larger than a student"]
    size = "" if plan.size_bytes is None else f"about {quantities.size(plan.size_bytes)}, "
    return [
        f"a smaller file: {size}by {plan.recipe.student.preset}, trained in about "
        f"{plan.seconds / 60:.0f} minutes on this machine; its accuracy is measured then:",
        f"  tfdistill {command}",
    ]


def _quickstart(model: str, settings: config.DataConfig) -> str:
    """The command that trains a student of the model on the file, with the columns as named."""
    fields = ("text_column", "pair_column", "label_column", "label_separator", "kind", "offsets")
    usual = config.DataConfig.model_fields
    words = ["quickstart", "--teacher", model, "--data", str(settings.file)]
    for name in fields:
        if (value := getattr(settings, name)) != usual[name].default:
            words += [f"--{name.replace('_', '-')}", value]
    return shlex.join(words)
