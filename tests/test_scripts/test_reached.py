"""Which slow tests CI runs: those that a change reaches, and the spine."""

import itertools
import pathlib
import shutil
import subprocess
import sys

import pytest
import reached

ROOT = pathlib.Path(__file__).parents[2]
FILES = {
    "tfdistill/__init__.py": "if TYPE_CHECKING:\n    from tfdistill.losses import hidden\n",
    "tfdistill/__main__.py": "from tfdistill import cli",
    "tfdistill/cli.py": 'import_module(f"tfdistill.commands.{verb}")',
    "tfdistill/commands/__init__.py": "",
    "tfdistill/commands/predict.py": "def f():\n    from tfdistill import losses",
    "tfdistill/losses/__init__.py": "if TYPE_CHECKING:\n    from .hidden import hidden_mse",
    "tfdistill/losses/hidden.py": "from tfdistill import __version__",
    "tfdistill/report/__init__.py": "from . import render",
    "tfdistill/report/render.py": "",
    "export/__init__.py": "",
    "export/targets/__init__.py": "",
    "export/targets/tflite.py": "from ..losses import x",
    "scripts/demo": "",
    "scripts/sub/program.py": "import tfdistill.report",
    "tests/conftest.py": "",
    "tests/toys.py": "from tfdistill.losses.hidden import hidden_mse",
    "tests/test_a/conftest.py": "",
    "tests/test_a/page.mjs": "",
    "tests/test_a/test_export.py": 'monkeypatch.setattr("export.targets.tflite.name", 1)',
    "tests/test_b/test_toys.py": "import toys",
    "tests/test_b/test_program.py": 'run([ROOT / "scripts" / "sub" / "program.py"])',
    "tests/test_b/test_command.py": 'run([sys.executable, "-m", "tfdistill"])',
    "tests/test_b/test_pages.py": 'names = (ROOT / "docs").glob("*.md"), ROOT / "README.md"',
    "README.md": "",
    "docs/guides/export.md": "",
    "setup.py": "",
}
TESTS = {pathlib.PurePath(path).name: path for path in FILES if "/test_" in path}
TESTS = {name: path for name, path in TESTS.items() if name.startswith("test_")}


@pytest.fixture
def checkout(tmp_path):
    """A commit that .ci/nightly names, and one more."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(tmp_path), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "green")
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "nightly").write_text(git("rev-parse", "HEAD") + "\n")
    git("add", ".")
    git("commit", "--quiet", "--message", "name it")
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ("tfdistill/losses/hidden.py", ["test_command.py", "test_toys.py"]),
        ("tfdistill/losses/__init__.py", ["test_command.py", "test_toys.py"]),
        ("tfdistill/losses/weights.json", ["test_command.py", "test_toys.py"]),
        ("tfdistill/commands/predict.py", ["test_command.py"]),
        ("tfdistill/report/render.py", ["test_program.py"]),
        ("tfdistill/report/page.html.j2", ["test_program.py"]),
        ("export/targets/tflite.py", ["test_export.py"]),
        ("scripts/sub/program.py", ["test_program.py"]),
        ("scripts/demo", []),
        ("tests/toys.py", ["test_toys.py"]),
        ("tests/test_a/conftest.py", ["test_export.py"]),
        ("tests/test_a/page.mjs", ["test_export.py"]),
        ("tests/test_b/test_toys.py", ["test_toys.py"]),
        ("docs/guides/export.md", ["test_pages.py"]),
        ("README.md", ["test_pages.py"]),
        (".ci/nightly", []),
        ("setup.py", sorted(TESTS)),
        ("scripts/foreign/web.lock", sorted(TESTS)),
        ("tests/conftest.py", sorted(TESTS)),
    ],
)
def test_a_change_reaches_the_tests_that_import_it(checkout, changed, names):
    (checkout / changed).parent.mkdir(exist_ok=True)
    with open(checkout / changed, "a") as file:
        file.write("\n")  # .ci/nightly still names its commit
    assert reached.reached(checkout) == sorted(TESTS[name] for name in names)


def test_a_module_that_is_gone_reaches_the_tests_that_changed_with_it(checkout):
    (checkout / "tfdistill/losses/hidden.py").unlink()
    (checkout / "tests/toys.py").write_text("from tfdistill.report import render")
    assert reached.reached(checkout) == [TESTS["test_toys.py"]]


@pytest.mark.parametrize("commit", ["", "0" * 40, "no commit"])
def test_without_a_commit_that_is_here_all_are_reached(checkout, commit):
    assert reached.reached(checkout) == []
    (checkout / reached.NIGHTLY).write_text(commit)
    assert reached.reached(checkout) == sorted(TESTS.values())


def test_every_module_of_the_product_reaches_a_test():
    """A module that the graph loses would never be tested slowly again."""
    imports = reached.Imports()
    imported = {file for file in imports.importers if file.name.startswith("test_")}
    size = 0
    while size < (size := len(imported)):
        imported |= {file for file, others in imports.importers.items() if others & imported}
    modules = {file for top in reached.PRODUCT for file in (ROOT / top).rglob("*.py")}
    packages = {file for file in modules if file.name == "__init__.py"}  # reach by their modules
    assert {str(file) for file in modules - packages - imported} == set()


def collected(folder, *options):
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-W", "ignore", *options], cwd=folder, capture_output=True, text=True
    )
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture
def marked(tmp_path):
    """Two files with a quick, a slow and a spine test each."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    slow, spine = "@pytest.mark.slow\ndef", "@pytest.mark.spine\n@pytest.mark.slow\ndef"
    tests = f"{slow} test_slow(): ...\n{spine} test_spine(): ...\ndef test_quick(): ...\n"
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text(f"import pytest\n{tests}")
    return tmp_path


def test_of_the_slow_tests_those_of_the_list_and_the_spine_run(marked):
    (marked / "list").write_text("test_two.py\n")
    chosen = collected(marked, "--slow-of", "list")
    assert chosen == [
        *("test_one.py::test_spine", "test_one.py::test_quick"),
        *("test_two.py::test_slow", "test_two.py::test_spine", "test_two.py::test_quick"),
    ]


def test_when_their_time_is_up_slow_tests_are_skipped_by_name_and_the_spine_runs(marked):
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-W", "ignore", "--slow-minutes", "0"]
    done = subprocess.run(command, cwd=marked, capture_output=True, text=True)
    assert "4 passed, 2 skipped" in done.stdout
    assert "0 minutes for slow tests are over: scripts/nightly runs it" in done.stdout


def test_a_seed_decides_the_order_of_files_and_tests(marked):
    orders = [collected(marked, "--shuffle", str(seed)) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) and len(orders[0]) == 6
    for order in orders:  # files stay whole: what a module shares is made once
        names = [line.split("::")[0] for line in order]
        assert sum(a != b for a, b in itertools.pairwise(names)) == 1
