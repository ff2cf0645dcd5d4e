"""Whether a file is built and answers as the model does: what decides if it is written."""

from __future__ import annotations

import dataclasses
import filecmp
import math
import os
import pathlib
from typing import Any

import numpy as np

from tfdistill import errors, files
from tfdistill.accelerators import gate, vendors
from tfdistill.accelerators.outcome import AcceleratorReport
from tfdistill.manifest import AcceleratorRecord, Parity
from tfdistill.tasks import metrics
from tfdistill.tflite import editing, word_rows

from ..conversion import word_input
from ..conversion.plan import ExportPlan
from ..conversion.quantize import Bounds, quantization
from ..file import inspection
from ..file.inspection import ModelReport
from ..file.runtime import TfliteModel
from ..model import heads, inputs
from . import carried, golden, pairing, parity, ranges, rounding, simulation, structure
from .outputs import Answers, answers, file_outputs, model_logits, softmax_of
from .reference import Checked, Reference, check

__all__ = ["Answers", "Verification", "answers", "file_outputs", "model_logits", "verify"]

# A file may have four times the noise that its rounding has when it is computed in floats: the two
# round the same numbers, but sum them in another order, and the least difference moves a value
# that lies between two steps by a whole one. Measured: within 1 dB on 50 models.
_MARGIN_DB = 6.0
# Where scores are so large that attention jumps from one token to another, a few inputs have most
# of the noise, and not the same ones in both: there the noise of the median input decides.
_TIES = 0.05  # share of the classes that may change on top
_NOTHING = Bounds(math.inf, math.inf, -math.inf, 0.0, math.inf)


@dataclasses.dataclass(frozen=True)
class Verification:
    """What was found of a file that may be written.

    Attributes:
      report: What it holds.
      parity: How far it agrees with the model.
      golden: The content of golden.json.
      answers: What model and file answered.
      accelerators: What the accelerator that the file is for took of it; empty for a CPU.
    """

    report: ModelReport
    parity: Parity
    golden: dict[str, Any]
    answers: Answers
    accelerators: list[AcceleratorRecord]


def verify(
    plan: ExportPlan, file: pathlib.Path, reference: Reference, words: pathlib.Path | None = None
) -> Verification:
    """Checks a converted file: its structure, its network, its constants and its answers.

    Args:
      plan: What the file was made from.
      file: The file.
      reference: The float32 conversion of the same SavedModel. A float32 `file` that differs from
        it, by metadata, is checked itself.
      words: The file of the word table, of a form that takes rows of words.

    Returns:
      What was found.

    Raises:
      ExportError: If the file is not built as it should be.
      ParityError: If it is not the model in this number format; with every fault, a line each.
    """
    report = inspection.inspect(file)
    structure.check(report, structure.expectation(plan))
    examples = plan.examples
    chosen = inputs.probes(examples, plan.lengths)
    if plan.is_float and not filecmp.cmp(file, reference.file, shallow=False):
        reference = Reference(file)  # with metadata: what is written is what is checked
    if reference.checked is None:
        checked, faults = check(plan, reference.file, chosen)
        if faults:
            raise _refused(plan, file, "float32 conversion, ", faults)
        reference.checked = checked
    known = reference.checked
    bounds, outputs, table = plan.bounds, None, None
    if words is not None:
        table = word_rows.read(words)
        if faults := word_rows.faults(table, word_input.table_of(plan.model)):
            raise _refused(plan, file, "", faults)
    rows = None if table is None else table.rows
    faults = []
    if plan.is_float and table is None:
        outputs = None if plan.request.softmax else known.outputs
    elif plan.is_float:
        simulated = TfliteModel(reference.file, rows=_rounded_rows(plan))
        bounds, faults = _against_simulation(plan, _opened(file, rows), simulated, known)
    else:
        bounds, faults = _against_float(plan, file, reference.file, known, rows)
    if faults:
        raise _refused(plan, file, "", faults)
    if outputs is None:
        outputs = file_outputs(_opened(file, rows), examples)
    model = softmax_of(known.logits) if plan.request.softmax else known.logits
    found = Answers(known.logits, model, outputs)
    record, faults = _compare(plan, found, bounds)
    if faults:
        raise _refused(plan, file, "", faults)
    if plan.head.decodes_spans:
        chosen = inputs.whole_texts(examples, chosen)
    vectors = golden.content(plan, chosen, known.logits, outputs)
    return Verification(report, record, vectors, found, on_accelerator(plan, file, vectors, table))


