import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import distillers, errors, models, training

# MobileBERT's, at a thousandth of its length: what it falls by in a step.
SLOPE = (1.5e-3 - 1.5e-7) / 500
AFTER = {"schedule": "linear_after_warmup", "warmup": 0.1}
RATES = {
    "falls to zero at the last step": (
        {"total_steps": 200, "schedule": "linear"},
        {0: 1e-3, 1: 0.995e-3, 50: 0.75e-3, 199: 5e-6, 200: 0, 201: 0},
    ),
    "warm-up rises to where the linear rate is": (
        {"total_steps": 200, "schedule": "linear", "warmup": 0.1},
        {0: 0, 1: 0.05e-3, 19: 0.95e-3, 20: 0.9e-3, 100: 0.5e-3, 200: 0},
    ),
    "warm-up to a constant rate": (
        {"total_steps": 200, "warmup": 0.05},
        {0: 0, 5: 5e-4, 9: 9e-4, 10: 1e-3, 199: 1e-3, 500: 1e-3},
    ),
    "warm-up in steps needs no number of all steps": (
        {"warmup_steps": 4},
        {0: 0, 1: 25e-5, 4: 1e-3, 10**6: 1e-3},
    ),
    "falls to where it is told and stays": (
        {
            **{"learning_rate": 1.5e-3, "total_steps": 500, "warmup_steps": 10},
            **{"schedule": "linear", "end_learning_rate": 1.5e-7},
        },
        {
            **{0: 0, 5: 0.75e-3, 10: 1.5e-3 - 10 * SLOPE, 250: 1.5e-3 - 250 * SLOPE},
            **{500: 1.5e-7, 501: 1.5e-7},
        },
    ),
    "falls from its peak at the end of the warm-up": (
        {"total_steps": 200, **AFTER},
        {0: 0, 19: 0.95e-3, 20: 1e-3, 110: 1e-3 * 90 / 180, 200: 0, 201: 0},
    ),
    "a warm-up that ends between two steps, after 2.5 of them": (
        {"total_steps": 25, "end_learning_rate": 1e-4, **AFTER},
        {2: 0.8e-3, 3: 1e-3 - 0.5 * 9e-4 / 22.5, 25: 1e-4},
    ),
    "no warm-up": (
        {"total_steps": 4, "schedule": "linear_after_warmup"},
        {0: 1e-3, 1: 0.75e-3, 4: 0},
    ),
}


@pytest.mark.parametrize(("options", "expected"), RATES.values(), ids=RATES)
@pytest.mark.parametrize("build", [training.adamw, training.lamb])
def test_a_rate_follows_its_schedule(build, options, expected):
    schedule = build(**{"learning_rate": 1e-3, **options}).learning_rate
    rates = [float(schedule(tf.constant(step, tf.int64))) for step in expected]
    assert rates == pytest.approx(list(expected.values()), rel=1e-5, abs=1e-12)  # float32


# The update.


def test_a_step_is_adam_and_decoupled_decay():
    gradients = [np.array([0.5, -2.0, 1e-6]), np.array([0.25, 0.0, -3.0])]
    optimizer = training.adamw(0.1, weight_decay=0.05, clip="none", beta_2=0.98, epsilon=1e-6)
    weights = tf.Variable([1.0, -2.0, 3.0])
    expected = weights.numpy().astype(np.float64)
    m = v = 0.0
    for step, gradient in enumerate(gradients, start=1):
        optimizer.apply_gradients([(tf.constant(gradient, tf.float32), weights)])
        m = 0.9 * m + 0.1 * gradient
        v = 0.98 * v + 0.02 * gradient**2
        rate = 0.1 * np.sqrt(1 - 0.98**step) / (1 - 0.9**step)
        expected -= 0.1 * 0.05 * expected  # the decay does not go through the moments
        expected -= rate * m / (np.sqrt(v) + 1e-6)
        np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-6)


