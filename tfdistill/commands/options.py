"""Options that several commands share; those that mirror a section of a recipe come from it."""

from __future__ import annotations

import argparse
import pathlib
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

import pydantic

from tfdistill import config, errors

SEED = 1  # of everything that is drawn at random
_METAVARS = {
    **{"dir": "DIR", "vectors": "FILE", "masked_lm": "MODEL", "vocab": "FILE"},
    **{"promise_on": "FILE", "other": "FILE", "languages_of": "FILE"},
    **{"max_length": "TOKENS", "doc_stride": "TOKENS", "min_seconds": "S"},
    **{"steps": "BATCHES"},
    **{"text_column": "NAME", "pair_column": "NAME", "label_column": "NAME", "task": "NAME"},
}
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("N", "TOKENS"), int),
    **dict.fromkeys(("MB", "MIN", "MS", "S", "SHARE", "X"), float),
}
PLACES: dict[type[pydantic.BaseModel], str] = {
    config.Recipe: "",
    config.DataConfig: "data",
    config.AugmentConfig: "data.augment",
    config.CutConfig: "data.cut",
    config.ModelAnswersConfig: "data.model_answers",
    config.TeacherConfig: "teacher",
    config.PretrainConfig: "teacher.pretrain",
    config.TeacherPretrainConfig: "teacher.pretrain",
    config.AnswersConfig: "teacher.answers",
    config.StudentConfig: "student",
    config.FineTuneConfig: "stages.*",
    config.Stage: "stages.*",
    config.CompressConfig: "stages.*.compress",
    config.ExportConfig: "export",
    config.BenchmarkConfig: "benchmark",
}
"""Section -> where it is in the recipe that a command makes."""
_FLAGS = {"dir": "--data-dir", "dev_limit": "--limit"}  # where it is not the field's name
PATTERNS = (
    "also find e-mail addresses, IBANs and payment cards by their form and checksum, where tags "
    "name entities"
)
_LAST_SEED = 2**32 - 1  # of NumPy and of recipes
_TASK_FIELDS = ("text_column", "pair_column", "label_column", "label_separator", "kind", "offsets")


def flag_of(field: str) -> str:
    """The option that sets a field of a section."""
    return _FLAGS.get(field, f"--{field.replace('_', '-')}")


def add_field(
    group: argparse._ActionsContainer,
    section: type[pydantic.BaseModel],
    field: str,
    default: Any = ...,
    flag: str | None = None,
    place: str | None = None,
    **options: Any,
) -> argparse.Action:
    """Adds the option that sets a field of a section: its name, type, default and help.

    `default`, `flag` and what `add_argument` takes replace what follows from the field. `place` is
    where the section is in a recipe, if not that of `PLACES`; ``*`` is the name of any stage.
    """
    info = section.model_fields[field]
    if default is ...:
        default = None if info.is_required() else info.default
    kind = _plain_type(info.annotation)
    text = info.description
    if kind is bool:
        chosen: dict[str, Any] = {"action": "store_true"}
    elif get_origin(kind) is Literal:
        chosen = {"choices": get_args(kind), "default": default}
    elif info.examples:
        chosen = {"choices": tuple(info.examples), "default": default}
    elif get_origin(kind) is tuple and _plain_type(get_args(kind)[0]) is str:
        chosen = {"nargs": "+", "metavar": "FILE", "default": default}
    elif get_origin(kind) is tuple:
        chosen = {"type": numbers, "metavar": "N,N,...", "default": default}
    else:
        metavar = "N" if kind is int else "X" if kind is float else "TEXT"
        chosen = {"metavar": _METAVARS.get(field, metavar), "default": default}
        chosen |= {} if kind is str else {"type": _seed if field == "seed" else kind}
    if kind is not bool and default is not None:
        text = f"{text} (default: {_listed(default)})"
    name = flag or flag_of(field)
    chosen |= {"help": text, **options}
    chosen = {option: value for option, value in chosen.items() if value is not None}
    if not name.startswith("-") or ("choices" in options and "metavar" not in options):
        chosen.pop("metavar", None)
    action = group.add_argument(name, **chosen)
    key = f"{PLACES[section] if place is None else place}.{field}".lstrip(".")
    vars(action)["key"] = key
    group.set_defaults(keys={**(group.get_default("keys") or {}), action.dest: key})
    return action


def section_of(args: argparse.Namespace, place: str) -> dict[str, Any]:
    """The fields of the section in a place of the recipe, as far as options set them."""
    placed = ((dest, *key.rpartition(".")) for dest, key in args.keys.items())
    values = {field: getattr(args, dest) for dest, where, _, field in placed if where == place}
    return {field: value for field, value in values.items() if value is not None}


def add_teacher_or_answers(parser: argparse.ArgumentParser, teacher: str, answers: str) -> None:
    """Adds --teacher and --answers, of which one is required, with help texts of the command."""
    group = parser.add_mutually_exclusive_group(required=True)
    add_teacher(group, teacher)
    text = f"instead of a model, {answers}"
    add_field(group, config.AnswersConfig, "files", flag="--answers", help=text)


