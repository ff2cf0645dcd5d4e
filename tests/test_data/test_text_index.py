"""int8 vectors of texts, their scores, and the files of an index."""

import hashlib
import json

import numpy as np
import pytest

from tfdistill import errors, manifest
from tfdistill.data import text_index
from tfdistill.io import files

MODEL = manifest.FileRecord(file="model.tflite", sha256="ab" * 32, size_bytes=9)
SCORES = {"others": None, "nearest_other": None, "nearest_same": None}
VECTORS = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)


def write(folder, vectors=VECTORS[:, :6], **facts):
    folder.mkdir(exist_ok=True)
    texts = [f"text {i} \u2028 ä" for i in range(len(vectors))]
    columns = {
        **{"name": "toy", "created": "now", "tfdistill_version": "0", "model": MODEL},
        **{"model_width": 8, "threshold": 0.5, "checks": None, "scores": SCORES},
        **facts,
    }
    answers = [f"answer {i}\n" for i in range(len(vectors))]
    text_index.write_index(folder, text_index.quantize(vectors), texts, answers, **columns)
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "index")


def test_a_feature_is_rounded_to_127_parts_of_the_largest_one_halves_to_even():
    quantized = text_index.quantize(np.array([[127, 0.5, 1.5, -2.5, -127], [0, 0, 0, 1e-30, 0]]))
    assert quantized.dtype == np.int8
    assert quantized.tolist() == [[127, 0, 2, -2, -127], [0, 0, 0, 127, 0]]


@pytest.mark.parametrize("block", [text_index._BLOCK_BYTES, 2 * 6 * 8])  # the second has two rows
@pytest.mark.parametrize("width", [6, 1041, 4096])  # the last two are summed in float64
def test_scores_are_the_cosines_of_integers_whatever_the_blocks(width, block, monkeypatch):
    monkeypatch.setattr(text_index, "_BLOCK_BYTES", block)
    random = np.random.default_rng(1)
    queries, rows = (random.integers(-127, 128, (n, width)).astype(np.int8) for n in (2, 3))
    rows[0] = queries[0] = 127  # the largest sums
    for query, line in zip(queries, text_index.scores_of(queries, rows), strict=True):
        for row, score in zip(rows, line, strict=True):
            product = sum(int(a) * int(b) for a, b in zip(query, row, strict=True))
            squares = [sum(int(a) ** 2 for a in values) for values in (query, row)]
            assert score == product / np.sqrt(float(squares[0]) * float(squares[1]))


def test_of_equal_scores_the_first_is_better():
    scores = np.array([0.1, 0.5, 0.5, 0.9, 0.5])
    assert text_index.best(scores, 3).tolist() == [3, 1, 2]
    assert text_index.best(scores, 9).tolist() == [3, 1, 2, 4, 0]
    mixed = np.arange(1000) % 2  # more than any sort takes in one piece
    assert text_index.best(mixed, 1000).tolist() == [*range(1, 1000, 2), *range(0, 1000, 2)]


def test_a_search_finds_what_a_loop_finds(folder):
    index = text_index.read_index(folder)
    vector = VECTORS[7] + 0.1
    nearest = index.search(vector, 4)
    cut = vector[:6].astype(float)
    cosines = [
        cut @ row / np.linalg.norm(cut) / np.linalg.norm(row)
        for row in VECTORS[:, :6].astype(float)
    ]
    assert [match.row for match in nearest] == np.argsort(cosines)[::-1][:4].tolist()
    assert [match.score for match in nearest] == pytest.approx(sorted(cosines)[::-1][:4], abs=0.01)
    assert nearest[0].text == f"text {nearest[0].row} \u2028 ä"
    assert nearest[0].answer == f"answer {nearest[0].row}\n"
    assert len(index.search(vector, 99)) == 50


