"""The script for models in PyTorch: what it reads, writes and continues, with a stand-in for them.

PyTorch is no dependency; the models of `transformers` were tried by hand (docs/guides/methods).
"""

import contextlib
import importlib
import json
import sys
import types

import numpy as np
import pytest

from tfdistill import tasks
from tfdistill.data import soft_labels

TASK = tasks.TaskSpec("moods", "text", "mood", labels=("sad", "glad"))
LABELS = {0: "glad", 1: "sad"}  # of the model: in another order
CSV = 'text,mood\n"a, ""b""",sad\nc,glad\nlonger text,sad\nc,glad\n'


class Inputs(dict):
    def to(self, device):
        assert device == "cpu"
        return self


def stand_in(monkeypatch, **loaders):
    """Replaces PyTorch, and transformers by classes that load with these functions."""
    torch = types.SimpleNamespace(
        cuda=types.SimpleNamespace(is_available=lambda: False),
        inference_mode=contextlib.nullcontext,
    )
    classes = {name: types.SimpleNamespace(from_pretrained=load) for name, load in loaders.items()}
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "transformers", types.SimpleNamespace(**classes))


def logits_of(texts):
    return [[float(len(text)), -1 / 3] for text in texts]


@pytest.fixture
def tokenized(monkeypatch):
    """Stands in for PyTorch and transformers: the logits are the length of the text, and -1/3."""
    calls = []

    class Model:
        config = types.SimpleNamespace(id2label=LABELS, num_labels=2)

        def to(self, device):
            return self

        eval = lambda self: self  # noqa: E731

        def __call__(self, *, rows):
            values = np.array(logits_of(rows), np.float32)
            tensor = types.SimpleNamespace(tolist=values.tolist)
            tensor.float = tensor.cpu = lambda: tensor
            return types.SimpleNamespace(logits=tensor)

    def tokenizer(texts, pairs=None, **options):
        assert options == {
            "truncation": True, "max_length": 256, "padding": True, "return_tensors": "pt",
        }  # fmt: skip
        calls.append(texts)
        return Inputs(
            rows=texts if pairs is None else [a + b for a, b in zip(texts, pairs, strict=True)]
        )

    stand_in(
        monkeypatch,
        AutoTokenizer=lambda name: tokenizer,
        AutoModelForSequenceClassification=lambda name: Model(),
    )
    return calls


def test_its_file_is_read_by_text_with_the_labels_by_name(script, tokenized, tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.tsv").write_text('text\tmood\n"d\tsad\n')
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": "e \u2028 f"}) + "\n")
    (tmp_path / "d.txt").write_text("g\n\n h \n")
    files = [str(tmp_path / name) for name in ("a.csv", "b.tsv", "c.jsonl", "d.txt")]
    out = tmp_path / "out.jsonl"
    command = ["model", "--texts", *files, "--out", str(out), "--batch-size", "2"]
    script.main(command)
    texts = ['a, "b"', "c", "longer text", '"d', "e \u2028 f", "g", "h"]
    labels = soft_labels.read(out, TASK)
    rows = labels.find([(text,) for text in texts])
    assert sorted(rows) == list(range(7))
    expected = np.array(logits_of(texts), np.float32)[:, ::-1]
    np.testing.assert_array_equal(labels.values[rows], expected)
    assert sum(map(len, tokenized)) == 7 and max(map(len, tokenized)) == 2

    content = out.read_bytes()
    out.write_bytes(content[: len(content) // 2])
    before = out.read_bytes().count(b"\n")
    tokenized.clear()
    script.main(command)
    assert sum(map(len, tokenized)) == 7 - before
    assert sorted(out.read_bytes().splitlines()) == sorted(content.splitlines())
    tokenized.clear()
    script.main(command)
    assert tokenized == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "sentence\tmood\nx\tsad\n", "row 1: expected text, received sentence, mood"),
        ("a.tsv", "mood\ttext\nx\n", "row 1: expected text"),
        ("a.csv", f"text\n{'x' * 140_000}\n", "expected a table, received field larger"),
        ("a.jsonl", '{"text": "x"}\n{"text"\n', "line 2: expected a JSON object, received Exp"),
        ("a.jsonl", "[1]\n", r"line 1: expected a JSON object, received \[1\]"),
    ],
)
def test_a_column_that_is_missing_is_named(name, content, message, script, tokenized, tmp_path):
    (tmp_path / name).write_text(content)
    out = tmp_path / "out.jsonl"
    with pytest.raises(SystemExit, match=message):
        script.main(["model", "--texts", str(tmp_path / name), "--out", str(out)])
    assert not out.exists()


