import pytest

from tfdistill.report.plot import svg


def test_an_element_escapes_its_text_and_its_attributes():
    tag = svg.element("text", "<b>&", svg.element("tspan", "in"), title='a"b', data_x=1.5, no=None)
    assert tag == ('<text title="a&#34;b" data-x="1.5">&lt;b&gt;&amp;<tspan>in</tspan></text>')


def test_a_long_curve_keeps_its_ends_and_its_mean():
    points = [(float(i), float(i)) for i in range(10_000)]
    thin = svg.thinned(points, 200)
    assert len(thin) == 200
    assert (thin[0], thin[-1]) == (points[0], points[-1])
    assert all(x == pytest.approx(y) for x, y in thin)
    assert svg.thinned(points[:5], 200) == points[:5]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.0, 1.0, [0, 0.5, 1]), (0.803, 0.907, [0.85, 0.9]), (3.0, 3.0, [3.0]), (-2, 2, [-2, 0, 2])],
)
def test_ticks_are_round(low, high, ticks):
    assert svg.round_ticks(low, high, 3) == ticks
