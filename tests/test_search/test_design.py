"""Which files are measured: few, of small depth, seen from every side."""

import numpy as np
import pytest
import simulated_device

from tfdistill import models
from tfdistill.search import design, space, work

SPACE = space.candidates("logits", simulated_device.TEACHER)
COUNT = {False: 14, True: 9}


def test_blocks_are_few_small_and_of_both_stacks():
    blocks = design.blocks(SPACE, 64, head="sequence", count=COUNT)
    mobile = [isinstance(b.config, models.MobileBertConfig) for b in blocks]
    assert (mobile.count(False), mobile.count(True)) == (14, 9)
    assert len({b.name for b in blocks}) == 23
    assert {b.config.num_layers for b in blocks} <= {1, 2, 4}


def test_blocks_tell_every_feature_apart():
    blocks = design.blocks(SPACE, 64, head="sequence", count=COUNT)
    counts = work.matrix([b.config for b in blocks], 64, head="sequence")
    scaled = counts / np.linalg.norm(counts, axis=0)
    assert np.linalg.matrix_rank(scaled) == len(work.FEATURES)


@pytest.mark.parametrize("head", work.HEADS)
def test_blocks_reach_from_the_narrowest_to_the_widest(head):
    blocks = design.blocks(SPACE, 64, head=head, count=COUNT)
    widths = {b.config.hidden_size for b in blocks if b.kind in ("gelu", "relu")}
    assert (min(widths), max(widths)) == (96, 768)


def test_students_are_drawn_near_the_budget():
    latencies = [simulated_device.true_latency(c.config, 64) for c in SPACE]
    drawn = design.near_budget(SPACE, latencies, 3.0, count=12)
    assert len({c.name for c in drawn}) == 12
    for candidate in drawn:
        assert 0.9 < simulated_device.true_latency(candidate.config, 64) < 3.6


def test_the_draw_is_the_same_every_time():
    latencies = [simulated_device.true_latency(c.config, 64) for c in SPACE]
    one, two = (design.near_budget(SPACE, latencies, 3.0, count=6) for _ in range(2))
    assert one == two
    assert one != design.near_budget(SPACE, latencies, 3.0, count=6, seed=1)


def test_far_below_every_student_the_nearest_are_drawn():
    latencies = [simulated_device.true_latency(c.config, 64) for c in SPACE]
    drawn = design.near_budget(SPACE, latencies, 1e-4, count=5)
    found = {simulated_device.true_latency(c.config, 64) for c in drawn}
    assert found == set(sorted(latencies)[:5])