def add_teacher(group: argparse._ActionsContainer, text: str) -> None:
    """Adds --teacher with a help text of the command's own."""
    options = {"metavar": "MODEL", "help": text}
    add_field(group, config.TeacherConfig, "source", None, flag="--teacher", **options)


def _plain_type(annotation: Any) -> Any:
    """The type of a value that is given: without ``None`` and without what validates it."""
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        annotation = parts[0] if len(parts) == 1 else str
    if hasattr(annotation, "__metadata__"):
        annotation = get_args(annotation)[0]
    return annotation


def _listed(value: Any) -> str:
    """Writes a value as an option takes it: "32,64,128"."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def add_plain(group: argparse._ActionsContainer, texts: Mapping[str, str], **more: Any) -> None:
    """Adds arguments, ``--name UNIT`` -> help, of the unit's type; with a name alone flags.

    `more` is what `add_argument` takes besides.
    """
    for spelled, text in texts.items():
        name, _, unit = spelled.partition(" ")
        kind: dict[str, Any] = {"metavar": unit, "type": _TYPES.get(unit)} if unit else {}
        if name.startswith("-") and not unit and not more:
            kind = {"action": "store_true"}
        group.add_argument(name, help=text, **kind, **more)


def add_json(parser: argparse._ActionsContainer) -> None:
    """Adds --json."""
    add_plain(parser, {"--json": "write the result as JSON to stdout"})


def add_output(
    parser: argparse._ActionsContainer,
    default: str | None = None,
    *,
    what: str = "folder to write",
    metavar: str = "DIR",
    required: bool = True,
    resume: bool = False,
    overwrite: str = "replace an earlier result",
    kind: str = "",
) -> None:
    """Adds --out, --overwrite and, where a stopped command can be continued, --resume.

    Before the command runs, the command line refuses an output that it may not write: a folder of
    this `kind` (see `work_folder`), or a "file"; "" where the command itself checks.
    """
    shown = f"{what} (default: {default})" if default else what
    parser.add_argument(
        "--out", metavar=metavar, default=default, required=required and not default, help=shown
    )
    again = parser.add_mutually_exclusive_group()
    flags = {"--resume": "continue an earlier run"} if resume else {}
    add_plain(again, {**flags, "--overwrite": overwrite})
    parser.set_defaults(output_kind=kind)


def add_set(parser: argparse._ActionsContainer, of: str, example: str) -> None:
    """Adds --set."""
    text = f"change a value of {of}, such as {example}; may be repeated"
    add_plain(parser, {"--set KEY=VALUE": text}, action="append", default=[])


def add_allow_weak(parser: argparse._ActionsContainer, what: str) -> None:
    """Adds --allow-weak."""
    add_field(parser, config.StudentConfig, "allow_weak", help=f"accept {what}")


def add_dry_run(parser: argparse._ActionsContainer) -> None:
    """Adds --dry-run."""
    add_plain(parser, {"--dry-run": "check everything, print the plan, write nothing"})


def add_seed(
    parser: argparse._ActionsContainer, of: str = "everything random", default: int | None = SEED
) -> None:
    """Adds --seed; with None for `default` a command sees whether it was given."""
    options = {"type": _seed, "metavar": "N"}
    text = f"seed of {of} (default: {SEED})"
    add_field(parser, config.Recipe, "seeds", default, flag="--seed", help=text, **options)


def _seed(text: str) -> int:
    if text.isdecimal() and int(text) <= _LAST_SEED:
        return int(text)
    expected = f"expected a whole number from 0 to {_LAST_SEED}"
    raise argparse.ArgumentTypeError(f"{expected}, received {text!r}")


def add_gpus(parser: argparse._ActionsContainer) -> None:
    """Adds --gpus."""
    text = "GPUs that share each batch: auto (all that are visible) or how many (default: auto)"
    parser.add_argument("--gpus", type=_gpus, metavar="N", help=text)


def _gpus(text: str) -> int | None:
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected auto or a number, received {text!r}") from None


def add_training(
    group: argparse._ActionsContainer, epochs: int, rate: float | None, place: str = "stages.*"
) -> None:
    """Adds the options of a fit: epochs, batch size, rate and seed; `rate` None: the stage's."""
    add_field(group, config.FineTuneConfig, "epochs", epochs, place=place)
    add_field(group, config.FineTuneConfig, "batch_size", place=place)
    more = {} if rate is not None else {"help": "peak learning rate (default: the stage's own)"}
    add_field(group, config.FineTuneConfig, "learning_rate", rate, place=place, **more)
    add_field(group, config.FineTuneConfig, "precision", place=place)
    add_seed(group)
    add_set(group, "the recipe that these options make", "teacher.allow_weak=true")


