"""The largest student within a budget, on a device that obeys a known law."""

import math

import pytest
from simulated_device import TEACHER, Phone, true_latency

from tfdistill import errors, models
from tfdistill.budget import costs, fitting
from tfdistill.budget.fitting import Budget

INT8 = "dynamic_wi8_afp32"


def largest(phone, latency_ms=math.inf, size_mb=None):
    budget = Budget(latency_ms, size_mb)
    options = {"length": 64, "num_lengths": 1, "quantize": INT8, "convert": phone.convert}
    return fitting.largest(TEACHER, budget, measure=phone.measure, **options)


@pytest.mark.parametrize("latency_ms", [1.0, 5.0, 20.0])
def test_it_keeps_the_latency_and_nearly_uses_it_up(latency_ms):
    phone = Phone(noise=0.01)
    fitted = largest(phone, latency_ms)
    assert fitted.latency_ms <= latency_ms
    assert 0.6 * latency_ms < true_latency(fitted.config, 64) <= 1.03 * latency_ms
    assert len(phone.measured) <= 5 and fitted.config.vocab_size == TEACHER.vocab_size


def test_a_size_alone_needs_no_measurement():
    phone = Phone()
    fitted = largest(phone, size_mb=20)
    assert not phone.measured and 15e6 < fitted.size_bytes <= 20e6


def test_a_small_file_rather_loses_layers_than_its_width():
    fitted = largest(Phone(), size_mb=8)
    assert fitted.config.hidden_size == 384 and fitted.config.num_layers >= 3
    assert costs.file_bytes(fitted.config, 64, 1, INT8) > 14e6  # its table is what gets smaller
    assert fitted.size_bytes == 8e6
    assert fitted.config.intermediate_size <= 4 * fitted.config.hidden_size


def test_what_nothing_keeps_is_refused_with_the_nearest():
    with pytest.raises(errors.ConfigError, match=r"--latency-ms.*The fastest that was measured"):
        largest(Phone(), 1e-3)
    with pytest.raises(errors.ConfigError, match=r"--size-mb.*The smallest is"):
        largest(Phone(), size_mb=1)


@pytest.mark.parametrize(
    ("shape", "size_bytes"),
    [  # `export.to_tflite` with random weights, one length of 32 tokens
        (
            {"num_layers": 3, "hidden_size": 384, "num_heads": 12, "intermediate_size": 768},
            15_585_504,
        ),
        (
            {"num_layers": 1, "hidden_size": 192, "num_heads": 6, "intermediate_size": 384},
            6_252_592,
        ),
    ],
)
def test_bytes_are_those_of_exported_files(shape, size_bytes):
    config = models.EncoderConfig(**shape, vocab_size=30522, max_positions=512)
    assert costs.file_bytes(config, 32, 1, INT8) == pytest.approx(size_bytes, rel=0.01)


def test_a_small_table_takes_what_a_file_with_one_took():
    # `export --size-mb 8` of a student on trec: 4 lengths, rank 224, 7.93 MB; half the width is 192
    shape = models.EncoderConfig(
        num_layers=3, hidden_size=384, num_heads=12, intermediate_size=768, vocab_size=30522,
        max_positions=512,
    )  # fmt: skip
    ranks = 30522 * (224 - 192) * (1 / 2 + 2 / 32) + (224 - 192) * 384
    assert costs.small_bytes(shape, 32, 4, INT8) + ranks == pytest.approx(7.93e6, rel=0.02)
