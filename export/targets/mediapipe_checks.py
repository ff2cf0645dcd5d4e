"""The checks that a copy for MediaPipe is the exported file: `CHECKS`, before it is written.

`encode` is MediaPipe's reading of a text, from the same operators of tensorflow-text. It
lower-cases the letters of ASCII alone and strips no accent, so a text with others may become other
pieces than the model was trained on. Source: bert_preprocessor_calculator.cc and bert_tokenizer.cc
of MediaPipe 0.10.
"""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import string
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as text_ops

from tfdistill import errors
from tfdistill.data import batches
from tfdistill.io import checks
from tfdistill.manifest import Manifest
from tfdistill.tasks import Examples
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite import TfliteModel, agreement, golden
from tfdistill.tokenization.tokenizer import Tokenizer

from ..checking.outputs import file_outputs
from ..conversion import quantize
from ..file import metadata

_NUM_RANDOM = 8
_SMALLEST = 1e-12  # probability whose logarithm is taken
_log = logging.getLogger(__name__)
_PIECES = (
    r"[!-/]|[:-@]|[\[-`]|[{-~]|[\p{P}]|[\x{4E00}-\x{9FFF}]|[\x{3400}-\x{4DBF}]"
    r"|[\x{20000}-\x{2A6DF}]|[\x{2A700}-\x{2B73F}]|[\x{2B740}-\x{2B81F}]|[\x{2B820}-\x{2CEAF}]"
    r"|[\x{F900}-\x{FAFF}]|[\x{2F800}-\x{2FA1F}]"
)
_SEPARATORS = rf"(\s+|{_PIECES})"
_MAX_BYTES_PER_WORD = 100
_TO_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def encode(texts: Sequence[str], tokenizer: Tokenizer, length: int) -> EncodedExamples:
    """Encodes texts as MediaPipe does, cut to `length` tokens; without labels."""
    words = text_ops.regex_split(
        [text.translate(_TO_LOWER).encode("utf-8", "ignore") for text in texts],
        _SEPARATORS,
        rf"({_PIECES})",
    )
    keys = tf.constant(tokenizer.vocab)
    values = tf.range(tokenizer.vocab_size, dtype=tf.int64)
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(keys, values), num_oov_buckets=1
    )
    pieces = text_ops.WordpieceTokenizer(
        table, max_bytes_per_word=_MAX_BYTES_PER_WORD, token_out_type=tf.int64
    ).tokenize(words)
    rows = [
        [tokenizer.cls_id, *row[: length - 2], tokenizer.sep_id]
        for row in pieces.merge_dims(1, 2).to_list()
    ]
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    ids = np.concatenate(rows).astype(np.int32)
    return EncodedExamples(ids, offsets, np.zeros(len(ids), np.uint8), pad_id=tokenizer.pad_id)


@dataclasses.dataclass(frozen=True)
class WrittenCopy:
    """A copy, the exported file that it must be, and what follows from the two."""

    copy: pathlib.Path
    file: pathlib.Path  # the exported file
    folder: pathlib.Path  # the export's
    manifest: Manifest  # the export's
    length: int  # tokens of the copy
    # whether the copy gives the file's outputs, not their softmax at the temperature
    same_outputs: bool
    tokenizer: Tokenizer  # the export's
    labels: Sequence[str]  # the export's, in the order of the outputs
    texts: Examples | None  # texts of the task that MediaPipe's tokenizer splits, or None
    # the most that the task's metric may fall where it splits them otherwise; None: as much as the
    # number format may cost
    max_drop: float | None


