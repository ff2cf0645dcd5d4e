"""Plots, compared with the files under pages/plots/: see tests/golden_page.py."""

import pathlib
import re

import golden_page
import pytest
from test_report.page_reading import chart_of, words_of

from tfdistill.report.plot import charts, scatter, timeline
from tfdistill.report.tradeoff import Point

PLOTS = pathlib.Path(__file__).parent / "pages" / "plots"


def point(label, accuracy=0.9, latency=1.0, size=1_000_000, **more):
    return Point(label, accuracy, latency, more.pop("interval", None), size, **more)


def scattered(*points, against="latency", metric="accuracy"):
    return scatter.accuracy_chart("k", points, against=against, metric=metric, title="t")


def line(label, *points, **more):
    more = {"short": label, "intervals": (None,) * len(points), **more}
    return timeline.Line(label, points, 1, **more)


def panel(*values):
    return timeline.curve_panel("k", "Loss", [line("a", *enumerate(values))])


def latencies(*lines):
    return timeline.latencies("k", "t", lines)


OF_ALL_SORTS = (  # on the front with a wide interval and a narrow one, off it, and throttled
    point("a", 0.8, 2.0, 2_000_000, interval=(1.5, 2.6)),
    point("b", 0.9, 3.0, interval=(2.999, 3.001)),
    point("c", 0.7, 4.0, on_front=False),
    point("d", 0.75, 3.5, marks="throttled", on_front=False),
)
THIRTY = [
    point(f"quantization_{i}", 0.8 + i / 1000, 1.0 + i * 7 % 30, number=i + 1, on_front=i >= 28)
    for i in range(30)
]
DRAWN = {
    "bars": charts.bars(
        "k", "t", [charts.Bar("a", "8 ms", 8.0, 1), charts.Bar("b", "2 ms", 2.0, 2)]
    ),
    "bar of a share": charts.bars("k", "t", [charts.Bar("a", "50%", 0.5, 1)], most=1.0),
    "scatter": scattered(*OF_ALL_SORTS),
    "scatter of sizes": scattered(*OF_ALL_SORTS, against="size"),
    "scatter on a log axis": scattered(*(point(str(i), 0.8 + i / 100, 10.0**i) for i in range(3))),
    "scatter of one": scattered(point("only")),
    "scatter of equals": scattered(point("a"), point("b")),
    "scatter of extremes": scattered(point("a", 0.0, 1e-3, 1), point("b", 1.0, 1e5, 10**12)),
    "scatter of long names": scattered(point("x" * 300, 0.5), point("x" * 300, 0.5, 7.0)),
    "scatter of thirty": scattered(*THIRTY),
    "scatter of chance": scattered(point("a", 0.84), point("b", 0.8401, 2.0)),
    "scatter of correlations": scattered(
        point("a", 0.50), point("b", 0.51, 2.0), metric="matthews"
    ),
    "curve": panel(4.0, 3.0, 2.0),
    "curve on a log scale": panel(100.0, 10.0, 1.0),
    "curve of one": panel(0.5),
    "curve of zeros": panel(0.0, 0.0),
    "curve below zero": panel(-1.0, 1.0),
    "latencies": latencies(
        line("a", (32, 1.0), (64, 2.0), (128, 4.0)),
        line("b", (32, 2.0), (64, 3.0), intervals=((1.5, 2.5), None), hollow=(True, False)),
    ),
    "latencies on a log scale": latencies(
        line("a", (32, 1.0), (128, 4.0)), line("b", (32, 100.0), (128, 400.0))
    ),
    "latencies of eight": latencies(
        *(line(f"file {i}", (1, 5.0), (2, 5.0 + i / 100)) for i in range(8))
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_plot_is_the_drawing_of_its_name(name):
    drawing = re.sub("(?=<[a-z])", "\n", DRAWN[name]).strip() + "\n"
    golden_page.check(drawing, PLOTS / f"{name.replace(' ', '_')}.svg")
    tree = chart_of(DRAWN[name])
    _, _, width, height = map(float, tree.get("viewBox").split())
    assert all(0 <= float(e.get("cx", 0)) <= width for e in tree.iter())
    assert all(0 <= float(e.get("cy", 0)) <= height for e in tree.iter())
    assert "nan" not in drawing and all(len(text) < 60 for text in words_of(tree))


def test_a_legend_explains_only_what_is_drawn():
    assert len(scatter.legend(OF_ALL_SORTS)) == 3
    assert scatter.legend(OF_ALL_SORTS[:1]) == ()


def test_long_names_of_curves_give_way_to_numbers_for_all():
    names = ["short", "a name that is far too long for it"]
    numbered = {names[0]: "3", names[1]: "4"}
    assert timeline.short_names(names, {names[0]: 3, names[1]: 4}) == numbered
    assert timeline.short_names(["a", "b"], {"a": 1, "b": 2}) == {"a": "a", "b": "b"}
