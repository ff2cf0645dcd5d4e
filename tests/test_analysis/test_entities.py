"""Promises of entities and of masks: what counts, and that whole texts are the unit."""

import numpy as np
import pytest

from tfdistill import analysis, tasks
from tfdistill.analysis import entities, promises
from tfdistill.manifest.confidence import Confidence
from tfdistill.tasks.encoded import EncodedExamples

KIND = tasks.KINDS["token"]
TAGS = ("O", "B-X", "I-X", "B-Y", "I-Y")


def tagged(gold, predicted, labels=TAGS, surplus=6.0):
    """Logits that predict the tags of texts, and the texts with their labels."""
    numbers = np.array([labels.index(tag) for tags in gold for tag in tags.split()], np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(tags.split()) for tags in gold])])
    metrics = () if "O" in labels else ("accuracy",)
    task = tasks.TaskSpec("ner", "0", "-1", kind="token", labels=labels, metrics=metrics)
    ids = np.arange(len(numbers), dtype=np.int32)
    types = np.zeros(len(ids), np.uint8)
    rows = EncodedExamples(ids, offsets, types, numbers, token_labels=True, task=task)
    tags = [labels.index(tag) for tags in predicted for tag in tags.split()]
    return surplus * np.eye(len(labels))[tags], rows


def test_an_entity_is_right_with_exact_edges_and_type_in_its_text():
    gold = ["B-X I-X O", "O B-X", "B-Y O B-X", "O O"]
    logits, rows = tagged(gold, ["B-X I-X O", "O B-Y", "B-Y I-Y B-X", "B-X O"])
    judged = entities.judge_entities(logits, rows, 2.0)
    assert judged.right.tolist() == [True, False, False, True, False]
    assert judged.texts.tolist() == [0, 1, 2, 2, 3]
    assert judged.gold_texts.tolist() == [0, 1, 2, 2]
    first = np.exp(3) / (np.exp(3) + 2)  # of O, B-X, B-Y: no text begins with I
    second = np.exp(3) / (np.exp(3) + 3)  # nor does I-Y follow
    end = (np.exp(3) + 2) / (np.exp(3) + 3)
    assert judged.confidence[0] == pytest.approx(first * second * end)


def test_an_entity_is_masked_where_all_of_its_words_are_and_other_words_have_their_price():
    gold = ["B-X I-X O O", "B-Y B-X"]
    logits, rows = tagged(gold, ["O O O B-X", "B-X B-X"])
    logits[1, 2] = 5.0  # nearly I-X
    judged = entities.judge_entities(logits, rows)
    shares = 1 - np.exp(logits[:, 0]) / np.exp(logits).sum(axis=1)
    # A word of an entity that is found is masked, whatever its type.
    np.testing.assert_allclose(judged.inside, [shares[0], 1, 1])
    np.testing.assert_allclose(judged.outside, [shares[2], 1])
    figures = entities.mask_figures(judged, 0.0)
    assert figures == {
        "recall": 1.0, "needless": 1.0, "recall_of_path": 2 / 3, "needless_of_path": 0.5
    }  # fmt: skip
    assert entities.mask_figures(judged, shares[0])["recall"] == 2 / 3


def test_one_entity_of_a_text_is_drawn_as_often_as_it_is_one_of_all():
    sizes = np.tile([1, 2, 4], 4000)
    texts = np.repeat(np.arange(len(sizes)), sizes)
    rows = entities.drawn(texts)
    assert len(np.unique(texts[rows])) == len(rows)
    share = np.bincount(sizes[texts[rows]])[[1, 2, 4]] / 4000
    # Seven standard errors of 4,000 draws; all texts of the largest size are drawn.
    np.testing.assert_allclose(share, [0.25, 0.5, 1], atol=0.05)
    place = rows - np.searchsorted(texts, texts[rows])
    assert np.bincount(place[sizes[texts[rows]] == 4]).min() > 900
    np.testing.assert_array_equal(rows, entities.drawn(texts))
    assert entities.drawn(texts[:0]).tolist() == []


