"""What an export works with, a model with its head, data and lengths; how its file is written."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import logging
import pathlib
import sys
from typing import TYPE_CHECKING, Any

from tfdistill import config, errors, manifest
from tfdistill.commands import options, plan
from tfdistill.manifest.confidence import Confidence
from tfdistill.tokenization.reading import exported_tokenizer
from tfdistill.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tfdistill.data.model_answers import ModelAnswers
    from tfdistill.manifest import Manifest
    from tfdistill.run.inputs import Source
    from tfdistill.tasks import Examples, TaskSpec
    from tfdistill.tasks.encoded import EncodedExamples

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Job:
    """A model to export."""

    source: Source
    settings: config.DataConfig | None  # None where no task is known
    task: TaskSpec | None
    examples: Examples | None  # the development set
    promise_on: str | None  # the file of held-out labelled texts
    folder: pathlib.Path | None  # where a run keeps generated data; None of a file that is named
    named_lengths: tuple[int, ...] | None = None  # tokens of the signatures, where they are named
    allow_weak: bool = False  # whether the recipe of its run accepts a model near chance
    min_recall: float | None = None  # of a mask's entities

    @functools.cached_property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of the signatures: those that are named, or that fit the development set."""
        return self._lengths(self.check_set)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The label names; None where they are not known, and for a regression."""
        from tfdistill import models

        single = models.num_labels_of(self.source.model) == 1
        return None if single else self.source.labels or None

    def options(self, *, calibrate: bool) -> dict[str, Any]:
        """The options of `export.to_tflite` that follow from the model and its data."""
        promise_on, promise_answers = self._promising()
        calibrates = (calibrate or self.promise_on) and self.settings is not None
        return {
            "lengths": self.lengths,
            "check_on": self.check_set,
            "promise_on": promise_on,
            "promise_answers": promise_answers,
            "min_recall": self.min_recall,
            "calibrate_on": self.encode(self._train) if calibrates else None,
            "texts": self.examples,
            "task": self.task,
            "labels": self.labels,
            "tokenizer": self.source.tokenizer,
        }

    def encode(self, examples: Examples) -> EncodedExamples:
        """Tokenizes examples as far as the longest signature goes."""
        assert self.settings is not None
        longest = {"max_length": max(self._lengths())}
        return self.source.encode(examples, self.settings.model_copy(update=longest))

    @functools.cached_property
    def check_set(self) -> EncodedExamples | None:
        """The development set as ids, or None."""
        return None if self.examples is None else self.encode(self.examples)

    def _lengths(self, examples: EncodedExamples | None = None) -> tuple[int, ...]:
        from export.model.request import fitting_lengths

        if self.named_lengths:  # refused, not left out, where the model has no positions
            return self.named_lengths
        longest = self.source.max_length  # its tokenizer may cut before the positions end
        if self.settings is None:
            return config.usual_lengths(positions=longest)
        max_length = min(self.settings.max_length, longest)
        return fitting_lengths(self.source.model, max_length, examples)

    def read_by(self, model: Any, tokenizer: Tokenizer) -> Job:
        """The same job with a model of other words."""
        source = dataclasses.replace(self.source, model=model, tokenizer=tokenizer)
        job = dataclasses.replace(self, source=source)
        if self.settings is not None:  # the texts are the same: read once, warned of once
            vars(job).update(_train=self._train, _held_out=self._held_out)
        return job

    @functools.cached_property
    def _train(self) -> Examples:
        from tfdistill.data import from_config

        assert self.settings is not None
        limit = {"dev_limit": self.settings.train_limit}  # `labelled` takes that for any split
        settings = self.settings.model_copy(update=limit)
        return from_config.labelled(settings, "train", folder=self.folder)[1]

    def training_set(self) -> EncodedExamples:
        """The training set as ids."""
        return self.encode(self._train)

    def training_texts(self) -> list[str]:
        """The training texts, second ones included; refused where no task is known."""
        if self.settings is None:
            remedy = "Name the task of MODEL with --task."
            raise errors.ConfigError("--size-mb", "a task, whose texts it needs", "none", remedy)
        return [*self._train.texts, *(self._train.pairs or ())]

    def _promising(self) -> tuple[EncodedExamples | None, ModelAnswers | None]:
        """The held-out labelled texts as ids, and a large model's answers to them, if any."""
        rows, answers = self._held_out
        return None if rows is None else self.encode(rows), answers

    @functools.cached_property
    def _held_out(self) -> tuple[Examples | None, ModelAnswers | None]:
        from tfdistill.data import model_answers, promise_rows
        from tfdistill.run import prepare

        if self.promise_on is None:
            return None, None
        if self.task is None or self.examples is None or self.settings is None:
            remedy = "Name the task of MODEL with --task."
            raise errors.ConfigError("promise_on", "a task", "none", remedy)
        used = prepare.texts_used(self.settings, self.folder)
        rows = promise_rows.promise_examples(self.promise_on, self.task, used, self.settings)
        if rows is None:
            return None, None
        answers = model_answers.read_model_answers(self.settings, rows)
        if answers is not None and answers.note:
            _log.warning(answers.note)
        return rows, answers


