"""MiniLM's relations through the step, against plain NumPy."""

import distiller_checks
import numpy as np
import pytest
import tensorflow as tf
import toys

import harness
from tfdistill import distillers, errors, models
from tfdistill.losses import layered

LENGTHS = (5, 3, 6, 4)
FEATURES = toys.features(LENGTHS)
WEIGHTS = tf.constant([1.0, 0.0, 3.0, 0.5])
TEACHER = toys.TEACHER.replace(num_heads=3)  # 12 wide; the student is 8 wide with 2 heads
VECTORS = {"query": "queries", "key": "keys", "value": "values"}
# float32 sums of some hundred terms against float64.
RELATIVE = 1e-5


@pytest.fixture
def teacher(built):
    return toys.randomise(built(TEACHER), seed=1)


@pytest.fixture
def student(built):
    return toys.randomise(built(toys.STUDENT), seed=2)


@pytest.fixture
def make(teacher, student):
    def run(teacher=teacher, student=student, **options):
        return distillers.MiniLmDistiller(teacher, student, **options)

    return run


def logged(distiller, *data, **options):
    step = distiller_checks.compiled(distiller, **options).test_step
    return distiller_checks.logged(step, *data)


def relations(vectors, heads):
    """log softmax_j(x_i . x_j / sqrt(d_r)) for each head: (heads, tokens, tokens)."""
    relations_of_layers = []
    for part in np.split(vectors, heads, axis=1):
        scores = part @ part.T / part.shape[1] ** 0.5
        relations_of_layers.append(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))
    return np.array(relations_of_layers)


def transcribed(teacher, student, layers, heads, weights):
    """Each term: divergences of all real tokens, weighted by their example."""
    taps = [
        tf.nest.map_structure(
            lambda x: x.numpy().astype(np.float64), models.taps(model)(FEATURES, training=False)
        )
        for model in (teacher, student)
    ]
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
        ({"num_relation_heads": 2, "teacher_layer": -2}, (2, 1), 2, WEIGHTS),
        ({"num_relation_heads": 1, "teacher_layer": 1, "student_layer": 0}, (1, 0), 1, WEIGHTS),
    ],
)
def test_terms_are_the_formulas(make, teacher, student, options, layers, heads, weights):
    distiller = make(**options)
    for loss in distiller.losses_by_name.values():
        assert (loss.pairs, loss.num_relation_heads) == ((layers,), heads)
    received = logged(distiller, *((FEATURES,) if weights is None else (FEATURES, None, weights)))
    expected = transcribed(teacher, student, layers, heads, weights)
    assert received.pop("loss") == harness.divergences(sum(expected.values()))
    assert received == harness.divergences(expected)
    assert min(expected.values()) > 0.01


def test_reference_is_a_mean_over_sentences(make, teacher, student):
    received = logged(make(reduction="reference"), FEATURES)
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
    received = logged(distiller, FEATURES)
    assert received.pop("loss") > 0.01
    assert received == harness.divergences(expected)


def test_sixteen_heads_teach_twelve(make):
    """The shape of a BERT-large, whose attention TinyBERT cannot hand to a student of 12 heads."""
    thin = {"num_layers": 1, "intermediate_size": 4, "vocab_size": 30, "max_positions": 12}
    shape = toys.STUDENT.replace(**thin)
    large = models.build_encoder(shape.replace(hidden_size=1024, num_heads=16))
    small = models.build_encoder(shape.replace(hidden_size=384, num_heads=12))
    distiller = make(large, small)
    assert distiller.losses_by_name["query"].num_relation_heads == 64
    received = logged(distiller, FEATURES)
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


def test_layers_above_the_learning_one_stay(make, student):
    before = {layer.name: layer.get_weights() for layer in student.layers}
    distiller = distiller_checks.compiled(make(student_layer=0))
    distiller.train_step((FEATURES,))
    moved = {
        layer.name
        for layer in student.layers
        if any((a != b).any() for a, b in zip(before[layer.name], layer.get_weights(), strict=True))
    }
    assert {"layer_0_query", "layer_0_key", "layer_0_value", "word_embeddings"} <= moved
    assert not any(name.startswith("layer_1") for name in moved)
    assert "layer_0_output" not in moved  # it comes after the attention
    assert "classifier" not in moved


@pytest.mark.slow
def test_one_seed_repeats_and_the_teacher_stays(make, built, student):
    noisy = built(toys.STUDENT.replace(dropout=0.3))
    before = student.get_weights()

    def again(**options):
        noisy.set_weights(before)
        return make(student=noisy, **options)

    distiller_checks.check_seeds(again, (FEATURES,))
    distiller_checks.check_teacher_stays(again, (FEATURES,))


@pytest.mark.thorough
def test_eight_examples_can_be_overfitted(make, built):
    features = toys.features((5, 3, 6, 4, 6, 2, 5, 4), seed=5)
    student = toys.randomise(built(toys.STUDENT.replace(hidden_size=16, num_heads=4)), seed=2)
    distiller = make(student=student)
    batches = distiller_checks.halves(features)
    terms = distiller_checks.first_and_last(distiller, batches, epochs=60)
    for term in VECTORS:
        first, last = terms[term]
        assert last < 0.1 * first, term


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"teacher_layer": 4}, errors.ConfigError, "teacher layer: expected a layer from 0 to 3"),
        ({"student_layer": True}, errors.ConfigError, "student layer: expected a layer from 0"),
        ({"student_layer": -3}, errors.ConfigError, "or from the end -1 to -2, received -3"),
        ({"teacher_layer": 1.0}, errors.ConfigError, "received 1.0"),
        ({"num_relation_heads": 3}, errors.ShapeError, "widths 12 and 8, received 3"),
        ({"num_relation_heads": 0}, errors.ConfigError, "an integer of at least 1"),
        ({"reduction": "mean"}, errors.ConfigError, "reduction: expected one of tokens"),
    ],
)
def test_options_out_of_range_are_refused(make, options, error, message):
    with pytest.raises(error) as caught:
        make(**options).compile("sgd")
    assert message in str(caught.value)
