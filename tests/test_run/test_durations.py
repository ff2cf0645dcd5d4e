"""How long a run takes, against one that was run: 4,887 questions, an encoder of 6 x 384."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from tfdistill import config, models
from tfdistill.run import durations

MINILM = models.preset("minilm_6l_384d")
# Of that run: FLOP/s of the products, rows, mean tokens, and seconds of its parts on two cores.
RATE, ROWS, TOKENS = 154e9, {"train": 2937, "dev": 733, "test": 733}, 15
SECONDS = {"fine-tune the teacher": 168, "distil the student": 264}


def recipe(student="pruned:layers=3,ffn=768", seeds=(1,), cut=None, **joint):
    return config.parse_recipe(
        {
            "seeds": seeds,
            "name": "questions",
            "data": {"task": "questions", "kind": "classification", "max_length": 32, "cut": cut},
            "teacher": {"source": "bert", "finetune": {"min_steps": 400}},
            "student": {"preset": student},
            "stages": {"joint": {"kind": "joint", **joint}},
            "variants": {"student": {"stages": ["joint"]}},
            "export": {"also_quantize": ["dynamic_wi8_afp32"]},
        }
    )


def estimate(rate=RATE, **joint):
    values = recipe(**joint)
    student = durations.student_of(values, MINILM)
    parts = durations.estimate(values, MINILM, student, ROWS, np.full(2937, TOKENS), rate)
    return {part.name: part for part in parts}


def test_it_is_within_a_quarter_of_a_run():
    parts = estimate()
    for name, seconds in SECONDS.items():
        assert parts[name].seconds == pytest.approx(seconds, rel=0.25)
    assert sum(part.seconds for part in parts.values()) == pytest.approx(602, rel=0.25)
    assert (parts["fine-tune the teacher"].steps, parts["distil the student"].steps) == (460, 1012)


def test_augmented_rows_are_made_and_learnt_and_plain_text_is_left_to_others():
    values = recipe(augmented=True).model_dump()
    values["stages"]["joint"] |= {"min_steps": None}
    values["stages"]["plain"] = {"kind": "general", "epochs": 3}
    values["variants"]["student"]["stages"] = ("plain", "joint")
    values = config.parse_recipe(values)
    student = durations.student_of(values, MINILM)
    parts = {}
    for copies in (0, 20):
        rows = {**ROWS, "augmented": (1 + copies) * ROWS["train"]} if copies else ROWS
        read = values if copies else recipe(min_steps=None)
        timed = durations.estimate(read, MINILM, student, rows, np.full(2937, TOKENS), RATE)
        parts[copies] = {part.name: part for part in timed}
    steps = [parts[copies]["distil the student"].steps for copies in (0, 20)]
    assert steps == [3 * 92, 3 * 1928]  # of 2,937 and 61,677 rows
    # Half of 15 tokens, each a pass over the text twice.
    passes = 0.5 * TOKENS * ROWS["train"] * models.flops(MINILM, 2 * TOKENS)
    seconds = parts[20]["augment the training set"].seconds
    assert seconds == pytest.approx(passes / RATE, rel=0.25)
    assert "augment the training set" not in parts[0]
    assert not any("plain" in name for name in parts[20])


def test_a_narrow_student_is_counted_with_its_own_fewest_steps():
    steps = estimate(student="pruned:layers=3,ffn=384,width=192")["distil the student"].steps
    assert steps == 44 * 92  # epochs of 92 batches, at least 4,000 steps


def test_the_students_of_all_seeds_are_counted():
    [one], [three] = (
        [part for name, part in estimate(seeds=seeds).items() if name.startswith("distil")]
        for seeds in ((1,), (1, 2, 3))
    )
    assert three.name == "distil the student, 3 seeds" and three.steps == one.steps
    assert three.seconds == pytest.approx(3 * one.seconds)
    assert three.step_seconds == pytest.approx(3 * one.step_seconds)  # --max-minutes divides by it


def test_a_cut_counts_its_word_lists_and_the_baseline_before_it():
    """250,002 x 384 and German words: 25 seconds of a core, and 9 to open the whole for it."""
    plain, cut = estimate(), estimate(cut={"languages": ["de"]})
    assert cut["cut the vocabulary"].seconds == pytest.approx(34, rel=0.1)
    three = estimate(cut={"languages": ["de", "hi"], "languages_of": "it.txt"})
    added = three["cut the vocabulary"].seconds - cut["cut the vocabulary"].seconds
    assert added == pytest.approx(6, rel=0.3) and "cut the vocabulary" not in plain
    baselines = [parts["compare with baselines"].seconds - 3 for parts in (plain, cut)]
    assert baselines[1] == pytest.approx(2 * baselines[0])
    assert next(iter(cut)) == "cut the vocabulary"


@pytest.mark.parametrize("waited, load", [(0.0, 1.0), (30.0, 3.0)])
def test_a_rate_leaves_out_the_wait_for_a_processor_and_is_measured_once(waited, load, monkeypatch):
    # 15 turns in 10 s on the clock, of which two threads had a processor for 15 s and waited.
    readings = iter([[0, 0, 0], [0, 0, 0], [10, 15, waited]])
    monkeypatch.setattr(durations, "_clocks", lambda: np.array(next(readings), float))
    monkeypatch.setattr(durations, "_SECONDS", -1e9)
    durations.training_rate.cache_clear()
    flops = 6 * 32 * 8 * 384 * 1536
    for _ in range(2):
        rate = durations.training_rate(MINILM, 8)
        assert rate == pytest.approx((15 * flops * load / 10, load))
    durations.training_rate.cache_clear()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the wait of threads")
def test_the_clocks_count_the_wait_beside_another_program():
    core = min(os.sched_getaffinity(0))
    code = f"import os, sys; os.sched_setaffinity(0, [{core}]); print(flush=True)\nwhile True: pass"
    busy = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    before = os.sched_getaffinity(0)
    try:
        busy.stdout.readline()
        os.sched_setaffinity(0, [core])  # this thread
        began = durations._clocks()
        start = time.thread_time()
        while time.thread_time() < start + 0.2:
            pass
        waited = (durations._clocks() - began)[2]
    finally:
        os.sched_setaffinity(0, before)
        busy.kill()
        busy.wait()
        busy.stdout.close()
    assert waited > 0.05  # the other has about half of the core, at least a quarter
