"""Benchmark results made from chosen durations: nothing is measured."""

from __future__ import annotations

import manifests
import numpy as np

from tfdistill import manifest
from tfdistill.benchmark import result, schema
from tfdistill.benchmark.settings import Settings

PHONE = schema.Device(
    name="Google Pixel 8",
    id="0123456789ab",
    fingerprint="google/shiba/shiba:14/AP1A/1:user/release-keys",
    soc="Google Tensor G3",
    abi="arm64-v8a",
    os="Android 14 (API 34)",
)
HOST = schema.Device(name="A processor", id="ba9876543210", os="Debian", cores_logical=2)
RUNTIME = schema.Runtime(name="ai_edge_litert", version="2.3.0")


def model_file(name="student", *, sha256="a" * 64, size_bytes=1_000_000, accuracy=None):
    """A file; with `accuracy`, its manifest says how well it does its task."""
    card = None
    if accuracy is not None:
        record = {"file": "m.tflite", "sha256": sha256, "size_bytes": size_bytes}
        task = {"name": "toy", "kind": "classification", "primary_metric": "accuracy"}
        content = manifests.content(name=name, model=record, task=task, signatures={})
        content["parity"] |= {"num_examples": 100, "file_metrics": {"accuracy": accuracy}}
        card = manifest.Manifest.model_validate(content)
    return schema.MeasuredFile(
        name=name,
        file=f"{name}/model.tflite",
        sha256=sha256,
        size_bytes=size_bytes,
        manifest=card,
        inputs=schema.Inputs(source="golden", num_examples=8),
    )


def measurement(samples, *, model="student", length=32, repetition=0, block_runs=10, **more):
    """One repetition from its durations."""
    more = {"threads": 1, "first_inference_ms": 3.0, "cold_start_ms": 250.0, **more}
    return schema.Measurement(
        model=model,
        sequence_length=length,
        repetition=repetition,
        samples_ms=tuple(float(sample) for sample in samples),
        block_runs=block_runs,
        **more,
    )


def repetitions(level, *, seed=0, number=3, runs=100, spread=0.01, noise=0.03, **more):
    """Repetitions of a place: each process has its own factor, each inference its own noise."""
    rng = np.random.default_rng(seed)
    return [
        measurement(
            level * np.exp(rng.normal(0, spread) + rng.normal(0, noise, runs)),
            repetition=index,
            **more,
        )
        for index in range(number)
    ]


def latencies(
    rng,
    *,
    level=1.0,
    repetitions=3,
    blocks=10,
    runs=10,
    process=0.02,
    moment=0.02,
    memory=0.6,
    noise=0.05,
    bursts=0.02,
):
    """Draws durations as a machine gives them, of shape (repetitions, blocks, runs).

    Log-normal: each process has a factor of its own; so has each block, correlated with the one
    before by `memory`; so has each inference. A share `bursts` of the inferences, and half of those
    that follow one, take 1 + an exponential variable times as long.
    """
    moments = np.empty((repetitions, blocks))
    moments[:, 0] = rng.normal(0, moment, repetitions)
    for index in range(1, blocks):
        new = np.sqrt(1 - memory**2) * rng.normal(0, moment, repetitions)
        moments[:, index] = memory * moments[:, index - 1] + new
    shape = (repetitions, blocks, runs)
    processes = rng.normal(0, process, (repetitions, 1, 1))
    values = level * np.exp(processes + moments[..., None] + rng.normal(0, noise, shape))
    hit = rng.random(shape) < bursts
    hit[..., 1:] |= hit[..., :-1] & (rng.random((repetitions, blocks, runs - 1)) < 0.5)
    return np.where(hit, values * (1 + rng.exponential(1.0, shape)), values)


def assembled(measurements, *, models=None, **more):
    """A result of a host, complete."""
    if models is None:
        models = [model_file(name) for name in dict.fromkeys(row.model for row in measurements)]
    options = {
        "kind": "host",
        "backend": "litert",
        "device": HOST,
        "runtime": RUNTIME,
        "settings": Settings(),
        "command": ["tfdistill", "benchmark", "student"],
        "created": "2026-11-21T10:00:00+00:00",
        **more,
    }
    return result.assemble(models=models, measurements=measurements, **options)
