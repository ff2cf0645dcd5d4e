#!/usr/bin/env python3
"""Runs notebooks in this process and stores what their cells print.

    python scripts/run_notebooks.py [NOTEBOOK ...]    all of docs/tutorials by default

Each runs in a folder of its own that is removed afterwards. A cell's output is what it prints and
the value of its last expression. Without a kernel, magic commands and pictures are not available.
"""

import ast
import contextlib
import io
import json
import os
import pathlib
import re
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"


def run(notebook: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    """Executes the code of a notebook.

    Args:
      notebook: As nbformat 4 describes it; `outputs` are replaced.
      folder: The working directory meanwhile.

    Returns:
      The notebook with its outputs.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, number = [], 0
    with _working_in(folder):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                printed, value = _execute("".join(cell["source"]), names)
                outputs = []
                if printed:
                    lines = printed.splitlines(keepends=True)
                    outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
                if value is not None:
                    data = {"text/plain": repr(value).splitlines(keepends=True)}
                    outputs.append(
                        {
                            "output_type": "execute_result",
                            "execution_count": number,
                            "metadata": {},
                            "data": data,
                        }
                    )
                cell = {**cell, "execution_count": number, "outputs": outputs}
            cells.append(cell)
    return {**notebook, "cells": cells}


def texts_of(cell: dict[str, Any]) -> str:
    """Returns what a cell put out, as text."""
    notebooks = [
        output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]
        for output in cell.get("outputs", ())
    ]
    return "\n".join("".join(lines).rstrip() for lines in notebooks)


def to_markdown(notebook: dict[str, Any]) -> str:
    """Returns a notebook as a page: text, code, output."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"]).rstrip()
        if cell["cell_type"] != "code":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        if text := texts_of(cell):
            parts.append(f"```text\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def on_files(files: Any, config: Any) -> Any:
    """Hook of MkDocs: every notebook is a page."""
    from mkdocs.structure.files import File

    for path in sorted(TUTORIALS.glob("*.ipynb")):
        page = to_markdown(json.loads(path.read_text("utf-8")))
        name = path.relative_to(TUTORIALS.parent).with_suffix(".md")
        files.append(File.generated(config, name.as_posix(), content=page))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Hook of MkDocs: links to notebooks lead to their pages."""
    return re.sub(r"\]\(([^)\s:]+)\.ipynb\)", r"](\1.md)", markdown)


def _execute(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    tree = ast.parse(source)
    value = last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = tree.body.pop()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return printed.getvalue(), value


@contextlib.contextmanager
def _working_in(folder: pathlib.Path):
    """What contextlib.chdir is from Python 3.11 on."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main() -> None:
    """Runs the notebooks that are named."""
    for name in sys.argv[1:] or sorted(map(str, TUTORIALS.glob("*.ipynb"))):
        path = pathlib.Path(name)
        with tempfile.TemporaryDirectory() as folder:
            done = run(json.loads(path.read_text("utf-8")), pathlib.Path(folder))
        path.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.name}: {len(done['cells'])} cells")


if __name__ == "__main__":
    main()
