"""One file for each measured model, so that a stopped search can resume."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from typing import Any, Literal

import pydantic

from tfdistill import errors, files
from tfdistill.benchmark import schema
from tfdistill.search.space import Candidate


@dataclasses.dataclass(frozen=True)
class MeasurementContext:
    """What a measurement depends on besides the shape of the model.

    Attributes:
      device: What it was measured on.
      runtime: What ran it.
      settings: How it was measured: threads, delegate, runs, ...
      quantize: Of the file.
      lengths: Of the file.
      head: See `work.work`.
      tfdistill_version: Of the exporter.
    """

    device: schema.Device
    runtime: schema.Runtime
    settings: dict[str, Any]
    quantize: str
    lengths: tuple[int, ...]
    head: str
    tfdistill_version: str

    def key(self, candidate: Candidate) -> str:
        """Returns 32 hexadecimal digits that differ wherever another latency is to be expected.

        Of a device what identifies it counts, not its clocks; of the settings all.
        """
        device = self.device
        shape = dataclasses.asdict(candidate.config)
        for name in ("head_size", "embedding_size"):
            if shape[name] is None:  # readings of earlier versions keep their keys
                del shape[name]
        known = {
            "config": shape,
            "device": [device.id, device.name, device.fingerprint, device.soc, device.abi],
            "runtime": self.runtime.model_dump(mode="json"),
            "settings": self.settings,
            "file": [self.quantize, list(self.lengths), self.head, self.tfdistill_version],
        }
        text = json.dumps(known, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class Reading(schema.Part):
    """What was measured of one file.

    Attributes:
      key: See `MeasurementContext.key`.
      name: The candidate's.
      size_bytes: Of the file.
      p50_ms: Sequence length -> median latency, milliseconds.
      p50_ci_ms: Sequence length -> its 95% interval.
      anchor_ms: Sequence length -> median of the file that is measured along with everything.
      created: ISO 8601.
    """

    format_version: Literal[1] = 1
    key: str
    name: str
    size_bytes: int = pydantic.Field(gt=0)
    p50_ms: dict[int, float]
    p50_ci_ms: dict[int, schema.Interval]
    anchor_ms: dict[int, float]
    created: str


class Store:
    """Readings in a folder, a file each.

    Args:
      folder: The folder; made when the first reading is written.
    """

    def __init__(self, folder: files.Path) -> None:
        self.folder = pathlib.Path(folder)

    def get(self, key: str) -> Reading | None:
        """Returns a reading, or None where there is none.

        Raises:
          BenchmarkError: If its file is damaged.
        """
        path = self.folder / f"{key}.json"
        if not path.is_file():
            return None
        try:
            found = Reading.model_validate_json(path.read_bytes())
        except pydantic.ValidationError as error:
            raise errors.BenchmarkError(
                f"measurement {path.name}",
                "a reading of format_version 1",
                f"{error.error_count()} faults",
                "Delete the file: it will be measured again.",
            ) from error
        return found if found.key == key else None

    def put(self, reading: Reading) -> None:
        """Writes a reading: whole or not at all."""
        files.atomic_write_json(
            self.folder / f"{reading.key}.json", reading.model_dump(mode="json")
        )
