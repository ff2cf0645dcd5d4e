import pytest
from page_reading import SVG, chart_of, description_of, of_class, words_of

from tfdistill.report.plot import charts


def bars(*values):
    rows = [charts.Bar(name, f"{value:g} ms", value, 1) for name, value in values]
    return chart_of(charts.bars("k", "t", rows))


def test_bars_start_at_zero_and_are_as_long_as_their_values():
    tree = bars(("a", 8.0), ("b", 2.0))
    assert {float(e.get("x")) for e in of_class(tree, "bar")} == {0.0}  # a common start
    a, b = (float(e.get("width")) for e in of_class(tree, "bar"))
    assert a / b == pytest.approx(4, rel=0.01)  # two decimals are written
    rows = [charts.Bar("a", "50%", 0.5, 1)]
    whole = chart_of(charts.bars("k", "t", rows, most=1.0))
    (half,) = (float(e.get("width")) for e in of_class(whole, "bar"))
    assert half == pytest.approx(float(whole.get("viewBox").split()[2]) / 2)


def test_each_bar_has_its_name_and_value_in_order():
    tree = bars(("a", 8.0), ("b", 2.0))
    assert words_of(tree) == ["a", "8 ms", "b", "2 ms"]
    heights = [float(e.get("y")) for e in tree.iter(SVG + "text")]
    assert heights == sorted(heights)
    assert description_of(tree) == "a: 8 ms; b: 2 ms"


def test_every_series_has_its_own_mark():
    shapes = [charts.legend_mark(i).split("class")[0] for i in range(5)]
    assert len(set(shapes)) == 5


def test_roles_have_colours_of_their_own_and_others_take_turns():
    roles = [charts.style(i) for i in range(charts.OTHERS)]
    others = [charts.style(charts.OTHERS + i) for i in range(12)]
    assert len(set(roles)) == 4 and not set(roles) & set(others)
    assert others[:6] == others[6:] and len(set(others)) == 6