def on_accelerator(
    plan: ExportPlan,
    file: pathlib.Path,
    vectors: dict[str, Any],
    words: word_rows.WordTable | None = None,
) -> list[AcceleratorRecord]:
    """Holds the answers of the accelerator that a file is for against the CPU's.

    Raises:
      ParityError: If it answers something else, or does not run the file.
    """
    if not plan.device.accelerator:
        return []
    wanted = vendors.parse(plan.device.accelerator)
    timeout_s = plan.request.timeout_s
    (found,) = gate.check(file, wanted, golden=vectors, words=words, timeout_s=timeout_s)
    if found.verdict == "wrong" or found.verdict == "failed":
        raise _refused(plan, file, f"{found.name} ({found.title}), ", [str(found.fault)])
    return [accelerator_record(found)]


def accelerator_record(found: AcceleratorReport) -> AcceleratorRecord:
    """Returns what a manifest says of an accelerator that did not fail."""
    signatures = found.signatures
    return AcceleratorRecord(
        name=found.name,
        title=found.title,
        verdict=found.verdict,  # pyright: ignore[reportArgumentType]
        delegated={own.signature: own.delegated for own in signatures},
        operators={own.signature: own.operators for own in signatures},
        sqnr_db={
            own.signature: None if own.answers is None else own.answers.sqnr_db
            for own in signatures
        },
    )


def _refused(
    plan: ExportPlan, file: pathlib.Path, where: str, faults: list[str]
) -> errors.ParityError:
    lines = "".join(f"\n  - {where}{fault}" for fault in faults)
    return errors.ParityError(
        f"{file.name} ({plan.quantization.name}) does not answer like the model and was not "
        f"written:{lines}"
    )


def _opened(file: pathlib.Path, rows: inputs.Rows | None) -> TfliteModel:
    return TfliteModel(file, threads=min(4, os.cpu_count() or 1), rows=rows)


def _against_float(
    plan: ExportPlan,
    file: pathlib.Path,
    float_file: pathlib.Path,
    known: Checked,
    rows: inputs.Rows | None,
) -> tuple[Bounds, list[str]]:
    """Holds a quantized file against the float32 one; returns the bounds that follow from it."""
    float_model, model = editing.read(float_file), editing.read(file)
    own: dict[str, carried.Places] = {}
    if plan.quantize_aware:
        for tree in (float_model, model):
            carried.split_activations(tree)
        own = carried.remove(float_model)
    pairs = pairing.pair(float_model, model, reshapes_move=plan.quantize_aware)
    faults = [fault for pair in pairs for fault in pair.faults]
    if faults:
        return plan.bounds, faults
    faults = rounding.check(float_model, model, pairs, carried=plan.quantize_aware)
    if plan.quantize_aware:
        faults += carried.check(own, pairs)
    else:
        faults += structure.wrong_types(plan, pairs) + structure.wrong_activations(plan, pairs)
    if plan.calibration is not None:
        real = plan.examples if plan.real_examples else None
        faults += ranges.check(float_file, pairs, plan.calibration, real, plan.float_rows)
    if faults:
        return plan.bounds, faults
    with files.temporary_folder("rounding") as folder:
        path = folder / "rounded.tflite"
        simulation.write(float_model, model, pairs, path)
        # Only now: what is wired wrongly may end the process that runs it.
        simulated = TfliteModel(path, rows=_rounded_rows(plan))
        return _against_simulation(plan, _opened(file, rows), simulated, known)


def _rounded_rows(plan: ExportPlan) -> inputs.Rows | None:
    """Looks up the rounded rows of the model's words, whatever is in the file of the table."""
    if not plan.device.word_rows:
        return None
    return word_rows.rounded(word_input.table_of(plan.model)).rows


