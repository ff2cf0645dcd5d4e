"""Signatures that share rearranged weights answer as those that do not, in less memory."""

import importlib.util
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from ai_edge_litert import interpreter as litert

from export.conversion import convert
from export.conversion.convert import Conversion
from export.model import signature
from tfdistill import models

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "benchmarks" / "signature_memory.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("signature_memory", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def feed(length, seed=0):
    random = np.random.default_rng(seed)
    return {
        "input_ids": random.integers(5, 200, (1, length)).astype(np.int32),
        "attention_mask": (np.arange(length) < length - 2).astype(np.int32)[np.newaxis],
        "token_type_ids": random.integers(0, 2, (1, length)).astype(np.int32),
    }


@pytest.mark.parametrize("share_weights", [True, False])
@pytest.mark.parametrize("quantize", ["float32", "dynamic_wi8_afp32"])
def test_a_compiled_file_answers_as_the_interpreter(share_weights, quantize, exported, script):
    path = str(exported(quantize).path)
    model = script.open_compiled(path, share_weights=share_weights)
    interpreter = litert.Interpreter(path, num_threads=1)
    for length in (8, 16, 8):
        for seed in (0, 1):
            inputs = feed(length, seed)
            expected = interpreter.get_signature_runner(f"len{length}")(**inputs)["logits"]
            received = script.answer(model, f"len{length}", inputs)
            assert list(received) == ["logits"]
            # The same kernels on the same weights.
            np.testing.assert_allclose(received["logits"], expected, rtol=0, atol=1e-6)


def peak_bytes(path, keys, *options):
    command = [sys.executable, str(SCRIPT), str(path), ",".join(keys), *options]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
def test_three_lengths_take_hardly_more_memory_than_one(tmp_path):
    """The shape of TinyBERT4 with a small vocabulary: 19 MB of float32 weights to rearrange."""
    config = models.preset("tinybert_4l_312d").replace(vocab_size=1000, max_positions=64)
    model = models.build_classifier(config, 2)
    shared, copies = {}, {}
    for lengths in ((64,), (16, 32, 64)):
        saved, path = tmp_path / f"saved{len(lengths)}", tmp_path / f"{len(lengths)}.tflite"
        signature.save(model, saved, lengths=lengths)
        keys = [f"len{length}" for length in lengths]
        convert.run(Conversion(str(saved), str(path), "float32", keys))
        shared[len(lengths)] = peak_bytes(path, keys)
        copies[len(lengths)] = peak_bytes(path, keys, "--copies")
    assert shared[3] < 1.5 * shared[1]  # measured: 1.06
    # Each signature has its own copy of the weights where none is shared: the measurement sees it.
    assert copies[3] - copies[1] > 30e6
    assert shared[3] - shared[1] < 5e6
