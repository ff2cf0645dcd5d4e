"""A teacher's answers about words and places of texts, at the pieces of a student.

A word is answered at its first piece, a character at the piece that covers it, whatever tokenizer
the teacher has.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np
import scipy.special

from tfdistill import errors
from tfdistill.data import answer_logits
from tfdistill.data.given_answers import AnswerFile
from tfdistill.data.located_answers import ENDS, NO_CHANCE
from tfdistill.tasks import conll
from tfdistill.tasks.encoded import EncodedExamples, spans
from tfdistill.tasks.spec import TaskSpec


def place(
    read: Sequence[AnswerFile],
    rows: Sequence[np.ndarray],
    encoded: EncodedExamples,
    spec: TaskSpec,
    temperatures: Sequence[float] = (),
) -> np.ndarray:
    """The teacher's logits at the pieces of a student.

    Words: the logits of a word stand at its first piece, and 0 at all others, which have no label
    and so no loss. Several files: `answer_logits.combine`.

    Spans: let z_u be the logits of the ranges [a_u, b_u) of a question, divided by the file's
    temperature, and P_u their softmax, of starts and of ends by itself. In a window that shows the
    pieces [s_p, e_p) of the context:

        start:  P(p) = sum of P_u where p is the first piece with e_p > a_u
        end:    P(p) = sum of P_u where p is the last piece with s_p < b_u
        P([CLS]) = P of "no answer" + sum of P_u of the ranges that start (end) outside the window

    and 0 at the question and the separators, so P sums to 1 as a softmax over the window does; gold
    answers are labelled alike. The logit of a sum is the log of the sum of ``exp(z_u)``: that of
    one range stays as it is, to the bit. Several files: ``log(mean of P)``.

    Examples without a row get their gold labels, certain.

    Args:
      read: The files.
      rows: For each file the row of each example, int64 (n,), -1 where there is none.
      encoded: The n examples as rows of pieces, with labels.
      spec: The task.
      temperatures: Of each file; 1 when left out.

    Returns:
      float32 (tokens, labels), of spans (tokens, 2).

    Raises:
      DataError: If a row found by its key has ranges outside the context.
    """
    known = np.min(rows, axis=0) >= 0  # (n,)
    if spec.kind == "token":
        return _at_words(read, rows, known, encoded, spec, temperatures)
    return _at_windows(read, rows, known, encoded, temperatures or [1.0] * len(read))


def _at_words(
    read: Sequence[AnswerFile],
    rows: Sequence[np.ndarray],
    known: np.ndarray,
    encoded: EncodedExamples,
    spec: TaskSpec,
    temperatures: Sequence[float],
) -> np.ndarray:
    assert encoded.labels is not None and encoded.sources is not None
    firsts = np.flatnonzero(encoded.labels != conll.UNLABELLED)  # in the order of the words
    counts = np.bincount(np.repeat(encoded.sources, encoded.lengths)[firsts], minlength=len(known))
    answered = np.repeat(known, counts)
    of_words = np.zeros((len(firsts), spec.num_labels), np.float32)
    if known.any():
        parts = [
            file.logits[spans(file.starts[found[known]], counts[known])]
            for file, found in zip(read, rows, strict=True)
        ]
        of_words[answered] = answer_logits.combine(parts, spec.kind, temperatures)
    of_words[~answered] = answer_logits.of_gold(encoded.labels[firsts[~answered]], spec)
    placed = np.zeros((encoded.num_tokens, spec.num_labels), np.float32)
    placed[firsts] = of_words
    return placed


def _at_windows(
    read: Sequence[AnswerFile],
    rows: Sequence[np.ndarray],
    known: np.ndarray,
    encoded: EncodedExamples,
    temperatures: Sequence[float],
) -> np.ndarray:
    sources, found = encoded.sources, encoded.span_sources
    assert sources is not None and found is not None and encoded.labels is not None
    placed = np.full((encoded.num_tokens, len(ENDS)), NO_CHANCE, np.float32)
    for window, source in enumerate(sources.tolist()):
        begin, end = encoded.offsets[window : window + 2].tolist()
        if not known[source]:
            placed[begin + encoded.labels[window], [0, 1]] = 0.0
            continue
        # Between its first and its last window a question ends at the pieces that they show.
        alone = (
            (window == 0 or sources[window - 1] != source),
            (window + 1 == len(sources) or sources[window + 1] != source),
        )
        context = found.questions[source].context
        tables = []
        for file, of_file, temperature in zip(read, rows, temperatures, strict=True):
            row = int(of_file[source])
            units = slice(int(file.starts[row]), int(file.starts[row + 1]))
            assert file.offsets is not None
            ranges = _trimmed(file.offsets[units], context, file.path)
            logits = file.logits[units] / np.float32(temperature)
            tables.append(_in_window(ranges, logits, found.characters[begin:end], alone))
        placed[begin:end] = _mean(tables)
    return placed


def _trimmed(ranges: np.ndarray, context: str, path: pathlib.Path) -> np.ndarray:
    """Ranges without blanks at their ends, which some tokenizers count and others do not."""
    trimmed = []
    for begin, end in ranges.tolist():
        if end > len(context):
            raise errors.DataError(
                f"{path}, 'offsets'",
                f"ranges inside the {len(context)} characters of {errors.shortened(context)!r}",
                [begin, end],
            )
        text = context[begin:end]
        blanks = len(text) - len(text.lstrip())
        solid = text.strip()
        trimmed.append((begin + blanks, begin + blanks + len(solid)) if solid else (begin, end))
    return np.array(trimmed, np.int64)


def _in_window(
    ranges: np.ndarray, logits: np.ndarray, characters: np.ndarray, alone: tuple[bool, bool]
) -> np.ndarray:
    """The logits of the tokens of a window, float32 (tokens, 2); see `place`.

    Args:
      ranges: int64 (units, 2).
      logits: float32 (units, 2).
      characters: Those of the tokens, int32 (tokens, 2), -1 outside the context.
      alone: Whether no other window begins before, and none ends after this one.
    """
    pieces = np.flatnonzero(characters[:, 0] >= 0)
    placed = np.full((len(characters), len(ENDS)), -np.inf)
    begins, ends = characters[pieces].T
    answers = ranges[:, 1] > ranges[:, 0]
    for column in range(len(ENDS)):
        tokens = np.zeros(len(ranges), np.int64)  # [CLS]
        if len(pieces):
            character = ranges[:, 0] if column == 0 else ranges[:, 1] - 1
            inside = answers & (alone[0] | (character >= begins[0]))
            inside &= alone[1] | (character < ends[-1])
            found = (
                np.searchsorted(ends, character, side="right")
                if column == 0
                else np.searchsorted(begins, character, side="right") - 1
            )
            found = np.clip(found, 0, len(pieces) - 1)
            tokens = np.where(inside, pieces[found], 0)
        np.logaddexp.at(placed[:, column], tokens, logits[:, column].astype(np.float64))
    return np.maximum(placed, NO_CHANCE).astype(np.float32)


def _mean(tables: Sequence[np.ndarray]) -> np.ndarray:
    """The logits of the mean of softmaxes over tokens; of one table itself."""
    if len(tables) == 1:
        return tables[0]
    exact = [scipy.special.softmax(table.astype(np.float64), axis=0) for table in tables]
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(np.mean(exact, axis=0)), NO_CHANCE).astype(np.float32)
