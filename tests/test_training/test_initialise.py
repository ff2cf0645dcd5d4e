import numpy as np
import pytest
import tensorflow as tf
import toys

import tfdistill
from tfdistill import distillers, errors, models, tasks, training, weights
from tfdistill.run import initialise, teachers


@pytest.fixture(scope="module")
def table():
    """An embedding table with a spectrum, as real ones have, and a mean."""
    random = np.random.default_rng(0)
    mixing = random.normal(size=(12, 12)) * np.geomspace(3, 0.1, 12)[:, None]
    return (random.normal(size=(30, 12)) @ mixing + 0.5).astype(np.float32)


@pytest.fixture(scope="module")
def teacher(table):
    model = toys.classifier(toys.SHALLOW_TEACHER, seed=1)
    model.get_layer("word_embeddings").set_weights([table])
    return model


@pytest.fixture
def student():
    return toys.classifier(toys.SHALLOW_STUDENT, seed=2)


def table_of(model, name="word_embeddings"):
    return model.get_layer(name).get_weights()[0]


def lost(table, basis):
    """What the projection onto a basis leaves out, squared."""
    return np.sum((table - table @ basis @ basis.T) ** 2)


def test_leading_directions_are_the_right_singular_vectors_orthonormal_with_a_fixed_sign(table):
    basis = training.leading_directions(table, 5)
    assert (basis.shape, basis.dtype) == ((12, 5), np.float32)
    _, values, right = np.linalg.svd(table.astype(np.float64), full_matrices=False)
    # Each up to its sign, in the order of the singular values, which are well apart here.
    assert (values[:5] / values[1:6]).min() > 1.05
    np.testing.assert_allclose(np.abs(np.sum(basis * right[:5].T, axis=0)), 1.0, atol=1e-6)
    assert lost(table, basis) == pytest.approx(np.sum(values[5:] ** 2), rel=1e-4)
    basis = training.leading_directions(table, 12)
    np.testing.assert_allclose(basis.T @ basis, np.eye(12), atol=1e-6)
    assert (basis[np.abs(basis).argmax(axis=0), np.arange(12)] > 0).all()
    np.testing.assert_allclose(training.leading_directions(-table, 12), basis, atol=1e-6)


def test_the_student_starts_with_the_projected_tables_or_their_first_rows(teacher, student):
    before = {layer.name: layer.get_weights() for layer in student.layers}
    training.initialise_from_teacher(student, teacher)
    basis = training.leading_directions(table_of(teacher), 8)
    tables = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    for name in tables:
        np.testing.assert_allclose(
            table_of(student, name), table_of(teacher, name) @ basis, rtol=1e-4, atol=1e-5
        )
    for layer in student.layers:  # all else stays
        if layer.name not in tables:
            toys.check_equal(before[layer.name], layer.get_weights())
    config = toys.SHALLOW_STUDENT.replace(max_positions=7, type_vocab_size=0)
    student = toys.classifier(config, seed=2)
    training.initialise_from_teacher(student, teacher)
    basis = training.leading_directions(table_of(teacher), 8)
    np.testing.assert_allclose(
        table_of(student, "position_embeddings"),
        table_of(teacher, "position_embeddings")[:7] @ basis,
        rtol=1e-4,
        atol=1e-5,
    )


def test_projections_lead_back_to_the_teacher(teacher, student):
    for kind, count in (("shared", 1), ("per_layer", 2)):
        distiller = distillers.TinyBertDistiller(teacher, student, projection=kind)
        assert len(distiller.projections) == count
        training.initialise_from_teacher(student, teacher)
        training.initialise_projections(distiller.projections, student, teacher)
        basis = training.leading_directions(table_of(teacher), 8)
        for projection in distiller.projections:
            back = projection(tf.constant(table_of(student))).numpy()
            expected = table_of(teacher) @ basis @ basis.T
            np.testing.assert_allclose(back, expected, rtol=1e-3, atol=1e-4)


def test_mobilebert_takes_the_words_of_a_bert_and_keeps_its_own_positions(teacher):
    config = models.preset("mobilebert_6l_128d").replace(
        num_layers=1,
        hidden_size=16,
        embedding_size=8,
        bottleneck_size=8,
        num_heads=2,
        intermediate_size=16,
        vocab_size=30,
        max_positions=12,
    )
    student = toys.classifier(config, seed=2)
    before = table_of(student, "position_embeddings")

    training.initialise_from_teacher(student, teacher)

    basis = training.leading_directions(table_of(teacher), 8)
    words = table_of(teacher) @ basis
    np.testing.assert_allclose(table_of(student), words, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(table_of(student, "position_embeddings"), before)


def test_a_teacher_that_does_not_fit_is_refused(teacher):
    student = models.build_encoder(toys.SHALLOW_STUDENT.replace(vocab_size=31))
    with pytest.raises(errors.ShapeError, match="30 rows as in the teacher, received 31"):
        training.initialise_from_teacher(student, teacher)
    wide = models.build_encoder(toys.SHALLOW_STUDENT.replace(hidden_size=14))
    with pytest.raises(errors.ShapeError, match="at most the teacher's 12, received 14"):
        training.initialise_from_teacher(wide, teacher)


PRICES = np.array([2400, 2600, 2500, 2700], np.float32)


def test_the_new_head_of_a_regression_starts_at_the_mean_and_the_spread_of_its_numbers():
    model = toys.classifier(toys.SHALLOW_STUDENT, 1)
    kernel, _ = model.get_layer("classifier").get_weights()
    spec = tasks.TaskSpec("prices", "text", "label", kind="regression")
    examples = tasks.Examples(spec, [""] * 4, None, PRICES)
    training.start_at_numbers(model, examples)
    started, bias = model.get_layer("classifier").get_weights()
    np.testing.assert_allclose(started, kernel * PRICES.std(), rtol=1e-6)
    assert bias == [2550.0]
    training.start_at_numbers(model, tasks.Examples(spec, [""], None, np.array([7], np.float32)))
    np.testing.assert_array_equal(model.get_layer("classifier").get_weights()[0], started)


@pytest.mark.slow
def test_new_teachers_and_students_of_a_regression_start_there(tmp_path, toy_vocab_file):
    rows = [f"film {n},{2000 + n % 7 * 100}.5\n" for n in range(80)]
    (tmp_path / "prices.csv").write_text("text,label\n" + "".join(rows))
    size = len(toy_vocab_file.read_text(encoding="utf-8").splitlines())
    shape = toys.SHALLOW_STUDENT.replace(vocab_size=size)
    encoder = models.build_encoder(shape)
    weights.save_hf(encoder, tmp_path / "bert", tokenizer=toy_vocab_file)
    data = tfdistill.load_data(tmp_path / "prices.csv", tokenizer=tmp_path / "bert", max_length=12)
    expected = [np.mean(data.train_examples.labels)]
    folder = str(tmp_path / "bert")
    teacher = teachers.load_classifier(folder, data, fresh_head=True)
    started = {
        "fine-tuned": teacher,
        "preset": teachers.load_classifier("preset:bert_tiny", data),
        "checkpoint": initialise.build_student(folder, teacher, data),
        "static": initialise.build_student("static", teacher, data),
    }
    for name, model in started.items():
        bias = model.get_layer("classifier").get_weights()[1]
        np.testing.assert_allclose(bias, expected, rtol=1e-6, err_msg=name)
