"""The tutorials run, and what they store is what they put out; notebooks are executed and shown."""

import json
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))

import run_notebooks  # noqa: E402

TUTORIALS = sorted(run_notebooks.TUTORIALS.glob("*.ipynb"))


def code(*lines):
    source = [f"{line}\n" for line in lines]
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": []}


def test_a_cell_puts_out_what_it_prints_and_its_last_value(tmp_path):
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n"]},
        code("import os", "x = 2", "print(os.listdir())"),
        code("x + 1"),
        code("None"),
    ]
    done = run_notebooks.run({"cells": cells}, tmp_path)

    texts = [run_notebooks.texts_of(cell) for cell in done["cells"]]
    assert texts == ["", "[]", "3", ""]
    assert [cell.get("execution_count") for cell in done["cells"]] == [None, 1, 2, 3]
    page = run_notebooks.to_markdown(done)
    assert page.startswith("# Title\n\n```python\nimport os")
    assert "```python\nx + 1\n```\n\n```text\n3\n```" in page


def test_links_to_notebooks_lead_to_their_pages():
    text = "[a](tutorials/a.ipynb), [b](https://example.org/b.ipynb)"
    linked = run_notebooks.on_page_markdown(text, page=None)
    assert linked == "[a](tutorials/a.md), [b](https://example.org/b.ipynb)"


def test_a_cell_that_fails_ends_the_run(tmp_path):
    with pytest.raises(ZeroDivisionError):
        run_notebooks.run({"cells": [code("1 / 0")]}, tmp_path)


def test_every_tutorial_is_stored_with_its_outputs():
    assert len(TUTORIALS) == 3
    for path in TUTORIALS:
        notebook = json.loads(path.read_text("utf-8"))
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert notebook["nbformat"] == 4
        assert sum(bool(cell["outputs"]) for cell in cells) >= 4, path.name
        assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "reached", "end"),
    [  # ten intents: chance is 0.1
        ("own-csv", {"teacher:": 0.5, "student:": 0.4}, ""),
        ("own-method", {"teacher:": 0.5, "student:": 0.4}, "True"),
        ("semantic-search", {"student ": 0.4}, ""),
    ],
)
def test_a_tutorial_runs_and_reaches_what_it_shows(name, reached, end, tmp_path):
    (path,) = (path for path in TUTORIALS if path.stem == name)
    stored = json.loads(path.read_text("utf-8"))
    done = run_notebooks.run(stored, tmp_path)
    kinds = [bool(cell.get("outputs")) for cell in stored["cells"]]
    assert [bool(cell.get("outputs")) for cell in done["cells"]] == kinds
    shown = "\n".join(map(run_notebooks.texts_of, done["cells"]))
    for model, least in reached.items():
        assert float(re.search(rf"{model}\D*(0\.\d+|1\.0)", shown).group(1)) > least
    assert shown.endswith(end)
