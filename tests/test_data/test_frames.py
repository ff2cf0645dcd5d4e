"""A DataFrame is read as the file of its rows, whatever else its columns hold."""

import numpy as np
import pandas
import pytest

from tfdistill import errors
from tfdistill.data import columns, labelled_file
from tfdistill.tasks import parquet

NUM_ROWS = 60
UNWRITABLE = {
    "int and str": [7] + ["a7"] * (NUM_ROWS - 1),
    "Interval": pandas.cut(range(NUM_ROWS), 3),
    "object": [object()] * NUM_ROWS,
    "dict": [{}] * NUM_ROWS,
    "complex": [1j] * NUM_ROWS,
    "int": [2**80] * NUM_ROWS,
}


def frame_with(**cells):
    texts = [f"sentence number {index} of many" for index in range(NUM_ROWS)]
    return pandas.DataFrame({"text": texts, "label": ["good", "bad"] * (NUM_ROWS // 2), **cells})


@pytest.mark.parametrize("types", UNWRITABLE)
def test_a_column_that_parquet_cannot_hold_is_left_out(types, tmp_path):
    path = parquet.path_of(frame_with(source_id=UNWRITABLE[types]), tmp_path)
    read = labelled_file.read_labelled_file(path, "own")
    assert read.task.labels == ("bad", "good")
    assert "not used: the column(s) 'source_id'" in read.notes
    with pytest.raises(errors.DataError, match=rf"'source_id': .* received {types}\. Convert it"):
        labelled_file.read_labelled_file(path, "own", label="source_id")


@pytest.mark.parametrize("types", UNWRITABLE)
def test_such_a_column_of_labels_is_never_passed_over_in_silence(types, tmp_path):
    frame = frame_with(label=UNWRITABLE[types], kind=["a", "b"] * (NUM_ROWS // 2))
    table = columns.read_columns(parquet.path_of(frame, tmp_path))
    with pytest.raises(errors.DataError, match=r"'label': .* frame\['label'\]\.astype\(str\)"):
        columns.choose_roles(table)


def test_the_index_has_columns_as_without_such_a_column(tmp_path):
    frame = frame_with(source_id=UNWRITABLE["object"]).set_index("text")
    assert [*columns.read_columns(parquet.path_of(frame, tmp_path)).columns] == ["text", "label"]
    frame = frame_with()
    frame.index = UNWRITABLE["int and str"]
    assert [*columns.read_columns(parquet.path_of(frame, tmp_path)).columns] == ["text", "label"]


def test_columns_of_one_name_are_named(tmp_path):
    frame = frame_with(more=np.arange(NUM_ROWS))
    frame.columns = ["text", "label", "label"]
    with pytest.raises(errors.DataError, match="one column of each name, received several of 'l"):
        parquet.path_of(frame, tmp_path)


def test_a_frame_without_any_column_that_can_be_read_is_refused(tmp_path):
    frame = pandas.DataFrame({"text": UNWRITABLE["object"]})
    with pytest.raises(errors.DataError, match="'text': expected values of one type"):
        parquet.path_of(frame, tmp_path)
