"""A recipe becomes a run folder: teacher, students, export, measurement, report."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import types
from collections.abc import Mapping, Sequence
from typing import Any

from tfdistill import benchmark, config, errors, manifest, report, results
from tfdistill.benchmark import environment
from tfdistill.data import parallel, synthetic
from tfdistill.io import files, safe_paths
from tfdistill.run import (
    baselines,
    cutting,
    deliver,
    model_cards,
    prepare,
    records,
    suspects,
    task_models,
    teachers,
)
from tfdistill.run.folder import RunContext, RunFolder, open_run
from tfdistill.training import strategies

_log = logging.getLogger(__name__)

__all__ = ["distill_variant", "finetune", "run_recipe"]


def run_recipe(
    recipe: config.Recipe,
    out: files.Path,
    *,
    devices: int | None = None,
    pipeline: Sequence[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> results.RunMetrics:
    """Runs a recipe from the teacher to the report.

    The folder gets recipe.yaml and environment.json first, then teacher/, stages/, students/,
    student/ (the chosen one), export/, benchmark.json, metrics.json, report.html and report.md.
    Killed at any moment, it continues with `resume`.

    Args:
      recipe: The recipe.
      out: The run folder.
      devices: Devices to train on; None takes every visible GPU. A run may continue on others.
      pipeline: Options of Apache Beam, whose workers compute the teacher's answers over a training
        set then; they find tfdistill installed and the run folder under the same path.
      resume: Continue an earlier run of the same recipe.
      overwrite: Remove an earlier run first.

    Returns:
      The content of metrics.json.

    Raises:
      TfdistillError: With what was wrong and what to do about it.

    Examples:
      >>> recipe = tfdistill.load_recipe("recipe.yaml")
      >>> try:
      ...     tfdistill.run_recipe(recipe, "teacher")  # that folder holds no run
      ... except tfdistill.TfdistillError as error:
      ...     print(type(error).__name__)
      OutputExistsError
    """
    errors.check_types(recipe=(recipe, config.Recipe))
    if pipeline is not None:
        parallel.check_pipeline(pipeline, out)
    opening = open_run(recipe, out, devices, resume=resume, overwrite=overwrite)
    with opening as (folder, strategy):
        with strategies.scope(strategy):
            _log.info(f"{recipe.name}: reading the data")
            context = _with_students(_begin(recipe, folder, pipeline))
            trained = _train_all(context)
        return _deliver(context, trained)


def finetune(
    recipe: config.Recipe,
    out: files.Path,
    *,
    devices: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> results.SavedModel:
    """Runs the teacher's part of a recipe alone; see `run_recipe`."""
    opening = open_run(recipe, out, devices, resume=resume, overwrite=overwrite, cluster=True)
    with opening as (folder, strategy), strategies.scope(strategy):
        context = _begin(recipe, folder)
        teacher = records.train_teacher(context)
        compared = baselines.measure_baselines(context)
        _report(context, [teacher], compared)
        try:
            records.check(context, teacher)
        except errors.TeacherError as error:  # the model is what was asked for: it is kept
            _log.warning(str(error))
    return results.SavedModel(
        **teacher.model_dump(),
        model_folder="teacher/model/hf",
        primary_metric=context.data.of_task.task.primary_metric,
        baselines=compared,
    )


