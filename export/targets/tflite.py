"""`to_tflite`: a trained model becomes one checked file for phones, or none at all."""

from __future__ import annotations

import json
import logging
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import tf_keras as keras

from tfdistill import analysis
from tfdistill.data import answers
from tfdistill.io import files
from tfdistill.manifest import Manifest, json_text
from tfdistill.tasks import probabilities

from ..checking.confidence import at_temperature
from ..checking.evidence import FloatConversion
from ..checking.outputs import model_logits
from ..checking.verify import Verified, verify
from ..conversion import convert
from ..conversion.prepare import ExportPlan, make_plans
from ..file import bundle
from ..model.request import ExportRequest
from .manifest import build_manifest, with_variants

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..model.options import ExportOptions

_log = logging.getLogger(__name__)


def to_tflite(model: keras.Model, path: files.Path, **options: Unpack[ExportOptions]) -> Manifest:
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
      **options: See `ExportOptions`.

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

    Examples:
      >>> card = export.to_tflite(student, "student/model.tflite", data=data, lengths=(16,))
      >>> card.quantization, list(card.signatures)
      ('dynamic_wi8_afp32', ['len16'])
    """
    return export_file(ExportRequest(model, path, **options))


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

    The manifest, which is returned, is the first file's.
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
    if plan.tokenizer is not None:
        contents[plan.paths.vocab] = plan.tokenizer.file_text.encode()
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
