import dataclasses
import json
import shutil

import numpy as np
import planted_outputs
import pytest

import export
from export.checking.outputs import model_logits
from export.targets import mediapipe, mediapipe_checks
from tfdistill import errors, manifest
from tfdistill.tasks import Examples
from tfdistill.tflite import TfliteModel, inspection
from tfdistill.tokenization.reading import read_tokenizer


@pytest.fixture
def folder(exported, tmp_path):
    """The toy's export in int8 of two lengths and logits, told to be about single texts."""
    source = exported("dynamic_wi8_afp32")
    copy = shutil.copytree(source.path.parent, tmp_path / "export")
    card = source.card.model_copy(
        update={"task": source.card.task.model_copy(update={"pair": False})}
    )
    manifest.write_manifest(card, copy)
    return copy


def test_the_copy_gives_the_probabilities_of_the_longest_signature(folder, toy, tmp_path, packed):
    path = export.to_mediapipe(folder, tmp_path / "mediapipe.tflite")

    report = inspection.inspect(path)
    assert list(report.signatures) == ["len16"] and len(report.graphs) == 1
    assert "TFLITE_METADATA" in report.metadata
    assert packed(path) == {
        "vocab.txt": toy.vocab_file.read_bytes(),
        "labels.txt": b"no\nyes\nmaybe\n",
    }
    file, copy = TfliteModel(folder / "model.tflite"), TfliteModel(path)
    temperature = manifest.read_manifest(folder).confidence.temperature
    assert temperature != 1
    for i in range(20):
        row, types = toy.encoded.row(i), toy.encoded.row_types(i)
        logits = file.predict(row, types, length=16).astype(np.float64) / temperature
        expected = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(copy.predict(row, types), expected, atol=1e-6)


def test_neither_two_texts_nor_a_length_that_the_file_lacks_are_run(exported, folder, tmp_path):
    before = sorted(tmp_path.iterdir())
    for source, options, message in (
        (exported("float32").path, {}, "takes one text, the task has two"),
        (folder, {"length": 32}, r"one of \[8, 16\], received 32"),
    ):
        with pytest.raises(errors.ConfigError, match=message):
            export.to_mediapipe(source, tmp_path / "mediapipe.tflite", **options)
    assert sorted(tmp_path.iterdir()) == before


def test_an_existing_file_is_only_replaced_when_told_to_and_the_export_never(folder, tmp_path):
    path = tmp_path / "mediapipe.tflite"
    path.write_text("mine")
    before = (folder / "model.tflite").read_bytes()

    with pytest.raises(errors.OutputExistsError):
        export.to_mediapipe(folder, path)
    with pytest.raises(errors.ConfigError, match="expected another file"):
        export.to_mediapipe(folder, folder / "model.tflite", overwrite=True)
    assert (path.read_text(), (folder / "model.tflite").read_bytes()) == ("mine", before)
    export.to_mediapipe(folder, path, overwrite=True)
    assert len(path.read_bytes()) > 1000


def test_the_golden_examples_that_fit_are_checked_and_random_ids(folder):
    card = manifest.read_manifest(folder)
    golden = json.loads((folder / "golden.json").read_text())["examples"]

    chosen = mediapipe_checks.examples_of(card, folder, 8)
    drawn = mediapipe_checks.examples_of(card.model_copy(update={"golden_file": None}), folder, 8)

    assert len(drawn) < len(chosen) < len(drawn) + len(golden)
    assert all(len(ids) == len(types) <= 8 for ids, types in chosen)
    assert [len(ids) for ids, _ in drawn] == [8] * len(drawn) and drawn
    assert max(max(ids) for ids, _ in drawn) < card.architecture.vocab_size


@pytest.mark.slow
@pytest.mark.parametrize("fault", planted_outputs.MEDIAPIPE)
def test_a_planted_fault_is_not_written(fault, folder, tmp_path):
    planted = planted_outputs.MEDIAPIPE[fault]
    with planted.planted(), pytest.raises(errors.ParityError, match=planted.message):
        export.to_mediapipe(folder, tmp_path / "mediapipe.tflite")
    assert not (tmp_path / "mediapipe.tflite").exists()


