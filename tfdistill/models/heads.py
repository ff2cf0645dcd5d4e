"""Heads of models: what they answer, how they are built, and how a model tells its own."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import tf_keras as keras

from tfdistill.models import bert, classifiers, embedding, pretraining
from tfdistill.models.config import EncoderConfig
from tfdistill.models.layers import layer_of
from tfdistill.tasks import registry

_DEVIATION = 0.02  # BERT's own


@dataclasses.dataclass(frozen=True)
class Head:
    """The head of a model: what it answers, and how it is built.

    Attributes:
      kind: "none" (an encoder), "sequence" (`build_classifier`), "token", "span", "masked_lm" or
        "embedding" (`build_embedder`).
      num_labels: Width of a classifier's logits: 1 for a regression, 2 for a span; of an embedding
        the width of its vectors, 0 for that of the encoder; otherwise 0.
      next_sentence: Whether a masked LM also predicts next sentences.
      pooling: Of an embedding, as for `build_embedder`.
      projection: The same.
      normalize: The same.
      pooled: Whether a classifier of whole texts sees the pooled states that an embedding is made
        of, `pooling` and `normalize`, in the place of [CLS].
    """

    kind: str = "none"
    num_labels: int = 0
    next_sentence: bool = False
    pooling: str = "mean"
    projection: str | None = None
    normalize: bool = True
    pooled: bool = False

    @property
    def traits(self) -> HeadKind:
        """The traits of its kind."""
        return KINDS[self.kind]

    @property
    def bare(self) -> bool:
        """Whether a checkpoint with it holds an encoder as one alone does."""
        return self.traits.bare or self.pooled

    @property
    def over_tokens(self) -> bool:
        """Whether there are logits for every token."""
        return self.traits.over_tokens

    @property
    def answers_number(self) -> bool:
        """Whether a text has one output."""
        return self.traits.of_texts and self.traits.classifies and self.num_labels == 1

    @property
    def layer(self) -> str:
        """Name of the layer with the logits, of a masked LM the one with their bias."""
        return self.traits.layer


def head_for(task_head: str, num_labels: int) -> Head:
    """Returns the head that answers a task.

    Args:
      task_head: `TaskSpec.head`: several labels are answered as one label is.
      num_labels: `TaskSpec.num_labels`.
    """
    return Head(task_head if task_head in KINDS else "sequence", num_labels)


def read_head(model: keras.Model) -> Head:
    """Reads the head off the layers of a model of this package, also after saving and loading."""
    names = {layer.name for layer in model.layers}
    kind = next((kind for kind in KINDS.values() if kind.layer in names), KINDS["none"])
    return kind.read(model)


def build_model(
    preset_or_config: str | EncoderConfig,
    head: Head,
    *,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder with any head, by the function of its kind.

    Args:
      preset_or_config: A preset's name or a configuration.
      head: The head.
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy; default the global policy.

    Returns:
      What `build_encoder`, `build_classifier`, `build_token_classifier`, `build_span_classifier`,
      `build_masked_lm` or `build_embedder` returns.
    """
    return head.traits.build(preset_or_config, head, name=name, dtype_policy=dtype_policy)


def build_random(
    preset_or_config: str | EncoderConfig, head: Head, *, seed: int = 0
) -> keras.Model:
    """Builds a model to measure: its weights are random, no bias is 0 and no scale is 1.

    A converter leaves out zeros and ones and stores equal tensors once, so that the file would be
    smaller and faster than a trained one.

    Args:
      preset_or_config: A preset's name or a configuration.
      head: The head.
      seed: Seed of the weights; Keras' global seed is set to it.
    """
    keras.utils.set_random_seed(seed)
    model = build_model(preset_or_config, head)
    random = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        if variable.shape.rank == 1:
            noise = random.normal(0.0, _DEVIATION, variable.shape)
            variable.assign_add(noise.astype(np.float32))
    return model


def head_of(model: keras.Model) -> str:
    """Returns the kind of a model's head, see `Head`."""
    return read_head(model).kind


def num_labels_of(model: keras.Model) -> int | None:
    """Returns the width of a classifier's logits or of vectors, None for other models."""
    return read_head(model).num_labels or None


