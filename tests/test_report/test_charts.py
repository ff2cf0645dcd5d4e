import re

import pytest
from page_reading import SVG, chart_of, description_of, of_class, words_of

from tfdistill.benchmark import schema
from tfdistill.report.plot import charts


def bar(label, value, tail=None):
    return charts.Bar(label, f"{value:g} ms", value, 1, tail)


def lengths_of(tree):
    return [float(e.get("width")) for e in of_class(tree, "bar")]


def test_bars_start_at_zero_and_are_as_long_as_their_values():
    groups = [("32 tokens", [bar("a", 8.0), bar("b", 2.0)]), ("64 tokens", [bar("a", 16.0)])]
    tree = chart_of(charts.bars("k", "t", groups))
    assert {float(e.get("x")) for e in of_class(tree, "bar")} == {2.0}  # a common start
    a, b, longer = lengths_of(tree)
    assert a / b == pytest.approx(4, rel=0.01)  # two decimals are written
    assert longer / a == pytest.approx(2, rel=0.01)


def test_each_bar_has_its_name_and_value_below_its_heading_in_order():
    groups = [("32 tokens", [bar("a", 8.0), bar("b", 2.0)]), ("64 tokens", [bar("a", 16.0)])]
    tree = chart_of(charts.bars("k", "t", groups))
    assert words_of(tree) == ["32 tokens", "a", "8 ms", "b", "2 ms", "64 tokens", "a", "16 ms"]
    heights = [float(e.get("y")) for e in tree.iter(SVG + "text")]
    assert heights == sorted(heights)
    assert description_of(tree) == "32 tokens, a: 8 ms; 32 tokens, b: 2 ms; 64 tokens, a: 16 ms"


def test_only_a_bar_with_a_tail_has_one():
    tree = chart_of(charts.bars("k", "t", [("", [bar("a", 8.0, 9.0), bar("b", 2.0)])]))
    assert len(of_class(tree, "tail")) == 1


def test_a_tail_far_beyond_the_bars_is_cut_and_does_not_shorten_them():
    plain = chart_of(charts.bars("k", "t", [("", [bar("a", 8.0, 8.5), bar("b", 6.0)])]))
    far = chart_of(charts.bars("k", "t", [("", [bar("a", 8.0, 400.0), bar("b", 6.0)])]))
    assert lengths_of(far) == lengths_of(plain)
    whole, cut = (of_class(tree, "tail")[0].get("d") for tree in (plain, far))
    assert whole.endswith("v8") and not cut.endswith("v8")  # an arrow in place of an end
    assert float(re.search(r"H([0-9.]+)", cut)[1]) <= float(far.get("viewBox").split()[2])


def test_dots_are_ordered_as_their_values_on_one_linear_scale():
    rows = [
        charts.Dots("Teacher", "90", (0.9,), 0),
        charts.Dots("Student", "80", (0.7, 0.8, 0.9), 5),
    ]
    tree = chart_of(charts.metric_dots("k", "t", rows, str))
    teacher, low, middle, high = (float(e.get("cx")) for e in of_class(tree, "mark"))
    assert low < middle < high == teacher
    assert middle - low == pytest.approx(high - middle, abs=0.02)
    assert [float(e.get("x1")) for e in of_class(tree, "mean")] == pytest.approx(
        [teacher, middle], abs=0.02
    )
    (reference,) = of_class(tree, "reference")  # through the student's row, at the teacher's value
    assert float(reference.get("x1")) == float(reference.get("x2")) == teacher
    assert description_of(tree) == "Teacher: 90; Student: 80"


def test_no_tick_lies_above_what_is_possible():
    rows = [charts.Dots("a", "", (0.99,), 0), charts.Dots("b", "", (1.0,), 1)]
    tree = chart_of(charts.metric_dots("k", "t", rows, str, most=1.0))
    ticks = [float(e.text) for e in of_class(tree, "tick")]
    assert max(ticks) == 1.0


def test_every_series_has_its_own_mark():
    shapes = [charts.legend_mark(i).split("class")[0] for i in range(5)]
    assert len(set(shapes)) == 5


def operator_part(*operators_of):
    return schema.Operators(
        model="a",
        sequence_length=128,
        threads=1,
        source="s",
        operators=tuple(schema.Operator(type=t, calls=c, ms=ms) for t, c, ms in operators_of),
    )


def test_bars_of_operators_are_shares_the_largest_first_and_the_rest_together():
    part = operator_part(*[(f"KIND_{i}", 1, 1.0 + i) for i in range(10)])
    tree = chart_of(charts.operator_bars("k", "t", part, 1))
    widths = [float(e.get("width")) for e in of_class(tree, "bar")]
    assert len(widths) == 8
    assert widths[0] / widths[6] == pytest.approx(10 / 4, rel=0.02)
    assert "18.2% · 10.0 ms" in words_of(tree)  # 10 of 55
    assert "3 other kinds" in words_of(tree) and "10.9% · 6.00 ms" in words_of(tree)
    assert words_of(tree)[0] == "KIND_9"


def test_operators_without_any_time_make_no_chart():
    assert charts.operator_bars("k", "t", operator_part(("A", 1, 0.0)), 1) is None
    assert charts.operator_bars("k", "t", operator_part(), 1) is None
