import math
import xml.etree.ElementTree as ET

import pytest
from page_reading import chart_of, of_class, words_of

from tfdistill.report.plot import histogram


def row(label="a", repetitions=(), p50=10.0, series=1):
    return histogram.DistributionRow(label, f"p50 {p50}", repetitions, series, p50)


def shape_of(tree, i=0):
    """Position and height of the bins of a histogram."""
    d = of_class(tree, "shape")[i].get("d")
    steps = [part.split("H") for part in d.split("V")[1:]]
    half = steps[: len(steps) // 2]
    base = float(d[1:].split("V")[0].split()[1])
    return [(float(x), base - float(y)) for y, x in half]


def test_a_histogram_is_tallest_where_most_samples_are():
    samples = tuple([10.0] * 80 + [12.0] * 20 + [9.0] * 10)
    tree = chart_of(histogram.distributions("k", "t", [row(repetitions=(samples,))]))
    steps = shape_of(tree)
    tallest = max(steps, key=lambda step: step[1])
    filled = [(x, tall) for x, tall in steps if tall > 0]
    assert tallest[1] == pytest.approx(11)
    assert [tall for _, tall in filled] == pytest.approx([11 / 8, 11, 11 / 4], abs=0.06)
    assert filled[0][0] < tallest[0] < filled[-1][0]


def test_stragglers_are_counted_and_not_drawn():
    samples = tuple([10.0] * 995 + [500.0] * 5)
    tree = chart_of(histogram.distributions("k", "t", [row(repetitions=(samples,))]))
    assert "5 beyond, up to 500 ms →" in words_of(tree)
    xs = [x for x, _ in shape_of(tree)]
    assert max(xs) <= 350


def test_medians_far_apart_are_drawn_against_themselves():
    near = [row("a", ((10.0, 11.0, 12.0),)), row("b", ((12.0, 13.0, 14.0),), p50=13.0)]
    far = [row("a", ((10.0, 11.0, 12.0),)), row("b", ((100.0, 110.0, 120.0),), p50=100.0)]
    assert not histogram.is_relative(near) and histogram.is_relative(far)
    tree = chart_of(histogram.distributions("k", "t", far))
    assert "median" in words_of(tree) and "+20%" in words_of(tree)
    assert shape_of(tree, 0)[-1][0] == pytest.approx(shape_of(tree, 1)[-1][0], abs=0.1)
    assert any(
        text.endswith(" ms") for text in words_of(chart_of(histogram.distributions("k", "t", near)))
    )


def test_each_repetition_has_a_stroke_at_its_median():
    repetitions = ((9.0, 10.0, 11.0), (11.0, 12.0, 13.0))
    tree = chart_of(histogram.distributions("k", "t", [row(repetitions=repetitions, p50=11.0)]))
    strokes = [float(e.get("x1")) for e in of_class(tree, "repetition")]
    (middle,) = [float(e.get("x1")) for e in of_class(tree, "median")]
    assert strokes[0] < middle < strokes[1]
    assert middle - strokes[0] == pytest.approx(strokes[1] - middle, abs=0.05)


@pytest.mark.parametrize("samples", [(5.0,), (5.0, 5.0), (1e-3, 1e4)])
def test_one_sample_equal_samples_and_extremes_are_drawn(samples):
    tree = chart_of(
        histogram.distributions("k", "t", [row(repetitions=(samples,), p50=samples[0])])
    )
    assert len(of_class(tree, "median")) == 1
    assert "nan" not in ET.tostring(tree, encoding="unicode")


def test_a_hundred_thousand_samples_make_no_larger_a_chart_than_a_thousand():
    def size(number):
        samples = tuple(10 + math.sin(i) for i in range(number))
        return len(histogram.distributions("k", "t", [row(repetitions=(samples,))]))

    assert size(100_000) < 1.1 * size(1000)
