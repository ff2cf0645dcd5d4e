"""`scripts/release` replaces nothing and finds what it reads; before a release it is run whole."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
RELEASE = ROOT / "scripts" / "release"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    # Without a Python, a call that is not refused ends at its first environment.
    variables = {"PATH": "/usr/bin:/bin", "PYTHON": "/nowhere/python"}
    command = [str(RELEASE), *map(str, arguments)]
    return subprocess.run(command, env=variables, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["dist", "--upload"])
def test_a_folder_that_exists_and_an_unknown_option_are_refused(tmp_path, name):
    (tmp_path / "dist").mkdir()
    done = run(name if name.startswith("-") else tmp_path / name)

    assert done.returncode == 2 and done.stdout == ""
    assert "expected" in done.stderr and len(done.stderr.splitlines()) == 1
    assert list((tmp_path / "dist").iterdir()) == []


def test_the_guide_has_the_one_line_that_the_bare_environment_installs():
    page = (ROOT / "docs" / "guides" / "getting-started.md").read_text("utf-8")
    (line,) = re.findall(r"^pip install ai-edge-litert .+$", page, re.M)

    assert "pydantic" in line and "tensorflow" not in line