# As float32 holds them: 1 - 0.999 is another number there, by 1.3e-5 of it.
BETA_1, BETA_2 = float(np.float32(0.9)), float(np.float32(0.999))


def test_without_bias_correction_steps_are_those_of_the_published_code():
    """BertAdam as TinyBERT's code has it: its schedule, clipping of each tensor, decay."""
    total, warmup, peak = 13, 0.1, 0.05
    generator = np.random.default_rng(0)
    optimizer = training.adamw(
        peak,
        total_steps=total,
        schedule="linear_after_warmup",
        warmup=warmup,
        bias_correction=False,
    )
    start = generator.normal(size=(3, 2))
    weights = {
        "dense/kernel": tf.Variable(start, dtype=tf.float32, name="dense/kernel"),
        "dense/bias": tf.Variable(start[:, 0], dtype=tf.float32, name="dense/bias"),
    }
    state = {name: [variable.numpy().astype(float), 0, 0] for name, variable in weights.items()}
    for step in range(total):
        gradients = {name: generator.normal(size=v.shape) for name, v in weights.items()}
        optimizer.apply_gradients(
            (tf.constant(gradients[name], tf.float32), weights[name]) for name in weights
        )
        x = step / total
        rate = peak * (x / warmup if x < warmup else max((x - 1) / (warmup - 1), 0))
        for name, gradient in gradients.items():
            p, m, v = state[name]
            gradient = gradient * min(1, 1 / (np.linalg.norm(gradient) + 1e-12))
            m = BETA_1 * m + (1 - BETA_1) * gradient
            v = BETA_2 * v + (1 - BETA_2) * gradient**2
            update = m / (np.sqrt(v) + 1e-6)
            if name.endswith("kernel"):
                update = update + 0.01 * p
            state[name] = [p - rate * update, m, v]
            np.testing.assert_allclose(weights[name], state[name][0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", [(3,), ()])  # words, or the centres of clusters
@pytest.mark.parametrize("clip", ["none", "per_tensor", "global"])
@pytest.mark.parametrize("bias_correction", [True, False])
def test_a_table_s_rows_move_as_with_their_dense_gradient(bias_correction, clip, width):
    """A row that is reached once goes on by its moments, one that never is decays alone."""
    generator = np.random.default_rng(2)
    start = generator.normal(size=(6, *width)).astype(np.float32)
    tables = [tf.Variable(start), tf.Variable(start)]
    options = {"weight_decay": 0.2, "bias_correction": bias_correction, "clip": clip}
    optimizers = [training.adamw(0.1, **options) for _ in tables]
    for reached in ([4, 1], [1], [5, 4, 0], [0]):
        values = generator.normal(size=(len(reached), *width)).astype(np.float32)
        dense = np.zeros_like(start)
        dense[reached] = values
        shape = tf.constant(start.shape)
        rows = tf.IndexedSlices(tf.constant(values), tf.constant(reached), shape)
        for optimizer, gradient, table in zip(
            optimizers, (rows, tf.constant(dense)), tables, strict=True
        ):
            optimizer.apply_gradients([(gradient, table)])
        np.testing.assert_allclose(tables[0], tables[1], rtol=1e-6, atol=1e-7)
    assert optimizers[0].get_slot(tables[0], "reached").numpy().tolist() == [1, 1, 0, 0, 1, 1]
    np.testing.assert_allclose(tables[0][2], start[2] * (1 - 0.1 * 0.2) ** 4, rtol=1e-6)


def test_gathered_rows_are_updated_without_bias_correction_too():
    rows = tf.IndexedSlices(tf.constant([[0.3, -0.4]]), tf.constant([1]), tf.constant([3, 2]))
    optimizer = training.adamw(0.1, weight_decay=0.0, clip="none", bias_correction=False)
    table = tf.Variable(tf.ones((3, 2)))
    optimizer.apply_gradients([(rows, table)])
    g = np.array([0.3, -0.4])
    expected = 1 - 0.1 * (1 - BETA_1) * g / (np.sqrt((1 - BETA_2) * g**2) + 1e-6)
    np.testing.assert_allclose(table, [[1, 1], expected, [1, 1]], rtol=1e-6)


def test_a_step_of_lamb_is_as_long_as_the_tensor_times_the_rate():
    gradients = [np.array([[0.5, -2.0, 1e-6]]), np.array([[0.25, 0.0, -3.0]])]
    optimizer = training.lamb(0.1, weight_decay=0.05, clip="none", beta_2=0.98)
    kernel = tf.Variable([[1.0, -2.0, 3.0]], name="dense/kernel")
    bias = tf.Variable([1.0, -2.0, 3.0], name="dense/bias")
    weights, offsets = kernel.numpy().astype(np.float64), bias.numpy().astype(np.float64)
    m = v = 0.0
    for step, gradient in enumerate(gradients, start=1):
        tensor = tf.constant(gradient, tf.float32)
        optimizer.apply_gradients([(tensor, kernel), (tensor[0], bias)])
        m = 0.9 * m + 0.1 * gradient
        v = 0.98 * v + 0.02 * gradient**2
        plain = m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.98**step)) + 1e-6)
        update = plain + 0.05 * weights
        moved = 0.1 * np.linalg.norm(weights) / np.linalg.norm(update) * update
        assert np.linalg.norm(moved) == pytest.approx(0.1 * np.linalg.norm(weights))
        weights = weights - moved
        offsets = offsets - 0.1 * plain[0]  # neither decayed nor scaled by its length
        np.testing.assert_allclose(kernel, weights, rtol=1e-5)
        np.testing.assert_allclose(bias, offsets, rtol=1e-5)


