"""What a smaller word table keeps, beside the tables themselves."""

import numpy as np
import pytest

from tfdistill import models
from tfdistill.budget import costs
from tfdistill.budget.word_tables import LEAST_DB, WordTable
from tfdistill.weights import factorised

INT8, PIECES, WIDTH = "dynamic_wi8_afp32", 3000, 64
SHAPE = models.EncoderConfig(
    num_layers=1, hidden_size=WIDTH, num_heads=2, intermediate_size=64, vocab_size=PIECES
)


@pytest.fixture(scope="module")
def rows():
    """Vectors of 64 numbers, most of them in a few directions, and shares that fall like words'."""
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(PIECES, WIDTH)) * np.linspace(2, 0.2, WIDTH)
    shares = 1 / (np.arange(PIECES) + 3.0)
    return vectors.astype(np.float32), shares / shares.sum()


def rounded(rows):
    """Four bits, a scale for each 32 numbers."""
    blocks = rows.reshape(-1, 32)
    scales = np.abs(blocks).max(axis=1, keepdims=True) / 7
    return (np.round(blocks / scales) * scales).reshape(rows.shape)


def decibels(vectors, shares, smaller):
    lost = np.sum(shares[:, None] * (vectors - smaller) ** 2)
    return 10 * np.log10(np.sum(shares[:, None] * vectors**2) / lost)


@pytest.mark.parametrize(("num", "rank"), [(PIECES, 64), (1000, 64), (PIECES, 32), (1500, 32)])
def test_what_a_table_keeps_is_that_of_the_rounded_factors_of_its_pieces(rows, num, rank):
    vectors, shares = rows
    smaller = np.zeros_like(vectors)
    smaller[:num] = rounded(vectors[:num])
    if rank < WIDTH:
        words, projection = factorised.split(vectors[:num], rank, 1e6 * shares[:num])
        smaller[:num] = rounded(words) @ projection
    table = WordTable(vectors, shares, least=10, most=PIECES)
    received = table.decibels(rank / WIDTH, 4)[num - 1]
    assert received == pytest.approx(decibels(vectors, shares, smaller), abs=0.2)


def test_more_room_keeps_more_in_pieces_bits_and_rank(rows):
    table = WordTable(*rows, least=500, most=2900)
    forms = [table.fit(SHAPE, room, INT8) for room in (1e3, 3e4, 5e4, 9e4, 1.2e5, 1e6)]
    assert forms[0] is None and forms[-1].bits == 8 and forms[-1].rank == WIDTH
    assert forms[-1].num_pieces == 2900 and forms[-1].size_bytes == 2900 * WIDTH
    values = [form.decibels for form in forms[1:]]
    assert values == sorted(values) and len({*values}) == len(values)
    for form, room in zip(forms[1:], (3e4, 5e4, 9e4, 1.2e5, 1e6), strict=True):
        assert form.size_bytes <= room and form.num_pieces in (2900, *range(500, 2900, 100))
        second = form.rank * WIDTH if form.rank < WIDTH else 0
        a_piece = WIDTH if form.bits == 8 else costs.word_bytes_in_4_bits(form.rank)
        assert form.size_bytes == form.num_pieces * a_piece + second
    assert WordTable(*rows, least=2900, most=2900).fit(SHAPE, 3e4, INT8) is None, "all must stay"


def test_the_least_table_is_the_smallest_that_keeps_enough(rows):
    table = WordTable(*rows, least=20, most=PIECES)
    room = table.least_bytes(SHAPE, INT8)
    most = WIDTH * (0.5 + 2 / 32) * 100  # pieces are fitted in hundreds
    assert table.fit(SHAPE, room + most, INT8).decibels >= LEAST_DB
    assert table.fit(SHAPE, room - most, INT8).decibels < LEAST_DB
    needed = WordTable(*rows, least=2800, most=PIECES)
    assert needed.least_bytes(SHAPE, INT8) > room, "pieces that are needed stay"
    flat = WordTable(rows[0], np.full(PIECES, 1 / PIECES), least=20, most=600)
    nearest = flat.fit(SHAPE, flat.least_bytes(SHAPE, INT8), INT8)
    assert nearest.num_pieces == 600 and nearest.decibels < 1, "no room for what keeps enough"
