"""The subject and the place of a measurement: the parts of benchmark.json without durations."""

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
    """The state of a device at a moment; what it does not report is None or empty."""

    time: str  # ISO 8601
    # Android's PowerManager: 0 none, 1 light, 2 moderate, 3 severe, 4 critical, 5 emergency, 6
    # shutdown
    thermal_status: int | None = None
    temperatures_c: dict[str, float] = {}  # degrees Celsius by name of the sensor
    battery_percent: float | None = None  # 0 to 100
    battery_temperature_c: float | None = None  # degrees Celsius
    charging: bool | None = None  # whether power is connected
    frequencies_mhz: tuple[float, ...] = ()  # the clock of each core
    load_average: float | None = None  # busy processes over the last minute
    # how often cores slowed down for heat since the start, where Linux counts it
    throttle_count: int | None = None


class Device(Part):
    """The device of a measurement."""

    name: str  # what people call it, such as "Google Pixel 8"; of a host, its processor
    # first 12 hexadecimal digits of the SHA-256 of its serial number (of a host: of its machine
    # id): identifies it without naming it. None where there is none
    id: str | None = None
    fingerprint: str | None = None  # Android's build fingerprint
    soc: str | None = None  # system on a chip, such as "Google Tensor G3"
    abi: str | None = None  # such as "arm64-v8a" or "x86_64"
    os: str | None = None  # such as "Android 14 (API 34)"
    kernel: str | None = None  # such as "Linux 6.1.57"
    cores_logical: int | None = None  # cores, as the system counts them
    cores_physical: int | None = None  # without hyper-threads
    # the highest clock of each core: big and little ones differ
    max_frequencies_mhz: tuple[float, ...] = ()
    cpu_flags: tuple[str, ...] = ()  # instruction sets that decide how fast LiteRT's kernels run
    governor: str | None = None  # how the clock of the first core is governed
    memory_bytes: int | None = None  # all of the memory


class Runtime(Part):
    """The runtime that ran the file."""

    name: str  # "ai_edge_litert", "benchmark_model", or the app's package
    version: str | None = None
    build: str | None = None  # its build, where it is known: a commit, a build type
    sha256: Sha256 | None = None  # of the binary, where it is one file
    packages: dict[str, str | None] = {}  # versions of what else takes part, by name


class Inputs(Part):
    """The inputs of a model: "golden", "task", "vocabulary" or "random" examples."""

    source: Literal["golden", "task", "vocabulary", "random"]
    num_examples: int


class MeasuredFile(Part):
    """A file that was measured."""

    name: str  # unique in the result
    file: str  # the names of its folder and file
    sha256: Sha256
    size_bytes: int
    quantization: str | None = None  # where there is a manifest
    manifest: Manifest | None = None  # the whole of model.json, where there is one
    inputs: Inputs  # what it was fed with
