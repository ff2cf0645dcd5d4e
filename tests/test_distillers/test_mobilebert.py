"""MobileBERT's losses against plain NumPy, and the faults of the published code as tests."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys
from distiller_checks import log_softmax, tapped

from tfdistill import distillers, errors, models

LENGTHS = (5, 3, 6)
PLAIN = toys.features(LENGTHS)
# Asked about but not masked (the last row's second token): no label there.
LABELS = np.full((3, 6), -100, np.int32)
LABELS[0, 1], LABELS[0, 4], LABELS[1, 2], LABELS[2, 0] = 7, 3, 11, 4
PREDICTED = (LABELS >= 0).astype(np.int32)
PREDICTED[2, 1] = 1
MASKED = {
    **PLAIN,
    "prediction_mask": tf.constant(PREDICTED),
    "mlm_labels": tf.constant(LABELS),
    "nsp_labels": tf.constant([0, 1, 1]),
}
# float32 sums of some hundred squares against float64.
RELATIVE = 1e-5
TRANSFER = ("feature_map", "mean", "variance", "attention")
WORDS = ("mlm", "logits", "nsp")

STUDENT = models.MobileBertConfig(
    num_layers=2,
    num_heads=2,
    vocab_size=30,
    max_positions=12,
    hidden_size=8,
    embedding_size=4,
    bottleneck_size=4,
    intermediate_size=6,
    num_feed_forward=2,
    shared_key_query=True,
    normalization="no_norm",
    hidden_act="relu",
    dropout=0.0,
    attention_dropout=0.0,
)
TEACHER = STUDENT.replace(
    bottleneck_size=12,
    intermediate_size=16,
    num_feed_forward=1,
    shared_key_query=False,
    normalization="layer_norm",
    hidden_act="gelu_tanh",
)


@pytest.fixture(scope="module")
def pair():
    """Masked language models: a teacher and a student."""
    built = [models.build_masked_lm(config, next_sentence=True) for config in (TEACHER, STUDENT)]
    return [toys.randomise(model, seed) for seed, model in enumerate(built, start=1)]


@pytest.fixture
def mobilebert(pair):
    """Makes a compiled distiller over the pair."""

    def make(teacher=pair[0], student=pair[1], *, optimizer=None, **options):
        distiller = distillers.MobileBertDistiller(teacher, student, **options)
        distiller.compile(optimizer or keras.optimizers.SGD(0.01), run_eagerly=True)
        return distiller

    return make


# The formulas, over the real tokens of one layer.


def tokens(states):
    return np.concatenate([states[b, :length] for b, length in enumerate(LENGTHS)])


def layer_norm(states, epsilon=1e-12):
    centred = states - states.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(states.var(axis=-1, keepdims=True) + epsilon)


def feature_map(of_teacher, ours):
    return np.mean((layer_norm(tokens(ours)) - layer_norm(tokens(of_teacher))) ** 2)


def mean(of_teacher, ours):
    return np.mean((tokens(ours).mean(axis=-1) - tokens(of_teacher).mean(axis=-1)) ** 2)


def variance(of_teacher, ours):
    return np.mean(np.abs(tokens(ours).var(axis=-1) - tokens(of_teacher).var(axis=-1)))


def attention(of_teacher, ours, entropy=0.0):
    rows = []
    for b, n in enumerate(LENGTHS):
        p, q = (
            log_softmax(of_teacher[b, :, :n, :n]),
            log_softmax(ours[b, :, :n, :n]),
        )
        rows.append(-(np.exp(p) * (q - entropy * p)).sum(axis=-1).ravel())
    return np.concatenate(rows).mean()


def transfer(of_teacher, ours, layers):
    """The unweighted terms, summed over layers."""
    states = [(of_teacher["hidden_states"][i], ours["hidden_states"][i]) for i in layers]
    scores = [(of_teacher["attention_scores"][i], ours["attention_scores"][i]) for i in layers]
    return {
        "feature_map": sum(feature_map(*pair) for pair in states),
        "mean": sum(mean(*pair) for pair in states),
        "variance": sum(variance(*pair) for pair in states),
        "attention": sum(attention(*pair) for pair in scores),
    }


def words(of_teacher, ours):
    """The terms of the masked tokens: of the five predicted rows the last has no label."""
    labels = LABELS[PREDICTED == 1]
    labelled = labels >= 0
    answers = log_softmax(ours["mlm_logits"])[labelled]
    targets = np.exp(log_softmax(of_teacher["mlm_logits"]))[labelled]
    sentences = log_softmax(ours["nsp_logits"])
    return {
        "mlm": -answers[np.arange(4), labels[labelled]].mean(),
        "logits": -(targets * answers).sum(axis=-1).mean(),
        "nsp": -sentences[np.arange(3), [0, 1, 1]].mean(),
    }


def test_all_terms_are_the_formulas_and_the_loss_their_published_sum(mobilebert, logs, pair):
    of_teacher, ours = (tapped(model, MASKED) for model in pair)
    received = logs(mobilebert().test_step, MASKED)
    expected = {**transfer(of_teacher, ours, (0, 1)), **words(of_teacher, ours)}
    weights = (100, 5000, 5, 1, 0.5, 0.5, 1)
    loss = sum(w * value for w, value in zip(weights, expected.values(), strict=True))
    accuracy = received.pop("mlm_accuracy")
    assert received.pop("loss") == pytest.approx(loss, rel=RELATIVE)
    assert received == pytest.approx(expected, rel=RELATIVE)
    assert min(expected.values()) > 1e-3
    hits = np.argmax(ours["mlm_logits"], axis=-1) == LABELS[PREDICTED == 1]
    assert accuracy == pytest.approx(hits[:4].mean())


@pytest.mark.slow
@pytest.mark.parametrize("layers", [(0,), (1,), (-1,), (1, 0)])
def test_a_layer_is_compared_with_its_own_statistics_alone(mobilebert, logs, pair, layers):
    """The published TF1 code compares each layer with the statistics of all teacher layers."""
    of_teacher, ours = (tapped(model, MASKED) for model in pair)
    received = logs(mobilebert(layers=layers, predict_words=False).test_step, MASKED)
    expected = transfer(of_teacher, ours, [layer % 2 for layer in layers])
    received.pop("loss")
    assert received == pytest.approx(expected, rel=RELATIVE)
    if len(layers) == 1:
        stacked = np.mean(
            [mean(t, ours["hidden_states"][layers[0]]) for t in of_teacher["hidden_states"]]
        )
        assert abs(stacked - expected["mean"]) > 0.05 * expected["mean"]


def test_the_attention_passes_through_one_softmax(mobilebert, logs, pair):
    """The published TF2 code softmaxes probabilities."""
    of_teacher, ours = (tapped(model, MASKED)["attention_scores"] for model in pair)
    received = logs(mobilebert(predict_words=False).test_step, MASKED)["attention"]
    probabilities = [
        [np.exp(log_softmax(scores)) for scores in side] for side in (of_teacher, ours)
    ]
    twice = sum(attention(p, q) for p, q in zip(*probabilities, strict=True))
    once = sum(attention(p, q) for p, q in zip(of_teacher, ours, strict=True))
    assert received == pytest.approx(once, rel=RELATIVE)
    assert abs(twice - once) > 0.02 * once


def test_states_of_small_variance_are_still_normalised(mobilebert, logs, pair):
    """The published TF2 code normalises with epsilon 1e-3."""
    _, student = pair
    norm = student.get_layer("layer_1_layer_norm")
    before = norm.get_weights()
    norm.set_weights([0.003 * values for values in before])
    of_teacher, ours = (tapped(model, MASKED)["hidden_states"][1] for model in pair)
    received = logs(mobilebert(layers=(1,), predict_words=False).test_step, MASKED)
    norm.set_weights(before)
    assert received["feature_map"] == pytest.approx(feature_map(of_teacher, ours), rel=1e-4)
    muted = np.mean((layer_norm(tokens(ours), 1e-3) - layer_norm(tokens(of_teacher), 1e-3)) ** 2)
    assert abs(muted - feature_map(of_teacher, ours)) > 0.1 * muted


def test_the_teacher_s_dropout_is_off(mobilebert, logs, pair):
    """The published TF2 code runs the teacher in training mode."""
    teacher, _ = pair
    config = TEACHER.replace(dropout=0.5, attention_dropout=0.5)
    noisy = models.build_masked_lm(config, next_sentence=True)
    noisy.set_weights(teacher.get_weights())
    still = {"optimizer": keras.optimizers.SGD(0.0)}
    expected = logs(mobilebert().test_step, MASKED)
    distiller = mobilebert(noisy, **still)
    for _ in range(2):
        assert logs(distiller.train_step, MASKED) == pytest.approx(expected, rel=1e-6)


def test_options_change_the_formula_they_name(mobilebert, logs, pair):
    of_teacher, ours = (tapped(model, MASKED) for model in pair)
    plain = transfer(of_teacher, ours, (0, 1))
    only = {"predict_words": False}
    received = logs(mobilebert(layer_reduction="mean", **only).test_step, MASKED)
    for term, value in plain.items():
        assert received[term] == pytest.approx(value / 2, rel=RELATIVE)
    received = logs(mobilebert(attention="kl_divergence", **only).test_step, MASKED)
    scores = zip(of_teacher["attention_scores"], ours["attention_scores"], strict=True)
    divergence = sum(attention(*pair, entropy=1.0) for pair in scores)
    assert received["attention"] == pytest.approx(divergence, rel=RELATIVE)
    assert received["mean"] == pytest.approx(plain["mean"], rel=RELATIVE)
    received = logs(mobilebert(reduction="reference", **only).test_step, MASKED)
    states = zip(of_teacher["hidden_states"], ours["hidden_states"], strict=True)
    everywhere = sum(np.mean((t.mean(axis=-1) - s.mean(axis=-1)) ** 2) for t, s in states)
    assert received["mean"] == pytest.approx(everywhere, rel=RELATIVE)


def test_sample_weights_weigh_the_tokens_of_their_example(mobilebert, logs):
    weights = tf.constant([1.0, 0.0, 2.0])
    keep = [0, 2, 2]
    repeated = {name: tf.gather(rows, keep) for name, rows in MASKED.items()}
    one = logs(mobilebert().test_step, MASKED, None, weights)
    other = logs(mobilebert().test_step, repeated)
    assert one == pytest.approx(other, rel=RELATIVE)
    assert one["loss"] != pytest.approx(logs(mobilebert().test_step, MASKED)["loss"], rel=1e-3)


# What a stage learns.


def learnt(distiller):
    """The layers that a step moves."""
    before = {v.name: v.numpy() for v in distiller.student.variables}
    distiller.train_step(MASKED)
    moved = {
        v.name.split("/")[0]
        for v in distiller.student.variables
        if (v.numpy() != before[v.name]).any()
    }
    for variable in distiller.student.variables:
        variable.assign(before[variable.name])
    return moved


def test_a_layer_or_the_words_alone_are_learnt_and_nothing_behind_them(mobilebert, logs):
    moved = learnt(mobilebert(layers=(0,), predict_words=False))
    assert {"word_embeddings", "layer_0_query", "layer_0_ffn_1_output"} <= moved
    assert not [name for name in moved if name.startswith(("layer_1", "mlm", "nsp"))]
    assert "layer_1_output" in learnt(mobilebert(layers=(1,), predict_words=False))
    distiller = mobilebert(layers=())
    assert distiller.terms == WORDS
    assert {"mlm_extra_decoder", "nsp_classifier", "layer_1_output"} <= learnt(distiller)
    whole = logs(mobilebert().test_step, MASKED)
    received = logs(distiller.test_step, MASKED)
    assert received == pytest.approx({**{n: whole[n] for n in received}, "loss": received["loss"]})


def test_words_that_are_not_learnt_are_not_computed(mobilebert):
    """A decoder over 30,000 words costs as much as several layers."""
    distiller = mobilebert(layers=(0,), predict_words=False)
    assert distiller.terms == TRANSFER
    step = tf.function(lambda: distiller.train_step((MASKED,)), autograph=False)
    waiting = [tensor.op for tensor in step.get_concrete_function().outputs]
    products = set()  # of matrices, among all that the step needs
    seen = set(waiting)
    while waiting:
        op = waiting.pop()
        products |= {op.name} if "MatMul" in op.type else set()
        before = {tensor.op for tensor in op.inputs} | set(op.control_inputs)
        waiting += before - seen
        seen |= before
    assert any("layer_0_attention_scores" in name for name in products)
    assert any("gradient_tape" in name for name in products)
    assert not any("mlm_transform" in name or "layer_1" in name for name in products)


def test_encoders_are_taught_their_layers_and_no_term_without_its_head(logs, pair):
    teacher = toys.randomise(models.build_encoder(TEACHER), 1)
    student = toys.randomise(models.build_classifier(STUDENT, 3), 2)
    distiller = distillers.MobileBertDistiller(teacher, student)
    distiller.compile("sgd", run_eagerly=True)
    received = logs(distiller.train_step, PLAIN, toys.labels(3))
    assert list(received) == ["loss", *TRANSFER]
    teacher, _ = pair
    student = models.build_masked_lm(STUDENT)
    assert "nsp" not in distillers.MobileBertDistiller(teacher, student).terms


# What is refused.


def encoder(**changes):
    return models.build_encoder(toys.STUDENT.replace(**changes))


@pytest.mark.slow
def test_unequal_widths_depths_heads_and_words_are_refused(pair):
    student = encoder()
    with pytest.raises(errors.ShapeError, match=r"student layers: expected 3 .* TinyBertDistiller"):
        distillers.MobileBertDistiller(encoder(num_layers=3), student)
    with pytest.raises(errors.ShapeError):
        distillers.MobileBertDistiller(encoder(vocab_size=31), student)
    with pytest.raises(errors.ShapeError):
        distillers.MobileBertDistiller(encoder(), student, predict_words=True)
    wide = distillers.MobileBertDistiller(encoder(hidden_size=16), student)
    with pytest.raises(errors.ShapeError, match=r"width between blocks: expected 16 .* received 8"):
        wide.compile("sgd")
    wide.compile("sgd", loss_weights={"feature_map": 0, "mean": 0, "variance": 0})
    heads = distillers.MobileBertDistiller(encoder(num_heads=4), student)
    with pytest.raises(errors.ShapeError):
        heads.compile("sgd")
    heads.compile("sgd", loss_weights={"attention": 0})
    _, masked = pair
    mute = distillers.MobileBertDistiller(encoder(), masked)
    with pytest.raises(errors.ShapeError, match="loss 'logits': teacher: expected a masked"):
        mute.compile("sgd")
    mute.compile("sgd", loss_weights={"logits": 0, "mlm": 1})
