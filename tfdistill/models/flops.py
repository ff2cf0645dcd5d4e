"""Sizes that follow from a configuration alone: floating-point operations and parameters."""

from __future__ import annotations

from tfdistill import errors
from tfdistill.models.config import (
    BiLstmConfig,
    EncoderConfig,
    MobileBertConfig,
    WordVectorConfig,
)

_DENSE_HEADS = ("distilbert", "electra")  # families whose head has a dense layer of its own


def flops(
    config: EncoderConfig,
    sequence_length: int,
    num_labels: int | None = None,
    *,
    over_tokens: bool = False,
) -> int:
    """Counts the floating-point operations of one example's forward pass.

    2 x multiply-accumulate of the matrix products only, with L tokens, width d and inner width f:
    per layer 2 L (4 d a + 2 d f) for the dense layers and 2 (2 L^2 a) for scores and context, a
    being the attention width, d unless heads were pruned.
    With `num_labels`, also the dense layers over [CLS]: 2 d (d + num_labels). MobileBERT's layers
    have other widths, and a projection of the embeddings counts. Over every token the classifier
    is one dense layer: 2 L d num_labels. Embedding, LayerNorm, softmax and activations are left
    out, as in the papers.

    Args:
      config: The encoder.
      sequence_length: Tokens L, padding included.
      num_labels: Width of the classifier; None counts the encoder without pooler and head.
      over_tokens: Whether the classifier sees every token instead of [CLS].
    """
    if isinstance(config, WordVectorConfig):
        return _word_vector_flops(config, sequence_length, num_labels)
    width, inner = config.hidden_size, config.intermediate_size
    embedding = (config.embedding_size or 0) * width
    block = 4 * width * config.attention_width + 2 * width * inner
    if isinstance(config, MobileBertConfig):
        embedding = sum(inputs * units for inputs, units in _embedding_projection(config))
        block = sum(inputs * units for inputs, units in _block_dense(config))
    dense = 2 * sequence_length * (embedding + config.num_layers * block)
    attention = config.num_layers * 2 * (2 * sequence_length**2 * config.attention_width)
    if num_labels is None:
        return dense + attention
    if over_tokens:
        return dense + attention + 2 * sequence_length * width * num_labels
    hidden = width if config.pooler or config.family in _DENSE_HEADS else 0
    return dense + attention + 2 * width * (hidden + num_labels)


def count_parameters(config: EncoderConfig, num_labels: int | None = None) -> int:
    """Counts the parameters of an encoder, or with `num_labels` of a classifier.

    Args:
      config: The encoder.
      num_labels: Width of the classifier; None leaves the head out.

    Returns:
      The number of parameters, all of them trainable.

    Raises:
      ConfigError: If `num_labels` is given for a BERT or TinyBERT shape without a pooler.
    """
    if isinstance(config, WordVectorConfig):
        return _word_vector_parameters(config, num_labels)
    if isinstance(config, MobileBertConfig):
        return _mobilebert_parameters(config, num_labels)
    width, inner = config.hidden_size, config.intermediate_size
    square = width * (width + 1)  # a dense layer of width d with its bias
    norm = 2 * width
    inside = config.attention_width
    attention = 3 * (width + 1) * inside + (inside + 1) * width  # query, key, value; output
    words = config.vocab_size * width
    if config.embedding_size is not None:
        words = (config.vocab_size + width) * config.embedding_size
    rows = config.max_positions + config.type_vocab_size
    tables = words + rows * width + norm
    if config.family == "electra" and config.embedding_size is not None:
        narrow = config.embedding_size
        tables = (config.vocab_size + rows + 2) * narrow + (narrow + 1) * width
    feed_forward = width * inner + inner + inner * width + width
    total = tables + config.num_layers * (attention + feed_forward + 2 * norm)
    if config.pooler:
        total += square
    if num_labels is not None:
        if config.family in _DENSE_HEADS:
            total += square
        elif not config.pooler:
            raise errors.ConfigError("classifier", "an encoder with a pooler", "pooler=False")
        total += num_labels * (width + 1)
    return total


def _embedding_projection(config: MobileBertConfig) -> list[tuple[int, int]]:
    """Returns inputs and units of the dense layer behind the word vectors, if there is one."""
    if not config.trigram and config.embedding_size == config.hidden_size:
        return []
    return [((3 if config.trigram else 1) * config.embedding_size, config.hidden_size)]


def _block_dense(config: MobileBertConfig) -> list[tuple[int, int]]:
    """Returns inputs and units of every dense layer of a MobileBERT block."""
    outside, inside, inner = config.hidden_size, config.bottleneck_size, config.intermediate_size
    narrow = config.bottleneck_attention
    query = inside if narrow or config.shared_key_query else outside
    return [
        (outside, inside),
        *([(outside, inside)] if config.shared_key_query else []),
        (query, inside),
        (query, inside),
        (inside if narrow else outside, inside),
        (inside, inside),
        *([(inside, inner), (inner, inside)] * config.num_feed_forward),
        (inside, outside),
    ]


def _mobilebert_parameters(config: MobileBertConfig, num_labels: int | None) -> int:
    width = config.hidden_size
    dense = _embedding_projection(config) + config.num_layers * _block_dense(config)
    if config.pooler:
        dense.append((width, width))
    if num_labels is not None:
        dense.append((width, num_labels))
    # Norms inside a block: behind each bottleneck, the attention and each feed-forward network.
    inside = 2 + config.shared_key_query + config.num_feed_forward
    norms = width + config.num_layers * (inside * config.bottleneck_size + width)
    tables = config.vocab_size * config.embedding_size
    tables += (config.max_positions + config.type_vocab_size) * width
    return tables + sum((inputs + 1) * units for inputs, units in dense) + 2 * norms


def _word_vector_parameters(config: WordVectorConfig, num_labels: int | None) -> int:
    """Counts the parameters: word table, 4 h (e + h + 1) a direction of an LSTM, dense layers.

    Without `num_labels` the classifier, the last of these, is left out.
    """
    total = config.vocab_size * config.embedding_size
    if isinstance(config, BiLstmConfig):
        units = config.hidden_size
        total += config.directions * 4 * units * (config.embedding_size + units + 1)
    total += config.dense_size * (config.feature_width + 1)
    return total + (num_labels or 0) * ((config.dense_size or config.feature_width) + 1)


def _word_vector_flops(
    config: WordVectorConfig, sequence_length: int, num_labels: int | None
) -> int:
    """Counts per direction of an LSTM 2 L 4 h (e + h), twice for "siamese"; then dense layers."""
    read = 0
    if isinstance(config, BiLstmConfig):
        step = 2 * 4 * config.hidden_size * (config.embedding_size + config.hidden_size)
        read = config.directions * sequence_length * step
    texts = 2 if config.pair_encoding == "siamese" else 1
    hidden = config.dense_size * config.feature_width
    last = (num_labels or 0) * (config.dense_size or config.feature_width)
    return texts * read + 2 * (hidden + last)