def distill_variant(
    recipe: config.Recipe,
    out: files.Path,
    *,
    devices: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> results.SavedModel:
    """Trains the last variant of a recipe with its first seed, without export; see `run_recipe`."""
    opening = open_run(recipe, out, devices, resume=resume, overwrite=overwrite, cluster=True)
    with opening as (folder, strategy), strategies.scope(strategy):
        context = _with_students(_begin(recipe, folder))
        teachers_trained, compared = [], ()
        if context.data.task is not None:
            teachers_trained = [records.check(context, records.train_teacher(context))]
            compared = baselines.measure_baselines(context)
        student = records.train_student(context, list(recipe.variants)[-1], recipe.seeds[0])
        deliver.keep_chosen(context.root, student)
        _report(context, [*teachers_trained, student], compared, student)
        if context.data.task is not None:
            records.check(context, student)
    saved = "student/hf" if (context.root / "student" / "hf").is_dir() else "student"
    return results.SavedModel(
        **student.model_dump(),
        model_folder=saved,
        primary_metric="" if context.data.task is None else context.data.task.primary_metric,
        baselines=compared,
        teacher_metrics=teachers_trained[0].metrics if teachers_trained else {},
        teacher_examples=teachers_trained[0].num_examples if teachers_trained else None,
    )


def _begin(
    recipe: config.Recipe, folder: RunFolder, pipeline: Sequence[str] | None = None
) -> RunContext:
    data, corpora, answers = prepare.prepare(recipe, folder.path)
    recipe = cutting.with_cut_models(recipe, folder.path)
    models_of_run = teachers.TeacherModels(recipe, data.task, folder.path, pipeline, answers)
    data = suspects.without_suspects(recipe, data, models_of_run, folder.path)
    context = RunContext(recipe, folder, data, models_of_run, corpora)
    if recipe.teacher.pretrain is not None:
        result = records.pretrain_teacher(context)
        _log.info(f"pre-trained teacher: {_describe(result.metrics)}")
    return context


def _with_students(context: RunContext) -> RunContext:
    """Checks before any fine-tuning what students need, and augments the training set."""
    context.teachers.check()
    if context.data.task is None:
        return context
    recipe, data = context.recipe, context.data.of_task
    student_data = prepare.own_tokens(recipe, data)
    masked_lm = teachers.general_source(recipe, context.root)
    data = prepare.augmented(recipe, data, context.root, masked_lm)
    if student_data is not None:
        _log.info("the student reads its own tokens: its vocabulary is not the teacher's")
        student_data = prepare.augmented(recipe, student_data, context.root, masked_lm)
    return dataclasses.replace(context, data=data, own_tokens=student_data)


def _train_all(context: RunContext) -> list[results.ModelResult]:
    recipe, trained = context.recipe, []
    if context.data.task is not None:
        data = context.data.of_task
        others = f"and {data.dev.num_examples} development examples"
        others = "examples, cross-validated" if data.settings.cross_fitted else others
        _log.info(f"{data.train.num_examples} training {others}")
        trained = [records.check(context, records.train_teacher(context))]
        _log.info(f"teacher: {_describe(trained[0].metrics)}")
    elif recipe.teacher.pretrain is not None:
        trained = [records.pretrained_teacher(context)]
    for name in recipe.variants:
        for seed in recipe.seeds:
            trained.append(records.train_student(context, name, seed))
            _log.info(f"{name}, seed {seed}: {_describe(trained[-1].metrics)}")
    return trained


def _deliver(context: RunContext, trained: Sequence[results.ModelResult]) -> results.RunMetrics:
    """Keeps the chosen student; with a task also exports and measures it. Writes the report.

    The teacher is chosen where it is the student itself.
    """
    root, recipe, task = context.root, context.recipe, context.data.task
    if task is None:
        deliver.keep_chosen(root, trained[-1])
        _log.info(f"student: {root / 'student' / 'hf'}")
        return _report(context, trained, (), trained[-1])
    chosen = trained[0]
    if not recipe.student.is_teacher:
        chosen = records.choose(trained, list(recipe.variants)[-1], task.primary_metric)
    compared = baselines.measure_baselines(context)
    deliver.keep_chosen(root, chosen)
    _report(context, trained, compared, chosen)  # of a student that is refused, too
    records.check(context, chosen)
    exports = _export_all(context, chosen)
    measured = root / "benchmark.json"
    names = {e.name for e in exports if recipe.export.also_quantize}  # to which a resume may add
    if names and measured.is_file():
        names -= {file.name for file in benchmark.read_result(measured).models}
    if exports and (names or not measured.is_file()):
        _log.info("measuring on this host")
        # The teacher's files first, and of these the one in the student's format: the baseline.
        alike = f"teacher-{_format_of(root / 'export')}"
        order = sorted(exports, key=lambda e: (e.of != "teacher", e.name != alike))
        folders = {e.name: (root / e.manifest).parent for e in order}
        how = benchmark.Settings(**recipe.benchmark.model_dump())
        result = benchmark.compare(folders, progress=True, settings=how)
        if result.failures:
            raise errors.BenchmarkError("\n".join(failure.error for failure in result.failures))
        benchmark.write_result(result, measured)
    tested = records.test_metrics(context)
    metrics = _report(context, trained, compared, chosen, exports, tested)
    model_cards.write_all(root, exports)
    _log.info(f"report: {root / 'report.html'}")
    return metrics


def _report(
    context: RunContext,
    trained: Sequence[results.ModelResult],
    compared: Sequence[results.BaselineResult],
    chosen: results.ModelResult | None = None,
    exports: Sequence[results.ExportedFile] = (),
    tested: Mapping[str, Any] = types.MappingProxyType({}),
) -> results.RunMetrics:
    recipe, task = context.recipe, context.data.task
    described, further = (
        results.RunTask(name="plain text", kind="pre-training", primary_metric="mlm_accuracy"),
        None,
    )
    if task is not None:
        further = None if recipe.student.is_teacher else context.data.of_task.unlabelled_examples
        described = results.RunTask(
            name=task.name, kind=task.kind, labels=task.labels, primary_metric=task.primary_metric
        )
    metrics = results.RunMetrics(
        format_version=results.FORMAT_VERSION,
        recipe=context.root.resolve().name if recipe.name == "command" else recipe.name,
        created=environment.now(),
        seed=recipe.seeds[0],
        task=described,
        synthetic_data=described.name == synthetic.TASK.name,
        models=tuple(trained),
        baselines=tuple(compared),
        chosen=None if chosen is None else chosen.folder,
        exports=tuple(exports),
        vocabulary=cutting.record_of(context.root),
        num_unlabelled=None if further is None else len(further),
        **tested,
    )
    results.write_result_file(metrics, context.root / results.METRICS_FILE)
    report.write(context.root)
    return metrics


def _export_all(
    context: RunContext, chosen: results.ModelResult
) -> tuple[results.ExportedFile, ...]:
    """Exports the student, and the teacher where the recipe says so, unless that is done."""
    root, settings = context.root, context.recipe.export
    with files.temporary_folder("floats") as scratch:
        data = context.student_data.of_task
        source = safe_paths.inside(root, "student")
        models_of_run = {
            "student": deliver.ModelFiles(
                lambda: task_models.open_saved(source, data.task), data, context.recipe,
                scratch / "student", fit_lengths=True,
            ),
            "teacher": deliver.ModelFiles(
                lambda: context.teachers.task, context.data.of_task, context.recipe,
                scratch / "teacher",
                # It is only compared with: at the longest length, which all files have.
                fit_lengths=False,
            ),
        }  # fmt: skip
        _export(context, models_of_run["student"], "student", "export", settings.quantize)
        # That of `fallback`, where the other differed too far.
        chosen_format = _format_of(root / "export")
        wanted = {"export": ("student", chosen_format)}
        teacher = context.recipe.teacher
        if teacher.export and teacher.answers is None and not context.recipe.student.is_teacher:
            wanted["teacher/export"] = ("teacher", settings.teacher_quantize)
        also = dict.fromkeys(
            chosen_format if named == settings.quantize else named
            for named in settings.also_quantize
        )
        wanted |= {
            f"also/{of}-{quantize}": (of, quantize)
            for quantize in also
            for of, first in tuple(wanted.values())
            if quantize != first
        }
        # float32 last: the conversion of another format makes it on its way.
        in_order = sorted(wanted.items(), key=lambda item: item[1][1] == "float32")
        for target, (of, quantize) in in_order:
            _export(context, models_of_run[of], of, target, quantize)
    folder_of = {"student": str(chosen.folder), "teacher": "teacher"}
    return tuple(
        results.ExportedFile(
            name=_name_of(of, target), of=folder_of[of], manifest=f"{target}/model.json"
        )
        for target, (of, _) in wanted.items()
        if (root / target / manifest.FILE_NAME).is_file()
    )


def _name_of(of: str, target: str) -> str:
    """The name of a file in metrics.json: its model's, unless it is there to compare with."""
    return pathlib.PurePath(target).name if target.startswith("also/") else of


def _export(
    context: RunContext, model: deliver.ModelFiles, of: str, target: str, quantize: str
) -> None:
    folder, name = context.root / target, _name_of(of, target)
    if (folder / manifest.FILE_NAME).is_file():
        return
    _log.info(f"exporting {of} as {quantize}")
    whole = f"{context.recipe.name}-{name}"
    try:
        model.export(folder, name=whole, quantize=quantize, shipped=name == "student")
    except errors.ParityError as error:
        if name == of:
            raise
        _log.warning(f"no {name} file to compare with: {error}")


def _format_of(folder: pathlib.Path) -> str:
    return manifest.read_manifest(folder).quantization


def _describe(metrics: Mapping[str, float | None]) -> str:
    values = {name: "-" if value is None else f"{value:.4f}" for name, value in metrics.items()}
    return ", ".join(f"{name} {value}" for name, value in values.items())
