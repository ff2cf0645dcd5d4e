"""Sizes that follow from a configuration alone: floating-point operations and parameters."""

from __future__ import annotations

from tfdistill import errors
from tfdistill.models.config import EncoderConfig


def flops(config: EncoderConfig, sequence_length: int, num_labels: int | None = None) -> int:
    """Counts the floating-point operations of one example's forward pass.

    2 x multiply-accumulate of the matrix products only, with L tokens, width d and inner width f:
    per layer 2 L (4 d^2 + 2 d f) for the dense layers and 2 (2 L^2 d) for scores and context.
    With `num_labels`, also the dense layers over [CLS]: 2 d (d + num_labels). Embedding,
    LayerNorm, softmax and activations are left out, as in the papers.

    Args:
      config: The encoder.
      sequence_length: Tokens L, padding included.
      num_labels: Width of the classifier; None counts the encoder without pooler and head.

    Returns:
      The number of operations.
    """
    width, inner = config.hidden_size, config.intermediate_size
    dense = 2 * sequence_length * (4 * width**2 + 2 * width * inner)
    attention = 2 * (2 * sequence_length**2 * width)
    head = 0 if num_labels is None else 2 * width * (width + num_labels)
    return config.num_layers * (dense + attention) + head


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
    width, inner = config.hidden_size, config.intermediate_size
    square = width * (width + 1)  # a dense layer of width d with its bias
    norm = 2 * width
    rows = config.vocab_size + config.max_positions + config.type_vocab_size
    feed_forward = width * inner + inner + inner * width + width
    total = rows * width + norm + config.num_layers * (4 * square + feed_forward + 2 * norm)
    if config.pooler:
        total += square
    if num_labels is not None:
        if config.family == "distilbert":
            total += square
        elif not config.pooler:
            raise errors.ConfigError(
                errors.explain("classifier", "an encoder with a pooler", "pooler=False")
            )
        total += num_labels * (width + 1)
    return total
