"""A class has a name of its own in the product: a search finds one thing."""

import ast
import collections
import pathlib

ROOT = pathlib.Path(__file__).parents[2]


def classes(*roots):
    """Yields name and file of every class."""
    for root in roots:
        for file in sorted(root.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_bytes(), str(file))):
                if isinstance(node, ast.ClassDef):
                    yield node.name, str(file.relative_to(root.parent))


def repeated(named):
    places = collections.defaultdict(set)
    for name, file in named:
        places[name].add(file)
    return {name: sorted(files) for name, files in places.items() if len(files) > 1}


def test_no_class_name_occurs_twice():
    assert repeated(classes(ROOT / "tfdistill", ROOT / "export")) == {}


def test_a_repeated_name_is_found(tmp_path):
    for package in ("one", "two"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "a.py").write_text("class Same:\n    pass\n")
    named = classes(tmp_path / "one", tmp_path / "two")
    assert repeated(named) == {"Same": ["one/a.py", "two/a.py"]}