def test_a_label_of_one_row_has_the_score_of_a_search(tmp_path):
    limits = {f"answer {i}\n": 0.0 for i in range(50)}
    figures = {"num_rows": 50, "accuracy": 1.0, "coverage": 1.0, "error": 0.0}
    routed = write(tmp_path / "routed", routes={"thresholds": limits, **figures})
    index = text_index.read_index(routed)
    first, second = index.search(VECTORS[7], 2)
    route = index.route(VECTORS[7])
    assert (route.label, route.score, route.row) == (first.answer, first.score, 7)
    assert route.margin == first.score - second.score and route.sure
    lacking = write(tmp_path / "lacking", routes={"thresholds": {"x": 0.0}, **figures})
    with pytest.raises(errors.ManifestError, match="one for 'answer 0"):
        text_index.read_index(lacking).route(VECTORS[7])
    folder = write(tmp_path / "without labels")
    with pytest.raises(errors.ManifestError, match="received answers that are no labels"):
        text_index.read_index(folder).route(VECTORS[7])


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (np.ones(6), r"shape \(8,\), received \(6,\)"),
        (np.array([np.nan] + 7 * [1]), "finite"),
        (np.array(6 * [0] + [1, 1]), "not all 0"),
    ],
)
def test_a_vector_of_another_kind_is_refused(folder, vector, message):
    with pytest.raises(errors.TfdistillError, match=message):
        text_index.read_index(folder).search(vector)


def edited(folder, **changes):
    path = folder / "index.json"
    files.atomic_write_json(path, {**json.loads(path.read_text()), **changes})


def rewritten(folder, name, content):
    """Puts other content in the place of a file, and a manifest that agrees."""
    (folder / name).write_bytes(content)
    record = {"file": name, "sha256": hashlib.sha256(content).hexdigest()}
    edited(folder, **{name.partition(".")[0]: record | {"size_bytes": len(content)}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "format_version"),
        ({"width": 5}, "50 x 5 bytes, received 300"),
        ({"width": 10**9}, "width"),
        ({"count": 0}, "count"),
        ({"count": 10**18}, "x 6 bytes, received 300"),
        ({"threshold": 2}, "threshold"),
        ({"colour": 1, "requires": ["colour"]}, "colour"),
        ({"texts": {"file": "../x", "sha256": "0" * 64, "size_bytes": 1}}, "texts.file"),
    ],
)
def test_a_manifest_that_cannot_be_right_is_refused(folder, change, message):
    edited(folder, **change)
    with pytest.raises(errors.ManifestError, match=message):
        text_index.read_index(folder)


def test_damaged_files_are_refused(folder, tmp_path):
    for name in ("vectors.int8", "texts.jsonl"):
        copy = write(tmp_path / name)
        content = (copy / name).read_bytes()
        (copy / name).write_bytes(content[:-1])
        with pytest.raises(errors.ManifestError, match=f"{name}: expected sha256"):
            text_index.read_index(copy)
        (copy / name).unlink()
        with pytest.raises(errors.ManifestError):
            text_index.read_index(copy)
    for name, content, message in (
        ("vectors.int8", b"\x80" + b"\x01" * 299, "-127 to 127"),
        ("vectors.int8", b"\x01" * 294 + bytes(6), "not 0 alone"),
        ("texts.jsonl", b'{"text": "a", "answer": "b"}\n' * 49, "50 lines"),
        ("texts.jsonl", b'{"text": "a", "answer": "b"}\n' * 49 + b"{", "50 lines"),
    ):
        rewritten(write(folder), name, content)
        with pytest.raises(errors.ManifestError, match=message):
            text_index.read_index(folder)
    for line in (b'{"text": "a"}', b'{"text": "a", "answer": 3}', b"[]", b"["):
        rewritten(write(folder), "texts.jsonl", line + b"\n" + b"{}\n" * 49)
        with pytest.raises(errors.ManifestError, match=r"texts\.jsonl, line 1"):
            text_index.read_index(folder).text(0)
    (folder / "index.json").write_text("[" * 9)
    with pytest.raises(errors.ManifestError):
        text_index.read_index(folder)
    with pytest.raises(errors.ManifestError):
        text_index.read_index(tmp_path / "none")
