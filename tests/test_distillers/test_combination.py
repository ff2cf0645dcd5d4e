"""Any objectives together: equal to the methods that they are parts of, and errors in words."""

import numpy as np
import pytest
import tensorflow as tf
import toys
from distiller_checks import evaluated

from tfdistill import distillers, errors, losses, models

TEACHER, STUDENT = toys.TEACHER, toys.STUDENT
FEATURES = toys.features((5, 3, 6, 4))
LABELS = toys.labels(4)
WEIGHTS = tf.constant([1.0, 0.0, 3.0, 0.5])
# The same losses, added up in another order.
RELATIVE = 1e-6


@pytest.fixture
def wide(built):
    return toys.randomise(built(toys.STUDENT.replace(hidden_size=12)), seed=2)


@pytest.fixture
def make(teacher, student):
    def run(terms, teacher=teacher, student=student, **options):
        return distillers.Distiller(teacher, student, losses.build_losses(terms), **options)

    return run


# As the methods.


@pytest.mark.parametrize(
    ("layer_map", "reduction"),
    [("uniform", "tokens"), ([3, 0], "reference")],
)
def test_tinybert_as_a_combination(make, teacher, wide, layer_map, reduction):
    method = distillers.TinyBertDistiller(
        teacher, wide, layer_map=layer_map, projection="none", reduction=reduction
    )
    layers = {"layers": layer_map, "reduction": reduction}
    combination = make(
        {
            "attention": {"loss": "AttentionScoreMSE", **layers},
            "embedding": {
                "loss": "HiddenStateMSE",
                "tap": "embeddings",
                "reduction": reduction,
            },
            "hidden": {"loss": "HiddenStateMSE", **layers},
        },
        student=wide,
    )
    data = (FEATURES, LABELS, WEIGHTS)
    assert evaluated(combination, *data) == pytest.approx(evaluated(method, *data), rel=RELATIVE)


def test_pkd_as_a_combination(make, teacher, wide):
    method = distillers.PatientDistiller(
        teacher, wide, alpha=0.3, beta=7.0, temperature=5.0, layer_map="last"
    )
    soft = {"loss": "KLDivergence", "temperature": 5, "weight": 0.7}
    patient = {"loss": "PatientMSE", "over_layers": "mean", "weight": 7}
    combination = make(
        {
            "label": {"loss": "GoldLabels", "weight": 0.3},
            "logits": soft,
            "patient": {**patient, "layers": "last"},
        },
        student=wide,
    )
    data = (FEATURES, LABELS, WEIGHTS)
    assert evaluated(combination, *data) == pytest.approx(evaluated(method, *data), rel=RELATIVE)


def test_minilm_as_a_combination(make, teacher, student):
    options = {"num_relation_heads": 2, "reduction": "reference"}
    method = distillers.MiniLmDistiller(teacher, student, teacher_layer=-2, **options)
    relations = {"loss": "RelationKL", "layers": [[-2, -1]], **options}
    vectors = {"query": "queries", "key": "keys", "value": "values"}
    combination = make({term: {**relations, "vectors": of} for term, of in vectors.items()})
    data = (FEATURES, LABELS, WEIGHTS)
    assert evaluated(combination, *data) == pytest.approx(evaluated(method, *data), rel=RELATIVE)


def test_distilbert_as_a_combination(make):
    shape = {"family": "distilbert", "type_vocab_size": 0, "pooler": False}
    teacher = toys.randomise(models.build_masked_lm(toys.STUDENT), seed=1)
    student = toys.randomise(models.build_masked_lm(toys.SHALLOW_STUDENT.replace(**shape)), seed=2)
    hidden = np.array(FEATURES["attention_mask"]) * np.array([[0, 1, 0, 1, 0, 0]])
    features = {
        **FEATURES,
        "prediction_mask": FEATURES["attention_mask"],
        "mlm_labels": tf.constant(np.where(hidden, 7, -100).astype(np.int32)),
    }
    method = distillers.DistilBertDistiller(teacher, student)
    combination = make(
        {
            "logits": {"loss": "KLDivergence", "temperature": 2, "weight": 5},
            "mlm": {"loss": "MaskedWords", "weight": 2},
            "cosine": {"loss": "CosineDistance", "layers": [[-1, -1]]},
        },
        teacher,
        student,
    )
    data = (features, None, WEIGHTS)
    assert evaluated(combination, *data) == pytest.approx(evaluated(method, *data), rel=RELATIVE)
    # Logits over a vocabulary are not kept on disk.
    combination.compile("sgd", loss_weights={"mlm": 0, "cosine": 0})
    assert not combination.needs_only_logits()


