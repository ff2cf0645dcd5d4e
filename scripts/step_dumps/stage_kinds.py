"""The cases of the dump: stages of every kind, their models and their batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
import toys  # pyright: ignore[reportMissingImports]  # of the tests

from tfdistill import config, distillers, models, tasks
from tfdistill.run import lessons

EXAMPLES = 4
LENGTHS = ((5, 3, 9, 4), (7, 7, 3, 5), (4, 9, 6, 3), (8, 3, 3, 8))
WORD_KINDS = ("mlm", "distilbert", "mobilebert")
STUDENT = toys.STUDENT.replace(dropout=0.1, attention_dropout=0.1)
WIDE_STUDENT = STUDENT.replace(hidden_size=12)
TEACHER = toys.TEACHER

Case = tuple[str, Callable[[], Any]]


def _stage(kind: str, **options: Any) -> Case:
    return kind, lambda: config.new_stage(kind, **options)


CASES: dict[str, Case] = {
    "general": _stage("general", projection="per_layer"),
    "intermediate": _stage("intermediate", reduction="reference"),
    "intermediate weights": _stage(
        "intermediate", layer_weights={"hidden": (0.0, 2.0)}, loss_weights={"attention": 0.5}
    ),
    "prediction": _stage("prediction", temperature=2.0, loss_weights={"label": 0.5}),
    "labels": _stage("labels"),
    "logits": _stage("logits", temperature=3.0, loss_weights={"label": 0.3}),
    "joint": _stage("joint"),
    "joint sharpened": _stage("joint", temperature=0.5, loss_weights={"label": 0.2}),
    "embedding": _stage("embedding", prefixes=(4, 8), loss_weights={"hidden": 0.5}),
    "patient": _stage("patient"),
    "relations": _stage("relations"),
    "combination": _stage(
        "combination",
        losses={
            "cosine": {"loss": "CosineDistance", "tap": "embeddings", "weight": 0.0},
            "maps": {"loss": "HiddenStateMSE", "projection": "per_layer"},
            "embedded": {"loss": "HiddenStateMSE", "tap": "embeddings", "projection": "shared"},
            "patient": {
                "loss": "PatientMSE",
                "layers": [[3, 1]],
                "projection": "shared",
                "weight": 3,
            },
            "attention": {"loss": "AttentionKLDivergence", "layers": "top"},
            "scores": {
                "loss": "AttentionCrossEntropy",
                "layers": [[-1, -1], [0, 0]],
                "over_layers": "mean",
            },
            "queries": {"loss": "RelationKL", "vectors": "queries", "num_relation_heads": 2},
            "soft": {"loss": "SoftCrossEntropy", "temperature": 2.0, "weight": 0.5},
            "gold": {"loss": "GoldLabels", "weight": 0.25},
        },
        reads="task",
    ),
    "combination words": _stage(
        "combination",
        losses={
            "means": {"loss": "FeatureMeanMSE", "reduction": "reference"},
            "variances": {"loss": "FeatureVarianceMAE"},
            "maps": {"loss": "FeatureMapMSE", "layers": "bottom"},
            "cosine": {"loss": "CosineDistance"},
            "answers": {"loss": "LogitMSE"},
        },
        reads="corpus",
    ),
    "mlm": _stage("mlm"),
    "distilbert": _stage("distilbert"),
    "mobilebert layer": _stage("mobilebert"),
    "mobilebert words": _stage("mobilebert", strategy="akt"),
}


def batch_of(kind: str, step: int) -> tuple[Any, ...]:
    """One batch of a kind: features, labels, sample weights."""
    random = np.random.default_rng(100 + step)
    features = toys.features(LENGTHS[step], seed=step)
    if kind in WORD_KINDS:
        mask = features["attention_mask"].numpy()
        labelled = (random.random(mask.shape) < 0.4) * mask
        words = random.integers(1, STUDENT.vocab_size, mask.shape)
        features |= {
            "prediction_mask": tf.constant(mask, tf.int32),
            "mlm_labels": tf.constant(np.where(labelled, words, -1), tf.int32),
            "nsp_labels": tf.constant(random.integers(0, 2, EXAMPLES), tf.int32),
        }
    labels = toys.labels(EXAMPLES, seed=step)
    weights = tf.constant(random.choice([0.5, 1.0, 2.0], EXAMPLES), tf.float32)
    return features, labels, weights


def distiller(
    kind: str,
    stage: Any,
    *,
    teacher_policy: str = "float32",
    student_policy: str = "float32",
) -> keras.Model:
    """The distiller that a run builds for a stage."""
    teacher, student = _models(kind, stage)
    if teacher_policy != "float32":
        teacher, student = (
            models.with_policy(teacher, teacher_policy),
            models.with_policy(student, student_policy),
        )
    if kind == "mobilebert":
        words = stage.strategy == "akt"
        return distillers.MobileBertDistiller(
            teacher, student, layers=None if words else (1,), predict_words=words, seed=5
        )
    head = models.head_of(student)
    names = {"sequence": "classification", "embedding": "embedding"}
    answers = tasks.KINDS[names[head]] if head in names else None
    losses = lessons.losses_of(stage, teacher, student, answers)
    has_teacher = stage.traits.has_teacher
    return distillers.Distiller(teacher if has_teacher else None, student, losses, seed=5)


def _models(kind: str, stage: Any) -> tuple[keras.Model, keras.Model]:
    words = kind in WORD_KINDS or getattr(stage, "reads", None) == "corpus"
    student = WIDE_STUDENT if kind in ("distilbert", "mobilebert", "patient") or words else STUDENT
    teacher = TEACHER.replace(num_layers=2) if kind == "mobilebert" else TEACHER
    pair = []
    for seed, shape in ((1, teacher), (2, student)):
        if kind in WORD_KINDS:
            model = models.build_masked_lm(shape, next_sentence=True)
        elif kind == "embedding":
            model = models.build_embedder(shape)
        else:
            model = models.build_classifier(shape, toys.NUM_LABELS)
        pair.append(toys.randomise(model, seed))
    return pair[0], pair[1]
