"""The table of words beside a file without lookups: rounded, written, read, faults seen."""

import json

import numpy as np
import pytest
import safetensors.numpy

from tfdistill import errors
from tfdistill.tflite import word_rows

TABLE = np.random.default_rng(0).standard_normal((7, 4)).astype(np.float32)
TABLE[3] = 0


def test_rows_come_back_within_half_a_step_and_bit_for_bit_the_same(tmp_path):
    own = word_rows.rounded(TABLE)
    path = tmp_path / "words.safetensors"
    path.write_bytes(word_rows.to_bytes(own))
    read = word_rows.read(path)

    ids = np.array([[0, 3, 6]])
    rows = read.rows(ids)
    assert rows.dtype == np.float32 and rows.shape == (1, 3, 4)
    assert np.array_equal(rows, own.rows(ids))
    steps = np.abs(TABLE).max(axis=1, keepdims=True) / 127
    assert (np.abs(read.rows(np.arange(7)) - TABLE) <= steps * (0.5 + 1e-5)).all()
    assert not rows[0, 1].any()  # of a row of zeros
    assert word_rows.faults(read, TABLE) == []
    assert word_rows.to_bytes(own) == word_rows.to_bytes(read)  # the same bytes each time


@pytest.mark.parametrize("ids", [[-1], [7]])
def test_an_id_of_no_row_is_refused_and_no_other_row_given(ids):
    with pytest.raises(errors.ShapeError, match="ids from 0 to 6"):
        word_rows.rounded(TABLE).rows(np.array(ids))


def wrong_row(codes, scales):
    codes[[1, 2]] = codes[[2, 1]]
    scales[[1, 2]] = scales[[2, 1]]


def wrong_code(codes, scales):
    codes[4, 0] += 1 if codes[4, 0] < 0 else -1


def wrong_scale(codes, scales):
    scales[5] *= 1.001


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (wrong_row, "first of row 1"),
        (wrong_code, "1 rows, first 4"),
        (wrong_scale, "first of row 5"),
    ],
)
def test_a_row_a_code_or_a_scale_of_another_model_is_found(plant, message):
    own = word_rows.rounded(TABLE)
    plant(own.codes, own.scales)
    assert message in word_rows.faults(own, TABLE)[0]


def saved(metadata=None, **changes):
    own = word_rows.rounded(TABLE)
    content = {"codes": own.codes, "scales": own.scales} | changes
    metadata = {"format_version": "1"} if metadata is None else metadata
    return safetensors.numpy.save({k: v for k, v in content.items() if v is not None}, metadata)


def too_many_words():
    """A header that promises more rows than the file has."""
    content = saved()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["codes"]["shape"][0] = 1 << 40
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (saved()[:-3], "a whole safetensors file"),
        (saved()[:5], "a whole safetensors file"),
        (too_many_words(), "a whole safetensors file"),
        (saved(metadata={"format_version": "2"}), "expected format_version 1, received 2"),
        (saved(metadata={}), "received None"),
        (saved(scales=None), "int8 codes"),
        (saved(codes=TABLE), "int8 codes"),
        (saved(scales=np.ones(6, np.float32)), "7 x 4, 6 scales"),
        (saved(scales=np.full(7, np.nan, np.float32)), "scales of at least 0"),
        (saved(scales=np.full(7, -1, np.float32)), "scales of at least 0"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused(tmp_path, content, message):
    path = tmp_path / "words.safetensors"
    path.write_bytes(content)
    with pytest.raises(errors.ManifestError, match=message):
        word_rows.read(path)
