"""The set-up is quick when nothing has changed, and safe when it is killed or started twice."""

import fcntl
import importlib.util
import os
import pathlib
import subprocess
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """scripts/create_venv.py on a copy of its sources, with commands that only leave a trace."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    spec = importlib.util.spec_from_file_location(
        "create_venv", ROOT / "scripts" / "create_venv.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in module.SOURCES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    for name in ("VENV", "PYTHON", "UV", "STAMP", "UNFINISHED"):
        moved = tmp_path / getattr(module, name).relative_to(module.ROOT)
        monkeypatch.setattr(module, name, moved)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "NEEDED_MODULES", ())
    monkeypatch.setattr(module, "NEEDED_BYTES", 0)
    module.commands = []

    def run(command, variables):
        module.commands.append(command)
        if command[1:3] == ["-m", "venv"]:
            module.PYTHON.parent.mkdir()
            module.PYTHON.touch()

    monkeypatch.setattr(module, "run", run)
    # There is no pip in that environment to ask.
    monkeypatch.setattr(module.setting_up, "for_uv", lambda python, variables: variables)
    return module


def test_another_system_than_linux_is_refused_in_one_line_with_the_way_out(tmp_path):
    uname = tmp_path / "uname"
    uname.write_text("#!/bin/sh\necho Darwin\n")
    uname.chmod(0o755)
    # Without the refusal, a Python that is not there ends the script.
    variables = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHON": "/nowhere/python"}
    command = [str(ROOT / "scripts" / "setup")]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)

    (line,) = done.stderr.splitlines()
    assert done.returncode == 1
    assert "received Darwin" in line and "container" in line


def made_anew(module) -> bool:
    return any(command[1:3] == ["-m", "venv"] for command in module.commands)


def test_the_second_run_does_nothing(setup):
    assert setup.main() == 0
    assert made_anew(setup)
    setup.commands.clear()

    assert setup.main() == 0
    assert setup.commands == []


@pytest.mark.parametrize("name", ["requirements.lock", "setup.py", "requirements-build.lock"])
def test_a_changed_source_updates_without_starting_over(setup, name):
    setup.main()
    setup.commands.clear()
    (setup.ROOT / name).write_text("changed")

    assert setup.main() == 0
    assert setup.commands
    assert not made_anew(setup)


@pytest.mark.parametrize(("updates", "killed_at"), [(False, 1), (False, 2), (False, 4), (True, 1)])
def test_a_run_or_an_update_that_was_killed_is_started_over(setup, monkeypatch, updates, killed_at):
    whole = setup.run
    if updates:
        assert setup.main() == 0
        (setup.ROOT / "requirements.lock").write_text("changed")
        setup.commands.clear()

    def killed(command, variables):
        if len(setup.commands) + 1 == killed_at:
            raise KeyboardInterrupt
        whole(command, variables)

    monkeypatch.setattr(setup, "run", killed)
    assert setup.main() == 130
    (setup.VENV / "half-installed").touch()
    assert not setup.is_current()

    setup.commands.clear()
    monkeypatch.setattr(setup, "run", whole)
    assert setup.main() == 0
    assert made_anew(setup)
    assert not (setup.VENV / "half-installed").exists()
    assert setup.is_current()


def test_an_environment_that_was_made_by_hand_is_kept(setup):
    setup.PYTHON.parent.mkdir(parents=True)
    setup.PYTHON.touch()
    (setup.VENV / "mine").touch()

    assert setup.main() == 0
    assert not made_anew(setup)
    assert (setup.VENV / "mine").exists()


def test_of_two_at_once_one_works_and_the_other_waits(setup):
    with open(setup.ROOT / ".venv.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # another set-up is at work
        second = threading.Thread(target=setup.main)
        second.start()
        second.join(timeout=0.3)
        assert second.is_alive()
        assert setup.commands == []

        setup.PYTHON.parent.mkdir(parents=True)  # it finishes
        setup.PYTHON.touch()
        setup.STAMP.write_text(setup.fingerprint())
    second.join(timeout=10)

    assert not second.is_alive()
    assert setup.commands == []


def test_pip_is_not_led_out_of_the_environment(setup, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PIP_TARGET", "/elsewhere")
    monkeypatch.setenv("PIP_USER", "1")

    variables = setup.setting_up.environment(TMPDIR="/temporary")

    assert "/elsewhere" not in variables.values()
    assert variables["TMPDIR"] == "/temporary"
    assert variables["PIP_USER"] == "0"


def test_uv_follows_the_settings_of_pip(foreign_settings):
    variables = foreign_settings(
        "[global]\n"
        "index-url = https://mirror.example/simple\n"
        "extra-index-url =\n    https://a.example/simple\n    https://b.example/simple\n"
        "find-links =\n    /wheels\n    /more\n"
        "cert = /etc/mirror.pem\n"
        "timeout = 20\n",
        PIP_TIMEOUT="180",
        PIP_TRUSTED_HOST="mirror.example",
    )

    assert variables["UV_DEFAULT_INDEX"] == "https://mirror.example/simple"
    assert variables["UV_INDEX"] == "https://a.example/simple https://b.example/simple"
    assert variables["UV_FIND_LINKS"] == "/wheels,/more"
    assert variables["SSL_CERT_FILE"] == "/etc/mirror.pem"
    assert variables["UV_HTTP_TIMEOUT"] == "180"  # the variable, not the file
    assert variables["UV_INSECURE_HOST"] == "mirror.example"


@pytest.fixture
def foreign_settings(monkeypatch, tmp_path):
    """Returns the variables for uv under a configuration file of pip's and further variables."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import setting_up

    def read(text: str, **more: str) -> dict[str, str]:
        file = tmp_path / "pip.conf"
        file.write_text(text)
        return setting_up.for_uv(sys.executable, {"PIP_CONFIG_FILE": str(file), **more})

    return read


@pytest.mark.parametrize(
    ("name", "needed", "remedies"),
    [
        ("NEEDED_BYTES", 10**18, ["expected 1000000000.0 GB free"]),
        (
            "NEEDED_MODULES",
            ("venv", "no_such_module"),
            ["received no no_such_module", "apt install python3"],
        ),
    ],
)
def test_what_the_machine_lacks_is_said_before_the_work(
    setup, monkeypatch, capsys, name, needed, remedies
):
    monkeypatch.setattr(setup, name, needed)
    assert setup.main() == 1
    assert setup.commands == [] and not setup.VENV.exists()
    said = capsys.readouterr().err
    assert all(remedy in said for remedy in remedies)
