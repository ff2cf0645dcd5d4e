"""`to_tflite`: a trained model becomes one checked file for phones, or none at all."""

from __future__ import annotations

import inspect
import json
import pathlib
import shutil
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import analysis, errors, files
from tfdistill.data import answers, vocab
from tfdistill.manifest import Manifest
from tfdistill.tasks import metrics
from tfdistill.tflite import word_rows

from ..checking.outputs import model_logits
from ..checking.reference import Reference
from ..checking.verify import Verification, verify
from ..conversion import convert, word_input
from ..conversion.plan import ExportPlan, make_plan
from ..file import bundle
from ..file import metadata as tflite_metadata
from ..model.request import ExportRequest
from .manifest import build_manifest, with_variants

_SMALLEST = 1e-12  # probability whose logarithm is taken


def to_tflite(model: keras.Model, path: files.Path, **options: Any) -> Manifest:
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
        there is one of yours) and, where given, vocab.txt and labels.txt are written next to it.
      **options: `data`, `quantize`, `device`, `variants`, `layers`, `lengths`, `softmax`,
        `check_on`, `calibrate_on`, `num_calibration`, `seed`, `texts`, `task`, `vocab_file`,
        `lower_case`, `labels`, `bounds`, `metadata`, `answers`, `allow_weak`, `overwrite`, `name`
        and `timeout_s`, as `ExportRequest` documents them.

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
    request = ExportRequest(model, path, **options)
    manifest = export_file(request)
    bundle.write_card(request.path, manifest)
    return manifest


# What help() and completion show: the options with their defaults.
to_tflite.__signature__ = inspect.signature(ExportRequest).replace(  # pyright: ignore[reportFunctionMemberAccess]
    return_annotation=Manifest
)


def export_file(request: ExportRequest, reference: Reference | None = None) -> Manifest:
    """Plans, converts, verifies and writes one file; see `to_tflite`.

    Args:
      request: What is asked for.
      reference: The float32 conversion, where files of one model in several number formats share
        it; made and checked at the first of them.

    Returns:
      The manifest, as written to model.json.

    Raises:
      TfdistillError: What `to_tflite` lists.
    """
    paths = bundle.paths_of(request.path)
    plans = _plans(request)
    plan = plans[0]
    others: dict[pathlib.Path, bytes] = {}
    if request.vocab_file is not None:
        tokens = vocab.read_vocab(request.vocab_file)
        others[paths.vocab] = vocab.format_vocab(tokens).encode()
    if plan.labels:
        others[paths.labels] = "".join(f"{label}\n" for label in plan.labels).encode()
    places = [paths, *(paths.for_device(own.device.name) for own in plans[1:])]
    unknown = dict.fromkeys(file for own in places for file in (own.model, own.golden))
    if any(own.device.word_rows for own in plans):
        unknown[paths.words] = None
    bundle.check_free({**unknown, paths.manifest: None, **others}, overwrite=request.overwrite)
    if reference is None or reference.checked is None:
        _refuse_weak(plan)
    models: dict[pathlib.Path, bytes | pathlib.Path] = {}
    found = []
    with files.temporary_folder("export") as temporary:
        for own, place in zip(plans, places, strict=True):
            candidate = temporary / place.model.name
            words = None
            if own.device.word_rows:
                words = temporary / place.words.name
                table = word_rows.rounded(word_input.table_of(own.model))
                others[place.words] = word_rows.to_bytes(table)
                words.write_bytes(others[place.words])
            verified = _checked_file(own, candidate, reference if own is plan else None, words)
            golden = json.dumps(verified.golden, ensure_ascii=False) + "\n"
            others[place.golden] = golden.encode()
            if own is plan and (kept := _kept_answers(plan, verified)) is not None:
                others[paths.answers] = kept
            found.append(build_manifest(own, verified, place, others))
            models[place.model] = candidate
        manifest = with_variants(found)
        contents = {**models, **others}
        contents[paths.manifest] = (manifest.model_dump_json(indent=2) + "\n").encode()
        bundle.write(contents, obsolete=bundle.variant_files(paths.manifest))
    return manifest


def _refuse_weak(plan: ExportPlan) -> None:
    """Refuses a model near chance before it is converted, where its task and labels are known.

    Raises:
      StudentError: If it is, and the request does not allow it.
    """
    task, examples = plan.task, plan.examples
    if plan.request.allow_weak or task is None or examples.labels is None:
        return
    logits = model_logits(plan.model, examples, plan.lengths)
    if not np.isfinite(logits).all():  # the verification says so
        return
    reached = metrics.score(task, logits, examples)
    analysis.check_model("student", reached, task, analysis.gold_labels(examples))


def _plans(request: ExportRequest) -> list[ExportPlan]:
    """Plans the file that is asked for and its variants, on the same examples."""
    if not request.variants:
        return [make_plan(request)]
    if request.device in request.variants:
        raise errors.ConfigError(
            "variants", f"files for others than {request.device}", list(request.variants)
        )
    request = request.collected()
    return [
        make_plan(own)
        for own in (
            request,
            *(
                request.replace(device=device, quantize=quantize, variants={})
                for device, quantize in request.variants.items()
            ),
        )
    ]


def _checked_file(
    plan: ExportPlan,
    candidate: pathlib.Path,
    reference: Reference | None,
    words: pathlib.Path | None,
) -> Verification:
    """Converts the model of a plan into a file and verifies it."""
    request = plan.request
    folder = candidate.parent / plan.device.name  # each has its own form in float32, too
    reference = reference or Reference(folder / candidate.name)
    reference.file.parent.mkdir(exist_ok=True)
    reference = _convert(plan, candidate, reference)
    if plan.metadata and request.vocab_file is not None:
        tflite_metadata.attach(
            candidate,
            name=request.manifest_name,
            vocab_file=request.vocab_file,
            labels=plan.labels,
        )
    return verify(plan, candidate, reference, words)


def _kept_answers(plan: ExportPlan, verified: Verification) -> bytes | None:
    """The content of answers.safetensors; None where it is not asked for or nothing is labelled."""
    request = plan.request
    if not request.answers or request.texts is None or not plan.real_examples:
        return None
    file = verified.answers.file  # probabilities have logarithms as logits
    file = np.log(np.maximum(file, _SMALLEST)) if request.softmax else file
    given = {"model": verified.answers.logits, "file": file}
    kept = answers.of_examples(request.texts, given, model_sha256=verified.report.sha256)
    return None if kept is None else answers.to_bytes(kept)


def _convert(plan: ExportPlan, candidate: pathlib.Path, reference: Reference) -> Reference:
    """Converts the model of a plan, unless the last trial of the same model has done so.

    Returns:
      The float32 conversion that the file is held against.
    """
    asked = (plan.quantization, dict(plan.layers))
    if plan.is_float and plan.device.flat_ids:  # no file of other formats is made of this one
        convert.convert(plan, candidate)
        return Reference(candidate)
    if plan.is_float:
        if not reference.file.exists():
            convert.convert(plan, reference.file)
        shutil.copyfile(reference.file, candidate)
    elif asked == reference.converted:
        shutil.copyfile(reference.last, candidate)
    else:
        convert.convert(plan, candidate, reference.file)
        shutil.copyfile(candidate, reference.last)
        reference.converted = asked
    return reference
