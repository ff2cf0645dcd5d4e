"""The shape of a BiLSTM classifier, and what it costs. Imports no TensorFlow."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfdistill import errors
from tfdistill.models.config import replaced

FAMILY = "bilstm"
PAIR_ENCODINGS = ("joined", "siamese")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BiLstmConfig:
    """Shape and options of a BiLSTM classifier.

    Args:
      embedding_size: Width e of the word vectors.
      hidden_size: Units h of the LSTM, in each direction.
      dense_size: Width of the hidden layer between LSTM and classifier.
      vocab_size: Rows of the word table.
      bidirectional: Whether a second LSTM reads backwards.
      pair_encoding: "joined" reads ``[CLS] a [SEP] b [SEP]`` in one go, so that it also takes
        single texts; "siamese" reads a and b separately with one LSTM, which needs token types.
      dropout: Rate after the word vectors and before the classifier, in [0, 1).
      pad_token_id: The id of [PAD] in the vocabulary.

    Raises:
      ConfigError: If a value is out of range; the message lists every fault.
    """

    embedding_size: int
    hidden_size: int
    dense_size: int
    vocab_size: int = 30522
    bidirectional: bool = True
    pair_encoding: str = "joined"
    dropout: float = 0.1
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        """Refuses values that no model can have."""
        faults = [
            errors.explain(name, "an integer of at least 1", repr(getattr(self, name)))
            for name in ("embedding_size", "hidden_size", "dense_size", "vocab_size")
            if not _is_count(getattr(self, name), 1)
        ]
        if self.pair_encoding not in PAIR_ENCODINGS:
            faults.append(
                errors.explain(
                    "pair_encoding",
                    f"one of {PAIR_ENCODINGS}",
                    repr(self.pair_encoding),
                    errors.nearest(self.pair_encoding, PAIR_ENCODINGS),
                )
            )
        if not 0 <= self.dropout < 1:
            faults.append(errors.explain("dropout", "a rate in [0, 1)", repr(self.dropout)))
        if not _is_count(self.pad_token_id, 0):
            faults.append(
                errors.explain("pad_token_id", "an integer of at least 0", repr(self.pad_token_id))
            )
        if faults:
            raise errors.ConfigError("\n".join(faults))

    @property
    def family(self) -> str:
        """Always "bilstm"."""
        return FAMILY

    @property
    def num_layers(self) -> int:
        """0: there is no transformer layer that a teacher's layer could be compared with."""
        return 0

    @property
    def num_heads(self) -> int:
        """0: there is no attention."""
        return 0

    @property
    def intermediate_size(self) -> int:
        """Width of the hidden layer, which is what reports show."""
        return self.dense_size

    @property
    def max_positions(self) -> int:
        """512, the longest text of the BERT family; an LSTM itself has no limit."""
        return 512

    @property
    def type_vocab_size(self) -> int:
        """2 where token types are an input, otherwise 0."""
        return 2 if self.pair_encoding == "siamese" else 0

    @property
    def directions(self) -> int:
        """How many LSTMs read the text: 2, or 1."""
        return 2 if self.bidirectional else 1

    @property
    def feature_width(self) -> int:
        """Width of what the hidden layer reads: h a direction, of a siamese pair 4 times that."""
        width = self.directions * self.hidden_size
        return 4 * width if self.pair_encoding == "siamese" else width

    def replace(self, **changes: Any) -> BiLstmConfig:
        """Returns a copy with some fields changed, validated again.

        Raises:
          ConfigError: If a field does not exist or its value is out of range.
        """
        return replaced(self, changes, "BiLSTM config")


def count_parameters(config: BiLstmConfig, num_labels: int | None) -> int:
    """Counts the parameters: word table, 4 h (e + h + 1) a direction, two dense layers.

    Without `num_labels` the classifier, the second of these, is left out.
    """
    lstm = 4 * config.hidden_size * (config.embedding_size + config.hidden_size + 1)
    return (
        config.vocab_size * config.embedding_size
        + config.directions * lstm
        + config.dense_size * (config.feature_width + 1)
        + (num_labels or 0) * (config.dense_size + 1)
    )


def flops(config: BiLstmConfig, sequence_length: int, num_labels: int | None) -> int:
    """Counts 2 x multiply-accumulate of the matrix products of one example.

    Per direction 2 L 4 h (e + h); "siamese" reads twice. Then the two dense layers.

    Args:
      config: The shape.
      sequence_length: Tokens L, padding included.
      num_labels: Width of the classifier; None leaves it out.

    Returns:
      The number of operations.
    """
    texts = 2 if config.pair_encoding == "siamese" else 1
    step = 2 * 4 * config.hidden_size * (config.embedding_size + config.hidden_size)
    dense = 2 * config.dense_size * (config.feature_width + (num_labels or 0))
    return texts * config.directions * sequence_length * step + dense


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
