"""Answers are right if they are as near as the format allows and change with the inputs."""

import numpy as np
import pytest

from tfdistill.accelerators import comparison
from tfdistill.tflite import agreement


def answers(values):
    return [{"logits": row[None]} for row in np.asarray(values, np.float32)]


CPU = np.random.default_rng(3).standard_normal((6, 3))


def compare(received, cpu=CPU, least=agreement.ACCELERATOR_FLOAT_DB):
    return comparison.compare(answers(cpu), answers(received), least)


def test_equal_answers_have_no_ratio_and_no_fault():
    compared = compare(CPU)

    assert (compared.num_examples, compared.sqnr_db, compared.max_abs_error) == (6, None, 0.0)
    assert compared.output_rms == pytest.approx(np.sqrt(np.mean(np.square(CPU))), rel=1e-6)
    assert compared.fault is None


def test_the_ratio_is_that_of_the_sums_of_squares():
    noise = 0.01 * np.ones_like(CPU)
    expected = 10 * np.log10(np.square(CPU).sum() / np.square(noise).sum())

    assert compare(CPU + noise).sqnr_db == pytest.approx(expected, abs=0.01)
    assert compare(CPU + noise, least=expected - 0.1).fault is None
    assert "dB to the CPU's answers" in compare(CPU + noise, least=expected + 0.1).fault


def test_zeros_are_wrong_however_small_the_bound():
    assert "all zero" in compare(np.zeros_like(CPU), least=-100.0).fault


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_wrong(value):
    received = CPU.copy()
    received[2, 1] = value
    compared = compare(received, least=-100.0)

    assert "finite" in compared.fault
    assert compared.max_abs_error is None


def test_one_answer_to_every_input_is_wrong_though_it_is_near():
    cpu = 10.0 + CPU
    constant = np.broadcast_to(cpu.mean(axis=0), cpu.shape)

    assert compare(constant, cpu, least=15.0).sqnr_db > 15.0
    assert "the same answer to every input" in compare(constant, cpu, least=15.0).fault
    assert compare(np.ones_like(cpu), np.ones_like(cpu) + 1e-7).fault is None


def test_another_shape_or_another_output_is_wrong():
    assert "expected shape" in compare(CPU[:, :2]).fault
    other = [{"scores": row[None]} for row in CPU]
    assert "received others" in comparison.compare(answers(CPU), other, 10.0).fault


def test_the_bound_follows_from_how_the_file_stores_and_computes_numbers():
    least = comparison.least_sqnr_db
    assert (
        least({"float32", "float16"}, static=False, float16=False) == agreement.ACCELERATOR_FLOAT_DB
    )
    assert least({"float32"}, static=False, float16=True) == agreement.ACCELERATOR_FLOAT16_DB
    assert least({"int4"}, static=False, float16=False) == agreement.ACCELERATOR_DYNAMIC_DB
    assert least({"int8"}, static=True, float16=False) == agreement.ACCELERATOR_STATIC_DB
