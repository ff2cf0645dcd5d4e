import dataclasses
import functools
import math
from unittest import mock

import numpy as np
import pytest
from scipy import special

from tfdistill import analysis, errors, tasks
from tfdistill.analysis import promises
from tfdistill.manifest.confidence import Confidence
from tfdistill.tasks import probabilities
from tfdistill.tasks.encoded import EncodedExamples

DRAWS = 1000
KIND = {name: tasks.KINDS[name] for name in ("classification", "multi_label", "token")}


def draw(random, num_rows):
    """Confidences and whether the answers are right; they are too sure by up to 10 points."""
    confidences = 0.5 + 0.5 * random.beta(3.0, 0.7, num_rows)
    return confidences, random.random(num_rows) < right_share(confidences)


def right_share(confidences):
    return np.clip(confidences - 0.4 * (1 - confidences), 0, 1)


@pytest.mark.parametrize("max_error", [0.02, 0.05, 0.1])
def test_a_promise_holds_in_nine_of_ten_draws(max_error, monkeypatch):
    monkeypatch.setattr(promises, "_rows_needed", lambda *_: None)  # takes longer than all else
    random = np.random.default_rng(7)
    everything = np.sort(draw(random, 400_000)[0])
    wrong = 1 - right_share(everything)
    wrong_above = np.cumsum(wrong[::-1])[::-1]
    num_held, coverage = 0, []
    for _ in range(DRAWS):
        promise = analysis.find_promise(*draw(random, 400), max_error)
        coverage.append(promise.coverage or 0.0)
        if promise.threshold is None:
            num_held += 1
            continue
        first = np.searchsorted(everything, promise.threshold, side="right")
        num_held += wrong_above[first] / (len(everything) - first) <= max_error
    # 900 are promised; 880 is two standard errors of 1,000 draws below.
    assert num_held >= 0.88 * DRAWS
    if max_error == 0.1:  # it is no threshold that only the surest pass
        assert num_held < 0.99 * DRAWS and np.mean(coverage) > 0.4


def test_no_sure_answer_has_the_threshold_itself_and_where_few_are_wrong_all_are_sure():
    confidences = np.repeat([0.9, 0.8, 0.7], 200)
    promise = analysis.find_promise(confidences, np.arange(600) < 400, 0.1)
    sure = confidences > promise.threshold
    assert (promise.coverage, promise.error) == (sure.mean(), 0.0) and sure.sum() in (200, 400)
    promise = analysis.find_promise(np.linspace(0.6, 0.9, 300), np.arange(300) > 2, 0.05)
    assert (promise.coverage, promise.error) == (1.0, 0.01)
    assert promise.covers(0.6) and not promise.covers(0.5999999)
    for confidences, right in ((0, 0), (3, 2)):
        with pytest.raises(errors.ShapeError):
            analysis.find_promise(np.ones(confidences), np.ones(right, bool), 0.1)


def test_too_few_rows_promise_nothing_and_say_how_many_it_takes_which_then_show_it():
    # 0.95^45 < 0.1 < 0.95^44: of 45 sure answers none may be wrong.
    assert promises.fewest_rows(0.05) == 45 == math.ceil(math.log(0.1) / math.log(0.95))
    promise = analysis.find_promise(np.full(44, 0.9), np.ones(44, bool), 0.05)
    assert (promise.threshold, promise.rows_needed) == (None, 45)
    assert "no threshold keeps it on 44 texts, it would take about 45" in promise.summary
    assert analysis.find_promise(np.full(45, 0.9), np.ones(45, bool), 0.05).covers(0.9)
    half = np.arange(400) % 2 == 0
    hopeless = analysis.find_promise(np.linspace(0, 1, 400), half, 0.05)
    assert (hopeless.threshold, hopeless.rows_needed) == (None, None)
    right = np.arange(100) % 33 != 0  # 4% of the answers wrong, equally sure
    needed = analysis.find_promise(np.full(100, 0.9), right, 0.05).rows_needed
    assert needed > 100
    enough = np.arange(needed) >= math.ceil(0.04 * needed)
    assert analysis.find_promise(np.full(needed, 0.9), enough, 0.05).covers(0.9)


@pytest.mark.parametrize(
    ("wrong", "sure"),
    [
        ([], 400),
        ([0], 400),  # the surest one ends nothing
        (range(6), 400),  # the first threshold has 104 above it: P(Bin(104, 0.1) <= 6) is 0.098,
        (range(7), None),  # of 7 it is 0.17
        ([*range(6), 110], 400),  # the next one has 116
        ([*range(6), 110, 111], 104),
        (range(200, 230), 210),  # 10 of 210 are wrong, of 222 too many
        (range(300, 400), 324),
    ],
)
def test_thresholds_are_tested_from_a_quarter_of_the_rows_until_one_fails(wrong, sure):
    right = np.ones(400, bool)
    right[list(wrong)] = False
    confidence = np.linspace(1, 0.5, 400)
    promise = analysis.find_promise(confidence, right, 0.1)
    assert (promise.coverage and round(400 * promise.coverage)) == sure


