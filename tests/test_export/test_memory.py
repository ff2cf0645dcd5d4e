"""Signatures that share rearranged weights answer as those that do not, in less memory."""

import sys

import numpy as np
import pytest
from ai_edge_litert import interpreter as litert

from export.conversion.convert import Conversion
from export.file import compiled, memory
from export.model import signature
from tfdistill import errors, models


def feed(length, seed=0):
    random = np.random.default_rng(seed)
    return {
        "input_ids": random.integers(5, 200, (1, length)).astype(np.int32),
        "attention_mask": (np.arange(length) < length - 2).astype(np.int32)[np.newaxis],
        "token_type_ids": random.integers(0, 2, (1, length)).astype(np.int32),
    }


@pytest.mark.parametrize("share_weights", [True, False])
@pytest.mark.parametrize("quantize", ["float32", "dynamic_wi8_afp32"])
def test_a_compiled_file_answers_as_the_interpreter(share_weights, quantize, exported):
    path = exported(quantize).path
    file = compiled.CompiledFile(path, share_weights=share_weights)
    assert sorted(file.signatures) == ["len16", "len8"]
    interpreter = litert.Interpreter(str(path), num_threads=1)
    for length in (8, 16, 8):
        for seed in (0, 1):
            inputs = feed(length, seed)
            expected = interpreter.get_signature_runner(f"len{length}")(**inputs)["logits"]
            found = file.answer(f"len{length}", **inputs)
            assert list(found) == ["logits"]
            # The same kernels on the same weights.
            np.testing.assert_allclose(found["logits"], expected, rtol=0, atol=1e-6)


def test_an_answer_stays_as_it_is_when_the_next_is_asked_for(exported):
    file = compiled.CompiledFile(exported("float32").path)
    first = file.answer("len8", **feed(8))["logits"]
    kept = first.copy()
    other = file.answer("len8", **feed(8, seed=1))["logits"]
    np.testing.assert_array_equal(first, kept)
    assert np.abs(other - kept).max() > 0.01


def test_what_a_compiled_file_cannot_take_is_told(exported, tmp_path):
    file = compiled.CompiledFile(exported("float32").path)
    with pytest.raises(errors.ExportError, match=r"signature.*len8.*received 'len32'"):
        file.answer("len32", **feed(8))
    with pytest.raises(errors.ExportError, match=r"inputs of len8.*\(1, 16\)"):
        file.answer("len8", **feed(16))
    wide = {name: value.astype(np.int64) for name, value in feed(8).items()}
    with pytest.raises(errors.ExportError, match=r"inputs of len8.*int64"):
        file.answer("len8", **wide)
    (tmp_path / "m.tflite").write_bytes(b"TFL3" * 10)
    with pytest.raises(errors.ExportError, match="a file that LiteRT opens"):
        compiled.CompiledFile(tmp_path / "m.tflite")


def test_a_file_that_cannot_be_run_has_no_memory_to_measure(exported, tmp_path):
    with pytest.raises(errors.ExportError, match=r"memory of.*len8.*received 'len99'"):
        memory.peak_memory(exported("float32").path, ["len99"])


def test_a_process_that_crashes_is_told(tmp_path, monkeypatch):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nkill -SEGV $$\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    with pytest.raises(errors.ExportError, match="exit code -11"):
        memory.peak_memory("m.tflite", ["len8"])


@pytest.mark.slow
def test_three_lengths_take_hardly_more_memory_than_one(exported, tmp_path):
    """The shape of TinyBERT4 with a small vocabulary: 19 MB of float32 weights to rearrange."""
    config = models.preset("tinybert_4l_312d").replace(vocab_size=1000, max_positions=64)
    model = models.build_classifier(config, 2)
    peaks = {}
    for lengths in ((64,), (16, 32, 64)):
        saved, path = tmp_path / f"saved{len(lengths)}", tmp_path / f"{len(lengths)}.tflite"
        signature.save(model, saved, lengths=lengths)
        keys = [f"len{length}" for length in lengths]
        exported.convert_here(Conversion(str(saved), str(path), "float32", keys))
        for share in (True, False):
            peaks[len(lengths), share] = memory.peak_memory(path, keys, share_weights=share)
    one, three = peaks[1, True], peaks[3, True]
    assert three < 1.5 * one  # measured: 1.06
    # Each signature has its own copy of the weights where none is shared: the measurement sees it.
    assert peaks[3, False] - peaks[1, False] > 30e6
    assert three - one < 5e6