def _against_simulation(
    plan: ExportPlan, file: TfliteModel, simulated: TfliteModel, known: Checked
) -> tuple[Bounds, list[str]]:
    """Holds a file's noise against the noise that its rounding has in floats."""
    rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    decided = []
    for group in known.groups:
        model = softmax_of(group.logits) if plan.request.softmax else group.logits
        expected = file_outputs(simulated, group.examples, length=group.length)
        received = file_outputs(file, group.examples, length=group.length)
        rows.append((model, expected, received))
        decided.append([plan.head.decisions(found, group.examples) for found in rows[-1]])
    model, expected, received = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    same = [
        None if parts[0] is None else np.concatenate(parts) for parts in zip(*decided, strict=True)
    ]
    rounded = parity.compare(model, expected, decisions=(same[0], same[1]))
    bounds = _expected(rounded).replace({"metric_drop": plan.bounds.metric_drop})
    agreement = parity.compare(model, received, decisions=(same[0], same[2]))
    faults = parity.violations(agreement, bounds, where="beyond the rounding of this format, ")
    if faults and np.isfinite(received).all():
        medians = [
            np.median(np.square(model - found).sum(axis=1)) for found in (expected, received)
        ]
        if medians[1] <= 10 ** (_MARGIN_DB / 10) * medians[0]:
            faults, bounds = [], bounds.loosest(_reached(agreement))
    asked = _NOTHING.replace(plan.request.bounds or {})
    return bounds.tightest(asked), faults


def _expected(rounded: parity.Agreement) -> Bounds:
    """Returns the bounds of a file from the agreement of its rounding in floats."""
    finest = quantization("float32").bounds
    sqnr = finest.sqnr_db if rounded.sqnr_db is None else rounded.sqnr_db - _MARGIN_DB
    factor = 10 ** (_MARGIN_DB / 20)
    own = _reached(rounded)
    changed = 1 - own.argmax_agreement
    return Bounds(
        max_error=2 * factor * own.max_error,  # of a few inputs: heavier tails than the mean
        mean_error=factor * own.mean_error,
        sqnr_db=sqnr,
        argmax_agreement=max(0.0, 1 - factor * changed - _TIES),
        metric_drop=finest.metric_drop,
    ).loosest(finest)


def _reached(agreement: parity.Agreement) -> Bounds:
    """Returns the bounds that an agreement just keeps."""
    scale = agreement.output_rms or 1.0
    return Bounds(
        agreement.max_abs_error / scale,
        agreement.mean_abs_error / scale,
        math.inf if agreement.sqnr_db is None else agreement.sqnr_db,
        1.0 if agreement.argmax_agreement is None else agreement.argmax_agreement,
        0.0,
    )


def _compare(plan: ExportPlan, found: Answers, bounds: Bounds) -> tuple[Parity, list[str]]:
    """Compares the answers of file and model; lists the bounds that are broken."""
    examples, task = plan.examples, plan.task
    agreement = parity.compare(
        found.model,
        found.file,
        decisions=[
            plan.head.decisions(outputs, examples, task) for outputs in (found.model, found.file)
        ],
    )
    # Without real examples a class says nothing; with them the task's metric decides, and what the
    # request asks for. The rest was held against what the format costs by itself.
    enforced = _NOTHING.replace(plan.request.bounds or {})
    if not plan.real_examples:
        enforced = dataclasses.replace(enforced, argmax_agreement=0.0)
    faults = parity.violations(agreement, enforced)
    model_metrics: dict[str, float] = {}
    file_metrics: dict[str, float] = {}
    if task is not None and examples.labels is not None and np.isfinite(found.file).all():
        model_metrics = metrics.score(task, found.logits, examples)
        file_metrics = metrics.score(task, found.file, examples)
        asked = "metric_drop" in (plan.request.bounds or {})
        allowed = parity.allowed_drop(
            bounds.metric_drop, heads.num_scored(examples), None if asked else agreement
        )
        bounds = dataclasses.replace(bounds, metric_drop=allowed)
        faults += parity.metric_violations(
            model_metrics, file_metrics, task.primary_metric, allowed
        )
    near: dict[str, float] = {}
    if plan.head.vectors:
        near = parity.compare_vectors(found.model, found.file)
    record = Parity(
        num_examples=len(examples),
        inputs="real" if plan.real_examples else "random",
        output_rms=agreement.output_rms,
        max_abs_error=agreement.max_abs_error,
        mean_abs_error=agreement.mean_abs_error,
        sqnr_db=agreement.sqnr_db,
        argmax_agreement=agreement.argmax_agreement,
        **near,
        model_metrics=model_metrics,
        file_metrics=file_metrics,
        bounds=bounds.as_dict(),
    )
    return record, faults
