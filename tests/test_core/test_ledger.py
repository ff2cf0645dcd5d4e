"""A changed file is found, whatever its size, name and time say."""

import json
import os
import pathlib
import time

import pytest

from tfdistill import errors
from tfdistill.io import contents, ledger, work_folder


def flip(path):
    """Flips one bit of a file; size and time stay."""
    status, content = os.stat(path), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.fixture
def model(tmp_path):
    (tmp_path / "hf").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "hf" / name).write_text("{} " * 50)
    (tmp_path / "ranges.safetensors").write_text("{}")
    (tmp_path / "hf" / ".tfdistill.json").write_text("the marker, which is rewritten")
    ledger.write_checksums(tmp_path)
    (tmp_path / "hf" / ".tfdistill.json").write_text("another")
    return tmp_path


@pytest.mark.parametrize("name", ["hf/config.json", "hf/model.safetensors"])
@pytest.mark.parametrize("read_before", [True, False])
def test_one_flipped_bit_is_found_in_the_folder_and_in_the_one_around_it(model, name, read_before):
    if read_before:
        ledger.check_folder(model / "hf")
    flip(model / name)
    for folder in (model, model / "hf"):
        with pytest.raises(errors.WeightsError, match=name):
            ledger.check_folder(folder)


def test_a_file_that_is_gone_and_a_damaged_record_are_refused(model):
    (model / "ranges.safetensors").unlink()
    ledger.check_folder(model / "hf")  # which does not hold it
    with pytest.raises(errors.WeightsError, match="no such file"):
        ledger.check_folder(model)
    for content in ("", "[]", "{}", json.dumps({"format_version": 2, "files": {}})):
        (model / ledger.CHECKSUMS).write_text(content)
        with pytest.raises(errors.WeightsError):
            ledger.check_folder(model / "hf")


def test_a_digest_is_one_of_names_and_contents_and_not_of_times(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "x.txt").write_text("text")
        (tmp_path / name / "README.md").write_text(name)
    one, other = (ledger.digest_of(tmp_path / n, (".txt",)) for n in ("a", "b"))
    assert one == other != ledger.digest_of(tmp_path / "a")
    (tmp_path / "b" / "deep" / "x.txt").rename(tmp_path / "b" / "deep" / "y.txt")
    assert ledger.digest_of(tmp_path / "b", (".txt",)) != one
    assert ledger.digest_of(tmp_path / "gone") == ""


def test_a_run_in_the_folder_of_its_model_is_no_part_of_the_model(model):
    before = ledger.digest_of(model, (".json", ".safetensors"))
    (model / "pooling").mkdir()
    (model / "pooling" / "config.json").write_text("{}")
    of_both = ledger.digest_of(model, (".json", ".safetensors"))
    assert of_both != before
    ledger.write_marker(model / "pooling", "run", set())
    assert ledger.digest_of(model, (".json", ".safetensors")) == before
    # The parts of a model that this package saved, such as those of a sentence encoder, are.
    ledger.write_marker(model / "pooling", ledger.SAVED_MODEL, set())
    assert ledger.digest_of(model, (".json", ".safetensors")) == of_both


def test_a_file_is_read_once_as_long_as_it_is_the_same(tmp_path):
    path, reads = tmp_path / "x", []
    path.write_text("text")
    reader = contents.once(2)(lambda path: reads.append(path) or pathlib.Path(path).read_text())
    for _ in range(3):  # just written: another write in this tick of the clock would not show
        assert reader(path) == "text"
    assert len(reads) == 3
    time.sleep(0.1)
    for _ in range(3):
        assert reader(path) == "text"
    assert len(reads) == 4
    flip(path)
    assert reader(path) != "text"
    path.unlink()
    with pytest.raises(FileNotFoundError):
        reader(path)


def test_what_a_record_names_is_removed_and_nothing_else(model):
    (model / "hf" / "notes.txt").write_text("the user's")
    elsewhere = model.parent / "elsewhere"
    (model / "hf" / "config.json").rename(elsewhere)
    (model / "hf" / "config.json").symlink_to(elsewhere)
    work_folder.remove_recorded(model)
    remaining = {path.relative_to(model).as_posix() for path in model.rglob("*")}
    assert remaining == {"hf", "hf/notes.txt"} and elsewhere.is_file()
    work_folder.remove_recorded(model)  # without a record

    (model / "hf" / "notes.txt").unlink()
    (model / "hf" / "config.json").write_text("{}")
    (model / "hf" / ledger.MARKER).write_text("a marker")
    ledger.write_checksums(model)
    (model / "hf" / "config.json").unlink()  # a kill came in between
    work_folder.remove_recorded(model)
    assert not model.exists()
