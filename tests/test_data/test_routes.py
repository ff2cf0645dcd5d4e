"""The label of a text by its nearest rows, its margin, and the thresholds that make it sure."""

import numpy as np
import pytest

from tfdistill.data import routes

NAMES = ("a", "b")


def thresholds(**values):
    return routes.Routes(thresholds=values, num_rows=9, accuracy=1, coverage=1, error=0)


@pytest.mark.parametrize(
    ("least_score", "threshold", "sure"),
    [(None, 0.39, True), (0.69, 0.39, True), (0.71, 0.39, False), (None, 0.41, False)],
)
def test_the_margin_is_over_other_labels_and_both_limits_count(least_score, threshold, sure):
    scores = np.array([0.1, 0.5, 0.7, 0.9])
    rows_of = routes.rows_by_label(["a", "b", "a", "c"])
    limits = thresholds(a=0.0, b=0.0, c=threshold)
    route = routes.decide(scores - 0.2, rows_of, limits, least_score)
    assert (route.label, route.row, route.sure) == ("c", 3, sure)
    assert route.score == pytest.approx(0.7) and route.margin == pytest.approx(0.4)


def test_the_five_nearest_rows_of_a_label_count_and_all_of_one_with_fewer():
    scores = np.array([0.9, 0.1, 0.8, 0.3, 0.5, 0.5, 0.5, 0.5, 0.5, -1.0, 0.4])
    rows_of = routes.rows_by_label([*"abab", *"cccccc", "a"])
    means = dict(zip(rows_of, routes.score_labels(scores[None], rows_of)[0], strict=True))
    assert means == pytest.approx({"a": (0.9 + 0.8 + 0.4) / 3, "b": 0.2, "c": 0.5})
    route = routes.decide(scores, rows_of, thresholds(a=0, b=0, c=0), None)
    assert (route.label, route.row) == ("a", 0)
    scores[0] = -np.inf  # left out
    assert routes.score_labels(scores[None], rows_of)[0, 0] == pytest.approx(0.6)


def test_of_equal_scores_the_first_row_answers_and_is_not_sure():
    rows_of = routes.rows_by_label(["a", "b", "a"])
    route = routes.decide(np.array([0.5, 0.5, 0.5]), rows_of, thresholds(a=0, b=0), None)
    assert (route.label, route.row, route.margin, route.sure) == ("a", 0, 0.0, False)


def test_at_most_5_percent_of_the_sure_answers_are_wrong_of_each_label():
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], 400)
    margins = random.random(800)
    # "b" is answered wrongly below a margin of 0.4, "a" below one of 0.1, each every second time.
    wrong = (margins < np.where(labels == 1, 0.4, 0.1)) & (random.random(800) < 0.5)
    nearest = labels.copy()
    rows_of_c = np.flatnonzero(wrong)
    fitted = routes.fit_routes(nearest, margins, np.where(wrong, 2, labels), ("a", "b", "c"))
    limits = np.array([fitted.thresholds[name] for name in "abc"])
    sure = margins > limits[nearest]
    assert len(rows_of_c) and limits[1] > limits[0]
    for label in (0, 1):
        assert wrong[sure & (nearest == label)].mean() <= 0.05
    assert fitted.coverage == pytest.approx(sure.mean())
    assert fitted.error == pytest.approx(wrong[sure].mean()) and 0 < fitted.error <= 0.05
    assert fitted.accuracy == pytest.approx(1 - wrong.mean())
    # The next lower margin would let too many through.
    lower = (margins >= limits[1]) & (nearest == 1)
    assert wrong[lower].mean() > 0.05


def test_a_label_with_few_answers_is_sure_above_its_wrong_ones_alone():
    labels, nearest = np.zeros(102, int), np.zeros(102, int)
    nearest[:2], labels[1] = 1, 1
    margins = np.linspace(0.5, 1.0, 102)[::-1].copy()
    margins[:2] = 0.9, 0.95  # of "b": wrong, right
    fitted = routes.fit_routes(nearest, margins, labels, NAMES)
    assert fitted.thresholds == {"a": 0.0, "b": 0.9}


def test_where_the_surest_answer_is_wrong_none_is_sure():
    fitted = routes.fit_routes(np.array([1, 0]), np.array([0.4, 0.3]), np.array([0, 1]), NAMES)
    assert (fitted.coverage, fitted.error, fitted.accuracy) == (0.0, None, 0.0)
    assert min(fitted.thresholds.values()) == 0.4
