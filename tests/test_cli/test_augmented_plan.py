"""run --dry-run of a published recipe: what it counts, and what it refuses before a run does."""

import json

import pytest
import toys

from tfdistill import cli, models, weights

TASK_STAGES = "variants={full: {stages: [intermediate, prediction]}}"
ROWS = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory, toy_vocab_file):
    root = tmp_path_factory.mktemp("plan")
    size = len(toy_vocab_file.read_text().splitlines())
    shape = toys.SHALLOW_STUDENT.replace(vocab_size=size, max_positions=64)
    for name, build in (("mlm", models.build_masked_lm), ("encoder", models.build_encoder)):
        weights.save_hf(toys.randomise(build(shape)), root / name, tokenizer=toy_vocab_file)
    for split, rows in (("train", ROWS), ("dev", 20)):
        lines = [f"{split} film number {row}\t{row % 2}" for row in range(rows)]
        (root / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *lines]))
    (root / "books.txt").write_text("some plain text .\n")
    return root


def planned(folder, capsys, *overrides, teacher="mlm"):
    """The exit code of a dry run, its plan, and its errors."""
    heads = toys.SHALLOW_STUDENT
    small = [f"student.num_layers={heads.num_layers}", f"student.num_heads={heads.num_heads}"]
    small += [f"student.hidden_size={heads.hidden_size}", "student.intermediate_size=8"]
    named = [f"data.dir={folder}", f"teacher.source={folder / teacher}", *small, *overrides]
    options = [word for assignment in named for word in ("--set", assignment)]
    out = ["--out", str(folder / "out"), "--dry-run", "--json"]
    code = cli.main(["run", "tinybert_4l", *options, *out])
    shown = capsys.readouterr()
    return code, json.loads(shown.out) if code == 0 else None, shown.err


@pytest.mark.slow
def test_augmented_copies_and_minutes_are_counted(folder, capsys):
    code, plan, told = planned(folder, capsys, TASK_STAGES)
    assert code == 0, told
    assert plan["data"]["augmented"] == ROWS * (1 + 20)  # SST-2's published copies
    assert "10 epochs of about 27 steps" in plan["stages"]["intermediate"]  # 840 rows by 32
    _, more, _ = planned(folder, capsys, TASK_STAGES, "data.augment.copies=1000")
    assert more["data"]["augmented"] == ROWS * 1001
    assert more["estimated_seconds"] > plan["estimated_seconds"]
    plain = [f"stages.{name}.augmented=false" for name in ("intermediate", "prediction")]
    _, none, _ = planned(folder, capsys, TASK_STAGES, *plain)
    assert "augmented" not in none["data"] and "of about 2 steps" in none["stages"]["intermediate"]
    assert 0 < none["estimated_seconds"] < plan["estimated_seconds"]


@pytest.mark.slow
def test_a_teacher_without_a_masked_lm_head_is_refused_as_the_run_would(folder, capsys):
    code, _, told = planned(folder, capsys, TASK_STAGES, teacher="encoder")
    assert code == 1 and "expected a masked-LM head, received none" in told
    assert "data.augment.masked_lm" in told
    for key in ("data.augment.masked_lm", "teacher.general"):
        code, *_ = planned(
            folder, capsys, TASK_STAGES, f"{key}={folder / 'mlm'}", teacher="encoder"
        )
        assert code == 0
    masked = f"data.augment.masked_lm={folder / 'encoder'}"
    assert planned(folder, capsys, TASK_STAGES, masked)[0] == 1
    plain = [f"stages.{name}.augmented=false" for name in ("intermediate", "prediction")]
    assert planned(folder, capsys, TASK_STAGES, *plain, teacher="encoder")[0] == 0
    assert not (folder / "out").exists()


def test_a_general_student_that_is_missing_is_named_with_how_it_is_made(folder, capsys):
    code, _, told = planned(folder, capsys, TASK_STAGES, "student.initialise=./absent")
    assert code == 2 and "student.initialise: ./absent is not there" in told
    assert "tfdistill run tinybert_general" in told
    code, _, told = planned(folder, capsys)
    assert code == 2 and "--set stages.general.corpus=[FILE,...]" in told
    assert "tfdistill run tinybert_general" in told
    assert "--set student.initialise=FOLDER" in told


def test_a_preset_that_nobody_pre_trained_augments_nothing(folder, capsys):
    source = "teacher.source=preset:bert_tiny"
    code, _, told = planned(folder, capsys, TASK_STAGES, source, "data.vocab=train:300")
    assert code == 2
    assert "stages.intermediate (intermediate) needs a masked language model" in told
