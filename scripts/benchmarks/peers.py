"""The exported student in LiteRT against other runtimes: the same network, one thread.

The peers run in environments of their own (peer_environments.py). Every runtime is a process; they
take turns. Weights are random but none is zero or one, so that no converter can leave any out: time
does not depend on them otherwise. That it is the same network is checked on the answers before
anything is timed.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import peer_environments
import record
import tqdm

from tfdistill import errors
from tfdistill.benchmark.statistics import stats

_HERE = pathlib.Path(__file__).parent
_LENGTHS = (32, 128)
_OURS = "litert dynamic_wi8_afp32"
_WHOLE = "litert, whole last layer"
_TARGETS = {"onnxruntime int8": 1.6, "openvino": 1.5}
_NUM_EXAMPLES = 8
_PER_TURN = 5

# Contestant -> "clock" and "processor" -> round -> milliseconds.
Samples = dict[str, dict[str, list[list[float]]]]


def measure(*, quick: bool, torch: bool = False) -> record.Outcome:
    """Writes the student for each runtime, checks that they agree, and times them in turns."""
    environments = [peer_environments.PEERS]
    if torch:
        environments.append(peer_environments.TORCH)
    for environment in environments:
        environment.prepare()
    preset, lengths, rounds = "tinybert_4l_312d", _LENGTHS, 60
    if quick:
        preset, lengths, rounds = "bert_tiny", (16,), 2
    samples: dict[str, Samples] = {}
    distances: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="tfdistill-bench-") as folder:
        model, ours = _export(preset, lengths, pathlib.Path(folder))
        for length in lengths:
            weights = _save_weights(model, length, pathlib.Path(folder) / str(length))
            contestants = {
                name: [sys.executable, "litert", str(file)] for name, file in ours.items()
            }
            for environment in environments:
                contestants |= environment.write_models(weights)
            examples = _examples(model, length)
            answers, samples[str(length)] = _take_turns(contestants, examples, rounds)
            distances.update(_check(model, examples, answers, length))
    return record.Outcome(
        title=f"peers: {preset} in LiteRT against other runtimes, one thread",
        figures=list(_figures(samples)),
        details=[
            (
                f"{name}, {length} tokens",
                f"p50 {_p50(taken['processor']):.3f} ms, by the clock "
                f"{_p50(taken['clock']):.3f} ms",
            )
            for length, contestants in samples.items()
            for name, taken in contestants.items()
        ],
        settings={
            "preset": preset,
            "lengths": lengths,
            "threads": 1,
            "rounds": rounds,
            "runs_per_round": _PER_TURN,
            "packages": {e.name: e.versions() for e in environments},
        },
        samples={"milliseconds": samples, "relative_distance_from_the_model": distances},
        notes=[
            "The last layer of the exported file answers for [CLS] alone; the others, and "
            f"{_WHOLE!r}, compute it for every token.",
            "openvino computes in its default precision: bfloat16 where the processor has it.",
            "Ratios are of processor time: on one thread it is what the clock shows on a quiet "
            "machine, and on a busy one it leaves the waiting out.",
        ],
    )


def _figures(samples: dict[str, Samples]) -> Iterator[record.Figure]:
    """Gives the ratios, longest length first; those there carry the targets."""
    lengths = sorted(samples, key=int, reverse=True)
    for length in lengths:
        ours = samples[length][_OURS]
        for name, taken in samples[length].items():
            if name == _OURS:
                continue
            low, high = stats.speedup_ci([taken["processor"]], [ours["processor"]])
            waited = _p50(taken["clock"]) / _p50(ours["clock"])
            yield record.Figure(
                f"faster than {name} at {length} tokens",
                _p50(taken["processor"]) / _p50(ours["processor"]),
                _TARGETS.get(name) if length == lengths[0] else None,
                unit="x",
                note=f"95% interval {low:.2f} to {high:.2f}; by the clock {waited:.2f}x",
            )


def _p50(rounds: list[list[float]]) -> float:
    return statistics.median(value for taken in rounds for value in taken)


def _export(
    preset: str, lengths: tuple[int, ...], folder: pathlib.Path
) -> tuple[Any, dict[str, pathlib.Path]]:
    """Exports the student, and once more as a plain conversion of its model."""
    import export as exporter
    from export.conversion import convert, prepare
    from export.model import graph, signature
    from tfdistill import models

    model = models.build_classifier(preset, 2)
    random = np.random.default_rng(0)
    for layer in model.layers:
        layer.set_weights([w + 0.02 * random.standard_normal(w.shape) for w in layer.get_weights()])
    ours = folder / "ours" / "ours.tflite"
    exporter.to_tflite(model, ours, quantize="dynamic_wi8_afp32", lengths=lengths)
    saved, plain = folder / "saved_model", folder / "plain.tflite"
    shortened, graph.forward = graph.forward, _whole
    try:
        signature.save(model, saved, lengths=lengths)
    finally:
        graph.forward = shortened
    keys = [signature.signature_name(length) for length in lengths]
    matrices = prepare.with_matrices(model)
    convert.run_in_child(
        convert.Conversion(str(saved), str(plain), "dynamic_wi8_afp32", keys, matrices=matrices)
    )
    return model, {_OURS: ours, _WHOLE: plain}


def _whole(model: Any, *, softmax: bool = False) -> Any:
    """Stands in for `graph.forward`: the model as it is."""
    del softmax
    return lambda features: {"logits": model(features, training=False)}


def _save_weights(model: Any, length: int, folder: pathlib.Path) -> pathlib.Path:
    """Writes the weights and what the scripts of the environments must know of the network."""
    from tfdistill import models

    config = models.config_of(model)
    weights = {
        f"{layer.name}/{weight.name.split('/')[-1].split(':')[0]}": weight.numpy()
        for layer in model.layers
        for weight in layer.weights
    }
    names = ("family", "num_layers", "num_heads", "hidden_size", "vocab_size", "layer_norm_eps")
    described = {"length": length, **{name: getattr(config, name) for name in names}}
    folder.mkdir()
    np.savez(folder / "weights.npz", config=json.dumps(described), **weights)
    return folder / "weights.npz"


def _examples(model: Any, length: int) -> list[dict[str, list[int]]]:
    random = np.random.default_rng(1)
    vocab_size = model.get_layer("word_embeddings").input_dim
    return [
        {
            "input_ids": random.integers(0, vocab_size, length).tolist(),
            "attention_mask": (np.arange(length) < tokens).astype(int).tolist(),
            "token_type_ids": (np.arange(length) >= tokens // 2).astype(int).tolist(),
        }
        for tokens in np.linspace(length // 2, length, _NUM_EXAMPLES).astype(int)
    ]


def _take_turns(
    contestants: dict[str, list[str]], examples: list[dict[str, list[int]]], rounds: int
) -> tuple[dict[str, np.ndarray], Samples]:
    """Returns each contestant's answers and its durations, one order of turns a round."""
    random = np.random.default_rng(2)
    samples: Samples = {name: {"clock": [], "processor": []} for name in contestants}
    with contextlib.ExitStack() as stack:
        ask = {}
        for name, (python, *arguments) in contestants.items():
            command = [python, str(_HERE / "peer_worker.py"), *arguments]
            process = peer_environments.asking(name, command, OMP_NUM_THREADS="1")
            ask[name] = stack.enter_context(process)
        answers = {name: np.array(run(examples)) for name, run in ask.items()}
        for run in ask.values():
            run({"run": 2 * _PER_TURN})
        names = list(contestants)
        for _ in tqdm.trange(rounds, unit="round", disable=None):
            for index in random.permutation(len(names)):
                ask[names[index]]({"run": 1})  # brings its weights back into the caches
                taken = ask[names[index]]({"run": _PER_TURN})
                for kind, values in taken.items():
                    samples[names[index]][kind].append(values)
    return answers, samples


def _check(
    model: Any, examples: list[dict[str, list[int]]], answers: dict[str, np.ndarray], length: int
) -> dict[str, float]:
    """Returns rms(answer - model) / rms(model) of each, and refuses another network."""
    import tensorflow as tf

    features = {
        name: tf.constant([example[name] for example in examples], tf.int32) for name in examples[0]
    }
    expected = model(features, training=False).numpy()
    distances = {}
    for name, peer_answers in answers.items():
        distance = float(np.sqrt(np.mean((peer_answers - expected) ** 2) / np.mean(expected**2)))
        distances[f"{name}, {length} tokens"] = distance
        # Measured: 1e-6 in float32, some hundredths in bfloat16 and int8.
        limit = 1e-3 if "float32" in name else 0.5
        if not distance < limit:
            raise errors.TfdistillError(
                errors.explain(f"{name} at {length} tokens", f"a distance below {limit}", distance)
            )
    return distances
