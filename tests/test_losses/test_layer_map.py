"""Layer maps."""

import numpy as np
import pytest

from tfdistill.errors import ConfigError, ShapeError
from tfdistill.losses import describe_layer_map, layer_map


@pytest.mark.parametrize(
    ("teacher", "student", "strategy", "expected"),
    [
        (12, 4, "uniform", (2, 5, 8, 11)),  # i r + r - 1, as published
        (12, 5, "uniform", (1, 4, 6, 9, 11)),  # 2.4, 4.8, 7.2, 9.6, 12 rounded, less one
        (12, 1, "uniform", (11,)),
        (12, 4, "top", (8, 9, 10, 11)),
        (12, 4, "bottom", (0, 1, 2, 3)),
        (12, 6, [0, 2, 4, 7, 9, 11], (0, 2, 4, 7, 9, 11)),
        (2, 3, [0, 1, 1], (0, 1, 1)),
        (12, 2, (np.int64(3), 11), (3, 11)),
    ],
)
def test_map_of(teacher, student, strategy, expected):
    assert layer_map(teacher, student, strategy) == expected
    assert all(type(layer) is int for layer in layer_map(teacher, student, strategy))


def test_uniform_is_evenly_spaced_and_ends_at_the_last_layer_for_all_depths():
    for teacher in range(1, 49):
        for student in range(1, teacher + 1):
            chosen = layer_map(teacher, student)
            assert chosen[-1] == teacher - 1
            assert chosen[0] >= 0
            gaps = np.diff(chosen)
            if len(gaps):
                assert gaps.min() >= 1
                assert gaps.max() - gaps.min() <= 1
            if teacher % student == 0:
                r = teacher // student
                assert chosen == tuple(i * r + r - 1 for i in range(student))


DEEPER = r"at most the teacher's 6, received 12.*as a list"
NO_LAYER = "student layer 1: expected a teacher layer from 0 to 11"


@pytest.mark.parametrize(
    ("teacher", "student", "strategy", "error", "message"),
    [
        *((6, 12, strategy, ShapeError, DEEPER) for strategy in ("uniform", "top", "bottom")),
        *((*layers, "uniform", ShapeError, "at least 1") for layers in ((0, 1), (4, 0), (4, -1))),
        *((12, 2, [0, x], ConfigError, NO_LAYER) for x in (12, -1, 2.0, True, "3", None)),
        (12, 4, [0, 1, 2], ConfigError, "4 student layers"),
        (12, 4, "uniforn", ConfigError, r"received 'uniforn'.*Did you mean 'uniform'"),
    ],
)
def test_maps_that_are_none_are_refused(teacher, student, strategy, error, message):
    with pytest.raises(error, match=message):
        layer_map(teacher, student, strategy)


def test_description_names_every_pair():
    assert (
        describe_layer_map((2, 5, 8, 11), 12)
        == "student layer <- teacher layer: 0 <- 2, 1 <- 5, 2 <- 8, 3 <- 11 (4 of 12)"
    )
    assert describe_layer_map([1]) == "student layer <- teacher layer: 0 <- 1"
