"""The default learning rates and steps, as they were measured."""

import pytest

from tfdistill import config
from tfdistill.config import training


@pytest.mark.parametrize(("width", "rate"), [(192, 3e-4), (384, 3e-4), (768, 1.5e-4)])
def test_a_wide_student_takes_smaller_steps(width, rate):
    assert config.joint_rate(width) == rate


@pytest.mark.parametrize(
    ("width", "steps"), [(96, 4000), (192, 4000), (256, 2250), (384, 1000), (768, 1000)]
)
def test_a_narrow_student_takes_more_steps(width, steps):
    assert config.joint_steps(width) == steps


@pytest.mark.parametrize(("width", "rate"), [(128, 1e-4), (512, 7.5e-5), (768, 5e-5), (1024, 5e-5)])
def test_a_narrow_teacher_takes_at_most_twice_the_step(width, rate):
    assert config.teacher_rate(width) == pytest.approx(rate, rel=1e-12)


def test_sections_have_the_rates_of_the_table():
    sections = (config.OptimizerConfig, config.FineTuneConfig, config.PretrainConfig)
    defaults = [section().learning_rate for section in sections]
    assert (
        defaults
        == [training.STAGE_RATE, training.FINE_TUNING_RATE, training.PRETRAINING_RATE]
        == [5e-5, 5e-5, 5e-4]
    )
