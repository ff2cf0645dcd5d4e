"""Students cut from teachers of which it is known what can go: their logits do not change."""

import numpy as np
import pytest
import toys

from tfdistill import errors, models, pruning
from tfdistill.pruning import weights
from tfdistill.weights import factorised

BATCHES = [toys.features((5, 9, 3, 7), seed=1), toys.features((8, 4, 6, 2), seed=2)]
CHECK = toys.features((7, 3, 9), seed=3)  # not in the sample
CONFIG = toys.TEACHER.replace(num_heads=3, num_layers=3)  # 12 wide, 3 heads of 4, 12 neurons


def logits(model, features=CHECK):
    return model({name: features[name] for name in model.input_names}, training=False).numpy()


def change(model, layer, edit):
    """Edits the arrays of a layer in place."""
    arrays = model.get_layer(layer).get_weights()
    edit(*arrays)
    model.get_layer(layer).set_weights(arrays)


def silence(rows):
    def edit(kernel, bias):
        kernel[rows] = 0

    return edit


def with_dead_neurons_and_heads(config=CONFIG):
    """A teacher in which neurons 1, 4 and 7 and head 1 of each layer write nothing."""
    teacher = toys.classifier(config, seed=5)
    for index in range(config.num_layers):
        change(teacher, f"layer_{index}_output", silence([1, 4, 7]))
        change(teacher, f"layer_{index}_attention_output", silence(range(4, 8)))
    return teacher


def start(teacher, student_config, seed=9, **options):
    student = toys.classifier(student_config, seed=seed)
    return student, pruning.initialise_by_pruning(student, teacher, BATCHES, **options)


def assert_same_weights(before, model):
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(new, old)


def assert_same_logits(teacher, student, tolerance=1e-4):
    """The toys' logits are of size 1; float32 through three layers and a ridge leaves 1e-5."""
    wanted = logits(teacher)
    assert np.std(wanted) > 0.1
    np.testing.assert_allclose(logits(student), wanted, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "outputs"),
    [
        (CONFIG, False),
        (CONFIG, True),
        pytest.param(
            CONFIG.replace(family="distilbert", type_vocab_size=0, pooler=False),
            True,
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_dead_neurons_and_heads_go_without_a_trace(config, outputs):
    teacher = with_dead_neurons_and_heads(config)
    narrow = config.replace(intermediate_size=9, num_heads=2, head_size=4)
    student, pruned = start(teacher, narrow, outputs=outputs)
    assert models.config_of(student).attention_width == 8
    assert pruned.selection.heads == ((0, 2),) * 3
    assert pruned.selection.neurons == ((0, 2, 3, 5, 6, 8, 9, 10, 11),) * 3
    assert_same_logits(teacher, student)


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_a_word_table_of_low_rank_is_factorised_without_a_trace(narrow):
    teacher = with_dead_neurons_and_heads()
    change(teacher, "word_embeddings", _make_low_rank)
    student, pruned = start(
        teacher, CONFIG.replace(embedding_size=4, hidden_size=11 if narrow else 12, head_size=4)
    )
    words = student.get_layer("word_embeddings").get_weights()[0]
    projection = student.get_layer("embedding_projection").get_weights()[0]
    table = teacher.get_layer("word_embeddings").get_weights()[0]
    wanted = table if pruned.basis is None else table @ pruned.basis
    np.testing.assert_allclose(words @ projection, wanted, rtol=0, atol=1e-5)
    if not narrow:
        assert_same_logits(teacher, student)


def test_a_smaller_word_table_keeps_the_words_of_the_sample_best():
    teacher = toys.classifier(CONFIG, seed=5)
    student, _ = start(teacher, CONFIG.replace(embedding_size=4))
    measured = pruning.measure(teacher, BATCHES)
    (table,) = teacher.get_layer("word_embeddings").get_weights()
    words, projection = factorised.split(table, 4, measured.words)
    assert measured.words.sum() == measured.tokens
    received = [
        student.get_layer(name).get_weights()[0]
        for name in ("word_embeddings", "embedding_projection")
    ]
    np.testing.assert_allclose(received[0] @ received[1], words @ projection, rtol=0, atol=1e-5)
    assert np.abs(words @ projection - np.matmul(*factorised.split(table, 4))).max() > 0.01


@pytest.mark.thorough
def test_a_factorised_teacher_is_cut_as_the_product_of_its_factors():
    teacher = toys.classifier(CONFIG.replace(embedding_size=5), seed=5)
    student, _ = start(teacher, CONFIG)  # in one piece again
    assert_same_logits(teacher, student)
    student, _ = start(teacher, CONFIG.replace(embedding_size=5), seed=10)
    assert_same_logits(teacher, student)


def _make_low_rank(table):
    left, values, right = np.linalg.svd(table, full_matrices=False)
    table[:] = left[:, :4] * values[:4] @ right[:4]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("token", marks=pytest.mark.thorough), "span"])