def add_data(
    parser: argparse.ArgumentParser,
    *,
    required: bool = True,
    of_run: str | None = None,
    one_file: bool = False,
    cuts: bool = False,
) -> None:
    """Adds the options that name a task and its files.

    `of_run` is the option that may name a run, whose data section is then the default; with
    `one_file` a labelled file may be named instead of a task. `cuts` is for what makes answers that
    no model file says yet how to read the texts of.
    """
    group = parser.add_argument_group(
        "data" + (f" (default: that of the run {of_run})" if of_run else "")
    )
    if one_file:
        add_field(group, config.DataConfig, "file", flag="--data", metavar="FILE")
    add_task(group, required=required and not one_file and of_run is None)
    if not cuts:  # which has --set
        text = "tokens from one window of a long text to the next, for questions (default: half of "
        add_field(group, config.DataConfig, "doc_stride", None, help=f"{text}--max-length)")
    info = config.DataConfig.model_fields["max_length"]
    recorded = "" if of_run is None else f"that of the run {of_run}, else "
    text = f"{info.description} (default: {recorded}{info.default}, or the model's positions)"
    add_field(group, config.DataConfig, "max_length", None, help=text)
    if cuts:
        add_field(group, config.DataConfig, "truncation")
        add_field(group, config.DataConfig, "prompt")


def add_task(group: argparse._ActionsContainer, *, required: bool) -> None:
    """Adds the options that name a task, its folder and its columns."""
    add_field(group, config.DataConfig, "task", required=required)
    for field in ("dir", *_TASK_FIELDS):
        add_field(group, config.DataConfig, field, None)


def without_task(args: argparse.Namespace, *read: str) -> Iterator[str]:
    """Faults of options that describe data where no task is named: only the fields `read` count."""
    for field in section_of(args, "data") if args.task is None else ():
        if field not in read:
            yield errors.explain(flag_of(field), "--task too", "none")


def data_of(args: argparse.Namespace, model: str | None = None) -> dict[str, Any]:
    """The data section that options describe; where they name no task, that of the run `model`.

    See `config.usual_max_length` of `model`.
    """
    values = section_of(args, "data")
    if "file" in values:
        from tfdistill.data import labelled_file

        values.setdefault("task", labelled_file.name_of(values["file"]))
        values["split_seed"] = SEED if args.seed is None else args.seed
    elif "task" not in values:
        of_run = config.data_of_run(model)
        if of_run is None:
            has_file = "data.file" in args.keys.values()
            expected, here = "a task or a run as model", ""
            if has_file:
                expected = "a task, one labelled file (--data), or a run as model"
            if model is not None and not pathlib.Path(model).exists():
                here = f", and nothing here is called {model!r}"
            raise errors.ConfigError("--task", expected, f"none of them{here}")
        return {**of_run.model_dump(mode="json", exclude_defaults=True), **values}
    length = values.setdefault("max_length", config.usual_max_length(model))
    values.setdefault("doc_stride", max(length // 2, 1))
    return values


def data_section(values: dict[str, Any]) -> config.DataConfig:
    """Validates a data section that options describe."""
    return config.parse_section(config.DataConfig, values, source="command line", place="data")


def add_lengths(group: argparse._ActionsContainer, shown: str) -> None:
    """Adds --lengths: tokens of the files' signatures."""
    text = f"sequence lengths of the file, a signature each (default: {shown})"
    add_field(group, config.ExportConfig, "lengths", None, metavar="L,L,...", help=text)


def add_runner(parser: argparse._ActionsContainer, what: str = "do it") -> None:
    """Adds --runner, which takes the rest of the line: ``args.pipeline``, for Apache Beam."""
    parser.add_argument(
        "--runner",
        action=_Runner,
        nargs=argparse.REMAINDER,
        dest="pipeline",
        help=f"must come last: {what} as an Apache Beam pipeline; name of the runner and further "
        "options of Beam, such as DirectRunner --direct_num_workers 4 (needs tfdistill[beam])",
    )


class _Runner(argparse.Action):
    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        """Keeps ["--runner", NAME, ...]."""
        if not values or values[0].startswith("-"):
            parser.error("--runner: expected a name such as DirectRunner")
        for value in values[1:]:
            name = value.partition("=")[0]
            if name in parser._option_string_actions:
                parser.error(f"{name}: expected before --runner; what follows that is Beam's")
        namespace.pipeline = ["--runner", *values]


def numbers(text: str) -> tuple[int, ...]:
    """Parses "32,64,128"."""
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(
            f"expected positive numbers such as 32,64, received {text!r}"
        )
    return values


def names(text: str) -> tuple[str, ...]:
    """Parses "xnnpack,none"; each name once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def chosen_from(text: str, option: str, choices: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """Parses names of a list, in order."""
    for name in text.split(","):
        if name not in choices:
            listed = ", ".join(choices)
            hint = errors.nearest(name, choices)
            raise errors.ConfigError(option, f"names of {listed}", repr(name), hint)
    return text.split(",")
