"""`to_tflite`: a trained model becomes one checked file for phones, or none at all."""

from __future__ import annotations

import json
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import analysis
from tfdistill.data import answers, vocab
from tfdistill.data.task_data import TaskData
from tfdistill.io import files
from tfdistill.manifest import Manifest, json_text
from tfdistill.tasks import Examples, TaskSpec, probabilities
from tfdistill.tasks.encoded import Truncation

from ..checking.confidence import at_temperature
from ..checking.evidence import FloatConversion
from ..checking.outputs import model_logits
from ..checking.verify import Verified, verify
from ..conversion import convert
from ..conversion.prepare import ExportPlan, make_plans
from ..file import bundle
from ..model.request import ExportRequest
from .manifest import build_manifest, with_variants

_log = logging.getLogger(__name__)


def to_tflite(
    model: keras.Model,
    path: files.Path,
    *,
    data: TaskData | None = None,
    quantize: str = "dynamic_wi8_afp32",
    device: str = "cpu",
    variants: Mapping[str, str] | None = None,
    layers: Mapping[str, str] | None = None,
    lengths: Sequence[int] | None = None,
    softmax: bool = False,
    check_on: Any = None,
    promise_on: Any = None,
    calibrate_on: Any = None,
    num_calibration: int = 200,
    seed: int = 1,
    texts: Examples | None = None,
    task: TaskSpec | None = None,
    vocab_file: files.Path | None = None,
    lower_case: bool | None = None,
    truncation: Truncation = "end",
    labels: Sequence[str] | None = None,
    bounds: Mapping[str, float] | None = None,
    metadata: bool | None = None,
    allow_weak: bool = False,
    overwrite: bool = False,
    name: str | None = None,
    timeout_s: float = 1800,
) -> Manifest:
    """Exports a model as one TFLite file with a signature for each sequence length.

    The file is checked before it is written: its structure; the float32 conversion of the same
    network, which must answer like the model to 80 dB through every signature, on `check_on` and on
    probes that reach every position and token type; each number that the file stores against the
    one that it was rounded from; its error against that of its rounding; the task's metric of the
    file itself; and what `bounds` asks for. Beyond a bound nothing is written or replaced.

    Signature len32 takes int32 (1, 32) `input_ids`, `attention_mask` (1 token, 0 padding) and,
    where the model has it, `token_type_ids`, and gives float32 (1, num_labels) `logits`, or
    `scores` with softmax. Bind them by name.

    Args:
      model: A classifier or regressor of `tfdistill.models`.
      path: The .tflite file to write. model.json, golden.json, a model card (README.md, unless
        there is one of yours) and, where given, vocab.txt and labels.txt are written next to it;
        where `texts` have labels, also answers.safetensors: what model and file answer to them.
      data: The data of `tfdistill.load_data`, which gives `task`, `vocab_file`, `lower_case`,
        `lengths`, `calibrate_on` (its training set), `check_on` and `texts` (its development set)
        where they are not named.
      quantize: Name of a quantization, see `export.quantizations`, or in short int8 or int4, as
        wherever one is named.
      device: What runs the file: "cpu" or "gpu"; see `export.conversion.device_form`. A file for a
        GPU is checked on the CPU: only the phone compares the GPU's answers.
      variants: Further files of the same model, next to this one and in its manifest: device ->
        quantization.
      layers: Layers that take another quantization: pattern of layer names, as for a shell
        ("layer_0_*"), -> name. Of several patterns that fit a layer the first counts.
      lengths: Sequence lengths; they share the weights. Default with `data` those that minimize the
        expected time of a development text (`tfdistill.manifest.lengths`), else 32, 64 and 128, as
        far as the model has positions.
      softmax: Whether the file gives probabilities instead of logits, at the temperature that fits
        the labels of `check_on`.
      check_on: Real examples to check on: `Batches`, `EncodedExamples` or a dataset of batches,
        with labels for the task's metric. None draws random ids, and the manifest records it.
      promise_on: Labelled examples that chose nothing, neither weights nor epoch, number format or
        temperature, in the forms of `check_on`: the manifest then says above which confidence at
        most 1, 2, 5 and 10% of the answers are wrong (see `tfdistill.manifest.confidence`). Default
        those of `data`, where it names a file of them.
      calibrate_on: Real examples, without labels or with them, in the same forms, or a function
        that returns a generator of features by name: what the ranges of a static quantization are
        measured on, and with `promise_on` what tells texts of another kind, which are not sure.
        Never those of `check_on`.
      num_calibration: Examples to draw from `calibrate_on`, without replacement.
      seed: Seed of that draw.
      texts: The texts of `check_on` in its order, for golden.json; they need `vocab_file`.
      task: The task, for metrics and labels.
      vocab_file: The vocabulary that text is tokenized with.
      lower_case: Whether text is lower-cased; None: as the folder of the vocabulary says
        (`do_lower_case` of tokenizer_config.json), else yes.
      truncation: Where a text that is too long is cut: at its end, or in its middle.
      labels: Label names in the order of the logits; default the task's.
      bounds: Bounds to change, by name (see `quantize.Bounds`), for example {"sqnr_db": 15}.
      metadata: Whether the file carries what MediaPipe needs to run it from text (see
        `export.file.metadata`): one length, softmax inside, a lower-case vocabulary, labels. None:
        where it can.
      allow_weak: Whether a model may be exported that answers near chance: where `check_on` has
        labels of `task`, its metric must be a tenth of the way from chance to a perfect score.
      overwrite: Whether existing files may be replaced.
      name: Name in the manifest; default the file's stem.
      timeout_s: Seconds that the converter may take.

    Returns:
      The manifest, as written to model.json.

    Raises:
      ConfigError: If an argument is not valid.
      DataError: If `check_on` does not fit the model or the lengths.
      OutputExistsError: If a file is there and `overwrite` is not given.
      ExportError: If the conversion fails, the file is not built as it should be, or it cannot be
        written.
      ParityError: If the file does not answer like the model.
      StudentError: If the model answers near chance, and `allow_weak` is not given.
    """
    request = ExportRequest(
        model,
        path,
        data=data,
        quantize=quantize,
        device=device,
        variants=variants or {},
        layers=layers,
        lengths=lengths,
        softmax=softmax,
        check_on=check_on,
        promise_on=promise_on,
        calibrate_on=calibrate_on,
        num_calibration=num_calibration,
        seed=seed,
        texts=texts,
        task=task,
        vocab_file=vocab_file,
        lower_case=lower_case,
        truncation=truncation,
        labels=labels,
        bounds=bounds,
        metadata=metadata,
        allow_weak=allow_weak,
        overwrite=overwrite,
        name=name,
        timeout_s=timeout_s,
    )
    return export_file(request)


