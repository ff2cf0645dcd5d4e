import xml.etree.ElementTree as ET

import pytest
from test_report import page_reading
from test_report.page_reading import HTML, text_of

from tfdistill import config, errors, report
from tfdistill.data import answers

HOSTILE = "<script>alert('x')</script>\"&|`*_\x00"


def tree_of(run_dir):
    return page_reading.tree_of(report.render_html(report.build(report.collect(run_dir))))


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


def test_the_recipe_of_an_earlier_version_is_shown_without_its_defaults(run_dir):
    recipe = run_dir / "recipe.yaml"
    recipe.write_text(config.dump_recipe(config.load_recipe("tinybert_3l_192d_sst2")))
    page = text_of(tree_of(run_dir))
    recipe.write_text(recipe.read_text().replace("data:\n", "data:\n  placeholder_data: false\n"))
    assert "placeholder_data" in recipe.read_text()
    assert text_of(tree_of(run_dir)) == page


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


def test_a_run_that_has_just_begun_makes_a_page(tmp_path):
    (tmp_path / "metrics.json").write_text('{"format_version": 1, "recipe": "sst2"}')
    page = report.render_html(report.build(report.collect(tmp_path)))
    assert "No student yet." in page
    ET.fromstring(page)
