"""The largest student within a budget, on a device that obeys a known law."""

import pytest
from simulated_device import TEACHER, Phone, true_latency

from tfdistill import errors, models
from tfdistill.budget import costs, fitting

INT8 = "dynamic_wi8_afp32"
INT4 = "dynamic_wi4_afp32"
IN_BLOCKS = "dynamic_wi4_afp32_block32"


def largest(phone, latency_ms=None, size_mb=None, **more):
    options = {"lengths": (64,), "formats": [INT8], "convert": phone.convert, **more}
    options |= {"latency_ms": latency_ms, "size_mb": size_mb}
    return fitting.largest(TEACHER, measure=phone.measure, **options)


@pytest.mark.parametrize("latency_ms", [1.0, 5.0, 20.0])
def test_it_keeps_the_latency_and_nearly_uses_it_up(latency_ms):
    phone = Phone(noise=0.01)
    chosen, measured_ms, _ = largest(phone, latency_ms)
    assert measured_ms <= latency_ms
    assert 0.6 * latency_ms < true_latency(chosen.config, 64) <= 1.03 * latency_ms
    assert len(phone.measured) <= 5 and chosen.config.vocab_size == TEACHER.vocab_size


def test_a_size_alone_needs_no_measurement():
    phone = Phone()
    chosen, latency_ms, _ = largest(phone, size_mb=20)
    table = costs.table_bytes(chosen.config, INT8)
    rest = costs.file_bytes(chosen.config, (64,), INT8) - table
    assert not phone.measured and latency_ms is None
    assert 15e6 < rest + costs.small_table_bytes(chosen.config, INT8) <= 20e6

    half = largest(phone, size_mb=20, least_table=lambda shape, _: shape.hidden_size * 20_000)
    smaller = half[0].config
    rest = costs.file_bytes(smaller, (64,), INT8) - costs.table_bytes(smaller, INT8)
    assert 15e6 < rest + smaller.hidden_size * 20_000 <= 20e6 and smaller != chosen.config


def test_a_small_file_rather_loses_layers_than_its_width():
    shape = largest(Phone(), size_mb=8)[0].config
    assert shape.hidden_size == 384 and shape.num_layers >= 3
    assert costs.file_bytes(shape, (64,), INT8) > 14e6  # its table is what gets smaller
    assert shape.intermediate_size <= 4 * shape.hidden_size


def test_what_nothing_keeps_is_refused_with_the_nearest():
    with pytest.raises(errors.ConfigError, match=r"--latency-ms.*The fastest that was measured"):
        largest(Phone(), 1e-3)
    with pytest.raises(errors.ConfigError, match=r"--size-mb.*The smallest is"):
        largest(Phone(), size_mb=1)


@pytest.mark.parametrize(
    ("shape", "lengths", "size_bytes"),
    [  # `export.to_tflite` with random weights
        (
            {"num_layers": 3, "hidden_size": 384, "num_heads": 12, "intermediate_size": 768},
            (32,),
            15_585_504,
        ),
        (
            {"num_layers": 1, "hidden_size": 192, "num_heads": 6, "intermediate_size": 384},
            (32,),
            6_252_592,
        ),
        (
            {
                "num_layers": 5,
                "hidden_size": 384,
                "num_heads": 12,
                "intermediate_size": 768,
                "vocab_size": 2000,
            },
            (24, 32, 40, 48, 56, 64, 80, 96),
            7_901_360,
        ),
    ],
)
def test_bytes_are_those_of_exported_files(shape, lengths, size_bytes):
    config = models.EncoderConfig(**{"vocab_size": 30522, **shape}, max_positions=512)
    assert costs.file_bytes(config, lengths, INT8) == pytest.approx(size_bytes, rel=0.01)


@pytest.mark.parametrize(("quantize", "size_bytes"), [(IN_BLOCKS, 8_746_000), (INT4, 8_190_432)])
def test_bytes_of_files_in_four_bits(quantize, size_bytes):
    shape = {"num_layers": 3, "hidden_size": 384, "num_heads": 12, "intermediate_size": 768}
    config = models.EncoderConfig(vocab_size=30522, max_positions=512, **shape)
    assert costs.file_bytes(config, (32,), quantize) == pytest.approx(size_bytes, rel=0.05)


@pytest.mark.parametrize(
    ("shape", "lengths", "size_bytes"),
    [  # files of quickstart
        ({"num_layers": 11, "vocab_size": 11_000, "embedding_size": 352},
         (24, 32, 40, 48, 56, 64, 80), 9_021_088),
        ({"num_layers": 12, "vocab_size": 6900, "embedding_size": 320},
         (24, 32, 40, 48, 56, 64, 72, 96), 8_844_368),
        ({"num_layers": 3, "vocab_size": 2000}, (32,), 2_141_360),
        ({"num_layers": 2, "hidden_size": 768, "intermediate_size": 3072, "vocab_size": 2000},
         (32,), 9_364_544),
    ],
)  # fmt: skip
def test_bytes_of_files_in_blocks_fill_a_budget(shape, lengths, size_bytes):
    usual = {"hidden_size": 384, "num_heads": 12, "intermediate_size": 384}
    config = models.EncoderConfig(**{**usual, **shape})
    assert 0 <= costs.file_bytes(config, lengths, IN_BLOCKS) - size_bytes < 2e-3 * size_bytes


def test_the_format_that_holds_more_of_the_teacher_is_taken():
    teacher, phone = TEACHER.replace(vocab_size=5000), Phone()
    options = {"measure": phone.measure, "convert": phone.convert, "lengths": (64,)}

    def largest_of(formats, size_mb):
        return fitting.largest(
            teacher, formats=formats, size_mb=size_mb, latency_ms=None, **options
        )

    in_8_bits, either = largest_of([INT8], 8), largest_of([INT8, IN_BLOCKS], 8)
    assert either.quantize == IN_BLOCKS and either.student.worth > 1.3 * in_8_bits.student.worth
    whole = largest_of([INT8, IN_BLOCKS], 100)
    assert whole.quantize == INT8 and whole.student.config == teacher
    smallest = largest_of([INT8, IN_BLOCKS], 1.0)  # which no part keeps in eight bits
    assert smallest.quantize == IN_BLOCKS


def test_a_small_table_takes_what_a_file_with_one_took():
    # `export --size-mb 8` of a student on trec: 4 lengths, rank 224, 7.93 MB; half the width is 192
    shape = models.EncoderConfig(
        num_layers=3, hidden_size=384, num_heads=12, intermediate_size=768, vocab_size=30522,
        max_positions=512,
    )  # fmt: skip
    ranks = 30522 * (224 - 192) * (1 / 2 + 2 / 32) + (224 - 192) * 384
    lengths = (8, 16, 24, 32)
    rest = costs.file_bytes(shape, lengths, INT8) - costs.table_bytes(shape, INT8)
    assert rest + costs.small_table_bytes(shape, INT8) + ranks == pytest.approx(7.93e6, rel=0.02)
