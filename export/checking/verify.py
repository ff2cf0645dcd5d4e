"""The checks that decide if a file is written: it is built and answers as the model does.

Every check is in one of two lists. `STATIC` reads the file, `RUNNING` runs it: what is wired
wrongly may end the process. All checks of a list are made, and all faults are told at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tfdistill import errors
from tfdistill.compress import rebuild
from tfdistill.io import checks, files
from tfdistill.manifest import Parity
from tfdistill.tflite import editing
from tfdistill.tflite.inspection import ModelReport

from ..conversion.convert import Converted
from . import carried, quantized, reference, structure
from .evidence import Evidence, FloatConversion
from .outputs import Answers


@dataclasses.dataclass(frozen=True)
class FileCheck(checks.Check):
    """One thing that must be true of a file."""

    # whether it is about the float32 conversion: made once for all files of it
    of_float: bool = False


def _unrounded(evidence: Evidence) -> list[str]:
    """Holds the network of a quantization-aware model without the rounding of its activations.

    With it a value on the border between two steps hides what is wrong; without it 80 dB hold.
    """
    plan = evidence.plan
    if not plan.quantize_aware:
        return []
    tree = editing.read(evidence.float_file)
    carried.remove(tree)
    model = rebuild.with_rounded_matrices(plan.model)
    plain = dataclasses.replace(
        plan,
        request=plan.request.replace(model=model),
        model=model,
        quantize_aware=False,
        examples=plan.examples.select(evidence.probes),
    )
    with files.temporary_folder("unrounded") as folder:
        path = folder / "unrounded.tflite"
        editing.write(tree, path)
        inner = Evidence(Converted(plain, path, path), folder)
        faults = verdicts([each for each in (*STATIC, *RUNNING) if each.of_float], inner)
        return [f"without its rounding, {line}" for lines in faults.values() for line in lines]


_BUILT = ("signatures", "operators")
STATIC = (
    FileCheck("signatures", structure.signatures, error=errors.ExportError),
    FileCheck("operators", structure.operators, error=errors.ExportError),
    FileCheck("versions", structure.versions, error=errors.ExportError),
    FileCheck("packed files", structure.packed_files, error=errors.ExportError),
    FileCheck("numbers of the model", reference.numbers, _BUILT, of_float=True),
    FileCheck("trained weights", reference.weights, _BUILT, of_float=True),
    FileCheck("activations of the model", reference.operators, _BUILT, of_float=True),
    FileCheck("tables of the model", reference.tables, _BUILT, of_float=True),
    FileCheck("network", quantized.network, _BUILT),
    FileCheck("constants", quantized.constants, ("network",)),
    FileCheck("places of rounding", quantized.places_of_rounding, ("network",)),
    FileCheck("types of matrices", structure.wrong_types, ("network",)),
    FileCheck("types of activations", structure.wrong_activations, ("network",)),
    FileCheck("equal ranges", quantized.equal_ranges, ("network",)),
    FileCheck("steps handed on", quantized.steps_handed_on, ("network",)),
)
RUNNING = (
    FileCheck("answers in float32", reference.answers, of_float=True),
    FileCheck("padding", reference.padding, of_float=True),
    FileCheck("noise of float32", reference.float_noise, of_float=True),
    FileCheck("unrounded network", _unrounded, of_float=True),
    FileCheck("ranges of the data", quantized.ranges_of_data),
    FileCheck("noise of the format", quantized.beyond_rounding),
    FileCheck("bounds", quantized.beyond_bounds),
    FileCheck("metric", quantized.fallen_metric),
)


@dataclasses.dataclass(frozen=True)
class Verified:
    """A file that may be written."""

    converted: Converted
    report: ModelReport  # what the file holds
    parity: Parity  # how far it agrees with the model
    golden: dict[str, Any]  # the content of golden.json
    answers: Answers  # what model and file answered


def verify(converted: Converted, floats: FloatConversion | None = None) -> Verified:
    """Makes all checks of a converted file, those of `floats`, which other files share, only once.

    Raises ExportError if it is not built as it should be, and ParityError, with a line for each
    fault, if it is not the model in this number format.
    """
    with files.temporary_folder("verify") as folder:
        evidence = Evidence(converted, folder, None if floats is None else floats.reference)
        for listed in (STATIC, RUNNING):
            faults = verdicts(listed, evidence)
            of_float = any(each.of_float and each.name in faults for each in listed)
            if floats is not None and listed is RUNNING and not of_float:
                floats.reference = evidence.reference
            if faults:
                raise _refusal(evidence, listed, faults)
        return Verified(
            converted,
            evidence.report,
            quantized.record(evidence),
            evidence.golden,
            Answers(evidence.logits, evidence.outputs),
        )


def verdicts(listed: Sequence[FileCheck], evidence: Evidence) -> dict[str, list[str]]:
    """Makes the checks of a list; returns the faults of those that found any, by name."""
    passed_before = evidence.float_is_checked
    return checks.verdicts(
        [each for each in listed if not (each.of_float and passed_before)], evidence
    )


def _refusal(
    evidence: Evidence, listed: Sequence[FileCheck], faults: Mapping[str, list[str]]
) -> errors.ExportError:
    failed = [check for check in listed if check.name in faults]
    kind = failed[0].error
    where = {True: "float32 conversion, ", False: ""}
    lines = "".join(
        f"\n  - {where[check.of_float]}{fault}" for check in failed for fault in faults[check.name]
    )
    name = evidence.file.name
    if kind is errors.ParityError:
        quantization = evidence.plan.quantization.name
        return kind(f"{name} ({quantization}) does not answer like the model and was not "
                    f"written:{lines}")  # fmt: skip
    return kind(f"{name} is not built as it should be and was not written:{lines}")
