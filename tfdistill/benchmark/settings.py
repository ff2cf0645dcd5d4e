"""The settings of a measurement, the same for every backend: how long, how often, in which ways.

The defaults are here and nowhere else: the command line takes its own from these.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Literal, get_args

from tfdistill import errors

Delegate = Literal["none", "xnnpack", "gpu", "nnapi"]


@dataclasses.dataclass(frozen=True)
class Settings:
    """The durations, the repetitions and the ways of a measurement.

    Attributes:
      threads: Numbers of threads to measure with.
      lengths: Sequence lengths to measure; None for all that a file has.
      roles: What inputs are for whose names do not tell it, see `tflite.roles`: name or position ->
        role.
      delegates: Who computes: each is measured.
      affinity: The cores to run on: a hexadecimal mask, "big", "little" or "all"; None leaves it to
        the system.
      warmup: Inferences before the first sample.
      runs: The minimum number of samples per repetition.
      min_seconds: The minimum measured time per repetition.
      max_runs: The most samples of a repetition; it wins over `min_seconds`, not over `runs`.
      repetitions: Fresh processes per place.
      rounds: Blocks that the samples of a repetition come in.
      lead_in: Inferences before each block that do not count: after another file's turn the caches
        hold that one's weights. On a host; elsewhere a block is a process with its own `warmup`.
      cool_down_seconds: Rest before each repetition.
      texts: Whether to measure the way from text to answer, too, where there is a vocabulary.
      words: Numbers of words of texts whose way to the answer is measured, too, see
        `subjects.texts_for`.
      cool_timeout_seconds: The longest wait for a warm device to cool down to thermal status 0.
      seed: Seed of the order, of generated inputs and of the bootstrap.
      timeout_seconds: The longest wait for one block.
    """

    threads: tuple[int, ...] = (1,)
    lengths: tuple[int, ...] | None = None
    roles: Mapping[str, str] | None = None
    delegates: tuple[Delegate, ...] = ("xnnpack",)
    affinity: str | None = None
    warmup: int = 10
    runs: int = 100
    min_seconds: float = 1.0
    max_runs: int = 2000
    repetitions: int = 3
    rounds: int = 10
    lead_in: int = 3
    cool_down_seconds: float = 0.0
    texts: bool = True
    words: tuple[int, ...] = ()
    cool_timeout_seconds: float = 300.0
    seed: int = 0
    timeout_seconds: float = 300.0

    def __post_init__(self) -> None:
        """Checks all values at once."""
        lowest = {
            "warmup": 0,
            "runs": 1,
            "max_runs": 1,
            "repetitions": 1,
            "rounds": 1,
            "lead_in": 0,
            "min_seconds": 0,
            "cool_down_seconds": 0,
            "cool_timeout_seconds": 0,
        }
        faults = [
            errors.explain(name, f"at least {low}", getattr(self, name))
            for name, low in lowest.items()
            if not getattr(self, name) >= low  # NaN is at least nothing
        ]
        if not self.timeout_seconds > 0:
            faults.append(
                errors.explain("timeout_seconds", "some time to wait", self.timeout_seconds)
            )
        if not self.threads or min(self.threads) < 1:
            faults.append(errors.explain("threads", "numbers of at least 1", self.threads))
        available = get_args(Delegate)
        if not self.delegates or not set(self.delegates) <= set(available):
            faults.append(errors.explain("delegates", f"some of {available}", self.delegates))
        for name in ("threads", "lengths", "delegates"):
            values = getattr(self, name) or ()
            if len(set(values)) < len(values):  # it would be measured twice, under one name
                faults.append(errors.explain(name, "each once", values))
        if faults:
            raise errors.BenchmarkError("\n".join(faults))

    def block_runs(self, estimate_ms: float) -> int:
        """The number of samples of a block, given about how long one takes."""
        wanted = max(self.runs, self.min_seconds * 1000 / max(estimate_ms, 1e-6))
        return math.ceil(min(wanted, max(self.max_runs, self.runs)) / self.rounds)
