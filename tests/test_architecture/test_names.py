"""A class has a name of its own: a search finds one thing; a value is named by its content."""

import ast
import collections
import pathlib
import re

import pytest
from test_architecture.trees import tree_of

ROOT = pathlib.Path(__file__).parents[2]
# What says nothing of a value: `signatures`, `quantized_file`, `plan` would.
EMPTY_WORDS = {
    *("found", "own", "known", "given", "kept", "made", "asked", "mine", "theirs"),
}
OCCURRENCE = re.compile(rf"\b({'|'.join(sorted(EMPTY_WORDS))})\b")


def classes(*roots):
    """Yields name and file of every class."""
    for root in roots:
        for file in sorted(root.rglob("*.py")):
            for node in ast.walk(tree_of(file)):
                if isinstance(node, ast.ClassDef):
                    yield node.name, str(file.relative_to(root.parent))


def repeated(named):
    places = collections.defaultdict(set)
    for name, file in named:
        places[name].add(file)
    return {name: sorted(files) for name, files in places.items() if len(files) > 1}


def test_no_class_name_occurs_twice_and_a_repeated_one_is_found(tmp_path):
    assert repeated(classes(ROOT / "tfdistill", ROOT / "export")) == {}
    for package in ("one", "two"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "a.py").write_text("class Same:\n    pass\n")
    named = classes(tmp_path / "one", tmp_path / "two")
    assert repeated(named) == {"Same": ["one/a.py", "two/a.py"]}


def names_of(node):
    """Yields the names that a node gives to something."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield node.asname or ""
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        yield node.name or ""


def empty_names(root):
    """Yields file, line and name of each thing that an empty word names, modules too."""
    for file in sorted(root.rglob("*.py")):
        place = file.relative_to(root.parent)
        if file.stem.removeprefix("test_") in EMPTY_WORDS:
            yield f"{place}: the module"
        text = file.read_text("utf-8")
        if not OCCURRENCE.search(text):
            continue  # most files need no tree
        for node in ast.walk(tree_of(file)):
            for name in EMPTY_WORDS.intersection(names_of(node)):
                yield f"{place}:{node.lineno}: {name}"


@pytest.mark.parametrize("folder", ["tfdistill", "export", "tests", "scripts"])
def test_a_value_is_named_by_its_content(folder):
    assert list(empty_names(ROOT / folder)) == []


@pytest.mark.parametrize(
    "line",
    [
        "found = 1",
        "def f(known): pass",
        "def kept(): pass",
        "class theirs: pass",
        "x = lambda asked: 1",
        "y.own = 2",
        "[mine for mine in x]",
        "import x as given",
        "(made := 3)",
        "try: pass\nexcept ValueError as found: pass",
        "with f() as kept: pass",
    ],
)
def test_an_empty_name_is_noticed(tmp_path, line):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "a.py").write_text(line)
    assert len(list(empty_names(tmp_path / "package"))) == 1
