"""`tfdistill quickstart`: a teacher and one labelled file, run once as a user runs it."""

import argparse
import csv
import dataclasses
import json
import math
import pathlib
import re
import shlex
import shutil
import types
from unittest import mock

import numpy as np
import pytest
import toys

import export
from tfdistill import analysis, cli, config, errors, manifest, models, report, results, run, tasks
from tfdistill.budget import word_tables
from tfdistill.commands import quickstart, quickstart_budget, quickstart_plan, quickstart_recipe
from tfdistill.data import answers, labelled_file, synthetic
from tfdistill.io import reading
from tfdistill.results import quantities
from tfdistill.run import durations
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.weights import hf_config

CHOOSE_LENGTH = quickstart_recipe.choose_length
SHAPE = models.EncoderConfig(
    num_layers=2,
    hidden_size=16,
    num_heads=2,
    intermediate_size=32,
    vocab_size=200,
    max_positions=64,
)
QUICK = [
    *("teacher.finetune.min_steps=4", "teacher.finetune.epochs=1", "teacher.allow_weak=true"),
    *("stages.joint.epochs=1", "stages.joint.min_steps=null", "student.allow_weak=true"),
    *("benchmark.runs=3", "benchmark.min_seconds=0", "benchmark.repetitions=1"),
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with a teacher in `bert` and 120 commands of 3 intents in `my data.csv`."""
    folder = tmp_path_factory.mktemp("quickstart")
    commands = dict(zip(*synthetic.generate(900, seed=5), strict=True))
    chosen = [(text, name) for text, name in commands.items() if name in synthetic.INTENTS[:3]]
    rows = [("id", "utterance", "intent"), *((i, *row) for i, row in enumerate(chosen[:120]))]
    with open(folder / "my data.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=";").writerows(rows)
    toys.save_encoder(folder, list(commands), SHAPE)
    (folder / "bert" / "vocab.txt").unlink()  # as transformers 5 saves a model
    return folder


def command(folder, *more, out=None):
    """A quickstart without training of a student: the teacher is as small as one."""
    settings = [part for value in QUICK for part in ("--set", value)]
    teacher, data = str(folder / "bert"), str(folder / "my data.csv")
    base = ["quickstart", "--teacher", teacher, "--data", data]
    return [*base, "--out", str(out or folder / "a run"), *settings, *more]


def distilling(folder, *more, out=None):
    return command(folder, "--student", "pruned:layers=1", *more, out=out)


@pytest.fixture(scope="module")
def done(inputs):
    """(folder, exit code); what was printed is in `told` and `shown`."""
    called = toys.call(distilling(inputs))
    called.folder, called.run = inputs, inputs / "a run"
    return called


@pytest.mark.spine
@pytest.mark.slow
def test_it_tells_what_it_recognised_and_chose(done):
    assert done.code == 0, done.told
    for part in (
        "my data.csv: 120 rows, columns 'utterance' (text) and 'intent' (label)",
        "kind: classification (3 different names)",
        "split: train ",
        "fine-tuned first: it has no head for whole texts",
        "student: pruned:layers=1\n",
        "max_length ",
        "labels: ",
        "layers x 16, about ",
        "1. fine-tune the teacher ",
        "estimated: ",
    ):
        assert part in done.told
    record = results.read_result_file(done.run / "quickstart.json", results.QuickstartRecord)
    minutes = re.findall(r"estimated (\S+) minutes, took (\S+)", done.told)
    seconds = (record.estimated_seconds, record.seconds)  # rounded otherwise in the file
    assert [60 * float(one) for one in minutes[0]] == pytest.approx(seconds, abs=4)


@pytest.mark.spine
@pytest.mark.slow
def test_its_checked_file_goes_into_an_app_as_it_is(done, tmp_path, monkeypatch):
    file = done.run / "export" / "model.tflite"
    with monkeypatch.context() as patch:
        patch.setattr(export, "to_tflite", None)
        assert cli.main(["export", str(done.run), "--android", str(tmp_path)]) == 0
    (bundle,) = (tmp_path / "bundles").glob("*/model.tflite")
    assert bundle.read_bytes() == file.read_bytes()
    assert [path.name for path in done.run.glob("export*")] == ["export"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "more", "expected"),
    [
        ({"goal_mb": 0.001}, [], (False, True)),
        ({"size_mb": 0.001}, ["--lengths", "16"], (True, False)),
        ({"size_mb": 50.0}, [], (True, False)),
        ({"size_mb": 0.001}, ["--quantize", "float16"], None),
    ],
)
def test_with_other_promises_a_file_has_the_format_and_size_of_its_run(
    size, more, expected, done, tmp_path, monkeypatch
):
    recipe = config.saved_recipe(done.run)
    section = recipe.export.model_copy(update={"quantize": "float16", **size})
    changed = recipe.model_copy(update={"export": section})
    monkeypatch.setattr(config, "saved_recipe", lambda folder: changed)
    fit_size = mock.Mock(wraps=export.fit_size)
    monkeypatch.setattr(export, "fit_size", fit_size)
    held = ["--promise-on", str(done.run / "data" / "test.csv")]
    called = toys.call(["export", str(done.run), "--out", str(tmp_path / "file"), *held, *more])
    assert called.code == 0, called.told
    assert manifest.read_manifest(tmp_path / "file").quantization == "float16"
    assert ("shrunken model" in called.shown) == ("--lengths" in more)
    flags = [
        (call.kwargs.get("or_nearest", False), call.kwargs.get("surely", False))
        for call in fit_size.call_args_list
    ]
    assert flags == [expected] * bool(expected)


@pytest.mark.spine
@pytest.mark.slow
def test_the_table_has_teacher_student_file_and_baselines(done):
    shown = done.shown.replace(" (busy machine)", "")
    rows = {line.split("  ")[0]: line.split() for line in shown.splitlines()}
    metrics = json.loads((done.run / "metrics.json").read_text())
    of_role = {model["role"]: model["metrics"]["accuracy"] for model in metrics["models"]}
    assert rows["teacher"][1] == f"{of_role['teacher']:.4f}"
    assert rows["student"][1] == f"{of_role['student']:.4f}"
    size = quantities.size((done.run / "export" / "model.tflite").stat().st_size)
    text, longest = rows["file"][5], rows["file"][7]
    assert rows["file"][3:] == [*size.split(), text, "ms", longest, "ms"]
    measured = json.loads((done.run / "benchmark.json").read_text())["text_times"]
    expected_ms = {row["model"]: row["expected_ms"] for row in measured if row["threads"] == 1}
    assert text == f"{expected_ms['student']:.3g}"
    alike = rows["teacher-dynamic_wi8_afp32"]  # like for like
    sizes = [
        (done.run / folder / "model.tflite").stat().st_size
        for folder in ("also/teacher-dynamic_wi8_afp32", "teacher/export")
    ]
    assert sizes[0] < sizes[1] and alike[3:5] == quantities.size(sizes[0]).split()
    assert "both dynamic\\_wi8\\_afp32" in (done.run / "report.md").read_text()
    baseline = metrics["baselines"][1]
    assert baseline["parameters"] > 100 and 0 < baseline["latency_ms"] < 1000
    assert rows["baseline tfidf"][2] == f"{baseline['metrics']['accuracy']:.4f}"
    assert f"report: {done.run / 'report.html'}" in done.shown
    assert (done.run / "report.html").is_file()


@pytest.mark.spine
@pytest.mark.slow
def test_it_ends_with_a_verdict_answers_and_the_next_commands(done):
    headline = report.build(report.collect(done.run)).headline
    assert f"verdict: {headline}" in done.shown.splitlines()
    rows = [line for line in done.shown.splitlines() if "✓" in line or "✗" in line]
    counted = sum("✗" in line for line in rows)
    assert len(rows) - counted <= 3 and counted == min(3, counted) and rows
    assert f"file: {done.run / 'export' / 'model.tflite'}" in done.shown
    for line in done.shown.splitlines()[-2:]:
        verb, run, *_ = shlex.split(line.split("tfdistill ")[1])
        assert verb in ("predict", "export") and run == str(done.run)


@pytest.mark.slow
def test_words_with_tags_go_the_same_road_and_their_entities_are_counted(inputs, tmp_path):
    places = ("kitchen", "garden", "hall")
    with open(tmp_path / "homes.jsonl", "w", encoding="utf-8") as file:
        for index in range(90):
            name = places[index % 3]
            text = f"turn the light in the {name} on at {index}"
            span = {"start": 22, "end": 22 + len(name), "label": "ROOM"}
            file.write(json.dumps({"text": text, "spans": [span] * (index % 9 > 0)}) + "\n")
        for word in "abcdefghijklmnopqrst":  # that nobody annotated
            file.write(json.dumps({"text": f"go to the hall with {word} now"}) + "\n")
    data = ["--data", str(tmp_path / "homes.jsonl")]
    called = toys.call(distilling(inputs, *data, out=tmp_path / "run"))
    assert called.code == 0, called.told
    for part in (
        "homes.jsonl: 110 texts",
        "nobody annotated 20 texts: a student is distilled from 20 of them\n",
        "split: train 54, dev 18, test 18;",
        "data: 20 texts without labels",
        "kind: token (entities)",
        "entities: ROOM 80\n",
        "fine-tuned first: it has no head for words",
    ):
        assert part in called.told
    metrics = results.read_result_file(tmp_path / "run" / "metrics.json", results.RunMetrics)
    # The teacher learns from the others alone, in batches of 16, the student from all, of 32.
    steps = [
        int(list(csv.DictReader((tmp_path / "run" / one.csv).read_text().splitlines()))[-1]["step"])
        for model in metrics.models
        for one in model.history
    ]
    assert steps == [-(-54 // 16), -(-(54 + 20) // 32)] and metrics.num_unlabelled == 20
    assert "Texts without labels, distilled from" in (tmp_path / "run" / "report.html").read_text()
    assert [row.name for row in metrics.baselines] == ["gazetteer", "linear_tagger"]
    # The first answers an exception, too: the texts with a room that nobody annotated.
    assert [row.metrics["entity_f1"] > 0.85 for row in metrics.baselines] == [True, True]
    assert list(metrics.test_counts) == ["teacher", "student", "file"]
    test = tasks.load_examples(
        dataclasses.replace(tasks.task("ner"), labels=metrics.task.labels),
        tmp_path / "run" / "data" / "test.jsonl",
        "test",
        labelled=True,
    )
    entities = sum(int((labels == 1).sum()) for labels in test.labels)
    for role, counts in metrics.test_counts.items():
        assert sum(counts.values()) - counts["invented"] == entities > 5
        recall = metrics.test_metrics[role]["entity_recall"]
        assert counts["right"] == pytest.approx(recall * entities)
        line = " ".join(f"{number}" for number in counts.values())
        name = "The student’s file" if role == "file" else role.capitalize()
        assert re.search(rf"{name} +{line.replace(' ', ' +')}\n", called.shown)
    page = (tmp_path / "run" / "report.md").read_text()
    assert "Wrong edge" in page and "The entities of the training set" in page
    card = manifest.read_manifest(tmp_path / "run" / "export")
    assert card.task is not None and card.task.labels == ("O", "B-ROOM", "I-ROOM")
    # No test set of 100 texts is there to promise a recall on; other texts are.
    refused = toys.call(distilling(inputs, *data, "--min-recall", "0.9", out=tmp_path / "none"))
    assert refused.code == 2 and "data.min_recall: expected words with tags, and" in refused.told
    with open(tmp_path / "more.jsonl", "w", encoding="utf-8") as file:
        for index in range(60):
            word = f"{index:02}".translate(str.maketrans("0123456789", "abcdefghij"))
            text = f"is {word} in the {places[index % 3]}?"
            begin = text.index("the ") + 4
            span = {"start": begin, "end": len(text) - 1, "label": "ROOM"}
            file.write(json.dumps({"text": text, "entities": [span]}) + "\n")
    held, out = ["--promise-on", str(tmp_path / "more.jsonl")], str(tmp_path / "run" / "export")
    export = ["export", str(tmp_path / "run"), "--out", out, "--overwrite", *held, "--min-recall"]
    again = toys.call([*export, "0.9"])
    assert again.code == 0, again.told
    record = manifest.read_manifest(out).confidence
    assert record is not None and record.recall is not None and not record.promises
    assert record.recall.rows == 60 and record.recall.recall >= record.recall.recall_of_path
    for clause in (record.recall.summary, record.entity_promises[3].summary):
        assert clause in again.shown and clause in pathlib.Path(out, "README.md").read_text()
    shown = toys.call(["evaluate", out, "--split", str(tmp_path / "more.jsonl"), "--json"]).shown
    evaluated = json.loads(shown)
    assert evaluated["mask"]["recall"] == pytest.approx(record.recall.recall)
    assert evaluated["mask"]["needless"] == pytest.approx(record.recall.needless)
    told = toys.call(["predict", out, "in the hall?"]).told
    assert f"mask: {record.recall.summary}" in told
    few = toys.call([*export, "0.99"])
    assert few.code == 0 and "it takes about 230, 60 show at most 0.9623" in few.shown


def test_a_recall_that_the_texts_cannot_show_is_told_before_the_training(tmp_path):
    words, file = "abcdefghijklmnopqrstuvwxyz", tmp_path / "names.jsonl"
    rows = []
    for index in range(700):
        text = (
            f"{words[index // 26 % 26]}{words[index % 26]} {words[index // 676]}x called Mary here"
        )
        span = {"start": len(text) - 9, "end": len(text) - 5, "label": "NAME"}
        rows.append(json.dumps({"text": text, "entities": [span] * (index % 2)}))
    file.write_text("\n".join(rows))
    data = labelled_file.read_labelled_file(file, "names", promise=True)
    count = sum(bool(tags.any()) for tags in data.sets["test"].labels)
    assert data.promising == "test" and 45 <= count < 60
    assert quickstart._recall_note(data, None) == [] == quickstart._recall_note(data, 0.95)
    (note,) = quickstart._recall_note(data, 0.99)
    assert "0.99 of the entities masked: too few texts with entities, it takes about 230" in note
    assert f", {count} show at most {math.floor(1e4 * 0.1 ** (1 / count)) / 1e4}" in note


@pytest.mark.slow
@pytest.mark.thorough
def test_a_teacher_as_small_as_a_student_is_exported_itself(inputs, tmp_path, capsys):
    arguments = command(inputs, out=tmp_path / "out")
    assert cli.main(arguments) == 0
    shown = capsys.readouterr()
    assert "student: the teacher itself" in shown.err and "distil" not in shown.err
    metrics = results.read_result_file(tmp_path / "out" / "metrics.json", results.RunMetrics)
    assert [model.role for model in metrics.models] == ["teacher"] and metrics.chosen == "teacher"
    assert [export.name for export in metrics.exports] == ["student"]
    assert "No student yet" not in shown.out and "verdict: " in shown.out
    assert cli.main(["evaluate", str(tmp_path / "out" / "export"), "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)["accuracy"]
    assert evaluated == pytest.approx(metrics.models[0].metrics["accuracy"], abs=0.1)
    assert cli.main([*arguments, "--resume"]) == 0
    assert capsys.readouterr().out == shown.out


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"student": "teacher"}, "stages: expected none, for student.preset is teacher"),
        ({"stages": {}, "variants": {}}, "stages: expected at least 1 of them"),
        ({"stages": {}, "variants": {}, "student": "teacher", "data": {"task": None}}, "a task"),
        (
            {"stages": {}, "variants": {}, "student": {"preset": "teacher", "num_layers": 2}},
            "student.num_layers: expected none, for student.preset is teacher",
        ),
    ],
)
def test_what_trains_no_student_names_the_teacher_as_one(change, fact, recipe_of):
    values = recipe_of().model_dump(mode="json")
    with pytest.raises(errors.ConfigError, match=fact):
        config.parse_recipe({**values, **change})


def test_a_dry_run_is_a_page_and_with_v_the_recipe(inputs, capsys, tmp_path):
    arguments = distilling(inputs, "--dry-run", out=tmp_path / "out")
    assert cli.main(arguments) == 0
    page = capsys.readouterr().out
    assert "minutes on this machine" in page and len(page.splitlines()) < 20
    assert cli.main([*arguments, "-v"]) == 0
    told = capsys.readouterr().out
    assert "  preset: pruned:layers=1" in told
    assert not (tmp_path / "out").exists()


def test_minutes_are_kept_on_a_quiet_machine_and_the_load_of_now_is_named(
    inputs, capsys, tmp_path, monkeypatch
):
    monkeypatch.setattr(durations, "training_rate", lambda shape, tokens: (1e8, 3.0))
    arguments = distilling(
        inputs, "--dry-run", "--set", "stages.joint.min_steps=400", out=tmp_path / "out"
    )
    assert cli.main([*arguments, "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    (student,) = (part for part in page["parts"] if part["name"] == "distil the student")
    seconds = page["estimated_seconds"] - 0.25 * student["steps"] * student["step_seconds"]
    arguments += ["--max-minutes", f"{seconds / 60:.4f}"]
    assert cli.main([*arguments, "--json"]) == 0
    bounded = json.loads(capsys.readouterr().out)
    assert 0.9 * seconds < bounded["estimated_seconds"] < seconds + 0.01  # of rounded minutes
    assert bounded["load"] == 3.0
    assert cli.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "minutes on this machine; other programs make it 3.0 times as slow now" in shown


def test_a_size_bounds_the_file_of_a_named_student(inputs, tmp_path, capsys):
    arguments = distilling(inputs, "--dry-run", "--json", out=tmp_path / "out")
    pages = []
    for budget in ([], ["--size-mb", "0.02"]):
        assert cli.main([*arguments, *budget]) == 0
        pages.append(json.loads(capsys.readouterr().out))
    whole, small = pages
    assert whole["recipe"]["export"]["size_mb"] is None
    assert small["recipe"]["export"]["size_mb"] == 0.02
    assert small["student"]["size_bytes"] < whole["student"]["size_bytes"]
    assert small["recipe"]["student"] == whole["recipe"]["student"]


def test_answers_and_a_checkpoint_are_planned_like_a_teacher(inputs, tmp_path, capsys):
    (tmp_path / "llm.jsonl").write_text('{"text": "play", "label": "x"}\n')
    arguments = ["quickstart", "--answers", str(tmp_path / "llm.jsonl"), "--dry-run"]
    arguments += ["--data", str(inputs / "my data.csv"), "--out", str(tmp_path / "out")]
    assert cli.main(arguments) == 2
    assert "--student: expected a checkpoint with --answers" in capsys.readouterr().err
    assert cli.main([*arguments, "--student", str(inputs / "bert")]) == 0
    page = capsys.readouterr().out
    assert "distil the student" in page and "fine-tune" not in page


@pytest.mark.parametrize(
    ("options", "code", "fact"),
    [
        ("--latency-ms 0", 2, "a number above 0"),
        ("--latency-ms 3 --student pruned:layers=1", 2, "leave one of the two out"),
        ("--size-mb 0.0001", 2, "The smallest is 2l_16d_2h_16f"),
        ("--max-minutes 0.001", 2, "--max-minutes: expected at least"),
        ("--device adb", 2, "--device adb: expected --latency-ms"),
        ("--set data.kind=token", 2, "Use --kind in its place"),
        ("--set data.dir=/nowhere", 2, "Use --data in its place"),
        ("--set data.text_column=intent", 2, "Use --text-column in its place"),
        ("--set data.metrics=[accuracies]", 2, "accuracies"),
        ("--set data.dev_limit=1", 1, "at least 2 rows"),
        ("--seed -1", 2, "a whole number from 0 to 4294967295"),
    ],
)
def test_what_no_run_can_keep_is_refused_before_the_training(
    inputs, tmp_path, capsys, options, code, fact
):
    try:
        assert cli.main(command(inputs, *options.split(), out=tmp_path / "out")) == code
    except SystemExit as stopped:
        assert stopped.code == code
    assert fact in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.spine
@pytest.mark.slow
def test_the_figure_on_the_test_set_is_that_of_evaluate(done, capsys):
    assert cli.main(["evaluate", str(done.run / "export"), "--split", "test", "--json"]) == 0
    (row,) = (line.split() for line in done.shown.splitlines() if line.startswith("file "))
    evaluated = json.loads(capsys.readouterr().out)
    assert row[2] == f"{evaluated['accuracy']:.4f}"
    recorded = json.loads((done.run / "metrics.json").read_text())["test_metrics"]
    assert list(recorded) == ["teacher", "student", "file"]
    assert recorded["file"]["accuracy"] == pytest.approx(evaluated["accuracy"])
    page = (done.run / "report.md").read_text()
    assert f"| **The student’s file** | {recorded['file']['accuracy']:.1%} (" in page
    test_answers = answers.read(done.run / answers.TEST_FILE)
    assert set(test_answers.logits) == {"teacher", "student", "file", "majority"}


@pytest.mark.slow
def test_a_run_is_evaluated_from_elsewhere_and_says_what_it_was_trained_on(
    done, tmp_path, capsys, monkeypatch
):
    moved = tmp_path / "renamed"
    shutil.copytree(done.run, moved)
    recipe = moved / "recipe.yaml"
    text = recipe.read_text().replace(str(done.run), done.run.name)
    assert "dev_limit: null" in text
    recipe.write_text(text.replace("dev_limit: null", "dev_limit: 30"))  # of what is scored
    (moved / "environment.json").unlink()
    other = tmp_path / done.run.name / "data"  # what the recipe names is another project's here
    other.mkdir(parents=True)
    for file in (done.run / "data").glob("*.csv"):
        lines = file.read_text().splitlines()
        cells = [line.rpartition(",") for line in lines[1:]]
        turned = [f"{cell[0]},{cells[at - 1][2]}" for at, cell in enumerate(cells)]
        (other / file.name).write_text("\n".join([lines[0], *turned]) + "\n")
    monkeypatch.chdir(tmp_path)
    assert config.data_of_run(str(moved)).dir == str(moved / "data")
    assert cli.main(["evaluate", str(moved / "export"), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)
    assert cli.main(["evaluate", str(done.run / "export"), "--limit", "30", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == metrics

    rows = (done.run / "data" / "train.csv").read_text().splitlines()
    (tmp_path / "known.csv").write_text("\n".join([rows[0], *rows[-30:]]) + "\n")
    split = str(tmp_path / "known.csv")
    assert cli.main(["evaluate", str(moved / "export"), "--split", split, "--json"]) == 0
    first = capsys.readouterr()
    assert "30 of 30 texts are training texts too" in first.err

    (tmp_path / "known.csv").write_text("\n".join(["a,b", *rows[-30:]]) + "\n")
    columns = ["--text-column", "a", "--label-column", "b"]
    command_line = ["evaluate", str(moved / "export"), "--split", split, *columns, "--json"]
    assert cli.main(command_line) == 0
    second = capsys.readouterr()
    assert json.loads(second.out) == json.loads(first.out)
    assert "30 of 30 texts" in second.err


@pytest.mark.spine
@pytest.mark.slow
def test_what_the_run_knows_is_not_asked_for_again(done, tmp_path, capsys):
    sizes = {}
    for source in (done.run, done.run / "export"):
        assert cli.main(["evaluate", str(source), "--json"]) == 0
        sizes[source] = json.loads(capsys.readouterr().out)["num_examples"]
    assert len({*sizes.values()}) == 1
    out = ["--out", str(tmp_path / "out")]
    assert cli.main(["compress", str(done.run), *out, "--allow-weak", "--dry-run"]) == 0
    assert f"task my_data, metric accuracy, files {done.run / 'data'}" in capsys.readouterr().out
    assert cli.main(["export", str(done.run), *out, "--quantize", "int8", "--allow-weak"]) == 0
    assert reading.read_json(tmp_path / "out" / "model.json")["quantization"] == (
        "dynamic_wi8_afp32"
    )


@pytest.mark.slow
def test_the_recipe_and_the_data_are_there_to_be_run_again(done, capsys):
    recipe = config.load_recipe(str(done.run / "recipe.yaml"))
    assert recipe.data.dir == str(done.run / "data")
    sizes = {split: len(tasks.load_examples(_task(recipe), recipe.data.dir, split))
             for split in tasks.SPLITS}  # fmt: skip
    assert sum(sizes.values()) == 120 and sizes["dev"] >= 20 <= sizes["test"]
    again = [str(done.run / "recipe.yaml"), "--out", str(done.folder / "again"), "--dry-run"]
    assert cli.main(["run", *again]) == 0
    assert f"train {sizes['train']}, dev {sizes['dev']}" in capsys.readouterr().out


def _task(recipe):
    from tfdistill.data import from_config

    return from_config.declared_task(recipe.data)


@pytest.mark.spine
@pytest.mark.slow
def test_a_second_call_needs_resume_and_gives_the_same_table(done, capsys):
    assert cli.main(distilling(done.folder)) == 2
    assert "Use --resume" in capsys.readouterr().err
    before = (done.run / "metrics.json").read_text()
    assert cli.main(distilling(done.folder, "--resume")) == 0
    assert capsys.readouterr().out == done.shown
    after = json.loads((done.run / "metrics.json").read_text())
    assert after["models"] == json.loads(before)["models"]
    assert cli.main(distilling(done.folder, "--resume", "--seed", "2")) == 2
    assert "the file, the seed or the columns changed" in capsys.readouterr().err


@pytest.mark.slow
def test_a_recipe_that_cannot_run_replaces_no_earlier_run(done, capsys):
    before = {path: path.stat().st_mtime_ns for path in done.run.rglob("*") if path.is_file()}
    wrong = ["--overwrite", "--set", "data.vocab=missing.txt"]
    assert cli.main(distilling(done.folder, *wrong)) == 2
    assert "missing.txt is not there" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert cli.main(command(done.folder, "--overwrite", "--student", "./nowhere")) == 2
    assert "--student: expected an existing path" in capsys.readouterr().err


@pytest.fixture
def began(monkeypatch):
    """Ends a run where it would begin; lists the recipes."""
    recipes = []

    def begin(recipe, out, **options):
        recipes.append(recipe)
        raise errors.DataError("stop", "here", "this")

    monkeypatch.setattr(run, "run_recipe", begin)
    return recipes


@pytest.mark.slow
def test_texts_that_promise_an_error_are_split_off_and_named_where_they_are(
    inputs, tmp_path, began, capsys
):
    commands = dict(zip(*synthetic.generate(6000, seed=5), strict=True))
    rows = list(commands.items())[:2100]
    with open(tmp_path / "data.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("utterance", "intent"), *rows])
    arguments = distilling(inputs)
    for option, value in (("--data", "data.csv"), ("--out", "out")):
        arguments[arguments.index(option) + 1] = str(tmp_path / value)
    assert cli.main(arguments) == 1
    with open(tmp_path / "out" / "data" / "promise.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.reader(file))) >= 1 + 200

    other = tmp_path / "off topic.txt"
    other.write_text("why did the roman empire fall\n" * 2 + "who was cleopatra\n")
    arguments += ["--other", str(other)]
    assert cli.main([*arguments, "--resume"]) == 2
    assert "another other.txt" in capsys.readouterr().err
    assert cli.main([*arguments, "--overwrite"]) == 1
    assert "other texts: 2, too few to raise the thresholds" in capsys.readouterr().err
    copy = tmp_path / "out" / "data" / "other.txt"
    assert config.saved_recipe(tmp_path / "out").data.other == str(copy)
    assert copy.read_bytes() == other.read_bytes()
    assert [config.missing_inputs(recipe) for recipe in began] == [[], []]
    other.write_text(f"{rows[7][0].upper()}\n")
    assert cli.main([*arguments, "--overwrite"]) == 1
    assert "expected no text of the labelled set, received 1 row" in capsys.readouterr().err


def test_minutes_take_steps_of_the_student_away(recipe_of):
    recipe = recipe_of()
    proposal = quickstart_plan.QuickstartPlan(None, recipe, {}, (), SHAPE, np.full(99, 8))
    parts = [durations.TimedPart("start", 60), durations.TimedPart("distil", 1000 + 9, 1000, 1.0)]
    assert quickstart_budget.bound_steps(proposal, parts, 20) is proposal
    bounded = quickstart_budget.bound_steps(proposal, parts, 10).recipe.stages["joint"]
    assert (bounded.steps, bounded.min_steps) == (600 - 69, None)
    with pytest.raises(errors.ConfigError, match=r"at least 2\.9 on this machine"):
        quickstart_budget.bound_steps(proposal, parts, 2)
    few = [durations.TimedPart("distil", 240, 20, 1.0)]
    with pytest.raises(errors.ConfigError, match=r"at least 4 on"):  # no more than without a budget
        quickstart_budget.bound_steps(proposal, few, 2)
    proposal = proposal.with_student(config.TEACHER, "student: the teacher itself")
    for steps in (0, 1000):
        parts = [durations.TimedPart("fine-tune the teacher", 600, steps, 0.5)]
        with pytest.raises(errors.ConfigError, match=r"at least 10 .*No student is trained"):
            quickstart_budget.bound_steps(proposal, parts, 2)


def test_a_size_is_filled_in_four_bits_and_a_run_that_is_continued_keeps_its_format(
    recipe_of, monkeypatch
):
    shape = models.preset("minilm_6l_384d").replace(vocab_size=5000)
    sizes = {"train": 99, "dev": 20, "test": 20}
    data = types.SimpleNamespace(task=synthetic.TASK, sizes=sizes)
    drafted = quickstart_plan.QuickstartPlan(data, recipe_of(), {}, (), shape, np.full(99, 8))
    args = types.SimpleNamespace(
        answers=None, student=None, latency_ms=None, size_mb=5.0, max_minutes=None,
        teacher="x", device="host", serial=None, binary=None,
    )  # fmt: skip
    planned = quickstart_budget.within(drafted, args, None)
    assert planned.recipe.export.quantize == "dynamic_wi4_afp32_block32"
    assert planned.recipe.export.also_quantize == ("dynamic_wi4_afp32_block32",)
    assert planned.size_bytes <= 5e6 and planned.student.num_layers >= 5
    assert any("needs LiteRT 2.1.2 or later" in note for note in planned.notes)
    assert planned.recipe.export.lengths == (8, 16)  # those that `size_bytes` counts
    trained_as = planned.recipe.stages["joint"].compress
    assert (trained_as.method, trained_as.bits) == ("quantize", 4)

    monkeypatch.setattr(config, "saved_recipe", lambda folder: planned.recipe)
    again = quickstart_budget.within(drafted, args, pathlib.Path("run"))
    assert again.recipe.export == planned.recipe.export
    assert again.recipe.stages == planned.recipe.stages


def plan_without_budget(
    recipe, teacher, earlier_run=None, budget=None, task=synthetic.TASK, **changes
):
    """The plan for a teacher whose usual student is `pruned:layers=3,ffn=768`."""
    budget = {"latency_ms": None, "size_mb": None, **(budget or {})}
    sizes = {"train": 99, "dev": 20, "test": 20}
    data = types.SimpleNamespace(task=task, sizes=sizes, cross_fitted=False)
    plain = recipe.model_dump(mode="json")
    training = {name: plain[name] for name in ("stages", "variants")}
    draft = quickstart_plan.QuickstartPlan(
        data, recipe, training, (), teacher, np.full(99, 8), **changes
    ).with_student("pruned:layers=3,ffn=768", "student: a part")
    args = types.SimpleNamespace(
        answers=None, student=None, max_minutes=None, teacher="x", device="host", serial=None,
        binary=None, **budget,
    )  # fmt: skip
    return quickstart_budget.within(draft, args, earlier_run)


def test_a_file_of_more_than_9_mb_may_shrink_its_table_and_a_run_that_is_continued_too(
    recipe_of, monkeypatch
):
    shape = models.preset("minilm_6l_384d")
    large = plan_without_budget(recipe_of(), shape)
    assert large.size_bytes > 15e6 and large.recipe.export.goal_mb == 9
    assert any("smaller, if the development set shows" in note for note in large.notes)
    few_words = plan_without_budget(recipe_of(), shape.replace(vocab_size=10_000))
    assert few_words.recipe.export.goal_mb is None
    monkeypatch.setattr(config, "saved_recipe", lambda folder: large.recipe)
    again = plan_without_budget(recipe_of(), shape, pathlib.Path("run"))
    assert again.recipe.export == large.recipe.export


def test_a_tagger_has_9_mb_as_a_classifier_has(recipe_of):
    task = tasks.TaskSpec("t", "text", "label", labels=("O", "B-A", "I-A"), kind="token")
    plan = plan_without_budget(
        recipe_of(), models.preset("minilm_6l_384d"), task=task, is_open=True
    )
    assert plan.recipe.export.goal_mb == 9 and 8.5e6 < plan.size_bytes <= 9e6
    assert plan.student.num_layers == 6 and plan.student.embedding_size == 224


def test_where_nobody_names_a_student_it_is_the_largest_part_in_9_mb(recipe_of, monkeypatch):
    shape = models.preset("minilm_6l_384d")

    def student_note(teacher):
        plan = plan_without_budget(recipe_of(), teacher, is_open=True)
        return next(note for note in plan.notes if note.startswith("student: "))

    usual = plan_without_budget(recipe_of(), shape, is_open=True)
    assert usual.recipe.export.quantize == "dynamic_wi4_afp32_block32"
    assert usual.recipe.export.goal_mb == 9 and usual.recipe.stages["joint"].compress.bits == 4
    student = usual.student
    assert (student.num_layers, student.hidden_size, student.intermediate_size) == (6, 384, 1152)
    # its table trains in the factors of the file: with 85% of the words they have room
    assert student.embedding_size == 224 and 8.5e6 < usual.size_bytes <= 9e6
    (note,) = (note for note in usual.notes if note.startswith("file: "))
    assert note == "file: 9 MB; it and the student have a word table in two factors, rank 224"
    named = plan_without_budget(recipe_of(), shape, budget={"size_mb": 11})
    assert named.student.embedding_size == 288 and 10e6 < named.size_bytes <= 11e6
    # of 12 layers no 11 fit in 9 MB beside so many words
    deep = shape.replace(num_layers=12)
    assert "in 9 MB" in student_note(deep.replace(vocab_size=12_000))
    assert "in 12 MB" in student_note(deep)
    large = plan_without_budget(recipe_of(), deep.replace(vocab_size=60_000), is_open=True)
    assert large.student.num_layers >= 11 and large.student.hidden_size == 384
    assert large.recipe.export.goal_mb == 18
    monkeypatch.setattr(config, "saved_recipe", lambda folder: usual.recipe)
    again = plan_without_budget(recipe_of(), shape, pathlib.Path("run"))
    assert (again.student, again.size_bytes) == (usual.student, usual.size_bytes)


@pytest.mark.parametrize(("rank", "expected"), [(288, 288), (384, None)])
def test_a_student_of_a_cut_vocabulary_has_the_rank_of_its_file(rank, expected, recipe_of):
    usual = plan_without_budget(recipe_of(), models.preset("minilm_6l_384d"), is_open=True)
    whole = usual.changed("student: a part", {"student.preset": "pruned:layers=6,ffn=1152"})
    form = word_tables.TableForm(9000, rank, 4, 2e6, 10.2)
    cut = quickstart_plan.CutVocabulary(mock.Mock(), mock.Mock(), mock.Mock(), form)
    plan = quickstart_budget._with_factors(dataclasses.replace(whole, cut=cut))
    assert plan.student.embedding_size == expected
    # a teacher's own factors, and a preset, stay as they are
    for preset in ("pruned:layers=6,ffn=1152,embedding=128", "tinybert_4l_312d"):
        unchanged = whole.changed("student: another", {"student.preset": preset})
        assert quickstart_budget._with_factors(unchanged).recipe == unchanged.recipe
    cut = dataclasses.replace(cut, form=None)  # no table has room, whatever its rank
    assert (
        quickstart_budget._with_factors(dataclasses.replace(whole, cut=cut)).recipe == whole.recipe
    )


@pytest.mark.parametrize(
    ("budget", "in_4_bits"),
    [({"latency_ms": 3.0}, 0), ({"size_mb": 9.0}, 1), ({"size_mb": 9.0, "latency_ms": 3.0}, 1)],
)
def test_a_latency_alone_is_kept_in_eight_bits(budget, in_4_bits, recipe_of, monkeypatch):
    from tfdistill.budget import fitting

    formats = []
    every = fitting.largest
    monkeypatch.setattr(
        fitting,
        "largest",
        lambda teacher, **options: (
            formats.extend(options["formats"])
            or every(teacher, **{**options, "latency_ms": None, "size_mb": 9.0})
        ),
    )
    plan_without_budget(recipe_of(), models.preset("minilm_6l_384d"), budget=budget)
    assert formats == ["dynamic_wi8_afp32", "dynamic_wi4_afp32_block32"][: 1 + in_4_bits]


@pytest.mark.parametrize(
    ("changes", "options", "is_open"),
    [
        ({}, {}, True),
        ({"hidden_size": 768, "intermediate_size": 3072}, {}, False),  # its student is narrower
        ({"num_layers": 2}, {}, False),  # is small
        ({"family": "electra", "pooler": False}, {}, False),
        ({}, {"student": "pruned:layers=3"}, False),
        ({}, {"latency_ms": 3.0}, False),
        ({}, {"set": ["export.quantize=dynamic_wi8_afp32"]}, False),
        ({}, {"set": ["export.variants.gpu=float16"]}, False),
        ({}, {"set": ["stages.joint.compress.method=quantize"]}, False),
        ({}, {"set": ["seeds=[2]"]}, True),
    ],
)
def test_a_student_is_open_where_nothing_names_it(changes, options, is_open, plan_of):
    shape = models.preset("minilm_6l_384d").replace(**changes)
    assert plan_of(shape, **{"student": None, **options}).is_open is is_open


def test_a_run_with_a_budget_is_continued_from_wherever_it_ended(inputs, tmp_path, began):
    arguments = command(inputs, "--size-mb", "1", out=tmp_path / "out")
    assert cli.main(arguments) == 1
    assert cli.main([*arguments, "--resume"]) == 1
    (tmp_path / "out" / "recipe.yaml").unlink()  # killed while the run's files were written
    (tmp_path / "out" / "data" / "test.csv").unlink()
    assert cli.main([*arguments, "--resume"]) == 1
    assert len(began) == 3 and began[0] == began[1] == began[2]


def test_a_run_that_split_similar_texts_is_continued_as_it_was(inputs, tmp_path, began):
    words = [f"{verb} the {thing}" for verb in ("start", "stop", "set", "find", "show")
             for thing in ("light", "music", "alarm", "timer", "door", "fan")]  # fmt: skip
    rows = [(f"{word} at {n}", "ab"[len(word) % 2]) for n in range(4) for word in words]
    file, out = tmp_path / "rows.csv", tmp_path / "out"
    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([("text", "label"), *rows])
    arguments = ["quickstart", "--teacher", str(inputs / "bert"), "--data", str(file)]
    arguments += ["--out", str(out), "--set", "teacher.allow_weak=true"]
    assert cli.main(arguments) == 1
    record = json.loads((out / "quickstart.json").read_text())
    assert record.pop("similar_together") is True and record.pop("checksum")
    assert cli.main([*arguments, "--resume"]) == 1
    before = labelled_file.read_labelled_file(file, "rows", promise=True, similar_together=False)
    sets = [(out / "data" / f"{name}.csv").read_text() for name in before.sets]
    before.write(out / "data")
    (out / "quickstart.json").write_text(json.dumps(record))
    written = [(out / "data" / f"{name}.csv").read_text() for name in before.sets]
    assert written != sets
    assert cli.main([*arguments, "--resume"]) == 1
    assert len(began) == 3
    assert written == [(out / "data" / f"{name}.csv").read_text() for name in before.sets]


def test_answers_a_method_and_a_precision_reach_the_trainings(recipe_of):
    recipe = recipe_of(answers=["llm.jsonl"], student="./bert")
    assert recipe.teacher.answers.files == ("llm.jsonl",)
    assert recipe.teacher.finetune is None and recipe.student.start == "./bert"
    frozen = recipe_of(set=["teacher.finetune.method=frozen"])
    assert frozen.teacher.finetune.method == "frozen"
    mixed = recipe_of(precision="mixed_bfloat16")
    assert mixed.teacher.finetune.precision == mixed.stages["joint"].precision == "mixed_bfloat16"
    assert recipe_of().stages["joint"].precision == "float32"


@pytest.mark.parametrize(
    ("layers", "width", "heads", "ffn", "student", "small"),
    [
        (6, 384, 12, 1536, "pruned:layers=3,ffn=768", False),  # MiniLM
        (12, 768, 12, 3072, "pruned:layers=4,ffn=768,width=384", False),  # BERT-base
        (24, 1024, 16, 4096, "pruned:layers=8,ffn=768,width=384", False),  # BERT-large
        (2, 128, 2, 512, "pruned:layers=2,ffn=256", True),  # BERT-tiny
        (4, 312, 12, 1200, "pruned:layers=3,ffn=624", True),  # TinyBERT
    ],
)
def test_the_student_fits_its_teacher_which_is_small_up_to_tinybert(
    layers, width, heads, ffn, student, small
):
    from tfdistill import pruning

    teacher = SHAPE.replace(
        num_layers=layers, hidden_size=width, num_heads=heads, intermediate_size=ffn
    )
    assert quickstart_recipe.choose_student(teacher) == student
    assert quickstart_recipe.is_small(teacher, 64) is small
    pruning.pruned_config(teacher, config.parse_pruned(student))


@pytest.mark.parametrize(
    ("longest", "positions", "length", "told"),
    [
        (40, 512, 48, "max_length 48: holds 99.9% of the training texts (longest 300 tokens)"),
        (200, 128, 128, "max_length 128: holds 62.9%"),
        (300, 512, 256, "--set data.max_length=304 holds 100.0%, and takes 1.2 times as long"),
        (900, 512, 256, "holds 27.9% of the training texts (longest 900 tokens); --set data.max_"),
        (900, 512, 256, "--set data.max_length=512 holds 56.6%, and takes 2.0 times as long"),
    ],
)
def test_the_length_holds_nearly_all_texts_and_is_no_more_than_256(
    longest, positions, length, told
):
    lengths = np.linspace(8, longest, 999).astype(int)
    fitted, note = quickstart_recipe.fit_length(np.append(lengths, max(300, longest)), positions)
    assert fitted == length and told in note
    assert ("--set" in note) == (longest > 256)


def test_of_many_texts_some_are_counted_and_they_are_drawn_from_all(toy_vocab_file, monkeypatch):
    texts = ["kind words"] * 900 + ["kind " * 40] * 100  # the long ones last, as in a sorted file
    spec = tasks.TaskSpec("moods", "text", "mood", labels=("glad", "sad"))
    sets = {"train": tasks.Examples(spec, texts, None, np.arange(1000) % 2)}
    data = types.SimpleNamespace(sets=sets)

    def choose():
        return quickstart_recipe.choose_length(read_tokenizer(toy_vocab_file), data, positions=512)

    every = choose()
    monkeypatch.setattr(quickstart_recipe, "_READ", 200)
    drawn = choose()
    assert (len(every.tokens), len(drawn.tokens)) == (1000, 200)
    assert drawn.max_length == every.max_length >= every.tokens.max() == drawn.tokens.max()
    assert 5 < np.count_nonzero(drawn.tokens > 20) < 40  # 20 are expected
    assert drawn.note.endswith("; 200 of the texts were counted") and "counted" not in every.note
    np.testing.assert_array_equal(choose().tokens, drawn.tokens)


def test_a_prompt_is_part_of_the_length(toy_vocab_file, recipe_of):
    spec = tasks.TaskSpec("moods", "text", "mood", labels=("glad", "sad"))
    sets = {"train": tasks.Examples(spec, ["kind words", "a"], ["a", ""], np.arange(2))}
    data, tokenizer = types.SimpleNamespace(sets=sets), read_tokenizer(toy_vocab_file)
    lengths = [
        CHOOSE_LENGTH(each, data, positions=512).tokens
        for each in (tokenizer, tokenizer.replace(prompt="kind kind "))
    ]
    of_word = len(tokenizer.encode("kind")) - 2
    np.testing.assert_array_equal(lengths[1], lengths[0] + 2 * of_word)
    assert recipe_of(set=["data.prompt=kind"]).data.max_length == 16 + of_word


def test_a_teacher_that_cannot_be_cut_gets_a_preset():
    for teacher in (models.preset("mobilebert"), SHAPE.replace(family="electra", pooler=False)):
        assert quickstart_recipe.choose_student(teacher) == "tinybert_4l_312d"


@pytest.mark.parametrize(
    ("rows", "labels", "batch_size", "epochs"),
    [
        *((162, 2, 16, 37), (1400, 6, 32, 10), (15_000, 6, 32, 3), (95_000, 6, 32, 1)),
        *((830, 48, 32, 37), (1400, 20, 32, 10)),  # 20 steps a class
    ],
)
def test_a_small_set_and_many_classes_are_trained_on_for_more_epochs(
    rows, labels, batch_size, epochs
):
    training = config.FineTuneConfig(**quickstart_recipe.teacher_training(rows, 384, labels))
    assert (training.batch_size, training.learning_rate) == (batch_size, 1e-4)
    assert training.num_epochs(rows // batch_size + 1) == epochs
    assert quickstart_recipe.teacher_training(rows, 768, labels)["learning_rate"] == 5e-5


LABELS = {"0": "no", "1": "yes"}
CLASSIFIER = {"architectures": ["BertForSequenceClassification"]}


@pytest.mark.parametrize(
    ("raw", "outputs", "answers", "why"),
    [
        ({"architectures": ["BertModel"]}, None, False, "no head"),
        ({"architectures": ["BertForTokenClassification"]}, 2, False, "no head"),
        ({**CLASSIFIER, "id2label": LABELS}, 2, True, "its labels are those"),
        ({**CLASSIFIER, "id2label": {"1": "NO", "0": "Yes"}}, 2, True, "its labels are those"),
        ({**CLASSIFIER, "id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, 2, True, "without names"),
        (CLASSIFIER, 2, True, "without names"),
        ({**CLASSIFIER, "label2id": {"no": 1, "yes": 0}}, 2, True, "its labels are those"),
        ({**CLASSIFIER, "label2id": {"pos": 1, "neg": 0}}, 2, False, "not those of the data"),
        ({**CLASSIFIER, "id2label": {"0.0": "no", "1": "yes"}}, 2, False, "not those of the data"),
        ({**CLASSIFIER, "id2label": {"0": "pos", "1": "neg"}}, 2, False, "not those of the data"),
        (CLASSIFIER, 3, False, "its head has 3 output(s), the task 2"),
    ],
)
def test_head_and_labels_decide_whether_a_teacher_is_fine_tuned(raw, outputs, answers, why):
    tensors = {} if outputs is None else {"classifier.weight": np.zeros((outputs, 4))}
    checkpoint = types.SimpleNamespace(raw_config=raw, tensors=tensors)
    task = tasks.TaskSpec("t", "text", "label", labels=("no", "yes"))
    is_tuned, reason = quickstart_recipe.answers_task(checkpoint, task)
    assert is_tuned is answers and why in reason


def test_a_regression_needs_one_output():
    task = tasks.TaskSpec("t", "text", "label", kind="regression")
    for outputs, is_one in ((1, True), (2, False)):
        tensors = {"classifier.weight": np.zeros((outputs, 4))}
        checkpoint = types.SimpleNamespace(raw_config=CLASSIFIER, tensors=tensors)
        assert quickstart_recipe.answers_task(checkpoint, task)[0] is is_one


@pytest.fixture
def recipe_of(plan_of):
    """Makes the recipe of `plan_of`."""
    return lambda student="pruned:layers=1", **more: plan_of(SHAPE, student=student, **more).recipe


@pytest.fixture
def plan_of(tmp_path, monkeypatch, toy_vocab_file):
    """Plans a quickstart of a teacher with options of the command, for texts of 16 tokens."""
    monkeypatch.setattr(
        quickstart_recipe,
        "choose_length",
        lambda tokenizer, *arguments, **more: quickstart_recipe.TextLengths(
            14 + len(tokenizer.encode("")), "", analysis.DataFindings(), np.full(99, 8)
        ),
    )
    data = types.SimpleNamespace(
        task=tasks.TaskSpec("t", "text", "label", labels=("no", "yes")),
        sets={"train": "x" * 99},
        cross_fitted=False,
        has_few=False,
        answered=None,
        section=lambda folder: {"task": "t", "dir": str(folder)},
    )

    def make(shape, **options):
        checkpoint = types.SimpleNamespace(
            raw_config=hf_config.format_config(shape, models.Head("none"), ()),
            tensors={},
            tokenizer=read_tokenizer(toy_vocab_file),
            max_length=None,
        )
        usual = cli.parser("quickstart").parse_args(
            ["quickstart", "--teacher", str(tmp_path), "--data", "t.csv"]
        )
        args = argparse.Namespace(**{**vars(usual), **options})
        return quickstart_recipe.make_plan(args, "t", checkpoint, data, tmp_path)

    return make


@pytest.mark.parametrize(
    ("changes", "formats", "fallback"),
    [
        ([], ("dynamic_wi8_afp32",), ("weight_only_wi8_afp32",)),
        (["export.also_quantize=[]", "export.fallback=[float16]"], (), ("float16",)),
        (["export.variants.gpu=float16"], ("dynamic_wi8_afp32",), ()),
    ],
)
def test_the_teacher_gets_the_student_s_format_and_another_stands_by_unless_asked_otherwise(
    changes, formats, fallback, recipe_of
):
    recipe = recipe_of(set=changes)
    assert (recipe.export.also_quantize, recipe.export.fallback) == (formats, fallback)
    assert config.parse_recipe(recipe.model_dump(mode="json")) == recipe
