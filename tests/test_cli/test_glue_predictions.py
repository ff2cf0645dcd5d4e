"""evaluate --predictions-for glue: the files of the benchmark's server."""

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import cli, manifest, models, tasks, weights
from tfdistill.predictor import Predictor

WORDS = [f"w{letter}" for letter in "abcdefghijklmnop"]
SHAPE = models.preset("bert_tiny").replace(
    num_layers=1, hidden_size=8, num_heads=2, intermediate_size=8
)
BUNDLE = (
    pathlib.Path(__file__).parents[2] / "android_demo/text/src/test/resources/bundles/pairs-float32"
)
NAMES = {  # task -> the names of its files
    "cola": ["CoLA"],
    "mnli": ["MNLI-m", "MNLI-mm"],
    "mrpc": ["MRPC"],
    "qnli": ["QNLI"],
    "qqp": ["QQP"],
    "rte": ["RTE"],
    "sst2": ["SST-2"],
    "stsb": ["STS-B"],
    "wnli": ["WNLI"],
}
SPLITS = {"MNLI-m": "test_matched", "MNLI-mm": "test_mismatched"}
# What the server calls the labels, in the order of the task's.
LABELS = {
    **dict.fromkeys(("cola", "mrpc", "qqp", "sst2", "wnli"), ("0", "1")),
    **dict.fromkeys(("qnli", "rte"), ("entailment", "not_entailment")),
    "mnli": ("entailment", "neutral", "contradiction"),
}


def drawn(spec, seed, count=70):
    """Texts of 1 to 9 words, which batches of like lengths put into another order."""
    random = np.random.default_rng(seed)
    sides = 1 if spec.pair_column is None else 2
    return [
        [" ".join(random.choice(WORDS, random.integers(1, 10))) for _ in range(sides)]
        for _ in range(count)
    ]


def write_split(folder, spec, name, rows):
    columns = ["index", spec.text_column, *([spec.pair_column] if spec.pair_column else [])]
    lines = ["\t".join(map(str, [100 + number, *row])) for number, row in enumerate(rows)]
    (folder / f"{name}.tsv").write_text("\n".join(["\t".join(columns), *lines]) + "\n")


def answered(loaded, rows):
    """The logits of texts or pairs, in the order of the rows."""
    typed = [loaded.tokenizer.encode_typed(*row, max_length=64) for row in rows]
    features = {"input_ids": [ids for ids, _ in typed], "token_type_ids": [t for _, t in typed]}
    features["attention_mask"] = [[1] * len(ids) for ids, _ in typed]
    padded = {key: tf.ragged.constant(cells).to_tensor() for key, cells in features.items()}
    return loaded.model(padded, training=False).numpy()


def save_teacher(folder, spec):
    """A classifier of random weights that gives every label."""
    source = toys.write_labelled(folder, WORDS, list(spec.labels), SHAPE, seed=5, scale=2.0)
    loaded = weights.load_classifier(source)
    logits = answered(loaded, drawn(spec, 9))
    head = loaded.model.get_layer(models.read_head(loaded.model).layer)
    kernel, bias = head.get_weights()
    spread = np.std(logits)
    head.set_weights([kernel / spread, (bias - np.mean(logits, axis=0)) / spread])
    shutil.rmtree(source)
    weights.save_hf(loaded.model, source, labels=spec.labels or None, tokenizer=loaded.tokenizer)
    return loaded


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_row_of_the_test_split_gets_its_answer_as_the_server_spells_it(
    name, tmp_path, monkeypatch, capsys
):
    spec = tasks.task(name)
    teacher = save_teacher(tmp_path, spec)
    monkeypatch.chdir(tmp_path)
    rows_of = {stem: drawn(spec, seed) for seed, stem in enumerate(NAMES[name])}
    for stem, rows in rows_of.items():
        write_split(tmp_path, spec, SPLITS.get(stem, "test"), rows)
    command = f"evaluate teacher --task {name} --data-dir . --predictions-for glue".split()
    assert cli.main(command) == 0, capsys.readouterr().err
    written = sorted(path.name for path in (tmp_path / "predictions").iterdir())
    assert written == [f"{stem}.tsv" for stem in NAMES[name]]
    for stem, rows in rows_of.items():
        lines = (tmp_path / "predictions" / f"{stem}.tsv").read_text().splitlines()
        cells = [line.split("\t") for line in lines]
        assert cells[0] == ["index", "prediction"]
        assert [index for index, _ in cells[1:]] == [str(number) for number in range(len(rows))]
        logits = answered(teacher, rows)
        values = [value for _, value in cells[1:]]
        if name == "stsb":  # the scale ends at 0: of numbers around it half are below
            assert list(map(float, values)) == pytest.approx(logits[:, 0].clip(0, 5), abs=1e-4)
            assert values.count("0.0") > 10 < sum(float(value) > 0 for value in values)
        else:
            assert values == [LABELS[name][index] for index in logits.argmax(-1)]
            assert set(values) == {*LABELS[name]}
    assert cli.main(command) == 2  # nothing is written over
    assert "predictions" in capsys.readouterr().err


@pytest.mark.slow
def test_an_exported_file_answers_too_whatever_the_order_of_its_labels(
    tmp_path, monkeypatch, capsys
):
    folder = shutil.copytree(BUNDLE, tmp_path / "export")
    card, spec = manifest.read_manifest(folder), tasks.task("mnli")
    assert card.task is not None
    labels = tuple(reversed(spec.labels))
    task = card.task.model_copy(update={"labels": labels})
    manifest.write_manifest(card.model_copy(update={"task": task, "labels_file": None}), folder)
    words = "the a it is not good bad film story was who made mary john".split()
    rows = [[" ".join(words[n : n + 3]), " ".join(words[::-n])] for n in range(1, 9)]
    for split in SPLITS.values():
        write_split(tmp_path, spec, split, rows)
    monkeypatch.chdir(tmp_path)
    command = "evaluate export --task mnli --data-dir . --predictions-for glue".split()
    assert cli.main(command) == 0, capsys.readouterr().err
    with Predictor(folder) as predictor:
        expected = [predictor.predict(*row).label for row in rows]
    assert {*expected} <= {labels[0], labels[2]}  # not the ones in the middle, alike in both orders
    lines = (tmp_path / "predictions" / "MNLI-m.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[1] for line in lines] == expected


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--task imdb", "--predictions-for glue: expected a task of GLUE (cola, sst2"),
        ("--task sst2 --limit 3", "--limit: expected none with --predictions-for"),
        ("--task sst2 --patterns", "--patterns: expected none with --predictions-for"),
        ("--task sst2 --data-dir empty", "expected test.tsv"),
    ],
)
def test_what_gives_no_file_of_the_server_is_refused(options, told, tmp_path, monkeypatch, capsys):
    toys.write_labelled(tmp_path, WORDS, ["negative", "positive"], SHAPE)
    (tmp_path / "empty").mkdir()
    write_split(tmp_path, tasks.task("sst2"), "test", [["wa"]])
    monkeypatch.chdir(tmp_path)
    folder = "" if "--data-dir" in options else "--data-dir ."
    command = f"evaluate teacher --predictions-for glue {options} {folder}".split()
    assert cli.main(command) in (1, 2)
    assert told in capsys.readouterr().err
    assert not (tmp_path / "predictions").exists()