def test_logits_that_are_no_numbers_and_other_names_are_refused(
    script, tokenized, tmp_path, monkeypatch
):
    (tmp_path / "a.txt").write_text("x\n")
    command = ["model", "--texts", str(tmp_path / "a.txt"), "--out", str(tmp_path / "out.jsonl")]
    monkeypatch.setattr(sys.modules[__name__], "logits_of", lambda texts: [[np.nan, 1.0]])
    with pytest.raises(SystemExit, match="expected finite logits"):
        script.main(command)
    with pytest.raises(SystemExit, match=r"a \.jsonl file"):
        script.main([*command[:-1], str(tmp_path / "out.csv")])


@pytest.mark.parametrize(
    "content",
    [
        *("no line of ours", '{"sentence": "x"}\n'),
        *('{"text": "x"}\nhalf', '{"text": "x", "logits.a": 1}\n{"a": 1}\nhalf'),
    ],
)
def test_a_file_that_is_not_its_own_stays_as_it_is(content, script, tokenized, tmp_path):
    (tmp_path / "a.txt").write_text("x\n")
    out = tmp_path / "out.jsonl"
    out.write_text(content)
    with pytest.raises(SystemExit, match="received another file"):
        script.main(["model", "--texts", str(tmp_path / "a.txt"), "--out", str(out)])
    assert out.read_text() == content and tokenized == []


def test_answers_of_another_model_length_or_other_labels_are_not_mixed_in(
    script, tokenized, tmp_path, monkeypatch
):
    (tmp_path / "a.txt").write_text("x\n")
    out = tmp_path / "out.jsonl"
    rest = ["--texts", str(tmp_path / "a.txt"), "--out", str(out)]
    script.main(["model", *rest])
    meta = json.loads((tmp_path / "out.jsonl.meta.json").read_text())
    assert meta == {"model": "model", "max_length": 256, "labels": ["glad", "sad"]}
    content = out.read_bytes()
    with pytest.raises(SystemExit, match=r'"other".*received those of .*"model"'):
        script.main(["other", *rest])
    with pytest.raises(SystemExit, match=r'"max_length": 99.*"max_length": 256'):
        script.main(["model", *rest, "--max-length", "99"])
    (tmp_path / "a.txt").write_text("x\ny\n")
    (tmp_path / "out.jsonl.meta.json").unlink()
    monkeypatch.setitem(LABELS, 0, "calm")
    with pytest.raises(SystemExit, match=r"the labels \['calm', 'sad'\], received"):
        script.main(["model", *rest])
    assert out.read_bytes() == content


class Numbers:
    """An array with what the script asks of a tensor."""

    def __init__(self, array):
        self.array = np.asarray(array, np.float32)

    def float(self):
        return self

    cpu = float

    def numpy(self):
        return self.array

    def tolist(self):
        return self.array.tolist()


@pytest.fixture
def pieces(script, monkeypatch, toy_vocab_file):
    """A real fast tokenizer, and a model whose logits are the piece's id and its place."""
    fast = importlib.import_module("transformers").BertTokenizerFast(str(toy_vocab_file))

    def tokenizer(*texts, return_tensors, **options):
        assert return_tensors == "pt"
        encoding = fast(*texts, return_tensors="np", **options)
        encoding.to = lambda device: encoding
        return encoding

    tokenizer.is_fast, tokenizer.cls_token_id = True, fast.cls_token_id

    class Model:
        config = types.SimpleNamespace(id2label={0: "O", 1: "B-X"}, num_labels=2)
        eval = to = lambda self, *_: self

        def __call__(self, input_ids, **_):
            places = np.broadcast_to(np.arange(input_ids.shape[1]), input_ids.shape)
            return types.SimpleNamespace(logits=Numbers(np.stack([input_ids, places], 2)))

    stand_in(
        monkeypatch,
        AutoTokenizer=lambda name: tokenizer,
        AutoModelForTokenClassification=lambda name: Model(),
    )
    return fast


def test_words_have_the_logits_of_their_first_pieces_also_in_windows(script, pieces, tmp_path):
    (tmp_path / "a.txt").write_text("-DOCSTART- O\n\ngood O\nxyz B-X\n\x01 O\nbad O\n\ngood O\n")
    out = tmp_path / "out.jsonl"
    command = ["model", "--kind", "token", "--texts", str(tmp_path / "a.txt"), "--out", str(out)]
    script.main([*command, "--max-length", "5"])
    spec = tasks.TaskSpec("ner", "0", "-1", kind="token", labels=("B-X", "O"))
    labels = soft_labels.read(out, spec)
    assert set(labels.rows) == {("good", "xyz", "\x01", "bad"), ("good",)}
    row = labels.rows["good", "xyz", "\x01", "bad"]
    expected = pieces.convert_tokens_to_ids(["good", "x", "bad", "bad"])  # a word without a piece
    part = labels.values[labels.bounds[row] : labels.bounds[row + 1]]
    assert part[:, 1].tolist() == expected
    assert part[:, 0].tolist()[0] == 1  # after [CLS]
    before = out.read_bytes()
    script.main([*command, "--max-length", "5"])
    assert out.read_bytes() == before
