"""Data flows one way: who may import whom, and which distributions are used."""

import ast
import functools
import importlib.metadata
import pathlib
import re
import subprocess
import sys

import pytest
from reached import file_of, modules_of
from test_architecture.trees import tree_of

ROOT = pathlib.Path(__file__).parents[2]

# A module may import lower ranks, never its own or a higher one. A package is a module or a package
# directly below `tfdistill`, or the package `export`.
RANKS = {
    "_version": 0,
    "errors": 0,
    "lazy_exports": 0,
    "io": 1,
    "tasks": 2,
    "tokenization": 4,
    "manifest": 3,
    "config": 4,
    "results": 4,
    "data": 5,
    "tflite": 5,
    "analysis": 6,
    "benchmark": 6,
    "models": 6,
    "predictor": 6,
    "losses": 7,
    "report": 7,
    "weights": 7,
    "augmentation": 8,
    "compress": 8,
    "distillers": 8,
    "pruning": 8,
    "export": 9,
    "training": 9,
    "budget": 10,
    "run": 11,
    "commands": 12,
    "cli": 13,
    "__main__": 14,
    "__init__": 14,  # tfdistill itself: the list of public names
}
# Inside `export` too a package is a folder, and imports only those before it; `export/__init__.py`
# hands on what is public and stands above them all.
EXPORT_PACKAGES = ("model", "file", "conversion", "checking", "targets", "trials")
FOUNDATION = {package for package, rank in RANKS.items() if rank <= RANKS["tflite"]} - {"data"}
ONLY = {
    "benchmark": FOUNDATION,
    "export": FOUNDATION | {"analysis", "data", "models", "compress"},
}
FIRST_PARTY = ("tfdistill", "export")


def product_files(root: pathlib.Path) -> list[pathlib.Path]:
    return sorted(file for name in FIRST_PARTY for file in (root / name).rglob("*.py"))


@functools.cache
def imported_modules(file: pathlib.Path, root: pathlib.Path) -> list[tuple[int, str]]:
    """Lists (line, absolute dotted name) of every import, also of those inside functions."""
    return list(modules_of(tree_of(file), file.relative_to(root).parent.parts))


def package_of(module: str, root: pathlib.Path) -> str:
    top, *rest = module.split(".")
    if top == "export":
        return "export"
    if rest and any((root / top / name).exists() for name in (rest[0], f"{rest[0]}.py")):
        return rest[0]
    return "__init__"


def rank_faults(root: pathlib.Path) -> list[str]:
    faults = []
    for file in product_files(root):
        where = file.relative_to(root)
        here = package_of(".".join(where.with_suffix("").parts), root)
        if here not in RANKS:
            faults.append(f"{where}: the package {here!r} has no rank")
            continue
        if here == "__init__":
            continue
        for line, module in imported_modules(file, root):
            if module.split(".")[0] not in FIRST_PARTY:
                continue
            there = package_of(module, root)
            if there == here:
                continue
            if RANKS.get(there, 99) >= RANKS[here] or there not in ONLY.get(here, RANKS):
                faults.append(f"{where}:{line}: {here} may not import {there} ({module})")
    return faults


def export_faults(root: pathlib.Path) -> list[str]:
    """Lists absolute imports inside `export`, and what breaks the order of its packages."""
    faults = []
    for file in sorted((root / "export").rglob("*.py")):
        where = file.relative_to(root)
        source = file.read_text("utf-8")
        for line, text in enumerate(source.splitlines(), start=1):
            if re.match(r"\s*(from|import) export\b", text):
                faults.append(f"{where}:{line}: siblings are imported relatively")
        if where.parts[1:] == ("__init__.py",):
            continue
        here = where.parts[1]
        if here not in EXPORT_PACKAGES:
            faults.append(f"{where}: expected one of the packages {', '.join(EXPORT_PACKAGES)}")
            continue
        open_to = EXPORT_PACKAGES[: EXPORT_PACKAGES.index(here) + 1]
        for line, module in imported_modules(file, root):
            top, *rest = module.split(".")
            if top == "export" and rest[0] not in open_to:
                faults.append(f"{where}:{line}: {here} may not import {rest[0]} ({module})")
    return faults


