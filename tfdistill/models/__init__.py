"""Encoders and classifiers of the BERT family as flat functional tf_keras models."""

from tfdistill.models.bert import build_encoder
from tfdistill.models.bilstm import BiLstmConfig, build_bilstm, initialise_from_vectors
from tfdistill.models.config import (
    ACTIVATIONS,
    FAMILIES,
    NORMALIZATIONS,
    EncoderConfig,
    MobileBertConfig,
)
from tfdistill.models.dropout import Dropout, dropout_seed
from tfdistill.models.flops import count_parameters, flops
from tfdistill.models.heads import (
    build_classifier,
    build_span_classifier,
    build_token_classifier,
    head_of,
    num_labels_of,
)
from tfdistill.models.layers import (
    ATTENTION_MASK_VALUE,
    AttentionContext,
    AttentionMask,
    AttentionProbabilities,
    AttentionScores,
    Bias,
    FirstToken,
    FlattenTokens,
    LayerNorm,
    PositionEmbedding,
    PredictedRows,
    SplitFeatures,
    UnflattenTokens,
    WordEmbedding,
)
from tfdistill.models.mobilebert_layers import NoNorm, Trigrams
from tfdistill.models.presets import preset, presets
from tfdistill.models.pretraining import build_masked_lm
from tfdistill.models.taps import config_of, copy_encoder, taps, with_policy

__all__ = [
    "ACTIVATIONS",
    "ATTENTION_MASK_VALUE",
    "FAMILIES",
    "NORMALIZATIONS",
    "AttentionContext",
    "AttentionMask",
    "AttentionProbabilities",
    "AttentionScores",
    "BiLstmConfig",
    "Bias",
    "Dropout",
    "EncoderConfig",
    "FirstToken",
    "FlattenTokens",
    "LayerNorm",
    "MobileBertConfig",
    "NoNorm",
    "PositionEmbedding",
    "PredictedRows",
    "SplitFeatures",
    "Trigrams",
    "UnflattenTokens",
    "WordEmbedding",
    "build_bilstm",
    "build_classifier",
    "build_encoder",
    "build_masked_lm",
    "build_span_classifier",
    "build_token_classifier",
    "config_of",
    "copy_encoder",
    "count_parameters",
    "dropout_seed",
    "flops",
    "head_of",
    "initialise_from_vectors",
    "num_labels_of",
    "preset",
    "presets",
    "taps",
    "with_policy",
]
