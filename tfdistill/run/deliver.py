"""What a run hands over: saved models, exports, the measurement."""

from __future__ import annotations

import functools
import logging
import pathlib
import shutil
from collections.abc import Callable
from typing import Any, TypeVar

import tf_keras as keras

import export
from export.checking import evidence
from export.conversion import quantize as quantizing
from export.model.request import ExportRequest, fitting_lengths
from export.targets import tflite
from tfdistill import compress, config, errors, models, results, weights
from tfdistill.data import answers
from tfdistill.data.task_data import TaskData, TextData
from tfdistill.io import files, ledger, safe_paths, work_folder
from tfdistill.results import quantities
from tfdistill.run import cutting, initialise, students, teachers
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tokenization.tokenizer import Tokenizer
from tfdistill.training import checkpoints, transfer

T = TypeVar("T")
_log = logging.getLogger(__name__)


def save_model(
    model: keras.Model, data: TextData, folder: pathlib.Path, labels: tuple[str, ...] = ()
) -> None:
    """Saves a model as a Hugging Face folder ``hf``, whole or not at all.

    A BiLSTM has no class in `transformers`: ``model.safetensors``, ``vocab.txt`` and
    ``classifier.json`` (labels and case) are written instead. A quantization-aware model is saved
    as its float weights, and its ranges as ``ranges.safetensors``, where both factors of a word
    table are, too. The checksums of all files are recorded, and verified before they are read.
    """
    plain = compress.strip(model)
    with files.atomic_folder(folder) as temporary:
        compress.save_ranges(model, temporary / compress.RANGES)
        if isinstance(models.config_of(model), models.WordVectorConfig):
            weights.save_bilstm(plain, temporary, labels=labels, tokenizer=data.tokenizer)
        else:
            weights.save_hf(
                plain,
                temporary / "hf",
                labels=labels or None,
                tokenizer=data.tokenizer,
                texts=data.dev_examples.texts if isinstance(data, TaskData) else (),
            )
        ledger.write_checksums(temporary)


def keep_chosen(root: pathlib.Path, chosen: results.ModelResult) -> None:
    """Moves the chosen model of a run into ``student``, and removes what training alone reads.

    A kill leaves the model in one place or in both. Its answers stay where they were.
    """
    place = str(chosen.folder) if chosen.role == "student" else "teacher/model"
    source, target = safe_paths.inside(root, place), root / "student"
    if not target.is_dir():
        if not ledger.recorded(source):
            remedy = "Delete its file in results/ and resume: it is trained again."
            raise errors.WeightsError(f"{target}", f"the model of {place}", "none", remedy)
        with files.atomic_folder(target) as temporary:
            beside = shutil.ignore_patterns(answers.FILE_NAME)
            shutil.copytree(source, temporary, ignore=beside, dirs_exist_ok=True)
    work_folder.remove_recorded(source)
    drop_scratch(root)


def drop_scratch(root: pathlib.Path) -> None:
    """Removes what training alone reads, once a run has its student.

    These are checkpoints and weights of stages, the teacher's answers, and models whose words were
    cut. A resume that has to train again makes them again.
    """
    checkpoints.remove(root / "stages")
    weights_of = students.STUDENT, students.PROJECTION, students.MASKED
    for name in (*weights_of, initialise.START, transfer.WEIGHTS, "logits-*.safetensors"):
        for path in (*(root / "stages").rglob(name), *(root / teachers.CACHE).glob(name)):
            path.unlink()
    for folder in (root / cutting.FOLDER).glob("*"):
        work_folder.remove_recorded(folder)