def open_job(args: argparse.Namespace) -> Job:
    """Opens the model that `args.model` names, for the task that its run or the options name."""
    from tfdistill.data import from_config
    from tfdistill.run import inputs

    recipe = config.saved_recipe(args.model)
    settings = config.data_of_run(args.model)
    if args.task is not None:
        settings = options.data_section(options.data_of(args, model=args.model))
    folder = pathlib.Path(args.model) / "data" if args.data is None else None
    promise_on, min_recall = (
        getattr(args, name) or (getattr(settings, name) if settings is not None else None)
        for name in ("promise_on", "min_recall")
    )
    task = examples = None
    if settings is not None:
        task, examples = from_config.labelled(settings, "dev", folder=folder, may_hide_labels=True)
    source = inputs.open_source(args.model, task, kind=None if task else args.kind)
    source.tokenizer = source.tokenizer.replace(prompt=args.prompt)
    if settings is not None:
        prompt = {} if args.prompt is None else {"prompt": args.prompt}
        settings = plan.with_answers(args, settings.model_copy(update=prompt))
    allow_weak = recipe is not None and recipe.student.allow_weak
    more = args.lengths, allow_weak, min_recall
    job = Job(source, settings, task, examples, promise_on, folder, *more)
    if settings is None or task is None:
        return dataclasses.replace(job, task=_task_alone(source, args.model, args.kind))
    source.in_order_of(task, job.training_set if settings.has_own_labels else None)
    return job


def _task_alone(source: Source, model: str, kind: str | None) -> TaskSpec | None:
    """The task that a checkpoint describes without data: its outputs for single texts.

    None of a head whose answers are read by rules that it does not have.
    """
    from tfdistill import models, tasks
    from tfdistill.data import labelled_file
    from tfdistill.weights import head_checks

    head = models.read_head(source.model)
    kind = kind or head_checks.kind_of(config.model_folder(model), head.kind, head.num_labels)
    if kind is None or not (tasks.KINDS[kind].answers_texts or tasks.KINDS[kind].vectors):
        return None
    columns = tasks.KINDS[kind].usual_columns or ("text", "label")
    pair = "text_b" if tasks.KINDS[kind].vectors else None
    name = labelled_file.name_of(pathlib.Path(model).resolve())
    return tasks.TaskSpec(name, *columns, pair, kind=kind, labels=source.labels)


def prune(job: Job, corpus: str | None, cut: dict[str, Any]) -> tuple[Job, dict[str, Any]]:
    """Takes the tokens out that a corpus, a text file with a text a line, does not need.

    Without a corpus those that neither the task's training texts need nor the languages in `cut`,
    the values of `config.CutConfig`. Returns the new job, and what it does to the texts of the
    development set.
    """
    from tfdistill import compress
    from tfdistill.compress import languages, vocabulary
    from tfdistill.weights import existing_tokenizer

    model, tokenizer = job.source.model, existing_tokenizer(job.source.tokenizer, "the model")
    if corpus is not None:
        pruned = compress.prune_vocabulary(model, tokenizer, corpus)
    else:
        texts = [] if job.settings is None else job.training_texts()
        choice = languages.choose(tokenizer, texts, **cut)
        _log.info(choice.note)
        pruned = vocabulary.keep_tokens(model, tokenizer, choice.ids)
    report: dict[str, Any] = {"tokens": len(pruned.old_ids), "tokens_before": pruned.num_before}
    if job.examples is not None:
        texts = [*job.examples.texts, *(job.examples.pairs or ())]
        report |= dataclasses.asdict(pruned.coverage(texts))
    return job.read_by(pruned.model, pruned.tokenizer), report


