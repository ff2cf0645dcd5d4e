"""Wrong paths, columns, presets, stages and tasks: found before TensorFlow, named as typed."""

import contextlib
import json
import subprocess
import sys

import pytest

from tfdistill import cli, errors
from tfdistill.commands import base, models, plan
from tfdistill.io import work_folder

FAULTS = [  # command, exit code, what is printed; {} is a folder with sst2's files
    ("finetune bert --task sst2 --data-dir {}/none --out o", 2,
     "data.dir: {}/none is not there\n--data-dir sets data.dir."),
    ("finetune ./none --task sst2 --data-dir {} --out o", 2, "model: expected an existing path"),
    ("finetune preset:bert_tniy --task sst2 --data-dir {} --out o", 2, "Did you mean 'bert_tiny'"),
    ("finetune bert --task sst_22 --data-dir {} --out o", 2, "Did you mean 'sst2'?"),
    ("finetune bert --task own --data-dir {} --text-column sentenc --label-column label --out o", 2,
     "data.text_column: expected one of the columns sentence, label"),
    ("finetune bert --task cola --data-dir {}/mrpc --out o", 2, "data.dir: {}/mrpc"),
    ("finetune bert --task qnli --data-dir {} --out o", 2, "expected one of the columns sentence"),
    ("finetune bert --task sst2 --data-dir {} --max-length 9999 --out o", 2,
     "--max-length sets data.max_length."),
    ("distill --teacher bert --student bert_tiny --data {} --out o", 2,
     "distill: data file {}: expected one file of labelled texts, received a folder. A folder"),
    ("distill --teacher ./none --student bert_tiny --task sst2 --data-dir {} --out o", 2,
     "--teacher: expected an existing path, received './none'"),
    ("distill --teacher bert --student bert_tniy --task sst2 --data-dir {} --out o", 2,
     "student.preset: expected a known preset, received 'bert_tniy'. Did you mean 'bert_tiny'? "
     "Try `tfdistill recipes presets`.\n--student sets student.preset."),
    ("distill --teacher bert --student bert_tiny --stages predicton --task sst2 --out o", 2,
     "--stages: expected names of"),
    ("compress bert --methods prun --task sst2 --data-dir {} --out o", 2, "Did you mean 'prune'?"),
    ("evaluate ./none --task sst2 --data-dir {}", 2, "model: expected an existing path"),
    ("evaluate bert --task sst2 --data-dir {} --split tset", 1, "tset"),
    ("evaluate none", 2, "received none of them, and nothing here is called 'none'"),
    ("export none --out o --hf ./o", 2, "--hf: expected another path than --out"),
    ("export org/none", 2, "model: expected an existing path"),
    ("benchmark none", 2, "MODEL: expected an existing path"),
    ("benchmark {} --task sst2 --data-dir none", 2, "--data-dir sets data.dir."),
    ("report none", 2, "none: no such file or folder"),
    ("data augment --task sst2 --data-dir {} --masked-lm ./none --out o", 2, "--masked-lm: "),
    ("data augment --task sst2 --data-dir {} --masked-lm bert --vectors none --out o", 1,
     "--vectors: expected an existing file"),
    ("data prepare none --vocab none --out o", 2, "text: expected existing files"),
    ("pretrain bert_tiny --corpus none --out o", 2, "expected existing files"),
    ("run dmo", 2, "Did you mean 'demo'?"),
    ("run demo --set stages.joined.epochs=2", 2,
     "--set stages.joined.epochs: no stage 'joined'. Did you mean 'joint'?"),
    ("recipes check demo --set student.preset=bert_tniy", 2, "Did you mean 'bert_tiny'?"),
    ("run tinybert_4l", 2, "Give them with --set data.dir=FOLDER"),
    ("finetune bert --task own --data-dir {}/colons --text-column text --label-column label "
     "--out o", 2, "--text-column sets data.text_column."),
    ("finetune bert --task own --data-dir {}/alike --text-column text --label-column label --out o",
     1, "received 'No' (train.tsv, line 5) and 'no' (2 examples, first train.tsv, line 3)"),
    ("distill --teacher bert --student bert_tiny --task own --data-dir {}/alike --text-column text "
     "--label-column label --out o", 1, "expected names that differ"),
    ("run tinybert_4l --set teacher=bert --set data.dir={}/same "
     "--set stages.general.corpus=[{}/train.tsv]", 1,
     "expected texts that the training set does not have, received 2 of 2"),
]  # fmt: skip