def examples_of(
    manifest: Manifest, folder: pathlib.Path, length: int
) -> Sequence[tuple[Sequence[int], Sequence[int]]]:
    """Returns ids and types of the golden examples that fit a length, and of random ones."""
    examples: list[tuple[Sequence[int], Sequence[int]]] = []
    if manifest.golden_file is not None:
        for example in golden.read_golden(folder / manifest.golden_file.file):
            if len(example.input_ids) <= length:
                examples.append((example.input_ids, example.token_type_ids))
    random = np.random.default_rng(0)
    drawn = random.integers(0, manifest.architecture.vocab_size, (_NUM_RANDOM, length))
    return [*examples, *((ids.tolist(), [0] * length) for ids in drawn)]


def _packed(written: WrittenCopy) -> list[str]:
    """Compares vocabulary and labels inside of the copy with the export's."""
    return metadata.packed_faults(written.copy, tokenizer=written.tokenizer, labels=written.labels)


def _outputs(written: WrittenCopy) -> list[str]:
    """Compares the copy's outputs with the file's, or with their softmax."""
    worst = 0.0
    with TfliteModel(written.file, isolated=True) as file:
        copy = TfliteModel(written.copy)
        for ids, types in examples_of(written.manifest, written.folder, written.length):
            expected = np.asarray(file.predict(ids, types, length=written.length), np.float64)
            expected = expected.reshape(1, -1)
            if not written.same_outputs:
                expected = np.exp((expected - expected.max()) / written.manifest.temperature)
                expected /= expected.sum()
            received = copy.predict(ids, types).reshape(1, -1)
            worst = max(worst, agreement.compare(expected, received).max_abs_error)
    if worst <= agreement.SAME_OUTPUTS:
        return []
    bound = f"the file's answers within {agreement.SAME_OUTPUTS:g}"
    return [errors.explain("outputs", bound, f"a difference of {worst:.3g}")]


def _pieces(written: WrittenCopy) -> list[str]:
    """Counts the texts that MediaPipe splits otherwise, and measures what that costs."""
    texts = written.texts
    if texts is None or not len(texts.texts):
        return []
    ours = batches.encode_examples(texts, written.tokenizer, written.length)
    there = dataclasses.replace(
        encode(texts.texts, written.tokenizer, written.length),
        labels=ours.labels,
        task=ours.task,
    )
    other = [i for i in range(len(ours)) if not np.array_equal(ours.row(i), there.row(i))]
    told = f"MediaPipe's tokenizer splits {len(other)} of {len(ours)} texts into other pieces"
    if not other:
        _log.info(told)
        return []
    told += f", the first {errors.shortened(texts.texts[other[0]])!r}"
    if texts.labels is None:
        _log.warning(f"{told}; without labels what that costs is not known")
        return []
    copy = TfliteModel(written.copy)
    before, after = (_metrics(copy, texts, encoded) for encoded in (ours, there))
    primary = texts.spec.primary_metric
    bound = quantize.quantization(written.manifest.quantization).bounds.metric_drop
    # The same texts with other pieces: chance explains no more than one of them.
    allowed = max(bound, 1 / texts.num_scored)
    allowed = allowed if written.max_drop is None else written.max_drop
    _log.warning(f"{told}: {primary} {before[primary]:.4f} -> {after[primary]:.4f}")
    if not agreement.metric_violations(before, after, primary, allowed):
        return []
    return [
        errors.explain(
            f"{told}; {primary} there",
            f"a drop of at most {allowed:.4g}",
            f"{before[primary]:.4g} -> {after[primary]:.4g}",
            "Run the exported file with a tokenizer of ours (export --android), or train the "
            "student on texts in lower case without accents.",
        )
    ]


def _metrics(copy: TfliteModel, texts: Examples, encoded: EncodedExamples) -> dict[str, float]:
    outputs = file_outputs(copy, encoded)
    if not texts.spec.traits.vectors:
        outputs = np.log(np.maximum(outputs, _SMALLEST))
    return texts.spec.score(outputs, encoded)


CHECKS = (
    checks.Check("packed files", _packed),
    checks.Check("outputs", _outputs),
    checks.Check("pieces", _pieces, ("packed files", "outputs")),
)
