"""DistilBERT's triple loss, transcribed in plain NumPy over a batch with padding."""

import distiller_checks
import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

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


def logged(distiller, *data, **options):
    step = distiller_checks.compiled(distiller, **options).test_step
    return distiller_checks.logged(step, *data)


def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


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
            log_p, log_q = log_softmax(z_t[row] / t), log_softmax(z_s[row] / t)
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
    received = logged(make(temperature=t), *data)
    expected = triple_loss(teacher, student, t, [1.0] * 4 if weights is None else weights.numpy())
    expected["loss"] = 5 * expected["logits"] + 2 * expected["mlm"] + expected["cosine"]
    assert 0 <= received.pop("mlm_accuracy") <= 1
    assert received == harness.divergences(expected, t)
    assert min(expected.values()) > 0.1


def test_what_padding_holds_does_not_matter(make):
    expected = logged(make(), FEATURES)
    other = np.where(FEATURES["attention_mask"].numpy(), FEATURES["input_ids"].numpy(), 7)
    received = logged(make(), {**FEATURES, "input_ids": tf.constant(other.astype(np.int32))})
    assert received == pytest.approx(expected, rel=1e-6)
    wider = {
        name: tf.pad(rows, [[0, 0], [0, 3]], constant_values=-100 if name == "mlm_labels" else 0)
        for name, rows in FEATURES.items()
    }
    assert logged(make(), wider) == pytest.approx(expected, rel=RELATIVE)


def test_the_cosine_sees_the_last_state_only(make, student):
    """Not what the head makes of it, and no layer below."""
    before = logged(make(), FEATURES)
    layer = student.get_layer("mlm_layer_norm")
    layer.set_weights([array + 1.0 for array in layer.get_weights()])
    after = logged(make(), FEATURES)
    assert after["cosine"] == pytest.approx(before["cosine"], rel=1e-6)
    assert after["mlm"] != pytest.approx(before["mlm"], rel=0.01)


def test_the_gradient_of_the_soft_targets_keeps_its_size_as_t_grows(make, student):
    """T^2 against the 1 / T^2 of the softened gradient."""
    norms = []
    for t in (8.0, 16.0):
        before = student.get_weights()
        distiller = distiller_checks.compiled(
            make(temperature=t), loss_weights={"mlm": 0, "cosine": 0}
        )
        distiller.train_step((FEATURES,))
        moved = [a - b for a, b in zip(before, student.get_weights(), strict=True)]
        norms.append(np.sqrt(sum((array**2).sum() for array in moved)))
        student.set_weights(before)
    assert norms[1] == pytest.approx(norms[0], rel=0.1)


def test_a_head_that_answers_at_masked_tokens_only_is_refused(make):
    """The teacher answers at every token; with fewer tokens the loss would be another one."""
    some = tf.cast(FEATURES["mlm_labels"] >= 0, tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Masker\(predict='all'\)"):
        logged(make(), {**FEATURES, "prediction_mask": some})
    rest = logged(make(), {**FEATURES, "prediction_mask": some}, loss_weights={"logits": 0})
    whole = logged(make(), FEATURES)
    assert rest["mlm"] == pytest.approx(whole["mlm"], rel=RELATIVE)


@pytest.mark.slow
def test_one_seed_repeats_and_the_teacher_stays(make, masked_lm, student):
    noisy = masked_lm(STUDENT.replace(dropout=0.3))
    before = student.get_weights()

    def again(**options):
        noisy.set_weights(before)
        return make(student=noisy, **options)

    distiller_checks.check_seeds(again, (FEATURES,))
    distiller_checks.check_teacher_stays(again, (FEATURES,))


@pytest.mark.thorough
def test_eight_examples_can_be_overfitted(make):
    batches = [(masked((6, 3, 5, 4), seed=seed),) for seed in (5, 6)]
    terms = distiller_checks.first_and_last(make(), batches, epochs=80)
    for term in ("logits", "mlm", "cosine"):
        first, last = terms[term]
        # One layer of a teacher's two, and words that the teacher would not have chosen.
        assert last < 0.4 * first, term
    assert terms["mlm_accuracy"][1] > 0.9


@pytest.mark.slow
@pytest.mark.thorough
def test_each_loss_goes_down_on_a_toy_corpus():
    """Texts in which each word follows from the one before; new ones in every epoch."""
    random = np.random.default_rng(0)

    def batch(seed):
        starts = random.integers(5, 25, (8, 1))
        return (masked((6, 5, 6, 4, 6, 6, 5, 6), seed, starts + np.arange(6) % 5),)

    keras.utils.set_random_seed(0)
    teacher = models.build_masked_lm(TEACHER.replace(hidden_size=16, num_heads=4))
    student = models.build_masked_lm(STUDENT.replace(hidden_size=16, num_heads=4))
    batches = [batch(seed) for seed in range(40)]
    trainer = distillers.MaskedLmTrainer(teacher)
    learnt = distiller_checks.first_and_last(trainer, batches, epochs=25, rate=0.005)
    assert learnt["mlm_accuracy"][1] > 0.7
    distiller = distillers.DistilBertDistiller(teacher, student)
    distiller.compile("sgd", run_eagerly=True)
    (unseen,) = batch(1000)
    before = distiller_checks.logged(distiller.test_step, unseen)
    distiller_checks.first_and_last(distiller, batches, epochs=12, rate=0.005)
    after = distiller_checks.logged(distiller.test_step, unseen)
    for term, share in (("logits", 0.25), ("mlm", 0.4), ("cosine", 0.75)):
        assert after[term] < share * before[term], term
    assert after["mlm_accuracy"] > before["mlm_accuracy"] + 0.4


def test_both_need_a_masked_lm_head_over_the_same_words(make, built, masked_lm):
    with pytest.raises(errors.ShapeError, match="student: expected a masked language model"):
        make(student=built(toys.SHALLOW_STUDENT))
    with pytest.raises(errors.ShapeError, match="teacher: expected a masked language model"):
        make(teacher=built(toys.SHALLOW_TEACHER))
    with pytest.raises(errors.ShapeError):
        make(student=masked_lm(STUDENT.replace(vocab_size=31)))


def test_a_temperature_is_above_zero(make):
    with pytest.raises(errors.ConfigError, match="temperature: expected a finite number above 0"):
        make(temperature=0.0)