DATA = "--task sst2 --data-dir {}"
TAKE_MODELS = [  # every verb that takes a model, at each place
    f"finetune MODEL {DATA} --out o",
    f"distill --teacher MODEL --student bert_tiny {DATA} --out o",
    f"distill --teacher bert --student MODEL {DATA} --out o",
    f"compress MODEL {DATA} --out o",
    f"compress bert --teacher MODEL {DATA} --out o",
    f"answers MODEL {DATA} --out o.jsonl",
    f"evaluate MODEL {DATA}",
    "export MODEL",
    "export MODEL --list --out o",
    "quickstart --teacher MODEL --data {}/train.tsv",
    "pretrain MODEL --corpus {}/train.tsv --out o",
    f"data augment {DATA} --masked-lm MODEL --out o",
    "run tinybert_4l --set teacher=MODEL --set data.dir={} "
    "--set stages.general.corpus=[{}/dev.tsv]",
    "recipes check tinybert_4l --set teacher=MODEL",
    "inspect a.tflite --against MODEL",
    "benchmark MODEL",
    "inspect MODEL",
    "index {}/train.tsv --model MODEL",
    "predict MODEL text",
]
TAKE_FILES = ("evaluate", "benchmark", "inspect MODEL", "index", "predict")  # .tflite is theirs
WITHOUT_MODEL = {"demo", "report", "compare", "doctor"}
REMEDIES = {
    **dict.fromkeys((".h5", ".keras"), "save it with tfdistill.weights.save_hf"),
    **dict.fromkeys((".pt", ".bin"), "safe_serialization=True"),
    **dict.fromkeys((".tflite", ".onnx", ".gguf"), "Take the checkpoint that it was made from"),
}
FAULTS += [(command.replace("MODEL", "teacher.pt"), 2, REMEDIES[".pt"]) for command in TAKE_MODELS]
FAULTS += [
    (TAKE_MODELS[0].replace("MODEL", f"teacher{suffix}"), 2, remedy)
    for suffix, remedy in REMEDIES.items()
    if suffix != ".pt"
]
FAULTS += [
    (command.replace("MODEL", "teacher.gguf"), 2, REMEDIES[".gguf"])
    for command in TAKE_MODELS
    if command.startswith(TAKE_FILES)
]
FAULTS += [
    (command.replace("MODEL", "{}/gpt2"), 1, "{}/gpt2/config.json, model_type: expected one of")
    for command in TAKE_MODELS
    if not command.startswith(("run", "recipes", "benchmark", "inspect MODEL", "index", "predict"))
]


