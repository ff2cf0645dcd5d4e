"""`tfdistill index`: vectors of the exported file itself, checked, and searched."""

import json
import shutil

import numpy as np
import pytest
from test_android import vectors

import export as exporting
from export.targets import android_bundle
from tfdistill import cli, errors, manifest
from tfdistill.data import index_rows, text_index
from tfdistill.data.text_index import Spread
from tfdistill.io import files, ledger
from tfdistill.run import index_checks, indexing

BUNDLE = vectors.RESOURCES / "bundles" / vectors.INDEXED


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """A copy of the toy's export, without its index."""
    folder = tmp_path_factory.mktemp("near") / "export"
    return shutil.copytree(BUNDLE, folder, ignore=shutil.ignore_patterns("search"))


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    path = tmp_path_factory.mktemp("faq") / "faq.csv"
    random = np.random.default_rng(3)
    texts = list(dict.fromkeys(vectors.sentence(random, 3, 7) for _ in range(30)))
    lines = [f"{text},answer {i // 2}" for i, text in enumerate(texts)]
    more = [lines[0], f"{texts[1].upper()},other", "good " * 40 + ",x"]
    path.write_text("\n".join(["q,a", *lines, *more]))
    return path


@pytest.fixture(scope="module")
def indexed(export, questions):
    command = ["index", str(questions), "--model", str(export.parent), "--text-column", "q"]
    assert cli.main([*command, "--answer-column", "a"]) == 0
    return export / "search"


def test_the_index_has_the_vectors_that_the_file_gives(export, questions, indexed):
    index = text_index.read_index(indexed)
    texts = [index.text(row)[0] for row in range(index.card.count)]
    encoder = indexing.open_encoder(str(export))
    alone = np.concatenate([indexing.embed(encoder, [text], ["x"])[0] for text in texts[:3]])
    np.testing.assert_array_equal(index.rows[:3], text_index.quantize(alone))
    assert index.card.model == manifest.read_manifest(export).model
    golden = json.loads((export / "golden.json").read_bytes())["examples"][0]
    vector = indexing.embed(encoder, [golden["text"]], ["x"])[0][0]
    np.testing.assert_allclose(vector, golden["outputs"], atol=1e-5)  # another processor's kernels
    assert index.card.checks.recall_at_10 > 0.9
    assert index.card.checks.mean_cosine_error < 1e-4


def test_repetitions_what_looks_the_same_and_what_is_cut_are_named(export, questions, tmp_path):
    rows = index_rows.read_rows(questions, "q", "a")
    last = rows.lines[-1]
    encoder = indexing.open_encoder(str(export))
    _, notes = indexing.build(rows, encoder, tmp_path / "search")
    assert notes[:2] == (
        f"left out, repeated: line {last - 2} as line 2",
        f"the same to the model: line {last - 1} as line 3",
    )
    assert notes[2].startswith("cut to 24 tokens: line ")
    assert notes[2].endswith(f"line {last}")


