"""A device whose latencies follow a known formula, and files that hold exactly what they should."""

import numpy as np

from tfdistill import config, models
from tfdistill.benchmark import schema
from tfdistill.search import costs, searching
from tfdistill.search.searching import Budget

TEACHER = models.preset("bert_base")
# Milliseconds a unit of `costs.work`, as of a small core; bytes a unit of `costs.stored`.
MS_PER_UNIT = np.array([0.02, 0.01, 3e-9, 1e-8, 2e-9, 1e-6, 3e-7])
BYTES_PER_UNIT = np.array([7000, 700, 1, 1, 4])


def true_latency(config, length, head="sequence"):
    return float(costs.work(config, length, head) @ MS_PER_UNIT)


def stored_bytes(config, length):
    return round(float(costs.stored(config, length) @ BYTES_PER_UNIT))


class Phone:
    """A device whose latency is `true_latency`, with noise, for `convert` and `measure`.

    What a file holds is its candidate: the candidate's shape is remembered by path, for all phones.
    """

    shapes = {}

    def __init__(
        self, *, noise=0.0, seed=0, device_id="0123456789ab", fails_at=None, slow=(), busy=False
    ):
        self.noise, self.rng = noise, np.random.default_rng(seed)
        self.device_id, self.fails_at, self.slow, self.busy = device_id, fails_at, slow, busy
        self.converted, self.measured, self.calls = [], [], 0

    def convert(self, candidate, path):
        self.converted.append(candidate.name)
        self.shapes[path] = candidate
        with open(path, "wb") as file:
            file.truncate(stored_bytes(candidate.config, 64))

    def measure(self, models, settings):
        self.calls += 1
        if self.calls == self.fails_at:
            raise KeyboardInterrupt
        self.measured += list(models)
        return self.result(models, settings)

    def result(self, models, settings):
        cells = []
        for name, path in models.items():
            for length in settings.lengths:
                truth = true_latency(self.shapes[path].config, length)
                truth *= 1.5 if name in self.slow else 1.0
                noisy = truth * np.exp(self.noise * self.rng.standard_normal())
                cells.append(summary(name, length, noisy, busy=self.busy))
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


def summary(name, length, p50_ms, *, busy=False):
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
        busy=busy,
    )


def recipe(lengths=(64,), threads=1):
    values = {
        "name": "search",
        "data": {"task": "sst2", "max_length": max(lengths)},
        "teacher": {"source": "preset:bert_base"},
        "student": {"preset": "pruned:layers=1", "initialise": "pruned"},
        "stages": {"joint": {"kind": "joint"}},
        "variants": {"full": {"stages": ["joint"]}},
        "export": {"lengths": lengths},
        "benchmark": {"threads": [threads]},
    }
    return config.parse_recipe(values)


def run(folder, phone, *, latency_ms=3.0, size_mb=None, **more):
    options = {"count": 5, **more}
    return searching.search(
        folder,
        options.pop("recipe", None) or recipe(),
        Budget(latency_ms, size_mb),
        measure=phone.measure,
        convert=phone.convert,
        **options,
    )
