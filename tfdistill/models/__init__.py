"""Encoders and classifiers of the BERT family as flat functional tf_keras models."""

from tfdistill.models.bert import build_encoder
from tfdistill.models.config import ACTIVATIONS, FAMILIES, EncoderConfig
from tfdistill.models.dropout import Dropout, dropout_seed
from tfdistill.models.flops import count_parameters, flops
from tfdistill.models.heads import build_classifier
from tfdistill.models.layers import (
    ATTENTION_MASK_VALUE,
    AttentionContext,
    AttentionMask,
    AttentionProbabilities,
    AttentionScores,
    FirstToken,
    FlattenTokens,
    LayerNorm,
    PositionEmbedding,
    UnflattenTokens,
    WordEmbedding,
)
from tfdistill.models.presets import preset, presets
from tfdistill.models.taps import config_of, num_labels_of, taps, with_policy

__all__ = [
    "ACTIVATIONS",
    "ATTENTION_MASK_VALUE",
    "FAMILIES",
    "AttentionContext",
    "AttentionMask",
    "AttentionProbabilities",
    "AttentionScores",
    "Dropout",
    "EncoderConfig",
    "FirstToken",
    "FlattenTokens",
    "LayerNorm",
    "PositionEmbedding",
    "UnflattenTokens",
    "WordEmbedding",
    "build_classifier",
    "build_encoder",
    "config_of",
    "count_parameters",
    "dropout_seed",
    "flops",
    "num_labels_of",
    "preset",
    "presets",
    "taps",
    "with_policy",
]
