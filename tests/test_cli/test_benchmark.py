"""`tfdistill benchmark`: what it asks the backends for, what it writes, how it ends."""

import errno
import json
import pathlib
import sys
import types

import benchmark_results as fake
import pytest

from tfdistill import cli
from tfdistill.benchmark import host, measuring, result, schema
from tfdistill.benchmark.settings import Settings
from tfdistill.commands import benchmarks


@pytest.fixture(autouse=True)
def files(tmp_path_factory, monkeypatch):
    """The files that the command lines name; the backends that would open them are replaced."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("a.tflite", "b.tflite"):
        (folder / name).touch()
    monkeypatch.chdir(folder)


def a_result(name="student", *, device=fake.HOST, failures=()):
    rows = fake.repetitions(2.0, model=name)
    return result.assemble(
        kind="host" if device == fake.HOST else "phone",
        backend="litert" if device == fake.HOST else "benchmark_model",
        device=device,
        runtime=fake.RUNTIME,
        models=[fake.model_file(name)],
        measurements=rows,
        failures=failures,
        settings=Settings(),
        command=("tfdistill", "benchmark"),
        created="2026-01-01T00:00:00+00:00",
    )


@pytest.fixture
def settings_of_calls(monkeypatch):
    """Replaces the measurement on this host; lists what it was requested for."""

    class Calls(list):
        outcome = a_result()

    calls = Calls()

    def recorded(models, *, progress, **requested):
        calls.append(types.SimpleNamespace(models=models, **requested))
        if isinstance(calls.outcome, BaseException):
            raise calls.outcome
        return calls.outcome

    monkeypatch.setattr(host, "compare", recorded)
    return calls


def test_every_option_reaches_the_settings(settings_of_calls):
    options = (
        "--threads 1,2 --lengths 32,64 --delegates none,xnnpack --affinity 1 --warmup 3 --runs 7 "
        "--min-seconds 0.5 --repetitions 4 --cool-down 1.5 "
        "--timeout 9"
    )
    assert cli.main(["benchmark", "a.tflite", "b.tflite", *options.split()]) == 0
    (call,) = settings_of_calls
    assert call.models == [pathlib.Path("a.tflite"), pathlib.Path("b.tflite")]
    assert call.settings == Settings(
        threads=(1, 2),
        lengths=(32, 64),
        delegates=("none", "xnnpack"),
        affinity="1",
        warmup=3,
        runs=7,
        min_seconds=0.5,
        repetitions=4,
        cool_down_seconds=1.5,
        timeout_seconds=9,
    )
    assert call.examples == ()


def test_a_run_folder_stands_for_its_export(settings_of_calls, tmp_path):
    for folder in ("run/export", "plain"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "model.json").write_text("{}")
    assert cli.main(["benchmark", str(tmp_path / "run"), str(tmp_path / "plain")]) == 0
    assert settings_of_calls[0].models == [tmp_path / "run" / "export", tmp_path / "plain"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--serial x", "--serial: expected --device adb"),
        ("--binary x", "--binary: expected --device adb"),
        ("--data-dir x --limit 3", "--limit: expected --task"),
        ("--runs 0", "runs: expected at least 1"),
        ("--repetitions 0 --warmup -1", "warmup: expected at least 0"),
        ("--delegates tpu", "delegates: expected some of"),
        ("--delegates gpu", "--device adb"),
        ("--affinity cores", "hexadecimal mask"),
        ("--min-seconds nan", "min_seconds: expected"),
        *(("--serial x --data-dir y", named) for named in ("--serial", "--data-dir")),  # at once
    ],
)
def test_misuse_exits_with_2_before_anything_is_measured(
    settings_of_calls, options, complaint, capsys
):
    assert cli.main(["benchmark", "a.tflite", *options.split()]) == 2
    assert complaint in capsys.readouterr().err
    assert not settings_of_calls


@pytest.mark.parametrize(
    "options",
    [
        ["a.tflite", "--threads", "0"],
        ["a.tflite", "--lengths", "a"],
        ["a.tflite", "--device", "ios"],
        ["a.tflite", "--device", "adb", "--app"],  # an option of earlier versions
        [],
    ],
)
def test_what_does_not_parse_is_misuse(phones, options):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["benchmark", *options])
    assert stopped.value.code == 2


def test_the_result_is_written_and_shown(settings_of_calls, tmp_path, capsys):
    out = tmp_path / "deep" / "latency.json"
    assert cli.main(["benchmark", "a.tflite", "--out", str(out)]) == 0
    assert result.read_result(out) == settings_of_calls.outcome
    assert "student" in capsys.readouterr().out
    assert [path.name for path in out.parent.iterdir()] == ["latency.json"]
    assert cli.main(["benchmark", "a.tflite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == settings_of_calls.outcome.model_dump(mode="json")


def test_an_earlier_result_is_kept_unless_it_may_be_replaced(settings_of_calls, tmp_path, capsys):
    out = tmp_path / "latency.json"
    out.write_text("mine")
    assert cli.main(["benchmark", "a.tflite", "--out", str(out)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert out.read_text() == "mine" and not settings_of_calls
    assert cli.main(["benchmark", "a.tflite", "--out", str(out), "--overwrite"]) == 0
    assert result.read_result(out) == settings_of_calls.outcome


@pytest.mark.parametrize(
    ("place", "complaint"),
    [("folder", "Name a file in it"), ("folder/file/x.json", "a path that can be written")],
)
def test_a_place_that_cannot_be_written_is_found_before_measuring(
    settings_of_calls, tmp_path, capsys, place, complaint
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    assert cli.main(["benchmark", "a.tflite", "--out", str(tmp_path / place), "--overwrite"]) == 2
    assert complaint in capsys.readouterr().err
    assert not settings_of_calls


def test_a_disk_that_fills_up_meanwhile_does_not_take_the_figures_along(
    settings_of_calls, tmp_path, monkeypatch, capsys
):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tfdistill.benchmark.write_result", full, raising=False)
    assert cli.main(["benchmark", "a.tflite", "--out", str(tmp_path / "x.json")]) == 1
    said = capsys.readouterr()
    assert "student" in said.out and "no space left" in said.err


def test_an_interruption_writes_and_shows_what_is_finished_and_exits_with_130(
    settings_of_calls, tmp_path, capsys
):
    partial = a_result(failures=[measuring.INTERRUPTED])
    settings_of_calls.outcome = measuring.BenchmarkInterrupted([partial])
    out = tmp_path / "latency.json"
    assert cli.main(["benchmark", "a.tflite", "--out", str(out)]) == 130
    assert result.read_result(out) == partial
    shown = capsys.readouterr().out
    assert "student" in shown and "NOT MEASURED: the rest: interrupted" in shown
    settings_of_calls.outcome = measuring.BenchmarkInterrupted([])
    assert cli.main(["benchmark", "a.tflite", "--out", str(tmp_path / "none.json")]) == 130
    assert not (tmp_path / "none.json").exists() and capsys.readouterr().out == ""


@pytest.fixture
def phones(monkeypatch):
    """Replaces the measurement on phones; lists its options."""
    from tfdistill.benchmark import adb

    other = fake.PHONE.model_copy(update={"id": "ba9876543210"})
    calls = []

    def measure(models, **options):
        calls.append((models, options))
        devices = [fake.PHONE, other] if len(options["serials"]) > 1 else [fake.PHONE]
        return [a_result(device=device) for device in devices]

    monkeypatch.setattr(adb, "measure", measure, raising=False)
    return calls


def test_phones_are_measured_with_the_binary_that_is_named(phones):
    command = ["benchmark", "a.tflite", "--device", "adb", "--serial", "S1", "--delegates", "gpu"]
    assert cli.main([*command, "--binary", "bm"]) == 0
    ((models, options),) = phones
    assert models == [pathlib.Path("a.tflite")]
    assert options["serials"] == ("S1",)
    assert options["binary"] == "bm"
    assert options["settings"].delegates == ("gpu",)
    assert (options["examples"], options["metric"]) == ((), None)


def test_each_of_several_phones_gets_a_file_of_its_own(phones, tmp_path, capsys):
    out = tmp_path / "latency.json"
    command = ["benchmark", "a.tflite", "--device", "adb", "--out", str(out), "--json"]
    both = ["--serial", "S1", "--serial", "S2"]
    assert cli.main([*command, *both]) == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["latency-0123456789ab.json", "latency-ba9876543210.json"]
    shown = json.loads(capsys.readouterr().out)["results"]
    assert [value["device"]["id"] for value in shown] == ["0123456789ab", "ba9876543210"]
    assert cli.main([*command, *both]) == 2  # they are there already
    assert cli.main([*command, "--serial", "S1"]) == 0
    assert out.is_file()


@pytest.mark.parametrize("told", [None, "", "../../etc/passwd", "0123456789AB"])
def test_a_device_that_told_no_id_has_a_name_that_is_safe(tmp_path, told):
    out = tmp_path / "a.json"
    ids = [told, "0123456789ab", told]
    paths = benchmarks.choose_paths(out, ids, several=True, overwrite=False)
    names = ["a-unknown.json", "a-0123456789ab.json", "a-unknown-1.json"]
    assert paths == [tmp_path / name for name in names]
    for path in paths:
        path.write_text("mine")
        assert path in benchmarks.earlier_results(out, several=True)
    assert benchmarks.earlier_results(out, several=False) == []


def test_what_another_benchmark_wrote_meanwhile_is_not_replaced(
    settings_of_calls, tmp_path, capsys
):
    """It takes minutes to hours from the look at --out to the end."""
    out = tmp_path / "latency.json"
    earlier = a_result("mine")

    def compare(models, **options):
        result.write_result(earlier, out)
        return a_result("late")

    settings_of_calls.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "compare", compare)
        assert cli.main(["benchmark", "a.tflite", "--out", str(out)]) == 0
    assert result.read_result(out) == earlier
    assert result.read_result(tmp_path / "latency-1.json").models[0].name == "late"
    assert "latency-1.json" in capsys.readouterr().err


def test_the_terminal_names_serials_and_files_do_not(monkeypatch, tmp_path, capsys):
    from tfdistill.benchmark import adb

    lost = schema.Failure(what="the rest on 0123456789ab", error="gone")
    other = schema.Failure(what="the rest on 0123456789ab-1", error="gone")

    def measure(models, *, shown, **options):
        shown.update({"0123456789ab": "R5CT1234", "0123456789ab-1": "R5CT9"})
        return [a_result(device=fake.PHONE, failures=[lost, other])]

    monkeypatch.setattr(adb, "measure", measure, raising=False)
    out = tmp_path / "phone.json"
    command = ["benchmark", "a.tflite", "--device", "adb", "--serial", "R5CT1234"]
    assert cli.main([*command, "--out", str(out)]) == 1
    text = capsys.readouterr().out
    assert "the rest on R5CT1234: gone" in text and "the rest on R5CT9: gone" in text
    assert "R5CT1234" not in out.read_text()
    assert cli.main([*command, "--json"]) == 1
    assert "R5CT1234" not in capsys.readouterr().out


def test_a_task_s_examples_are_fed_and_judged(settings_of_calls, phones, monkeypatch, tmp_path):
    from tfdistill.benchmark.inputs import LabelledExample

    seen = []
    rows = types.SimpleNamespace(examples=(LabelledExample((1, 2), (0, 0), label=1),), metric=len)

    def labelled_rows(models, settings):
        seen.append(settings)
        return rows

    stand_in = types.SimpleNamespace(labelled_rows=labelled_rows)
    package = types.SimpleNamespace(labelled=stand_in)  # the real one takes seconds to import
    monkeypatch.setitem(sys.modules, "tfdistill.run", package)
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\ngood\t1\n")
    task = ["--task", "sst2", "--data-dir", str(tmp_path), "--limit", "5"]
    assert cli.main(["benchmark", "a.tflite", *task]) == 0
    assert settings_of_calls[0].examples == rows.examples
    assert cli.main(["benchmark", "a.tflite", "--device", "adb", "--binary", "b", *task]) == 0
    options = phones[0][1]
    assert (options["examples"], options["metric"]) == (rows.examples, len)
    assert seen[0] == seen[1]
    named = {key: value for key, value in seen[0].items() if value is not None}
    assert named == {"task": "sst2", "dir": str(tmp_path), "dev_limit": 5}