def test_lamb_leaves_norms_and_biases_out_of_decay_and_adaptation():
    """On the real names, NoNorm's and the masked-LM head's among them."""
    fields = ("num_layers", "hidden_size", "num_heads", "intermediate_size", "vocab_size")
    sizes = {name: getattr(toys.SHALLOW_STUDENT, name) for name in fields}
    shape = models.MobileBertConfig(**sizes, embedding_size=4, bottleneck_size=4)
    model = models.build_masked_lm(shape, next_sentence=True)
    optimizer = training.lamb(0.1)
    for variable in model.trainable_variables:
        last = variable.name.split("/")[-1].split(":")[0]
        plain = last in ("bias", "beta", "gamma")
        assert optimizer._do_use_weight_decay(variable.name) != plain, variable.name
        assert optimizer._do_layer_adaptation(variable.name) != plain, variable.name


def test_biases_and_layer_norms_do_not_decay():
    """On the real names, the projection of a distiller among them."""
    teacher = models.build_classifier(toys.SHALLOW_TEACHER, 2)
    student = models.build_classifier(toys.SHALLOW_STUDENT, 2)
    distiller = distillers.TinyBertDistiller(teacher, student)
    variables = distiller.trainable_variables
    for variable in variables:
        variable.assign(tf.ones_like(variable))
    optimizer = training.adamw(0.1, weight_decay=0.01)
    optimizer.apply_gradients((tf.zeros_like(variable), variable) for variable in variables)
    undecayed = [v.name for v in variables if (v.numpy() == 1).all()]
    decayed = [v for v in variables if v.name not in undecayed]
    for variable in decayed:
        np.testing.assert_allclose(variable, 1 - 0.1 * 0.01, rtol=1e-6)
    # Per layer 6 Dense and 2 LayerNorms; 3 tables with a LayerNorm; pooler, classifier, projection.
    assert len(undecayed) == (6 + 2 * 2) + 2 + 3
    assert len(decayed) == 6 + 3 + 3
    assert all(variable.shape.rank == 2 for variable in decayed)


GRADIENTS = [tf.constant([3.0, 4.0]), tf.constant([[0.3], [0.4]]), tf.constant([0.0, 12.0])]


