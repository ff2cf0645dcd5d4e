import dataclasses

import numpy as np
import pytest

from export.model import heads
from export.model.heads import HEADS
from tfdistill.tasks import TaskSpec
from tfdistill.tasks.encoded import EncodedExamples

SIZES = (3, 2, 4)


@pytest.fixture
def encoded():
    total = sum(SIZES)
    return EncodedExamples(
        ids=np.arange(total, dtype=np.int32),
        offsets=np.concatenate([[0], np.cumsum(SIZES)]).astype(np.int64),
        types=np.zeros(total, np.uint8),
        sources=np.array([0, 1, 1]),
    )


def test_rows_are_those_of_the_examples_asked_for_and_a_metric_is_a_mean_over_texts(encoded):
    assert HEADS["sequence"].rows_of(encoded, np.array([2, 0])).tolist() == [2, 0]
    for head in ("token", "span"):
        assert HEADS[head].rows_of(encoded, np.array([2, 0])).tolist() == [5, 6, 7, 8, 0, 1, 2]
    assert heads.num_scored(encoded) == 2
    assert heads.num_scored(dataclasses.replace(encoded, sources=None)) == 3


def test_a_text_is_decided_by_its_largest_output_or_by_the_sign_of_each(encoded):
    outputs = np.array([[0.1, 0.9], [2.0, -1.0], [-3.0, -2.0]])
    assert HEADS["sequence"].decisions(outputs, encoded).tolist() == [1, 0, 1]
    assert HEADS["sequence"].decisions(outputs[:, :1], encoded) is None
    several = TaskSpec("several", "text", "labels", kind="multi_label", labels=("a", "b"))
    decided = HEADS["sequence"].decisions(outputs, encoded, several)
    assert decided.tolist() == [[True, True], [True, False], [False, False]]


def test_tokens_are_decided_where_they_have_a_label(encoded):
    outputs = np.eye(3)[np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])]
    assert HEADS["token"].decisions(outputs, encoded).tolist() == [0, 1, 2] * 3
    labels = np.array([-100, 0, 1, -100, 0, -100, 2, 2, -100], np.int32)
    labelled = dataclasses.replace(encoded, labels=labels, token_labels=True)
    assert HEADS["token"].decisions(outputs, labelled).tolist() == [1, 2, 1, 0, 1]


def test_a_span_is_decided_by_the_first_and_the_last_token_of_each_window(encoded):
    outputs = np.zeros((9, 2))
    outputs[[1, 3, 8], 0] = 1.0  # in windows of tokens 0-2, 3-4 and 5-8
    outputs[[2, 4, 5], 1] = 1.0
    assert HEADS["span"].decisions(outputs, encoded).tolist() == [[1, 2], [0, 1], [3, 0]]
