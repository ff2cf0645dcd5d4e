"""No package grows: sizes.txt holds the code lines of each, and changes with them.

Code lines are those without blanks, comments and docstrings. After a change run this file: it
writes what became smaller, and what became larger only with a reason, which stays in the file:

    .venv/bin/python tests/test_architecture/test_size.py [--because "issue 53: Unigram"]
"""

import argparse
import ast
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
RECORD = pathlib.Path(__file__).with_name("sizes.txt")
MOST_CARRIERS = 12  # of tfdistill/run


def code_lines(source):
    """Counts the lines of a module that hold code."""
    code = {
        number
        for number, line in enumerate(source.split("\n"), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    for node in nodes:  # blank lines and hashes inside of a text
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno > node.lineno:
            code |= set(range(node.lineno, node.end_lineno + 1))
    for node in nodes:
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            code -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(code)


def sizes(root=ROOT):
    """Code lines by package: folders and loose files of the product, tests and scripts whole."""
    counted = {}
    for top in ("tfdistill", "export", "scripts", "tests"):
        for file in sorted((root / top).rglob("*.py")):
            inside = file.relative_to(root).parts
            whole = top in ("scripts", "tests")
            package = top if whole or len(inside) == 2 else "/".join(inside[:2])
            counted[package] = counted.get(package, 0) + code_lines(file.read_text("utf-8"))
    return counted


def recorded(text):
    """Returns the sizes of a record, and its reasons."""
    lines = [line for line in text.splitlines() if line]
    reasons = [line for line in lines if line.startswith("#")]
    return {
        name: int(count) for name, count in (line.split() for line in lines if line[0] != "#")
    }, reasons


def renewed(text, now, because):
    """Returns a record with the sizes of now; ValueError for a larger one without a reason."""
    before, reasons = recorded(text)
    larger = {name: now[name] - before.get(name, 0) for name in now}
    larger = {name: change for name, change in larger.items() if change > 0}
    if larger and not because:
        raise ValueError(f"larger: {larger}. Take as much elsewhere, or say --because.")
    if larger:
        reasons.append(f"# {', '.join(f'{name} +{n}' for name, n in larger.items())}: {because}")
    return "\n".join([*(f"{name} {count}" for name, count in now.items()), *reasons, ""])


def test_every_package_has_the_size_that_is_recorded():
    before, _ = recorded(RECORD.read_text("utf-8"))
    assert sizes() == before, "run tests/test_architecture/test_size.py"


def carriers(source):
    """Names the classes of a module that only carry values: dataclasses and NamedTuples."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        and any(
            re.search(r"\b(dataclass|NamedTuple)\b", ast.unparse(part))
            for part in (*node.decorator_list, *node.bases)
        )
    ]


def test_a_run_hands_few_kinds_of_values_on_in_dataclasses_and_named_tuples():
    by_file = {file: carriers(file.read_text()) for file in (ROOT / "tfdistill/run").glob("*.py")}
    assert sum(map(len, by_file.values())) <= MOST_CARRIERS, by_file
    source = "@dataclasses.dataclass(frozen=True)\nclass A: ...\nclass B(NamedTuple): ...\n"
    assert carriers(f"{source}class C(A): ...") == ["A", "B"]


def test_code_lines_by_package_hold_no_blanks_comments_or_docstrings(tmp_path):
    source = '"""A."""\n\n# b\nX = (\n    1,\n)  # one\n\n\ndef f():\n    """F."""\n    return X\n'
    assert code_lines(source) == 5
    assert code_lines('"""Not\na."""\nx = """two\nlines"""\n') == 2
    for name in ("tfdistill/a.py", "tfdistill/b/c.py", "export/d/e/f.py", "tests/g/h.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    assert sizes(tmp_path) == {"tfdistill": 1, "tfdistill/b": 1, "export/d": 1, "tests": 1}


def test_what_grows_needs_a_reason_and_what_shrinks_none():
    assert renewed("a 5\nb 2\n", {"a": 4}, None) == "a 4\n"
    with pytest.raises(ValueError, match=r"larger: \{'b': 1\}"):
        renewed("a 5\nb 2\n", {"a": 1, "b": 3}, None)
    text = renewed("a 5\n# a +1: before\n", {"a": 7, "c": 1}, "issue 1")
    assert text == "a 7\nc 1\n# a +1: before\n# a +2, c +1: issue 1\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--because", help="why a package may be larger: the issue, what goes for it"
    )
    old = RECORD.read_text("utf-8") if RECORD.exists() else ""
    try:
        text = renewed(old, sizes(), parser.parse_args().because)
    except ValueError as error:
        sys.exit(str(error))
    RECORD.write_text(text, "utf-8")