def circles(root: pathlib.Path) -> set[tuple[str, ...]]:
    """Finds files that import each other, by whatever way round; for types alone counts too."""
    imports = {
        file: {file_of(module, root) for _, module in imported_modules(file, root)} - {file, None}
        for file in product_files(root)
    }
    reached = {}
    for file in imports:
        seen, waiting = set(), [file]
        while waiting:
            new = imports[waiting.pop()] - seen
            seen |= new
            waiting += new
        reached[file] = seen
    return {
        tuple(str(b.relative_to(root)) for b in imports if b in reached[a] and a in reached[b])
        for a in imports
        if a in reached[a]
    }


def third_party(root: pathlib.Path) -> dict[str, list[str]]:
    """Maps every imported top-level name outside the product to where it is imported."""
    places: dict[str, list[str]] = {}
    for file in product_files(root):
        for line, module in imported_modules(file, root):
            top = module.split(".")[0]
            if top not in FIRST_PARTY and top not in sys.stdlib_module_names:
                places.setdefault(top, []).append(f"{file.relative_to(root)}:{line}")
    return places


def declared_distributions() -> set[str]:
    """Returns the normalised names in INSTALL_REQUIRES of setup.py."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "INSTALL_REQUIRES":
            return {
                re.match(r"[\w.-]+", line).group().lower() for line in ast.literal_eval(node.value)
            }
    raise AssertionError("setup.py assigns no INSTALL_REQUIRES")


def test_no_module_imports_against_the_order_or_in_a_circle():
    assert rank_faults(ROOT) == []
    assert export_faults(ROOT) == []
    assert circles(ROOT) == set()


def test_the_map_in_the_documentation_shows_the_ranks():
    page = (ROOT / "docs" / "guides" / "architecture.md").read_text("utf-8")
    page, inside = page.split("## Inside `export`")
    assert tuple(re.findall(r"^\| `(\w+)` \|", inside, re.M)) == EXPORT_PACKAGES
    shown = {
        package: int(rank)
        for rank, packages in re.findall(r"^\| (\d+) \| ([^|]+) \|", page, re.M)
        for package in re.findall(r"`(\w+)`", packages)
    }

    assert shown
    assert shown.items() <= RANKS.items()
    built = {
        package_of(".".join(f.relative_to(ROOT).with_suffix("").parts), ROOT)
        for f in product_files(ROOT)
    }
    assert built - set(shown) <= {"__init__", "__main__", "_version"}


@pytest.fixture
def written(tmp_path):
    """A tree of some packages, in which a module is written: its path and text -> the tree."""
    packages = ("models", "training", "weights", "objectives", "data", "benchmark", "io")
    for package in (*(f"tfdistill/{name}" for name in packages), "export"):
        (tmp_path / package).mkdir(parents=True)
    (tmp_path / "tfdistill" / "errors.py").touch()

    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        return tmp_path

    return write


BERT = "tfdistill/models/bert.py"


def test_keras_means_tf_keras():
    # It writes Keras 3 models, and is what everyone else would go through.
    bridge = "export/targets/keras3.py"
    keras_3 = [place for place in third_party(ROOT).get("keras", []) if bridge not in place]
    assert keras_3 == [], "import tf_keras as keras (docs/adr/0001)"


def import_names(distribution: str) -> set[str]:
    """Returns the top-level names that an installed distribution provides."""
    files = importlib.metadata.files(distribution) or []
    return {file.parts[0].removesuffix(".py") for file in files if file.suffix in (".py", ".so")}


def test_every_imported_distribution_is_declared_and_every_declared_one_is_imported():
    imported = third_party(ROOT)
    provided = {name: import_names(name) for name in declared_distributions()}

    importable = set().union(*provided.values())
    undeclared = {name: places[0] for name, places in imported.items() if name not in importable}
    unused = sorted(name for name, names in provided.items() if names.isdisjoint(imported))

    assert undeclared == {}, "add to INSTALL_REQUIRES of setup.py, then scripts/lock"
    assert unused == [], "declared in setup.py, imported nowhere"


RANKED = [
    (BERT, "from tfdistill import training", "models may not import training"),
    (BERT, "import tfdistill.training.stages", "models may not import training"),
    (BERT, "from ..training import stages", "models may not import training"),
    (BERT, "import tfdistill", "models may not import __init__"),
    (BERT, "from tfdistill import predictor", "models may not import"),
    (BERT, "def f():\n    from export import x", "models may not import export"),
    ("tfdistill/weights/a.py", "from tfdistill import losses", "weights may not import"),
    ("tfdistill/benchmark/a.py", "from tfdistill import data", "benchmark may not import data"),
    ("export/tflite.py", "from tfdistill import training", "export may not import training"),
    ("export/tflite.py", "from tfdistill.weights import hf", "export may not import weights"),
    ("tfdistill/strange.py", "import os", "'strange' has no rank"),
    (BERT, "from tfdistill import data, errors", None),
    (BERT, "from . import layers", None),
    ("tfdistill/io/files.py", "from tfdistill import errors", None),
    ("export/tflite.py", "from tfdistill import models\nfrom .signature import x", None),
]
OF_EXPORT = [
    ("export/file/a.py", "from ..conversion import b", "file may not import conversion"),
    ("export/file/a.py", "from ..conversion.b import C", "file may not import conversion"),
    ("export/model/a.py", "def f():\n    from ..file import b", "model may not import file"),
    ("export/targets/a.py", "from .. import to_tflite", "targets may not import to_tflite"),
    ("export/trials/a.py", "from export.file import b", "imported relatively"),
    ("export/a.py", "import os", "expected one of the packages"),
    ("export/tools/a.py", "import os", "expected one of the packages"),
    ("export/__init__.py", "from .trials.a import b", None),
    ("export/checking/a.py", "from . import b\nfrom .c import D", None),
    ("export/checking/a.py", "from ..model import e\nfrom tfdistill import errors", None),
]


@pytest.mark.parametrize(
    ("faults_of", "case"),
    [*((rank_faults, case) for case in RANKED), *((export_faults, case) for case in OF_EXPORT)],
)
def test_an_import_against_the_order_is_found_and_no_other(written, faults_of, case):
    name, line, fault = case
    faults = faults_of(written(name, line))
    assert len(faults) == (fault is not None)
    assert not faults or fault in faults[0]


def test_a_circle_is_found_by_whatever_way_round(tmp_path):
    folder = tmp_path / "tfdistill"
    folder.mkdir()
    (folder / "a.py").write_text("from tfdistill.b import Name")
    (folder / "b.py").write_text("def f():\n    from tfdistill import c")
    (folder / "c.py").write_text("if TYPE_CHECKING:\n    import tfdistill.a")
    (folder / "d.py").write_text("from tfdistill import a, e")

    assert circles(tmp_path) == {("tfdistill/a.py", "tfdistill/b.py", "tfdistill/c.py")}


WITHOUT_TENSORFLOW = (
    *("tfdistill", "tfdistill.benchmark.host", "tfdistill.cli", "tfdistill.config"),
    *("tfdistill.manifest", "tfdistill.tflite.editing", "tfdistill.tflite.xnnpack"),
    *("tfdistill.report", "export"),
)


def test_importing_them_does_not_load_tensorflow():
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    heavy = {'tensorflow', 'tf_keras', 'keras', 'transformers'} & sys.modules.keys()\n"
        "    assert not heavy, f'{name} imports {heavy}'\n"
    )
    command = [sys.executable, "-c", program, *WITHOUT_TENSORFLOW]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