def test_without_a_map_layers_are_spread_evenly(make, wide):
    options_of = {
        "default": {},
        "uniform": {"layers": "uniform"},
        "pairs": {"layers": [[1, 0], [3, 1]]},
        "first": {"layers": [[1, 0]]},
        "second": {"layers": [[-1, -1]]},
        "mean": {"over_layers": "mean"},
        "twice": {"layers": [[1, 0], [1, 0]]},
    }
    terms = {name: {"loss": "HiddenStateMSE", **options} for name, options in options_of.items()}
    value = evaluated(make(terms, student=wide), FEATURES)
    assert value["default"] == value["uniform"] == value["pairs"]
    total = value["first"] + value["second"]
    assert value["first"] != pytest.approx(value["second"], rel=0.01)
    assert value["default"] == pytest.approx(total, rel=RELATIVE)
    assert value["mean"] == pytest.approx(total / 2, rel=RELATIVE)
    assert value["twice"] == pytest.approx(2 * value["first"], rel=RELATIVE)


def test_every_layered_objective_is_what_it_is_called(make, teacher, wide):
    """Each on layer 2 of the teacher and 0 of the student, against the objective itself."""
    teacher_taps, student_taps = (
        models.taps(model)(FEATURES, training=False) for model in (teacher, wide)
    )
    mask = tf.cast(FEATURES["attention_mask"], tf.float32)
    kernels = {
        "AttentionScoreMSE": losses.attention_score_mse,
        "AttentionCrossEntropy": losses.attention_cross_entropy,
        "AttentionKLDivergence": losses.attention_kl_divergence,
        "HiddenStateMSE": losses.hidden_state_mse,
        "CosineDistance": losses.cosine_distance,
        "FeatureMapMSE": losses.feature_map_mse,
        "FeatureMeanMSE": losses.feature_mean_mse,
        "FeatureVarianceMAE": losses.feature_variance_mae,
    }
    terms = {name: {"loss": name, "layers": [[2, 0]]} for name in kernels}
    received = evaluated(make(terms, student=wide), FEATURES)
    for name, kernel in kernels.items():
        tap = "attention_scores" if name.startswith("Attention") else "hidden_states"
        expected = kernel(teacher_taps[tap][2], student_taps[tap][0], mask)
        assert received[name] == pytest.approx(float(expected), rel=RELATIVE), name


# What is refused.


