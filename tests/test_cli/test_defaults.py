"""The defaults of measuring: one place for them, and every help tells what happens."""

import dataclasses
import pathlib
import re
import types

import pytest

from tfdistill import cli, config
from tfdistill.benchmark.settings import Settings

OPTIONS = {  # of the command line, by attribute of `Settings`
    **{name: f"--{name}".replace("_", "-") for name in ("threads", "delegates", "warmup", "runs")},
    **{"min_seconds": "--min-seconds", "repetitions": "--repetitions"},
    "timeout_seconds": "--timeout",
}


def help_of(command, capsys):
    with pytest.raises(SystemExit):
        cli.main([command, "--help-all"])
    text = " ".join(capsys.readouterr().out.split())
    return text.split(" options: ")[1].split(" examples: ")[0]


def told(text, option):
    """What a help says behind an option, up to the next one."""
    (said,) = re.findall(rf" {option} .*?(?= --[a-z]|$)", text)
    return re.findall(r"\(default: (.+?)[;)]", said)


def written(value):
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def test_the_help_of_benchmark_tells_them(capsys):
    text = help_of("benchmark", capsys)
    for name, option in OPTIONS.items():
        assert told(text, option) == [written(getattr(Settings(), name))], option


def test_a_recipe_s_defaults_are_those_of_the_library():
    for name, value in config.BenchmarkConfig().model_dump().items():
        assert value == getattr(Settings(), name), name


def test_the_guide_tells_them():
    guide = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "benchmark.md"
    text = " ".join(guide.read_text().split())
    usual = types.SimpleNamespace(**dataclasses.asdict(Settings()))
    assert f"measured `--repetitions` times ({usual.repetitions})" in text
    assert f"A repetition is {usual.warmup} warm-up inferences" in text
    assert f"`--runs` ({usual.runs}) inferences and `--min-seconds` ({usual.min_seconds:g})" in text
    assert f"{usual.lead_in} inferences that do not count" in text
