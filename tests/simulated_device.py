"""A device whose latencies follow a known formula, and files that hold exactly what they should."""

import dataclasses

import numpy as np

from tfdistill import models
from tfdistill.benchmark import schema
from tfdistill.search import recipes, searching, space, work
from tfdistill.search.learning import Effort
from tfdistill.search.pareto import Budget

TEACHER = space.Teacher("bert-base-uncased", config=models.preset("bert_base"))
# Milliseconds a unit: as of a small core.
MS_PER_UNIT = {
    "constant": 0.02,
    "products": 1e-3,
    "dense_macs": 3e-9,
    "row_weights": 1e-8,
    "softmax_elements": 1e-6,
    "layer_norm_elements": 8e-7,
    "gelu_elements": 3e-7,
}
SMALL = Effort(blocks=(12, 8), whole=6, held_out=5)


def true_latency(config, length, head="sequence"):
    counts = dataclasses.asdict(work.work(config, length, head=head))
    return sum(MS_PER_UNIT.get(name, 0.0) * count for name, count in counts.items())


def stored_bytes(config, length):
    contents = work.contents(config, (length,))
    return round(7000 + 700 * contents.products + contents.weights + contents.tables) + 4 * (
        round(contents.positions + contents.channels)
    )


class Phone:
    """A device whose latency is `true_latency`, with noise, for `convert` and `measure`.

    What a file holds is its candidate: the candidate's shape is remembered by path.
    """

    def __init__(self, *, noise=0.0, seed=0, device_id="0123456789ab", fails_at=None, slow=()):
        self.noise, self.rng = noise, np.random.default_rng(seed)
        self.device_id, self.fails_at, self.slow = device_id, fails_at, slow
        self.shapes, self.measured, self.calls = {}, [], 0

    def convert(self, candidate, path):
        self.shapes[path] = candidate
        longest = 64
        with open(path, "wb") as file:
            file.truncate(stored_bytes(candidate.config, longest))

    def measure(self, models, settings):
        self.calls += 1
        if self.calls == self.fails_at:
            raise KeyboardInterrupt
        self.measured += [name for name in models if name != "anchor"]
        return self.result(models, settings)

    def result(self, models, settings):
        cells = []
        for name, path in models.items():
            for length in settings.lengths:
                truth = true_latency(self.shapes[path].config, length)
                truth *= 1.5 if name in self.slow else 1.0
                noisy = truth * np.exp(self.noise * self.rng.standard_normal())
                cells.append(summary(name, length, noisy))
        return schema.Result(
            kind="phone",
            backend="benchmark_model",
            created="2026-01-01T00:00:00+00:00",
            tfdistill_version="0",
            device=schema.Device(name="A phone", id=self.device_id),
            runtime=schema.Runtime(name="benchmark_model", version="2.3"),
            models=(),
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


def goal(method="tinybert", lengths=(64,), **more):
    options = {"task": "sst2", "quantize": "dynamic_wi8_afp32", "threads": 1, **more}
    return recipes.Goal(method=method, teacher=TEACHER, lengths=lengths, **options)


def run(folder, phone, *, latency_ms=3.0, size_mb=None, method="tinybert", **more):
    options = {"effort": SMALL, "count": 5, **more}
    return searching.search(
        folder,
        Budget(latency_ms, size_mb),
        options.pop("goal", goal(method)),
        measure=phone.measure,
        convert=phone.convert,
        **options,
    )
