"""Commands that cut a vocabulary of many languages: what they plan, and what they write."""

import itertools
import json

import numpy as np
import pytest
import toys
import unigrams

from tfdistill import cli, config, manifest, models, results, weights
from tfdistill.commands.models import general_of
from tfdistill.io import ledger
from tfdistill.tokenization import unigram
from tfdistill.tokenization.reading import exported_tokenizer
from tfdistill.tokenization.unigram import MARK

WORDS = "the good bad film is not a very was fun dull".split()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with a sentence encoder in `teacher`, labelled texts in `moods.csv`, and German."""
    folder = tmp_path_factory.mktemp("languages")
    tokenizer = unigrams.unigram()
    shape = toys.SHALLOW_TEACHER.replace(
        vocab_size=tokenizer.vocab_size, pad_token_id=1, max_positions=48, pooler=False
    )
    model = toys.randomise(models.build_embedder(shape, pooling="mean"), 1)
    weights.save_hf(model, folder / "teacher", tokenizer=tokenizer, max_length=40)
    shape = shape.replace(family="tinybert", pooler=True)
    names = ("good", "other")
    tuned = toys.randomise(models.build_classifier(shape, 2), 1)
    weights.save_hf(tuned, folder / "tuned", labels=names, tokenizer=tokenizer)
    texts = [" ".join(words) for words in itertools.islice(itertools.permutations(WORDS, 3), 300)]
    rows = [f"{text},{'good' if 'good' in text else 'other'}" for text in texts]
    (folder / "moods.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    (folder / "german.txt").write_text("gut und schlecht\nnicht gut\n", encoding="utf-8")
    return folder


@pytest.fixture
def of_many_languages(monkeypatch):
    monkeypatch.setattr(unigram, "_OF_MANY_LANGUAGES", 50)


def plan(inputs, capsys, *more):
    command = ["quickstart", "--teacher", str(inputs / "teacher"), "--student", "pruned:layers=1"]
    command += ["--data", str(inputs / "moods.csv"), "--out", str(inputs / "run"), "--dry-run"]
    assert cli.main([*command, "--json", *more]) == 0
    shown = json.loads(capsys.readouterr().out)
    return shown["recipe"]["data"]["cut"], shown["student"]["vocab_size"], shown["notes"]


@pytest.mark.slow
def test_a_plan_cuts_a_vocabulary_of_many_languages_and_says_what_that_costs(
    inputs, capsys, of_many_languages
):
    cut, size, notes = plan(inputs, capsys)
    assert cut == config.CutConfig().model_dump(mode="json") and size < 80
    (said,) = [note for note in notes if note.startswith("vocabulary: ")]
    assert f"{size} of {unigrams.unigram().vocab_size} pieces" in said and "--languages" in said
    assert any(note.startswith("test: 0.0% of ") for note in notes)

    german, larger, notes = plan(inputs, capsys, "--languages-of", str(inputs / "german.txt"))
    assert german["languages_of"] == str(inputs / "german.txt") and larger > size
    assert any("for frequent words of german.txt" in note for note in notes)
    assert plan(inputs, capsys, "--set", "data.cut=null")[:2] == (None, 136)


def test_another_vocabulary_is_cut_only_where_that_is_asked_for(inputs, capsys):
    assert plan(inputs, capsys)[:2] == (None, unigrams.unigram().vocab_size)
    cut, size, _ = plan(inputs, capsys, "--vocab-size", "90")
    assert cut["vocab_size"] == 90 and size < 80, "no more than the texts need"


def test_the_page_has_a_line_for_the_table_of_words(inputs, capsys, of_many_languages):
    command = ["quickstart", "--teacher", str(inputs / "teacher"), "--student", "pruned:layers=1"]
    command += ["--data", str(inputs / "moods.csv"), "--out", str(inputs / "run"), "--dry-run"]
    assert cli.main(command) == 0
    assert "word table: 62 pieces x 12, 744 B as dynamic_wi8_afp32\n" in capsys.readouterr().out
    assert cli.main([*command, "--size-mb", "0.001"]) == 0
    assert "within 0.001 MB it is too large" in capsys.readouterr().out
    more = ["--languages-of", str(inputs / "german.txt"), "--size-mb"]
    cut, size, notes = plan(inputs, capsys, *more, "1")
    assert (cut["vocab_size"], size) == (None, 66)
    cut, size, notes = plan(inputs, capsys, *more, "0.0374")
    assert cut["vocab_size"] == size == 62 and any("; 4 of rarer words had no" in n for n in notes)
    assert cli.main([*command[:3], *command[5:], *more, "1", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert any("the budget beside a word table of at least 10 dB" in n for n in shown["notes"])
    form = {"num_pieces": 66, "rank": 12, "bits": 8, "size_bytes": 66 * 12}
    assert form.items() <= shown["word_table"].items() and shown["word_table"]["decibels"] > 30
    assert shown["student"]["num_layers"] == 2 and shown["student"]["vocab_size"] == 66


def test_distill_cuts_alike_and_its_plan_says_so(inputs, capsys, of_many_languages):
    command = ["distill", "--teacher", str(inputs / "tuned"), "--student", "pruned:layers=1"]
    command += ["--data", str(inputs / "moods.csv"), "--out", str(inputs / "run"), "--dry-run"]
    assert cli.main([*command, "--languages-of", str(inputs / "german.txt")]) == 0
    page = capsys.readouterr().out
    assert "vocab     vocabulary: " in page and "frequent words of german.txt" in page
    assert "vocab     development: 0.0% of " in page
    assert cli.main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recipe"]["data"]["cut"] is not None


def test_an_encoder_that_is_exported_without_texts_says_what_reads_it(inputs, tmp_path, capsys):
    command = ["export", str(inputs / "teacher"), "--prompt", "query: ", "--lengths", "16"]
    assert cli.main([*command, "--out", str(tmp_path / "file")]) == 0
    shown = capsys.readouterr().out.splitlines()[-1]
    assert shown == f"next: tfdistill index texts.txt --model {tmp_path / 'file'}"
    (tmp_path / "texts.txt").write_text("a good film\nthe bad one\nvery dull\n", encoding="utf-8")
    command = ["index", str(tmp_path / "texts.txt"), "--model", str(tmp_path / "file")]
    assert cli.main(command) == 0
    card = (tmp_path / "file" / "README.md").read_text(encoding="utf-8")
    assert "settings (Unigram, `tokenizer.json`; `query:` in front of each text)." in card
    assert cli.main(["predict", str(tmp_path / "file"), "a text"]) != 0
    assert "`tfdistill index` searches by vectors" in capsys.readouterr().err


def test_what_a_cut_teacher_was_before_is_the_cut_model_of_its_run(inputs, tmp_path):
    values = {"source": str(inputs / "teacher"), "finetune": {"epochs": 1}}
    data = {"task": "mood", "dir": "x", "text_column": "text", "label_column": "label", "cut": {}}
    recipe = toys.one_stage(data, values, {"preset": "pruned:layers=1"}, {"kind": "joint"})
    (tmp_path / config.RECIPE_FILE).write_text(config.dump_recipe(recipe))
    assert general_of(str(tmp_path)) is None  # that of the recipe reads other words
    cut = tmp_path / "data" / "cut" / "teacher-source" / "hf"
    cut.mkdir(parents=True)
    (cut / "config.json").write_text("{}")
    ledger.write_checksums(cut.parent)
    assert general_of(str(tmp_path)) == str(cut)
    (cut / "config.json").unlink()  # a part of it is not it
    assert general_of(str(tmp_path)) is None


def test_options_of_the_vocabulary_exclude_others(inputs, capsys):
    command = ["export", str(inputs / "teacher"), "--languages-of", str(inputs / "german.txt")]
    assert cli.main([*command, "--vocab-prune", str(inputs / "german.txt")]) == 2
    assert "--vocab-prune: expected no other option of the vocabulary" in capsys.readouterr().err


@pytest.mark.slow
def test_an_encoder_is_cut_and_exported_without_training(inputs, tmp_path, capsys):
    command = ["export", str(inputs / "teacher"), "--languages-of", str(inputs / "german.txt")]
    command += [
        "--quantize",
        "float32",
        "--lengths",
        "16",
        "--out",
        str(tmp_path / "out"),
        "--hf",
        str(tmp_path / "hf"),
        "--json",
    ]
    assert cli.main(command) == 0
    shown = json.loads(capsys.readouterr().out)
    card = manifest.read_manifest(tmp_path / "out")
    tokenizer = exported_tokenizer(tmp_path / "out", card.tokenizer)
    assert shown["vocabulary"]["tokens"] == tokenizer.vocab_size < 90
    assert {f"{MARK}gut", "ü"} <= {*tokenizer.vocab} and f"{MARK}film" not in tokenizer.vocab
    assert weights.load_embedder(tmp_path / "hf").max_length == 40  # as the folder says

    whole = weights.load_embedder(inputs / "teacher")
    ids = np.array([whole.tokenizer.encode("nicht gut")], np.int32)
    named = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
    expected = whole.model({name: named[name] for name in whole.model.input_names}).numpy()
    from tfdistill.tflite import TfliteModel

    encoded = tokenizer.encode_batch(["nicht gut"])
    with TfliteModel(tmp_path / "out" / "model.tflite") as file:
        received = file.predict(encoded.row(0), encoded.row_types(0), pad_id=encoded.pad_id)
    np.testing.assert_allclose(np.ravel(received), expected[0], atol=1e-5)


@pytest.mark.slow
@pytest.mark.spine
def test_a_quickstart_ships_the_cut_vocabulary_and_compares_with_the_whole(
    inputs, tmp_path, capsys, of_many_languages
):
    out = tmp_path / "run"
    command = ["quickstart", "--teacher", str(inputs / "teacher"), "--student", "pruned:layers=1"]
    command += ["--data", str(inputs / "moods.csv"), "--out", str(out)]
    settings = [
        "teacher.finetune.min_steps=4",
        "teacher.finetune.epochs=1",
        "stages.joint.epochs=1",
    ]
    settings += [
        "stages.joint.min_steps=null",
        "teacher.allow_weak=true",
        "student.allow_weak=true",
    ]
    settings += ["benchmark.runs=3", "benchmark.min_seconds=0", "benchmark.repetitions=1"]
    settings += ["teacher.export=false"]
    assert cli.main([*command, *(part for each in settings for part in ("--set", each))]) == 0

    page, told = capsys.readouterr()
    metrics = results.read_result_file(out / results.METRICS_FILE, results.RunMetrics)
    scores = {row.name: row.metrics for row in metrics.baselines}
    assert scores["frozen_teacher_uncut"] == scores["frozen_teacher"], "no text lost a piece"
    assert metrics.vocabulary.num_pieces < 80 and "  test: 0.0% of " in page
    assert told.count("vocabulary: ") == 2, "the plan and the run"
    card = manifest.read_manifest(out / "export")
    tokenizer = exported_tokenizer(out / "export", card.tokenizer)
    assert tokenizer.vocab_size == metrics.vocabulary.num_pieces
    assert "was cut to" in (out / "report.md").read_text(encoding="utf-8")