def test_every_verb_that_takes_a_model_has_a_case():
    verbs = {command.split()[0] for command in TAKE_MODELS}
    assert verbs | WITHOUT_MODEL == {command.name for command in cli.commands()}


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
def test_models_of_other_families_pass_where_their_answers_do(kind, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    for roberta, passing in ((False, ["bert"]), (True, ["bert", "roberta"])):
        expected = contextlib.nullcontext()
        if kind not in passing:
            expected = pytest.raises(errors.WeightsError, match="model_type")
        with expected:
            plan.model(str(tmp_path), "model", roberta=roberta)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """(folder, what each command exits with, prints to stderr, and has imported by then)."""
    folder = tmp_path_factory.mktemp("sst2")
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("sentence\tlabel\ngood film\t1\nbad film\t0\n")
    texts = {
        "colons/*.csv": "text:label\ngood film:1\nbad film:0\n",
        "alike/*.tsv": "text\tlabel\ngood\tyes\nbad\tno\n\nworse\tNo\nworst\tno\n",
        "same/*.tsv": "sentence\tlabel\ngood film\t1\nbad film\t0\n",
    }
    for name, rows in texts.items():
        (folder / name).parent.mkdir()
        for split in ("train", "dev"):
            (folder / name.replace("*", split)).write_text(rows)
    (folder / "gpt2").mkdir()
    (folder / "gpt2" / "config.json").write_text('{"model_type": "gpt2"}')
    program = (
        "import contextlib, io, json, sys\n"
        "from tfdistill import cli\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    told = io.StringIO()\n"
        "    with contextlib.redirect_stderr(told):\n"
        "        code = cli.main(command.split())\n"
        "    print(json.dumps([code, told.getvalue(), 'tensorflow' in sys.modules]))\n"
    )
    commands = [command.replace("{}", str(folder)) for command, _, _ in FAULTS]
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(commands)],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("index", range(len(FAULTS)), ids=[command for command, _, _ in FAULTS])
def test_a_fault_is_found_before_tensorflow_is_imported(answers, index):
    folder, results = answers
    _, code, message = FAULTS[index]
    exit_code, told, imported = results[index]
    assert message.replace("{}", str(folder)) in told
    assert exit_code == code
    assert not imported
    assert not list(folder.glob("o*"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("data.dir: x is not there", ["--data-dir sets data.dir."]),
        ("2 faults.\n  - data.max_length: a\n  - data.kind: b",
         ["--max-length sets data.max_length.", "--kind sets data.kind."]),
        ("stages.logits.epochs: more", ["--epochs sets stages.logits.epochs."]),
        ("student.preset of an embedding: x", []),
        ("stages.labels.epochs: typed", []),
        ("stages.labels.epochs_x: other", []),
        ("Give it with --set data.dir=FOLDER.", ["--data-dir sets data.dir."]),
        ("stages.general.corpus: none", ["--corpus sets stages.general.corpus."]),
        ("data.unlabelled.1: no text", ["--unlabelled sets data.unlabelled."]),
    ],
)  # fmt: skip
def test_a_message_is_followed_by_the_options_that_set_its_keys(text, told):
    (distill,) = (command for command in models.COMMANDS if command.name == "distill")
    parser = base.Parser()
    distill.arguments(parser)
    assert parser.options_of(text, ["stages.labels.epochs"]) == told


# No key of a recipe: outputs, how and where the command works, and what it computes first.


@pytest.fixture
def data(tmp_path):
    for split, rows in (("train", 5), ("dev", 3)):
        lines = [f"{split} film {row}\t{row % 2}" for row in range(rows)]
        (tmp_path / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *lines]))
    return tmp_path