def test_all_faults_of_descriptions_are_reported_at_once():
    with pytest.raises(errors.ConfigError) as caught:
        losses.build_losses(
            {
                "a": {"loss": "HidenStateMSE"},
                "b": {"loss": "KLDivergence", "temperature": 0},
                "b2": {"loss": "KLDivergence", "layers": "top"},
                "c": {"loss": "HiddenStateMSE", "projection": "shard"},
                "e": {"temperature": 2},
                "loss": {"loss": "GoldLabels"},
                "e2": {"loss": "GoldLabels", "weight": -1},
                "f": {"loss": "RelationKL", "num_relation_heads": 0},
                "f2": {"loss": "RelationKL", "reduction": "batch"},
                "fine": {"loss": "MaskedWords"},
                "absent": {"loss": "no_such_module:Loss"},
                "other": {"loss": "collections:OrderedDict"},
            }
        )
    lines = str(caught.value).splitlines()
    for start, message in (
        ("losses.a", "Did you mean 'HiddenStateMSE'?"),
        ("losses.b: temperature", "a finite number above 0, received 0"),
        ("losses.b2: option of KLDivergence", "received 'layers'"),
        ("losses.c: projection", "Did you mean 'shared'?"),
        ("losses.e", "{loss: <its class>, ...}"),
        ("losses.loss: name of a loss", "'loss'"),
        ("losses.e2: weight", "received -1"),
        ("losses.f: num_relation_heads", "at least 1"),
        ("losses.f2: reduction", "tokens, reference"),
        ("losses.absent: loss", "no_such_module"),
        ("losses.other: loss", "a subclass of tfdistill.losses.Loss"),
    ):
        assert any(line.startswith(start) and message in line for line in lines), (start, lines)
    assert len(lines) == 11
    assert not any("fine" in line for line in lines)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({}, "losses: expected at least one"),
        ({"x": {"loss": "GoldLabels", "weight": "1"}}, "weight: expected a number, received '1'"),
        ({"x": {"loss": "GoldLabels", "weight": True}}, "weight: expected a number"),
        ({"x": {"loss": "MaskedWords", "temperature": 2}}, "expected one of weight"),
        ({"x": {"loss": "KLDivergence", "scale_by_t2": 1}}, "true or false"),
        ({"x": {"loss": "KLDivergence", "temperature": "4"}}, "a number, received '4'"),
        ({"x": {"loss": "KLDivergence", "head": "tokens"}}, "head"),
        ({"x": {"loss": "CosineDistance", "layers": [[1], 2]}}, "pairs [[teacher layer"),
        ({"x": {"loss": "CosineDistance", "layers": [[4, 0]]}}, "from 0 to 3"),
        ({"x": {"loss": "CosineDistance", "layers": []}}, "2 student layers"),
        ({"x": {"loss": "CosineDistance", "layers": 3}}, "a name, teacher layers, or pairs"),
        ({"x": {"loss": "CosineDistance", "layers": [1]}}, "2 student layers"),
        ({"x": {"loss": "PatientMSE", "layers": "skips"}}, "received 'skips'"),
        ({"x": {"loss": "CosineDistance", "reduction": "tokens"}}, "reduction: expected none"),
        (
            {"x": {"loss": "AttentionScoreMSE", "tap": "hidden_states"}},
            "tap: expected none",
        ),
        ({"x": {"loss": "PatientMSE", "tap": "embeddings"}}, "tap: expected none"),
        (
            {"x": {"loss": "FeatureMapMSE", "projection": "shared"}},
            "projection: expected one of none",
        ),
        ({"x": {"loss": "FeatureMapMSE", "options": 1}}, "received 'options'"),
        ({"x": {"loss": "RelationKL", "tap": "keys"}}, "received 'tap'"),
        ({"x": {"loss": "RelationKL", "projection": "none"}}, "received 'projection'"),
        ({"x": {"loss": "HiddenStateMSE", "tap": "queries"}}, "tap: expected one of hidden_states"),
        (
            {"x": {"loss": "CosineDistance", "tap": "embeddings", "layers": [[0, 0]]}},
            "tap='embeddings'",
        ),
        ({"my term": {"loss": "GoldLabels"}}, "letters, digits and _"),
        ({"x": "label"}, "losses.x: description: expected {loss: <its class>, ...}"),
        ({"x": ["objective"]}, "losses.x: description: expected {loss: <its class>, ...}"),
    ],
)
def test_descriptions_that_mean_nothing_are_refused(make, terms, message):
    with pytest.raises(errors.ConfigError) as caught:
        make(terms)
    assert message in str(caught.value)


def test_all_that_does_not_fit_is_reported_at_once(make, built, teacher):
    four = built(toys.STUDENT.replace(num_heads=4), 2)
    distiller = make(
        {
            "scores": {"loss": "AttentionCrossEntropy"},
            "states": {"loss": "HiddenStateMSE"},
            "cosine": {"loss": "CosineDistance"},
            "values": {"loss": "RelationKL", "num_relation_heads": 3},
            "soft": {"loss": "KLDivergence"},
            "words": {"loss": "MaskedWords"},
            "next": {"loss": "NextSentence"},
            "gold": {"loss": "GoldLabels"},
        },
        student=four,
    )
    with pytest.raises(errors.ShapeError) as caught:
        distiller.compile("sgd")
    lines = str(caught.value).splitlines()
    for start, message in (
        ("loss 'scores': student heads", "MiniLM's relations instead"),
        ("loss 'states': student width", "projection='per_layer'"),
        ("loss 'cosine': student width", "HiddenStateMSE, which can have a projection"),
        ("loss 'values': num_relation_heads", "Fitting: 1, 2, 4."),
        ("loss 'soft': answers", "a sequence head with 3 and a sequence head with 2"),
        ("loss 'words': student", "a masked language model"),
        ("loss 'next': student", "a next-sentence head"),
    ):
        assert any(line.startswith(start) and message in line for line in lines), (start, lines)
    assert not any("gold" in line for line in lines)
    # A term without weight need not fit.
    distiller.compile("sgd", loss_weights=dict.fromkeys(distiller.terms, 0) | {"gold": 1})
    teacher, student = built(toys.SHALLOW_TEACHER, 1), built(toys.SHALLOW_STUDENT, 1)
    distiller = make({"soft": {"loss": "SoftCrossEntropy"}}, teacher, student)
    with pytest.raises(errors.ShapeError, match="'logit_mse' for a regression"):
        distiller.compile("sgd")
