"""MiniLM's relations through the step, against plain NumPy."""

import numpy as np
import pytest
import tensorflow as tf
import toys
from distiller_checks import evaluated, tapped

import harness
from tfdistill import distillers, errors, models
from tfdistill.losses import layered

LENGTHS = (5, 3, 6, 4)
FEATURES = toys.features(LENGTHS)
WEIGHTS = tf.constant([1.0, 0.0, 3.0, 0.5])
TEACHER = toys.TEACHER.replace(num_heads=3)  # 12 wide; the student is 8 wide with 2 heads
STUDENT = toys.STUDENT
VECTORS = {"query": "queries", "key": "keys", "value": "values"}
# float32 sums of some hundred terms against float64.
RELATIVE = 1e-5


@pytest.fixture
def make(teacher, student):
    def run(teacher=teacher, student=student, **options):
        return distillers.MiniLmDistiller(teacher, student, **options)

    return run


def relations(vectors, heads):
    """log softmax_j(x_i . x_j / sqrt(d_r)) for each head: (heads, tokens, tokens)."""
    relations_of_layers = []
    for part in np.split(vectors, heads, axis=1):
        scores = part @ part.T / part.shape[1] ** 0.5
        relations_of_layers.append(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))
    return np.array(relations_of_layers)


def transcribed(teacher, student, layers, heads, weights):
    """Each term: divergences of all real tokens, weighted by their example."""
    taps = [tapped(model, FEATURES) for model in (teacher, student)]
    expected = {}
    for term, tap in VECTORS.items():
        values, counts = [], []
        for b, length in enumerate(LENGTHS):
            log_p, log_q = (
                relations(side[tap][layer][b, :length], heads)
                for side, layer in zip(taps, layers, strict=True)
            )
            divergence = (np.exp(log_p) * (log_p - log_q)).sum(axis=-1)  # (heads, tokens)
            values += list(divergence.mean(axis=0))
            counts += [1.0 if weights is None else float(weights[b])] * length
        expected[term] = np.average(values, weights=counts)
    return expected


@pytest.mark.parametrize(
    ("options", "layers", "heads", "weights"),
    [
        ({}, (3, 1), 4, None),  # 4 divides 12 and 8
        ({"num_relation_heads": 2, "teacher_layer": -2, "student_layer": 0}, (2, 0), 2, WEIGHTS),
    ],
)
def test_terms_are_the_formulas(make, teacher, student, options, layers, heads, weights):
    distiller = make(**options)
    for loss in distiller.losses_by_name.values():
        assert (loss.pairs, loss.num_relation_heads) == ((layers,), heads)
    received = evaluated(
        distiller, *((FEATURES,) if weights is None else (FEATURES, None, weights))
    )
    expected = transcribed(teacher, student, layers, heads, weights)
    assert received.pop("loss") == harness.divergences(sum(expected.values()))
    assert received == harness.divergences(expected)
    assert min(expected.values()) > 0.01


def test_reference_is_a_mean_over_sentences(make, teacher, student):
    received = evaluated(make(reduction="reference"), FEATURES)
    parts = [transcribed(teacher, student, (3, 1), 4, np.eye(4)[b]) for b in range(4)]
    for term in VECTORS:
        assert received[term] == pytest.approx(
            np.mean([part[term] for part in parts]), rel=RELATIVE
        )


def test_a_bottleneck_is_as_wide_as_its_queries_are(make, teacher):
    """A MobileBERT is 8 wide between its blocks and asks with 6."""
    config = models.MobileBertConfig(
        num_layers=1,
        hidden_size=8,
        num_heads=2,
        intermediate_size=6,
        vocab_size=30,
        max_positions=12,
        embedding_size=3,
        bottleneck_size=6,
        num_feed_forward=1,
    )
    student = toys.randomise(models.build_encoder(config), seed=2)
    distiller = make(student=student, student_layer=0)
    assert distiller.losses_by_name["query"].num_relation_heads == 6
    expected = transcribed(teacher, student, (3, 0), 6, None)
    received = evaluated(distiller, FEATURES)
    assert received.pop("loss") > 0.01
    assert received == harness.divergences(expected)


@pytest.mark.slow
def test_sixteen_heads_teach_twelve(make):
    """The shape of a BERT-large, whose attention TinyBERT cannot hand to a student of 12 heads."""
    thin = {"num_layers": 1, "intermediate_size": 4, "vocab_size": 30, "max_positions": 12}
    shape = toys.STUDENT.replace(**thin)
    large = models.build_encoder(shape.replace(hidden_size=1024, num_heads=16))
    small = models.build_encoder(shape.replace(hidden_size=384, num_heads=12))
    distiller = make(large, small)
    assert distiller.losses_by_name["query"].num_relation_heads == 64
    received = evaluated(distiller, FEATURES)
    expected = transcribed(large, small, (0, 0), 64, None)
    # Fresh models see all words alike: divergences of 1e-4, from float32 logarithms.
    assert {term: received[term] for term in VECTORS} == pytest.approx(expected, rel=1e-2)
    attention = distillers.TinyBertDistiller(large, small)
    with pytest.raises(errors.ShapeError, match=r"16 as in the teacher, received 12.*MiniLM"):
        attention.compile("sgd")


def test_relation_heads_of_the_paper():
    base = models.preset("bert_base")
    large = base.replace(num_layers=24, hidden_size=1024, num_heads=16, intermediate_size=4096)
    small = base.replace(num_layers=6, hidden_size=384, num_heads=12, intermediate_size=1536)
    assert layered.default_relation_heads(base, small) == 48
    assert layered.default_relation_heads(large, small) == 64
    assert layered.default_relation_heads(base, base) == 48
    # 384 and 312 wide: 24 is all that they have in common.
    assert layered.default_relation_heads(small, base.replace(hidden_size=312)) == 24
