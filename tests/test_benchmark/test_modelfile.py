import pytest

from tfdistill import errors
from tfdistill.benchmark import modelfile
from tfdistill.tflite import reader


def test_signatures_lengths_and_the_size_of_the_vocabulary_are_read_from_the_file(tflite_files):
    entries = modelfile.read_entry_points(tflite_files / "fast.tflite")
    assert list(entries) == [8, 16]
    for length, entry in entries.items():
        assert entry.signature == f"len{length}"
        assert {role: i.name for role, i in entry.inputs.items()} == {
            role: role for role in modelfile.ROLES
        }
        assert {i.dtype for i in entry.inputs.values()} == {"int32"}
        # Not 128 (the widest matrix), nor 2 (the token types).
        assert entry.vocabulary_rows == 90


def test_the_table_is_found_by_following_the_ids_to_their_lookup(tflite_files):
    model = reader.read(tflite_files / "fast.tflite")
    signature = model.signatures[0]
    rows = {
        name: modelfile._table_rows(model.subgraphs[signature.subgraph], index)
        for name, index in signature.inputs.items()
    }
    assert rows == {"input_ids": 90, "token_type_ids": 2, "attention_mask": None}


@pytest.mark.shared_data
def test_a_published_file_without_signatures_is_understood(shared_data):
    path = shared_data / "tflite" / "average_word_vec_sst2.tflite"
    (entry,) = modelfile.read_entry_points(path).values()
    assert (entry.signature, entry.sequence_length, entry.vocabulary_rows) == (None, 256, 10003)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("serving_default_input_word_ids:0", "input_ids"),
        ("ids", "input_ids"),
        ("serving_default_input_mask:0", "attention_mask"),
        ("segment_ids", "token_type_ids"),
        ("input_type_ids", "token_type_ids"),
        ("token_type_ids", "token_type_ids"),
        ("x", None),
    ],
)
def test_the_role_of_an_input_follows_from_its_name(name, role):
    assert modelfile.role_of(name) == role


def test_a_file_that_cannot_be_read_is_explained(tmp_path, tflite_files):
    with pytest.raises(errors.BenchmarkError, match="no such file"):
        modelfile.read_entry_points(tmp_path / "none.tflite")
    content = (tflite_files / "fast.tflite").read_bytes()
    damaged = tmp_path / "damaged.tflite"
    for wrong in (b"", b"not a model at all", content[:12], content[:8] + bytes(200)):
        damaged.write_bytes(wrong)
        with pytest.raises(errors.BenchmarkError, match=r"damaged\.tflite"):
            modelfile.read_entry_points(damaged)
