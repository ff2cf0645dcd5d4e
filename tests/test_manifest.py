import hashlib
import json

import pytest
from manifests import MODEL, content

from tfdistill import errors, manifest
from tfdistill.io import files
from tfdistill.manifest import confidence


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.tflite").write_bytes(MODEL)
    (tmp_path / "model.json").write_text(json.dumps(content()))
    return tmp_path


def test_what_is_written_is_read_back(folder, tmp_path_factory):
    read = manifest.read_manifest(folder)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "model.tflite").write_bytes(MODEL)
    assert manifest.write_manifest(read, elsewhere) == elsewhere / "model.json"
    assert manifest.read_manifest(elsewhere / "model.json") == read
    assert manifest.write_manifest(read, elsewhere, file_name="x.json") == elsewhere / "x.json"
    assert manifest.read_manifest(elsewhere / "x.json") == read


def test_every_key_is_written_whatever_its_value(folder):
    read = manifest.read_manifest(folder)
    written = json.loads(manifest.write_manifest(read, folder, file_name="same.json").read_text())
    assert written.keys() == {*manifest.Manifest.model_fields, files.CHECKSUM}
    assert written["architecture"]["head_size"] is None
    pruned = read.architecture.model_copy(update={"head_size": 3})
    manifest.write_manifest(read.model_copy(update={"architecture": pruned}), folder)
    assert manifest.read_manifest(folder).architecture.head_size == 3
    assert (written["device"], written["variants"]) == ("cpu", {})
    assert {"min_cosine", "neighbour_agreement"} <= written["parity"].keys()


def test_a_changed_file_is_found(folder):
    (folder / "model.tflite").write_bytes(MODEL[:-1])
    with pytest.raises(errors.ManifestError):
        manifest.read_manifest(folder)
    assert manifest.read_manifest(folder, verify=False).name == "student"
    (folder / "model.tflite").unlink()
    with pytest.raises(errors.ManifestError, match="received no such file"):
        manifest.read_manifest(folder)


@pytest.mark.parametrize("part", ["labels_file", "golden_file", "tokenizer"])
def test_every_file_beside_it_is_verified(part, folder):
    record = {"file": "other", "sha256": hashlib.sha256(b"other").hexdigest(), "size_bytes": 5}
    if part == "tokenizer":  # another vocabulary gives other ids
        record = {"vocab": record, "vocab_size": 100, "lower_case": True, "max_length": 32}
    (folder / "model.json").write_text(json.dumps(content(**{part: record})))
    (folder / "other").write_bytes(b"other")
    manifest.read_manifest(folder)
    (folder / "other").write_bytes(b"another")
    with pytest.raises(errors.ManifestError, match="other: expected sha256"):
        manifest.read_manifest(folder)


@pytest.mark.parametrize(
    "text", ["good\nbad\n", "bad\n", "bad\ngood\nodd\n", "bad\nGood\n", "", "bad\n\ngood\n"]
)
def test_labels_that_the_file_beside_it_contradicts_are_refused(text, folder):
    def write(content_of_file):
        (folder / "labels.txt").write_text(content_of_file)
        digest = hashlib.sha256(content_of_file.encode()).hexdigest()
        record = {"file": "labels.txt", "sha256": digest, "size_bytes": len(content_of_file)}
        task = {"name": "toy", "kind": "classification", "labels": ["bad", "good"]}
        values = content(labels_file=record, task=task)
        (folder / "model.json").write_text(json.dumps(values))

    write("bad\ngood\n")
    manifest.read_manifest(folder)
    write(text)
    with pytest.raises(errors.ManifestError, match="a line for each label of the manifest"):
        manifest.read_manifest(folder)


def test_a_link_out_of_the_folder_is_refused(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "model.tflite"
    outside.write_bytes(MODEL)
    (folder / "model.tflite").unlink()
    (folder / "model.tflite").symlink_to(outside)
    with pytest.raises(errors.ManifestError):
        manifest.read_manifest(folder)


TASK = {"name": "toy", "kind": "classification"}
RECORD = {"sha256": "0" * 64, "size_bytes": 1}
OUTSIDE = ("../model.tflite", "/etc/passwd", "a/b", "", ".hidden", "a b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "format_version"),
        ({"surprise": 1, "requires": ["surprise"]}, "requires: .*received surprise. Update"),
        ({"requires": ["device.surprise"]}, "received device.surprise"),
        ({"requires": ["task.surprise", "task.kind"]}, "received task.surprise. "),
        ({"quantization": None}, "quantization"),
        ({"signatures": {"len32": {}}}, "signatures.len32.sequence_length"),
        ({"task": {**TASK, "labels": ["bad", "bad"]}}, "different names"),
        ({"name": 1, "softmax": "maybe"}, "name: .*softmax: "),
        *(({"model": {**RECORD, "file": name}}, "model.file") for name in OUTSIDE),
    ],
)
def test_an_invalid_manifest_is_told_with_the_place(change, message, folder):
    (folder / "model.json").write_text(json.dumps(content(**change)))
    with pytest.raises(errors.ManifestError, match=message):
        manifest.read_manifest(folder)


