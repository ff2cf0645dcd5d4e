import numpy as np
import pytest
import scipy.sparse
import scipy.stats
import sklearn.metrics

from tfdistill import errors, tasks
from tfdistill.data.batches import encode_examples
from tfdistill.tasks import pair_metrics
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tokenization.reading import read_tokenizer

random = np.random.default_rng(5)
FIRST, SECOND = random.standard_normal((2, 30, 4))
GRADES = random.integers(0, 6, 30).astype(np.float64)
MATCHES = random.integers(0, 2, 30).astype(np.float64)


def cosine(x, y):
    return float(x @ y) / (float(x @ x) ** 0.5 * float(y @ y) ** 0.5)


COSINES = np.array([cosine(x, y) for x, y in zip(FIRST, SECOND, strict=True)])


def test_cosines_equal_a_loop_also_of_sparse_rows():
    np.testing.assert_allclose(pair_metrics.cosines(FIRST, 3 * SECOND), COSINES, rtol=1e-12)
    sparse = scipy.sparse.csr_matrix(FIRST), scipy.sparse.csr_matrix(SECOND)
    np.testing.assert_allclose(pair_metrics.cosines(*sparse), COSINES, rtol=1e-12)
    np.testing.assert_array_equal(pair_metrics.cosines(np.zeros((1, 4)), SECOND[:1]), [0.0])


def test_correlations_are_those_of_scipy():
    scores = pair_metrics.similarity_scores(("pearson", "spearman"), COSINES, GRADES)
    assert scores["pearson"] == pytest.approx(scipy.stats.pearsonr(COSINES, GRADES).statistic)
    assert scores["spearman"] == pytest.approx(scipy.stats.spearmanr(COSINES, GRADES).statistic)
    same = pair_metrics.similarity_scores(("spearman",), np.full(30, 0.94), GRADES)
    assert same == {"spearman": 0.0}
    with pytest.raises(errors.DataError, match="two different numbers"):  # grades have no area
        pair_metrics.similarity_scores(("auc",), COSINES, GRADES)


@pytest.mark.parametrize("similarities", [COSINES, np.round(COSINES, 1), np.zeros(30)])
def test_accuracy_is_that_of_the_best_threshold_and_auc_that_of_scikit_learn(similarities):
    scores = pair_metrics.similarity_scores(("accuracy", "auc"), similarities, 5 * MATCHES)
    thresholds = [-2.0, *np.unique(similarities), 2.0]
    best = max(np.mean((similarities >= cut) == (MATCHES > 0)) for cut in thresholds)
    assert scores["accuracy"] == pytest.approx(best)
    assert scores["auc"] == pytest.approx(sklearn.metrics.roc_auc_score(MATCHES, similarities))


def test_pairs_of_equal_texts_are_equally_similar():
    vectors = np.random.default_rng(7).normal(size=(40, 7)).astype(np.float32)
    cosines = pair_metrics.cosines(vectors, vectors)
    assert np.ptp(cosines) > 0  # rounded differently
    gold = np.arange(41.0)
    similarities = np.append(cosines, -0.5)
    scores = pair_metrics.similarity_scores(["spearman"], similarities, -gold)
    expected = scipy.stats.spearmanr([*[1.0] * 40, -0.5], -gold).statistic
    assert scores["spearman"] == pytest.approx(expected, abs=1e-12)


RELEVANT = [sorted(random.choice(30, random.integers(1, 4), replace=False)) for _ in range(12)]


def test_retrieval_equals_loops_and_scikit_learn():
    computed = pair_metrics.retrieval_scores(pair_metrics.RETRIEVAL, FIRST[:12], SECOND, RELEVANT)
    recalls, reciprocal, gains = {1: [], 10: []}, [], []
    for query, relevant in zip(FIRST, RELEVANT, strict=False):
        scores = np.array([cosine(query, text) for text in SECOND])
        order = sorted(range(30), key=lambda text, scores=scores: -scores[text])
        ranks = [order.index(text) + 1 for text in relevant]
        for cut, values in recalls.items():
            values.append(sum(rank <= cut for rank in ranks) / len(ranks))
        reciprocal.append(1 / min(ranks))
        gold = np.isin(np.arange(30), relevant).astype(float)
        gains.append(sklearn.metrics.ndcg_score([gold], [scores], k=10))
    assert computed["recall_at_1"] == pytest.approx(np.mean(recalls[1]))
    assert computed["recall_at_10"] == pytest.approx(np.mean(recalls[10]))
    assert computed["mrr"] == pytest.approx(np.mean(reciprocal))
    assert computed["ndcg_at_10"] == pytest.approx(np.mean(gains))


