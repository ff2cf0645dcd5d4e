#!/usr/bin/env python3
"""Lists the test files that the changes since the last green `scripts/nightly` reach, one a line.

    python scripts/reached.py

`.ci/nightly` names that commit. A test file is reached if it, its conftest.py or anything that they
import, directly or not, has changed. A change of the set-up reaches all, and so does a commit that
is unknown here. Imports inside functions, dotted names in strings and the names of programs count
as imports. A file that nothing imports reaches the tests that name it or its top folder.
"""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
from collections.abc import Iterable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
NIGHTLY = ".ci/nightly"
PRODUCT = ("tfdistill", "export")
# What decides how every test runs.
SET_UP = re.compile(
    r"\.ci/run|pyproject\.toml|setup\.py|requirements.*\.lock|tests/conftest\.py"
    r"|scripts/(test|setup|runtimes|foreign/.*|reached\.py|setting_up\.py|create_\w+\.py)"
)
_DOTTED = re.compile(r"(tfdistill|export)(\.\w+)+\.?")


def modules_of(tree: ast.Module, package: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yields (line, absolute dotted name) of every import, also of those inside functions."""
    package = tuple(package)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def file_of(module: str, root: pathlib.Path) -> pathlib.Path | None:
    """Returns the file that an import of a dotted name runs last, a class's name left aside."""
    path = root.joinpath(*module.split("."))
    while path != root:
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return file
        path = path.parent
    return None


class Imports:
    """Who imports whom among the Python files of a checkout.

    Attributes:
      importers: File -> the files that import it directly.
    """

    def __init__(self, root: pathlib.Path = ROOT):
        """Reads all files."""
        self._root = root
        tops = (*PRODUCT, "scripts", "tests")
        files = [file for top in tops for file in sorted((root / top).rglob("*.py"))]
        self.importers: dict[pathlib.Path, set[pathlib.Path]] = {file: set() for file in files}
        # Modules whose folder is on the path, and programs.
        self._loose: dict[str, set[pathlib.Path]] = {}
        for file in files:
            if not self._is_product(file):
                self._loose.setdefault(file.stem, set()).add(file)
        self._strings: dict[pathlib.Path, set[str]] = {}
        for file in files:
            tree = ast.parse(file.read_bytes(), str(file))
            constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
            self._strings[file] = {value for value in constants if isinstance(value, str)}
            for imported in self._imported_by(file, tree) - {file}:
                self.importers[imported].add(file)

    def _is_product(self, file: pathlib.Path) -> bool:
        return file.relative_to(self._root).parts[0] in PRODUCT

    def _imported_by(self, file: pathlib.Path, tree: ast.Module) -> set[pathlib.Path]:
        """Returns the files that a file imports, names in a string or runs."""
        root = self._root
        imported: set[pathlib.Path | None] = set()
        for _, module in modules_of(tree, file.relative_to(root).parent.parts):
            if module.split(".")[0] in PRODUCT:
                imported.add(file_of(module, root))
            else:
                imported.update(*(self._loose.get(name, ()) for name in module.split(".")))
        for text in self._strings[file]:
            if text.endswith(".py"):
                imported.update(self._loose.get(pathlib.PurePath(text).stem, ()))
                imported.add(file.parent / text)
            elif text == "tfdistill":  # the program
                imported.add(root / "tfdistill" / "__main__.py")
            elif text.endswith(".") and _DOTTED.fullmatch(text):  # f"tfdistill.commands.{verb}"
                imported.update(root.joinpath(*text.split(".")).glob("*.py"))
            elif _DOTTED.fullmatch(text):
                imported.add(file_of(text, root))
        if self._is_product(file):  # of the list of public names the version alone is imported
            imported -= {root / "tfdistill" / name for name in ("__init__.py", "__main__.py")}
        if file.name.startswith("test_"):
            imported.add(file.with_name("conftest.py"))
        return {one for one in imported if one is not None and one in self.importers}

    def that_import(self, files: Iterable[pathlib.Path]) -> set[pathlib.Path]:
        """Returns the files and all that import them, directly or not."""
        seen, waiting = set[pathlib.Path](), set(files)
        while waiting:
            file = waiting.pop()
            seen.add(file)
            waiting |= self.importers.get(file, set()) - seen
        return seen

    def that_read(self, file: pathlib.Path) -> set[pathlib.Path]:
        """Returns the modules that may read a file which nothing imports.

        In the product those of its package; elsewhere the tests beside it, and those that name it
        or its top folder.
        """
        if self._is_product(file):
            package = next(folder for folder in file.parents if any(folder.glob("*.py")))
            return {module for module in self.importers if module.parent == package}
        top = file.relative_to(self._root).parts[0]
        name = re.compile(rf"(?<![\w-]){re.escape(file.name)}(?![\w-])")
        return {
            test
            for test in self.importers
            if test.is_relative_to(self._root / "tests")
            and (
                test.parent == file.parent
                or (top not in ("tests", "scripts") and top in self._strings[test])
                or any(name.search(text) for text in self._strings[test] if len(text) < 100)
            )
        }

    def reached_tests(self, changed: Iterable[pathlib.Path]) -> set[pathlib.Path]:
        """Returns the test files that changed files reach."""
        modules: set[pathlib.Path] = set()
        for file in changed:
            if file.suffix != ".py":
                modules |= self.that_read(file)
            elif file.name == "__init__.py":  # which runs before the modules beside it
                modules.update(file.parent.glob("*.py"))
            modules.add(file)
        return {file for file in self.that_import(modules) if file.name.startswith("test_")}


def changed_files(root: pathlib.Path = ROOT) -> list[str] | None:
    """Returns what differs from the commit of the last green nightly; None where it is unknown."""

    def git(*words: str) -> list[str]:
        command = ["git", "-C", str(root), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.split("\0")

    try:
        commit = (root / NIGHTLY).read_text("utf-8").split()[0]
        changed = git("diff", "--name-only", "--no-renames", "-z", commit, "--")
        changed += git("ls-files", "--others", "--exclude-standard", "-z")
    except (OSError, IndexError, subprocess.CalledProcessError):
        return None
    return sorted(set(changed) - {"", NIGHTLY})


def reached(root: pathlib.Path = ROOT) -> list[str]:
    """Lists the test files that the changes reach, relative to the root."""
    changed = changed_files(root)
    if changed is None or any(map(SET_UP.fullmatch, changed)):
        tests = set((root / "tests").rglob("test_*.py"))
    else:
        tests = Imports(root).reached_tests(root / name for name in changed)
    return sorted(str(test.relative_to(root)) for test in tests if test.is_file())


if __name__ == "__main__":
    for test in reached():
        print(test)
