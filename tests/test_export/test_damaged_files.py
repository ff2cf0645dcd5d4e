"""Files that are damaged, of another program, or do not belong to the rest of their export."""

import copy
import json
import re
import shutil

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import export
from export.model import heads
from tfdistill import cli, errors, models
from tfdistill.io import files
from tfdistill.run import deliver, inputs
from tfdistill.tflite import TfliteModel, editing


@pytest.fixture
def copied(exported, tmp_path):
    """A whole export that may be damaged."""
    shutil.copytree(exported("float32").path.parent, tmp_path / "export")
    return tmp_path / "export"


NOISE = np.random.default_rng(0).bytes(4000)
DAMAGES = {
    "empty": lambda content: b"",
    "text": lambda content: b"not a model at all, but long enough to be read as one",
    "half": lambda content: content[: len(content) // 2],
    "without its end": lambda content: content[:-64],
    "zeros at the end": lambda content: content[:-13_000] + bytes(13_000),
    "noise at the start": lambda content: content[:8] + NOISE + content[8 + len(NOISE) :],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_told_wherever_it_is_opened(damage, copied, capsys):
    file = copied / "model.tflite"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(errors.ModelFileError, match=r"model\.tflite"):
        TfliteModel(file)
    with pytest.raises(errors.ManifestError):
        inputs.open_answerer(str(copied))
    for command in ("inspect", "benchmark"):
        assert cli.main([command, str(file)]) == 1
        assert "model.tflite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("part", "name", "message"),
    [
        ("inputs", b"args_0", "ids among them, received .*args_0"),
        ("outputs", b"output_0", "received .*output_0.*another program's file"),
    ],
)
def test_a_file_of_another_program_is_told_by_what_it_lacks(
    part, name, message, exported, tmp_path
):
    content = editing.read(exported("float32").path)
    for entry in content.signatureDefs:
        for tensor in getattr(entry, part):
            tensor.name = name if tensor.name in (b"input_ids", b"logits") else tensor.name
    editing.write(content, tmp_path / "foreign.tflite")
    with pytest.raises(errors.TfdistillError, match=message):
        heads.head_of_file(TfliteModel(tmp_path / "foreign.tflite"))


def test_a_second_file_in_a_folder_is_not_answered_for_by_the_first(copied):
    other = copied / "other.tflite"
    shutil.copyfile(copied / "model.tflite", other)
    with pytest.raises(errors.ManifestError):
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
        export.to_tflite(model, tmp_path / "m.tflite", lengths=(8,), tokenizer=toy.vocab_file)


def test_a_recipe_leaves_such_lengths_out_unless_none_remains(toy):
    assert deliver.export_lengths(None, toy.model, None) == (32,)
    assert deliver.export_lengths((16, 40, 41), toy.model, None) == (16, 40)
    with pytest.raises(errors.ConfigError, match=r"at most 40 tokens.*export.lengths=\[40\]"):
        deliver.export_lengths((64, 128), toy.model, None)


def call_itself(content, graph, index):
    operator_code = schema.OperatorCodeT()
    operator_code.builtinCode = operator_code.deprecatedBuiltinCode = schema.BuiltinOperator.IF
    operator_code.version = 1
    content.operatorCodes.append(operator_code)
    true = schema.BufferT()
    true.data = np.array([1], np.uint8)
    content.buffers.append(true)
    condition = copy.deepcopy(graph.tensors[graph.inputs[0]])
    condition.shape, condition.shapeSignature, condition.name = [1], None, b"condition"
    condition.type, condition.buffer = schema.TensorType.BOOL, len(content.buffers) - 1
    outputs = [copy.deepcopy(graph.tensors[output]) for output in graph.outputs]
    first = len(graph.tensors)
    graph.tensors += [condition, *outputs]
    options = schema.IfOptionsT()
    options.thenSubgraphIndex = options.elseSubgraphIndex = index
    operator = schema.OperatorT()
    operator.opcodeIndex = len(content.operatorCodes) - 1
    operator.builtinOptions, operator.builtinOptionsType = options, schema.BuiltinOptions.IfOptions
    operator.inputs = [first, *graph.inputs]
    operator.outputs = [first + 1 + i for i in range(len(outputs))]
    graph.operators.insert(0, operator)


def described(folder, change):
    """Changes the manifest of an export."""
    card = json.loads((folder / "model.json").read_text())
    change(card)
    files.atomic_write_json(folder / "model.json", card)


def crash_at(folder):
    """A file whose manifest fits it and which ends whoever runs it: a graph that calls itself."""
    file = folder / "model.tflite"
    content = editing.read(file)
    for entry in content.signatureDefs:
        call_itself(content, content.subgraphs[entry.subgraphIndex], entry.subgraphIndex)
    editing.write(content, file)
    record = {"file": file.name, "sha256": files.sha256_of(file), "size_bytes": file.stat().st_size}
    # The confidence is of the other file.
    described(folder, lambda card: card.update(model=record, confidence=None))


@pytest.fixture
def labelled(toy, tmp_path):
    """Options that name a small labelled set for the toy."""
    rows = zip(toy.texts.texts[:3], toy.texts.pairs[:3], toy.task.labels, strict=True)
    table = "text\tpair\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows)
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text(table)
    columns = ["--text-column", "text", "--pair-column", "pair", "--label-column", "label"]
    return ["--task", "mine", "--data-dir", str(tmp_path), *columns]


def test_a_file_that_crashes_litert_is_one_line_for_evaluate(copied, labelled, capfd):
    crash_at(copied)
    assert cli.main(["evaluate", str(copied), *labelled]) == 1
    said = capfd.readouterr().err
    assert "model.tflite: expected a result, received the worker ended with signal" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["len8"]["outputs"].clear(), "signature len8, outputs: expected what model.js"),
        (lambda s: s["len8"]["inputs"]["input_ids"].update(dtype="float32"), "len8, inputs"),
        (lambda s: s["len16"].update(sequence_length=99), "signature len16, sequence_length"),
        (lambda s: s.update(len99=s.pop("len16")), "signature len99: .*received none of that name"),
    ],
)
def test_signatures_of_a_manifest_are_held_against_the_file(change, message, copied, capsys):
    described(copied, lambda card: change(card["signatures"]))
    with pytest.raises(errors.ManifestError, match=message):
        inputs.open_answerer(str(copied))
    for command in ("inspect", "benchmark"):
        assert cli.main([command, str(copied)]) == 1
        assert re.search(message, capsys.readouterr().err)
