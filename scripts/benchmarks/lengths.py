"""Lengths that fit the texts, against 32, 64 and 128: the time of a text, the start, the file.

The times by length are those of one file with a signature for each multiple of 8, on one thread, in
turns. The expected time of a text follows from them and from the real lengths of development texts
(dev_lengths.json). What no padding at all would save is counted in operations, which every number
of tokens has; measured, it is a parabola through the times, at the tokens of each text. A start is
a fresh process that opens a file in `TfliteModel` and answers one text of 32 tokens.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import record
import turns

LENGTHS_FILE = pathlib.Path(__file__).with_name("dev_lengths.json")
USUAL = (32, 64, 128)
_TARGET = 0.7  # of what no padding at all would save
_MOST_MEMORY = 5.0  # MB more than with the usual lengths
_PER_TURN = 10
_TOKENS = 32  # of the text that a start answers
_USUAL = "3 lengths"
_FITTING = "fitting lengths"
_COPIES = "usual, scales for each signature"


def measure(*, quick: bool) -> record.Outcome:
    """Times every length, then starts files of the usual and of the fitting lengths."""
    from tfdistill import lengths, models
    from tfdistill.tflite import TfliteModel

    counted = json.loads(LENGTHS_FILE.read_text(encoding="utf-8"))["count_by_length"]
    texts = {name: {int(n): m for n, m in counts.items()} for name, counts in counted.items()}
    shape, step, rounds, starts = models.preset("tinybert_4l_312d"), lengths.STEP, 20, 9
    if quick:
        shape = models.preset("bert_tiny").replace(num_layers=1, vocab_size=1000)
        step, rounds, starts = 32, 2, 1
    chosen = {
        name: lengths.choose(counts, USUAL[-1], lambda n: models.flops(shape, n), step=step)
        for name, counts in texts.items()
    }
    most = max(chosen.values(), key=len)
    with tempfile.TemporaryDirectory(prefix="tfdistill-bench-") as folder:
        place = pathlib.Path(folder)
        timed, fitting = place / "timed.tflite", place / "fitting.tflite"
        usual = place / "usual.tflite"
        _convert(shape, tuple(range(step, USUAL[-1] + 1, step)), timed)
        _convert(shape, most, fitting)
        copied_bytes = _convert(shape, USUAL, usual, with_copies=True)
        file = TfliteModel(timed)

        def answers(length: int) -> None:
            for _ in range(_PER_TURN):
                file.predict([1] * length, length=length)

        tasks = {str(n): lambda n=n: answers(n) for n in file.lengths}
        measured = turns.take_turns(tasks, rounds=rounds, warmup=2)
        started = _start_in_turns({_USUAL: usual, _FITTING: fitting}, starts)
        sizes = {_COPIES: copied_bytes}
        sizes |= {path.stem: path.stat().st_size for path in (usual, fitting)}
    samples = {"seconds": measured["processor_seconds"], "starts": started, "bytes": sizes}
    operations = {n: models.flops(shape, n) for n in range(1, USUAL[-1] + 1)}
    samples |= {"others_share": measured["others_share"], "operations": operations}
    return _outcome(shape.family, texts, chosen, samples, {"rounds": rounds, "step": step})


def shares(
    texts: Mapping[str, Mapping[int, int]],
    chosen: Mapping[str, Sequence[int]],
    at: Callable[[int], float],
    unpadded: Callable[[int], float],
) -> dict[str, tuple[float, float, float]]:
    """By set: what the chosen lengths save / what no padding would, and the speed-ups of both.

    Args:
      texts: Texts by tokens, by set.
      chosen: Lengths, by set.
      at: Cost of an inference at a length.
      unpadded: Cost of a text of so many tokens.
    """
    from tfdistill import lengths

    figures = {}
    for name, counts in texts.items():
        best = lengths.expected_time({n: unpadded(n) for n in counts}, counts)
        usual = lengths.expected_time({n: at(n) for n in USUAL}, counts)
        fitting = lengths.expected_time({n: at(n) for n in chosen[name]}, counts)
        assert best and usual and fitting
        figures[name] = (usual - fitting) / (usual - best), usual / fitting, usual / best
    return figures


def _outcome(
    family: str,
    texts: Mapping[str, Mapping[int, int]],
    chosen: Mapping[str, Sequence[int]],
    samples: dict[str, Any],
    settings: dict[str, Any],
) -> record.Outcome:
    seconds = {int(n): s / _PER_TURN for n, s in turns.medians(samples["seconds"]).items()}
    tokens, inverse = np.array([*seconds]), 1 / np.array([*seconds.values()])
    powers = np.vander(tokens, 3) * inverse[:, None]  # the relative errors count
    parabola, *_ = np.linalg.lstsq(powers, np.ones(len(tokens)), rcond=None)
    operations = samples["operations"].__getitem__
    counted = shares(texts, chosen, operations, operations)
    timed = shares(texts, chosen, seconds.__getitem__, lambda n: float(np.polyval(parabola, n)))
    figures = [
        record.Figure(
            f"{name}: share of the operations that no padding would save",
            share,
            _TARGET,
            note=f"{speedup:.2f}x fewer, no padding {limit:.2f}x",
        )
        for name, (share, speedup, limit) in counted.items()
    ]
    figures += [
        record.Figure(
            f"{name}: time of a text at {', '.join(map(str, USUAL))} / at fitting lengths",
            speedup,
            unit="x",
            note=f"{share:.0%} of no padding, {limit:.2f}x",
        )
        for name, (share, speedup, limit) in timed.items()
    ]
    processor = {
        way: turns.medians(rows)["processor_ms"] for way, rows in samples["starts"].items()
    }
    peaks = {way: turns.medians(rows)["peak_bytes"] for way, rows in samples["starts"].items()}
    sizes = samples["bytes"]
    figures += [
        record.Figure(
            "start with 3 lengths / with fitting lengths",
            processor[_USUAL] / processor[_FITTING],
            1.0,
            unit="x",
        ),
        record.Figure(
            "memory of a start with 3 lengths - with fitting lengths",
            (peaks[_USUAL] - peaks[_FITTING]) / 1e6,
            -_MOST_MEMORY,
            unit=" MB",
        ),
        record.Figure(
            "file with 3 lengths and scales for each / with fitting lengths",
            sizes[_COPIES] / sizes["fitting"],
            1.0,
            unit="x",
        ),
    ]
    return record.Outcome(
        title=f"lengths: fitting the texts against {', '.join(map(str, USUAL))}, one thread",
        figures=figures,
        details=[
            *((f"{name}, lengths", ", ".join(map(str, sizes))) for name, sizes in chosen.items()),
            *((f"{n} tokens", f"{1000 * s:.3f} ms") for n, s in seconds.items()),
            *((f"start, {way}", f"{ms:.1f} ms of the processor") for way, ms in processor.items()),
            *((f"memory of a start, {way}", f"{b / 1e6:.1f} MB") for way, b in peaks.items()),
            *((f"file, {what}", f"{count / 1e6:.2f} MB") for what, count in sizes.items()),
        ],
        settings={**settings, "family": family, "per_turn": _PER_TURN, "chosen": dict(chosen)},
        samples=samples,
    )


def _convert(
    shape: Any, lengths: Sequence[int], file: pathlib.Path, *, with_copies: bool = False
) -> int:
    """Writes a student with random weights in int8; returns its bytes.

    `with_copies`: those of the converter, which writes the scales for each signature.
    """
    from export.conversion import convert, prepare
    from export.conversion import quantize as quantizing
    from export.model import signature
    from tfdistill import models

    model = models.build_random(shape, models.Head("sequence", 2))
    keys = [signature.signature_name(length) for length in lengths]
    with tempfile.TemporaryDirectory(prefix="tfdistill-bench-") as folder:
        saved = pathlib.Path(folder) / "saved"
        signature.save(model, saved, lengths=tuple(lengths))
        matrices = prepare.with_matrices(model)
        conversion = convert.Conversion(
            str(saved), str(file), "dynamic_wi8_afp32", keys, matrices=matrices
        )
        convert.run(conversion)
        if with_copies:
            return len(convert._converted(conversion, quantizing.quantization(conversion.quantize)))
    return file.stat().st_size


def _start_in_turns(
    ways: Mapping[str, pathlib.Path], rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Starts each file once a round, in a process of its own; way -> figure -> rounds."""
    script = str(pathlib.Path(__file__).with_name("cold_start.py"))
    rows: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, file in ways.items():
            command = [sys.executable, script, str(file), str(_TOKENS)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rows[way].append(json.loads(done.stdout))
    return {way: {name: [r[name] for r in of] for name in of[0]} for way, of in rows.items()}
