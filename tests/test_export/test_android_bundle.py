import dataclasses
import json
import os
import re
import shutil

import planted_outputs
import pytest

import export
from export.targets import android_bundle, token_vectors
from tfdistill import errors, manifest
from tfdistill.io import files, reading
from tfdistill.tokenization import edge_cases
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
    target = tmp_path / "copy"
    shutil.copytree(folder, target)
    return target


def read_cases(folder):
    header, *lines = (folder / "tokens.jsonl").read_text("ascii").splitlines()
    return json.loads(header), [json.loads(line) for line in lines]


def test_a_bundle_holds_the_export_byte_for_byte_and_the_token_vectors(assets, source):
    (folder,) = (path for path in (assets / "bundles").iterdir() if path.is_dir())
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    exported = {path.name: path.read_bytes() for path in source.iterdir()}
    assert written.keys() - exported.keys() == {"tokens.jsonl"}
    del written["tokens.jsonl"], written["model.json"]
    assert written == {name: exported[name] for name in written}
    assert exported.keys() - written.keys() == {
        ".tfdistill.json",
        "README.md",
        "answers.safetensors",
        "model.json",
    }
    assert manifest.read_manifest(folder) == manifest.read_manifest(source)


def test_the_index_names_the_bundle_and_its_checksums(assets):
    content = reading.read_json(assets / "bundles" / "index.json")
    folder = assets / "bundles" / "model-dynamic_wi8_afp32"
    assert content == {
        "format_version": 1,
        "requires": [],
        "bundles": {
            "model-dynamic_wi8_afp32": {
                "folder": "model-dynamic_wi8_afp32",
                "quantization": "dynamic_wi8_afp32",
                "size_bytes": (folder / "model.tflite").stat().st_size,
                "device": None,
                "search": [],
                **{
                    part: {
                        "file": name,
                        "sha256": files.sha256_of(folder / name),
                        "size_bytes": (folder / name).stat().st_size,
                    }
                    for part, name in (("manifest", "model.json"), ("tokens", "tokens.jsonl"))
                },
            }
        },
    }


def test_the_token_vectors_are_what_the_tokenizer_of_the_bundle_says(assets, toy):
    folder = assets / "bundles" / "model-dynamic_wi8_afp32"
    header, cases = read_cases(folder)
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
        types = case.get("token_type_ids", [0] * len(ids))
        first = ids.index(tokenizer.sep_id) + 1
        assert types == [0] * first + [1] * (len(ids) - first)
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
    before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    with pytest.raises(errors.OutputExistsError, match=r"dynamic_wi8_afp32: expected no bundle"):
        export.to_android(source, target)
    assert before == {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}

    export.to_android(source, target, overwrite=True)  # fewer texts than before

    after = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    changed = {path.name for path in before if before[path] != after.get(path)}
    assert changed == {"tokens.jsonl", "index.json"}
    assert before.keys() == after.keys()
    android_bundle.read_index(target, verify=True)


def test_a_file_that_the_new_bundle_has_not_goes_away(assets, source, tmp_path):
    target = copy_of(assets, tmp_path)
    fewer = copy_of(source, tmp_path / "export")
    card = json.loads((fewer / "model.json").read_text())
    card["labels_file"] = None
    files.atomic_write_json(fewer / "model.json", card)
    folder = export.to_android(fewer, target, overwrite=True)
    assert not (folder / "labels.txt").exists()
    assert (folder / "vocab.txt").exists()


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
    before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    synced = []

    def fsync(handle):
        synced.append(handle)
        if len(synced) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(errors.ExportError, match=r"No space left on device. Nothing was replaced"):
        export.to_android(source, target, overwrite=True)
    assert before == {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}


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
    golden = json.loads((folder / "golden.json").read_text())
    change(golden["examples"])
    (folder / "golden.json").write_text(json.dumps(golden))
    card = json.loads((folder / "model.json").read_text())
    file = folder / "golden.json"
    card["golden_file"].update(sha256=files.sha256_of(file), size_bytes=file.stat().st_size)
    files.atomic_write_json(folder / "model.json", card)
    return folder


def _exchange(key):
    def change(examples):
        examples[0][key], examples[1][key] = examples[1][key], examples[0][key]

    return change


@pytest.mark.parametrize(
    ("key", "named"),
    [("text", r"golden.json, \d texts"), ("outputs", r"golden.json, outputs of example 0")],
)
def test_golden_answers_that_the_bundle_does_not_give_are_refused(key, named, source, tmp_path):
    folder = changed_export(source, tmp_path, _exchange(key))
    with pytest.raises(errors.ParityError, match=named):
        export.to_android(folder, tmp_path / "assets")
    assert not (tmp_path / "assets" / "bundles" / "index.json").exists()


