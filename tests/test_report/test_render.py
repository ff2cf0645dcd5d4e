import re

from tfdistill import report
from tfdistill.results import tables


def test_markdown_holds_the_tables_of_the_page(run_dir):
    value = report.build(report.collect(run_dir))
    text = report.render_markdown(value)
    shown = list(value.tables())
    assert len(shown) == 9
    for table in shown:
        for row in table.plain:
            assert all(tables.markdown(cell) in text for cell in row)
    assert "| Teacher (6 layers × 384) | 90.0% | 100% | 90.0% | 22.9 |" in text


def test_every_row_of_a_table_has_as_many_cells_as_its_head(run_dir, edit):
    edit(run_dir / "metrics.json", lambda m: m["task"].update(name="a|b\n| c |"))
    text = report.render_markdown(report.build(report.collect(run_dir)))
    blocks = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert len(blocks) == 9
    for block in blocks:
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(counts) == 1


def test_limits_and_the_headline_are_there(run_dir):
    text = report.render_markdown(report.build(report.collect(run_dir)))
    assert text.startswith(
        "# tinybert\\_3l\\_192d\\_sst2\n\nThe student’s file is 2.1 points below"
    )
    assert "not of a phone" in text
    assert "- **2.00 ms** a text of 128 tokens on this host, 18.0× faster" in text
    assert "- Version: 0.1.0, 0123456789ab" in text
    assert text.endswith("\n") and not text.endswith("\n\n")
