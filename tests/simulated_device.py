"""A device whose latencies follow a known formula."""

import numpy as np

from tfdistill import models
from tfdistill.benchmark import schema
from tfdistill.budget import costs

TEACHER = models.preset("bert_base")
# Milliseconds a unit of `costs.work`, as of a small core.
MS_PER_UNIT = np.array([0.02, 0.01, 3e-9, 1e-8, 2e-9, 1e-6, 3e-7])


def true_latency(config, length, head="sequence"):
    return float(costs.work(config, length, head) @ MS_PER_UNIT)


class Phone:
    """A device whose latency is `true_latency`, with noise, for `convert` and `measure`.

    What a file holds is its candidate: the candidate's shape is remembered by path.
    """

    def __init__(self, *, noise=0.0, device_id="0123456789ab"):
        self.noise, self.rng, self.device_id = noise, np.random.default_rng(0), device_id
        self.shapes, self.measured = {}, []

    def convert(self, candidate, path):
        self.shapes[path] = candidate
        path.touch()

    def measure(self, models, settings):
        self.measured += list(models)
        cells = []
        for name, path in models.items():
            for length in settings.lengths:
                truth = true_latency(self.shapes[path].config, length)
                noisy = truth * np.exp(self.noise * self.rng.standard_normal())
                cells.append(summary(name, length, noisy))
        return schema.Result(
            kind="phone",
            backend="benchmark_model",
            created="2026-01-01T00:00:00+00:00",
            tfdistill_version="0",
            device=schema.Device(name="A phone", id=self.device_id),
            runtime=schema.Runtime(name="benchmark_model", version="2.3"),
            models=tuple(
                schema.MeasuredFile(
                    name=name,
                    file=path.name,
                    sha256="ab" * 32,
                    size_bytes=path.stat().st_size,
                    inputs=schema.Inputs(source="random", num_examples=1),
                )
                for name, path in models.items()
            ),
            summary=tuple(cells),
        )


def summary(name, length, p50_ms):
    return schema.Summary(
        model=name,
        sequence_length=length,
        threads=1,
        n=100,
        p50_ms=p50_ms,
        p50_ci_ms=(0.99 * p50_ms, 1.01 * p50_ms),
        min_ms=p50_ms,
        max_ms=p50_ms,
        mean_ms=p50_ms,
    )
