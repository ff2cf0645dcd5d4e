"""Layer maps."""

import numpy as np
import pytest

from tfdistill.errors import ConfigError, ShapeError
from tfdistill.losses import describe_layer_map, layer_map


@pytest.mark.parametrize(
    ("teacher", "student", "strategy", "expected"),
    [
        (12, 4, "uniform", (2, 5, 8, 11)),  # i r + r - 1, as published
        (12, 6, "uniform", (1, 3, 5, 7, 9, 11)),
        (6, 3, "uniform", (1, 3, 5)),
        (
            12,
            5,
            "uniform",
            (1, 4, 6, 9, 11),
        ),  # 2.4, 4.8, 7.2, 9.6, 12 rounded, less one
        (12, 8, "uniform", (1, 2, 4, 5, 7, 8, 10, 11)),
        (6, 4, "uniform", (1, 2, 4, 5)),
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


@pytest.mark.parametrize("strategy", ["uniform", "top", "bottom"])
def test_a_student_deeper_than_its_teacher_is_refused(strategy):
    with pytest.raises(ShapeError, match=r"at most the teacher's 6, received 12.*as a list"):
        layer_map(6, 12, strategy)


def test_a_list_of_the_wrong_length_is_refused():
    with pytest.raises(ConfigError):
        layer_map(12, 4, [0, 1, 2])


@pytest.mark.parametrize("layer", [12, -1, 2.0, True, "3", None])
def test_a_listed_layer_that_is_none_is_refused(layer):
    with pytest.raises(ConfigError, match="student layer 1: expected a teacher layer from 0 to 11"):
        layer_map(12, 2, [0, layer])


def test_an_unknown_strategy_suggests_the_nearest():
    with pytest.raises(ConfigError, match=r"received 'uniforn'.*Did you mean 'uniform'"):
        layer_map(12, 4, "uniforn")


@pytest.mark.parametrize(("teacher", "student"), [(0, 1), (4, 0), (4, -1)])
def test_a_model_without_layers_is_refused(teacher, student):
    with pytest.raises(ShapeError, match="layers: expected at least 1"):
        layer_map(teacher, student)


def test_description_names_every_pair():
    assert (
        describe_layer_map((2, 5, 8, 11), 12)
        == "student layer <- teacher layer: 0 <- 2, 1 <- 5, 2 <- 8, 3 <- 11 (4 of 12)"
    )
    assert describe_layer_map([1]) == "student layer <- teacher layer: 0 <- 1"