def confidences(
    model: str, target: pathlib.Path, card: manifest.Manifest
) -> dict[str, Confidence | None]:
    """Tells by name how sure files are, the first that of the run or that before a compression.

    Those of this export are named by their number formats.
    """
    run = pathlib.Path(model)
    recipe = config.saved_recipe(run)
    if recipe is not None and any(stage.compress for stage in recipe.stages.values()):
        before = pathlib.Path(recipe.student.initialise)
        run = before.parents[1] if before.parts[-2:] == ("student", "hf") else run
    earlier = run / "export"
    records: dict[str, Confidence | None] = {}
    if (earlier / manifest.FILE_NAME).is_file() and earlier.resolve() != target.resolve():
        try:
            records[f"{earlier}"] = manifest.read_manifest(earlier).confidence
        except errors.ManifestError as error:  # this export is written and checked already
            _log.warning(f"not compared with {earlier}: {error}")
    for file in card.each_file():
        records[f"{file.quantization} for {file.device}"] = file.confidence
    return records


AUTO = "auto"
_MAX_DROP = 0.01  # of the metric, where the file is chosen


def write(
    args: argparse.Namespace, job: Job, layers: dict[str, str], file: pathlib.Path, name: str
) -> tuple[Job, Manifest]:
    """Writes the file; returns it and the job, with fewer words where the size needs that."""
    from tfdistill.run import deliver

    fit = functools.partial(_fit_size, args, job, file, name)
    if args.size_mb is not None:
        return fit(size_mb=args.size_mb)
    fitted = deliver.of_size(args.of_run, fit)
    if fitted is None:
        return job, _tflite(args, job, layers, file, name)
    return fitted


def formats(args: argparse.Namespace) -> dict[str, str]:
    """The quantization of the file for each device, that of the manifest's own file first."""
    return {device: quantize or args.quantize for device, quantize in args.devices.items()}


def calibrated(args: argparse.Namespace, layers: dict[str, str]) -> bool:
    """Whether ranges may have to be measured."""
    import export

    offered = export.quantizations()
    names = {args.quantize, *formats(args).values(), *layers.values()} & offered.keys()
    return args.quantize == AUTO or any(offered[name].needs_calibration for name in names)


def _tflite(
    args: argparse.Namespace, job: Job, layers: dict[str, str], file: pathlib.Path, name: str
) -> Manifest:
    import export
    from tfdistill import benchmark
    from tfdistill.run import deliver

    arguments = options_of(args, job, calibrate=calibrated(args, layers), name=name)
    model = job.source.model
    if args.quantize != AUTO:
        (device, quantize), *others = formats(args).items()
        form = {"device": device, "quantize": quantize, "variants": dict(others)}
        return export.to_tflite(model, file, layers=layers or None, **form, **arguments)
    return export.auto(
        model,
        file,
        max_drop=_MAX_DROP if args.max_drop is None else args.max_drop,
        prefer=args.prefer or "size",
        measure=benchmark.quick_benchmark if args.prefer == "latency" else None,
        report=deliver.tell_trial,
        **arguments,
    )


def options_of(
    args: argparse.Namespace, job: Job, *, calibrate: bool, **others: Any
) -> dict[str, Any]:
    """The `export.ExportOptions` that every way to write files takes."""
    chosen = {"num_calibration": args.calibrate, "seed": args.seed}
    return {
        **job.options(calibrate=calibrate),
        "softmax": args.softmax,
        "allow_weak": args.allow_weak or job.allow_weak,
        "overwrite": args.overwrite,
        **{name: value for name, value in chosen.items() if value is not None},
        **others,
    }


def _fit_size(
    args: argparse.Namespace, job: Job, file: pathlib.Path, name: str, **bounds: Any
) -> tuple[Job, Manifest]:
    """Writes the most accurate file within a size limit; returns it and the job with its words."""
    import export
    from export.model.request import ExportRequest

    job = dataclasses.replace(job, named_lengths=job.lengths)  # those of the whole vocabulary

    def requested(model: Any, tokenizer: Tokenizer) -> ExportRequest:
        reading = job.read_by(model, tokenizer)
        arguments = options_of(args, reading, calibrate=calibrated(args, {}), name=name)
        return ExportRequest(model, file, quantize=args.quantize, **arguments)

    choice = export.fit_size(
        requested,
        job.source.model,
        job.source.tokenizer,
        corpus=job.training_texts(),
        max_drop=_MAX_DROP if args.max_drop is None else args.max_drop,
        **bounds,
    )
    print(choice.summary, file=sys.stderr)
    record = choice.manifest.tokenizer
    assert record is not None  # the request has a vocabulary
    tokenizer = exported_tokenizer(file.parent, record)
    return job.read_by(choice.model, tokenizer), choice.manifest
