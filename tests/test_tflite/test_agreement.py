import dataclasses
import math

import numpy as np
import pytest

from tfdistill import errors
from tfdistill.tflite import agreement
from tfdistill.tflite.agreement import Bounds

LOOSE = Bounds(math.inf, math.inf, -math.inf, 0.0, 1.0)


def test_errors_are_those_of_the_formulas_and_equal_outputs_have_none():
    model = np.array([[3.0, 4.0], [0.0, -5.0]])
    measured = agreement.compare(model, np.array([[3.0, 4.5], [1.0, -5.0]]))
    assert measured.num_examples == 2
    assert measured.output_rms == pytest.approx(math.sqrt((9 + 16 + 25) / 4))
    assert measured.max_abs_error == 1.0
    assert measured.mean_abs_error == pytest.approx(1.5 / 4)
    assert measured.sqnr_db == pytest.approx(10 * math.log10(50 / 1.25))
    assert measured.argmax_agreement == 1.0
    same = agreement.compare(model, model)
    assert (same.max_abs_error, same.mean_abs_error, same.sqnr_db) == (0.0, 0.0, None)
    assert agreement.violations(same, Bounds(0.0, 0.0, 300.0, 1.0, 0.0)) == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_file_that_answers_nan_or_infinity_breaks_every_bound(value):
    model = np.ones((3, 2))
    file = model.copy()
    file[1, 1] = value
    lines = agreement.violations(agreement.compare(model, file), Bounds(1e9, 1e9, -1e9, 0.0, 1.0))
    assert [line.split(":")[0] for line in lines] == ["max error / rms", "mean error / rms", "SQNR"]


@pytest.mark.parametrize(("model", "file"), [((2, 3), (2, 2)), ((3, 2), (2, 2)), ((0, 2), (0, 2))])
def test_neither_outputs_of_other_shapes_nor_nan_of_a_model_are_compared(model, file):
    with pytest.raises(errors.ShapeError, match="outputs to compare"):
        agreement.compare(np.ones(model), np.ones(file))
    with pytest.raises(errors.ExportError):
        agreement.compare(np.array([[np.nan, 1.0]]), np.array([[0.0, 1.0]]))


@pytest.mark.parametrize("field", ["max_error", "mean_error", "sqnr_db", "argmax_agreement"])
def test_each_bound_is_checked_on_its_own(field):
    model = np.array([[1.0, 0.9]] * 10)
    file = model + np.array([0.0, 0.2])
    measured = agreement.compare(model, file)
    strict = {"max_error": 0.1, "mean_error": 0.05, "sqnr_db": 40.0, "argmax_agreement": 0.5}
    lines = agreement.violations(measured, LOOSE.replace({field: strict[field]}), where="len8: ")
    assert len(lines) == 1
    assert lines[0].startswith("len8: ")
    assert field.split("_")[0] in lines[0].lower()


def changed_outputs(examples, changed):
    """Outputs of two classes, and the same with some decided otherwise."""
    model = np.tile([1.0, 0.0], (examples, 1))
    file = model.copy()
    file[:changed] = file[:changed, ::-1]
    return model, file


@pytest.mark.parametrize(
    ("examples", "least", "allowed"),
    [(16, 0.97, 1), (1000, 0.97, 30), (10, 0.95, 1)],
)
def test_few_decisions_may_change_however_many_outputs_they_are_made_of(examples, least, allowed):
    bounds = dataclasses.replace(LOOSE, argmax_agreement=least)
    outputs, decided = np.ones((1000, 2)), np.arange(examples)
    for changed, faults in ((allowed, []), (allowed + 1, ["argmax agreement"])):
        decisions = decided, np.where(decided < changed, -1, decided)
        for measured in (
            agreement.compare(*changed_outputs(examples, changed)),
            agreement.compare(outputs, outputs, decisions=decisions),
        ):
            lines = agreement.violations(measured, bounds)
            assert [line.split(":")[0] for line in lines] == faults


@pytest.mark.parametrize(
    ("file", "allowed", "accepted"),
    [(0.895, 0.01, True), (0.885, 0.01, False), (0.95, 0.01, True), (0.885, 0.02, True)],
)
def test_the_metric_may_fall_by_what_is_allowed(file, allowed, accepted):
    model = {"accuracy": 0.9, "f1": 0.9}
    measured = {"accuracy": file, "f1": 0.0}
    lines = agreement.metric_violations(model, measured, "accuracy", allowed)
    assert (lines == []) is accepted


@pytest.mark.parametrize(
    ("examples", "changed", "allowed"),
    [
        (872, 4, 9 / 872),  # the bound, in whole examples
        (299, 0, 3 / 299),
        (50, 0, 2 / 50),  # two examples
        (100, 9, 1.645 * 3 / 100),  # nine changes
        (277, 16, 1.645 * 4 / 277),
        (100_000, 2500, 0.01),
    ],
)
def test_a_drop_is_held_against_chance(examples, changed, allowed):
    model, file = changed_outputs(examples, changed)
    measured = agreement.compare(model, file)
    assert agreement.allowed_drop(0.01, examples, measured) == pytest.approx(allowed)
    numbers = agreement.compare(model, file, decisions=(None, None))  # such as a regression
    for without in (numbers, None):
        whole = max(2, -(-examples // 100))
        assert agreement.allowed_drop(0.01, examples, without) == whole / examples


def test_decisions_are_compared_whole_and_counted_by_themselves():
    """A span is the same if both ends are; of six outputs two decisions are made."""
    model = np.zeros((6, 2))
    model[0] = 1.0
    decided = np.array([[0, 4], [1, 1]])
    other = np.array([[0, 4], [1, 2]])
    measured = agreement.compare(model, model, decisions=(decided, other))
    assert (measured.num_examples, measured.num_decisions, measured.argmax_agreement) == (6, 2, 0.5)
    measured = agreement.compare(model, model, decisions=(None, None))
    assert (measured.num_decisions, measured.argmax_agreement) == (0, None)
