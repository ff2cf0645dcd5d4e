"""What a table of the papers' models is asked for, and the measurements that it consists of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tfdistill import errors
from tfdistill.benchmark.settings import Settings
from tfdistill.report import papers
from tfdistill.run import paper_files

FILES, MEASUREMENTS = "files", "measurements"  # folders of a table
# What one measurement has to share with the others of its table.
HOW = (
    *("warmup", "runs", "min_seconds", "max_runs", "repetitions", "rounds", "lead_in"),
    "cool_down_seconds",
)


@dataclasses.dataclass(frozen=True)
class Request:
    """What a table is asked for.

    Attributes:
      presets: The models.
      quantizations: Of each model.
      settings: How to measure; with lengths and threads.
      place: Folder of the measurements: one a device.
      scaled_down: Whether toys stand for the models.
    """

    presets: tuple[str, ...]
    quantizations: tuple[str, ...]
    settings: Settings
    place: str = "host"
    scaled_down: bool = False

    def __post_init__(self) -> None:
        """Checks what can be checked before the long work."""
        if not self.presets or not self.quantizations or not self.settings.lengths:
            raise errors.ConfigError(
                errors.explain("table", "models, quantizations and lengths", "none of one")
            )
        for preset in self.presets:
            config = paper_files.shape(preset, scaled_down=self.scaled_down)
            longest = max(self.settings.lengths)
            if longest > config.max_positions:
                raise errors.ConfigError(
                    errors.explain("--lengths", f"at most {config.max_positions} tokens", longest)
                )
        paper_files.check_quantizations(self.quantizations)

    @property
    def reference(self) -> str:
        """The preset that speed-ups are over."""
        return papers.REFERENCE if papers.REFERENCE in self.presets else self.presets[0]

    def fixed(self) -> dict[str, Any]:
        """What must not change between two runs into the same folder."""
        return {
            "format_version": 1,
            "models": list(self.presets),
            "lengths": list(self.settings.lengths or ()),
            "seed": self.settings.seed,
            "scaled_down": self.scaled_down,
        }

    def how(self) -> dict[str, Any]:
        """The settings that all measurements share."""
        return {name: getattr(self.settings, name) for name in HOW}


@dataclasses.dataclass(frozen=True)
class Unit:
    """What is measured at once: all models in one quantization at a length, on so many threads.

    The reference in float32 takes its turns among files of another quantization.
    """

    quantization: str
    sequence_length: int
    threads: int

    @property
    def file(self) -> str:
        """Name of its result."""
        return f"{self.quantization}-{self.sequence_length}-{self.threads}.json"


def units_of(request: Request) -> Iterator[Unit]:
    """Gives what has to be measured, in order."""
    for quantization in request.quantizations:
        for length in request.settings.lengths or ():
            for threads in request.settings.threads:
                yield Unit(quantization, length, threads)
