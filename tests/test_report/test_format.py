import pytest

from tfdistill.report import format as fmt


def test_every_quantity_has_its_unit():
    assert fmt.milliseconds(5.194) == "5.19 ms"
    assert fmt.milliseconds(0.0412) == "0.0412 ms"  # one unit everywhere: they compare
    assert fmt.ratio(43.56) == "43.6×"
    assert fmt.interval(17.94, 18.46) == "[17.9, 18.5]"
    assert fmt.error(0.0932) == "0.093"
    assert fmt.error(0.0000071) == "7.1×10⁻⁶"


def test_accuracy_is_in_percent_and_a_correlation_is_not():
    assert fmt.metric("accuracy", 0.9128) == "91.3%"
    assert fmt.metric("matthews", 0.508) == "0.508"
    assert fmt.mean_and_spread("accuracy", 0.913, 0.004) == "91.3 ± 0.4%"
    assert fmt.mean_and_spread("pearson", 0.871, 0.0123) == "0.871 ± 0.012"
    assert fmt.mean_and_spread("accuracy", 0.913, None) == "91.3%"
    assert fmt.metric_difference("accuracy", -0.021) == "−2.1 points"
    assert fmt.metric_difference("spearman", 0.034) == "+0.034"
    assert fmt.points("accuracy", -0.021) == "2.1 points"
    assert fmt.difference_interval("accuracy", -0.021, 0.004) == "−2.1 to +0.4 points"
    assert fmt.metric_interval("accuracy", 0.9, 0.95) == "90.0 to 95.0%"


def test_what_is_absent_is_a_dash():
    absent = [
        fmt.metric("accuracy", None),
        fmt.ratio(None),
        fmt.milliseconds(None),
        fmt.mean_and_spread("accuracy", None, None),
    ]
    assert set(absent) == {"–"}


@pytest.mark.parametrize(
    ("name", "title", "words", "written"),
    [
        ("accuracy", "Accuracy", "accuracy", "91.3%"),
        ("entity_f1", "Entity F1", "entity F1", "91.3%"),
        ("f1", "F1", "F1", "91.3%"),
        ("f1:a: b", "F1 of 'a: b'", "F1 of 'a: b'", "91.3%"),
        ("r2", "R2", "R2", "0.913"),
        ("matthews", "Matthews correlation", "Matthews correlation", "0.913"),
        ("of_a_user", "of_a_user", "of_a_user", "0.913"),
    ],
)
def test_metrics_are_named_for_a_title_and_for_a_sentence(name, title, words, written):
    assert (fmt.metric_title(name), fmt.metric_words(name)) == (title, words)
    assert fmt.metric(name, 0.9126) == written