def export_file(request: ExportRequest, floats: FloatConversion | None = None) -> Manifest:
    """Plans, converts, verifies and writes one file and its variants; see `to_tflite`.

    `floats` is what other files of the same model are made of, too: it is made and checked once.
    """
    plans = make_plans(request)
    check_free(plans)
    refuse_weak(plans[0])
    plans = at_temperature(plans)
    verified = []
    with files.temporary_folder("export") as folder:
        for index, plan in enumerate(plans):
            name = plan.paths.model.name
            shared = None if index else floats  # a variant has another form
            float_file = None if shared is None else shared.file
            _log.info(f"{name}: converting to {plan.quantization.name}")
            converted = convert.convert(plan, folder / plan.device.name, float_file)
            _log.info(f"{name}: checking against the model")
            verified.append(verify(converted, shared))
        manifest = write(verified)
    bundle.write_card(request.path, manifest)
    return manifest


def check_free(plans: Sequence[ExportPlan]) -> None:
    """Refuses to replace what may not be replaced, before the long work."""
    unknown = dict.fromkeys(
        file for plan in plans for file in (plan.paths.model, plan.paths.golden)
    )
    contents = {**unknown, plans[0].paths.manifest: None, **_beside(plans[0])}
    bundle.check_free(contents, overwrite=plans[0].request.overwrite)


def refuse_weak(plan: ExportPlan) -> None:
    """Refuses a model near chance before it is converted, where its task and labels are known."""
    task, examples = plan.task, plan.examples
    if plan.request.allow_weak or task is None or examples.labels is None:
        return
    logits = model_logits(plan.model, examples, plan.lengths)
    if not np.isfinite(logits).all():  # the verification says so
        return
    reached = task.score(logits, examples)
    analysis.check_model("student", reached, task, analysis.gold_labels(examples))


def write(verified: Sequence[Verified]) -> Manifest:
    """Writes checked files of one model with what belongs to them, all or nothing.

    The manifest, which is returned, is that of the first.
    """
    first = verified[0]
    plan, paths = first.converted.plan, first.converted.plan.paths
    models: dict[pathlib.Path, bytes | pathlib.Path] = {}
    beside = _beside(plan)
    if (predicted := _answers(first)) is not None:
        beside[paths.answers] = predicted
    for each in verified:
        place = each.converted.plan.paths
        models[place.model] = each.converted.file
        beside[place.golden] = (json.dumps(each.golden, ensure_ascii=False) + "\n").encode()
    manifest = with_variants([build_manifest(each, beside) for each in verified])
    contents = {**models, **beside}
    contents[paths.manifest] = json_text(manifest).encode()
    bundle.write(contents, obsolete=bundle.variant_files(paths.manifest))
    return manifest


def _beside(plan: ExportPlan) -> dict[pathlib.Path, bytes]:
    """Returns vocabulary and labels, as far as they are given."""
    contents: dict[pathlib.Path, bytes] = {}
    if plan.request.vocab_file is not None:
        tokens = vocab.read_vocab(plan.request.vocab_file)
        contents[plan.paths.vocab] = vocab.format_vocab(tokens).encode()
    if plan.labels:
        contents[plan.paths.labels] = "".join(f"{label}\n" for label in plan.labels).encode()
    return contents


def _answers(verified: Verified) -> bytes | None:
    """The content of answers.safetensors; None where nothing is labelled."""
    plan = verified.converted.plan
    if plan.request.texts is None or not plan.real_examples:
        return None
    file = probabilities.logits_of(verified.answers.file, softmax=plan.request.softmax)
    arrays = {"model": verified.answers.logits, "file": file}
    digest = verified.report.sha256
    predicted = answers.of_examples(plan.request.texts, arrays, model_sha256=digest)
    return None if predicted is None else answers.to_bytes(predicted)
