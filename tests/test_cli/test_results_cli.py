"""tfdistill compare: exit codes, limits, and what is said about bad input."""

import json

import benchmark_results as results_of
import pytest

from tfdistill import cli
from tfdistill.benchmark import result


@pytest.fixture
def stored(tmp_path):
    """Writes results of the given levels and returns their paths."""

    def write(**levels):
        paths = []
        for index, (name, level) in enumerate(levels.items()):
            value = results_of.assembled(
                results_of.repetitions(level, seed=index),
                models=[results_of.model_file(sha256=f"{index}" * 64, size_bytes=1000 + index)],
                created=f"2026-11-0{index + 1}T00:00:00+00:00",
            )
            paths.append(str(result.write_result(value, tmp_path / f"{name}.json")))
        return paths

    return write


@pytest.mark.parametrize("text", ["5", "0.05", "-5%", "%", "nan%", "inf%", "five%", "5%%", ""])
def test_what_is_no_percentage_is_misuse(text, stored, capsys):
    old, new = stored(old=2.0, new=2.0)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["compare", old, new, f"--fail-if-slower={text}"])
    assert stopped.value.code == 2
    assert f"expected a percentage such as 5%, received {text!r}" in capsys.readouterr().err


def test_a_slower_file_fails_a_build_only_when_a_limit_is_asked_for(stored, capsys):
    old, new = stored(old=2.0, new=2.4)
    assert cli.main(["compare", old, new]) == 0
    assert "slower" in capsys.readouterr().out
    assert cli.main(["compare", old, new, "--fail-if-slower", "5%"]) == 1
    assert "FAILED: student at 32 tokens, 1 thread: " in capsys.readouterr().out
    assert cli.main(["compare", old, new, "--fail-if-slower", "5%", "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["gate"]["passed"] is value["rows"][0]["faster"] is False
    assert len(value["gate"]["reasons"]) == 1
    assert cli.main(["compare", old, new, "--json"]) == 0
    assert "gate" not in json.loads(capsys.readouterr().out)
    assert cli.main(["compare", old, new, "--fail-if-slower", "50%"]) == 0
    assert capsys.readouterr().out.endswith("\npassed\n")
    assert cli.main(["compare", new, old, "--fail-if-slower", "5%"]) == 0


def test_a_larger_file_fails(stored):
    old, new = stored(old=2.0, new=2.0)
    assert cli.main(["compare", old, new, "--fail-if-larger", "0%"]) == 1
    assert cli.main(["compare", old, new, "--fail-if-larger", "1%"]) == 0


def test_the_files_of_one_result_are_compared(tmp_path, capsys):
    rows = [
        *results_of.repetitions(2.0, model="old"),
        *results_of.repetitions(2.4, model="new", seed=1),
    ]
    path = str(result.write_result(results_of.assembled(rows), tmp_path / "both.json"))
    assert cli.main(["compare", path]) == 0
    assert "the files took turns" in capsys.readouterr().out
    assert cli.main(["compare", path, "--fail-if-slower", "5%"]) == 1


def test_another_device_is_refused(stored, tmp_path, capsys):
    (old,) = stored(old=2.0)
    other = results_of.assembled(
        results_of.repetitions(1.0), device=results_of.HOST.model_copy(update={"id": "c" * 12})
    )
    new = str(result.write_result(other, tmp_path / "new.json"))
    assert cli.main(["compare", old, new]) == 1
    assert "`tfdistill report OLD NEW` shows both" in capsys.readouterr().err


def test_models_and_folders_are_referred_to_benchmark(stored, tmp_path, capsys):
    (old,) = stored(old=2.0)
    for new in (str(tmp_path), str(tmp_path / "model.tflite")):
        assert cli.main(["compare", old, new]) == 2
        assert "`tfdistill benchmark OLD NEW`" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--fail-if-undecided", "--allow-throttled"])
def test_options_of_a_limit_of_latency_need_it(stored, capsys, option):
    old, new = stored(old=2.0, new=2.0)
    assert cli.main(["compare", old, new, option]) == 2
    assert f"{option}: expected --fail-if-slower too" in capsys.readouterr().err
    assert cli.main(["compare", old, new, option, "--fail-if-slower", "50%"]) == 0