def test_a_dry_run_prints_the_plan_and_writes_nothing(data, capsys):
    out = data / "out"
    common = f"--task sst2 --data-dir {data} --out {out} --dry-run"
    for command in (
        f"finetune bert-base-uncased {common}",
        f"distill --teacher bert --student bert_tiny --batch-size 2 --seed 5 {common}",
        f"run tinybert_4l --set data.dir={data} --set teacher=bert --set "
        f"stages.general.corpus=[{data}/dev.tsv] --out {out} --dry-run",
        f"demo --out {out} --dry-run",
    ):
        assert cli.main(command.split()) == 0, capsys.readouterr().err
        shown = capsys.readouterr().out
        assert f"output    {out}" in shown and "Nothing was written." in shown
        assert ("student   " in shown) == ("finetune" not in command)
        if "demo" not in command:
            assert "train 5, dev 3" in shown
            assert "WARNING: The development set has 3 examples" in shown
        if "distill" in command:
            assert "joint: " in shown and "learning rate by width" in shown
            assert "seeds     5" in shown
        assert not out.exists()
    assert cli.main([*command.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recipe"]["name"] == "demo"


@pytest.mark.parametrize("rows", ["good film", "same film"])
def test_a_dry_run_looks_at_one_labelled_file_too(rows, tmp_path, capsys):
    label = {"good film": lambda row: row % 2, "same film": lambda row: "often" if row else "once"}
    lines = [f"{rows} {row},{label[rows](row)}" for row in range(100)]
    (tmp_path / "rows.csv").write_text("\n".join(["sentence,label", *lines]))
    command = (
        f"finetune bert-base-uncased --data {tmp_path}/rows.csv --out {tmp_path}/out --dry-run"
    )
    code, shown = cli.main(command.split()), capsys.readouterr()
    if rows == "good film":
        assert code == 0 and f"files {tmp_path}/rows.csv, train 60, dev 20" in shown.out, shown
    else:
        assert code == 1 and "data" in shown.err, shown


def test_an_earlier_run_is_refused_before_anything_is_imported(data, capsys):
    with work_folder.WorkFolder(data / "out", "run").open():
        (data / "out" / "recipe.yaml").touch()
    assert cli.main(["demo", "--out", str(data / "out"), "--dry-run"]) == 2
    assert "Use --resume to continue it or --overwrite" in capsys.readouterr().err
    assert cli.main(["demo", "--out", str(data / "out"), "--dry-run", "--overwrite"]) == 0


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Run folders of `finetune`, `distill` and `run`, without weights that could be fitted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tfdistill.run.teachers.check_fit", lambda *_: None)
    recipes = {"tuned": "finetune: {epochs: 1}", "distilled": "", "whole": "finetune: {epochs: 1}"}
    for name, more in recipes.items():
        folder = tmp_path / "runs" / name
        (folder / "teacher" / "model" / "hf").mkdir(parents=True)
        if name != "tuned":
            (folder / "stages").mkdir()
            (folder / "student" / "hf").mkdir(parents=True)
        values = f"name: x\nteacher: {{source: bert, {more}}}\nstudent: bert_tiny\n"
        values += "data: {task: assistant, max_length: 48}\nstages: {labels: {kind: labels}}\n"
        values += "variants: {student: {stages: [labels]}}\n"
        (folder / "recipe.yaml").write_text(values)
        for checkpoint in folder.glob("**/hf"):
            (checkpoint / "config.json").write_text('{"model_type": "bert"}')
    return tmp_path


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ("runs/tuned", "runs/tuned/teacher/model/hf"),
        ("runs/distilled", "runs/distilled/student/hf"),
        ("runs/whole", "runs/whole/student/hf"),
        ("runs/tuned/teacher/model/hf", "runs/tuned/teacher/model/hf"),
        ("bert-base-uncased", "bert-base-uncased"),
    ],
)
@pytest.mark.parametrize("command", ["distill --student bert_tiny", "compress runs/distilled"])
def test_a_teacher_may_be_a_run_folder(runs, source, folder, command, capsys):
    rest = f"--teacher {source} --task assistant --out out --dry-run --json"
    assert cli.main([*command.split(), *rest.split()]) == 0
    recipe = json.loads(capsys.readouterr().out)["recipe"]
    assert recipe["teacher"]["source"] == folder
    student = source if command.startswith("distill") else "runs/distilled"
    of_a_run = (runs / student / "recipe.yaml").is_file()
    assert recipe["data"]["max_length"] == (48 if of_a_run else 128)
    assert cli.main([*command.split(), *rest.split(), "--max-length", "16"]) == 0
    assert json.loads(capsys.readouterr().out)["recipe"]["data"]["max_length"] == 16


def test_a_run_that_trained_nothing_is_no_teacher(runs, capsys):
    (runs / "runs" / "tuned" / "stages").mkdir()
    command = "distill --teacher runs/tuned --student bert_tiny --task assistant --out out"
    assert cli.main(command.split()) == 1
    assert "a trained model, received none yet" in capsys.readouterr().err
