import struct

import flatbuffers
import pytest
from flatbuffers import table

import export
from export.file import metadata
from tfdistill import errors
from tfdistill.tflite import editing, inspection
from tfdistill.tokenization.library import SPECIAL_TOKENS
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.tokenization.wordpiece import WordPiece

FINE = {
    "head": "sequence",
    "kind": "classification",
    "pair": False,
    "lengths": (16,),
    "softmax": True,
    "labels": ("no", "yes"),
    "tokenizer": WordPiece(SPECIAL_TOKENS),
}
LABELS = ("no", "yes", "maybe")


class Reader:
    """Reads a flatbuffer table by the numbers of the published schema, independent of ours."""

    def __init__(self, content, place):
        self.table = table.Table(content, place)

    @classmethod
    def root(cls, content):
        return cls(content, struct.unpack_from("<I", content, 0)[0])

    def place(self, field):
        return self.table.Offset(4 + 2 * field)

    def text(self, field):
        return self.table.String(self.place(field) + self.table.Pos).decode()

    def byte(self, field):
        kind = flatbuffers.number_types.Int8Flags
        return self.table.Get(kind, self.place(field) + self.table.Pos)

    def child(self, field):
        where = self.table.Indirect(self.place(field) + self.table.Pos)
        return Reader(self.table.Bytes, where)

    def children(self, field):
        start = self.table.Vector(self.place(field))
        count = self.table.VectorLen(self.place(field))
        return [Reader(self.table.Bytes, self.table.Indirect(start + 4 * i)) for i in range(count)]


@pytest.fixture
def classifier(exported, tmp_path):
    """The toy's float32 file cut down to 16 tokens, with softmax, without metadata."""
    model = editing.read(exported("float32").path)
    editing.keep_signature(model, "len16")
    editing.add_softmax(model, "scores")
    editing.write(model, tmp_path / "classifier.tflite")
    return tmp_path / "classifier.tflite"


@pytest.fixture
def options(toy):
    return {"name": "toy", "tokenizer": read_tokenizer(toy.vocab_file), "labels": LABELS}


@pytest.mark.parametrize(
    "change, says",
    [
        ({"head": "span"}, "no task for a span head"),
        ({"head": "token"}, "no task for a token head"),
        ({"kind": "multi_label"}, "chooses one class"),
        ({"kind": "regression"}, "chooses one class"),
        ({"pair": True}, "takes one text"),
        ({"lengths": (16, 32)}, "one length, this has 2. Export one length"),
        ({"softmax": False}, "softmax must be inside"),
        ({"labels": ()}, "pass task or labels"),
        ({"tokenizer": None}, "pass tokenizer"),
        ({"tokenizer": WordPiece(SPECIAL_TOKENS, lower_case=False)}, "a cased one"),
        (
            {"tokenizer": WordPiece(SPECIAL_TOKENS, truncation="middle")},
            "cuts long texts at their end",
        ),
    ],
)
def test_each_obstacle_is_named(change, says):
    (obstacles,) = metadata.obstacles(**{**FINE, **change})

    assert says in obstacles


def test_metadata_is_written_where_it_can_be_unless_it_is_refused():
    assert metadata.obstacles(**FINE) == metadata.obstacles(**{**FINE, "kind": None}) == []
    obstacles = metadata.obstacles(**{**FINE, "softmax": False, "labels": (), "lengths": (8, 16)})
    assert metadata.wanted(None, []) and metadata.wanted(True, [])
    assert not metadata.wanted(None, obstacles) and not metadata.wanted(False, [])
    with pytest.raises(errors.ConfigError) as caught:
        metadata.wanted(True, obstacles)
    assert len(obstacles) == 3 and all(line in str(caught.value) for line in obstacles)


def test_the_metadata_names_inputs_tokenizer_and_labels_as_the_schema_has_them(classifier, options):
    metadata.attach(classifier, **options)
    once, model = classifier.read_bytes(), editing.read(classifier)
    (record,) = [entry for entry in model.metadata if entry.name == b"TFLITE_METADATA"]
    content = bytes(model.buffers[record.buffer].data)
    root = Reader.root(content)

    assert content[4:8] == b"M001"
    assert (root.text(0), root.text(7)) == ("toy", "1.1.0")
    (graph,) = root.children(3)
    names = {"ids": "input_ids", "mask": "attention_mask", "segment_ids": "token_type_ids"}
    order = [names[tensor.text(0)] for tensor in graph.children(2)]
    bound = {entry.tensorIndex: entry.name.decode() for entry in model.signatureDefs[0].inputs}
    assert order == [bound[index] for index in model.subgraphs[0].inputs]
    assert all(tensor.child(3).byte(0) == 1 for tensor in graph.children(2))  # features
    (unit,) = graph.children(5)
    assert unit.byte(0) == 4  # BertTokenizerOptions
    (vocabulary,) = unit.child(1).children(0)
    assert (vocabulary.text(0), vocabulary.byte(2)) == ("vocab.txt", 5)  # VOCABULARY
    (scores,) = graph.children(3)
    (labels,) = scores.children(6)
    assert scores.text(0) == "score"
    assert (labels.text(0), labels.byte(2)) == ("labels.txt", 2)  # TENSOR_AXIS_LABELS
    metadata.attach(classifier, **options)  # replaces what was there
    assert classifier.read_bytes() == once


def test_a_file_of_several_lengths_or_without_softmax_is_refused(exported, options, tmp_path):
    with pytest.raises(errors.ExportError, match=r"one signature and one subgraph.*to_mediapipe"):
        metadata.attach(exported("float32").path, **options)

    model = editing.read(exported("float32").path)
    editing.keep_signature(model, "len8")
    editing.write(model, tmp_path / "logits.tflite")
    with pytest.raises(errors.ExportError, match="Export a classifier with softmax"):
        metadata.attach(tmp_path / "logits.tflite", **options)


@pytest.mark.slow
def test_an_export_that_mediapipe_can_run_gets_metadata(toy, tmp_path):
    options = {"lengths": (8,), "softmax": True, "labels": LABELS, "tokenizer": toy.vocab_file}
    card = export.to_tflite(toy.model, tmp_path / "with.tflite", quantize="float32", **options)

    report = inspection.inspect(tmp_path / "with.tflite")
    assert "TFLITE_METADATA" in report.metadata
    assert card.model.sha256 == report.sha256  # of the file as it is in the end