def test_heads_over_tokens_are_carried_over(kind):
    def build(config, seed):
        config = config.replace(pooler=False)
        model = (
            models.build_token_classifier(config, 3)
            if kind == "token"
            else models.build_span_classifier(config)
        )
        return toys.randomise(model, seed)

    teacher = build(CONFIG, 5)
    for index in range(3):
        change(teacher, f"layer_{index}_output", silence([1, 4, 7]))
    student = build(CONFIG.replace(intermediate_size=9), 6)
    pruning.initialise_by_pruning(student, teacher, BATCHES)
    assert_same_logits(teacher, student)


@pytest.mark.slow
def test_layers_that_do_nothing_go_without_a_trace():
    """A block that writes nothing repeats a LayerNorm, which nothing moves at gamma 1, beta 0."""
    teacher = toys.classifier(CONFIG.replace(num_layers=4), seed=5)

    def plain(gamma, beta):
        gamma[:], beta[:] = 1, 0

    def empty(kernel, bias):
        kernel[:], bias[:] = 0, 0

    for index in (0, 1, 2):
        change(teacher, f"layer_{index}_layer_norm", plain)
    for index in (1, 2):
        change(teacher, f"layer_{index}_attention_layer_norm", plain)
        change(teacher, f"layer_{index}_attention_output", empty)
        change(teacher, f"layer_{index}_output", empty)
    student, pruned = start(teacher, CONFIG.replace(num_layers=2), layers=[0, 3])
    assert pruned.selection.layers == (0, 3)
    assert_same_logits(teacher, student)


def rotated(seed=7, wide=20, narrow=12):
    """A teacher whose hidden states lie in `narrow - 1` of its `wide` dimensions, not along axes.

    It is a teacher of 12 dimensions whose states sum to 0 and whose LayerNorms have gamma 1 and
    beta 0, in other coordinates: C (wide, narrow) is orthonormal on what sums to 0, on both sides.
    Its LayerNorm divides by a deviation over `wide` dimensions: gamma makes up for it. Its
    classifier reads 12 of its 20 pooled features.
    """
    small = toys.classifier(CONFIG.replace(hidden_size=narrow), seed=seed)
    large = toys.classifier(CONFIG.replace(hidden_size=wide, head_size=4), seed=seed)
    random = np.random.default_rng(seed)
    mixing, _ = np.linalg.qr(random.normal(size=(wide - 1, narrow - 1)))
    basis = weights.zero_sum_basis(wide) @ mixing @ weights.zero_sum_basis(narrow).T
    read = np.sort(random.choice(wide, narrow, replace=False))
    for layer in small.layers:
        arrays = layer.get_weights()
        if not arrays:
            continue
        target = large.get_layer(layer.name)
        if layer.name.endswith("layer_norm"):
            arrays = [np.full(wide, np.sqrt(narrow / wide)), np.zeros(wide)]
        elif layer.name.endswith(("embeddings", "output")):
            arrays = [array @ basis.T for array in arrays]
        elif layer.name == "pooler":
            kernel, bias = target.get_weights()
            kernel[:, read], bias[read] = basis @ arrays[0], arrays[1]
            arrays = [kernel, bias]
        elif layer.name == "classifier":
            kernel = np.zeros((wide, toys.NUM_LABELS))
            kernel[read] = arrays[0]
            arrays = [kernel, arrays[1]]
        else:  # reads hidden states
            arrays = [basis @ arrays[0], arrays[1]]
        target.set_weights(arrays)
    return large


