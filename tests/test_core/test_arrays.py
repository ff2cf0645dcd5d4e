import numpy as np
import pytest
import safetensors.numpy

from tfdistill import errors
from tfdistill.data import answers
from tfdistill.io import arrays

VALUES = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "b": np.array(3, np.int64),
    "c": np.zeros((0, 4), np.float32),
}


@pytest.fixture
def path(tmp_path):
    arrays.write_arrays(tmp_path / "a.safetensors", VALUES, made_from="x", metadata={"k": "v"})
    return tmp_path / "a.safetensors"


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-20] + bytes([content[-20] ^ 1]) + content[-19:],
        lambda content: content.replace(b'"k":"v"', b'"k":"w"'),
    ],
    ids=["byte", "header"],
)
def test_a_change_is_noticed(path, change):
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(errors.DataError, match=r"another checksum\. Delete it"):
        arrays.read_arrays(path, error=errors.DataError, remedy="Delete it.")


@pytest.mark.parametrize(
    "damage", [lambda c: bytes(len(c)), lambda c: c[:40], lambda c: c[:-1], lambda c: b""]
)
def test_a_zeroed_or_cut_file_is_an_error(path, damage):
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(errors.WeightsError) as caught:
        arrays.read_arrays(path)
    assert str(path) in str(caught.value)


def test_arrays_made_from_something_else_or_without_a_checksum_are_refused(path, tmp_path):
    with pytest.raises(errors.WeightsError, match="made from y, received x"):
        arrays.read_arrays(path, made_from="y")
    safetensors.numpy.save_file({"a": np.ones(2, np.float32)}, tmp_path / "other.safetensors")
    with pytest.raises(errors.WeightsError, match="another checksum"):
        arrays.read_arrays(tmp_path / "other.safetensors")


@pytest.mark.parametrize("read", [arrays.read_arrays, answers.read])
def test_a_file_that_may_not_be_read_is_not_called_absent_or_damaged(tmp_path, monkeypatch, read):
    path = tmp_path / "a.safetensors"
    arrays.write_arrays(path, {"x": np.zeros(2, np.float32)})
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(PermissionError) as refused:
        read(path)
    assert errors.explain_os_error(refused.value).startswith(f"{path}: permission denied. Change")
