import itertools
import math
import xml.etree.ElementTree as ET

import pytest
from page_reading import SVG, of_class

from tfdistill.benchmark import schema
from tfdistill.report import lines, operators, scatter, spread
from tfdistill.report.pareto import Point


def parsed(markup):
    return ET.fromstring(str(markup))


def words(tree):
    return [e.text for e in tree.iter(SVG + "text")]


def said(tree):
    return tree.find(SVG + "desc").text


def chart(points, front=None, against="latency", metric="accuracy"):
    front = front if front is not None else [True] * len(points)
    return parsed(
        scatter.accuracy_chart("k", points, front, against=against, metric=metric, title="t")
    )


def point(label, accuracy=0.9, latency=1.0, size=1_000_000, **more):
    return Point(label, accuracy, latency, more.pop("interval", None), size, **more)


def centres(tree):
    return {
        e.find(SVG + "title").text: (float(e.get("cx")), float(e.get("cy")))
        for e in of_class(tree, "point")
    }


def test_more_accurate_is_higher_and_slower_or_larger_is_farther_right():
    points = [point("a", 0.8, 1.0, 2_000_000), point("b", 0.9, 2.0, 1_000_000)]
    at = centres(chart(points))
    assert at["b"][1] < at["a"][1] and at["b"][0] > at["a"][0]
    at = centres(chart(points, against="size"))
    assert at["b"][1] < at["a"][1] and at["b"][0] < at["a"][0]


def test_latencies_over_a_wide_range_stand_on_a_log_axis():
    tree = chart([point(str(i), 0.8 + i / 100, 10.0**i) for i in range(3)])
    xs = [centres(tree)[str(i)][0] for i in range(3)]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.02)
    assert "Latency (log scale) →" in words(tree)
    near = chart([point("a", 0.8, 1.0), point("b", 0.9, 1.5)])
    assert "Latency →" in words(near)


def test_the_front_is_filled_and_a_throttled_point_is_a_triangle():
    points = [point("a"), point("b", 0.8, 2.0), point("c", 0.85, 3.0, throttled=True)]
    tree = chart(points, [True, False, False])
    marks = {e.find(SVG + "title").text: e for e in of_class(tree, "point")}
    assert marks["a"].get("class") == "point on"
    assert marks["b"].get("class") == "point"
    assert marks["c"].tag == SVG + "path" and marks["b"].tag == SVG + "circle"
    both = chart(points[2:], [True])
    assert of_class(both, "point")[0].get("class") == "point on"
    assert said(tree) == (
        "a: 90.0% at 1.00 ms, on the front; b: 80.0% at 2.00 ms; c: 85.0% at 3.00 ms, throttled"
    )
    meanings = [meaning for _, meaning in scatter.legend(points, [True, False, False])]
    assert len(meanings) == 3
    assert len(scatter.legend(points[:1], [True])) == 1


def test_a_wide_interval_of_a_latency_is_drawn_and_a_narrow_one_is_not():
    wide = point("a", 0.8, 2.0, interval=(1.5, 2.6))
    narrow = point("b", 0.9, 3.0, interval=(2.999, 3.001))
    (whisker,) = of_class(chart([wide, narrow]), "whisker")
    assert float(whisker.get("x1")) < centres(chart([wide, narrow]))["a"][0]
    assert of_class(chart([wide, narrow], against="size"), "whisker") == []


@pytest.mark.parametrize(
    "points",
    [
        [point("only")],
        [point("a"), point("b")],
        [point("a", 0.0, 1e-3, 1), point("b", 1.0, 1e5, 10**12)],
        [point("x" * 300, 0.5), point("x" * 300, 0.5, 7.0)],
    ],
)
def test_one_point_equal_points_extreme_points_and_long_names_stay_inside(points):
    for against in ("latency", "size"):
        tree = chart(points, against=against)
        _, _, width, height = map(float, tree.get("viewBox").split())
        assert len(of_class(tree, "point")) == len(points)
        for mark in of_class(tree, "point"):
            assert 0 < float(mark.get("cx")) < width and 0 < float(mark.get("cy")) < height
        assert all(len(text) < 60 for text in words(tree))
        assert "nan" not in ET.tostring(tree, encoding="unicode")


def test_thirty_points_are_all_drawn_and_named_by_number_off_the_front():
    points = [
        point(f"quantization_{i}", 0.8 + i / 1000, 1.0 + (i * 7) % 30, number=i + 1)
        for i in range(30)
    ]
    front = [i >= 28 for i in range(30)]
    tree = chart(points, front)
    assert len(of_class(tree, "point")) == 30
    names = [text for text in words(tree) if text.startswith("quantization")]
    assert names and set(names) <= {"quantization_28", "quantization_29"}
    assert sum(text.isdigit() for text in words(tree)) > 20