@pytest.mark.parametrize(
    ("clip", "scales"),
    [
        ("per_tensor", [2 / 5, 1.0, 2 / 12]),
        ("global", [2 / np.sqrt(25 + 0.25 + 144)] * 3),
        ("none", [1.0, 1.0, 1.0]),
    ],
)
@pytest.mark.parametrize("build", [training.adamw, training.lamb])
def test_gradients_are_clipped_before_the_moments(build, clip, scales):
    optimizer = build(0.1, clip=clip, clip_norm=2.0)
    variables = [tf.Variable(tf.zeros_like(gradient)) for gradient in GRADIENTS]
    optimizer.apply_gradients(zip(GRADIENTS, variables, strict=True))
    for variable, gradient, scale in zip(variables, GRADIENTS, scales, strict=True):
        moment = optimizer.get_slot(variable, "m").numpy()
        np.testing.assert_allclose(moment, 0.1 * scale * gradient.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "scale"), [(training.adamw, 1 / 50), (training.lamb, 1 / np.sqrt(2 * 50**2))]
)
def test_by_default_each_tensor_or_with_lamb_the_whole_is_clipped_to_one(build, scale):
    optimizer = build(0.1)
    variables = [tf.Variable([1.0, 1.0]) for _ in range(2)]
    gradient = tf.constant([30.0, 40.0])
    optimizer.apply_gradients((gradient, variable) for variable in variables)
    for variable in variables:
        moment = optimizer.get_slot(variable, "m").numpy()
        np.testing.assert_allclose(moment, [3.0 * scale, 4.0 * scale], rtol=1e-6)


@pytest.mark.parametrize("build", [training.adamw, training.lamb])
def test_by_default_decay_moments_and_epsilon_are_those_of_bert(build):
    optimizer = build(0.1)
    assert (optimizer.weight_decay_rate, optimizer.epsilon) == (0.01, 1e-6)
    assert [optimizer._get_hyper(name) for name in ("beta_1", "beta_2")] == [0.9, 0.999]


@pytest.mark.parametrize("build", [training.adamw, training.lamb])
def test_both_moments_decay_as_they_are_told(build):
    optimizer = build(0.1, clip="none", beta_1=0.8, beta_2=0.9, weight_decay=0.0)
    bias = tf.Variable([1.0, 1.0], name="dense/bias")  # LAMB does not scale its step
    gradients = np.array([[1.0, -2.0], [4.0, 0.5]])
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant(gradient, tf.float32), bias)])
    m = 0.2 * (0.8 * gradients[0] + gradients[1])
    v = 0.1 * (0.9 * gradients[0] ** 2 + gradients[1] ** 2)
    np.testing.assert_allclose(optimizer.get_slot(bias, "m"), m, rtol=1e-6)
    np.testing.assert_allclose(optimizer.get_slot(bias, "v"), v, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"schedule": "cosine"}, "schedule: expected one of linear, "),
        ({"clip": "value"}, "clip: expected one of per_tensor, global, none"),
        ({"schedule": "linear"}, "total_steps"),
        ({"warmup": 0.1}, "total_steps"),
        ({"warmup": 1.0, "total_steps": 10}, "warmup: expected"),
        ({"warmup": -0.1, "total_steps": 10}, "warmup: expected"),
        ({"warmup_steps": -1}, "warmup_steps: expected a number of steps"),
        ({"warmup": 0.1, "warmup_steps": 2, "total_steps": 10}, "and warmup=0 with it"),
        ({"end_learning_rate": 1e-4, "total_steps": 10}, "and a linear schedule"),
        (
            {"end_learning_rate": 1e-2, "total_steps": 10, "schedule": "linear"},
            "a rate from 0 to 0.001",
        ),
    ],
)
@pytest.mark.parametrize("build", [training.adamw, training.lamb])
def test_options_that_make_no_schedule_are_refused(build, options, says):
    with pytest.raises(errors.ConfigError) as caught:
        build(1e-3, **options)
    assert says in str(caught.value)
