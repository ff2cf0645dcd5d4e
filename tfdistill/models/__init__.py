"""Encoders and classifiers of the BERT family as flat functional tf_keras models.

Shapes and presets need no TensorFlow: the first use of any other name imports it, and every layer.
Where tf_keras is imported already that happens at once, so that saved models find their layers.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from tfdistill.models.bilstm_config import BiLstmConfig, StaticConfig, WordVectorConfig
from tfdistill.models.config import (
    ACTIVATIONS,
    FAMILIES,
    LARGEST,
    NORMALIZATIONS,
    EncoderConfig,
    MobileBertConfig,
)
from tfdistill.models.flops import count_parameters, flops
from tfdistill.models.presets import preset, presets

if TYPE_CHECKING:
    from tfdistill.models.attention import (
        ATTENTION_MASK_VALUE,
        AttentionContext,
        AttentionMask,
        AttentionProbabilities,
        AttentionScores,
    )
    from tfdistill.models.bert import build_encoder
    from tfdistill.models.bilstm import build_bilstm, initialise_from_vectors
    from tfdistill.models.dropout import Dropout, dropout_seed
    from tfdistill.models.embedding import L2Normalization, MaskedMax, build_embedder
    from tfdistill.models.heads import (
        HEAD_LAYERS,
        Head,
        build_classifier,
        build_model,
        build_random,
        build_span_classifier,
        build_token_classifier,
        head_for,
        head_of,
        num_labels_of,
        read_head,
    )
    from tfdistill.models.introspection import (
        check_model,
        config_of,
        copy_encoder,
        taps,
        with_policy,
    )
    from tfdistill.models.layers import (
        Bias,
        FirstToken,
        FlattenTokens,
        LayerNorm,
        NoNorm,
        PositionEmbedding,
        PredictedRows,
        SplitFeatures,
        UnflattenTokens,
        WordEmbedding,
    )
    from tfdistill.models.mobilebert import Trigrams
    from tfdistill.models.prediction import predict_logits, predictor
    from tfdistill.models.pretraining import build_masked_lm

__all__ = [
    "ACTIVATIONS",
    "ATTENTION_MASK_VALUE",
    "FAMILIES",
    "HEAD_LAYERS",
    "LARGEST",
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
    "Head",
    "L2Normalization",
    "LayerNorm",
    "MaskedMax",
    "MobileBertConfig",
    "NoNorm",
    "PositionEmbedding",
    "PredictedRows",
    "SplitFeatures",
    "StaticConfig",
    "Trigrams",
    "UnflattenTokens",
    "WordEmbedding",
    "WordVectorConfig",
    "build_bilstm",
    "build_classifier",
    "build_embedder",
    "build_encoder",
    "build_masked_lm",
    "build_model",
    "build_random",
    "build_span_classifier",
    "build_token_classifier",
    "check_model",
    "config_of",
    "copy_encoder",
    "count_parameters",
    "dropout_seed",
    "flops",
    "head_for",
    "head_of",
    "initialise_from_vectors",
    "num_labels_of",
    "predict_logits",
    "predictor",
    "preset",
    "presets",
    "read_head",
    "taps",
    "with_policy",
]
# The modules that need TensorFlow, alphabetically.
_LAZY = (
    "attention",
    "bert",
    "bilstm",
    "dropout",
    "embedding",
    "heads",
    "introspection",
    "layers",
    "mobilebert",
    "prediction",
    "pretraining",
)


def __getattr__(name: str) -> Any:
    """Imports all that needs TensorFlow when the first of it is used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _import_all()
    return globals()[name]


def _import_all() -> None:
    for module in _LAZY:
        found = vars(importlib.import_module(f"{__name__}.{module}"))
        globals().update({name: found[name] for name in __all__ if name in found})


if "tf_keras" in sys.modules:
    _import_all()