def test_small_differences_of_accuracy_are_not_blown_up():
    tree = chart([point("a", 0.8400, 1.0), point("b", 0.8401, 2.0)])
    ys = [y for _, y in centres(tree).values()]
    assert abs(ys[0] - ys[1]) < 5  # of 220: chance alone would move them farther
    correlations = chart([point("a", 0.50, 1.0), point("b", 0.51, 2.0)], metric="matthews")
    ys = [y for _, y in centres(correlations).values()]
    assert abs(ys[0] - ys[1]) > 100


def row(label="a", repetitions=(), blocks=(), p50=10.0, series=1):
    return spread.Row(label, f"p50 {p50}", repetitions, blocks, series, p50)


def shape_of(tree, i=0):
    """Position and height of the bins of a histogram."""
    d = of_class(tree, "shape")[i].get("d")
    steps = [part.split("H") for part in d.split("V")[1:]]
    half = steps[: len(steps) // 2]
    base = float(d[1:].split("V")[0].split()[1])
    return [(float(x), base - float(y)) for y, x in half]


def test_a_histogram_is_tallest_where_most_samples_are():
    samples = tuple([10.0] * 80 + [12.0] * 20 + [9.0] * 10)
    tree = parsed(spread.distributions("k", "t", [row(repetitions=(samples,))]))
    steps = shape_of(tree)
    tallest = max(steps, key=lambda step: step[1])
    filled = [(x, tall) for x, tall in steps if tall > 0]
    assert tallest[1] == pytest.approx(11)
    assert [tall for _, tall in filled] == pytest.approx([11 / 8, 11, 11 / 4], abs=0.06)
    assert filled[0][0] < tallest[0] < filled[-1][0]


def test_stragglers_are_counted_and_not_drawn():
    samples = tuple([10.0] * 995 + [500.0] * 5)
    tree = parsed(spread.distributions("k", "t", [row(repetitions=(samples,))]))
    assert "5 beyond, up to 500 ms →" in words(tree)
    xs = [x for x, _ in shape_of(tree)]
    assert max(xs) <= 350


def test_medians_far_apart_are_drawn_against_themselves():
    near = [row("a", ((10.0, 11.0, 12.0),)), row("b", ((12.0, 13.0, 14.0),), p50=13.0)]
    far = [row("a", ((10.0, 11.0, 12.0),)), row("b", ((100.0, 110.0, 120.0),), p50=100.0)]
    assert not spread.is_relative(near) and spread.is_relative(far)
    tree = parsed(spread.distributions("k", "t", far))
    assert "median" in words(tree) and "+20%" in words(tree)
    assert shape_of(tree, 0)[-1][0] == pytest.approx(shape_of(tree, 1)[-1][0], abs=0.1)
    assert any(text.endswith(" ms") for text in words(parsed(spread.distributions("k", "t", near))))


def test_each_repetition_has_a_stroke_at_its_median():
    repetitions = ((9.0, 10.0, 11.0), (11.0, 12.0, 13.0))
    tree = parsed(spread.distributions("k", "t", [row(repetitions=repetitions, p50=11.0)]))
    strokes = [float(e.get("x1")) for e in of_class(tree, "repetition")]
    (middle,) = [float(e.get("x1")) for e in of_class(tree, "median")]
    assert strokes[0] < middle < strokes[1]
    assert middle - strokes[0] == pytest.approx(strokes[1] - middle, abs=0.05)


def block(mean, low, high, median=None):
    return schema.Block(n=10, mean_ms=mean, min_ms=low, max_ms=high, median_ms=median)


def test_blocks_are_drawn_as_lines_and_no_shape_is_made_up_from_them():
    blocks = (block(10.0, 9.0, 12.0), block(11.0, 10.0, 20.0, median=10.5))
    tree = parsed(spread.distributions("k", "t", [row(blocks=blocks)]))
    assert of_class(tree, "shape") == []
    bursts = of_class(tree, "burst")
    lengths = [float(e.get("x2")) - float(e.get("x1")) for e in bursts]
    assert lengths[1] / lengths[0] == pytest.approx(10 / 3, rel=0.01)
    dots = [float(e.get("cx")) for e in of_class(tree, "mark")]
    per_ms = lengths[0] / 3
    assert (dots[1] - dots[0]) / per_ms == pytest.approx(0.5, abs=0.01)  # its median, not its mean
    many = parsed(spread.distributions("k", "t", [row(blocks=blocks * 500)]))
    assert len(of_class(many, "burst")) <= 30


@pytest.mark.parametrize("samples", [(5.0,), (5.0, 5.0), (1e-3, 1e4)])
def test_one_sample_equal_samples_and_extremes_are_drawn(samples):
    tree = parsed(spread.distributions("k", "t", [row(repetitions=(samples,), p50=samples[0])]))
    assert len(of_class(tree, "median")) == 1
    assert "nan" not in ET.tostring(tree, encoding="unicode")


def test_a_hundred_thousand_samples_make_no_larger_a_chart_than_a_thousand():
    def size(number):
        samples = tuple(10 + math.sin(i) for i in range(number))
        return len(spread.distributions("k", "t", [row(repetitions=(samples,))]))

    assert size(100_000) < 1.1 * size(1000)


def line(label, points, **more):
    return lines.Line(label, label, points, tuple(more.pop("intervals", [None] * len(points))), 1,
                      **more)  # fmt: skip


def test_curves_start_at_zero_unless_they_span_a_factor_of_twenty():
    tree = parsed(lines.latencies("k", "t", [line("a", ((32, 1.0), (128, 4.0)))], "tokens"))
    assert "0" in words(tree) and "↑ Latency" in words(tree)
    wide = [line("a", ((32, 1.0), (128, 4.0))), line("b", ((32, 100.0), (128, 400.0)))]
    assert "↑ Latency (log scale)" in words(parsed(lines.latencies("k", "t", wide, "tokens")))


def test_lengths_stand_where_their_numbers_are():
    tree = parsed(
        lines.latencies("k", "t", [line("a", ((32, 1.0), (64, 2.0), (128, 4.0)))], "tokens")
    )
    (curve,) = of_class(tree, "curve")
    spots = [tuple(map(float, p.split())) for p in curve.get("d")[1:].split("L")]
    (ax, ay), (bx, by), (cx, cy) = spots
    assert (cx - bx) / (bx - ax) == pytest.approx(2, rel=0.01)
    assert (cy - by) / (by - ay) == pytest.approx(2, rel=0.01)  # linear from zero, too


def test_every_curve_has_its_name_at_its_end_and_names_do_not_collide():
    drawn = [line(f"file {i}", ((1, 5.0), (2, 5.0 + i / 100))) for i in range(8)]
    tree = parsed(lines.latencies("k", "t", drawn, "threads"))
    heights = sorted(float(e.get("y")) for e in of_class(tree, "name"))
    assert len(heights) == 8
    assert all(b - a >= 14.9 for a, b in itertools.pairwise(heights))


def test_long_names_give_way_to_numbers_for_all():
    names = ["short", "a name that is far too long for it"]
    assert lines.short_names(names, {names[0]: 3, names[1]: 4}) == {names[0]: "3", names[1]: "4"}
    assert lines.short_names(["a", "b"], {"a": 1, "b": 2}) == {"a": "a", "b": "b"}


def test_throttled_points_are_rings_and_intervals_whiskers():
    drawn = line("a", ((1, 5.0), (2, 4.0)), intervals=[(4.5, 5.5), None], hollow=(True, False))
    tree = parsed(lines.latencies("k", "t", [drawn], "threads"))
    assert len(of_class(tree, "ring")) == 1 and len(of_class(tree, "whisker")) == 1


def window(start, p50, status=None, p90=None):
    conditions = schema.Conditions(time="2026-01-01", thermal_status=status)
    return schema.Window(start_s=start, n=10, p50_ms=p50, p90_ms=p90, conditions=conditions)


def test_a_sustained_run_shows_the_thermal_status_below_it():
    windows = [window(60.0 * i, 5.0 + i, status=0 if i < 5 else 3) for i in range(10)]
    tree = parsed(lines.sustained("k", "t", [("a", "a", 1, windows)]))
    cool, hot = of_class(tree, "thermal")
    assert (cool.get("class"), hot.get("class")) == ("thermal t0", "thermal t3")
    assert float(cool.get("x")) + float(cool.get("width")) == pytest.approx(
        float(hot.get("x")), abs=0.02
    )
    assert "none" in words(tree) and "severe" in words(tree) and "minutes" in words(tree)
    assert said(tree) == "a: 5.00 ms at first, 14.0 ms after 9 min, thermal status up to severe"


def test_a_device_that_tells_no_thermal_status_has_no_strip():
    windows = [window(5.0 * i, 5.0, p90=6.0) for i in range(3)]
    tree = parsed(lines.sustained("k", "t", [("a", "a", 1, windows)]))
    assert of_class(tree, "thermal") == []
    assert "seconds" in words(tree)
    assert len(of_class(tree, "tail")) == 1
    single = parsed(lines.sustained("k", "t", [("a", "a", 1, windows[:1])]))
    assert len(of_class(single, "mark")) == 1


def test_a_run_of_days_stays_small():
    windows = [window(1.0 * i, 5.0 + i % 7) for i in range(4000)]
    assert len(lines.sustained("k", "t", [("a", "a", 1, windows)])) < 8000


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
    tree = parsed(operators.bars("k", "t", part, 1))
    widths = [float(e.get("width")) for e in of_class(tree, "bar")]
    assert len(widths) == 8
    assert widths[0] / widths[6] == pytest.approx(10 / 4, rel=0.02)
    assert "18.2% · 10.0 ms" in words(tree)  # 10 of 55
    assert "3 other kinds" in words(tree) and "10.9% · 6.00 ms" in words(tree)
    assert words(tree)[0] == "KIND_9"


def test_operators_without_any_time_make_no_chart():
    assert operators.bars("k", "t", operator_part(("A", 1, 0.0)), 1) is None
    assert operators.bars("k", "t", operator_part(), 1) is None