@pytest.mark.slow
def test_a_fault_of_the_files_packed_into_an_export_is_not_written(toy, tmp_path):
    planted = planted_outputs.MEDIAPIPE["labels exchanged"]
    single = dataclasses.replace(toy.task, pair_column=None)
    options = {"task": single, "lengths": (16,), "softmax": True, "metadata": True}
    with planted.planted(), pytest.raises(errors.ExportError, match=planted.message):
        toy.export(tmp_path / "model.tflite", quantize="float32", **options)
    assert not (tmp_path / "model.tflite").exists()


def labelled(toy, change=str):
    """The texts of the toy alone, changed, with the answers of the model as labels."""
    texts = toy.texts.texts[:40]
    rows = read_tokenizer(toy.vocab_file).encode_batch(texts, None, 16)
    labels = model_logits(toy.model, rows).argmax(axis=1).astype(np.int32)
    task = dataclasses.replace(toy.task, pair_column=None)
    return Examples(task, [change(text) for text in texts], None, labels)


def test_accents_that_mediapipe_keeps_are_counted_and_their_cost_refused(
    folder, toy, tmp_path, monkeypatch, caplog
):
    """Every second text has an accent; a word with one is [UNK] there, which means "maybe"."""
    plain = labelled(toy)
    texts = [text + " ẃ1" * (i % 2) for i, text in enumerate(plain.texts)]
    accented = dataclasses.replace(plain, texts=texts, labels=np.zeros(len(texts), np.int32))

    def answer(copy, encoded):
        unknown = [1 in encoded.row(i) for i in range(len(encoded))]
        return np.eye(3)[np.where(unknown, 2, 0)]

    monkeypatch.setattr(mediapipe_checks, "file_outputs", answer)
    with pytest.raises(errors.ParityError, match=r"splits 20 of 40 texts .* 1 -> 0.5"):
        export.to_mediapipe(folder, tmp_path / "mediapipe.tflite", texts=accented)
    assert not (tmp_path / "mediapipe.tflite").exists()

    export.to_mediapipe(folder, tmp_path / "mediapipe.tflite", texts=accented, max_drop=0.5)
    assert "accuracy 1.0000 -> 0.5000" in caplog.text


def test_texts_split_alike_cost_nothing_and_others_without_labels_are_counted(
    folder, toy, tmp_path, caplog
):
    there = mediapipe_checks.encode(["W1, w2 W3"], read_tokenizer(toy.vocab_file), 16)
    assert there.ids.tolist() == [2, 6, 1, 7, 8, 3]
    accented = dataclasses.replace(labelled(toy, lambda text: text + " ẃ1"), labels=None)
    for texts, told in (
        (labelled(toy, str.upper), "splits 0 of 40 texts"),
        (accented, "what that costs is not known"),
    ):
        with caplog.at_level("INFO"):
            export.to_mediapipe(folder, tmp_path / "copy.tflite", texts=texts, overwrite=True)
        assert told in caplog.text


def test_an_export_of_probabilities_gets_no_second_softmax(folder, toy, tmp_path):
    first = export.to_mediapipe(folder, tmp_path / "folder" / "model.tflite")
    card = manifest.read_manifest(folder)
    report = inspection.inspect(first)
    record = card.model.model_copy(
        update={"sha256": report.sha256, "size_bytes": report.size_bytes}
    )
    signatures = {"len16": card.signatures["len16"]}
    for name in ("vocab.txt", "labels.txt", "golden.json"):
        shutil.copy(folder / name, first.parent)
    changed = {"model": record, "softmax": True, "signatures": signatures, "confidence": None}
    manifest.write_manifest(card.model_copy(update=changed), first.parent)

    second = export.to_mediapipe(first, tmp_path / "second.tflite")

    a, b = (inspection.inspect(path).graphs[0] for path in (first, second))
    assert dataclasses.asdict(a) == dataclasses.asdict(b)


def test_what_could_not_go_on_is_known_before_the_export(toy):
    single = dataclasses.replace(toy.task, pair_column=None)
    options = {"task": single, "labels": None, "tokenizer": read_tokenizer(toy.vocab_file)}
    mediapipe.check_mediapipe(toy.model, **options)
    cased, middle = (
        options["tokenizer"].replace(**change)
        for change in ({"lower_case": False}, {"truncation": "middle"})
    )
    for change in ({"task": toy.task}, {"tokenizer": cased}, {"tokenizer": middle}):
        with pytest.raises(errors.ConfigError):
            mediapipe.check_mediapipe(toy.model, **{**options, **change})
