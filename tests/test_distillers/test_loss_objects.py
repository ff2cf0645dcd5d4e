"""Losses given to a distiller as objects: pairs of layers, their weights, shared projections."""

import distiller_checks
import pytest
import toys
from distiller_checks import evaluated

from tfdistill import distillers, errors, losses, models

TEACHER, STUDENT = toys.TEACHER, toys.STUDENT
FEATURES = toys.features((5, 3, 6, 4))
LABELS = toys.labels(4)
# The same losses, added up in another order.
RELATIVE = 1e-6


def scores(**options):
    return losses.AttentionScoreMSE(**options)


def test_layer_weights_weigh_the_pairs_and_zero_leaves_one_out(teacher, student, monkeypatch):
    pairs = ((1, 0), (3, 1))
    terms = {
        "first": scores(layers=pairs[:1]),
        "second": scores(layers=pairs[1:]),
        "weighted": scores(layers=pairs, layer_weights=(0.5, 2.0)),
        "mean": scores(layers=pairs, layer_weights=(0.5, 2.0), over_layers="mean"),
        "one": scores(layers=pairs, layer_weights=(0.0, 3.0)),
    }
    values = evaluated(distillers.Distiller(teacher, student, terms), FEATURES, LABELS)
    weighted = 0.5 * values["first"] + 2.0 * values["second"]
    assert values["weighted"] == pytest.approx(weighted, rel=RELATIVE)
    assert values["mean"] == pytest.approx(weighted / 2, rel=RELATIVE)
    assert values["one"] == pytest.approx(3.0 * values["second"], rel=RELATIVE)

    calls = []
    compare = losses.AttentionScoreMSE.compare
    monkeypatch.setattr(
        losses.AttentionScoreMSE, "compare", lambda *a: calls.append(1) or compare(*a)
    )
    evaluated(distillers.Distiller(teacher, student, {"one": terms["one"]}), FEATURES, LABELS)
    assert len(calls) == 1


def test_projections_are_shared_by_name_and_otherwise_those_of_each_loss(teacher, student):
    terms = {
        "states": losses.HiddenStateMSE(
            layers=((1, 0), (3, 1)), projection=losses.NamedProjection("p", per_layer=True)
        ),
        "words": losses.HiddenStateMSE(
            tap="embeddings", projection=losses.NamedProjection("p", per_layer=True)
        ),
    }
    distiller = distillers.Distiller(teacher, student, terms)
    assert [layer.name for layer in distiller.projections] == ["p_0", "p_1"]
    before = evaluated(distiller, FEATURES, LABELS)
    layer = distiller.projections[0]
    layer.set_weights([array + 0.1 for array in layer.get_weights()])
    after = evaluated(distiller, FEATURES, LABELS)
    for name in terms:
        assert after[name] != pytest.approx(before[name], rel=1e-3)
    pair = {
        "states": losses.HiddenStateMSE(projection="auto"),
        "patient": losses.PatientMSE(layers=[[3, 0], [3, 1]], projection="auto"),
    }
    distiller = distillers.Distiller(teacher, student, pair)
    names = [layer.name for layer in distiller.projections]
    assert names == ["states_projection", "patient_projection_0", "patient_projection_1"]
    same = distillers.Distiller(teacher, teacher, {"states": pair["states"]})
    assert same.projections == []


@pytest.fixture(scope="module")  # no test changes them
def encoders():
    teacher = models.build_embedder(toys.SHALLOW_TEACHER)
    return toys.randomise(teacher, 1), toys.randomise(models.build_embedder(toys.STUDENT), 2)


def vectors(encoders):
    return [model({name: FEATURES[name] for name in model.input}) for model in encoders]


def test_vectors_are_compared_projected_by_themselves_and_in_the_batch(encoders):
    terms = {
        "vectors": losses.VectorCosine(projection="shared"),
        "squares": losses.VectorMSE(projection="auto"),
        "batch": losses.SimilarityKL(temperature=0.5, prefixes=(4, 8)),
    }
    distiller = distillers.Distiller(*encoders, terms)
    assert [layer.kernel.shape for layer in distiller.projections] == [(8, 12)] * 2
    values = evaluated(distiller, FEATURES, LABELS)
    teacher, student = vectors(encoders)
    expected = {
        "vectors": losses.vector_cosine(teacher, student, projection=distiller.projections[0]),
        "squares": losses.vector_mse(teacher, student, projection=distiller.projections[1]),
        "batch": losses.similarity_kl(teacher, student, temperature=0.5, prefixes=(4, 8)),
    }
    for name, value in expected.items():
        assert values[name] == pytest.approx(float(value), rel=1e-5)


def test_vectors_that_come_with_the_batch_replace_the_teacher(encoders):
    distiller = distillers.Distiller(*encoders, {"batch": losses.SimilarityKL()})
    step = distiller_checks.compiled(distiller).test_step
    assert distiller.needs_only_logits()
    with_vectors = {**FEATURES, "teacher_logits": vectors(encoders)[0]}
    received = distiller_checks.logged(step, with_vectors, LABELS)
    spoilt = distiller_checks.logged(
        step, {**with_vectors, "teacher_logits": -with_vectors["teacher_logits"] + 1}, LABELS
    )
    assert received["batch"] == pytest.approx(
        evaluated(distiller, FEATURES, LABELS)["batch"], rel=1e-5
    )
    assert spoilt["batch"] != pytest.approx(received["batch"], rel=1e-3)


def test_a_teacher_may_be_a_function_that_gives_vectors_of_a_known_width(encoders):
    teacher, student = encoders
    terms = {
        "batch": losses.SimilarityKL(),
        "squares": losses.VectorMSE(projection="shared"),
    }

    def answer(features):
        return teacher({name: features[name] for name in teacher.input})

    by_model = distillers.Distiller(teacher, student, terms)
    distiller = distillers.Distiller(answer, student, terms, vector_width=12)
    distiller.projections[0].set_weights(by_model.projections[0].get_weights())
    assert evaluated(distiller, FEATURES, LABELS) == pytest.approx(
        evaluated(by_model, FEATURES, LABELS), rel=1e-6
    )
    other = distillers.Distiller(answer, student, terms)
    with pytest.raises(errors.ShapeError):
        evaluated(other, FEATURES, LABELS)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (losses.VectorCosine(), "width of the student's vectors: expected 12"),
        (losses.SimilarityKL(prefixes=(9,)), "prefixes: expected at most 8"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(encoders, term, expected):
    distiller = distillers.Distiller(*encoders, {"vectors": term})
    with pytest.raises(errors.ShapeError, match=expected):
        distiller_checks.compiled(distiller)


def test_a_term_that_does_not_fit_is_refused_by_name(teacher, student):
    distiller = distillers.Distiller(teacher, student, {"a": losses.SimilarityKL()})
    with pytest.raises(errors.ShapeError, match="teacher: expected a sentence encoder"):
        distiller_checks.compiled(distiller)
    student = models.build_encoder(toys.STUDENT)
    distiller = distillers.Distiller(teacher, student, {"gold": losses.GoldLabels()})
    with pytest.raises(errors.ShapeError, match="loss 'gold': model: expected a classifier"):
        distiller.compile("sgd")
