"""A run cuts the vocabulary of its teacher to its texts and languages, before all else."""

import sys
import types

import numpy as np
import pytest
import toys
import unigrams

from tfdistill import config, errors, models, weights
from tfdistill.compress import languages
from tfdistill.run import cutting, prepare
from tfdistill.tokenization.unigram import MARK

TRAIN = ["the film is good", "the film is bad", "very fun", "not fun.", "a dull film!"]
DEV = ["das ist gut", "the bad film", "хорош"]


def save_teacher(folder, **changes):
    tokenizer = unigrams.unigram()
    shape = toys.SHALLOW_TEACHER.replace(
        vocab_size=tokenizer.vocab_size, pad_token_id=1, max_positions=16, pooler=False, **changes
    )
    model = toys.randomise(models.build_embedder(shape, pooling="mean"), 1)
    return weights.save_hf(model, folder, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("cutting")
    save_teacher(root / "teacher")
    for name, texts in (("train", 4 * TRAIN), ("dev", DEV), ("test", DEV[1:])):
        rows = [f"{text}\t{'np'[index % 2]}" for index, text in enumerate(texts)]
        (root / f"{name}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return root


def recipe(folder, **data):
    section = {"task": "mood", "dir": str(folder), "max_length": 12, "cut": {}, **data}
    section |= {"text_column": "text", "label_column": "label"}
    return toys.one_stage(
        section,
        {"source": str(folder / "teacher"), "finetune": {"epochs": 1}},
        {"preset": "pruned:layers=1"},
        {"kind": "joint", "epochs": 1},
    )


@pytest.fixture(scope="module")
def prepared(folder, tmp_path_factory):
    root = tmp_path_factory.mktemp("run")
    return root, prepare.prepare(recipe(folder), root)[0]


def test_the_cut_teacher_gives_the_training_texts_the_same_pieces_and_vectors(prepared, folder):
    root, data = prepared
    changed = cutting.with_cut_models(recipe(folder), root)
    whole = weights.load_embedder(folder / "teacher")
    part = weights.load_embedder(changed.teacher.source)

    assert changed.data.cut is None
    assert data.tokenizer.vocab == part.tokenizer.vocab
    assert part.config.vocab_size == part.tokenizer.vocab_size < whole.config.vocab_size
    assert f"{MARK}film" in part.tokenizer.vocab and "ü" in part.tokenizer.vocab
    assert {f"{MARK}gut", "щ", f"{MARK}хорош"}.isdisjoint(part.tokenizer.vocab)
    assert part.tokenizer.vocab[-1] == "<mask>" and "9" in part.tokenizer.vocab
    for text in TRAIN:
        vectors = []
        for loaded in (whole, part):
            ids = np.array([loaded.tokenizer.encode(text)], np.int32)
            features = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
            taken = {name: features[name] for name in loaded.model.input_names}
            vectors.append(np.asarray(loaded.model(taken)))
        np.testing.assert_array_equal(*vectors)


def test_the_record_says_how_texts_fare_that_did_not_choose(prepared):
    record = cutting.record_of(prepared[0])

    dev, test = record.rows
    assert (record.num_pieces_before, record.words_of) == (unigrams.unigram().vocab_size, "")
    assert (dev.texts, dev.num_texts, dev.num_changed) == ("development", 3, 2)
    assert (test.texts, test.num_texts, test.num_changed) == ("test", 2, 1)
    assert (dev.num_unknown, dev.num_unknown_before) == (1, 0), "Cyrillic letters, fused"
    assert dev.num_pieces > dev.num_pieces_before
    assert "50.0% of 2 texts cut otherwise" in record.lines[2]


def test_a_run_that_is_continued_uses_what_it_cut_and_notices_other_files(
    prepared, folder, monkeypatch
):
    root, data = prepared
    monkeypatch.setattr(languages, "choose", None)  # is not asked again
    again = prepare.prepare(recipe(folder), root)[0]
    assert again.tokenizer.digest == data.tokenizer.digest
    (cut,) = root.glob("data/cut/*/hf/config.json")
    content = cut.read_text()
    cut.write_text(content.replace("\n", "\n\n"))
    try:
        with pytest.raises(errors.WeightsError, match="the file that was saved"):
            prepare.prepare(recipe(folder), root)
    finally:
        cut.write_text(content)


def test_every_stage_has_the_cut_teacher_and_the_student_its_table(folder, tmp_path, until_fit):
    distiller, _ = until_fit(recipe(folder), tmp_path / "run")

    size = cutting.record_of(tmp_path / "run").num_pieces
    assert models.config_of(distiller.student).vocab_size == size
    assert models.config_of(distiller.teacher).vocab_size == size
    saved = config.saved_recipe(tmp_path / "run")
    assert saved.data.cut == config.CutConfig() and saved.teacher.source == f"{folder / 'teacher'}"
    of_run = config.data_of_run(str(tmp_path / "run"))
    assert of_run.cut is None, "its models are cut already"


def test_words_of_languages_are_kept_by_turns_as_far_as_there_is_room(monkeypatch, tmp_path):
    lists = {"de": ["gut", "schlecht", "nicht"], "hi": ["अच्छा", "फिल्म"], "en": ["film", "good"]}
    package = types.SimpleNamespace(
        available_languages=lambda: lists, top_n_list=lambda code, count: lists[code][:count]
    )
    monkeypatch.setitem(sys.modules, "wordfreq", package)
    tokenizer = unigrams.unigram()

    def kept(**options):
        choice = languages.choose(tokenizer, ["a film"], **options)
        return choice, {tokenizer.vocab[index] for index in choice.ids}

    alone, few = kept()
    assert f"{MARK}gut" not in few and "अ" not in few and "3 points" in alone.note
    most, all_of_them = kept(languages=("de", "hi"))
    assert {MARK + word for word in lists["de"] + lists["hi"]} <= all_of_them and "अ" in all_of_them
    assert "words of de, hi" in most.note and most.num_wanted == len(most.ids)
    bounded, some = kept(languages=("de", "hi"), vocab_size=most.num_needed + 2)
    assert len(bounded.ids) == most.num_needed + 2 and "had no room" in bounded.note
    assert {f"{MARK}gut", f"{MARK}अच्छा"} <= some, "the most frequent of each"
    (tmp_path / "hindi.txt").write_text("फिल्म фильм\nफिल्म\n", encoding="utf-8")
    _, of_file = kept(languages_of=str(tmp_path / "hindi.txt"))
    assert {f"{MARK}फिल्म", f"{MARK}фильм", "अ"} <= of_file and f"{MARK}gut" not in of_file
    with pytest.raises(errors.ConfigError, match=f"vocab_size: expected at least {len(few)}"):
        kept(vocab_size=9)
    with pytest.raises(errors.ConfigError, match="expected of de, en, hi, received 'dr'"):
        kept(languages=("dr",))
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    with pytest.raises(errors.ConfigError, match=r"pip install 'tfdistill\[languages\]'"):
        kept(languages=("de",))


@pytest.mark.parametrize(
    ("teacher", "data"),
    [
        ({"source": "preset:bert_base"}, {"vocab": "train:99"}),
        ({"answers": ["answers.csv"]}, {}),
        ({"source": "teacher"}, {"vocab": "vocab.txt"}),
    ],
)
def test_what_has_no_vocabulary_to_cut_is_refused(folder, teacher, data):
    values = recipe(folder).model_dump(mode="json")
    values["teacher"] = teacher
    values["data"] |= data
    with pytest.raises(errors.ConfigError, match=r"data\.cut: expected a task, and a teacher with"):
        config.parse_recipe(values)
