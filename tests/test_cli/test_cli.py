"""The command line: exit codes, stdout and stderr, help, errors that say what to do."""

import dataclasses
import errno
import functools
import json
import os
import subprocess
import sys

import pytest

from tfdistill import cli, config, errors, results
from tfdistill.commands import inspection
from tfdistill.commands import runs as recipe_commands

COMMANDS = [command.name for command in cli.commands()]


def test_the_commands_are_those_of_the_manual_and_loaded_by_their_names():
    assert set(COMMANDS) == {
        *("run", "recipes", "finetune", "distill", "evaluate", "export", "inspect"),
        *("benchmark", "compare", "report", "doctor", "demo", "data", "pretrain", "compress"),
        *("quickstart", "answers", "predict", "index"),
    }
    assert list(cli._VERBS) == COMMANDS
    for verb in COMMANDS:
        assert verb in [command.name for command in cli.commands(verb)]


def test_help_imports_no_tensorflow():
    code = (
        "import sys\nfrom tfdistill import cli\ncli.parser()\n"
        "print([m for m in ('tensorflow', 'tf_keras', 'transformers') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_every_fault_of_a_recipe_is_reported_at_once(capsys):
    overrides = ["studnet.preset=x", "data.max_length=9999", "stages.joint.learning_rate=-1"]
    arguments = [part for override in overrides for part in ("--set", override)]
    assert cli.main(["recipes", "check", "demo", *arguments]) == 2
    text = capsys.readouterr().err
    assert "3 faults" in text
    assert "Did you mean 'student'?" in text
    assert "data.max_length" in text and "stages.joint.learning_rate" in text


def test_recipes_show_prints_a_recipe_that_loads_to_the_same_value(capsys, tmp_path):
    assert cli.main(["recipes", "show", "demo", "--set", "seeds=[4, 5]"]) == 0
    path = tmp_path / "shown.yaml"
    path.write_text(capsys.readouterr().out)
    assert config.load_recipe(str(path)) == config.load_recipe("demo", ["seeds=[4, 5]"])


def test_every_recipe_is_valid_and_says_how_to_run_it():
    recipes = config.recipes()
    for name, path in recipes.items():
        assert config.load_recipe(name).name == name
        text = recipe_commands.header(path.read_text(encoding="utf-8"))
        assert "tfdistill run" in text or "tfdistill demo" in text, name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--roles", "args_0=input_ids"), "--roles: expected --against FOLDER"),
        (("--labels", "l.txt"), "--labels: expected --against FOLDER"),
        (("--against", "bert", "--static"), "--static: expected no --against"),
    ],
)
def test_inspect_refuses_an_option_that_nothing_would_read(options, message, tmp_path, capsys):
    assert cli.main(["inspect", str(tmp_path / "a.tflite"), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_file_is_an_error_with_exit_code_1(capsys, tmp_path):
    assert cli.main(["inspect", str(tmp_path / "none.tflite")]) == 1
    told = capsys.readouterr().err
    assert "none.tflite" in told and "Errno" not in told


def test_a_home_folder_behind_an_equals_sign_is_expanded(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "glue").mkdir()
    overrides = ["--set=data.dir=~/glue", "--set", "stages.general.corpus=[~/a.txt, '~/b']"]
    assert cli.main(["recipes", "show", "tinybert_4l", *overrides]) == 0
    shown = capsys.readouterr().out
    for place in ("glue", "a.txt", "b"):
        assert str(tmp_path / place) in shown
    assert cli.main(["report", "~", "--out=~"]) == 2
    assert "~: no such file" in capsys.readouterr().err  # only behind "=": shells do the rest


def test_check_names_what_does_not_fit_and_what_a_recipe_still_needs(capsys):
    assert cli.main(["recipes", "check", "demo", "--set", "student.preset=nope"]) == 2
    assert "student.preset: expected a known preset, received 'nope'" in capsys.readouterr().err
    assert cli.main(["recipes", "check", "tinybert_4l"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[:2] == ["tinybert_4l: valid", "To run, it still needs:"]
    assert any(line.startswith("  - data.dir: ") for line in shown)


@pytest.mark.slow
def test_doctor_reports_every_package_as_json(capsys):
    code = cli.main(["doctor", "--json"])
    result = json.loads(capsys.readouterr().out)
    names = {check["name"] for check in result["checks"]}
    assert {"system", "python", "tensorflow", "export", "devices", "disk"} <= names
    (devices,) = [check for check in result["checks"] if check["name"] == "devices"]
    assert devices["ok"] and devices["found"].startswith(("no GPU: training uses", "training uses"))
    assert [
        check for check in result["checks"] if check["name"] == "export" and not check["ok"]
    ] == []
    assert (code == 0) is result["ok"]


def test_doctor_goes_on_where_nothing_temporary_can_be_written(monkeypatch, capsys):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/x")

    monkeypatch.setattr(inspection.files, "temporary_folder", full)
    assert cli.main(["doctor", "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    states = {check["name"]: check["found"] for check in checks}
    assert states["export"].startswith("/tmp/x: no space left on device.")
    assert {"devices", "disk"} <= states.keys()


def test_doctor_says_what_to_do_where_a_package_is_missing(monkeypatch, capsys):
    def absent(*_: object) -> None:
        raise ImportError("tensorflow: expected the package, received none")

    monkeypatch.setattr("tfdistill.models.preset", absent)
    assert cli.main(["doctor"]) == 1
    fault = "FAIL export: tensorflow: expected the package, received none"
    assert f"{fault}  (install the packages that are missing above)" in capsys.readouterr().out


@pytest.fixture
def seen(monkeypatch):
    """Ends each work of `run` where it would begin; lists what it was asked for."""
    from tfdistill import run

    calls = []

    def stand_in(name, recipe, out, **arguments):
        calls.append((name, recipe, arguments))
        raise errors.ConfigError("seen enough")

    for name in ("run_recipe", "finetune", "distill_variant"):
        monkeypatch.setattr(run, name, functools.partial(stand_in, name))
    return calls


@pytest.mark.parametrize(
    ("line", "work", "options"),
    [
        ("run demo --gpus 3", "run_recipe", {"devices": 3, "pipeline": None}),
        (
            "run demo --runner FlinkRunner --parallelism 8",
            "run_recipe",
            {"devices": None, "pipeline": ["--runner", "FlinkRunner", "--parallelism", "8"]},
        ),
        ("demo", "run_recipe", {"devices": 1}),
        ("finetune bert --task assistant --out o --gpus 3", "finetune", {"devices": 3}),
        (
            "distill --teacher t --student bert_tiny --task assistant --out o",
            "distill_variant",
            {"devices": None},
        ),
        ("compress r --methods prune --task assistant --out o", "distill_variant", {"devices": 1}),
    ],
)
def test_where_to_work_reaches_the_training(line, work, options, seen, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # a user's runs are not in the way
    assert cli.main(line.split()) == 2
    ((name, _, arguments),) = seen
    assert name == work and options.items() <= arguments.items()


def test_a_student_is_compared_by_the_metric_of_its_task(monkeypatch, tmp_path, capsys):
    from tfdistill import run

    baseline = results.BaselineResult(name="tfidf", metrics={"accuracy": 0.7, "f1": 0.9})
    record = results.SavedModel(
        name="student",
        role="student",
        metrics={"accuracy": 0.8, "f1": 0.85},
        teacher_metrics={"accuracy": 0.9, "f1": 0.95},
        model_folder="student/hf",
        primary_metric="f1",
        baselines=(baseline,),
    )
    monkeypatch.setattr(run, "distill_variant", lambda *_, **__: record)
    line = "distill --teacher t --student bert_tiny --task assistant --out"
    assert cli.main([*line.split(), str(tmp_path / "o")]) == 0
    shown = capsys.readouterr().out
    assert "compared with, f1\n  teacher: 0.9500\n  tfidf: 0.9000" in shown
    assert "WARNING: the student is below the baseline tfidf." in shown


def test_a_verb_imports_no_module_of_another():
    program = (
        "import sys; from tfdistill import cli\n"
        "assert cli.main(['recipes', 'ls']) == 0\n"
        "assert not {'tfdistill.commands.index', 'tfdistill.commands.export'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_distill_knows_the_model_before_the_fine_tuning_of_a_run(tmp_path, seen):
    teacher, before = tmp_path / "teacher", tmp_path / "bert"
    checkpoint = teacher / "teacher" / "model" / "hf"
    checkpoint.mkdir(parents=True)
    (checkpoint / "config.json").write_text('{"model_type": "bert"}')
    before.mkdir()
    saved = {
        **{"name": "command", "data": {"task": "assistant"}, "student": "tinybert_4l_312d"},
        "teacher": {"source": str(before), "finetune": {}},
        **{"stages": {"labels": {"kind": "labels"}}},
        "variants": {"student": {"stages": ["labels"]}},
    }
    (teacher / "recipe.yaml").write_text(config.dump_recipe(config.parse_recipe(saved)))
    command = ["distill", "--teacher", str(teacher), "--student", "bert_tiny"]
    command += ["--task", "assistant", "--out", str(tmp_path / "out")]
    assert cli.main(command) == 2
    before.rmdir()
    assert cli.main([*command, "--baselines", "none", "--hidden-act", "gelu_tanh"]) == 2
    recipes = [recipe for _, recipe, _ in seen]
    assert [(r.teacher.general, r.baselines, r.student.hidden_act) for r in recipes] == [
        (str(before), "cheap", None),
        (None, "none", "gelu_tanh"),
    ]


def test_a_student_and_a_teacher_below_a_baseline_are_named():
    def row(name, value, note=""):
        return results.BaselineResult(name=name, note=note, metrics={"f1": value})

    rows = [row("majority", 0.5), row("tfidf", 0.8, "words"), row("unknown", None)]
    assert recipe_commands.compared("f1", 0.85, 0.9, rows) == [
        "compared with, f1",
        "  teacher: 0.9000",
        "  majority: 0.5000",
        "  tfidf: 0.8000 (words)",
    ]
    lines = recipe_commands.compared("f1", 0.4, 0.75, rows)
    assert lines[-2:] == [
        "WARNING: the student is below the baseline majority and tfidf.",
        "WARNING: the teacher is below the baseline tfidf.",
    ]
    part = results.part_of(10, 40)
    lines = recipe_commands.compared("f1", 0.85, 0.75, rows, answered=part)
    assert lines[1] == "  teacher: 0.7500 (of the 10 of 40 examples that it answered)"
    assert not any("WARNING" in line for line in lines)
    assert results.part_of(40, 40) is results.part_of(None, 40) is None
    before = [row("frozen_teacher", 0.8, "the teacher before fine-tuning")]
    advice = recipe_commands.compared("f1", 0.85, 0.75, before)[-2:]
    assert advice[0] == "WARNING: the teacher is below the baseline frozen_teacher."
    assert "more steps" in advice[1]
    assert len(recipe_commands.compared("f1", 0.75, 0.85, before)) == 4  # only the student
    itself = [row("frozen_teacher_uncut", 0.9, results.UNCUT)]  # no alternative to a student
    assert len(recipe_commands.compared("f1", 0.4, 0.75, itself)) == 3
    assert len(recipe_commands.compared("f1", None, None, rows)) == 4
    assert recipe_commands.compared("f1", 0.4, None, []) == []


def test_a_command_without_its_package_names_it_in_one_line(monkeypatch, capsys):
    from tfdistill.commands import answers

    def lacks(args):
        raise ModuleNotFoundError("No module named 'tensorflow.lite'", name="tensorflow.lite")

    (command,) = (each for each in answers.COMMANDS if each.name == "evaluate")
    other = dataclasses.replace(command, execute=lacks)
    monkeypatch.setattr(answers, "COMMANDS", (other,))
    assert cli.main(["evaluate", "runs/x"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("tfdistill evaluate: it needs the package tensorflow,")
    assert told.count("\n") == 1 and "pip install ." in told