def test_keys_of_later_versions_are_ignored_unless_the_file_requires_them(folder):
    read = manifest.read_manifest(folder)
    later = content(surprise=1, requires=["variants.parity.bounds", "task.span", "softmax"])
    later["architecture"]["surprise"] = later["signatures"]["len32"]["surprise"] = [2]
    (folder / "model.json").write_text(json.dumps(later))
    required = {"requires": tuple(later["requires"])}
    assert manifest.read_manifest(folder) == read.model_copy(update=required)


def confident(**changes):
    """The record of the model's file, as if someone had changed it afterwards."""
    promise = {"max_error": 0.05, "rows": 400, "threshold": 0.8, "coverage": 0.9, "error": 0.02}
    values = {"temperature": 1.5, "num_examples": 300, "promises": (promise,)}
    digest = changes.pop("of_file", hashlib.sha256(MODEL).hexdigest())
    record = confidence.Confidence.of_file(digest, **values).model_dump(mode="json")
    record["promises"][0].update(changes.pop("promise", {}))
    return {**record, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"of_file": "0" * 64},
        {"temperature": 1.4},
        {"temperature_inside": 1.1},
        {"num_examples": 301},
        {"promises": []},
        *({"promise": {key: 0.5}} for key in ("max_error", "threshold", "coverage", "error")),
        {"promise": {"rows": 500}},
    ],
)
def test_the_confidence_of_another_file_and_edited_values_are_refused(changes, folder):
    (folder / "model.json").write_text(json.dumps(content(confidence=confident())))
    assert manifest.read_manifest(folder).confidence.promise_for(0.05).threshold == 0.8
    (folder / "model.json").write_text(json.dumps(content(confidence=confident(**changes))))
    with pytest.raises(errors.ManifestError, match="not those that were fitted on this file"):
        manifest.read_manifest(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"agreements": []},
        {"answered_by": "another one"},
        {"answered_labels": 3},
        *({"agreement": {key: 0.5}} for key in ("max_disagreement", "threshold", "coverage")),
        *({"agreement": {key: 0.5}} for key in ("disagreement", "requests")),
        *({"agreement": {key: 40}} for key in ("rows", "rows_needed")),
    ],
)
def test_edited_agreements_are_refused_and_a_reader_follows_one_contract(changes, folder):
    row = {"max_disagreement": 0.02, "rows": 400, "threshold": 0.7, "coverage": 0.6}
    row |= {"disagreement": 0.01, "requests": 0.8}
    values = {"temperature": 1.5, "num_examples": 300, "agreements": (row,), "answered_by": "a 3"}
    digest = hashlib.sha256(MODEL).hexdigest()
    record = confidence.Confidence.of_file(digest, **values)
    (folder / "model.json").write_text(json.dumps(content(confidence=record.model_dump())))
    again = manifest.read_manifest(folder).confidence
    assert again == record and again.promise_for(max_disagreement=0.02).covers(0.71)
    assert again.promise_for() is None
    for levels, message in (
        ({"max_disagreement": 0.05}, "max_disagreement: expected one of 0.02, received 0.05"),
        ({"max_error": 0.02, "max_disagreement": 0.02}, "no max_error beside it"),
        ({"max_error": 0.02}, "max_error: expected one of those that were promised"),
    ):
        with pytest.raises(errors.ConfigError, match=message):
            again.promise_for(**levels)
    edited = record.model_dump(mode="json")
    edited["agreements"][0] |= changes.pop("agreement", {})
    (folder / "model.json").write_text(json.dumps(content(confidence={**edited, **changes})))
    with pytest.raises(errors.ManifestError, match="not those that were fitted on this file"):
        manifest.read_manifest(folder)


def test_keys_that_a_later_version_adds_to_a_confidence_are_ignored(folder):
    record = confident()
    record["promises"][0]["surprise"] = record["surprise"] = 1
    (folder / "model.json").write_text(json.dumps(content(confidence=record)))
    assert manifest.read_manifest(folder).confidence.temperature == 1.5


