"""The model's and the file's answers over the same examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
import tqdm

from tfdistill import errors, models
from tfdistill.data import batches as batching
from tfdistill.data.encoded import EncodedExamples
from tfdistill.models import EncoderConfig, MobileBertConfig

from . import parity, rows
from .quantize import Bounds
from .runtime import TfliteModel

NUM_RANDOM = 32  # examples drawn where none are given
NUM_PROBES = 32  # examples that go through every signature, and into golden.json
# Between the signatures of one file: they were found equal bit for bit in dynamic_wi8_afp32 and
# to 1e-5 in float32; a fault in one of them is of the size of the outputs.
SAME_FILE = Bounds(
    max_error=0.01, mean_error=1e-3, sqnr_db=50.0, argmax_agreement=0.95, metric_drop=0.0
)
_BATCH_SIZE = 32
_FIRST_ORDINARY_ID = 5  # below it vocabularies hold special tokens


@dataclasses.dataclass(frozen=True)
class Answers:
    """What model and file say: a row for each example or, by heads over tokens, for each token.

    Attributes:
      logits: The model's logits, float32 (rows, num_labels), see `export.rows`.
      model: The model's outputs as the file should give them: logits, or probabilities.
      file: The file's outputs.
    """

    logits: np.ndarray
    model: np.ndarray
    file: np.ndarray


def collect(check_on: Any, name: str = "check_on") -> EncodedExamples:
    """Brings the examples to check on into one form.

    Args:
      check_on: `EncodedExamples`, `Batches`, or any iterable of batches (features by name,
        optionally followed by labels) such as a tf.data.Dataset.
      name: What errors call it.

    Returns:
      The examples without padding.

    Raises:
      DataError: If there is none, or the batches hold no ids and mask.
    """
    if isinstance(check_on, batching.Batches):
        encoded = check_on.encoded
    elif isinstance(check_on, EncodedExamples):
        encoded = check_on
    else:
        encoded = _unpadded(check_on, name)
    if not len(encoded):
        raise errors.DataError(errors.explain(name, "at least one example", "none"))
    return encoded


def draw(config: EncoderConfig, lengths: Sequence[int], seed: int = 0) -> EncodedExamples:
    """Draws examples of random ids, for want of real ones.

    Args:
      config: The encoder that they are for.
      lengths: Sequence lengths; the examples fill between half and all of each in turn.
      seed: Seed of the draw.

    Returns:
      `NUM_RANDOM` examples without labels.
    """
    random = np.random.default_rng(seed)
    sizes = [
        int(random.integers(max(2, length // 2), length + 1))
        for length, _ in zip(np.resize(lengths, NUM_RANDOM), range(NUM_RANDOM), strict=True)
    ]
    lowest = min(_FIRST_ORDINARY_ID, config.vocab_size - 1)
    ids = random.integers(lowest, config.vocab_size, sum(sizes)).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    types = np.zeros(len(ids), np.uint8)
    return EncodedExamples(ids, offsets, types, pad_id=config.pad_token_id)


def check_examples(
    encoded: EncodedExamples,
    config: EncoderConfig,
    lengths: Sequence[int],
    name: str = "check_on",
) -> None:
    """Checks that every example fits the longest signature and the vocabulary.

    Args:
      encoded: The examples.
      config: The encoder that they are for.
      lengths: Sequence lengths of the file.
      name: What errors call the examples.

    Raises:
      DataError: If one does not; the message names it.
    """
    longest = int(encoded.lengths.max())
    if longest > max(lengths):
        raise errors.DataError(
            errors.explain(
                name,
                f"at most {max(lengths)} tokens, the longest of lengths",
                f"{longest} in example {int(encoded.lengths.argmax())}",
                f"Encode it with max_length={max(lengths)}, or export with a longer length.",
            )
        )
    worst = int(encoded.ids.max())
    if worst >= config.vocab_size or int(encoded.ids.min()) < 0:
        raise errors.DataError(
            errors.explain(
                name,
                f"token ids from 0 to {config.vocab_size - 1}, the model's vocabulary",
                worst if worst >= config.vocab_size else int(encoded.ids.min()),
                "Encode it with the vocabulary of the model.",
            )
        )


def model_logits(
    model: keras.Model, encoded: EncodedExamples, lengths: Sequence[int] | None = None
) -> np.ndarray:
    """Runs the model in inference mode; float32 (rows, num_labels), see `export.rows`.

    Args:
      model: A classifier of texts or tokens, or a model of spans.
      encoded: The examples.
      lengths: Pads each example to the shortest of these that holds it, as the file does; None
        pads to the longest of a batch.
    """
    if lengths is not None:
        bucket = np.searchsorted(sorted(lengths), encoded.lengths)
        groups = [np.flatnonzero(bucket == i) for i in range(len(lengths))]
        parts = [
            _logits(model, encoded.select(group), length)
            for length, group in zip(sorted(lengths), groups, strict=True)
            if len(group)
        ]
        order = np.concatenate(groups)
    else:
        parts, order = [_logits(model, encoded, None)], np.arange(len(encoded))
    logits = np.concatenate(parts)
    ordered = np.empty_like(logits)
    ordered[rows.rows_of(encoded, models.head_of(model), order)] = logits
    return ordered


def _logits(model: keras.Model, encoded: EncodedExamples, length: int | None) -> np.ndarray:
    """The same for examples padded to `length`, or to the longest of a batch."""
    unlabelled = dataclasses.replace(encoded, labels=None, weights=None)
    batches = batching.Batches(
        unlabelled,
        batch_size=_BATCH_SIZE,
        shuffle=False,
        bucketing=length is None,
        max_length=length,
    )
    plan = batches.plan(0)
    head = models.head_of(model)
    parts = []
    for indices in plan:
        features = batches.batch(indices)
        inputs = {name: tf.constant(features[name]) for name in model.input_names}
        answer = model(inputs, training=False).numpy()
        if head != "sequence":  # (batch, tokens, width): padding is left out
            answer = answer[np.arange(answer.shape[1]) < encoded.lengths[indices][:, None]]
        parts.append(answer)
    logits = np.concatenate(parts)
    ordered = np.empty_like(logits)
    ordered[rows.rows_of(encoded, head, np.concatenate(plan))] = logits
    return ordered


def file_outputs(
    file: TfliteModel, encoded: EncodedExamples, *, length: int | None = None
) -> np.ndarray:
    """Runs the file on each example; float32 (rows, num_labels), see `export.rows`.

    Args:
      file: The opened file.
      encoded: The examples.
      length: Sequence length for all; None takes the shortest signature for each.
    """
    examples = tqdm.tqdm(
        range(len(encoded)),
        desc="Checking the file",
        unit="example",
        disable=None if length is None else True,  # None: shown on a terminal only
        leave=False,
    )
    outputs = [
        file.predict(encoded.row(i), encoded.row_types(i), length=length, pad_id=encoded.pad_id)
        for i in examples
    ]
    return np.stack(outputs) if file.head == "sequence" else np.concatenate(outputs)


def answers(
    model: keras.Model, file: TfliteModel, encoded: EncodedExamples, *, softmax: bool
) -> Answers:
    """Asks model and file the same questions, with the same padding."""
    logits = model_logits(model, encoded, file.lengths)
    return Answers(logits, softmax_of(logits) if softmax else logits, file_outputs(file, encoded))


def probes(encoded: EncodedExamples, lengths: Sequence[int], count: int = NUM_PROBES) -> np.ndarray:
    """Chooses examples that cover the signatures and, within each, short and long inputs.

    Args:
      encoded: The examples.
      lengths: Sequence lengths, ascending.
      count: The most to choose.

    Returns:
      int64, ascending indices; all examples where there are no more than `count`.
    """
    if len(encoded) <= count:
        return np.arange(len(encoded))
    bucket = np.searchsorted(lengths, encoded.lengths)  # the shortest signature that fits
    groups = [np.flatnonzero(bucket == i) for i in range(len(lengths))]
    chosen: list[int] = []
    # Smallest group first, so that what it cannot fill goes to the others.
    for left, group in enumerate(sorted(groups, key=len)):
        share = min(len(group), (count - len(chosen)) // (len(groups) - left))
        by_length = group[np.argsort(encoded.lengths[group], kind="stable")]
        places = np.linspace(0, len(group) - 1, share).round().astype(int)
        chosen.extend(int(index) for index in by_length[places])
    return np.array(sorted(chosen))


def whole_texts(
    encoded: EncodedExamples, chosen: np.ndarray, count: int = NUM_PROBES
) -> np.ndarray:
    """Completes a choice of examples so that every text in it has all its examples.

    Args:
      encoded: The examples.
      chosen: int, ascending indices.
      count: The most examples; texts that would exceed it are left out, but for the first.

    Returns:
      int64, ascending indices.
    """
    if encoded.sources is None:
        return chosen
    kept: list[int] = []
    for source in dict.fromkeys(encoded.sources[chosen].tolist()):
        own = np.flatnonzero(encoded.sources == source).tolist()
        if not kept or len(kept) + len(own) <= count:
            kept += own
    return np.array(sorted(kept))


def comparable(
    encoded: EncodedExamples, config: EncoderConfig, lengths: Sequence[int]
) -> np.ndarray:
    """Returns the indices of the examples that every signature must answer alike.

    All of them, but for a model with trigrams: there the last token sees whether padding follows,
    so an example that fills its signature has another answer in a longer one.
    """
    trigram = isinstance(config, MobileBertConfig) and config.trigram
    return np.flatnonzero(~np.isin(encoded.lengths, lengths) | (not trigram))


def signature_faults(
    file: TfliteModel, encoded: EncodedExamples, outputs: np.ndarray, bounds: Bounds = SAME_FILE
) -> list[str]:
    """Runs examples through every signature that holds them and lists where the answers differ.

    Short examples in a long signature are mostly padding, so this is also the check that padding
    changes nothing. It needs no model: the signatures hold the same numbers in the same format, so
    they must agree much more closely than a quantized file agrees with its model.

    Args:
      file: The opened file.
      encoded: A few examples.
      outputs: The file's outputs for them through the shortest signature that holds each.
      bounds: How far the signatures may differ. With static activations they do, each storing its
        rows of positions with a scale of its own.

    Returns:
      One line for each broken bound.
    """
    faults = []
    for length in file.lengths:
        fitting = np.flatnonzero(encoded.lengths <= length)
        if len(fitting):
            short = encoded.select(fitting)
            said = outputs[rows.rows_of(encoded, file.head, fitting)]
            again = file_outputs(file, short, length=length)
            decided = [rows.decisions(answer, short, file.head) for answer in (said, again)]
            agreement = parity.compare(said, again, decisions=decided)
            faults += parity.violations(agreement, bounds, where=f"len{length}: ")
    return faults


def softmax_of(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis, computed in float64 and returned as float32."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    powers = np.exp(shifted)
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)


def _unpadded(batches: Iterable[Any], name: str) -> EncodedExamples:
    ids, types, sizes, labels = [], [], [], []
    of_tokens = False
    for batch in batches:
        features, *targets = batch if isinstance(batch, tuple | list) else (batch,)
        try:
            given = {key: np.asarray(features[key]) for key in ("input_ids", "attention_mask")}
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise errors.DataError(
                errors.explain(
                    name,
                    "Batches, EncodedExamples or batches of features by name",
                    f"{type(features).__name__} ({error!r})",
                )
            ) from error
        kinds = given["input_ids"].dtype, given["attention_mask"].dtype
        if any(kind.kind not in "iub" for kind in kinds):
            raise errors.DataError(
                errors.explain(
                    f"{name}, input_ids and attention_mask",
                    "whole numbers (int32)",
                    " and ".join(str(kind) for kind in kinds),
                    "Batches of `tfdistill.data` have them.",
                )
            )
        mask = given["attention_mask"] > 0
        token_types = np.asarray(features.get("token_type_ids", np.zeros_like(mask)))
        ids.append(given["input_ids"][mask])
        types.append(token_types[mask])
        sizes.append(mask.sum(axis=1))
        if targets and targets[0] is not None:
            gold = np.asarray(targets[0])
            of_tokens = gold.shape == mask.shape and gold.dtype.kind == "i"  # a label a position
            labels.append(gold[mask] if of_tokens else gold)
    if not ids:
        raise errors.DataError(errors.explain(name, "at least one batch", "none"))
    return EncodedExamples(
        ids=np.concatenate(ids).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64),
        types=np.concatenate(types).astype(np.uint8),
        labels=np.concatenate(labels) if labels else None,
        token_labels=of_tokens,
    )
