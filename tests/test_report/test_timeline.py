import itertools

import pytest
from page_reading import chart_of, description_of, of_class, words_of

from tfdistill.report.plot import timeline


def latencies(lines):
    return chart_of(timeline.latencies("k", "t", lines))


def test_a_curve_falls_when_its_values_fall():
    line = timeline.Line("full, seed 1", ((1, 4.0), (2, 3.0), (3, 2.0)), 2)
    tree = chart_of(timeline.curve_panel("k", "Loss", [line]))
    (curve,) = of_class(tree, "curve")
    points = [tuple(map(float, p.split())) for p in curve.get("d")[1:].split("L")]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert points[0][1] < points[1][1] < points[2][1]  # y grows downwards
    assert "full, seed 1: 4 at first, 2 at last" in description_of(tree)


def test_values_over_a_factor_of_twenty_are_drawn_on_a_log_scale():
    lines = [timeline.Line("a", ((1, 100.0), (2, 10.0), (3, 1.0)), 1)]
    tree = chart_of(timeline.curve_panel("k", "Loss", lines))
    assert words_of(tree)[0] == "Loss (log scale)"
    (curve,) = of_class(tree, "curve")
    ys = [float(p.split()[1]) for p in curve.get("d")[1:].split("L")]
    assert ys[1] - ys[0] == pytest.approx(ys[2] - ys[1], abs=0.2)


@pytest.mark.parametrize("values", [(0.5,), (0.5, 0.5), (0.0, 0.0), (-1.0, 1.0)])
def test_single_and_equal_and_negative_values_are_drawn(values):
    line = timeline.Line("a", tuple(enumerate(values)), 1)
    tree = chart_of(timeline.curve_panel("k", "Loss", [line]))
    assert len(of_class(tree, "mark")) == len(values)
    assert len(of_class(tree, "curve")) == (len(values) > 1)


def line(label, points, **more):
    intervals = tuple(more.pop("intervals", [None] * len(points)))
    return timeline.Line(label, points, 1, label, intervals, **more)


def test_curves_start_at_zero_unless_they_span_a_factor_of_twenty():
    tree = latencies([line("a", ((32, 1.0), (128, 4.0)))])
    assert "0" in words_of(tree) and "↑ Latency" in words_of(tree)
    wide = [line("a", ((32, 1.0), (128, 4.0))), line("b", ((32, 100.0), (128, 400.0)))]
    assert "↑ Latency (log scale)" in words_of(latencies(wide))


def test_lengths_stand_where_their_numbers_are():
    tree = chart_of(timeline.latencies("k", "t", [line("a", ((32, 1.0), (64, 2.0), (128, 4.0)))]))
    (curve,) = of_class(tree, "curve")
    spots = [tuple(map(float, p.split())) for p in curve.get("d")[1:].split("L")]
    (ax, ay), (bx, by), (cx, cy) = spots
    assert (cx - bx) / (bx - ax) == pytest.approx(2, rel=0.01)
    assert (cy - by) / (by - ay) == pytest.approx(2, rel=0.01)  # linear from zero, too


def test_every_curve_has_its_name_at_its_end_and_names_do_not_collide():
    drawn = [line(f"file {i}", ((1, 5.0), (2, 5.0 + i / 100))) for i in range(8)]
    tree = latencies(drawn)
    heights = sorted(float(e.get("y")) for e in of_class(tree, "name"))
    assert len(heights) == 8
    assert all(b - a >= 14.9 for a, b in itertools.pairwise(heights))


def test_long_names_give_way_to_numbers_for_all():
    names = ["short", "a name that is far too long for it"]
    assert timeline.short_names(names, {names[0]: 3, names[1]: 4}) == {
        names[0]: "3",
        names[1]: "4",
    }
    assert timeline.short_names(["a", "b"], {"a": 1, "b": 2}) == {"a": "a", "b": "b"}


def test_throttled_points_are_rings_and_intervals_whiskers():
    drawn = line("a", ((1, 5.0), (2, 4.0)), intervals=[(4.5, 5.5), None], hollow=(True, False))
    tree = latencies([drawn])
    assert len(of_class(tree, "ring")) == 1 and len(of_class(tree, "whisker")) == 1