@pytest.mark.slow
@pytest.mark.parametrize("max_error", [0.01, 0.05, 0.1, 0.5])
@pytest.mark.parametrize(
    "num_rows", [1, 22, 23, 45, 100, 388, 1000, pytest.param(5000, marks=pytest.mark.thorough)]
)
def test_at_each_tested_rank_one_wrong_answer_more_is_allowed(num_rows, max_error):
    allowed = [
        sum(special.bdtr(np.arange(sure + 1), sure, max_error) <= 0.1)
        for sure in range(num_rows + 1)
    ]
    ranks = [
        rank
        for rank in range(math.ceil(num_rows / 4), num_rows + 1)
        if allowed[rank] > allowed[rank - 1]
    ]
    tested = promises._tested_ranks(num_rows, max_error)
    if len(ranks) <= 50:
        assert tested.tolist() == ranks
    else:
        assert len(tested) == 50 and set(tested) <= set(ranks)
        assert (tested[0], tested[-1]) == (ranks[0], ranks[-1])


def examples_of(lengths, labels, **changes):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = np.arange(offsets[-1], dtype=np.int32)
    return EncodedExamples(ids, offsets, np.zeros(len(ids), np.uint8), labels, **changes)


WINDOWS = {"token_labels": True, "sources": np.array([0, 0, 1])}
TAGS = [[0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.5, 0.5], [0.7, 0.3]]
JUDGED = {  # probabilities, examples, and of each text the confidence and whether it is right
    "classification": (
        [[0.2, 0.8], [0.6, 0.4]], examples_of([2, 2], np.array([1, 1])),
        [0.8, 0.6], [True, False],
    ),
    "multi_label": (
        [[0.9, 0.2], [0.9, 0.2]], examples_of([2, 2], np.array([[1, 0], [1, 1]], np.float32)),
        [0.72, 0.72], [True, False],
    ),
    "token": (
        TAGS, examples_of([2, 2, 2], np.array([-100, 0, 1, 1, -100, 0], np.int32), **WINDOWS),
        [0.9 * 0.8 * 0.6, 0.7], [False, True],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", JUDGED)
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_labels_of_a_text_are_right_together_whatever_its_windows(kind, temperature):
    shares, examples, confidence, right = JUDGED[kind]
    shares = np.array(shares)
    logits = np.log(shares / (1 - shares if kind == "multi_label" else 1))
    judged = analysis.judge(KIND[kind], temperature * logits, examples, temperature)
    np.testing.assert_allclose(judged.confidence, confidence)
    assert judged.right.tolist() == right


def test_a_text_of_words_is_judged_along_the_best_allowed_path_and_promised_once():
    spec = tasks.TaskSpec("ner", "0", "-1", kind="token", labels=("O", "B-X", "I-X"))
    labels = np.array([-100, 1, 2, 0, -100, 0], np.int32)
    examples = dataclasses.replace(examples_of([2, 2, 2], labels, **WINDOWS), task=spec)
    # The first text: B-X I-X (0.07) before O O (0.06), though I-X is the likeliest first tag.
    likely = [[0.3, 0.1, 0.6], [0.2, 0.1, 0.7], [0.8, 0.1, 0.1], [0.9, 0.05, 0.05]]
    shares = np.full((6, 3), 1 / 3)
    shares[[1, 2, 3, 5]] = likely
    judged = analysis.judge(KIND["token"], np.log(shares), examples)
    np.testing.assert_allclose(judged.confidence, [0.1 / 0.4 * 0.7 * 0.8, 0.9 / 0.95])
    assert judged.right.tolist() == [True, True]
    told = analysis.fit_confidence(
        KIND["token"], None, (np.log(shares), examples), model_sha256="0" * 64
    )
    # Of three windows; of the text that has an entity.
    assert told.promises == () and {promise.rows for promise in told.entity_promises} == {1}


def test_the_error_of_the_surest_answers_is_told_for_each_share_of_them():
    confidence = np.array([0.9, 0.8, 0.8, 0.7, 0.6])
    right = np.array([True, False, True, True, False])
    points = analysis.error_by_coverage(analysis.JudgedTexts(confidence, right), fewest=1)
    # No threshold parts the two answers of 0.8.
    expected = [(0.2, 0), (0.6, 1 / 3), (0.8, 1 / 4), (1, 2 / 5)]
    np.testing.assert_allclose(points, expected)
    few = analysis.error_by_coverage(analysis.JudgedTexts(confidence, right), fewest=20)
    np.testing.assert_allclose(few, expected[-1:])


def fitted(confidence, right, others, max_error=0.05, familiar=None):
    """The promise for labelled texts, and texts of no label, at confidences of class 0."""
    whole = np.concatenate([confidence, others])
    logits = np.stack([np.log(whole / (1 - whole)), np.zeros(len(whole))], axis=1)
    labels = np.concatenate([1 - right, np.full(len(others), -100)]).astype(np.int32)
    rows = logits, examples_of([1] * len(whole), labels)
    familiarity = None if familiar is None else mock.Mock(**{"covers.return_value": familiar})
    options = {"model_sha256": "", "familiarity": familiarity, "max_errors": [max_error]}
    with mock.patch.object(Confidence, "of_file", lambda _, **values: values["promises"]):
        (promise,) = analysis.fit_confidence(KIND["classification"], None, rows, **options)
    return promise


def test_texts_of_no_label_raise_the_threshold_and_measure_it():
    random = np.random.default_rng(3)
    confidence, others = random.uniform(0.5, 0.999, 400), random.uniform(0.5, 0.9, 400)
    right = np.ones(400, int)
    alone, raised = fitted(confidence, right, others[:0]), fitted(confidence, right, others)
    assert alone.coverage == 1 and (alone.others, alone.others_sure) == (None, None)
    assert (alone.on_others in alone.summary, raised.on_others in raised.summary) == (True, True)
    assert alone.on_others == "not tested on texts of another kind"
    assert raised.threshold > alone.threshold and raised.error == 0
    # The least sure one is right above the threshold: its confidence is rounded on the way.
    assert raised.coverage == pytest.approx((confidence > raised.threshold).mean(), abs=1 / 399)
    # Of the half that raised it at most 5% are sure: of all no more than 5% and the other half's.
    sure = (others > raised.threshold).sum()
    assert raised.others == 400 and sure - round(200 * raised.others_sure) <= 10
    assert 0.5 < (others.max() - raised.threshold) / 0.02 < 1.5  # 5% of 0.4 is 0.02
    assert raised.on_others == f"200 other texts: {raised.others_sure:.1%} sure"


@pytest.mark.parametrize(("number", "few"), [(1, True), (44, True), (45, False)])
def test_fewer_than_45_texts_of_no_label_are_counted_only(number, few):
    confidence, right = np.linspace(0.6, 0.99, 200), np.ones(200, int)
    promise = fitted(confidence, right, np.full(number, 0.8))
    assert (promise.others, promise.others_sure) == (number, 1.0 if few else 0.0)
    assert (promise.coverage == 1) == few
    assert promise.on_others.endswith("too few to raise the threshold") == few


@pytest.mark.parametrize("familiar", [None, np.arange(300) < 200])
def test_where_other_texts_are_as_sure_as_all_nothing_is_promised_unless_they_are_not_familiar(
    familiar,
):
    labelled = np.linspace(0.6, 0.9, 200), np.ones(200, int)
    promise = fitted(*labelled, np.full(100, 0.95), familiar=familiar)
    if familiar is None:
        assert (promise.threshold, promise.coverage, promise.rows) == (None, None, 200)
        assert "no threshold keeps it on 200 texts" in promise.summary
    else:
        assert (promise.coverage, promise.others, promise.others_sure) == (1.0, 100, 0.0)


def test_a_raised_threshold_keeps_the_promise_in_nine_of_ten_draws(monkeypatch):
    monkeypatch.setattr(promises, "_rows_needed", lambda *_: None)  # takes longer than all else
    random = np.random.default_rng(7)
    num_held = 0
    for _ in range(DRAWS // 4):
        confidence, right = draw(random, 400)
        promise = fitted(confidence, right.astype(int), 0.5 + 0.5 * random.beta(3, 1, 100), 0.1)
        new, right = draw(random, 20_000)
        sure = [] if promise.threshold is None else right[new > promise.threshold]
        num_held += not len(sure) or 1 - np.mean(sure) <= 0.1
    # 225 are promised; 216 is two standard errors of 250 draws below.
    assert num_held >= 216


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_the_temperature_of_several_labels_is_found(temperature):
    random = np.random.default_rng(1)
    logits = random.normal(scale=2.0, size=(20_000, 3))
    labels = random.random(logits.shape) < 1 / (1 + np.exp(-logits))
    # 60,000 draws leave about 1% of noise.
    fitted = analysis.fit_temperature(logits * temperature, labels.astype(np.float32))
    assert fitted == pytest.approx(temperature, rel=0.03)
    assert not analysis.is_at_end(fitted, logits * temperature, labels)


def test_a_temperature_at_the_end_of_its_range_is_told_and_not_taken(caplog):
    logits, examples = 3 * np.eye(2), examples_of([2, 2], np.arange(2))
    fitted = analysis.fit_temperature(logits, np.arange(2))
    assert analysis.is_at_end(fitted, logits, np.arange(2))
    record = analysis.fit_confidence(
        KIND["classification"], (logits, examples), None, model_sha256="0" * 64
    )
    assert record.temperature == 1.0 and record.promises == ()
    assert "2 labelled texts do not tell it" in caplog.text


def test_of_a_file_at_its_temperature_no_other_is_fitted():
    random = np.random.default_rng(4)
    logits = random.normal(scale=3.0, size=(300, 3))
    rows = logits, examples_of([1] * 300, logits.argmax(axis=1) * (random.random(300) < 0.8))
    kind = KIND["classification"]
    record = analysis.fit_confidence(
        kind, rows, rows, model_sha256="2" * 64, temperature_inside=1.7
    )
    assert (record.temperature, record.temperature_inside) == (1.0, 1.7)
    judged = analysis.judge(kind, *rows)
    expected = [analysis.find_promise(*judged, error) for error in promises.MAX_ERRORS]
    assert list(record.promises) == expected


def test_labels_that_occur_once_give_a_temperature_and_the_texts_that_a_promise_takes(caplog):
    random = np.random.default_rng(5)
    logits = 4 * np.eye(12) + random.normal(size=(12, 12))
    gold = np.arange(12)
    gold[:2] = 1, 0
    rows = logits, examples_of([1] * 12, gold)
    record = analysis.fit_confidence(KIND["classification"], rows, rows, model_sha256="3" * 64)
    assert record.temperature > 1 and not caplog.text
    assert [promise.threshold for promise in record.promises] == [None] * 4
    # 12 texts say nothing of 10%, which takes 22 without a fault.
    assert all(
        promise.rows_needed is None or promise.rows_needed >= 22 for promise in record.promises
    )
    assert record.promises[3].rows_needed is not None


def test_a_record_has_a_promise_for_each_error_and_is_of_one_file():
    random = np.random.default_rng(3)
    logits = random.normal(scale=3.0, size=(300, 2))
    gold = (1 / (1 + np.exp(logits[:, 0] - logits[:, 1])) > random.random(300)).astype(int)
    rows = logits, examples_of([1] * 300, gold)
    record = analysis.fit_confidence(KIND["classification"], rows, rows, model_sha256="1" * 64)
    assert [promise.max_error for promise in record.promises] == [0.01, 0.02, 0.05, 0.1]
    assert record.promise_for() is record.promises[2]
    assert record.sha256 == record.digest_with("1" * 64) != record.digest_with("2" * 64)
    edited = record.model_copy(update={"temperature": record.temperature + 1e-9})
    assert edited.digest_with("1" * 64) != record.sha256
    assert Confidence.model_validate_json(record.model_dump_json()) == record
    with pytest.raises(errors.ConfigError, match=r"one of 0.01, 0.02, 0.05, 0.1, received 0.03"):
        record.promise_for(0.03)


def test_probabilities_are_finite_at_the_largest_logits_and_log_probabilities_are_logits():
    for kind in KIND.values():
        shares = probabilities.of_logits(kind, np.array([[1e30, -1e30], [0.0, 0.0]]))
        np.testing.assert_allclose(shares, [[1, 0], [0.5, 0.5]])
    shares = np.float32([[0.25, 0.75], [0.0, 1.0]])
    logits = probabilities.logits_of(shares, softmax=True)
    back = probabilities.of_logits(KIND["classification"], logits)
    np.testing.assert_allclose(back, shares, atol=1e-11)  # of the 0 that counts as 1e-12
    assert probabilities.logits_of(shares, softmax=False) is shares


def test_texts_of_another_kind_give_no_promise_and_count_in_its_shares():
    random = np.random.default_rng(3)
    logits = 6 * np.eye(2)[random.integers(0, 2, 1000)] + random.normal(size=(1000, 2))
    labels = logits.argmax(axis=1).astype(np.int32)
    labels[::5] = 1 - labels[::5]  # of those of another kind each answer is wrong
    fit = functools.partial(promises.fit_confidence, KIND["classification"], None)
    options = {"model_sha256": "0" * 64, "familiarity": None}
    rows = logits, examples_of([1] * 1000, labels)
    assert all(promise.threshold is None for promise in fit(rows, **options).promises)
    told = mock.Mock(**{"covers.return_value": np.arange(1000) % 5 > 0})
    with mock.patch.object(promises.Confidence, "of_file", lambda *_, **values: values):
        record = fit(rows, **{**options, "familiarity": told})
    for promise in record["promises"]:
        assert promise.coverage == pytest.approx(0.8) and promise.error == 0.0
        assert promise.rows == 1000
