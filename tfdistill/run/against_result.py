"""What came of the comparison of a file with a folder, and how a terminal shows it."""

from __future__ import annotations

import dataclasses

from tfdistill.tflite.agreement import Agreement


@dataclasses.dataclass(frozen=True)
class OutputParity:
    """How far an output of the file agrees with the folder's model."""

    output: str
    role: str  # one of `against.OUTPUTS`
    agreement: Agreement  # of all examples; rows are examples or, of outputs over tokens, tokens
    faults: tuple[str, ...]  # the bounds that it breaks


@dataclasses.dataclass(frozen=True)
class WorstText:
    """A text that the file answers least like the folder's model."""

    text: str
    tokens: tuple[str, ...]
    sqnr_db: float | None  # the lowest of its outputs; None where all are equal bit for bit


@dataclasses.dataclass(frozen=True)
class FolderComparison:
    """A file against a folder."""

    file: str
    folder: str
    lengths: tuple[int, ...]  # that were compared
    num_examples: int
    num_words: int  # entries of the vocabulary among the examples
    outputs: tuple[OutputParity, ...]
    worst: tuple[WorstText, ...]  # those that differ most
    checked: tuple[str, ...]  # what else was compared: "vocabulary", "labels"
    notes: tuple[str, ...]  # what could not be compared, and why
    faults: tuple[str, ...]  # all that speaks against the file; empty for a right conversion


def format_text(comparison: FolderComparison) -> str:
    """Writes a comparison for a terminal, without a final line break."""
    verdict = "DIFFERS" if comparison.faults else "agrees"
    lengths = ", ".join(map(str, comparison.lengths))
    lines = [
        f"{comparison.file} against {comparison.folder}: {verdict} on {comparison.num_examples} "
        f"examples of up to {lengths} tokens, {comparison.num_words} entries of the vocabulary"
    ]
    for parity in comparison.outputs:
        measured = parity.agreement
        ratio = measured.sqnr_db
        words = [
            f"largest difference {measured.max_abs_error:.3g}",
            "equal bit for bit" if ratio is None else f"SQNR {ratio:.1f} dB",
        ]
        if measured.argmax_agreement is not None:
            words.append(f"argmax agreement {measured.argmax_agreement:.4f}")
        lines.append(f"  {parity.output} ({parity.role}): {', '.join(words)}")
    lines += [f"  {what}: as the folder's" for what in comparison.checked]
    for text in comparison.worst:
        sqnr = "equal" if text.sqnr_db is None else f"{text.sqnr_db:.1f} dB"
        lines.append(f"  worst text, {sqnr}: {text.text!r} [{' '.join(text.tokens)}]")
    lines += [f"  FAULT: {fault}" for fault in comparison.faults]
    return "\n".join([*lines, *(f"  note: {note}" for note in comparison.notes)])
