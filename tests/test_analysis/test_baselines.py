import numpy as np
import pytest

from tfdistill import analysis, errors, tasks
from tfdistill.data import batches

TASK = tasks.TaskSpec("t", "text", "label", labels=("no", "yes", "unused"))
NUMBERS = tasks.TaskSpec("n", "text", "score", kind="regression")
SEVERAL = tasks.TaskSpec("m", "text", "tags", kind="multi_label", labels=("a", "b", "always"))


def examples(texts, labels, spec=TASK, pairs=None):
    return tasks.Examples(spec, list(texts), pairs, np.asarray(labels))


def of_texts(train):
    """What a linear model over words, fitted on `train`, answers to examples."""
    words = analysis.TextFeatures(train)
    model = analysis.fit_linear(train.spec, words(train), train.labels)
    return lambda dev: model.predict(words(dev))


def encoded(rows, types=None):
    ids = np.concatenate(rows).astype(np.int32)
    offsets = np.cumsum([0, *map(len, rows)])
    return batches.EncodedExamples(ids, offsets, np.asarray(types or 0 * ids, np.uint8))


@pytest.mark.parametrize(
    ("text", "like", "other"),
    [
        ("我喜欢足球比赛。", "明天有足球吗", "明天有雨吗"),
        ("サッカーが好き", "明日のサッカー", "明日の天気"),
        ("ชอบฟุตบอล", "ดูฟุตบอลพรุ่งนี้", "พรุ่งนี้ฝนตก"),
    ],
)
def test_scripts_without_blanks_share_words(text, like, other):
    features = analysis.TextFeatures(examples([text, like, other, "football GmbH"], [1, 1, 0, 0]))
    rows = features(examples([text, like, other], [1, 1, 0])).toarray()
    assert rows[0] @ rows[1] > 2 * (rows[0] @ rows[2]) and rows[0] @ rows[1] > 0.1
    assert {"football", "gmbh"} <= set(features._vectorizer.vocabulary_)


def test_majority_answers_the_most_frequent_class_the_mean_or_what_most_examples_have():
    logits = analysis.majority_logits(TASK, np.array([1, 1, 0]), 4)
    assert logits.argmax(axis=1).tolist() == [1, 1, 1, 1]
    assert np.exp(logits[0]) == pytest.approx([1 / 3, 2 / 3, 0], abs=1e-5)
    assert analysis.majority_logits(NUMBERS, np.array([1.0, 4.0]), 2).tolist() == [[2.5], [2.5]]
    labels = np.array([[1, 0, 1], [1, 0, 1], [0, 0, 1]])
    assert (analysis.majority_logits(SEVERAL, labels, 1) > 0).tolist() == [[True, False, True]]
    spec = tasks.TaskSpec("ner", "0", "-1", kind="token", labels=("O", "B-X", "I-X"))
    with pytest.raises(errors.ConfigError, match="over texts or pairs"):
        analysis.majority_logits(spec, np.array([0]), 1)


def test_the_order_of_two_words_is_a_feature():
    train = examples(["not good but bad", "not bad but good"] * 10, [0, 1] * 10)
    logits = of_texts(train)(examples(["not bad but good"], [1]))
    assert logits.shape == (1, 3)  # in the order of the task's labels, also one never seen
    assert logits.argmax() == 1


def test_pairs_are_compared_with_each_other():
    # Which words occur says nothing; whether both texts have the same one decides.
    words = ["red", "green", "blue", "white"]
    both = [(a, b) for a in words for b in words]
    train = examples(
        [a for a, _ in both], [int(a == b) for a, b in both], pairs=[b for _, b in both]
    )
    logits = of_texts(train)(train)
    assert logits.argmax(axis=1).tolist() == train.labels.tolist()


def test_texts_without_a_word_give_an_answer_and_one_class_alone_is_always_given():
    train = examples(["", " "], [0, 1])
    assert np.isfinite(of_texts(train)(train)).all()
    answers = analysis.fit_linear(TASK, np.eye(2), np.array([1, 1])).predict(np.zeros((3, 2)))
    assert answers.argmax(axis=1).tolist() == [1, 1, 1]


def test_several_labels_each_get_a_model_of_their_own():
    features = np.array([[x, y] for x in (0, 1) for y in (0, 1)] * 5, float)
    labels = np.concatenate([features, np.ones((20, 1))], axis=1).astype(np.float32)
    model = analysis.fit_linear(SEVERAL, features, labels)
    assert model.num_weights == 2 * 2 + 2 * 3  # means and scales; two labels vary
    answers = model.predict(features[:4]) > 0
    assert answers.tolist() == (labels[:4] > 0).tolist()


def test_numbers_are_regressed():
    features = np.linspace(0, 1, 50)[:, None]
    model = analysis.fit_linear(NUMBERS, features, 3 * features[:, 0] + 1)
    predicted = model.predict(np.array([[0.5]]))
    assert predicted.shape == (1, 1)
    assert predicted[0, 0] == pytest.approx(2.5, abs=0.01)  # the ridge shrinks the slope a little


def test_embeddings_are_averaged_over_tokens_that_count_and_those_of_a_pair_are_kept_apart():
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    rows = encoded([[1, 2, 3, 5], [1, 5]])
    features = analysis.embedding_features(table, rows, special_ids=(1, 5))
    assert features.tolist() == [[5.0, 6.0], [0.0, 0.0]]  # mean of rows 2 and 3; none left
    table = np.array([[0.0], [1.0], [3.0]], np.float32)
    features = analysis.embedding_features(table, encoded([[1, 2], [2, 2]], [0, 1, 0, 1]))
    assert features.tolist() == [[1, 3, 2, 3], [3, 3, 0, 9]]  # u, v, |u - v|, u * v
