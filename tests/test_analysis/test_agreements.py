import numpy as np
import pytest
from scipy import special, stats
from test_analysis.test_promises import DRAWS, KIND, examples_of

from tfdistill import analysis, errors
from tfdistill.data.model_answers import ModelAnswers
from tfdistill.tasks.answer_cells import ABSTAINED, UNANSWERED
from tfdistill.tasks.encoded import UNLABELLED


def draw(random, num_rows, steps=None):
    """Confidences, and whether the answers are the large model's; `steps` leaves few values."""
    confidences = 0.5 + 0.5 * random.beta(3.0, 0.7, num_rows)
    if steps is not None:
        confidences = np.ceil(confidences * steps) / steps
    share = np.clip(confidences - 0.3 * (1 - confidences), 0, 1)
    return confidences, random.random(num_rows) < share


@pytest.mark.parametrize(
    ("max_disagreement", "num_rows", "steps"),
    [(0.02, 114, None), (0.05, 500, None), (0.1, 300, None), (0.05, 300, 16)],
)
def test_an_agreement_holds_over_all_requests_in_nine_of_ten_draws(
    max_disagreement, num_rows, steps
):
    random = np.random.default_rng(11)
    confidences, agrees = draw(random, 400_000, steps)
    otherwise = np.sort(confidences[~agrees])  # of all requests
    num_kept, coverage = 0, []
    for _ in range(DRAWS):
        agreement = analysis.find_agreement(*draw(random, num_rows, steps), max_disagreement)
        coverage.append(agreement.coverage or 0.0)
        threshold = 1.0 if agreement.threshold is None else agreement.threshold
        above = len(otherwise) - np.searchsorted(otherwise, threshold, side="right")
        num_kept += above / len(confidences) <= max_disagreement
    # So many rows keep it with 1 - P(Bin(n, a) <= k), no less than 0.9; 880 and 20 more than that
    # are two standard errors of 1,000 draws off. Equal confidences keep it more often.
    tail = special.bdtr(np.arange(num_rows), num_rows, max_disagreement)
    promised = DRAWS * (1 - tail[tail <= 0.1].max())
    assert num_kept >= 0.88 * DRAWS and np.mean(coverage) > 0.15
    assert steps is not None or num_kept <= promised + 20


@pytest.mark.parametrize(("max_disagreement", "fewest"), [(0.02, 114), (0.01, 230), (0.1, 22)])
def test_a_level_takes_rows_with_which_none_otherwise_is_allowed(max_disagreement, fewest):
    def agreement_of(num_rows, num_otherwise):
        agrees = np.arange(num_rows) >= num_otherwise  # the least sure differ
        confidences = np.linspace(0.5, 0.9, num_rows)
        return analysis.find_agreement(confidences, agrees, max_disagreement)

    few = agreement_of(fewest - 1, 0)
    assert (few.threshold, few.rows_needed) == (None, fewest)
    assert f"no threshold keeps it on {fewest - 1} texts, it takes {fewest}" in few.summary
    enough = agreement_of(fewest, 5)
    assert enough.coverage == pytest.approx((fewest - 5) / fewest) and enough.disagreement == 0
    assert enough.threshold == np.linspace(0.5, 0.9, fewest)[4]  # itself not sure
    assert agreement_of(fewest, 0).coverage == 1


def test_where_the_surest_answer_is_otherwise_the_next_level_of_rows_allows_it():
    first = analysis.find_agreement(np.linspace(0.9, 0.5, 37), np.arange(37) > 0, 0.1)
    assert (first.threshold, first.rows_needed) == (None, 38)  # P(Bin(38, 0.1) <= 1) is 0.095
    enough = analysis.find_agreement(np.linspace(0.9, 0.5, 38), np.arange(38) > 0, 0.1)
    assert (enough.coverage, enough.disagreement) == (1, 1 / 38)


