"""Folders with XLM-RoBERTa's tokenizer through the commands, and the prompts of encoders."""

import json
import shutil

import numpy as np
import pytest
import toys
import transformers
import unigrams
from test_weights.edits import edit_json
from test_weights.references import TOLERANCE, in_transformers

import export
from export.model import heads, request
from tfdistill import cli, config, errors, manifest, models, predictor, run, tasks, weights
from tfdistill.data import batches, from_config, shard_files
from tfdistill.run import inputs, prepare

TOKENIZER = unigrams.unigram()
SHAPE = toys.SHALLOW_TEACHER.replace(
    vocab_size=TOKENIZER.vocab_size, max_positions=16, pad_token_id=1, type_vocab_size=1
)
PROMPT = "the good: "
PAIRS = [
    ("the good film", "is it a very good film?"),
    ("фильм хорош", "film schlecht"),
    ("ＴＨＥ ﬁlm was dull", "the film was dull"),
    ("अच्छा फिल्म", "nicht gut"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A table of pairs with a label and a number, and plain texts."""
    folder = tmp_path_factory.mktemp("unigram")
    more = [(f"{a} {i}", f"{b} {i}") for i in range(6) for a, b in PAIRS]
    for split, pairs in (("train", more), ("dev", PAIRS)):
        rows = [f"{a}\t{b}\t{('no', 'yes')[i % 2]}\t{i}" for i, (a, b) in enumerate(pairs)]
        lines = "\n".join(["a\tb\tkind\tscore", *rows, ""])
        (folder / f"{split}.tsv").write_text(lines, encoding="utf-8")
    texts = "\n".join(" ".join(pair) for pair in more)
    (folder / "texts.txt").write_text(texts, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def kinds(root):
    """A classifier of the pairs."""
    model = toys.randomise(models.build_classifier(SHAPE, 2), 1)
    return weights.save_hf(model, root / "kinds", labels=["no", "yes"], tokenizer=TOKENIZER)


@pytest.fixture(scope="module")
def near(root):
    """A sentence encoder with a prompt."""
    encoder = toys.randomise(models.build_embedder(SHAPE.replace(pooler=False)), 2)
    return weights.save_hf(encoder, root / "near", tokenizer=TOKENIZER.replace(prompt=PROMPT))


def columns(root, *, label="kind", kind="classification"):
    line = f"--task pairs --data-dir {root} --text-column a --pair-column b --kind {kind}"
    return [*line.split(), "--label-column", label, "--max-length", "16"]


def called(command, capsys):
    assert cli.main([*map(str, command), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def features_of(tokenizer, texts, pairs=None):
    return batches.pad(tokenizer.encode_batch(list(texts), pairs and list(pairs), 16), range(4))


def answers_of(folder):
    """The logits of the pairs."""
    loaded = weights.load_classifier(folder)
    features = features_of(loaded.tokenizer, *zip(*PAIRS, strict=True))
    return loaded.model.predict(features, verbose=0)


@pytest.mark.slow
def test_a_folder_is_evaluated_on_pairs(root, kinds, capsys):
    figures = called(["evaluate", kinds, *columns(root)], capsys)
    right = np.argmax(answers_of(kinds), 1) == [0, 1, 0, 1]
    assert figures == {"accuracy": np.mean(right), "num_examples": 4}


def test_a_corpus_is_prepared_for_it(root, tmp_path, capsys):
    TOKENIZER.save_files(tmp_path)
    vocab, out = tmp_path / "tokenizer.json", tmp_path / "shards"
    command = ["data", "prepare", root / "texts.txt", "--vocab", vocab, "--out", out]
    assert called([*command, "--max-length", "12"], capsys)["num_examples"] > 10
    assert shard_files.corpus_tokenizer(out).digest == TOKENIZER.digest


@pytest.mark.slow
def test_an_exported_file_predicts_is_evaluated_and_measured(root, kinds, tmp_path, capsys):
    command = ["export", kinds, *columns(root), "--quantize", "float32", "--out", tmp_path / "out"]
    assert cli.main([*map(str, command), "--lengths", "16", "--allow-weak"]) == 0
    capsys.readouterr()
    with predictor.Predictor(tmp_path / "out") as opened:
        answers = [opened.predict(*pair) for pair in PAIRS]
    assert [answer.label for answer in answers] == [
        ("no", "yes")[i] for i in answers_of(kinds).argmax(1)
    ]
    accuracy = called(["evaluate", tmp_path / "out", *columns(root)], capsys)["accuracy"]
    assert accuracy == np.mean([a.label == ("no", "yes")[i % 2] for i, a in enumerate(answers)])
    command = ["benchmark", tmp_path / "out", "--out", tmp_path / "b.json", "--runs", "2"]
    options = "--warmup 0 --min-seconds 0 --repetitions 1"
    assert cli.main([*map(str, command), *options.split()]) == 0
    assert json.loads((tmp_path / "b.json").read_text())["failures"] == []


@pytest.mark.slow
def test_the_best_of_several_files_comes_with_its_vocabulary(root, kinds, tmp_path):
    data = prepare.load_data(
        root, kinds, task="n", text_column="a", pair_column="b", label_column="kind",
        kind="classification", max_length=16, allow_weak=True,
    )  # fmt: skip
    path, names = tmp_path / "model.tflite", ("dynamic_wi8_afp32", "float16")
    model = weights.load_classifier(kinds).model
    export.auto(model, path, names=names, data=data, max_drop=1, allow_weak=True)
    card = manifest.read_manifest(tmp_path, verify=True)
    assert (card.tokenizer.kind, card.tokenizer.vocab.file) == ("unigram", "tokenizer.json")
    prompted = data.read_by(data.tokenizer.replace(prompt=PROMPT))
    path = tmp_path / "prompted" / "model.tflite"
    export.to_tflite(model, path, data=prompted, quantize=card.quantization, allow_weak=True)
    with predictor.Predictor(path) as opened:
        assert opened.predict(*PAIRS[0]).label in ("no", "yes")
        ids = opened._encode(*PAIRS[0], None).ids.tolist()
    assert ids == data.tokenizer.encode(PROMPT + PAIRS[0][0], PAIRS[0][1], 16)


@pytest.mark.slow
def test_a_masked_lm_is_trained_on_text_from_it(root, tmp_path, capsys):
    model = models.build_masked_lm(SHAPE.replace(pooler=False))
    start = weights.save_hf(model, tmp_path / "start", tokenizer=TOKENIZER)
    command = ["pretrain", start, "--corpus", root / "texts.txt", "--out", tmp_path / "lm"]
    options = "--steps 2 --batch-size 4 --max-length 16 --set evaluations=1 --set held_out=0.2"
    called([*command, *options.split()], capsys)
    written = weights.load_masked_lm(tmp_path / "lm" / "model" / "hf")
    assert written.tokenizer.digest == TOKENIZER.digest
    assert written.config.pad_token_id == 1


def vectors_there(folder, texts):
    """By the definition of sentence-transformers, over the encoder of transformers."""
    told = json.loads((folder / "config_sentence_transformers.json").read_text())
    prompt = told["prompts"][told["default_prompt_name"]]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    prompted = [prompt + text for text in texts]
    features = tokenizer(
        prompted, padding=True, truncation=True, max_length=16, return_tensors="np"
    )
    states = in_transformers(folder, add_pooling_layer=False)(dict(features))[0].numpy()
    mask = features["attention_mask"][..., None]
    mean = (states * mask).sum(1) / mask.sum(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


@pytest.mark.slow
def test_vectors_behind_a_prompt_are_those_of_sentence_transformers(root, near):
    loaded = weights.load_embedder(near)
    texts = [text for text, _ in PAIRS]
    received = loaded.model.predict(features_of(loaded.tokenizer, texts), verbose=0)
    expected = vectors_there(near, texts)
    np.testing.assert_allclose(received, expected, atol=TOLERANCE)
    data = prepare.load_data(root, near, task="n", text_column="a", pair_column="b",
                             label_column="score", kind="embedding", max_length=16,
                             allow_weak=True)  # fmt: skip
    assert data.dev.encoded.row(0).tolist() == loaded.tokenizer.encode(PAIRS[0][0], None, 16)
    # A classifier on the same encoder reads texts as they are, unless it is told otherwise.
    assert weights.load_model(near, "sequence", num_labels=2).tokenizer.prompt == ""


@pytest.mark.slow
def test_an_exported_encoder_puts_its_prompt_in_front(root, near, tmp_path, capsys):
    texts = [text for text, _ in PAIRS]
    for number, (prompt, options) in enumerate(
        {PROMPT: [], "not: ": ["--prompt", "not: "]}.items()
    ):
        out = tmp_path / str(number)
        command = [
            "export",
            near,
            "--quantize",
            "float32",
            "--lengths",
            "16",
            "--out",
            out,
        ]
        assert cli.main([*map(str, command), *options, "--hf", str(tmp_path / f"hf{number}")]) == 0
        card = manifest.read_manifest(out)
        assert (card.tokenizer.prompt, card.requires) == (prompt, ("tokenizer.prompt",))
        expected = vectors_there(tmp_path / f"hf{number}", texts)
        source = inputs.open_answerer(str(out))
        spec = tasks.TaskSpec("near", "a", "score", "b", kind="embedding")
        settings = config.DataConfig(task="near", kind="embedding", text_column="a")
        rows = source.encode(tasks.Examples(spec, texts, None, None), settings)
        received = source.outputs(batches.Batches(rows, shuffle=False), spec)
        np.testing.assert_allclose(received, expected, atol=10 * TOLERANCE)
    capsys.readouterr()
    table = ["index", root / "texts.txt", "--model", out]
    assert called(table, capsys)["count"] == 24
    nearest = called(
        ["index", out / "search", "--query", " ".join(f"{text} 1" for text in PAIRS[1])], capsys
    )
    assert nearest["matches"][0]["score"] == pytest.approx(1, abs=1e-3)


@pytest.mark.slow
def test_a_student_is_taught_behind_the_prompt_that_is_named(root, near, tmp_path):
    columns = {"text_column": "a", "pair_column": "b", "label_column": "score", "kind": "embedding"}
    recipe = toys.one_stage(
        {"task": "near", "dir": str(root), "max_length": 16, "prompt": "not: ", **columns},
        {"source": str(near)},
        {"preset": "pruned:layers=1"},
        {"kind": "embedding", "epochs": 1, "min_steps": 2},
    )
    run.distill_variant(recipe, tmp_path / "run")
    student = weights.load_embedder(tmp_path / "run" / "student" / "hf")
    assert (student.tokenizer.prompt, student.config.num_layers) == ("not: ", 1)


def test_a_prompt_is_refused_where_answers_stand_at_places():
    columns = {"text_column": "a", "label_column": "b", "kind": "token"}
    with pytest.raises(errors.ConfigError, match=r"data\.prompt: expected none, or a task"):
        from_config.declared_task(config.DataConfig(task="tags", prompt="x", **columns))
    with pytest.raises(errors.ConfigError, match="none with a classifier of tokens, received 'x'"):
        request.check_prompt(TOKENIZER.replace(prompt="x"), heads.HEADS["token"])


@pytest.mark.slow
def test_a_classifier_keeps_its_prompt_and_is_not_for_transformers(tmp_path):
    model = models.build_classifier(SHAPE, 2)
    tokenizer = TOKENIZER.replace(prompt=PROMPT)
    weights.save_hf(model, tmp_path / "a", tokenizer=tokenizer)
    assert weights.load_classifier(tmp_path / "a").tokenizer.prompt == PROMPT
    with pytest.raises(errors.WeightsError, match="a prompt stands in front of texts"):
        weights.save_hf(model, tmp_path / "b", tokenizer=tokenizer, for_transformers=True)


@pytest.mark.parametrize(
    ("library", "pooling", "message"),
    [
        (
            {"default_prompt_name": "x", "prompts": {"y": "z"}},
            {},
            "expected one of y, received 'x'",
        ),
        ({"prompts": {"y": 3}}, {}, "prompts: expected texts by their names"),
        ({}, {"include_prompt": False}, "include_prompt: expected true"),
    ],
)
def test_prompts_that_are_not_computed_are_refused(library, pooling, message, near, tmp_path):
    folder = shutil.copytree(near, tmp_path / "near")
    edit_json(folder / "config_sentence_transformers.json", **library)
    edit_json(folder / "1_Pooling" / "config.json", **pooling)
    with pytest.raises(errors.WeightsError, match=message):
        weights.load_embedder(folder)
