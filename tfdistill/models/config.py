"""The shape of a model: one frozen value that every builder, loader and report understands."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from tfdistill import errors

FAMILIES = ("bert", "tinybert", "distilbert", "electra", "mobilebert")
"""The families of encoders."""
ACTIVATIONS = ("gelu", "gelu_tanh", "relu")
"""The activations of feed-forward layers."""
NORMALIZATIONS = ("no_norm", "layer_norm")
"""The normalizations of MobileBERT."""
LARGEST = {
    "num_layers": 512,
    "vocab_size": 2**24,
    "max_positions": 2**20,
    "type_vocab_size": 2**16,
    "pad_token_id": 2**24,
}
"""Bounds beyond every published encoder: a configuration from outside shall not fill the memory."""
_LARGEST_WIDTH = 2**17
PAIR_ENCODINGS = ("joined", "siamese")
"""The ways in which classifiers over word vectors read a pair."""
_Config = TypeVar("_Config", bound="EncoderConfig")
_WordVectors = TypeVar("_WordVectors", bound="WordVectorConfig")
_Value = TypeVar("_Value")


def replaced(value: _Value, changes: Mapping[str, Any], what: str) -> _Value:
    """Returns a copy of a dataclass, which errors call `what`, with some fields changed."""
    fields = [field.name for field in dataclasses.fields(value)]  # pyright: ignore[reportArgumentType]
    for name in changes:
        if name not in fields:
            raise errors.ConfigError(
                what, "a known field", repr(name), errors.nearest(name, fields)
            )
    return dataclasses.replace(value, **changes)  # pyright: ignore[reportArgumentType]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Shape and options of a BERT-like encoder.

    Args:
      family: "bert", "tinybert", "distilbert" or "electra". It decides the style of the
        classification head and the names in a Hugging Face checkpoint; the encoder stack is the
        same in all four.
        The family "mobilebert" has a stack of its own, see `MobileBertConfig`.
      num_layers: Transformer layers.
      hidden_size: Width of the residual stream; without `head_size` a multiple of `num_heads`.
      num_heads: Attention heads.
      head_size: Width of one attention head. None: the heads share `hidden_size`. A model with
        pruned heads has another attention width than that, `num_heads * head_size`. A value that
        says the same as None becomes None, so that equal networks have equal configurations.
      intermediate_size: Width of the feed-forward layers.
      embedding_size: Width of the word vectors, below `hidden_size`, where a matrix without bias
        maps them to that width: a factorised word table. Of an electra the width of words,
        positions and types, which a matrix with bias maps behind their LayerNorm. None: they have
        it.
      vocab_size: Rows of the word embedding.
      max_positions: Longest sequence, in tokens.
      type_vocab_size: Rows of the token-type embedding; 0 leaves it (and its input) out.
      hidden_act: "gelu" (exact, with erf), "gelu_tanh" (the approximation) or "relu".
      layer_norm_eps: Added to the variance inside each LayerNorm.
      dropout: Rate after the embeddings and after each sublayer, in [0, 1).
      attention_dropout: Rate on the attention probabilities, in [0, 1).
      classifier_dropout: Rate before the classifier; None means `dropout`.
      pooler: Whether there is a tanh-pooled output over [CLS].
      pad_token_id: The id of [PAD] in the vocabulary.

    Raises:
      ConfigError: If a value is out of range; the message lists every fault.
    """

    family: str = "bert"
    num_layers: int
    hidden_size: int
    num_heads: int
    head_size: int | None = None
    intermediate_size: int
    embedding_size: int | None = None
    vocab_size: int = 30522
    max_positions: int = 512
    type_vocab_size: int = 2
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1
    classifier_dropout: float | None = None
    pooler: bool = True
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        """Refuses values that no encoder can have."""
        faults = list(_faults(self))
        if isinstance(self, MobileBertConfig):
            faults += _mobilebert_faults(self)
        if faults:
            raise errors.ConfigError("\n".join(faults))
        if self.head_size is not None and self.num_heads * self.head_size == self.hidden_size:
            object.__setattr__(self, "head_size", None)

    @property
    def attention_width(self) -> int:
        """Width of queries, keys and values, all heads together."""
        if isinstance(self, MobileBertConfig):
            return self.bottleneck_size
        return self.hidden_size if self.head_size is None else self.num_heads * self.head_size

    @property
    def head_width(self) -> int:
        """Width of one attention head: `head_size`, also where that is None."""
        return self.attention_width // self.num_heads

    @property
    def head_dropout(self) -> float:
        """Rate before the classifier."""
        return self.dropout if self.classifier_dropout is None else self.classifier_dropout

    def replace(self: _Config, **changes: Any) -> _Config:
        """Returns a copy with some fields changed, validated again.

        Raises:
          ConfigError: If a field does not exist or its value is out of range.
        """
        return replaced(self, changes, "encoder config")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MobileBertConfig(EncoderConfig):
    """Shape and options of a MobileBERT, and with other values of IB-BERT, its teacher.

    Between the blocks the states are `hidden_size` wide, inside a block `bottleneck_size`:
    narrower in MobileBERT, wider in IB-BERT. `num_heads` share the width inside;
    `intermediate_size` is that of each feed-forward network. By default there is no pooler: what
    is pooled is the state of [CLS] itself.

    Args:
      embedding_size: Width of the word vectors.
      bottleneck_size: Width inside a block, a multiple of `num_heads`.
      num_feed_forward: Feed-forward networks one after the other in each block.
      shared_key_query: Whether queries and keys come from one common bottleneck; False takes them
        from the block's input, or with `bottleneck_attention` from the bottleneck of the block.
      bottleneck_attention: Whether queries, keys and values all come from the bottleneck of the
        block, as in MobileBERT-TINY; then nothing is left to share.
      normalization: "no_norm" (gamma x + beta, no statistics) or "layer_norm".
      trigram: Whether a token is embedded together with both its neighbours.
      embeddings_layer_norm_eps: That of the LayerNorms behind the embeddings and behind the last
        feed-forward network of a block, which `transformers` fixes at 1e-5; None takes
        `layer_norm_eps`.

    Raises:
      ConfigError: If a value is out of range; the message lists every fault.

    Reference: Sun et al. 2020, MobileBERT, sections 3.1 to 3.4 and table 1.
    """

    family: str = "mobilebert"
    pooler: bool = False
    embedding_size: int = 128  # pyright: ignore[reportIncompatibleVariableOverride]
    bottleneck_size: int = 128
    num_feed_forward: int = 4
    shared_key_query: bool = True
    bottleneck_attention: bool = False
    normalization: str = "no_norm"
    trigram: bool = True
    embeddings_layer_norm_eps: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordVectorConfig(abc.ABC):
    """The common part of classifiers over word vectors; see `BiLstmConfig`, `StaticConfig`.

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
    num_layers: ClassVar[int] = 0  # no transformer layer, no attention
    num_heads: ClassVar[int] = 0
    head_size: ClassVar[None] = None
    head_width: ClassVar[int] = 0
    max_positions: ClassVar[int] = 512  # the longest text of the BERT family; any would do

    embedding_size: int
    dense_size: int
    vocab_size: int = 30522
    pair_encoding: str = "joined"
    dropout: float = 0.1
    pad_token_id: int = 0

    def __post_init__(self) -> None:
        """Refuses values that no model can have."""
        least = {"pad_token_id": 0, "dense_size": self._LEAST_DENSE_SIZE}
        faults = []
        for name in (field.name for field in dataclasses.fields(self) if field.type == "int"):
            lowest, value = least.get(name, 1), getattr(self, name)
            if not _is_whole(value, lowest):
                faults.append(errors.explain(name, f"an integer of at least {lowest}", repr(value)))
        if self.pair_encoding not in PAIR_ENCODINGS:
            encoding, expected = self.pair_encoding, f"one of {PAIR_ENCODINGS}"
            nearest = errors.nearest(encoding, PAIR_ENCODINGS)
            faults.append(errors.explain("pair_encoding", expected, repr(encoding), nearest))
        if not _is_rate(self.dropout):
            faults.append(errors.explain("dropout", "a rate in [0, 1)", repr(self.dropout)))
        if faults:
            raise errors.ConfigError("\n".join(faults))

    @property
    def intermediate_size(self) -> int:
        """Width of the hidden layer, which is what reports show."""
        return self.dense_size

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

    def replace(self: _WordVectors, **changes: Any) -> _WordVectors:
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
        """The number of LSTMs that read the text: 2, or 1."""
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


def _mobilebert_faults(config: MobileBertConfig) -> Iterator[str]:
    def fault(field: str, expected: str, remedy: str = "") -> str:
        return errors.explain(field, expected, repr(getattr(config, field)), remedy)

    if config.family != "mobilebert":
        yield fault("family", "'mobilebert' for a MobileBertConfig", "Others: EncoderConfig.")
    if config.head_size is not None:
        yield fault("head_size", "None: MobileBERT's heads share bottleneck_size")
    for name in ("embedding_size", "bottleneck_size", "num_feed_forward"):
        if not _is_count(config, name, 1):
            yield fault(name, _count_of(config, name, 1))
    for name in ("pooler", "trigram", "shared_key_query", "bottleneck_attention"):
        if not isinstance(getattr(config, name), bool):
            yield fault(name, "true or false")
    whole = _is_count(config, "bottleneck_size", 1) and _is_count(config, "num_heads", 1)
    if whole and config.bottleneck_size % config.num_heads:
        yield fault("bottleneck_size", f"a multiple of num_heads ({config.num_heads})")
    if config.normalization not in NORMALIZATIONS:
        nearest = errors.nearest(config.normalization, NORMALIZATIONS)
        yield fault("normalization", f"one of {NORMALIZATIONS}", nearest)
    if config.bottleneck_attention and config.shared_key_query:
        yield fault(
            "shared_key_query",
            "False with bottleneck_attention, where queries and keys come from the block's own",
        )


def _faults(config: EncoderConfig) -> Iterator[str]:
    def fault(field: str, expected: str, remedy: str = "") -> str:
        return errors.explain(field, expected, repr(getattr(config, field)), remedy)

    if config.family not in FAMILIES:
        yield fault("family", f"one of {FAMILIES}", errors.nearest(config.family, FAMILIES))
    if config.family == "mobilebert" and not isinstance(config, MobileBertConfig):
        yield fault("family", "a MobileBertConfig for 'mobilebert'")
    if config.hidden_act not in ACTIVATIONS:
        yield fault(
            "hidden_act", f"one of {ACTIVATIONS}", errors.nearest(config.hidden_act, ACTIVATIONS)
        )
    sizes = ("num_layers", "hidden_size", "num_heads", "intermediate_size", "vocab_size")
    broken = [name for name in (*sizes, "max_positions") if not _is_count(config, name, 1)]
    for name in broken:
        yield fault(name, _count_of(config, name, 1))
    sized = "hidden_size" not in broken and "num_heads" not in broken
    if config.head_size is not None and not _is_count(config, "head_size", 1):
        yield fault("head_size", f"{_count_of(config, 'head_size', 1)}, or None")
    elif sized and config.head_size is None and config.hidden_size % config.num_heads:
        yield fault("hidden_size", f"a multiple of num_heads ({config.num_heads})")
    words = None if isinstance(config, MobileBertConfig) else config.embedding_size
    if words is not None and (
        not _is_count(config, "embedding_size", 1) or (sized and words >= config.hidden_size)
    ):
        yield fault("embedding_size", "an integer from 1 to below hidden_size, or None")
    for name in ("type_vocab_size", "pad_token_id"):
        if not _is_count(config, name, 0):
            yield fault(name, _count_of(config, name, 0))
    counted = "vocab_size" not in broken and _is_count(config, "pad_token_id", 0)
    if counted and config.pad_token_id >= config.vocab_size:
        yield fault("pad_token_id", f"an id below vocab_size ({config.vocab_size})")
    for name in ("dropout", "attention_dropout"):
        if not _is_rate(getattr(config, name)):
            yield fault(name, "a rate in [0, 1)")
    if config.classifier_dropout is not None and not _is_rate(config.classifier_dropout):
        yield fault("classifier_dropout", "a rate in [0, 1), or None")
    if not _is_rate(config.layer_norm_eps) or not config.layer_norm_eps:
        yield fault("layer_norm_eps", "a number in (0, 1)")
    if config.family in ("distilbert", "electra") and config.pooler:
        yield fault("pooler", f"False for the family {config.family}, which has no pooler")
    if config.family == "distilbert" and config.type_vocab_size:
        yield fault("type_vocab_size", "0 for the family distilbert, which has no token types")


def _is_count(config: EncoderConfig, name: str, least: int) -> bool:
    value = getattr(config, name)
    return _is_whole(value, least) and value <= LARGEST.get(name, _LARGEST_WIDTH)


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _count_of(config: EncoderConfig, name: str, least: int) -> str:
    most, value = LARGEST.get(name, _LARGEST_WIDTH), getattr(config, name)
    if isinstance(value, int) and value > most:
        return f"an integer of at most {most}"
    return f"an integer of at least {least}"


def _is_rate(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1
