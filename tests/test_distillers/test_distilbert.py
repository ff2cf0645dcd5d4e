"""DistilBERT's triple loss, transcribed in plain NumPy over a batch with padding."""

import numpy as np
import pytest
import tensorflow as tf
import toys
from distiller_checks import evaluated, log_softmax

import harness
from tfdistill import distillers, errors, models

LENGTHS = (6, 3, 5, 4)
VOCAB = toys.STUDENT.vocab_size
WEIGHTS = tf.constant([1.0, 0.0, 3.0, 0.5])
TEACHER = toys.STUDENT
STUDENT = toys.STUDENT.replace(
    family="distilbert", num_layers=1, type_vocab_size=0, pooler=False, dropout=0.0
)
MASK_ID = 4


def masked(lengths, seed=0, ids=None):
    """A batch of which some tokens are hidden; the head answers at every real token."""
    random = np.random.default_rng(seed)
    features = toys.features(lengths, seed=seed)
    real = features["attention_mask"].numpy() > 0
    ids = features["input_ids"].numpy() if ids is None else ids
    chosen = (random.random(real.shape) < 0.3) & real
    chosen[:, 1] = True  # at least one in each
    return {
        **features,
        "input_ids": tf.constant(np.where(chosen, MASK_ID, ids).astype(np.int32)),
        "prediction_mask": features["attention_mask"],
        "mlm_labels": tf.constant(np.where(chosen, ids, -100).astype(np.int32)),
    }


FEATURES = masked(LENGTHS)
# float32 sums over 18 tokens and 30 words against float64.
RELATIVE = 1e-5


@pytest.fixture(scope="module")
def masked_lm():
    """Builds each toy once."""
    models_of_seeds = {}

    def build(config):
        if config not in models_of_seeds:
            models_of_seeds[config] = models.build_masked_lm(config)
        return models_of_seeds[config]

    return build


@pytest.fixture
def teacher(masked_lm):
    return toys.randomise(masked_lm(TEACHER), seed=1)


@pytest.fixture
def student(masked_lm):
    return toys.randomise(masked_lm(STUDENT), seed=2)


@pytest.fixture
def make(teacher, student):
    def run(teacher=teacher, student=student, **options):
        return distillers.DistilBertDistiller(teacher, student, **options)

    return run


def inputs_of(model):
    return {name: FEATURES[name] for name in models.taps(model).input_names}


def answers_of(model):
    taps = models.taps(model)(inputs_of(model), training=False)
    return taps["mlm_logits"].numpy().astype(np.float64), taps["hidden_states"][-1].numpy().astype(
        np.float64
    )


def triple_loss(teacher, student, t, weights):
    z_t, h_t = answers_of(teacher)
    z_s, h_s = answers_of(student)
    assert z_t.shape == (sum(LENGTHS), VOCAB)
    kl, cosine, mlm, of_tokens, of_masked = [], [], [], [], []
    row = 0
    for b, length in enumerate(LENGTHS):
        for i in range(length):
            log_p, log_q = (
                log_softmax(z_t[row] / t),
                log_softmax(z_s[row] / t),
            )
            kl.append(t**2 * sum(np.exp(log_p[v]) * (log_p[v] - log_q[v]) for v in range(VOCAB)))
            u, v = h_t[b, i], h_s[b, i]
            cosine.append(1 - u @ v / np.sqrt((u @ u) * (v @ v)))
            of_tokens.append(weights[b])
            original = int(FEATURES["mlm_labels"][b, i])
            if original != -100:
                mlm.append(-log_softmax(z_s[row])[original])
                of_masked.append(weights[b])
            row += 1
    return {
        "logits": np.average(kl, weights=of_tokens),
        "mlm": np.average(mlm, weights=of_masked),
        "cosine": np.average(cosine, weights=of_tokens),
    }


@pytest.mark.parametrize(("t", "weights"), [(2.0, WEIGHTS), (1.0, None)])
def test_terms_are_the_formulas(make, teacher, student, t, weights):
    data = (FEATURES,) if weights is None else (FEATURES, None, weights)
    received = evaluated(make(temperature=t), *data)
    expected = triple_loss(teacher, student, t, [1.0] * 4 if weights is None else weights.numpy())
    expected["loss"] = 5 * expected["logits"] + 2 * expected["mlm"] + expected["cosine"]
    assert 0 <= received.pop("mlm_accuracy") <= 1
    assert received == harness.divergences(expected, t)
    assert min(expected.values()) > 0.1


def test_a_head_that_answers_at_masked_tokens_only_is_refused(make):
    """The teacher answers at every token; with fewer tokens the loss would be another one."""
    some = tf.cast(FEATURES["mlm_labels"] >= 0, tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Masker\(predict='all'\)"):
        evaluated(make(), {**FEATURES, "prediction_mask": some})
    rest = evaluated(make(), {**FEATURES, "prediction_mask": some}, loss_weights={"logits": 0})
    whole = evaluated(make(), FEATURES)
    assert rest["mlm"] == pytest.approx(whole["mlm"], rel=RELATIVE)


def test_both_need_a_masked_lm_head_over_the_same_words(make, built, masked_lm):
    with pytest.raises(errors.ShapeError, match="student: expected a masked language model"):
        make(student=built(toys.SHALLOW_STUDENT))
    with pytest.raises(errors.ShapeError, match="teacher: expected a masked language model"):
        make(teacher=built(toys.SHALLOW_TEACHER))
    with pytest.raises(errors.ShapeError):
        make(student=masked_lm(STUDENT.replace(vocab_size=31)))
