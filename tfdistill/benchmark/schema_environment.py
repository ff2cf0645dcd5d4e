"""What was measured and on what: the parts of benchmark.json that no duration is in."""

from __future__ import annotations

from typing import Any, Literal

import pydantic

from tfdistill import errors
from tfdistill.manifest import Manifest, Sha256

LARGEST = 10**15  # bytes, inferences, milliseconds: the squares of millions of them have a sum


class Part(pydantic.BaseModel):
    """A part of benchmark.json: unknown keys are errors, values do not change."""

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )

    @pydantic.field_validator("*")
    @classmethod
    def _can_be_added(cls, value: Any) -> Any:
        """Refuses numbers of which a few make a sum beyond what a float holds."""
        if isinstance(value, (int, float)) and abs(value) > LARGEST:
            raise ValueError(f"expected at most {LARGEST:g}, not {errors.shortened(repr(value))}")
        return value


class Conditions(Part):
    """The state of a device at a moment; what it does not report is None or empty.

    Attributes:
      time: ISO 8601.
      thermal_status: Android's PowerManager: 0 none, 1 light, 2 moderate, 3 severe, 4 critical,
        5 emergency, 6 shutdown.
      temperatures_c: Degrees Celsius by name of the sensor.
      battery_percent: 0 to 100.
      battery_temperature_c: Degrees Celsius.
      charging: Whether power is connected.
      frequencies_mhz: The clock of each core.
      load_average: Busy processes over the last minute.
      throttle_count: How often cores slowed down for heat since the start, where Linux counts it.
    """

    time: str
    thermal_status: int | None = None
    temperatures_c: dict[str, float] = {}
    battery_percent: float | None = None
    battery_temperature_c: float | None = None
    charging: bool | None = None
    frequencies_mhz: tuple[float, ...] = ()
    load_average: float | None = None
    throttle_count: int | None = None


class Device(Part):
    """What was measured on.

    Attributes:
      name: What people call it, such as "Google Pixel 8"; of a host, its processor.
      id: First 12 hexadecimal digits of the SHA-256 of its serial number (of a host: of its
        machine id): identifies it without naming it. None where there is none.
      fingerprint: Android's build fingerprint.
      soc: System on a chip, such as "Google Tensor G3".
      abi: Such as "arm64-v8a" or "x86_64".
      os: Such as "Android 14 (API 34)".
      kernel: Such as "Linux 6.1.57".
      cores_logical: Cores, as the system counts them.
      cores_physical: Without hyper-threads.
      max_frequencies_mhz: The highest clock of each core: big and little ones differ.
      cpu_flags: Instruction sets that decide how fast LiteRT's kernels run.
      governor: How the clock of the first core is governed.
      memory_bytes: All of the memory.
    """

    name: str
    id: str | None = None
    fingerprint: str | None = None
    soc: str | None = None
    abi: str | None = None
    os: str | None = None
    kernel: str | None = None
    cores_logical: int | None = None
    cores_physical: int | None = None
    max_frequencies_mhz: tuple[float, ...] = ()
    cpu_flags: tuple[str, ...] = ()
    governor: str | None = None
    memory_bytes: int | None = None


class Runtime(Part):
    """What ran the file.

    Attributes:
      name: "ai_edge_litert", "benchmark_model", or the app's package.
      version: Its version, where it is known.
      build: Its build, where it is known: a commit, a build type.
      sha256: Of the binary, where it is one file.
      packages: Versions of what else takes part, by name.
    """

    name: str
    version: str | None = None
    build: str | None = None
    sha256: Sha256 | None = None
    packages: dict[str, str | None] = {}


class Inputs(Part):
    """What a model was fed with: "golden", "task", "vocabulary" or "random" examples."""

    source: Literal["golden", "task", "vocabulary", "random"]
    num_examples: int


class MeasuredFile(Part):
    """A file that was measured.

    Attributes:
      name: Unique in the result.
      file: The names of its folder and file.
      sha256: Of the file.
      size_bytes: Of the file.
      quantization: Where there is a manifest.
      manifest: The whole of model.json, where there is one.
      inputs: What it was fed with.
    """

    name: str
    file: str
    sha256: Sha256
    size_bytes: int
    quantization: str | None = None
    manifest: Manifest | None = None
    inputs: Inputs
