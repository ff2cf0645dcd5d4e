"""Terms given directly to the engine: pairs of layers, their weights, shared projections."""

import distiller_checks
import pytest
import toys

from tfdistill import distillers, errors, models, objectives
from tfdistill.distillers import Term

FEATURES = toys.features((5, 3, 6, 4))
LABELS = toys.labels(4)
# The same objectives, added up in another order.
RELATIVE = 1e-6


@pytest.fixture
def teacher(built):
    return toys.randomise(built(toys.TEACHER), seed=1)


@pytest.fixture
def student(built):
    return toys.randomise(built(toys.STUDENT), seed=2)


def scores(**options):
    return Term("attention_score_mse", tap="attention_scores", **options)


def logged(distiller):
    step = distiller_checks.compiled(distiller).test_step
    return distiller_checks.logged(step, FEATURES, LABELS)


def test_layer_weights_weigh_the_pairs_and_zero_leaves_one_out(teacher, student, monkeypatch):
    pairs = ((1, 0), (3, 1))
    terms = {
        "first": scores(layers=pairs[:1]),
        "second": scores(layers=pairs[1:]),
        "weighted": scores(layers=pairs, layer_weights=(0.5, 2.0)),
        "mean": scores(layers=pairs, layer_weights=(0.5, 2.0), over_layers="mean"),
        "one": scores(layers=pairs, layer_weights=(0.0, 3.0)),
    }
    values = logged(distillers.TermDistiller(teacher, student, terms=terms))
    weighted = 0.5 * values["first"] + 2.0 * values["second"]
    assert values["weighted"] == pytest.approx(weighted, rel=RELATIVE)
    assert values["mean"] == pytest.approx(weighted / 2, rel=RELATIVE)
    assert values["one"] == pytest.approx(3.0 * values["second"], rel=RELATIVE)

    calls = []
    compare = objectives.attention_score_mse
    monkeypatch.setattr(
        objectives, "attention_score_mse", lambda *a, **k: calls.append(1) or compare(*a, **k)
    )
    logged(distillers.TermDistiller(teacher, student, terms={"one": terms["one"]}))
    assert len(calls) == 1


def test_terms_that_name_the_same_projection_share_it(teacher, student):
    terms = {
        "states": Term("hidden_state_mse", layers=((1, 0), (3, 1)), projections=("p", "q")),
        "words": Term("hidden_state_mse", layers=((0, 0),), tap="embeddings", projections=("p",)),
    }
    distiller = distillers.TermDistiller(teacher, student, terms=terms)
    assert [layer.name for layer in distiller.projections] == ["p", "q"]
    before = logged(distiller)
    layer = distiller.projections[0]
    layer.set_weights([array + 0.1 for array in layer.get_weights()])
    after = logged(distiller)
    for name in terms:
        assert after[name] != pytest.approx(before[name], rel=1e-3)


def test_without_a_teacher_terms_on_labels_are_left(student):
    distiller = distillers.TermDistiller(None, student, terms={"gold": Term("label")})
    trainer = distillers.LabelTrainer(student)
    assert logged(distiller)["gold"] == logged(trainer)["label"]
    assert not distiller.needs_only_logits()


def test_a_term_that_does_not_fit_is_refused_by_name(teacher):
    student = models.build_encoder(toys.STUDENT)
    distiller = distillers.TermDistiller(teacher, student, terms={"gold": Term("label")})
    with pytest.raises(errors.ShapeError, match="term 'gold': model: expected a classifier"):
        distiller.compile("sgd")


@pytest.fixture(scope="module")  # no test changes them
def encoders():
    teacher = models.build_embedder(toys.SHALLOW_TEACHER)
    return toys.randomise(teacher, 1), toys.randomise(models.build_embedder(toys.STUDENT), 2)


def vectors(encoders):
    return [model({name: FEATURES[name] for name in model.input}) for model in encoders]


def test_vectors_are_compared_projected_by_themselves_and_in_the_batch(encoders):
    terms = {
        "vectors": Term("vector_cosine", projections=("map",)),
        "squares": Term("vector_mse", projections=("map",)),
        "batch": Term("similarity_kl", options={"temperature": 0.5, "prefixes": (4, 8)}),
    }
    distiller = distillers.TermDistiller(*encoders, terms=terms)
    (projection,) = distiller.projections
    assert projection.kernel.shape == (8, 12)
    values = logged(distiller)
    teacher, student = vectors(encoders)
    expected = {
        "vectors": objectives.vector_cosine(teacher, student, projection=projection),
        "squares": objectives.vector_mse(teacher, student, projection=projection),
        "batch": objectives.similarity_kl(teacher, student, temperature=0.5, prefixes=(4, 8)),
    }
    for name, value in expected.items():
        assert values[name] == pytest.approx(float(value), rel=1e-5)


def test_vectors_that_come_with_the_batch_replace_the_teacher(encoders):
    distiller = distillers.TermDistiller(*encoders, terms={"batch": Term("similarity_kl")})
    step = distiller_checks.compiled(distiller).test_step
    assert distiller.needs_only_logits()
    given = {**FEATURES, "teacher_logits": vectors(encoders)[0]}
    known = distiller_checks.logged(step, given, LABELS)
    spoilt = distiller_checks.logged(
        step, {**given, "teacher_logits": -given["teacher_logits"] + 1}, LABELS
    )
    assert known["batch"] == pytest.approx(logged(distiller)["batch"], rel=1e-5)
    assert spoilt["batch"] != pytest.approx(known["batch"], rel=1e-3)


def test_a_teacher_may_be_a_function_that_gives_vectors_of_a_known_width(encoders):
    teacher, student = encoders
    terms = {
        "batch": Term("similarity_kl"),
        "squares": Term("vector_mse", projections=("map",)),
    }

    def answer(features):
        return teacher({name: features[name] for name in teacher.input})

    by_model = distillers.TermDistiller(teacher, student, terms=terms)
    known = distillers.TermDistiller(answer, student, terms=terms, vector_width=12)
    known.projections[0].set_weights(by_model.projections[0].get_weights())
    assert logged(known) == pytest.approx(logged(by_model), rel=1e-6)
    other = distillers.TermDistiller(answer, student, terms=terms)
    with pytest.raises(errors.ShapeError, match=r"logits of the teacher: expected \(..., 8\)"):
        logged(other)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (Term("vector_cosine"), "width of the student's vectors: expected 12"),
        (Term("similarity_kl", options={"prefixes": (9,)}), "prefixes: expected at most 8"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(encoders, term, expected):
    distiller = distillers.TermDistiller(*encoders, terms={"vectors": term})
    with pytest.raises(errors.ShapeError, match=expected):
        distiller_checks.compiled(distiller)


def test_classifiers_have_no_vectors(teacher, student):
    distiller = distillers.TermDistiller(teacher, student, terms={"a": Term("similarity_kl")})
    with pytest.raises(errors.ShapeError, match="teacher: expected a sentence encoder"):
        distiller_checks.compiled(distiller)