def test_vectors_that_are_all_the_same_find_nothing():
    scores = pair_metrics.retrieval_scores(
        pair_metrics.RETRIEVAL, np.ones((3, 4)), np.ones((30, 4)), [[0], [1], [2]]
    )
    assert scores == {"recall_at_1": 0, "recall_at_10": 0, "mrr": 1 / 30, "ndcg_at_10": 0}


def encoded(ids, labels):
    ids = np.asarray(ids, np.int32)
    return EncodedExamples(
        ids=ids,
        offsets=np.arange(len(ids) + 1),
        types=np.zeros(len(ids), np.uint8),
        labels=np.repeat(np.asarray(labels, np.float32), 2),
    )


def task(*names):
    return tasks.TaskSpec("own", "a", "score", "b", kind="embedding", metrics=names)


def test_rows_two_by_two_are_pairs():
    vectors = np.stack([FIRST, SECOND], axis=1).reshape(60, 4)
    examples = encoded(range(60), GRADES)
    scores = task("pearson", "recall_at_10").score(vectors, examples)
    assert list(scores) == ["pearson", "recall_at_10"]
    assert scores["pearson"] == pytest.approx(scipy.stats.pearsonr(COSINES, GRADES).statistic)
    matches = [[i] for i in np.flatnonzero(GRADES > 0)]
    expected = pair_metrics.retrieval_scores(("recall_at_10",), FIRST[GRADES > 0], SECOND, matches)
    assert scores["recall_at_10"] == pytest.approx(expected["recall_at_10"])
    with pytest.raises(errors.ShapeError, match="two rows for each pair"):
        task("pearson").score(vectors[:59], examples)
    vectors[3] = np.nan
    with pytest.raises(errors.DataError, match="example 3: expected finite numbers"):
        task("pearson").score(vectors, examples)


def test_a_text_that_occurs_twice_is_one_query_or_one_answer():
    """Question 1 has the answers 10 and 11, questions 2 and 3 share the answer 12."""
    ids = [1, 10, 1, 11, 2, 12, 3, 12]
    places = {1: [1, 0], 10: [1, 0], 11: [0.9, 0.1], 2: [0, 1], 12: [0, 1], 3: [1, 0.1]}
    vectors = np.array([places[token] for token in ids], float)
    scores = task("recall_at_1", "mrr").score(vectors, encoded(ids, [1, 1, 1, 1]))
    # Ranks: question 1: 1 and 2; question 2: 1; question 3: behind 10 and 11.
    assert scores["recall_at_1"] == pytest.approx((0.5 + 1 + 0) / 3)
    assert scores["mrr"] == pytest.approx((1 + 1 + 1 / 3) / 3)
    with pytest.raises(errors.DataError, match="pairs above 0"):  # without a match
        task("mrr").score(np.eye(2), encoded([1, 2], [0]))


def test_texts_of_unknown_words_or_with_one_beginning_are_texts_of_their_own(toy_vocab_file):
    """A model cannot tell them apart, so that their ties count against it."""
    first, second = ["😀", "😂", "😎", "🐶"], ["😁", "the film is good", "The  film is bad", "🐱"]
    texts = [text for pair in zip(first, second, strict=True) for text in pair]
    texts += ["😀", "THE FILM is good"]  # a query that occurs twice, and its second answer
    spec = task("recall_at_1", "mrr")
    examples = tasks.Examples(spec, texts, None, np.ones(10, np.float32), paired=True)
    encoded_texts = encode_examples(examples, read_tokenizer(toy_vocab_file), 4)
    ids = [encoded_texts.row(index).tolist() for index in range(10)]
    assert ids[0] == ids[2] and ids[3] == ids[5]
    assert encoded_texts.sources is None  # each text has one row
    halves = [encoded_texts.select(rows).same_texts for rows in ([0, 8], [2, 3])]
    assert [half[0] == half[1] for half in halves] == [True, False]
    scores = spec.score(np.ones((10, 3)), encoded_texts)
    # Four queries and four answers of one similarity: the best ranks are 3 and thrice 4.
    assert scores == {"recall_at_1": 0, "mrr": pytest.approx((1 / 3 + 3 / 4) / 4)}


def test_vectors_that_are_equal_but_for_rounding_rank_behind_all_others(rng):
    vectors = np.repeat(rng.normal(size=(1, 48)), 2 * 37, axis=0).astype(np.float32)
    vectors += 1e-7 * rng.normal(size=vectors.shape).astype(np.float32)
    keys = [str(index).encode() for index in range(len(vectors))]
    names = ("mrr", "recall_at_1", "recall_at_10")
    scores = pair_metrics.score_pairs(names, vectors, np.ones(37), keys)
    assert scores == pytest.approx({"mrr": 1 / 37, "recall_at_1": 0.0, "recall_at_10": 0.0})