def test_a_search_from_the_command_line_shows_the_nearest(indexed, capsys):
    text, answer = text_index.read_index(indexed).text(4)
    assert cli.main(["index", str(indexed), "--query", text, "--top", "2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    first, second = shown["matches"]
    assert (first["row"], first["text"], first["answer"]) == (4, text, answer)
    assert first["score"] == pytest.approx(1, abs=1e-12) and second["score"] < 1
    assert shown["answered"] is (first["score"] >= shown["threshold"])
    assert cli.main(["index", str(indexed), "--query", "good " * 19_999, "--top", "1"]) == 0
    out, err = capsys.readouterr()
    assert "cut to 24 tokens" in err and "good good" in out


@pytest.fixture(scope="module")
def router(export, tmp_path_factory):
    """A table of 40 texts under the labels of the nearest of two, and an index of it."""
    folder = tmp_path_factory.mktemp("router")
    random = np.random.default_rng(8)
    texts = list(dict.fromkeys(vectors.sentence(random, 3, 7) for _ in range(40)))
    rows = text_index.quantize(indexing.embed(indexing.open_encoder(str(export)), texts, texts)[0])
    labels = ["ab"[best] for best in text_index.scores_of(rows, rows[:2]).argmax(axis=1)]
    lines = [f"{text},{label}" for text, label in zip(texts, labels, strict=True)]
    (folder / "rows.csv").write_text("\n".join(["text,label", *lines]))
    command = ["index", str(folder / "rows.csv"), "--model", str(export), "--answer-column"]
    assert cli.main([*command, "label", "--out", str(folder / "index")]) == 0
    return folder


def test_the_thresholds_are_those_of_rows_that_were_left_out(router):
    index = text_index.read_index(router / "index")
    routes = index.card.routes
    assert set(routes.thresholds) == {"a", "b"} and routes.num_rows == index.card.count
    labels = np.array([index.text(row)[1] for row in range(index.card.count)])
    scores = text_index.scores_of(np.asarray(index.rows), np.asarray(index.rows))
    right, margins, best_scores, beyond = [], [], [], []
    for row in range(len(labels)):
        others = np.arange(len(labels)) != row
        means = {
            label: np.sort(scores[row][others & (labels == label)])[-5:].mean() for label in "ab"
        }
        label = max(means, key=means.get)
        right.append(label == labels[row])
        margins.append(abs(means["a"] - means["b"]))
        best_scores.append(scores[row][others & (labels == label)].max())
        beyond.append(margins[-1] > routes.thresholds[label] + 1e-12)
    assert routes.accuracy == np.mean(right)
    # Sure as in a search: by the margin, and by the threshold of the index.
    assert routes.coverage == np.mean(beyond & (np.array(best_scores) >= index.card.threshold))
    least = float(np.median(best_scores)) - 1e-9
    fitted = index_checks.fit_routes(np.asarray(index.rows), labels.tolist(), least)
    assert fitted.coverage == np.mean(beyond & (np.array(best_scores) >= least))
    assert 0 < fitted.coverage < np.mean(beyond) and fitted.thresholds == routes.thresholds
    for threshold in set(routes.thresholds.values()) - {0.0}:
        assert np.isclose(threshold, margins).any()


def test_the_only_row_of_a_label_is_not_left_out():
    rows = text_index.quantize(np.random.default_rng(0).normal(size=(9, 8)))
    routes = index_checks.fit_routes(rows, [*"aaaaaaaa", "b"])
    assert routes.num_rows == 8 and np.isfinite(list(routes.thresholds.values())).all()


def test_an_index_with_labels_is_evaluated_on_labelled_texts(router, export, capsys):
    options = ["--model", str(export), "--answer-column", "label", "--json"]
    command = ["index", str(router / "index"), "--evaluate", str(router / "rows.csv"), *options]
    assert cli.main(command) == 0
    shown, said = capsys.readouterr()
    shown = json.loads(shown)
    assert f"{shown['num_texts']} of {shown['num_texts']} texts are in the index too" in said
    assert shown["accuracy"] > 0.9  # each row is one of its own nearest
    assert shown["num_texts"] == text_index.read_index(router / "index").card.count
    card = text_index.read_index(router / "index").card
    routed = indexing.evaluate(
        str(router / "index"), index_rows.read_rows(router / "rows.csv", None, "label"),
        source=str(export),
    )  # fmt: skip
    assert routed["coverage"] == shown["coverage"] > card.routes.coverage
    (router / "other.csv").write_text("text,label\ngood,a\n,b\ngood,a\n")
    command = [*command[:2], "--evaluate", str(router / "other.csv"), *options]
    assert cli.main(command[:-1]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "left out, without a text: line 3", "left out, repeated: line 4 as line 2"
    ]  # fmt: skip
    (router / "other.csv").write_text("text,label\ngood,a\ngood,c\n")
    assert cli.main(command) == 1
    said = capsys.readouterr().err
    assert "label to evaluate, line 3: expected one of a, b, received 'c'" in said


def test_a_query_gets_the_label_too(router, export, indexed, capsys):
    text, label = text_index.read_index(router / "index").text(3)
    command = ["--query", text, "--model", str(export), "--json"]
    assert cli.main(["index", str(router / "index"), *command]) == 0
    route = json.loads(capsys.readouterr().out)["route"]
    assert (route["label"], route["row"]) == (label, 3) and route["margin"] > 0
    assert cli.main(["index", str(indexed), *command]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["route"] is None  # as many answers as questions, nearly


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--query", "x" * 100_001], "1 to 100,000 characters, received 100,001"),
        (["--query", "   "], "1 to 100,000 characters, received blanks alone"),
        (["--query", "\x7f"], "a text with letters or signs"),
        (["--query", "x", "--dim", "3"], "--dim: expected no --query"),
        (["--evaluate", __file__, "--query", "x"], "--query: expected no --evaluate"),
        (["--query", "x", "--top", "0"], "--top: expected at least 1"),
        (["--query", "x", "--model", str(BUNDLE.parent / "pairs-float32")], "a sentence encoder"),
        ([], "--model: expected the model that gives the vectors"),
    ],
)
def test_what_cannot_be_searched_for_is_said(indexed, capsys, options, message):
    assert cli.main(["index", str(indexed), *options]) in (1, 2)
    assert message in capsys.readouterr().err


def test_nothing_is_overwritten_and_a_failure_leaves_the_old_index(
    export, questions, indexed, capsys, monkeypatch
):
    before = {path.name: path.read_bytes() for path in indexed.iterdir()}
    command = ["index", str(questions), "--model", str(export), "--text-column", "q"]
    assert cli.main(command) == 2
    assert "search" in capsys.readouterr().err
    assert cli.main([*command, "--out", str(export)]) == 2  # it is no index
    assert cli.main([*command, "--dim", "17", "--overwrite"]) == 2
    assert "--dim: expected 1 to 16" in capsys.readouterr().err
    rows = index_rows.read_rows(questions, "q")
    monkeypatch.setattr(index_checks, "_recall", lambda *_: np.zeros(1))
    with pytest.raises(errors.ExportError, match=r"received 0\.0%"):
        indexing.build(rows, indexing.open_encoder(str(export)), indexed, overwrite=True)
    assert before == {path.name: path.read_bytes() for path in indexed.iterdir()}


@pytest.fixture
def assets(tmp_path):
    """A copy of the toys' bundles, of which one has an index."""
    shutil.copytree(vectors.RESOURCES / "bundles", tmp_path / "assets" / "bundles")
    search = tmp_path / "assets" / "bundles" / vectors.INDEXED / "search"
    ledger.write_marker(search, indexing.KIND, ledger.entries(search))
    return tmp_path / "assets"


def recorded(assets, name=vectors.INDEXED):
    """The digests of a bundle's index of texts in bundles/index.json."""
    return [record.sha256 for record in android_bundle.read_index(assets).bundles[name].search]


def test_a_new_index_of_a_bundle_is_recorded_with_its_digest(assets, questions):
    bundle = assets / "bundles" / vectors.INDEXED
    manifests = android_bundle.read_index(assets, verify=True)
    command = ["index", str(questions), "--text-column", "q", "--overwrite"]
    for place in (
        ["--model", str(bundle)],
        ["--model", str(bundle), "--out", str(assets), "--dim", "8"],
        ["--model", str(bundle), "--out", str(bundle / "search"), "--answer-column", "a"],
    ):
        before = recorded(assets)
        assert cli.main([*command, *place]) == 0
        assert recorded(assets) == [files.sha256_of(bundle / "search" / "index.json")] != before
        after = android_bundle.read_index(assets, verify=True).bundles
        assert after | {vectors.INDEXED: None} == manifests.bundles | {vectors.INDEXED: None}


def test_an_index_of_another_model_is_not_recorded(assets, questions, export, tmp_path, caplog):
    other = tmp_path / "other"
    shutil.copytree(export, other)
    (other / "model.tflite").write_bytes((other / "model.tflite").read_bytes() + b"\0")
    changed = manifest.read_manifest(other, verify=False)
    record = android_bundle._record(other / "model.tflite")
    manifest.write_manifest(changed.model_copy(update={"model": record}), other)
    out = str(assets / "bundles" / vectors.INDEXED / "search")
    command = ["index", str(questions), "--text-column", "q", "--overwrite"]
    assert cli.main([*command, "--model", str(other), "--out", out]) == 0
    assert recorded(assets) == []
    assert "not of this model" in caplog.text


@pytest.mark.slow
def test_a_replaced_bundle_keeps_its_index_only_with_its_model_and_tokenizer(
    assets, export, tmp_path, caplog
):
    bundle = assets / "bundles" / vectors.INDEXED
    digest = files.sha256_of(bundle / "search" / "index.json")

    other = tmp_path / "export"
    shutil.copytree(export, other)
    card = manifest.read_manifest(other)

    def replaced(**changes):
        manifest.write_manifest(card.model_copy(update=changes), other)
        exporting.to_android(other, assets, name=vectors.INDEXED, overwrite=True)
        android_bundle.read_index(assets, verify=True)
        return recorded(assets)

    assert replaced(created="2030-01-01T00:00:00+00:00") == [digest]
    assert not caplog.records
    words = other / "vocab.txt"
    words.write_text(words.read_text("utf-8").replace("\n?\n", "\n¿\n"), "utf-8")
    update = {"vocab": android_bundle._record(words)}
    assert replaced(tokenizer=card.tokenizer.model_copy(update=update)) == []
    assert "`tfdistill index` again" in caplog.text
    assert files.sha256_of(bundle / "search" / "index.json") == digest  # it is a user's


def test_an_index_that_was_changed_or_removed_after_it_was_recorded_is_named(assets):
    card = assets / "bundles" / vectors.INDEXED / "search" / "index.json"
    card.write_text(card.read_text() + " ")
    with pytest.raises(errors.ManifestError, match=r"search/index.json: expected sha256"):
        android_bundle.read_index(assets, verify=True)
    shutil.rmtree(card.parent)
    with pytest.raises(errors.ManifestError, match=r"no such file.*index, this bundle again"):
        android_bundle.read_index(assets, verify=True)


def test_an_entry_of_an_earlier_version_stays_one_until_its_index_is_recorded(assets):
    path = assets / "bundles" / "index.json"
    content = json.loads(path.read_text())
    for entry in content["bundles"].values():
        del entry["search"]
    files.atomic_write_json(path, content)
    bundle = assets / "bundles" / vectors.INDEXED
    exporting.to_android(bundle, assets, name="copy")  # writes the other entries anew
    assert android_bundle.read_index(assets).bundles[vectors.INDEXED].search is None
    android_bundle.record_index(bundle / "search")
    assert recorded(assets) == [files.sha256_of(bundle / "search" / "index.json")]


def test_an_index_goes_into_the_bundle_of_its_model(export, assets, tmp_path):
    encoder = indexing.open_encoder(str(export))
    expected = assets / "bundles" / vectors.INDEXED / "search"
    assert indexing.target_of(encoder, str(assets)) == expected
    assert indexing.target_of(encoder, str(tmp_path / "x")) == tmp_path / "x"
    index = json.loads((assets / "bundles" / "index.json").read_text())
    del index["bundles"][vectors.INDEXED]
    files.atomic_write_json(assets / "bundles" / "index.json", index)
    with pytest.raises(errors.ManifestError, match="tfdistill export --android"):
        indexing.target_of(encoder, str(assets))


def test_an_index_of_another_model_is_refused(indexed, export):
    card = text_index.read_index(indexed).card
    other = manifest.read_manifest(export)
    text_index.check_model(card, other)
    other = other.model_copy(update={"model": other.model.model_copy(update={"sha256": "00" * 32})})
    with pytest.raises(errors.ManifestError, match="Make the index again with this model file"):
        text_index.check_model(card, other)


def test_vectors_that_are_no_numbers_are_named(export, monkeypatch):
    class Broken:
        def predict(self, ids, **_):
            return np.full(16, np.nan, np.float32) if len(ids) > 3 else np.ones(16, np.float32)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(indexing.inputs, "TfliteModel", lambda *_, **__: Broken())
    encoder = indexing.open_encoder(str(export))
    with pytest.raises(errors.ExportError, match="vector of line 2: expected finite"):
        indexing.embed(encoder, ["good", "good film"], ["line 1", "line 2"])


def test_recall_and_scores_equal_a_loop():
    random = np.random.default_rng(1)
    values = random.standard_normal((40, 6)).astype(np.float32)
    values[:, 0] *= 60  # one feature outweighs the others
    int8 = text_index.quantize(values[:, :4])
    groups = np.arange(40) // 2
    checks, scores = index_checks.measure(values, int8, groups)
    unit = values[:, :4] / np.linalg.norm(values[:, :4], axis=1, keepdims=True)
    whole = values / np.linalg.norm(values, axis=1, keepdims=True)
    int8_scores = text_index.scores_of(int8, int8)
    recall, cut, other, same = [], [], [], []
    for row in range(40):
        rest = [i for i in range(40) if i != row]
        nearest = set(sorted(rest, key=lambda i: -int8_scores[row, i])[:10])
        by_float = set(sorted(rest, key=lambda i: -(unit @ unit[row])[i])[:10])
        by_all = set(sorted(rest, key=lambda i: -(whole @ whole[row])[i])[:10])
        recall.append(len(nearest & by_float) / 10)
        cut.append(len(nearest & by_all) / 10)
        other.append(max(int8_scores[row, i] for i in rest if groups[i] != groups[row]))
        same.append(int8_scores[row, row ^ 1])
    # Cosines within 1e-6 of the tenth count as well.
    assert checks.recall_at_10 == pytest.approx(np.mean(recall), abs=0.03)
    assert checks.recall_at_10 < 1
    assert checks.whole_recall_at_10 == pytest.approx(np.mean(cut), abs=0.03)
    assert checks.max_score_error == pytest.approx(
        np.abs(int8_scores - unit @ unit.T).max(), abs=1e-6
    )
    for spread, values in ((scores.nearest_other, other), (scores.nearest_same, same)):
        expected = np.percentile(values, (5, 50, 95))
        assert [spread.p05, spread.p50, spread.p95] == pytest.approx(expected, abs=1e-4)


def test_a_threshold_lets_five_of_a_hundred_unrelated_questions_pass():
    random = np.random.default_rng(2)
    scores = random.normal(0.2, 0.1, (4000, 100))  # of questions with all texts
    low, middle, high = np.percentile(scores, (5, 50, 95))
    threshold = index_checks.threshold_of(Spread(p05=low, p50=middle, p95=high), 100)
    assert np.mean(scores.max(axis=1) >= threshold) == pytest.approx(0.05, abs=0.01)
    assert index_checks.threshold_of(Spread(p05=0.9, p50=0.94, p95=0.98), 1000) == 1
    assert index_checks.threshold_of(Spread(p05=low, p50=middle, p95=high), 19) is None
    assert index_checks.threshold_of(None, 100) is None


def test_one_text_alone_is_an_index_without_checks(export, tmp_path):
    rows = index_rows.IndexRows(["good film"], None, [1], ())
    card, _ = indexing.build(rows, indexing.open_encoder(str(export)), tmp_path / "one", width=4)
    assert (card.checks, card.threshold, card.width) == (None, None, 4)
    _, matches, _ = indexing.search(str(tmp_path / "one"), "good film", source=str(export))
    assert [(match.row, match.answer) for match in matches] == [(0, None)]