@pytest.mark.slow
@pytest.mark.parametrize("fits", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_dead_directions_go_without_a_trace_whatever_the_coordinates(fits):
    teacher = rotated()
    student, pruned = start(
        teacher, CONFIG.replace(hidden_size=12), outputs=fits, norms=fits, head=fits
    )
    assert pruned.basis is not None
    teacher_taps, student_taps = (
        models.taps(model)(CHECK, training=False) for model in (teacher, student)
    )
    real = CHECK["attention_mask"].numpy() > 0
    for name in ("embeddings", "sequence_output"):
        # Float32 moments and, with the fits, a ridge.
        np.testing.assert_allclose(
            student_taps[name].numpy()[real] @ pruned.basis.T,
            teacher_taps[name].numpy()[real],
            atol=1e-3,
        )
    assert_same_logits(teacher, student, tolerance=1e-3)


@pytest.mark.slow
def test_the_classifier_is_fitted_to_the_teachers_logits():
    """A TinyBERT's classifier reads relu(p), a BERT's p: carried over, it answers otherwise."""
    teacher = toys.classifier(CONFIG, seed=5)
    sample = [toys.features((9,) * 480)]
    wanted = logits(teacher, toys.features((9,) * 40, seed=20))
    errors_found = []
    for head in (False, True):
        student = toys.classifier(CONFIG.replace(family="tinybert", intermediate_size=11), seed=9)
        pruning.initialise_by_pruning(student, teacher, sample, head=head)
        student_logits = logits(student, toys.features((9,) * 40, seed=20))
        errors_found.append(np.mean((student_logits - wanted) ** 2) / np.var(wanted))
    assert errors_found[1] < 0.2 * errors_found[0]


@pytest.mark.slow
def test_a_tinybert_takes_the_head_of_a_bert_and_keeps_its_own_where_the_teacher_has_none():
    teacher = with_dead_neurons_and_heads()
    config = CONFIG.replace(family="tinybert", intermediate_size=9)
    student, _ = start(teacher, config, outputs=False, norms=False, head=False)
    for name in ("pooler", "classifier"):
        assert_same_weights(student.get_layer(name).get_weights(), teacher.get_layer(name))
    before = student.get_layer("classifier").get_weights()
    headless = toys.randomise(models.build_encoder(CONFIG), 5)
    pruning.initialise_by_pruning(student, headless, BATCHES)
    assert_same_weights(before, student.get_layer("classifier"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "layers", "message"),
    [
        ({"num_layers": 4}, "uniform", "num_layers.*at most the teacher's 3"),
        ({"intermediate_size": 13}, "uniform", "intermediate_size.*at most the teacher's 12"),
        ({"num_heads": 4}, "uniform", "num_heads.*at most the teacher's 3"),
        ({"num_layers": 2}, [1], "2"),
        ({"num_layers": 2}, [2, 1], "ascending"),
        ({"num_layers": 2}, [1, 1], "ascending"),
        ({"num_layers": 2}, "best", "layer map"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(changes, layers, message):
    teacher = toys.classifier(CONFIG, seed=5)
    student = toys.classifier(CONFIG.replace(**changes), seed=9)
    before = student.get_weights()
    with pytest.raises(errors.ConfigError, match=message):
        pruning.initialise_by_pruning(student, teacher, BATCHES, layers=layers)
    assert_same_weights(before, student)


@pytest.mark.slow
def test_the_same_sample_gives_the_same_student_and_the_teacher_stays_as_it_was():
    teacher = toys.classifier(CONFIG, seed=5)
    before = teacher.get_weights()
    first, second = (start(teacher, toys.STUDENT, seed=seed)[0] for seed in (1, 2))
    assert_same_weights(first.get_weights(), second)
    assert_same_weights(before, teacher)