class HeadKind(abc.ABC):
    """One kind of head: how it is built, and how it is read off a model's layers.

    Attributes:
      name: See `Head.kind`.
      layer: Its layer with the logits, by which a model is known to have it; "" of an encoder.
      over_tokens: Whether there are logits for every token.
      of_texts: Whether each text, or pair of texts, has a row of outputs.
      classifies: Whether each output has a name.
      over_positions: Whether a softmax over the tokens makes its outputs distributions.
      vectors: Whether its outputs are a vector.
      predicts_words: Whether its outputs are logits of words.
      bare: Whether a checkpoint with it holds an encoder alone.
      width: The outputs of all such heads, 0 where they differ.
    """

    name: ClassVar[str]
    layer: ClassVar[str]
    over_tokens: ClassVar[bool] = False
    of_texts: ClassVar[bool] = False
    classifies: ClassVar[bool] = False
    over_positions: ClassVar[bool] = False
    vectors: ClassVar[bool] = False
    predicts_words: ClassVar[bool] = False
    bare: ClassVar[bool] = False
    width: ClassVar[int] = 0

    @abc.abstractmethod
    def build(self, config: Any, head: Head, **options: Any) -> keras.Model:
        """Builds a model with the head; options: `name` and `dtype_policy` of `build_model`."""

    def read(self, model: keras.Model) -> Head:
        """The head of a model that has the layer."""
        return Head(self.name, layer_of(model, self.layer).units)

    def outputs(self, model: keras.Model) -> Mapping[str, Any]:
        """The outputs that the head adds to those of `taps`."""
        return {"logits": model.output}


class _Encoder(HeadKind):
    name, layer, bare = "none", "", True

    def build(self, config: Any, head: Head, **options: Any) -> keras.Model:
        return bert.build_encoder(config, **options)

    def read(self, model: keras.Model) -> Head:
        return Head()

    def outputs(self, model: keras.Model) -> Mapping[str, Any]:
        return {}


class _MaskedLm(HeadKind):
    name, layer = "masked_lm", "mlm_bias"
    predicts_words = True

    def build(self, config: Any, head: Head, **options: Any) -> keras.Model:
        return pretraining.build_masked_lm(config, next_sentence=head.next_sentence, **options)

    def read(self, model: keras.Model) -> Head:
        names = {layer.name for layer in model.layers}
        return Head(self.name, next_sentence="nsp_classifier" in names)

    def outputs(self, model: keras.Model) -> Mapping[str, Any]:
        return model.output


class _Token(HeadKind):
    name, layer = "token", "token_classifier"
    over_tokens = classifies = True

    def build(self, config: Any, head: Head, **options: Any) -> keras.Model:
        return classifiers.build_token_classifier(config, head.num_labels, **options)


class _Span(HeadKind):
    name, layer = "span", "span_classifier"
    over_tokens = over_positions = True
    width = 2

    def build(self, config: Any, head: Head, **options: Any) -> keras.Model:
        return classifiers.build_span_classifier(config, **options)


class _Sequence(HeadKind):
    name, layer = "sequence", "classifier"
    of_texts = classifies = True

    def build(self, config: Any, head: Head, **options: Any) -> keras.Model:
        if head.pooled:
            options.update(pooling=head.pooling, normalize=head.normalize)
            return embedding.build_pooled_classifier(config, head.num_labels, **options)
        return classifiers.build_classifier(config, head.num_labels, **options)

    def read(self, model: keras.Model) -> Head:
        head = super().read(model)
        if embedding.POOLING not in {layer.name for layer in model.layers}:
            return head
        options = embedding.read_options(model)
        pooled = {name: options[name] for name in ("pooling", "normalize")}
        return dataclasses.replace(head, pooled=True, **pooled)


class _Embedding(HeadKind):
    name, layer = "embedding", embedding.POOLING
    of_texts = vectors = bare = True

    def build(self, config: Any, head: Head, **options: Any) -> keras.Model:
        for field in ("pooling", "projection", "normalize"):
            options[field] = getattr(head, field)
        return embedding.build_embedder(config, head.num_labels or None, **options)

    def read(self, model: keras.Model) -> Head:
        options = embedding.read_options(model)
        return Head(self.name, options.pop("width"), **options)


# The first whose layer a model has tells its kind.
_KINDS: dict[str, HeadKind] = {
    kind.name: kind
    for kind in (_MaskedLm(), _Token(), _Span(), _Sequence(), _Embedding(), _Encoder())
}
KINDS: Mapping[str, HeadKind] = _KINDS
"""Name -> kind of head."""


def register_head(kind: HeadKind) -> None:
    """Adds a kind to `KINDS`.

    Raises:
      ConfigError: If another kind has its name.
    """
    registry.add(_KINDS, kind.name, kind, "head of models")


def is_of_head(layer: str) -> bool:
    """Checks whether a layer of this name belongs to a head."""
    named = tuple(kind.layer for kind in KINDS.values() if kind.layer)
    return layer.startswith(("pre_classifier", "nsp_classifier", "mlm_", "vector_", *named))
