import xml.etree.ElementTree as ET

import pytest

from tfdistill.report import charts, svg

NAMESPACE = "{http://www.w3.org/2000/svg}"


def parsed(markup):
    return ET.fromstring(markup)


def of_class(tree, name):
    return [e for e in tree.iter() if name in (e.get("class") or "").split()]


def test_an_element_escapes_its_text_and_its_attributes():
    made = svg.element("text", "<b>&", svg.element("tspan", "in"), title='a"b', data_x=1.5, no=None)
    assert made == ('<text title="a&#34;b" data-x="1.5">&lt;b&gt;&amp;<tspan>in</tspan></text>')


def test_a_graphic_is_announced_by_title_and_description():
    tree = parsed(svg.picture("k", 10, 20, "What", "Which <numbers>", []))
    named = {e.get("id"): e.text for e in tree.iter() if e.get("id")}
    assert tree.get("role") == "img"
    assert named[tree.get("aria-labelledby")] == "What"
    assert named[tree.get("aria-describedby")] == "Which <numbers>"


def test_bars_are_as_long_as_their_values():
    bars = [charts.Bar("a", "8 ms", 8.0, 9.0, 0), charts.Bar("b", "2 ms", 2.0, None, 1)]
    tree = parsed(charts.latency_bars("k", "t", [("32 tokens", bars)]))
    widths = [float(e.get("width")) for e in of_class(tree, "bar")]
    assert widths[0] / widths[1] == pytest.approx(4, rel=0.01)  # two decimals are written
    assert len(of_class(tree, "tail")) == 1
    written = [e.text for e in tree.iter(NAMESPACE + "text")]
    assert written == ["32 tokens", "8 ms", "2 ms"]
    assert "32 tokens, b: 2 ms" in tree.find(NAMESPACE + "desc").text


def test_a_tail_beyond_the_chart_ends_in_an_arrow_and_leaves_the_bars_their_room():
    bars = [charts.Bar("a", "8 ms", 8.0, 400.0, 0), charts.Bar("b", "6 ms", 6.0, 6.5, 1)]
    tree = parsed(charts.latency_bars("k", "t", [("32 tokens", bars)]))
    cut, whole = (e.get("d") for e in of_class(tree, "tail"))
    assert cut.endswith("l-4 3") and whole.endswith("v8")
    assert float(of_class(tree, "bar")[0].get("width")) > 200
    ends = [float(e.get("x")) for e in tree.iter(NAMESPACE + "text")]
    assert max(ends) < 380 - 100  # room for what is written


def test_dots_stand_where_their_values_are():
    rows = [
        charts.Dots("Teacher", "90", (0.9,), 0),
        charts.Dots("Student", "80", (0.7, 0.8, 0.9), 5),
    ]
    tree = parsed(charts.metric_dots("k", "t", rows, str))
    marks = [float(e.get("cx")) for e in of_class(tree, "mark")]
    assert marks[0] == marks[3]
    assert marks[2] - marks[1] == pytest.approx(marks[3] - marks[2], abs=0.02)
    reference = of_class(tree, "reference")
    assert {e.get("x1") for e in reference} == {of_class(tree, "mark")[0].get("cx")}
    middle = [float(e.get("x1")) for e in of_class(tree, "mean")]
    assert middle[1] == pytest.approx(marks[2], abs=0.01)


def test_no_tick_lies_above_what_is_possible():
    rows = [charts.Dots("a", "", (0.99,), 0), charts.Dots("b", "", (1.0,), 1)]
    tree = parsed(charts.metric_dots("k", "t", rows, str, most=1.0))
    ticks = [float(e.text) for e in of_class(tree, "tick")]
    assert max(ticks) == 1.0


def test_a_curve_falls_when_its_values_fall():
    line = charts.Line("full, seed 1", ((1, 4.0), (2, 3.0), (3, 2.0)), 2)
    tree = parsed(charts.curve_panel("k", "Loss", [line]))
    (curve,) = of_class(tree, "curve")
    points = [tuple(map(float, p.split())) for p in curve.get("d")[1:].split("L")]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert points[0][1] < points[1][1] < points[2][1]  # y grows downwards
    assert "full, seed 1: 4 at first, 2 at last" in tree.find(NAMESPACE + "desc").text


def test_values_over_a_factor_of_twenty_are_drawn_on_a_log_scale():
    lines = [charts.Line("a", ((1, 100.0), (2, 10.0), (3, 1.0)), 1)]
    tree = parsed(charts.curve_panel("k", "Loss", lines))
    assert next(tree.iter(NAMESPACE + "text")).text == "Loss (log scale)"
    (curve,) = of_class(tree, "curve")
    ys = [float(p.split()[1]) for p in curve.get("d")[1:].split("L")]
    assert ys[1] - ys[0] == pytest.approx(ys[2] - ys[1], abs=0.2)


@pytest.mark.parametrize("values", [(0.5,), (0.5, 0.5), (0.0, 0.0), (-1.0, 1.0)])
def test_single_and_equal_and_negative_values_are_drawn(values):
    line = charts.Line("a", tuple(enumerate(values)), 1)
    tree = parsed(charts.curve_panel("k", "Loss", [line]))
    assert len(of_class(tree, "mark")) == len(values)
    assert len(of_class(tree, "curve")) == (len(values) > 1)


def test_every_series_has_its_own_mark():
    shapes = [charts.legend_mark(i).split("class")[0] for i in range(5)]
    assert len(set(shapes)) == 5


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
