"""Public signatures change on purpose only: they are recorded in public_signatures.txt.

After a change that is wanted: `.venv/bin/python tests/test_architecture/test_public_signatures.py`.
"""

import ast
import functools
import importlib
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDED = pathlib.Path(__file__).with_name("public_signatures.txt")
METHODS = "tfdistill.losses.methods"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@functools.cache
def parsed(module):
    """The module's statements, those of blocks such as ``if TYPE_CHECKING:`` among them."""
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    body = ast.parse(file.read_text()).body
    return [s for part in body for s in (part.body if isinstance(part, ast.If) else [part])]


def origin(package, line):
    return ".".join(filter(None, (package if line.level else "", line.module)))


def definition(module, name):
    """The statement that defines a name, in this module or where that imports it from."""
    for statement in parsed(module):
        if isinstance(statement, ast.ImportFrom):
            if any(name == (alias.asname or alias.name) for alias in statement.names):
                return definition(origin(module, statement), name)
        elif getattr(statement, "name", None) == name:
            return statement
    return None


def signature(node):
    """What a caller must know: parameters, for a class those of `__init__` and its fields."""
    if isinstance(node, FUNCTIONS):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"({ast.unparse(node.args)}){returns}"
    if not isinstance(node, ast.ClassDef):
        return ""
    parts = [ast.unparse(part) for part in (*node.bases, *node.keywords)]
    fields = [ast.unparse(line) for line in node.body if isinstance(line, ast.AnnAssign)]
    built = [signature(f) for f in node.body if getattr(f, "name", "") == "__init__"]
    return f", class of ({', '.join(parts)}): {'; '.join([*built, *fields])}"


def public_names():
    """Package -> the names in its `__all__`."""
    names = {}
    for top in ("tfdistill", "export"):
        for file in sorted((ROOT / top).rglob("__init__.py")):
            package = ".".join(file.parent.relative_to(ROOT).parts)
            for line in parsed(package):
                if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == "__all__":
                    names[package] = ast.literal_eval(line.value)
    return names


def signatures():
    """A line for each public name, also for what distillers of methods take their options from."""
    listed = public_names() | {
        METHODS: [f.name for f in parsed(METHODS) if isinstance(f, FUNCTIONS)],
        "tfdistill.distillers.method": ["MethodDistiller"],
    }
    return [
        f"{package}.{name}{signature(definition(package, name))}"
        for package, names in listed.items()
        for name in sorted(names)
    ]


def lazy_names(package):
    """The public names that a package imports late."""
    file = ROOT.joinpath(*package.split("."), "__init__.py")
    for block in ast.parse(file.read_text()).body:
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom) and origin(package, line) != package:
                    yield from (alias.name for alias in line.names)


LAZY = [package for package in public_names() if list(lazy_names(package))]


def test_public_signatures_are_those_that_were_recorded_also_of_packages_that_import_late():
    assert {"tfdistill", "tfdistill.models", "export"} <= set(LAZY)
    assert signatures() == RECORDED.read_text().splitlines()


@pytest.mark.parametrize("package", LAZY)
def test_a_package_lists_the_names_that_it_imports_late_and_no_others(package):
    module, late = importlib.import_module(package), set(lazy_names(package))
    listed = set(module.__all__)
    assert late <= listed and listed - late <= vars(module).keys()
    assert listed <= set(dir(module))


if __name__ == "__main__":
    RECORDED.write_text("".join(f"{line}\n" for line in signatures()))
