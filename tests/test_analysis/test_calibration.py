import numpy as np
import pytest

from tfdistill import analysis, errors


def test_uniform_answers_have_the_largest_entropy_and_certain_ones_none():
    assert analysis.entropy_share(np.zeros((3, 5))) == pytest.approx(1.0)
    assert analysis.entropy_share(np.eye(4) * 1e3) == pytest.approx(0.0)


def test_entropy_share_equals_its_formula():
    logits = np.random.default_rng(0).normal(size=(7, 4))
    total = 0.0
    for row in logits:
        p = np.exp(row) / np.exp(row).sum()
        total += -(p * np.log(p)).sum() / np.log(4)
    assert analysis.entropy_share(logits) == pytest.approx(total / 7)


@pytest.mark.parametrize("temperature", [0.25, 1.0, 4.0])
def test_the_temperature_of_known_answers_is_found(temperature):
    random = np.random.default_rng(1)
    logits = random.normal(scale=2.0, size=(20_000, 3))
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (shares.cumsum(axis=1) < random.random((len(shares), 1))).sum(axis=1)
    # Labels drawn from softmax(z): answers z T need the temperature T again. 20,000 draws leave
    # about 2% of noise.
    fitted = analysis.fit_temperature(logits * temperature, labels)
    assert fitted == pytest.approx(temperature, rel=0.05)


def test_calibration_error_equals_its_formula():
    random = np.random.default_rng(2)
    logits, labels = random.normal(size=(200, 3)), random.integers(0, 3, 200)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    confidence, right = p.max(axis=1), p.argmax(axis=1) == labels
    total = 0.0
    for b in range(10):
        inside = (confidence >= b / 10) & (confidence < (b + 1) / 10)
        if inside.any():
            gap = abs(right[inside].mean() - confidence[inside].mean())
            total += inside.sum() / 200 * gap
    error = analysis.expected_calibration_error(logits, labels, num_bins=10)
    assert error == pytest.approx(total)


def test_certain_and_right_is_calibrated_certain_and_wrong_is_not():
    logits = np.eye(3) * 1e3
    assert analysis.expected_calibration_error(logits, np.arange(3)) == 0.0
    assert analysis.expected_calibration_error(logits, np.array([1, 2, 0])) == 1.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: analysis.entropy_share(np.zeros((0, 3))),
        lambda: analysis.entropy_share(np.zeros((3, 1))),
        lambda: analysis.fit_temperature(np.zeros((3, 2)), np.zeros(2, int)),
        lambda: analysis.expected_calibration_error(np.zeros((3, 2)), np.zeros(2, int)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call):
    with pytest.raises(errors.ShapeError):
        call()
