"""Runs that learn vectors from a file."""

import json

import numpy as np
import pytest
import toys

from tfdistill import cli, config, errors, models, run, tasks, training, weights
from tfdistill.data import batches, soft_labels, vocab
from tfdistill.run import task_models
from tfdistill.tokenization.reading import read_tokenizer

pytestmark = pytest.mark.slow

WORDS = "how when where is the train bus ticket price open weather hot cold play stop".split()
TASK = tasks.TaskSpec("near", "a", "score", "b", kind="embedding")
COLUMNS = {"text_column": "a", "pair_column": "b", "label_column": "score"}
WIDTH = 12


def sentences(random, count):
    return [" ".join(random.choice(WORDS, random.integers(3, 9))) for _ in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sentences, pairs, and sentence encoders of random weights as teacher and student."""
    folder = tmp_path_factory.mktemp("vectors")
    random = np.random.default_rng(0)
    (folder / "train.txt").write_text("\n".join(sentences(random, 30)))
    (folder / "more.txt").write_text("\n".join(sentences(random, 6)))
    pairs = zip(sentences(random, 12), sentences(random, 12), strict=True)
    rows = [f"{first}\t{second}\t{number % 5}" for number, (first, second) in enumerate(pairs)]
    (folder / "dev.tsv").write_text("\n".join(["a\tb\tscore", *rows]))
    tokens = [*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), *WORDS]
    vocab.write_vocab(tokens, folder / "vocab.txt")
    sizes = {"vocab_size": len(tokens), "max_positions": 16, "pooler": False}
    teacher = models.build_embedder(toys.SHALLOW_TEACHER.replace(**sizes), pooling="mean")
    student = models.build_embedder(toys.SHALLOW_STUDENT.replace(**sizes), WIDTH, pooling="max")
    for seed, (name, model) in enumerate((("teacher", teacher), ("student", student))):
        toys.randomise(model, seed)
        weights.save_hf(model, folder / name, tokenizer=folder / "vocab.txt")
    return folder


def recipe_of(folder, teacher, stage=(), **student):
    start = {"preset": str(folder / "student"), **student}
    step = {"kind": "embedding", "epochs": 2, "min_steps": 4, "batch_size": 16, **dict(stage)}
    data = {"task": "near", "kind": "embedding", "dir": str(folder), "max_length": 12, **COLUMNS}
    if config.is_checkpoint(start["preset"]):
        start["initialise"] = start["preset"]
    else:
        data["vocab"] = str(folder / "vocab.txt")
    data["unlabelled"] = [str(folder / "more.txt")]
    return toys.one_stage(data, teacher, start, step, baselines="cheap")


def texts_of(folder):
    """The training and then the unlabelled texts, and the development set."""
    train = (folder / "train.txt").read_text().split("\n")
    train += (folder / "more.txt").read_text().split("\n")
    return train, tasks.load_examples(TASK, folder, "dev")


@pytest.fixture(scope="module")
def answers(folder):
    """A file with the teacher's vectors of all texts, in another order."""
    train, dev = texts_of(folder)
    texts = np.random.default_rng(1).permutation([*train, *dev.texts]).tolist()
    examples = tasks.Examples(TASK, texts, None, None)
    encoded = batches.encode_examples(examples, read_tokenizer(folder / "vocab.txt"), 12)
    teacher = weights.load_embedder(folder / "teacher").model
    rows = batches.Batches(encoded, batch_size=64, shuffle=False)
    path = folder / "vectors.parquet"
    soft_labels.write(path, examples, training.predict_logits(teacher, rows))
    return path


def test_vectors_of_no_length_1_teach_a_student_whose_vectors_have_none(folder, answers):
    teacher = {"answers": [str(answers)]}
    settings = recipe_of(folder, teacher, preset="bert_tiny").student
    for normalised in (True, False):
        head = task_models.head_of_vectors(settings, 5, normalised=normalised)
        assert head == models.Head("embedding", 5, pooling="mean", normalize=normalised)
    student = recipe_of(folder, teacher).student  # a folder says itself how it pools
    head = task_models.head_of_vectors(student, 5, normalised=False)
    assert head == models.Head("embedding", 5, pooling="max", normalize=True)


def without(path, target, *texts):
    columns = soft_labels.read(path, TASK)
    rows = [(key[0], columns.values[row]) for key, row in columns.rows.items()]
    remaining = [(text, vector) for text, vector in rows if text not in texts]
    assert len(remaining) < len(rows)
    examples = tasks.Examples(TASK, [text for text, _ in remaining], None, None)
    soft_labels.write(target, examples, np.stack([vector for _, vector in remaining]))
    return str(target)


def test_texts_without_a_vector_are_refused_or_left_out(
    folder, answers, tmp_path, until_fit, capsys
):
    """A combination of vector terms learns from the others."""
    texts, dev = texts_of(folder)
    left = texts[3], texts[-1], dev.texts[5]
    path = without(answers, tmp_path / "part.parquet", *left)
    with pytest.raises(errors.DataError, match=r"none to 1 of 30.*leave out such texts.*=gold"):
        run.distill_variant(recipe_of(folder, {"answers": [path]}), tmp_path / "run")

    terms = {
        "mse": {"loss": "VectorMSE", "projection": "shared"},
        "near": {"loss": "SimilarityKL", "prefixes": [4]},
    }
    stage = {"kind": "combination", "losses": terms, "min_steps": None}
    teacher = {"answers": {"files": [path], "missing": "gold"}}
    distiller, train = until_fit(recipe_of(folder, teacher, stage), tmp_path / "run")
    file = soft_labels.read(answers, TASK)
    answered = [text for text in texts if text not in left]
    expected = file.values[file.find([(text,) for text in answered])]
    np.testing.assert_array_equal(train._extra["teacher_logits"], expected)
    assert len(train.encoded) == len(answered) == 34
    assert distiller.needs_only_logits() and distiller.active_terms == ("mse", "near")
    assert "1 training texts are left out" in capsys.readouterr().err
    teacher = json.loads((tmp_path / "run" / "teacher" / "result.json").read_text())
    assert teacher["num_examples"] == 11  # pairs with both vectors


@pytest.mark.parametrize(
    ("section", "stage", "student", "message"),
    [
        ({"files": ["v.parquet", "w.parquet"]}, {}, {}, "files: 2 files are an ensemble, and vect"),
        ({"temperatures": [2.0]}, {}, {}, "temperatures: vectors have none"),
        ({}, {}, {"preset": "pruned:layers=1"}, "pruned:layers=1 is made of a teacher model"),
        ({}, {}, {"initialise": "teacher"}, "initialise: teacher is made of a teacher model"),
        ({}, {"kind": "combination", "losses": {"a": {"loss": "HiddenStateMSE"}}}, {},
         "compares the student with the teacher's layers, and teacher.answers holds answers "
         "alone. Use a stage of kind embedding, or"),
    ],
)  # fmt: skip
def test_what_needs_a_teacher_s_model_is_refused_with_the_reason(
    section, stage, student, message, folder
):
    if "kind" in stage:
        stage = {**stage, "min_steps": None}
    recipe = recipe_of(folder, {"answers": {"files": ["v.parquet"], **section}}, stage)
    settings = recipe.student.model_copy(update=student)
    assert message in "\n".join(
        config.missing_inputs(recipe.model_copy(update={"student": settings}))
    )


def test_the_command_writes_a_vector_of_each_different_text(folder, answers, tmp_path, capsys):
    path = tmp_path / "made.parquet"
    data = ["--kind", "embedding", "--task", "near", "--data-dir", str(folder)]
    data += ["--max-length", "12", "--unlabelled", str(folder / "more.txt")]
    for field, name in COLUMNS.items():
        data += [f"--{field.replace('_', '-')}", name]
    teacher = str(folder / "teacher")
    assert cli.main(["answers", teacher, *data, "--out", str(path), "--json"]) == 0
    train, dev = texts_of(folder)
    keys = [(text,) for text in (*train, *dev.texts)]
    assert json.loads(capsys.readouterr().out)["num_texts"] == len(set(keys))
    written, expected = (soft_labels.read(p, TASK) for p in (path, answers))
    np.testing.assert_allclose(
        written.values[written.find(keys)], expected.values[expected.find(keys)], atol=1e-6
    )
    distil = ["distill", "--answers", str(path), "--student", str(folder / "student"), "--dry-run"]
    assert cli.main([*distil, *data, "--out", str(tmp_path / "run")]) == 0
    assert f"teacher   answers in {path}" in capsys.readouterr().out