def test_a_length_that_no_golden_example_fits_is_refused(source, tmp_path):
    def lengthen(examples):
        examples[:] = [example for example in examples if len(example["input_ids"]) > 8]

    folder = changed_export(source, tmp_path, lengthen)
    with pytest.raises(errors.ConfigError, match=r"at least the 9 tokens .* received 8\. The app"):
        export.to_android(folder, tmp_path / "assets")
    assert not (tmp_path / "assets").exists()


def test_an_export_without_vocabulary_or_golden_texts_is_refused(source, tmp_path):
    without = copy_of(source, tmp_path)
    golden = json.loads((without / "golden.json").read_text())
    for example in golden["examples"]:
        example["text"] = None
    (without / "golden.json").write_text(json.dumps(golden))
    card = json.loads((without / "model.json").read_text())
    card["golden_file"]["sha256"] = files.sha256_of(without / "golden.json")
    files.atomic_write_json(without / "model.json", card)
    with pytest.raises(errors.ManifestError, match=r"golden vectors with real texts.*--task"):
        export.to_android(without, tmp_path / "assets")
    card["tokenizer"] = None
    files.atomic_write_json(without / "model.json", card)
    with pytest.raises(errors.ManifestError, match=r"expected a vocabulary"):
        export.to_android(without, tmp_path / "assets")
    assert not (tmp_path / "assets").exists()


@pytest.mark.parametrize(
    "name",
    ["", "..", "a/b", ".hidden", "a b", "_x", "müsic", "a" * 300, "CVS", "x.scc", "x."],
)
def test_a_name_that_an_app_cannot_open_is_refused_with_the_option_that_sets_it(
    name, source, tmp_path
):
    with pytest.raises(errors.ConfigError, match=r"name of a bundle.*--name"):
        export.to_android(source, tmp_path / "assets", name=name)
    assert not (tmp_path / "assets").exists()


@pytest.mark.parametrize("name", ["müsic", "mäsic", "_x", "m" * 300, "my run"])
def test_a_default_name_that_is_no_name_of_a_bundle_is_refused_and_not_changed(
    name, source, tmp_path
):
    folder = copy_of(source, tmp_path)
    card = json.loads((folder / "model.json").read_text())
    files.atomic_write_json(folder / "model.json", {**card, "name": name})
    with pytest.raises(errors.ConfigError, match=r"name of a bundle.*--name"):
        export.to_android(folder, tmp_path / "assets", overwrite=True)


def test_the_longest_name_is_one_that_the_app_measures(source, tmp_path):
    folder = export.to_android(source, tmp_path, name="a" * 99)
    protocol = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"  # docs/reference/benchmark-protocol.md
    assert re.fullmatch(protocol, folder.name + "-gpu")


def test_a_folder_that_is_no_bundle_is_never_replaced(source, tmp_path):
    foreign = tmp_path / "bundles" / "mine"
    foreign.mkdir(parents=True)
    (foreign / "file").write_text("mine")
    with pytest.raises(errors.OutputExistsError, match="something else"):
        export.to_android(source, tmp_path, name="mine", overwrite=True)
    assert (foreign / "file").read_text() == "mine"


def test_the_default_name_of_a_bundle_has_the_quantization_and_the_device():
    assert android_bundle.bundle_name("run", "float16") == "run-float16"
    assert android_bundle.bundle_name("run", "float32", "gpu") == "run-float32-gpu"


def test_there_are_many_edge_cases_and_they_reach_every_class_boundary():
    from tfdistill.tokenization import unicode_classes as classes

    texts = edge_cases.tokenizer_edge_cases()
    assert len(texts) == len(set(texts)) > 1500
    assert texts == edge_cases.tokenizer_edge_cases()
    seen = {character for text in texts for character in text}
    for part in (classes.PUNCTUATION, classes.NONSPACING_MARKS, classes.CJK, classes.FORMAT):
        for item in part.split():
            for end in item.split("-"):
                assert chr(int(end, 16)) in seen, item


def test_pairs_of_the_task_are_encoded_as_pairs_and_questions_as_texts(toy):
    tokenizer = read_tokenizer(toy.vocab_file)

    def first(examples):
        lines = token_vectors.token_vectors(tokenizer, examples, 16).splitlines()
        return [json.loads(line) for line in lines[1 : 1 + len(examples.texts)]]

    assert [case.get("pair", "") for case in first(toy.texts)] == toy.texts.pairs
    questions = dataclasses.replace(toy.texts, questions=())
    assert not any("pair" in case for case in first(questions))
