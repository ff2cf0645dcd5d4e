"""Options mean one thing everywhere; groups print their help."""

import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tfdistill import cli, config, models
from tfdistill.commands import base, options
from tfdistill.io import locks


def parsers(parser):
    """Yields a parser and those of its commands and actions."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


ALL = list(parsers(cli.parser()))


def visible():
    """Yields (program, option, action) of every option that a help shows."""
    for parser in ALL:
        for action in parser._actions:
            if action.help is not argparse.SUPPRESS:
                for option in action.option_strings:
                    yield parser.prog, option, action


def test_no_option_is_spelled_in_singular_and_in_plural():
    spelled = {option for _, option, _ in visible()}
    # An index belongs to one --model; a table takes the names of --models.
    assert {option for option in spelled if f"{option}s" in spelled} == set()


def test_an_option_takes_values_of_one_type_everywhere():
    kinds = collections.defaultdict(set)
    for _, option, action in visible():
        if option not in {"--out", "--threads", "--quantize", "--delegates"}:  # one, or a list
            kinds[option].add((action.nargs, str(action.type), str(action.choices)))
    kinds.pop("--against")  # what answers are compared with: any model's folder; a run's teacher
    assert {option: kind for option, kind in kinds.items() if len(kind) > 1} == {}


def test_every_seed_has_the_same_default():
    seeds = [action for _, option, action in visible() if option == "--seed"]
    assert len(seeds) >= 6
    assert {action.default for action in seeds} == {options.SEED, None}  # None: see `export`
    assert all(action.help.endswith(f"(default: {options.SEED})") for action in seeds)


def test_the_help_of_an_option_tells_its_default():
    for program, option, action in visible():
        told = re.findall(r"\(default: ([\w.,-]+)\)$", action.help or "")
        if told and isinstance(action.default, (int, float)) and action.nargs != 0:
            assert float(told[0]) == action.default, (program, option)


@pytest.mark.parametrize("command", [[], ["recipes"], ["data"]])
def test_a_bare_program_or_group_prints_its_help(command, capsys):
    assert cli.main(command) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"usage: {' '.join(['tfdistill', *command])}")
    assert shown.err == ""


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("distil x", "Did you mean 'distill'?"),
        ("recipes sho demo", "Did you mean 'show'?"),
        ("run demo --overwite", "Did you mean '--overwrite'?"),
        ("finetune m --task t --out o --kind tokens", "Did you mean 'token'?"),
        ("run demo extra", "unknown argument 'extra'"),
    ],
)
def test_a_misspelt_word_is_refused_with_the_nearest(command, told, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(command.split())
    assert exit_.value.code == 2
    assert told in capsys.readouterr().err


def test_recipes_presets_counts_what_the_models_have(capsys):
    assert cli.main(["recipes", "presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[2:] if "  " in line} == set(models.presets())
    row = next(line for line in lines if line.startswith("tinybert_4l_312d "))
    assert row.split() == ["tinybert_4l_312d", "4", "312", "12", "14.4", "M", "57.4", "14.4"]


def test_a_copied_recipe_runs_as_the_original(tmp_path, capsys):
    target = tmp_path / "mine.yaml"
    for name in ("tinybert_4l", "tinybert_6l"):  # the second extends another
        assert cli.main(["recipes", "cp", name, str(target), "--overwrite"]) == 0
        assert config.load_recipe(str(target)) == config.load_recipe(name)
    assert cli.main(["recipes", "cp", "demo", str(target)]) == 2
    assert "Use --overwrite" in capsys.readouterr().err


@pytest.fixture
def command_of(monkeypatch):
    """Makes a function the one command, x."""

    def replace(execute):
        command = base.Command(name="x", summary="x", examples=(), execute=execute)
        monkeypatch.setattr(cli, "commands", lambda verb: [command])

    return replace


def test_quiet_prints_the_result_and_errors_only(command_of, capsys):
    def execute(args):
        print("progress", file=sys.stderr)
        print("result")
        raise cli.errors.ConfigError("wrong")

    command_of(execute)
    for arguments, progress in ((["-q", "x"], ""), (["x", "--quiet"], ""), (["x"], "progress\n")):
        assert cli.main(arguments) == 2
        assert capsys.readouterr() == ("result\n", f"{progress}tfdistill x: wrong\n")


@pytest.mark.parametrize(
    ("closed", "code", "printed", "message"),
    [
        (">&-", 1, False, "standard output: expected an open stream, received a closed one"),
        (">&- 2>&-", 1, False, ""),
        ("2>&-", 0, True, ""),
        ("<&- 2>&-", 0, True, ""),
    ],
)
def test_streams_that_the_shell_closed_are_named_or_empty(closed, code, printed, message):
    command = f'"$0" -m tfdistill recipes presets {closed}'
    done = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, text=True)
    assert (done.returncode, bool(done.stdout)) == (code, printed)
    assert message in done.stderr and bool(done.stderr) == bool(message)


def test_without_locks_is_an_option_of_every_command(monkeypatch, command_of):
    monkeypatch.setenv(locks.VARIABLE, "")
    read = []
    command_of(lambda _: read.append(os.environ[locks.VARIABLE]))
    assert cli.main(["x"]) == cli.main(["x", "--no-lock"]) == 0
    assert read == ["", "1"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(9.9, ""), (12.3, "finished in 12.3 seconds\n"), (75.2, "finished in 1:15 minutes\n")],
)
def test_a_long_command_tells_its_time(seconds, told, command_of, monkeypatch, capsys):
    clock = [100.0]
    monkeypatch.setattr(cli.time, "monotonic", lambda: clock[0])

    def execute(_):
        clock[0] += seconds

    command_of(execute)
    assert cli.main(["x"]) == 0
    assert capsys.readouterr().err == told


def test_verbose_prints_where_an_error_arose(capsys):
    assert cli.main(["-v", "run", "dmo"]) == 2
    assert "find_recipe" in capsys.readouterr().err


def test_logs_of_native_libraries_reach_no_terminal_but_crashes_do():
    program = (
        "import os, sys; from tfdistill import cli\n"
        "cli._filter_native_logs()\n"
        "os.write(2, b'INFO: Created TensorFlow Lite XNNPACK delegate for CPU.\\n')\n"
        "os.write(2, b'E0000 00:00:1.2 3 cuda.cc:1] Unable to register factory\\n')\n"
        "print('50%', end='\\r', file=sys.stderr, flush=True)\n"
        "os.write(2, b'terminate called\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert done.returncode == 0
    assert sorted(done.stderr.replace(b"\r", b"\n").splitlines()) == [b"50%", b"terminate called"]


def test_warnings_of_libraries_are_for_verbose_and_errors_for_all():
    program = (
        "import logging, sys, warnings\n"
        "from tfdistill import cli\n"
        "from tfdistill.commands import base\n"
        "def execute(args):\n"
        "    print(sys.modules['googleapiclient'])\n"  # so that TensorFlow imports none of it
        "    logging.getLogger('tensorflow').warning('retracing')\n"
        "    logging.getLogger('tensorflow').error('broken')\n"
        "    warnings.warn('You are using a Python version (3.11.7) which', FutureWarning)\n"
        "command = base.Command(name='x', summary='x', examples=(), execute=execute)\n"
        "cli.commands = lambda verb: [command]\n"
        "cli.program()\n"
    )
    for more, logged in (([], ["broken"]), (["--verbose"], ["retracing", "broken"])):
        command = [sys.executable, "-c", program, "x", *more]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr.splitlines() == logged
        assert done.stdout.splitlines() == ["None"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["export.py", "export/__init__.py"])
def test_an_export_of_yours_in_the_working_directory_does_no_harm(name, tmp_path):
    script = tmp_path / name
    script.parent.mkdir(exist_ok=True)
    script.write_text("raise SystemExit('yours')")
    environment = {"PYTHONPATH": str(base_folder()), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "tfdistill", "export", "--list"]

    def run(**more):
        return subprocess.run(
            command, cwd=tmp_path, env={**environment, **more}, capture_output=True, text=True
        )

    assert run().returncode == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script = shutil.move(tmp_path / name.split("/")[0], elsewhere)
    hidden = run(PYTHONPATH=f"{elsewhere}:{base_folder()}")
    assert hidden.returncode == 1
    assert str(script) in hidden.stderr and "belongs to tfdistill" in hidden.stderr


def base_folder():
    """The folder that holds the packages."""
    return pathlib.Path(cli.__file__).parents[1]


@pytest.mark.slow
def test_completion_knows_verbs_options_recipes_and_presets_without_tensorflow(tmp_path):
    out = tmp_path / "answer"
    program = (
        "import os, sys, atexit\n"
        "from tfdistill import cli\n"
        "os._exit = lambda code: sys.exit(code)\n"
        "try:\n    cli.main([])\n"
        "finally:\n    assert 'tensorflow' not in sys.modules\n"
    )
    for line, word in (
        ("tfdistill disti", "distill"),
        ("tfdistill run --ov", "--overwrite"),
        ("tfdistill run tinybert_4", "tinybert_4l"),
        ("tfdistill distill --student tinybert_4", "tinybert_4l_312d"),
        ("tfdistill finetune m --task ss", "sst2"),
        ("tfdistill distill --student pru", "pruned:layers="),
        ("tfdistill export m --quantize static_wi8_a", "static_wi8_ai8"),
        ("tfdistill export m --quantize int", "int8"),
        ("tfdistill export m --for g", "gpu"),
    ):
        environment = {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(out),
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
            "COMP_TYPE": "9",
            "PYTHONPATH": str(base_folder()),
        }
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert word in out.read_text().replace("\x0b", " ").split(), line


def test_answers_to_no_split_are_refused(tmp_path, capsys):
    files = ["--data-dir", str(tmp_path), "--out", str(tmp_path / "a.csv")]
    assert cli.main(["answers", "./m", "--task", "sst2", *files, "--split", " , "]) == 2
    assert "--split: expected names" in capsys.readouterr().err
