"""The default learning rates and steps, as they were measured."""

import pytest

from tfdistill import config
from tfdistill.config import training


@pytest.mark.parametrize(
    ("chosen", "by_width"),
    [
        (config.joint_rate, {192: 3e-4, 384: 3e-4, 768: 1.5e-4}),
        (config.joint_steps, {96: 4000, 192: 4000, 256: 2250, 384: 1000, 768: 1000}),
        (config.teacher_rate, {128: 1e-4, 512: 7.5e-5, 768: 5e-5, 1024: 5e-5}),
    ],
)
def test_rates_and_steps_follow_the_width(chosen, by_width):
    received = {width: chosen(width) for width in by_width}
    assert received == pytest.approx(by_width, rel=1e-12)


@pytest.mark.parametrize(("missed", "share"), [(1.5, 1), (1 / 3, 1), (0.1, 0.09), (0, 0.01)])
def test_a_student_near_its_teacher_takes_smaller_steps(missed, share):
    assert config.joint_rate(384, missed) == pytest.approx(3e-4 * share)


def test_sections_have_the_rates_of_the_table():
    sections = (config.OptimizerConfig, config.FineTuneConfig, config.PretrainConfig)
    defaults = [section().learning_rate for section in sections]
    assert (
        defaults
        == [training.TRAINING_RATE, training.TRAINING_RATE, training.PRETRAINING_RATE]
        == [5e-5, 5e-5, 5e-4]
    )
