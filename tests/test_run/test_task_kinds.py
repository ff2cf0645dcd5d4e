"""Tags and answers inside texts, from a recipe to a file; sections of tasks of your own."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from tfdistill import cli, config, errors, manifest, run
from tfdistill.data import from_config

NAMES = ("anna", "bert", "cara", "dora", "emil")
PLACES = ("rome", "oslo", "bonn", "lima", "kiev")
VERBS = ("likes", "knows", "sees", "hears")


def sentences(random, count):
    for _ in range(count):
        yield [str(random.choice(words)) for words in (NAMES, VERBS, NAMES, PLACES)]


def write_ner(folder, name, random, count):
    lines = []
    for who, verb, whom, where in sentences(random, count):
        lines += [f"{who} B-PER", f"{verb} O", f"{whom} B-PER", "in O", f"{where} B-LOC", ". O", ""]
    (folder / f"{name}.txt").write_text("\n".join(lines))


def write_squad(folder, name, random, count):
    paragraphs = []
    for number, (who, verb, whom, where) in enumerate(sentences(random, count)):
        context = f"{who} {verb} {whom} in {where}."
        question, answer = ("where", where) if number % 2 else ("who", who)
        entry = {"id": str(number), "question": f"{question} is it?", "answers": []}
        if number % 3 == 0:
            entry |= {"question": "why is it?", "is_impossible": True}
        else:
            entry["answers"] = [{"text": answer, "answer_start": context.index(answer)}]
        paragraphs.append({"context": context, "qas": [entry]})
    content = {"data": [{"title": "t", "paragraphs": paragraphs}]}
    (folder / f"{name}.json").write_text(json.dumps(content))


# Data section and maker of files.
CASES = {
    "ner": ({"task": "ner", "max_length": 16}, write_ner),
    "squad_v2": (
        {"task": "squad_v2", "doc_stride": 6, "max_question_length": 6, "max_length": 18},
        write_squad,
    ),
}


def values_of(name, folder: pathlib.Path):
    data, write = CASES[name]
    folder.mkdir()
    random = np.random.default_rng(7)
    for split, count in (("train", 128), ("dev", 32)):
        write(folder, split, random, count)
    shape = {"num_layers": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 32}
    shape["dropout"] = 0.0
    step = {"batch_size": 16, "learning_rate": 5e-3, "warmup": 0.1, "schedule": "constant"}
    return {
        "name": "kinds",
        "data": {"vocab": "train:200", "dir": str(folder), **data},
        "teacher": {
            "source": "preset:bert_tiny",
            **shape,
            "finetune": {**step, "epochs": 3},
            **{"allow_weak": True, "export": False},
        },
        "student": {"preset": "bert_tiny", **shape, "allow_weak": True},
        "stages": {
            "prediction": {"kind": "prediction", **step, "epochs": 3, "temperature": 2.0},
        },
        "variants": {"full": {"stages": ["prediction"]}},
        "export": {"quantize": "float32", **({"lengths": [16]} if name == "ner" else {})},
        "benchmark": {"warmup": 1, "runs": 5, "min_seconds": 0, "repetitions": 1},
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("ner", marks=pytest.mark.thorough), "squad_v2"])
def test_models_of_tags_and_of_spans_become_files_that_are_measured_and_evaluated(
    tmp_path, name, capsys
):
    values = values_of(name, tmp_path / "data")
    (dev,) = (tmp_path / "data").glob("dev.*")
    shutil.copy(dev, dev.with_stem("test"))
    metrics = run.run_recipe(config.parse_recipe(values), tmp_path / "run")
    kind = metrics.task.kind
    assert [entry.name for entry in metrics.exports] == ["student"]
    card = manifest.read_manifest(tmp_path / "run" / "export")
    assert card.parity is not None and card.task is not None and card.tokenizer is not None
    assert (card.task.kind, card.parity.inputs) == (kind, "real")
    # The longest of the span's file holds the windows of 18 tokens.
    assert list(card.signatures) == (["len16", "len18"] if kind == "span" else ["len16"])
    measured = json.loads((tmp_path / "run" / "benchmark.json").read_text())
    assert {row["model"] for row in measured["summary"]} == {"student"}
    assert "student" in (tmp_path / "run" / "report.md").read_text()

    chosen = next(row for row in metrics.models if row.folder == metrics.chosen)
    assert metrics.test_metrics["student"] == pytest.approx(chosen.metrics)
    assert metrics.test_metrics["file"] == pytest.approx(card.parity.file_metrics)
    data = ["--task", name, "--data-dir", str(tmp_path / "data"), "--json"]
    windows = ["--max-length", "18", "--doc-stride", "6"]
    for source, more, expected in (
        ("run/export", [], card.parity.file_metrics),  # the manifest knows the windows
        ("run/export/model.tflite", [], card.parity.file_metrics),
        ("run/student", windows, chosen.metrics),
    ):
        capsys.readouterr()
        assert cli.main(["evaluate", str(tmp_path / source), *data, *more]) == 0
        evaluated = json.loads(capsys.readouterr().out)
        for metric, value in expected.items():
            assert evaluated[metric] == pytest.approx(value, abs=1e-9), (source, metric)

    target = str(tmp_path / "again")
    arguments = ["export", str(tmp_path / "run"), "--quantize", "float32", "--out", target]
    arguments += ["--lengths", "16"] if name == "ner" else []
    assert cli.main(arguments) == 0, capsys.readouterr().err
    again = manifest.read_manifest(target)
    assert (again.signatures, again.task) == (card.signatures, card.task)
    assert again.parity is not None and again.parity.file_metrics == card.parity.file_metrics


# The data section.


def section(**fields):
    return config.DataConfig(**{"task": "mine", **fields})


def test_a_task_of_your_own_takes_what_its_section_says(tmp_path):
    (tmp_path / "train.txt").write_text("a\tX\nb\tY\n")
    task = from_config.task_of(
        section(kind="token", metrics=("accuracy",), text_column="0"), tmp_path
    )
    assert (task.labels, task.metrics, task.layout) == (("X", "Y"), ("accuracy",), "conll")
    spans = section(kind="span", unanswerable=True, null_threshold=1.5, max_answer_length=9)
    task = from_config.task_of(spans, tmp_path)
    assert (task.spans.unanswerable, task.spans.null_threshold) == (True, 1.5)
    assert task.spans.max_answer_length == 9
    built_in = from_config.task_of(config.DataConfig(task="squad_v2", null_threshold=0.5), tmp_path)
    assert (built_in.spans.unanswerable, built_in.spans.null_threshold) == (True, 0.5)
    matching = from_config.task_of(config.DataConfig(task="mrpc", metrics=("auc", "f1")), tmp_path)
    assert (matching.primary_metric, matching.metrics) == ("auc", ("auc", "f1"))
    assert from_config.task_of(config.DataConfig(task="mrpc"), tmp_path).primary_metric == "f1"


def test_contradictory_sections_are_refused(tmp_path):
    both = {"text_column": "a", "label_column": "b"}
    for fields, told in (
        ({"text_column": "text"}, "text_column and label_column together"),
        ({**both, "metrics": ("auc",)}, "metric: expected one of micro_f1"),
    ):
        with pytest.raises(errors.ConfigError, match=told):
            from_config.task_of(section(kind="multi_label", **fields), tmp_path)