class ModelFiles:
    """The files of a saved model, all made of one float32 conversion; the model is opened once.

    `scratch` holds the conversion. With `fit_lengths` lengths that the recipe does not name fit the
    development set.
    """

    def __init__(
        self,
        opened: Callable[[], keras.Model],
        data: TaskData,
        recipe: config.Recipe,
        scratch: pathlib.Path,
        *,
        fit_lengths: bool,
    ) -> None:
        """Keeps the arguments; nothing is opened yet."""
        self._opened, self._data, self._recipe = opened, data, recipe
        self._texts = data.dev.encoded if fit_lengths else None
        self._floats = evidence.FloatConversion(scratch / "model.tflite")

    @functools.cached_property
    def _model(self) -> keras.Model:
        return self._opened()

    def export(self, folder: pathlib.Path, *, name: str, quantize: str, shipped: bool) -> None:
        """Exports the model into `folder`, checked on the development set.

        With `shipped` also its variants, its fallback and its size are those of the recipe. A file
        that does not answer like the model is refused.
        """
        recipe, floats = self._recipe, self._floats
        settings = recipe.export if shipped else config.ExportConfig()
        plain = compress.strip(self._model)
        model = plain
        if quantize == config.QUANTIZE_AWARE and compress.is_quantize_aware(self._model):
            model, floats = self._model, None  # its conversion has the ranges in it
        path = folder / "model.tflite"
        options: dict[str, Any] = {
            "data": self._data,
            "lengths": export_lengths(recipe.export.lengths, model, recipe.data, self._texts),
            "softmax": recipe.export.softmax,
            "name": name,
            "allow_weak": True,  # the run has judged the model
            "overwrite": True,
        }
        fit = functools.partial(self._fit_size, plain, path, {**options, "quantize": quantize})
        if of_size(settings, fit) is not None:
            return
        variants: Any = settings.variants
        request = ExportRequest(model, path, quantize=quantize, variants=variants, **options)
        try:
            tflite.export_file(request, floats)
        except errors.ParityError as error:
            if not settings.fallback:
                raise
            _log.warning(f"no {quantize} file, another is looked for: {error}")
            formats = (quantize, *settings.fallback)
            # Ranges that were trained are for one format: the others take the float weights.
            card = export.auto(plain, path, names=formats, report=tell_trial, **options)
            chosen = quantizing.quantization(card.quantization)
            _log.info(f"took {chosen.name}: {chosen.summary}")

    def _fit_size(
        self, model: keras.Model, path: pathlib.Path, options: dict[str, Any], **bounds: Any
    ) -> export.SizeChoice:
        data, train = self._data, self._data.train_examples

        def requested(model: keras.Model, tokenizer: Tokenizer) -> ExportRequest:
            arguments: dict[str, Any] = {**options, "data": data.read_by(tokenizer)}
            return ExportRequest(model, path, **arguments)

        corpus = [*train.texts, *(train.pairs or ())]
        if (further := data.unlabelled_examples) is not None:
            corpus += [*further.texts, *(further.pairs or ())]
        choice = export.fit_size(requested, model, data.tokenizer, corpus=corpus, **bounds)
        (_log.info if choice.keeps else _log.warning)(choice.summary)
        return choice


def of_size(settings: config.ExportConfig, fit: Callable[..., T]) -> T | None:
    """What `fit` gives of a size that `settings` name; None where they name none.

    `fit` takes the bounds of `export.fit_size`. Of a goal that no file surely keeps it is None,
    too: the word table stays whole.
    """
    if settings.size_mb is not None:
        return fit(size_mb=settings.size_mb, or_nearest=True)
    if settings.goal_mb is None:
        return None
    try:
        return fit(size_mb=settings.goal_mb, surely=True)
    except errors.ParityError as error:
        _log.info(f"the word table stays whole: {error}")
        return None


def tell_trial(trial: results.Trial) -> None:
    """Prints on stderr what `export.auto` found out about a quantization."""
    size = "" if trial.size_bytes is None else f" {quantities.size(trial.size_bytes)},"
    change = ""
    if trial.metric_drop is not None:
        drop = round(trial.metric_drop, 4)
        how = "unchanged" if drop == 0 else f"{'falls' if drop > 0 else 'rises'} by {abs(drop):.4f}"
        change = f" {trial.primary_metric} {how},"
    _log.info(f"{trial.name}:{size}{change} {trial.verdict}")


def export_lengths(
    named: tuple[int, ...] | None,
    model: keras.Model,
    data: config.DataConfig | None,
    texts: EncodedExamples | None = None,
) -> tuple[int, ...]:
    """The lengths of a model's file: those of `named` that its position table can serve.

    None named: those of `fitting_lengths`, by the data section and the development texts.
    """
    if not named:
        return fitting_lengths(model, None if data is None else data.max_length, texts)
    longest = models.config_of(model).max_positions
    usable = tuple(length for length in named if length <= longest)
    if not usable:
        raise errors.ConfigError(
            "export.lengths",
            f"some of at most {longest} tokens, the model's positions",
            named,
            f"Set them with --set export.lengths=[{longest}].",
        )
    return usable
