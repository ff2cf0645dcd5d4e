"""The shapes of classifiers over word vectors, and what they cost. Imports no TensorFlow."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar, TypeVar

from tfdistill import errors
from tfdistill.models.config import replaced

PAIR_ENCODINGS = ("joined", "siamese")
_Config = TypeVar("_Config", bound="WordVectorConfig")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordVectorConfig(abc.ABC):
    """What classifiers over word vectors have in common; see `BiLstmConfig`, `StaticConfig`.

    They have no positions and no layers that a transformer's layers could teach.

    Args:
      embedding_size: Width e of the word vectors.
      dense_size: Width of the hidden layer in front of the classifier.
      vocab_size: Rows of the word table.
      pair_encoding: "joined" reads ``[CLS] a [SEP] b [SEP]`` in one go, so that it also takes
        single texts; "siamese" reads a and b separately in the same way, which needs token types.
      dropout: Rate after the word vectors and before the classifier, in [0, 1).
      pad_token_id: The id of [PAD] in the vocabulary.

    Raises:
      ConfigError: If a value is out of range; the message lists every fault.
    """

    family: ClassVar[str]
    title: ClassVar[str]  # what messages call it
    _LEAST_DENSE_SIZE: ClassVar[int] = 1

    embedding_size: int
    dense_size: int
    vocab_size: int = 30522
    pair_encoding: str = "joined"
    dropout: float = 0.1
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        """Refuses values that no model can have."""
        least = {"pad_token_id": 0, "dense_size": self._LEAST_DENSE_SIZE}
        counts = [field.name for field in dataclasses.fields(self) if field.type == "int"]
        faults = [
            errors.explain(
                name,
                f"an integer of at least {least.get(name, 1)}",
                repr(getattr(self, name)),
            )
            for name in counts
            if not _is_count(getattr(self, name), least.get(name, 1))
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
        if faults:
            raise errors.ConfigError("\n".join(faults))

    @property
    def num_layers(self) -> int:
        """0: there is no transformer layer that a teacher's layer could be compared with."""
        return 0

    @property
    def num_heads(self) -> int:
        """0: there is no attention."""
        return 0

    @property
    def head_size(self) -> None:
        """None: there is no attention."""
        return None

    @property
    def head_width(self) -> int:
        """0: there is no attention."""
        return 0

    @property
    def intermediate_size(self) -> int:
        """Width of the hidden layer, which is what reports show."""
        return self.dense_size

    @property
    def max_positions(self) -> int:
        """512, the longest text of the BERT family; there is no limit of their own."""
        return 512

    @property
    def type_vocab_size(self) -> int:
        """2 where token types are an input, otherwise 0."""
        return 2 if self.pair_encoding == "siamese" else 0

    @property
    @abc.abstractmethod
    def text_width(self) -> int:
        """Width of what is read off one text."""

    @property
    def feature_width(self) -> int:
        """Width of what the hidden layer reads: of a siamese pair 4 times that of a text."""
        return 4 * self.text_width if self.pair_encoding == "siamese" else self.text_width

    def replace(self: _Config, **changes: Any) -> _Config:
        """Returns a copy with some fields changed, validated again.

        Raises:
          ConfigError: If a field does not exist or its value is out of range.
        """
        return replaced(self, changes, f"{self.title} config")


@dataclasses.dataclass(frozen=True, kw_only=True)
class BiLstmConfig(WordVectorConfig):
    """Shape and options of a BiLSTM classifier; see `WordVectorConfig`.

    Args:
      hidden_size: Units h of the LSTM, in each direction.
      bidirectional: Whether a second LSTM reads backwards.
    """

    family: ClassVar[str] = "bilstm"
    title: ClassVar[str] = "BiLSTM"

    hidden_size: int
    bidirectional: bool = True

    @property
    def directions(self) -> int:
        """How many LSTMs read the text: 2, or 1."""
        return 2 if self.bidirectional else 1

    @property
    def text_width(self) -> int:
        """The units of all directions."""
        return self.directions * self.hidden_size


@dataclasses.dataclass(frozen=True, kw_only=True)
class StaticConfig(WordVectorConfig):
    """Shape of a classifier over the mean of a text's word vectors; see `WordVectorConfig`.

    A `dense_size` of 0 leaves the hidden layer out: the classifier is linear.
    """

    family: ClassVar[str] = "static"
    title: ClassVar[str] = "static student"
    _LEAST_DENSE_SIZE: ClassVar[int] = 0

    dense_size: int = 0

    @property
    def hidden_size(self) -> int:
        """Width of the word vectors, which is what reports show."""
        return self.embedding_size

    @property
    def text_width(self) -> int:
        """That of the word vectors."""
        return self.embedding_size


def count_parameters(config: WordVectorConfig, num_labels: int | None) -> int:
    """Counts the parameters: word table, 4 h (e + h + 1) a direction of an LSTM, dense layers.

    Without `num_labels` the classifier, the last of these, is left out.
    """
    total = config.vocab_size * config.embedding_size
    if isinstance(config, BiLstmConfig):
        units = config.hidden_size
        total += config.directions * 4 * units * (config.embedding_size + units + 1)
    total += config.dense_size * (config.feature_width + 1)
    return total + (num_labels or 0) * ((config.dense_size or config.feature_width) + 1)


def flops(config: WordVectorConfig, sequence_length: int, num_labels: int | None) -> int:
    """Counts 2 x multiply-accumulate of the matrix products of one example.

    Per direction of an LSTM 2 L 4 h (e + h); "siamese" reads twice. Then the dense layers.

    Args:
      config: The shape.
      sequence_length: Tokens L, padding included.
      num_labels: Width of the classifier; None leaves it out.

    Returns:
      The number of operations.
    """
    read = 0
    if isinstance(config, BiLstmConfig):
        step = 2 * 4 * config.hidden_size * (config.embedding_size + config.hidden_size)
        read = config.directions * sequence_length * step
    texts = 2 if config.pair_encoding == "siamese" else 1
    hidden = config.dense_size * config.feature_width
    last = (num_labels or 0) * (config.dense_size or config.feature_width)
    return texts * read + 2 * (hidden + last)


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
