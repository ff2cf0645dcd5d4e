"""The two ways to measure files: on this machine, and on a phone over adb."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.settings import Settings

if TYPE_CHECKING:
    from tfdistill.benchmark.adb import Binary

Models = Sequence[pathlib.Path] | Mapping[str, pathlib.Path]


def measure_on_host(models: Models, settings: Settings) -> schema.Result:
    """Measures files on this machine; see `benchmark.compare`."""
    from tfdistill.benchmark import host

    return host.compare(models, settings=settings)


@dataclasses.dataclass(frozen=True)
class MeasureOnPhone:
    """Measures files on one Android device with `benchmark_model`.

    Attributes:
      serial: Of the device; None where only one is connected.
      binary: The tool; None for the one that `tfdistill benchmark` would use.
    """

    serial: str | None = None
    binary: Binary | None = None

    def __call__(self, models: Models, settings: Settings) -> schema.Result:
        """Measures files on the device."""
        from tfdistill.benchmark import adb
        from tfdistill.benchmark.adb import measuring as on_devices

        serials = () if self.serial is None else (self.serial,)
        shown: dict[str, str] = {}
        results = adb.measure(
            models, settings=settings, serials=serials, binary=self.binary, shown=shown
        )
        if len(results) != 1:
            raise errors.BenchmarkError(
                "--serial", "one device", len(results), "Choose it with --serial SERIAL."
            )
        return on_devices.show_serials_in_failures(results[0], shown)