@pytest.mark.parametrize("max_error", [0.05, 0.1])
def test_no_share_that_is_too_large_is_promised_in_nine_of_ten_draws_of_whole_texts(
    max_error, monkeypatch
):
    monkeypatch.setattr(promises, "_rows_needed", lambda *_: None)  # takes longer than all else
    random, texts = np.random.default_rng(12), np.repeat(np.arange(300), 10)
    num_held = {"texts": 0, "entities": 0}
    for _ in range(200):
        # Just more wrong ones than promised, whatever the confidence: nearly all of a text's.
        wrong = np.where(random.random(300) < 1.03 * max_error, 0.9, 0.1 * max_error)[texts]
        confidence, right = random.random(3000), random.random(3000) > wrong
        for unit, rows in (("texts", entities.drawn(texts)), ("entities", np.arange(3000))):
            promise = analysis.find_promise(confidence[rows], right[rows], max_error)
            num_held[unit] += promise.threshold is None
    # 180 are promised. As if each entity were drawn by itself, far fewer are kept.
    assert num_held["texts"] >= 176 and num_held["entities"] < 172


def test_a_recall_is_kept_in_nine_of_ten_resplits_and_as_low_as_that_allows():
    random = np.random.default_rng(12)
    texts = np.repeat(np.arange(10_000), 10)
    fate = 2 * random.normal(size=10_000)[texts]
    inside = 1 / (1 + np.exp(-3 - fate - random.normal(size=len(texts))))
    none = np.empty(0)
    num_held = num_reached = 0
    for _ in range(200):
        fits = np.zeros(10_000, bool)
        fits[random.permutation(10_000)[:300]] = True
        part = fits[texts]
        numbers = np.repeat(np.arange(300), 10)
        judged = entities.JudgedEntities(none, none, none, inside[part], numbers, none)
        recall = entities.find_recall(judged, 0.95)
        masked = np.mean(inside[~part] > recall.threshold)
        num_held += masked >= 0.95
        num_reached += masked >= 0.98
    assert num_held >= 176 and num_reached < 100


@pytest.mark.parametrize(("rows", "allowed"), [(229, None), (230, 0), (387, 0), (388, 1)])
def test_a_recall_of_99_percent_takes_230_texts_without_a_miss(rows, allowed):
    gold = ["B-X O"] * rows
    logits, examples = tagged(gold, gold)
    logits[::2] = np.eye(5)[0] * np.linspace(3, 1, rows)[:, None]  # found by the threshold alone
    judged = entities.judge_entities(logits, examples)
    recall = entities.find_recall(judged, 0.99)
    assert recall.rows == rows
    if allowed is None:
        assert (recall.threshold, recall.rows_needed) == (None, 230)
        assert recall.possible == 0.9899 < 0.1 ** (1 / 229)
        assert "it takes about 230, 229 show at most 0.9899" in recall.summary
    else:
        # As many entities as may be missed are at or below the threshold.
        assert (judged.inside <= recall.threshold).sum() == allowed
        assert recall.recall == (rows - allowed) / rows and recall.recall_of_path == 0
        assert (recall.needless, recall.possible) == (0, None)


def test_no_entity_is_promised_where_none_is_found_or_named():
    logits, rows = tagged(["B-X O"] * 3, ["O O"] * 3)
    options = {"model_sha256": "0" * 64, "min_recall": 0.9}
    record = analysis.fit_confidence(KIND, None, (logits, rows), **options)
    assert (record.promises, record.entity_promises) == ((), ())
    assert record.recall.rows == 3 and record.recall.threshold is None
    logits, rows = tagged(["N V"] * 3, ["N V"] * 3, ("N", "V"))
    record = analysis.fit_confidence(KIND, None, (logits, rows), model_sha256="0" * 64)
    assert len(record.promises) == 4 and (record.entity_promises, record.recall) == ((), None)


def test_a_record_has_promises_of_entities_and_a_recall_that_are_signed():
    gold = ["B-X I-X O"] * 300
    logits, rows = tagged(gold, ["B-X I-X O"] * 291 + ["B-Y I-Y O"] * 9)
    options = {"model_sha256": "1" * 64, "min_recall": 0.95}
    record = analysis.fit_confidence(KIND, None, (logits, rows), **options)
    assert record.promises == () and [it.rows for it in record.entity_promises] == [300] * 4
    usual = record.promise_for()
    assert usual is record.entity_promises[2]
    assert (usual.coverage, usual.error) == (1.0, 9 / 300)
    assert "at most 5% of the sure entities wrong: sure of 100% of the entities in 300" in str(
        record.summary
    )
    assert record.recall.summary.startswith("at least 0.95 of the entities masked: 100.0% of those")
    assert Confidence.model_validate_json(record.model_dump_json()) == record
    digest = record.digest_with("1" * 64)
    assert record.sha256 == digest
    lower = record.recall.model_copy(update={"threshold": 0.0})
    fewer = {"entity_promises": record.entity_promises[:3]}
    for changes in ({"recall": lower}, {"recall": None}, fewer):
        assert record.model_copy(update=changes).digest_with("1" * 64) != digest