def test_broken_json_and_no_file_are_told(tmp_path):
    with pytest.raises(errors.ManifestError):
        manifest.read_manifest(tmp_path)
    (tmp_path / "model.json").write_text("{")
    with pytest.raises(errors.ManifestError, match=r"a valid model.json"):
        manifest.read_manifest(tmp_path)


def test_a_second_model_has_a_manifest_of_its_own(folder):
    other = folder / "other.tflite"
    assert manifest.manifest_path(folder / "model.tflite") == folder / "model.json"
    assert manifest.manifest_path(other) == folder / "other.json"
    with pytest.raises(errors.ManifestError):
        manifest.read_manifest(other)
    other.write_bytes(MODEL)
    record = {**content()["model"], "file": "other.tflite"}
    (folder / "other.json").write_text(json.dumps(content(name="second", model=record)))
    assert manifest.read_manifest(other).name == "second"
    assert manifest.read_manifest(folder / "model.tflite").name == "student"
    assert manifest.read_manifest(folder).name == "student"


def test_a_manifest_about_another_file_is_not_taken(folder):
    (folder / "other.json").write_text(json.dumps(content()))
    with pytest.raises(errors.ManifestError, match=r"one about other.tflite"):
        manifest.read_manifest(folder / "other.tflite")


def several(folder, **changes):
    """A manifest with a variant for a GPU, whose file is in the folder."""
    (folder / "model-gpu.tflite").write_bytes(b"for a GPU")
    record = {"sha256": hashlib.sha256(b"for a GPU").hexdigest(), "size_bytes": 9}
    values = content()
    variant = {key: values[key] for key in ("signatures", "parity")}
    variant |= {
        "model": {"file": "model-gpu.tflite", **record},
        "quantization": "dynamic_wi4_afp32",
    }
    variants = changes.pop("variants", {"gpu": {**variant, **changes}})
    (folder / "model.json").write_text(json.dumps({**values, "variants": variants}))
    return variant


def test_a_manifest_of_several_files_is_read_for_each_of_them(folder):
    several(folder)
    whole = manifest.read_manifest(folder)
    file = manifest.read_manifest(folder / "model-gpu.tflite")
    assert manifest.manifest_path(folder / "model-gpu.tflite") == folder / "model.json"
    assert whole.devices == ("cpu", "gpu")
    assert (file.name, file.device, file.variants) == ("student-gpu", "gpu", {})
    assert (file.model.file, file.quantization) == ("model-gpu.tflite", "dynamic_wi4_afp32")
    assert [part.model.file for part in whole.each_file()] == ["model.tflite", "model-gpu.tflite"]
    part = manifest.read_manifest(folder / "model.tflite")
    assert part == whole.for_device("cpu") != whole
    assert manifest.Manifest.model_validate_json(whole.model_dump_json()) == whole


def test_a_manifest_of_an_earlier_version_with_a_file_for_an_npu_is_read(folder):
    record = {"name": "intel-npu", "title": "NPU", "verdict": "whole", "operators": {"len8": 9}}
    variant = several(folder)
    several(folder, variants={"npu": {**variant, "accelerators": [record]}})
    whole = manifest.read_manifest(folder)
    assert whole.devices == ("cpu", "npu")
    assert whole.for_device("npu").model.file == "model-gpu.tflite"
    assert manifest.write_manifest(whole, folder, file_name="again.json").is_file()
    assert manifest.read_manifest(folder / "again.json") == whole


def test_a_variant_that_is_missing_changed_or_of_another_target_is_refused(folder):
    variant = several(folder)
    with pytest.raises(errors.ManifestError):
        manifest.read_manifest(folder).for_device("npu")
    for change, message in (
        ({"variants": {"cpu": variant}}, "variant cpu: model-gpu.tflite is the file for cpu"),
        ({"variants": {"gpu": variant, "npu": variant}}, "variant npu: .* is the file for gpu"),
        ({"variants": {"tpu": variant}}, "variants.tpu"),
        ({"model": content()["model"]}, "variant gpu: model.tflite is the file for cpu"),
    ):
        several(folder, **change)
        with pytest.raises(errors.ManifestError, match=message):
            manifest.read_manifest(folder)
    several(folder)
    (folder / "model-gpu.tflite").write_bytes(b"for a TPU")
    manifest.read_manifest(folder / "model.tflite")
    for path in (folder, folder / "model-gpu.tflite"):
        with pytest.raises(errors.ManifestError):
            manifest.read_manifest(path)
    (folder / "model-gpu.tflite").unlink()
    with pytest.raises(errors.ManifestError):
        manifest.read_manifest(folder)
