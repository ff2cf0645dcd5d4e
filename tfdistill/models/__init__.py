"""Encoders and classifiers of the BERT family as flat functional tf_keras models.

Shapes and presets need no TensorFlow: the first use of any other name imports it, and every layer.
Where tf_keras is imported already that happens at once, so that saved models find their layers.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tfdistill.lazy_exports import lazy_exports
from tfdistill.models.config import (
    LARGEST,
    BiLstmConfig,
    EncoderConfig,
    MobileBertConfig,
    StaticConfig,
    WordVectorConfig,
)
from tfdistill.models.flops import count_parameters, flops
from tfdistill.models.presets import preset, presets

if TYPE_CHECKING:
    from tfdistill.models.attention import (
        ATTENTION_MASK_VALUE,
        AttentionContext,
        AttentionProbabilities,
        AttentionScores,
    )
    from tfdistill.models.bert import build_encoder
    from tfdistill.models.bilstm import build_bilstm
    from tfdistill.models.classifiers import (
        build_classifier,
        build_span_classifier,
        build_token_classifier,
    )
    from tfdistill.models.dropout import Dropout, dropout_seed
    from tfdistill.models.embedding import L2Normalization, build_embedder
    from tfdistill.models.heads import (
        Head,
        HeadKind,
        build_model,
        build_random,
        head_for,
        head_of,
        is_of_head,
        num_labels_of,
        read_head,
        register_head,
    )
    from tfdistill.models.introspection import (
        check_model,
        config_of,
        copy_encoder,
        taps,
        with_policy,
    )
    from tfdistill.models.layers import (
        LayerNorm,
        NoNorm,
        PositionEmbedding,
        WordEmbedding,
    )
    from tfdistill.models.prediction import predict_logits, predictor
    from tfdistill.models.pretraining import build_masked_lm

__all__ = [
    "ATTENTION_MASK_VALUE",
    "LARGEST",
    "AttentionContext",
    "AttentionProbabilities",
    "AttentionScores",
    "BiLstmConfig",
    "Dropout",
    "EncoderConfig",
    "Head",
    "HeadKind",
    "L2Normalization",
    "LayerNorm",
    "MobileBertConfig",
    "NoNorm",
    "PositionEmbedding",
    "StaticConfig",
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
    "is_of_head",
    "num_labels_of",
    "predict_logits",
    "predictor",
    "preset",
    "presets",
    "read_head",
    "register_head",
    "taps",
    "with_policy",
]

__getattr__, __dir__ = lazy_exports(__name__, together=True)

if "tf_keras" in sys.modules:
    __getattr__("build_model")
