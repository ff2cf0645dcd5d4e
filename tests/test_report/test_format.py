import pytest

from tfdistill.report import format as fmt


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


def test_the_spread_of_a_correlation_is_in_its_own_unit():
    assert fmt.mean_and_spread("pearson", 0.871, 0.0123) == "0.871 ± 0.012"
