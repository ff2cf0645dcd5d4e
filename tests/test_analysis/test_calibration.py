import numpy as np
import pytest
from scipy import special

from tfdistill import analysis, errors


def drawn(random, logits):
    """Labels that the probabilities of a classifier give: it is calibrated."""
    shares = special.softmax(logits, axis=1)
    return (shares.cumsum(axis=1)[:, :-1] < random.random((len(shares), 1))).sum(axis=1)


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
    # Labels drawn from softmax(z): answers z T need the temperature T again. 20,000 draws leave
    # about 2% of noise.
    fitted = analysis.fit_temperature(logits * temperature, drawn(random, logits))
    assert fitted == pytest.approx(temperature, rel=0.05)


def calibration_error(logits, labels):
    return analysis.calibration_scores(logits, labels, num_resamples=1)["ece"].value


def test_calibration_error_equals_its_formula():
    random = np.random.default_rng(2)
    logits, labels = random.normal(size=(300, 3)), random.integers(0, 3, 300)
    p = special.softmax(logits, axis=1)
    order = np.argsort(p.max(axis=1))
    confidence, right = p.max(axis=1)[order], (p.argmax(axis=1) == labels)[order]
    total = 0.0
    for inside in np.split(np.arange(300), 15):  # 20 in each bin
        gap = abs(right[inside].mean() - confidence[inside].mean())
        total += len(inside) / 300 * gap
    assert calibration_error(logits, labels) == pytest.approx(total)


def test_equal_probabilities_share_a_bin_whatever_their_order():
    logits = np.tile([[np.log(3.0), 0.0]], (90, 1))  # sure to 0.75
    for labels in (np.arange(90) % 2, np.arange(90) // 45):
        assert calibration_error(logits, labels) == pytest.approx(0.25)


def test_the_scores_of_probabilities_have_intervals_around_them():
    random = np.random.default_rng(5)
    logits = random.normal(scale=2.0, size=(300, 3))
    labels = drawn(random, logits)
    scores = analysis.calibration_scores(logits, labels)
    p = special.softmax(logits, axis=1)
    assert scores["nll"].value == pytest.approx(-np.log(p[np.arange(300), labels]).mean())
    squares = ((p - np.eye(3)[labels]) ** 2).sum(axis=1)
    assert scores["brier"].value == pytest.approx(squares.mean())
    low, high = scores["brier"].interval
    # That of a mean over 300 examples: 1.96 standard errors, to a tenth.
    reach = 1.96 * squares.std() / np.sqrt(300)
    assert (high - low) / 2 == pytest.approx(reach, rel=0.1)
    assert low < scores["brier"].value < high
    assert scores["ece"].interval[0] <= scores["ece"].value


def test_the_interval_of_a_calibration_error_has_the_error_and_that_of_all_texts():
    random = np.random.default_rng(7)
    for factor in (1.0, 3.0):  # calibrated, and three times too sure
        hits = 0
        for _ in range(10):
            logits = random.normal(scale=2.0, size=(115, 3))
            labels = drawn(random, logits)
            value, (low, high) = analysis.calibration_scores(logits * factor, labels)["ece"]
            assert low <= value <= high
            hits += (low == 0) == (factor == 1.0)
        assert hits >= 8  # of 95% intervals nine of ten; fewer than 8 in one of a hundred cases


def test_the_noise_of_the_calibration_error_is_what_a_calibrated_classifier_has():
    random = np.random.default_rng(6)
    logits = random.normal(scale=2.0, size=(400, 3))
    noise = analysis.calibration_noise(logits)
    others = [calibration_error(logits, drawn(random, logits)) for _ in range(200)]
    # Means of 200 draws with a spread of 0.008: 0.002 is two standard errors of their difference.
    assert noise == pytest.approx(np.mean(others), abs=0.002)
    few = analysis.calibration_noise(logits[:100])
    assert few > 1.5 * noise  # it falls with the root of the number of examples


@pytest.mark.parametrize(
    "call",
    [
        lambda: analysis.entropy_share(np.zeros((0, 3))),
        lambda: analysis.entropy_share(np.zeros((3, 1))),
        lambda: analysis.fit_temperature(np.zeros((3, 2)), np.zeros(2, int)),
        lambda: analysis.calibration_scores(np.zeros((3, 2)), np.zeros(2, int)),
        lambda: analysis.calibration_noise(np.zeros((3, 1))),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call):
    with pytest.raises(errors.ShapeError):
        call()