def test_the_share_of_all_rows_counts_and_not_that_of_the_sure_ones():
    agrees = np.ones(1000, bool)
    agrees[[*range(13), *range(500, 1000)]] = False  # the 13 surest ones, and the lower half
    unweighted = analysis.find_agreement(np.linspace(1, 0.1, 1000), agrees, 0.02)
    # P(Bin(1000, 0.02) <= 14) is 0.103, of 13 0.064.
    assert (unweighted.coverage, unweighted.disagreement) == (0.5, 0.013)
    assert unweighted.covers(0.6) and not unweighted.covers(unweighted.threshold)
    weighted = analysis.find_agreement(
        np.linspace(1, 0.1, 1000), agrees, 0.02, counts=np.where(np.arange(1000) < 500, 3, 1)
    )
    assert weighted.requests == 0.75 and weighted.coverage == 0.5
    for agreement, saved in ((weighted, "75% of requests"), (unweighted, "50% of distinct texts")):
        left = {"75%": 250, "50%": 500}[saved[:3]]
        assert f"{saved} stay here, {left} calls left of 1,000" in agreement.summary
        assert agreement.calls_left == left
    with pytest.raises(errors.ShapeError):
        analysis.find_agreement(np.ones(3), np.ones(2, bool), 0.1)


def answers_of(classes, gold=None, counts=None):
    classes = np.asarray(classes, np.int32)
    gold = np.full(len(classes), UNANSWERED, np.int32) if gold is None else gold
    return ModelAnswers(classes, gold, counts, answered_by="a model 3.1")


def test_a_sure_answer_to_what_the_large_model_had_no_label_for_is_otherwise():
    logits = np.stack([np.linspace(2, 3, 402), np.full(402, -3.0)], axis=1)
    classes = np.zeros(402, np.int32)
    classes[300:400] = ABSTAINED  # all of them surer than the others
    classes[400:] = UNANSWERED
    gold = np.where(np.arange(402) < 30, 0, UNANSWERED)
    rows = logits, examples_of([1] * 402, np.zeros(402, np.int32))
    named = {"model_sha256": "1" * 64, "answers": answers_of(classes, gold, np.arange(402) + 1)}
    record = analysis.fit_confidence(KIND["classification"], None, rows, **named)
    assert [row.max_disagreement for row in record.agreements] == [0.01, 0.02, 0.05, 0.1]
    for row, allowed in zip(record.agreements, (1, 4, 14, 31), strict=True):  # of 400, by Bin
        assert (row.rows, row.coverage, row.disagreement) == (400, allowed / 400, allowed / 400)
        counts = np.arange(400 - allowed, 400) + 1
        assert row.requests == pytest.approx(counts.sum() / (400 * 401 / 2))
    line = next(line for line in record.summary if line.startswith("speaks for the model"))
    assert line.endswith("a model 3.1; 372 of the labels above are its answers, not gold")
    plain = analysis.fit_confidence(KIND["classification"], None, rows, model_sha256="1" * 64)
    assert plain.promises == record.promises and plain.sha256 != record.sha256
    empty = answers_of(np.full(402, UNANSWERED))
    none = analysis.fit_confidence(
        KIND["classification"], None, rows, model_sha256="1" * 64, answers=empty
    )
    assert none == plain and none.agreements == () and none.answered_by is None


def test_texts_of_no_label_raise_the_threshold_of_an_agreement_too():
    confidence = np.concatenate([np.linspace(0.5, 0.99, 300), np.full(90, 0.8)])
    logits = np.stack([np.log(confidence / (1 - confidence)), np.zeros(390)], axis=1)
    labels = np.where(np.arange(390) < 300, 0, UNLABELLED).astype(np.int32)
    answers = answers_of(np.where(np.arange(390) < 300, 0, UNANSWERED))
    record = analysis.fit_confidence(
        KIND["classification"],
        None,
        (logits, examples_of([1] * 390, labels)),
        model_sha256="1" * 64,
        answers=answers,
    )
    for row in record.agreements:
        assert row.threshold == pytest.approx(0.8) and not row.covers(0.8)
        assert (row.rows, row.disagreement) == (300, 0)
        assert row.coverage == pytest.approx((np.linspace(0.5, 0.99, 300) > 0.8).mean())


@pytest.mark.parametrize(("count", "total"), [(0, 10), (10, 10), (3, 17), (12, 182)])
def test_the_interval_of_a_share_is_the_exact_one(count, total):
    ends = stats.binomtest(count, total).proportion_ci(0.95)
    assert analysis.share_interval(count, total) == pytest.approx((ends.low, ends.high))
