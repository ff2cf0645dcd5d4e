"""The networks of the campaign: families and heads, random, trained and with large weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import compress, models
from tfdistill.data.batches import Batches
from tfdistill.models.heads import Head, build_model
from tfdistill.tasks.encoded import EncodedExamples

LENGTHS = (6, 12)
NUM_LABELS = 3
VOCAB_SIZE = 200
# What the examples use: half of the vocabulary and of the longest signature, so that faults in the
# rest are seen by nothing but the guard's own inputs.
KNOWN_IDS, KNOWN_LENGTH = 100, 8
WEIGHTS = ("random", "ordinary", "pytorch", "trained", "large")
_SHARED: dict[str, Any] = {
    "num_layers": 2,
    "hidden_size": 32,
    "num_heads": 4,
    "intermediate_size": 64,
    "vocab_size": VOCAB_SIZE,
    "max_positions": 16,
}
CONFIGS: dict[str, Any] = {
    "bert": models.EncoderConfig(family="bert", **_SHARED),
    "distilbert": models.EncoderConfig(
        family="distilbert", pooler=False, type_vocab_size=0, **_SHARED
    ),
    "mobilebert": models.MobileBertConfig(
        **{**_SHARED, "hidden_size": 64, "hidden_act": "relu"},
        embedding_size=32,
        bottleneck_size=32,
        num_feed_forward=2,
    ),
    "electra": models.EncoderConfig(
        family="electra", pooler=False, **{**_SHARED, "embedding_size": 16}
    ),
    "factorised": models.EncoderConfig(
        family="bert", embedding_size=32, **{**_SHARED, "hidden_size": 64}
    ),
    "bilstm": models.BiLstmConfig(
        embedding_size=48, hidden_size=40, dense_size=32, vocab_size=VOCAB_SIZE
    ),
}
HEADS = {
    "token": Head("token", NUM_LABELS),
    "span": Head("span", 2),
    "embedding": Head("embedding", 24),
}
# A family, and one of its variants: quantization-aware, with another head, with probabilities.
FAMILIES = (
    *CONFIGS, "bert-aware", "distilbert-aware", "mobilebert-aware", "bert-softmax", "bert-token",
    "bert-span", "bert-embedding", "electra-token",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class Network:
    """A model and the examples that an export of it is given.

    Attributes:
      name: Family, weights and seed.
      family: Of `FAMILIES`.
      model: The model.
      check_on: Examples to check on.
      calibrate_on: Others of the same kind.
    """

    name: str
    family: str
    model: keras.Model
    check_on: EncodedExamples
    calibrate_on: EncodedExamples

    @property
    def softmax(self) -> bool:
        """Whether the file gives probabilities."""
        return self.family.endswith("-softmax")


def build(family: str, weights: str, seed: int) -> Network:
    """Builds a network.

    Args:
      family: Of `FAMILIES`.
      weights: "random": as initialised; "ordinary": every bias and scale counts; "pytorch": the
        same with a row of zeros for [PAD]; "trained": some steps on labels that depend on the ids,
        for a classifier of texts, otherwise as "ordinary"; "large": as "random", matrices times
        ten.
      seed: Seed of everything that is drawn.
    """
    keras.utils.set_random_seed(seed)
    base, _, variant = family.partition("-")
    config = CONFIGS[base]
    random = np.random.default_rng(seed)
    model = build_model(config, HEADS.get(variant, Head("sequence", NUM_LABELS)))
    if variant in HEADS and weights == "trained":
        weights = "ordinary"
    if weights == "large":
        model.set_weights([10 * w if w.ndim > 1 else w for w in model.get_weights()])
    elif weights in ("ordinary", "pytorch"):
        _make_ordinary(model, random)
        if weights == "pytorch":
            table = model.get_layer("word_embeddings").embeddings
            table.assign(np.concatenate([np.zeros((1, table.shape[1])), table.numpy()[1:]]))
    elif weights == "trained":
        _train(model, config, random)
    check_on, calibrate_on = (examples(config, count, seed + n) for count, n in ((32, 1), (64, 2)))
    if variant == "aware":
        model = compress.quantize_aware(model)
        observe(model, calibrate_on)
    return Network(f"{family}-{weights}-{seed}", family, model, check_on, calibrate_on)


def observe(model: keras.Model, encoded: EncodedExamples) -> None:
    """Gives a quantization-aware model the ranges of some texts."""
    batches = Batches(encoded, batch_size=16, shuffle=False, max_length=max(LENGTHS))
    for indices in batches.plan(0):
        features: Any = batches.batch(indices)
        compress.observe(model, [{name: tf.constant(features[name]) for name in model.input_names}])


def examples(config: Any, count: int, seed: int) -> EncodedExamples:
    """Draws texts of known ids, up to `KNOWN_LENGTH` long, every third a pair."""
    random = np.random.default_rng(seed)
    sizes = random.integers(3, KNOWN_LENGTH + 1, count)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ids = random.integers(5, KNOWN_IDS, offsets[-1]).astype(np.int32)
    types = np.concatenate([
        (np.arange(size) >= size // 2) & (number % 3 == 0) & (config.type_vocab_size > 0)
        for number, size in enumerate(sizes.tolist())
    ])  # fmt: skip
    return EncodedExamples(ids, offsets, types.astype(np.uint8))


def _make_ordinary(model: keras.Model, random: np.random.Generator) -> None:
    for layer in model.layers:
        new = []
        for weight in layer.get_weights():
            noise = random.standard_normal(weight.shape)
            if weight.ndim == 1:
                new.append(weight + 0.1 * noise)
            else:
                scale = 1.0 if "embeddings" in layer.name else weight.shape[0] ** -0.5
                new.append(noise * scale)
        layer.set_weights(new)


def _train(model: keras.Model, config: Any, random: np.random.Generator) -> None:
    """Trains to tell which third of the vocabulary the first token is of."""
    ids = random.integers(0, config.vocab_size, (512, KNOWN_LENGTH))
    labels = ids[:, 0] * NUM_LABELS // config.vocab_size
    features = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }
    inputs = {name: tf.constant(features[name], tf.int32) for name in model.input_names}
    model.compile(keras.optimizers.Adam(2e-3), keras.losses.SparseCategoricalCrossentropy(True))
    model.fit(inputs, labels, batch_size=64, epochs=8, verbose=0)
