"""`scripts/audit.py` says "not run" where a source does not answer, and never "no advisory"."""

import pathlib
import runpy
import sys

import pytest

main = runpy.run_path(str(pathlib.Path(__file__).parents[2] / "scripts" / "audit.py"))["main"]
CLEAN = {"name": "a", "version": "1", "vulns": []}
FAULTY = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
SKIPPED = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("answers", "code", "line"),
    [
        ({"pypi": [CLEAN]}, 0, "pypi knows no advisory of the 1 packages"),
        ({"pypi": [CLEAN, SKIPPED], "osv": [CLEAN]}, 0, "no answer for 1 of 2 packages"),
        ({"pypi": [SKIPPED, FAULTY]}, 1, "b 2: PYSEC-1, mended in 3"),
        ({"pypi": [SKIPPED], "osv": [SKIPPED]}, 3, "not run: no source answered"),
        ({}, 3, "pypi: no connection"),
    ],
)
def test_the_exit_code_tells_no_advisory_from_no_answer(
    tmp_path, monkeypatch, capsys, answers, code, line
):
    program = tmp_path / "pip-audit"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        f"answer = {answers!r}.get(sys.argv[sys.argv.index('--vulnerability-service') + 1])\n"
        "if answer is None: sys.exit('no connection')\n"
        "with open(sys.argv[-1], 'w') as file: json.dump({'dependencies': answer}, file)\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert main() == code
    assert line in capsys.readouterr().out


def test_without_the_program_it_is_not_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main() == 3
    assert "pip-audit is not installed" in capsys.readouterr().out
