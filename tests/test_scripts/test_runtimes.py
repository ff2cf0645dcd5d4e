"""The set-up of foreign runtimes, without the network; the tests beside run what it sets up."""

import importlib.util
import json
import pathlib
import re
import subprocess
import types

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"


@pytest.fixture
def foreign(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    spec = importlib.util.spec_from_file_location("foreign", SCRIPTS / "create_runtimes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def recipe(foreign, tmp_path, monkeypatch):
    """One runtime, a file made from a lock, and how often it was made."""
    folders = []

    def make(folder):
        folders.append(folder)
        folder.mkdir()
        (folder / "tool").write_text((tmp_path / "tool.lock").read_text())

    (tmp_path / "tool.lock").write_text("1")
    monkeypatch.setattr(foreign, "LOCKS", tmp_path)
    monkeypatch.setattr(foreign, "RUNTIMES", tmp_path / "runtimes")
    monkeypatch.setattr(
        foreign, "RUNTIME_MAKERS", {"tool": foreign.Runtime(make, ("tool.lock",), 0)}
    )
    monkeypatch.setattr(foreign, "install_packages", lambda: None)
    return types.SimpleNamespace(folders=folders, lock=tmp_path / "tool.lock", make=make)


def test_a_runtime_is_made_once_and_again_when_its_lock_changes(foreign, recipe):
    assert foreign.main() == 0 and foreign.main() == 0
    assert len(recipe.folders) == 1

    recipe.lock.write_text("2")

    assert foreign.main() == 0
    assert len(recipe.folders) == 2
    assert (recipe.folders[0] / "tool").read_text() == "2"


def test_an_interrupted_set_up_starts_over(foreign, recipe, monkeypatch):
    def interrupted(folder):
        folder.mkdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(foreign, "RUNTIME_MAKERS", {"tool": foreign.Runtime(interrupted, (), 0)})
        assert foreign.main() == 130
    assert not foreign.is_current("tool")

    assert foreign.main() == 0
    assert foreign.is_current("tool") and (recipe.folders[0] / "tool").is_file()


def test_too_little_disk_is_said_before_the_work(foreign, recipe, monkeypatch, capsys):
    large = foreign.Runtime(recipe.make, ("tool.lock",), 10**18)
    monkeypatch.setattr(foreign, "RUNTIME_MAKERS", {"tool": large})

    assert foreign.main() == 1
    assert recipe.folders == []
    assert "expected 1000000000.0 GB free" in capsys.readouterr().err


def test_what_is_downloaded_lies_beside_the_runtimes_and_goes(foreign, recipe, monkeypatch):
    def downloading(folder):
        foreign.run("bash", "-c", "echo much > $TMPDIR/wheel")
        assert (foreign.RUNTIMES / foreign.TEMPORARY / "wheel").is_file()
        recipe.make(folder)

    tool = foreign.Runtime(downloading, ("tool.lock",), 0)
    monkeypatch.setattr(foreign, "RUNTIME_MAKERS", {"tool": tool})

    assert foreign.main() == 0
    assert sorted(path.name for path in foreign.RUNTIMES.iterdir()) == ["lock", "tool"]


def test_of_the_newest_only_what_the_environment_lacks_is_installed(foreign, tmp_path, monkeypatch):
    both = "numpy==2 ; python_version > '3' \\\n    --hash=sha256:1\n"
    older, newer = (f"torch=={i} \\\n    --hash=sha256:{i}\n" for i in "56")
    (tmp_path / "requirements.lock").write_text(f"# A lock.\n{both}{older}")
    (tmp_path / "newest.lock").write_text(f"# A lock.\n{both}{newer}")
    monkeypatch.setattr(foreign, "LOCKS", tmp_path)
    monkeypatch.setattr(foreign, "VENV_LOCK", tmp_path / "requirements.lock")
    site = tmp_path / "newest" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    commands = []
    monkeypatch.setattr(foreign, "run", lambda *command: commands.append(command))

    foreign.newest(tmp_path / "newest")

    assert pathlib.Path(commands[-1][-1]).read_text() == newer
    (added,) = site.glob("*.pth")
    assert added.read_text().strip() == str(pathlib.Path(pytest.__file__).parents[1])


def test_a_failing_command_is_told_with_its_last_words(foreign, recipe, monkeypatch, capsys):
    def failing(folder):
        foreign.run("bash", "-c", "echo no room >&2; exit 3")

    monkeypatch.setattr(foreign, "RUNTIME_MAKERS", {"tool": foreign.Runtime(failing, (), 0)})

    assert foreign.main() == 1
    said = capsys.readouterr().err
    assert "no room" in said and "exit code 3" in said


def test_missing_packages_without_rights_are_named_with_the_command(foreign, monkeypatch):
    monkeypatch.setattr(foreign, "PACKAGES", {"chromium": lambda: None, "there": lambda: True})
    monkeypatch.setattr(foreign.os, "geteuid", lambda: 1000)
    refused = subprocess.CompletedProcess([], 1)
    monkeypatch.setattr(foreign.subprocess, "run", lambda *_, **__: refused)

    with pytest.raises(
        foreign.SetupError, match=r"missing: chromium\. Run as root: apt-get .*install"
    ):
        foreign.install_packages()


def test_every_locked_package_has_a_checksum_and_no_address():
    locked = json.loads((SCRIPTS / "foreign" / "package-lock.json").read_text())["packages"]
    dependencies = json.loads((SCRIPTS / "foreign" / "package.json").read_text())["dependencies"]

    packages = {name: entry for name, entry in locked.items() if name}
    assert {f"node_modules/{name}" for name in dependencies} <= packages.keys()
    assert all(entry["integrity"].startswith("sha512-") for entry in packages.values())
    for name in ("package-lock.json", "mediapipe.lock", "arm64.lock"):
        assert "://" not in (SCRIPTS / "foreign" / name).read_text()


def test_those_named_are_made_and_others_are_refused(foreign, recipe, monkeypatch, capsys):
    both = {name: foreign.Runtime(recipe.make, ("tool.lock",), 0) for name in ("tool", "other")}
    monkeypatch.setattr(foreign, "RUNTIME_MAKERS", both)

    assert foreign.main("all") == 1
    assert "expected some of tool, other, received 'all'" in capsys.readouterr().err
    assert foreign.main("other") == 0
    assert [folder.name for folder in recipe.folders] == ["other"]


def test_the_slow_tests_name_all_runtimes_but_that_of_the_thorough_ones(foreign):
    (line,) = re.findall(r'(?m)^runtimes="scripts/runtimes (.+?)"', (SCRIPTS / "test").read_text())
    assert {*line.split(), "newest"} == set(foreign.RUNTIME_MAKERS)
