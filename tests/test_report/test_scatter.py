import xml.etree.ElementTree as ET

import pytest
from page_reading import SVG, chart_of, description_of, of_class, words_of

from tfdistill.report.plot import scatter
from tfdistill.report.tradeoff import Point


def chart(points, against="latency", metric="accuracy"):
    return chart_of(scatter.accuracy_chart("k", points, against=against, metric=metric, title="t"))


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
    assert "Latency (log scale) →" in words_of(tree)
    near = chart([point("a", 0.8, 1.0), point("b", 0.9, 1.5)])
    assert "Latency →" in words_of(near)


def test_the_front_is_filled_and_a_throttled_point_is_a_triangle():
    points = [
        point("a"),
        point("b", 0.8, 2.0, on_front=False),
        point("c", 0.85, 3.0, marks="throttled", on_front=False),
    ]
    tree = chart(points)
    marks = {e.find(SVG + "title").text: e for e in of_class(tree, "point")}
    assert marks["a"].get("class") == "point s4 on"
    assert marks["b"].get("class") == "point s4"
    assert marks["c"].tag == SVG + "path" and marks["b"].tag == SVG + "circle"
    both = chart([point("d", marks="throttled")])
    assert of_class(both, "point")[0].get("class") == "point s4 on"
    assert description_of(tree) == (
        "a: 90.0% at 1.00 ms, on the front; b: 80.0% at 2.00 ms; c: 85.0% at 3.00 ms, throttled"
    )
    meanings = [meaning for _, meaning in scatter.legend(points)]
    assert len(meanings) == 3
    assert scatter.legend(points[:1]) == ()


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
        assert all(len(text) < 60 for text in words_of(tree))
        assert "nan" not in ET.tostring(tree, encoding="unicode")


def test_thirty_points_are_all_drawn_and_named_by_number_off_the_front():
    points = [
        point(
            f"quantization_{i}",
            0.8 + i / 1000,
            1.0 + (i * 7) % 30,
            number=i + 1,
            on_front=i >= 28,
        )
        for i in range(30)
    ]
    tree = chart(points)
    assert len(of_class(tree, "point")) == 30
    names = [text for text in words_of(tree) if text.startswith("quantization")]
    assert names and set(names) <= {"quantization_28", "quantization_29"}
    assert sum(text.isdigit() for text in words_of(tree)) > 20


def test_small_differences_of_accuracy_are_not_blown_up():
    tree = chart([point("a", 0.8400, 1.0), point("b", 0.8401, 2.0)])
    ys = [y for _, y in centres(tree).values()]
    assert abs(ys[0] - ys[1]) < 5  # of 220: chance alone would move them farther
    correlations = chart([point("a", 0.50, 1.0), point("b", 0.51, 2.0)], metric="matthews")
    ys = [y for _, y in centres(correlations).values()]
    assert abs(ys[0] - ys[1]) > 100
