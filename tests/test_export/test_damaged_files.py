"""Files that are damaged, of another program, or do not belong to the rest of their export."""

import shutil

import numpy as np
import pytest
from ai_edge_litert.tools import flatbuffer_utils

import export
from export.file.runtime import TfliteModel
from tfdistill import cli, errors, manifest, models
from tfdistill.run import deliver, inputs


@pytest.fixture
def copied(exported, tmp_path):
    """A whole export that may be damaged."""
    shutil.copytree(exported("float32").path.parent, tmp_path / "export")
    return tmp_path / "export"


def damaged(content, how):
    size = len(content)
    return {
        "empty": b"",
        "text": b"not a model at all, but long enough to be read as one",
        "half": content[: size // 2],
        "without_end": content[:-64],
        "zeros_at_the_end": content[: size * 9 // 10] + bytes(size - size * 9 // 10),
        "noise_at_the_start": content[:8] + np.random.default_rng(0).bytes(4000) + content[4008:],
    }[how]


HOWS = ("empty", "text", "half", "without_end", "zeros_at_the_end", "noise_at_the_start")


@pytest.mark.parametrize("how", HOWS)
def test_a_damaged_file_is_told_wherever_it_is_opened(how, copied, capsys):
    file = copied / "model.tflite"
    file.write_bytes(damaged(file.read_bytes(), how))
    with pytest.raises(errors.ExportError, match="copy or export it again"):
        TfliteModel(file)
    with pytest.raises(errors.ManifestError, match=r"model.tflite: expected sha256.*export again"):
        inputs.open_answerer(str(copied))
    for command in ("inspect", "benchmark"):
        assert cli.main([command, str(file)]) == 1
        assert "model.tflite" in capsys.readouterr().err


def test_a_changed_weight_is_told_by_the_checksum(copied):
    file = copied / "model.tflite"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    TfliteModel(file)  # such a file opens
    with pytest.raises(errors.ManifestError, match="The file is not the one that was exported"):
        manifest.read_manifest(file)


def foreign(source, target, alter):
    content = flatbuffer_utils.read_model(str(source))
    for entry in content.signatureDefs:
        alter(entry)
    flatbuffer_utils.write_model(content, str(target))
    return target


def rename_key(entry):
    entry.signatureKey = b"serving_" + entry.signatureKey


def rename_inputs(entry):
    for tensor in entry.inputs:
        tensor.name = tensor.name.replace(b"input_ids", b"input_word_ids")


def rename_outputs(entry):
    entry.outputs[0].name = b"output_0"


FOREIGN = {
    "signature": (rename_key, r"len32 or alike.*received \['serving_len16', 'serving_len8'\]"),
    "inputs": (rename_inputs, "inputs of input_ids, .*input_word_ids.*another program's file"),
    "outputs": (rename_outputs, "and logits, received .*output_0.*another program's file"),
}


@pytest.mark.parametrize(("alter", "message"), FOREIGN.values(), ids=FOREIGN)
def test_a_file_of_another_program_is_told_by_what_it_lacks(alter, message, exported, tmp_path):
    file = foreign(exported("float32").path, tmp_path / "foreign.tflite", alter)
    with pytest.raises(errors.ExportError, match=message):
        TfliteModel(file)


def test_a_file_without_a_manifest_is_not_taken_for_a_checkpoint(exported, tmp_path):
    alone = tmp_path / "alone.tflite"
    shutil.copyfile(exported("float32").path, alone)
    with pytest.raises(errors.ManifestError, match="`tfdistill export` writes it"):
        inputs.open_answerer(str(alone))


def test_a_second_file_in_a_folder_is_not_answered_for_by_the_first(copied):
    other = copied / "other.tflite"
    shutil.copyfile(copied / "model.tflite", other)
    with pytest.raises(errors.ManifestError, match=r"other\.json"):
        inputs.open_answerer(str(other))
    assert inputs.open_answerer(str(copied / "model.tflite")).card.model.file == "model.tflite"


def test_an_id_outside_the_vocabulary_is_an_error_and_no_crash(exported):
    file = TfliteModel(exported("float32").path)
    before = file.predict([2, 9, 3])
    with pytest.raises(errors.ExportError, match="tokenized with the vocabulary of the model"):
        file.predict([2, 200, 3])
    np.testing.assert_array_equal(file.predict([2, 9, 3]), before)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (150, "at most 150 tokens, the rows of the model's embedding, received 200"),
        (328, r"328 tokens, .*received 200.*add lines such as \[unused1\]"),
        (327, None),
    ],
)
def test_a_vocabulary_has_as_many_tokens_as_the_embedding_has_rows(
    rows, message, toy, monkeypatch, tmp_path
):
    """Up to 127 rows more are padding, as where a table is rounded up to a multiple of 128."""

    class Begun(Exception):
        pass

    def begin(*_, **__):
        raise Begun

    monkeypatch.setattr("export.model.signature.save", begin)
    model = models.build_classifier(toy.config.replace(vocab_size=rows), 3)
    expected = (Begun, None) if message is None else (errors.VocabularyError, message)
    with pytest.raises(expected[0], match=expected[1]):
        export.to_tflite(model, tmp_path / "m.tflite", lengths=(8,), vocab_file=toy.vocab_file)


def test_lengths_beyond_the_positions_are_refused_with_those_that_fit(toy, tmp_path):
    with pytest.raises(errors.ConfigError, match=r"2 .* to 40 tokens.*Leave the others out"):
        export.to_tflite(toy.model, tmp_path / "m.tflite", lengths=(32, 64))


def test_a_recipe_leaves_such_lengths_out_unless_none_remains(toy):
    assert deliver.export_lengths(None, toy.model, None) == (32,)
    assert deliver.export_lengths((16, 40, 41), toy.model, None) == (16, 40)
    with pytest.raises(errors.ConfigError, match=r"at most 40 tokens.*export.lengths=\[40\]"):
        deliver.export_lengths((64, 128), toy.model, None)
