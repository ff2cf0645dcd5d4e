import dataclasses
import json
import os
import shutil

import planted_outputs
import pytest

import export
from export.targets import android_bundle, token_vectors
from tfdistill import errors, manifest
from tfdistill.io import files, reading
from tfdistill.tokenization.reading import read_tokenizer

pytestmark = pytest.mark.usefixtures("few_edge_cases")


@pytest.fixture(scope="module")
def source(exported):
    """The folder of an export with vocabulary, labels and golden vectors with texts."""
    return exported("dynamic_wi8_afp32").path.parent


@pytest.fixture(scope="module")
def assets(source, toy, few_edge_cases, tmp_path_factory):
    target = tmp_path_factory.mktemp("assets")
    export.to_android(source, target, texts=toy.texts)
    return target


def copy_of(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def described(folder, **changes):
    """The export with other words in its manifest."""
    card = json.loads((folder / "model.json").read_text())
    files.atomic_write_json(folder / "model.json", {**card, **changes})
    return folder


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_bundle_is_the_export_with_token_vectors_and_the_index_names_its_checksums(
    assets, source
):
    index = reading.read_json(assets / "bundles" / "index.json")
    folder = assets / "bundles" / "model-dynamic_wi8_afp32"
    assert manifest.read_manifest(folder) == manifest.read_manifest(source)
    names = {path.name for path in source.iterdir()}
    left_out = {".tfdistill.json", "README.md", "answers.safetensors"}
    assert {path.name for path in folder.iterdir()} == {*names, "tokens.jsonl"} - left_out
    entry = index["bundles"].pop("model-dynamic_wi8_afp32")
    assert index == {"format_version": 1, "requires": [], "bundles": {}}
    assert entry == {
        "folder": "model-dynamic_wi8_afp32",
        "quantization": "dynamic_wi8_afp32",
        "size_bytes": (folder / "model.tflite").stat().st_size,
        "device": None,
        "search": [],
        "manifest": record_of(folder / "model.json"),
        "tokens": record_of(folder / "tokens.jsonl"),
    }


def record_of(file):
    size = file.stat().st_size
    return {"file": file.name, "sha256": files.sha256_of(file), "size_bytes": size}


def test_the_token_vectors_are_what_the_tokenizer_of_the_bundle_says(assets, toy):
    folder = assets / "bundles" / "model-dynamic_wi8_afp32"
    lines = (folder / "tokens.jsonl").read_text("ascii").splitlines()
    header, *cases = map(json.loads, lines)
    tokenizer = read_tokenizer(folder / "vocab.txt")
    assert header == {
        "format_version": 1,
        "lower_case": True,
        "vocab_size": tokenizer.vocab_size,
        "num_cases": len(cases),
    }
    for case in cases:
        ids = tokenizer.encode(case["text"], case.get("pair"), case["max_length"])
        assert case["input_ids"] == ids, case
        assert sum(case.get("token_type_ids", [])) == len(ids[ids.index(tokenizer.sep_id) + 1 :])
        assert ("token_type_ids" in case) == ("pair" in case)
    real = {(text, pair) for text, pair in zip(toy.texts.texts, toy.texts.pairs, strict=True)}
    assert real <= {(case["text"], case.get("pair", "")) for case in cases}
    assert {case["max_length"] for case in cases} >= {5, 9, 16}
    cut = [case for case in cases if len(case["input_ids"]) == case["max_length"]]
    assert sum("pair" in case for case in cut) > 50


def test_a_bundle_is_replaced_only_when_told_and_foreign_files_stay(assets, source, tmp_path):
    target = copy_of(assets, tmp_path)
    folder = target / "bundles" / "model-dynamic_wi8_afp32"
    (target / "app.png").write_bytes(b"png")
    (target / "bundles" / "notes.txt").write_text("mine")
    (folder / "mine.txt").write_text("mine")
    (folder / "more").mkdir()
    (folder / "more" / "deep.txt").write_text("deep")
    before = contents(target)
    with pytest.raises(errors.OutputExistsError, match=r"dynamic_wi8_afp32: expected no bundle"):
        export.to_android(source, target)
    assert contents(target) == before

    fewer = described(copy_of(source, tmp_path / "export"), labels_file=None)
    export.to_android(fewer, target, overwrite=True)  # fewer texts than before, and no labels

    after = contents(target)
    changed = {path.name for path in before if before[path] != after.get(path)}
    assert changed == {"tokens.jsonl", "index.json", "model.json", "labels.txt"}
    assert before.keys() - after.keys() == {folder / "labels.txt"} and after.keys() <= before.keys()
    android_bundle.read_index(target, verify=True)


@pytest.mark.parametrize("damaged", ["model.tflite", "vocab.txt", "tokens.jsonl", "model.json"])
def test_a_damaged_neighbour_is_found_and_named(damaged, assets, source, tmp_path):
    target = copy_of(assets, tmp_path)
    file = target / "bundles" / "model-dynamic_wi8_afp32" / damaged
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    with pytest.raises(errors.ManifestError, match=damaged):
        android_bundle.read_index(target, verify=True)
    with pytest.raises(errors.ManifestError, match=damaged):
        export.to_android(source, target, name="other")
    assert not (target / "bundles" / "other").exists()


def test_a_full_disk_leaves_the_old_bundle_and_index(assets, source, tmp_path, monkeypatch):
    target = copy_of(assets, tmp_path)
    before = contents(target)
    synced = []

    def fsync(handle):
        synced.append(handle)
        if len(synced) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(errors.ExportError, match=r"No space left on device. Nothing was replaced"):
        export.to_android(source, target, overwrite=True)
    assert contents(target) == before


def test_after_a_kill_before_the_index_the_same_export_heals_it(
    assets, source, tmp_path, monkeypatch
):
    target = copy_of(assets, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(
            files, "atomic_write_text", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            export.to_android(source, target, overwrite=True)
    with pytest.raises(errors.ManifestError):
        android_bundle.read_index(target, verify=True)
    export.to_android(source, target, overwrite=True)
    android_bundle.read_index(target, verify=True)


@pytest.mark.parametrize("fault", planted_outputs.ANDROID)
def test_a_fault_of_the_written_bundle_is_named(fault, source, toy, tmp_path):
    planted = planted_outputs.ANDROID[fault]
    refusals = (errors.ParityError, errors.ManifestError)  # the latter by a file's checksum
    with planted.planted(), pytest.raises(refusals, match=planted.message):
        export.to_android(source, tmp_path / "assets", texts=toy.texts)
    assert not (tmp_path / "assets" / "bundles" / "index.json").exists()
    assert not (tmp_path / "assets" / "bundles" / "model-dynamic_wi8_afp32").exists()


def changed_export(source, tmp_path, change):
    """A copy of the export with other golden examples, and their digest in its manifest."""
    folder = copy_of(source, tmp_path)
    file = folder / "golden.json"
    golden = json.loads(file.read_text())
    change(golden["examples"])
    file.write_text(json.dumps(golden))
    return described(folder, golden_file=record_of(file))


def _exchange(key):
    def change(examples):
        examples[0][key], examples[1][key] = examples[1][key], examples[0][key]

    return change


def _without_texts(examples):
    for example in examples:
        example["text"] = None


def _only_long_ones(examples):
    examples[:] = [example for example in examples if len(example["input_ids"]) > 8]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (_exchange("text"), errors.ParityError, r"golden.json, \d texts"),
        (_exchange("outputs"), errors.ParityError, "golden.json, outputs of example 0"),
        (_only_long_ones, errors.ConfigError, r"at least the 9 tokens .* received 8\. The app"),
        (_without_texts, errors.ManifestError, "golden vectors with real texts.*--task"),
    ],
    ids=["texts exchanged", "outputs exchanged", "none of 8 tokens", "no texts"],
)
def test_golden_examples_that_the_app_could_not_answer_are_refused(
    change, error, message, source, tmp_path
):
    folder = changed_export(source, tmp_path, change)
    with pytest.raises(error, match=message):
        export.to_android(folder, tmp_path / "assets")
    assert not (tmp_path / "assets" / "bundles" / "index.json").exists()


@pytest.mark.parametrize(
    "name",
    ["", "..", "a/b", ".hidden", "a b", "_x", "müsic", "a" * 100, "CVS", "x.scc", "x."],
)
def test_a_name_that_an_app_cannot_open_is_refused_with_the_option_that_sets_it(
    name, source, tmp_path
):
    with pytest.raises(errors.ConfigError, match=r"name of a bundle.*--name"):
        export.to_android(source, tmp_path / "assets", name=name)
    assert not (tmp_path / "assets").exists()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "müsic"}, errors.ConfigError, r"name of a bundle.*--name"),
        ({"name": "m" * 300}, errors.ConfigError, r"name of a bundle.*--name"),
        ({"tokenizer": None}, errors.ManifestError, "expected a vocabulary"),
    ],
)
def test_an_export_without_vocabulary_or_a_name_for_a_bundle_is_refused(
    changes, error, message, source, tmp_path
):
    folder = described(copy_of(source, tmp_path), **changes)
    with pytest.raises(error, match=message):
        export.to_android(folder, tmp_path / "assets", overwrite=True)
    assert not (tmp_path / "assets").exists()


def test_a_folder_that_is_no_bundle_is_never_replaced(source, tmp_path):
    foreign = tmp_path / "bundles" / "mine"
    foreign.mkdir(parents=True)
    (foreign / "file").write_text("mine")
    with pytest.raises(errors.OutputExistsError, match="something else"):
        export.to_android(source, tmp_path, name="mine", overwrite=True)
    assert (foreign / "file").read_text() == "mine"


def test_a_question_is_encoded_without_its_context(toy):
    questions = dataclasses.replace(toy.texts, questions=())
    vectors = token_vectors.token_vectors(read_tokenizer(toy.vocab_file), questions, 16)
    assert not [case for case in vectors.splitlines()[1:121] if "pair" in json.loads(case)]
