"""What reaches the terminal is text, whatever names the files hold and whatever its encoding."""

import io
import json
import os
import subprocess
import sys

import pytest

from tfdistill import cli
from tfdistill.commands import base

EVIL = "a\x1b]0;owned\x07\x9b31m\r\x08\u202eb"


def test_a_name_with_control_characters_is_shown_and_not_obeyed():
    shown = base.plain(f"{EVIL}\tü\n")
    assert shown == "a\\u001b]0;owned\\u0007\\u009b31m\\u000d\\u0008\\u202eb\tü\n"


@pytest.mark.parametrize("as_json", [True, False])
def test_results_and_errors_hold_no_control_characters(as_json, capsys):
    with base.plain_streams():
        base.show({"name": EVIL}, as_json=as_json, lines=[EVIL])
        print(EVIL, file=sys.stderr)
    out, err = capsys.readouterr()
    assert not set(out + err) & set("\x1b\x07\x9b\x08\u202e")
    assert not as_json or json.loads(out) == {"name": EVIL}  # the same value, still JSON


def test_numbers_that_json_lacks_are_null(capsys):
    value = {"a": [float("nan"), (1.5, float("-inf"))], 8: {"b": float("inf")}, "c": [True, None]}
    base.show(value, as_json=True, lines=[])
    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert shown == {"a": [None, [1.5, None]], "8": {"b": None}, "c": [True, None]}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_json_is_json_in_any_encoding(encoding, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    with base.plain_streams():
        base.show({"name": f"é 😀 \udc80 {EVIL}"}, as_json=True, lines=[])
    assert json.loads(written.getvalue().decode()) == {"name": f"é 😀 \udc80 {EVIL}"}
    assert ("é" in written.getvalue().decode()) == (encoding == "utf-8")


def test_a_progress_bar_may_return_and_move_up_and_no_more():
    target = io.StringIO()
    stream = base.PlainStream(target, bars=True)
    stream.write("\r 5%|█| \x1b[A\x1b[K\x1b[31m\x1b[2J")
    assert target.getvalue() == "\r 5%|█| \x1b[A\x1b[K\\u001b[31m\\u001b[2J"


def test_an_error_that_names_a_hostile_path_is_plain(tmp_path, capsys):
    path = tmp_path / "a\x1b[2Jb.json"
    path.write_text("{}")
    assert cli.main(["compare", str(path)]) == 1
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.slow
def test_the_locale_c_prints_what_it_can(tmp_path):
    (tmp_path / "größe.json").write_text("{}")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "tfdistill", "compare", str(tmp_path / "größe.json")],
        env={**os.environ, **locale},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "UnicodeEncodeError" not in done.stderr and "benchmark result" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["data", "vocab", "x.txt", "--out", "s3://bucket/x"],
        ["data", "prepare", "x.txt", "--vocab", "v.txt", "--out", "ftp://host/x"],
        ["run", "demo", "--out", "gs://bucket/x"],
        ["export", "model", "--keras", "hdfs://host/m.keras"],
        ["report", ".", "--out", "file:///tmp/x"],
        ["recipes", "cp", "demo", "s3://bucket/demo.yaml"],
        ["pretrain", "bert_tiny", "--corpus", "a.txt", "--out", "s3://bucket/x"],
        ["evaluate", "gs://bucket/run", "--task", "assistant"],
    ],
    ids=lambda command: command[0],
)
def test_an_address_is_no_path(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(command) == 2
    said = capsys.readouterr().err
    assert "expected a path on this machine" in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_text_to_look_for_may_be_an_address(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["index", "faq", "--query", "https://example.org/help", "--model", "m"]) != 0
    said = capsys.readouterr().err
    assert "faq" in said and "a path on this machine" not in said
