import collections
import dataclasses
import re
import xml.etree.ElementTree as ET

import page_reading
import pytest
from page_reading import HTML, table_of, text_of

from tfdistill import errors, report
from tfdistill.data import answers
from tfdistill.report import sections
from tfdistill.report.document import Picture, ReportSection, SectionPart
from tfdistill.report.plot import charts
from tfdistill.report.sections import device_tables, limits, parity, quality, verdict
from tfdistill.results import tables

HOSTILE = "<script>alert('x')</script>\"&|`*_\x00"


def tree_of(run_dir):
    return page_reading.tree_of(report.render_html(report.build(report.collect(run_dir))))


def test_the_page_asks_for_nothing_from_outside(run_dir):
    assert page_reading.requests_of(report.render_html(report.build(report.collect(run_dir)))) == []


def test_a_reader_with_keyboard_or_screen_reader_finds_the_way(run_dir):
    tree = tree_of(run_dir)
    assert page_reading.faults_of(tree) == []
    # Bars of 3 figures, accuracy against latency and size, by length, 9 of training.
    assert len(page_reading.pictures_of(tree)) == 3 + 2 + 1 + 9


def test_hostile_names_stay_text(run_dir, edit):
    def spoil(metrics):
        metrics["recipe"] = metrics["task"]["name"] = HOSTILE
        metrics["task"]["labels"] = [HOSTILE]
        for model in metrics["models"]:
            if model["role"] == "student":
                model["name"] += HOSTILE
                model["stages"] = [HOSTILE]
                model["architecture"]["num_layers"] = HOSTILE
                for entry in model["history"]:
                    entry["stage"] = HOSTILE
        metrics["exports"][0]["name"] = HOSTILE

    edit(run_dir / "metrics.json", spoil)
    edit(run_dir / "benchmark.json", lambda b: b.update(notes=[HOSTILE]))
    edit(run_dir / "environment.json", lambda e: e["packages"].update({HOSTILE: HOSTILE}))
    (run_dir / "recipe.yaml").write_text("name: \"<script>alert('x')</script>\"\n")
    results = report.collect(run_dir)
    page = report.render_html(report.build(results))
    tree = ET.fromstring(page)
    assert not list(tree.iter(HTML + "script")) and not list(tree.iter("script"))
    assert "<script" not in page
    assert "alert('x')" in text_of(tree)  # shown as it is
    assert "<script" not in report.render_markdown(report.build(results))


def test_synthetic_data_is_marked_at_the_top(run_dir, edit):
    assert "synthetic" not in text_of(tree_of(run_dir))
    edit(run_dir / "metrics.json", lambda m: m.update(synthetic_data=True))
    header = next(tree_of(run_dir).iter(HTML + "header"))
    assert "synthetic data" in text_of(header)


@pytest.mark.parametrize("name", ["metrics.json", "benchmark.json", answers.TEST_FILE])
def test_a_result_that_is_a_link_to_itself_is_not_absent(run_dir, name):
    link = run_dir / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(link.name)
    with pytest.raises(errors.DataError, match=name):
        report.collect(run_dir)


@pytest.mark.parametrize("gone", ["metrics.json", "benchmark.json"])
def test_half_a_run_makes_a_page_without_the_other_half(run_dir, gone):
    (run_dir / gone).unlink()
    results = report.collect(run_dir)
    keys = {table.key for table in report.build(results).tables()}
    tree = ET.fromstring(report.render_html(report.build(results)))
    shown = {c.get("id").removesuffix("-caption") for c in tree.iter(HTML + "caption")}
    assert shown >= keys
    assert (
        keys
        == {
            "metrics.json": {"latency", "start", "text", "conditions", "tradeoff-1-table"},
            "benchmark.json": {"models", "seeds", "parity", "training"},
        }[gone]
    )
    ids = {e.get("id") for e in tree.iter()}
    assert all(link.get("href")[1:] in ids for link in tree.iter(HTML + "a"))


def test_a_run_that_has_just_begun_makes_a_page(tmp_path):
    (tmp_path / "metrics.json").write_text('{"format_version": 1, "recipe": "sst2"}')
    page = report.render_html(report.build(report.collect(tmp_path)))
    assert "No student yet." in page
    ET.fromstring(page)


def test_everything_is_computed_once_for_all_three_renderers(run_dir, monkeypatch):
    counted = collections.Counter()

    def count(module, name):
        original = getattr(module, name)

        def counting(*arguments):
            counted[name] += 1
            return original(*arguments)

        monkeypatch.setattr(module, name, counting)

    count(sections, "RunAnalysis")
    for name in ("models", "seeds", "test_set"):
        count(quality, name)
    count(parity, "parity")
    count(limits, "limits")
    for name in ("latency", "text", "start", "operators", "conditions"):
        count(device_tables, name)
    for name in ("headline", "key_figures"):
        count(verdict, name)
    report.write(run_dir)
    assert len(counted) == 13 and set(counted.values()) == {1}


def test_a_new_section_needs_no_change_of_a_renderer(run_dir):
    value = report.build(report.collect(run_dir))
    rows = [tables.row({"Label": "x|y", "Of it": "7"})]
    table = tables.of_rows("confusion", "Confusion", rows, ["Rows."])
    chart = charts.bars("confusion-chart", "Confused", [charts.Bar("x", "7", 7.0, 1)])
    part = SectionPart("confusion-part", pictures=(Picture(chart, "Confused"),), tables=(table,))
    section = ReportSection("classes", "Classes", "By class", "Seven.", (part,))
    value = dataclasses.replace(value, sections=(*value.sections, section))
    tree = page_reading.tree_of(report.render_html(value))
    assert page_reading.faults_of(tree) == []
    assert table_of(tree, "confusion") == [["Label", "Of it"], ["x|y", "7"]]
    assert "By class" in text_of(next(tree.iter(HTML + "nav")))
    assert r"| x\|y | 7 |" in report.render_markdown(value)
    assert report.render_csv(value)["confusion.csv"] == "Label,Of it\nx|y,7\n"


def test_rendering_is_pure(run_dir):
    results = report.collect(run_dir)
    assert report.render_html(report.build(results)) == report.render_html(report.build(results))
    assert report.render_markdown(report.build(results)) == report.render_markdown(
        report.build(results)
    )


def test_a_column_has_one_unit_and_its_head_names_it(run_dir):
    for table in report.build(report.collect(run_dir)).tables():
        columns = zip(*([row.head, *row.cells] for row in table.rows), strict=True)
        for title, column in zip(table.heads, columns, strict=True):
            units = {cell.unit for cell in column if cell.value is not None}
            assert len(units) <= 1, title
            assert all(title.endswith(unit) for unit in units)
            assert not any(re.search(r"\d (ms|µs|s|[kM]?B)\b", cell.text) for cell in column)


def test_a_colour_means_one_thing_in_every_chart(run_dir):
    """The page's classes of marks, bars and curves by the name beside them."""
    page = tree_of(run_dir)
    roles = collections.defaultdict(set)
    for chart in page_reading.pictures_of(page):
        names = [text_of(e) for e in page_reading.of_class(chart, "value")]
        for bar, name in zip(page_reading.of_class(chart, "bar"), names[::2], strict=False):
            roles[name.removesuffix("’s file")].add(bar.get("class").split()[1])
    for point in page_reading.of_class(page, "point"):
        if name := text_of(point):
            role = {"teacher": "Teacher", "student": "File"}[name]
            roles[role].add(point.get("class").split()[1])
    assert roles == {"Teacher": {"s0"}, "File": {"s2"}}
