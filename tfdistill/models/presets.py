"""Named encoder shapes. The parameter counts of the literature are asserted in the tests."""

from __future__ import annotations

from typing import Any

from tfdistill import errors
from tfdistill.models.config import (
    BiLstmConfig,
    EncoderConfig,
    MobileBertConfig,
    StaticConfig,
    WordVectorConfig,
)


def _shape(
    num_layers: int,
    hidden_size: int,
    num_heads: int,
    intermediate_size: int,
    *,
    family: str = "bert",
) -> EncoderConfig:
    distil = family == "distilbert"
    return EncoderConfig(
        family=family,
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_heads=num_heads,
        intermediate_size=intermediate_size,
        type_vocab_size=0 if distil else 2,
        pooler=not distil,
        classifier_dropout=0.2 if distil else None,
    )


# Published (Sun et al. 2020, table 1): blocks 512 wide, 128 or (teacher) 1024 inside. The students
# have no dropout. The GELU is Google's approximation by tanh.
_MOBILEBERT = MobileBertConfig(
    num_layers=24,
    hidden_size=512,
    num_heads=4,
    intermediate_size=512,
    hidden_act="relu",
    dropout=0.0,
    attention_dropout=0.0,
)
_IB_BERT = _MOBILEBERT.replace(
    bottleneck_size=1024,
    intermediate_size=4096,
    num_feed_forward=1,
    shared_key_query=False,
    normalization="layer_norm",
    hidden_act="gelu_tanh",
    dropout=0.1,
    attention_dropout=0.1,
)
# A quarter of the widths in a quarter of the depth: teacher and student for a small machine.
_SMALL = {"num_layers": 6, "hidden_size": 128, "embedding_size": 64}
# Published (Tang et al. 2019, section 4.3): vectors of 300, 150 units a direction, 400 in between.
_BILSTM = BiLstmConfig(embedding_size=300, hidden_size=150, dense_size=400)
_PRESETS: dict[str, Any] = {  # EncoderConfig, and WordVectorConfig
    "bert_base": _shape(12, 768, 12, 3072),
    "bert_large": _shape(24, 1024, 16, 4096),
    "bert_medium": _shape(8, 512, 8, 2048),
    "bert_small": _shape(4, 512, 8, 2048),
    "bert_mini": _shape(4, 256, 4, 1024),
    "bert_tiny": _shape(2, 128, 2, 512),
    "bert_4l_768d": _shape(4, 768, 12, 3072),
    "minilm_6l_384d": _shape(6, 384, 12, 1536),
    "tinybert_2l_128d": _shape(2, 128, 2, 512, family="tinybert"),
    "tinybert_3l_192d": _shape(3, 192, 12, 768, family="tinybert"),
    "tinybert_4l_312d": _shape(4, 312, 12, 1200, family="tinybert"),
    "tinybert_6l_768d": _shape(6, 768, 12, 3072, family="tinybert"),
    "distilbert_6l_768d": _shape(6, 768, 12, 3072, family="distilbert"),
    "mobilebert": _MOBILEBERT,
    "mobilebert_25m": _MOBILEBERT.replace(shared_key_query=False),
    "mobilebert_tiny": _MOBILEBERT.replace(
        shared_key_query=False, bottleneck_attention=True, num_feed_forward=2
    ),
    "mobilebert_without_opt": _MOBILEBERT.replace(
        normalization="layer_norm", hidden_act="gelu_tanh"
    ),
    "mobilebert_6l_128d": _MOBILEBERT.replace(**_SMALL, bottleneck_size=32, intermediate_size=128),
    "ib_bert_large": _IB_BERT,
    "ib_bert_6l_128d": _IB_BERT.replace(**_SMALL, bottleneck_size=256, intermediate_size=1024),
    "bilstm_1l_150d": _BILSTM,
    "bilstm_1l_150d_siamese": _BILSTM.replace(pair_encoding="siamese"),
    "static": StaticConfig(embedding_size=128, dense_size=128),
}


def presets() -> list[str]:
    """Returns the names that `preset` accepts, sorted."""
    return sorted(_PRESETS)


def preset(name: str) -> EncoderConfig:
    """Returns the encoder shape of that name.

    Args:
      name: For example "tinybert_4l_312d"; see `presets`.

    Returns:
      The shape with the English BERT vocabulary size (30,522) and 512 positions; a
      `WordVectorConfig` for "static" and the names that begin with "bilstm".

    Raises:
      ConfigError: If there is no such preset; the nearest name is suggested.
    """
    if name not in _PRESETS:
        raise errors.ConfigError(
            "preset", "a known name", repr(name), errors.nearest(name, _PRESETS)
        )
    return _PRESETS[name]


def as_config(preset_or_config: str | EncoderConfig) -> EncoderConfig:
    """Returns the configuration itself, or that of the preset."""
    config = preset(preset_or_config) if isinstance(preset_or_config, str) else preset_or_config
    if isinstance(config, WordVectorConfig):
        raise errors.ConfigError(
            "encoder",
            "a transformer",
            f"a {config.title}",
            "It is a classifier: use build_classifier.",
        )
    return config
