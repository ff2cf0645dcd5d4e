"""Named encoder shapes. The parameter counts of the literature are asserted in the tests."""

from __future__ import annotations

from tfdistill import errors
from tfdistill.models.config import EncoderConfig


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


_PRESETS = {
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
}


def presets() -> list[str]:
    """Returns the names that `preset` accepts, sorted."""
    return sorted(_PRESETS)


def preset(name: str) -> EncoderConfig:
    """Returns the encoder shape of that name.

    Args:
      name: For example "tinybert_4l_312d"; see `presets`.

    Returns:
      The shape with the English BERT vocabulary size (30,522) and 512 positions.

    Raises:
      ConfigError: If there is no such preset; the nearest name is suggested.
    """
    if name not in _PRESETS:
        raise errors.ConfigError(
            errors.explain("preset", "a known name", repr(name), errors.nearest(name, _PRESETS))
        )
    return _PRESETS[name]


def as_config(preset_or_config: str | EncoderConfig) -> EncoderConfig:
    """Returns the configuration itself, or the one that the preset's name stands for."""
    if isinstance(preset_or_config, EncoderConfig):
        return preset_or_config
    return preset(preset_or_config)
