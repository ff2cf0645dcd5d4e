"""A run cuts the vocabulary of its teacher to its texts and languages, before all else."""

import shutil

import numpy as np
import pytest
import toys
import unigrams

from tfdistill import config, errors, models, weights
from tfdistill.compress import languages
from tfdistill.run import cutting, deliver, prepare
from tfdistill.tokenization.unigram import MARK

TRAIN = ["the film is good", "the film is bad", "very fun", "not fun.", "a dull film!"]
DEV = ["das ist gut", "the bad film", "хорош"]


def save_teacher(folder, **changes):
    tokenizer = unigrams.unigram()
    shape = toys.SHALLOW_TEACHER.replace(
        vocab_size=tokenizer.vocab_size, pad_token_id=1, max_positions=16, pooler=False, **changes
    )
    model = toys.randomise(models.build_embedder(shape, pooling="mean"), 1)
    return weights.save_hf(model, folder, tokenizer=tokenizer, max_length=14)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("cutting")
    save_teacher(root / "teacher")
    for name, texts in (("train", 4 * TRAIN), ("dev", DEV), ("test", DEV[1:])):
        rows = [
            f"{text}\t{'np'[index % 2]}\t{'ru' if text == DEV[2] else 'en'}"
            for index, text in enumerate(texts)
        ]
        lines = ["text\tlabel\tlang", *rows]
        (root / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
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
    assert part.max_length == whole.max_length == 14 < part.config.max_positions
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

    rows = {(row.texts, row.language): row for row in record.rows}
    dev, test = rows["development", ""], rows["test", ""]
    assert (record.num_pieces_before, record.words_of) == (unigrams.unigram().vocab_size, "")
    assert (dev.texts, dev.num_texts, dev.num_changed) == ("development", 3, 2)
    assert (test.texts, test.num_texts, test.num_changed) == ("test", 2, 1)
    assert (dev.num_unknown, dev.num_unknown_before) == (1, 0), "Cyrillic letters, fused"
    assert dev.num_pieces > dev.num_pieces_before
    russian = rows["test", "ru"]
    assert (russian.num_texts, russian.num_changed, russian.num_unknown) == (1, 1, 1)
    assert rows["test", "en"].num_changed == 0 and len(rows) == 6
    assert any("test ru: 100.0% of 1 texts cut otherwise" in line for line in record.lines)


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


def test_a_model_that_was_only_cut_goes_with_the_student_and_comes_back(prepared, folder, tmp_path):
    root = shutil.copytree(prepared[0], tmp_path / "run")
    (weights_file,) = root.glob("data/cut/*/hf/model.safetensors")
    content, record = weights_file.read_bytes(), cutting.record_of(root)
    deliver.drop_scratch(root)
    assert [path.name for path in root.glob("data/cut/*")] == [cutting.RECORD]
    assert cutting.record_of(root) == record
    again = prepare.prepare(recipe(folder), root)[0]
    assert again.tokenizer.digest == prepared[1].tokenizer.digest
    assert weights_file.read_bytes() == content


@pytest.mark.slow
def test_every_stage_has_the_cut_teacher_and_the_student_its_table(folder, tmp_path, until_fit):
    distiller, _ = until_fit(recipe(folder), tmp_path / "run")

    size = cutting.record_of(tmp_path / "run").num_pieces
    assert models.config_of(distiller.student).vocab_size == size
    assert models.config_of(distiller.teacher).vocab_size == size
    saved = config.saved_recipe(tmp_path / "run")
    assert saved.data.cut == config.CutConfig() and saved.teacher.source == f"{folder / 'teacher'}"
    of_run = config.data_of_run(str(tmp_path / "run"))
    assert of_run.cut is None, "its models are cut already"


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
