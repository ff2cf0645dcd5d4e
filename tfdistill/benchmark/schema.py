"""benchmark.json: what a measurement is, wherever it was taken. One format for every backend.

A backend writes what it saw (`device`, `measurements`, ...); what follows from that (`summary`,
`comparisons`, ...) is computed from it by `result.complete`, so that a program in another language
need not repeat the statistics. Results of a host, an emulator and a phone are of different kinds
and are never compared with one another.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import pydantic

from tfdistill import errors
from tfdistill.benchmark.settings import Delegate as Delegate
from tfdistill.manifest import Manifest, Sha256

FORMAT_VERSION = 2
LARGEST = 10**15  # bytes, inferences, milliseconds: the squares of millions of them have a sum
RETIRED = (
    "sustained",
    "operators",
)  # keys of files that earlier versions wrote: dropped when one is read

Kind = Literal["host", "emulator", "phone"]
BackendName = Literal["litert", "benchmark_model", "app"]
Milliseconds = tuple[Annotated[float, pydantic.Field(le=LARGEST)], ...]
Counts = tuple[Annotated[int, pydantic.Field(le=LARGEST)], ...]
Interval = tuple[float, float]
_Timed = TypeVar("_Timed", "Measurement", "TextMeasurement")


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


class BenchmarkCase(Part):
    """The subject of a figure: a file at one length with one setting."""

    model: str  # name of the file
    sequence_length: int  # tokens, padding included
    threads: int  # of the runtime
    # what computes; "xnnpack" is what LiteRT uses on a CPU unless told otherwise
    delegate: Delegate = "xnnpack"
    affinity: str | None = None  # the cores that it may run on, as a hexadecimal mask; None for all

    def __hash__(self) -> int:
        """By the case alone, so that cases are keys."""
        settings = (self.threads, self.delegate, self.affinity)
        return hash((self.model, self.sequence_length, *settings))


class Coverage(Part):
    """The part of a graph that a delegate took: nodes of all nodes, in so many partitions."""

    delegated_nodes: int
    nodes: int
    partitions: int | None = None


class Block(Part):
    """A burst of inferences of which the tool gives no single durations (`benchmark_model`)."""

    n: int
    mean_ms: float
    min_ms: float
    max_ms: float
    std_ms: float | None = None
    first_ms: float | None = None
    median_ms: float | None = None
    p95_ms: float | None = None


def _check_columns(row: _Timed) -> _Timed:
    """Refuses processor times and switches that do not belong to the samples one by one."""
    for name in ("processor_ms", "waits", "preemptions"):
        values = getattr(row, name)
        if values and len(values) != len(row.samples_ms):
            raise ValueError(f"expected {name} of {len(row.samples_ms)} samples, not {len(values)}")
        if values and not min(values) >= (0 if name != "processor_ms" else 1e-9):
            raise ValueError(f"expected {name} of at least 0, not {min(values)}")
    return row


class Measurement(BenchmarkCase):
    """One repetition: a fresh process that opened the file, answered first, and then steadily."""

    signature: str | None = None  # key of the signature; None for a file that has none
    repetition: int  # from 0
    started: str | None = None  # ISO 8601
    # inferences that do not count: of the start, then those before each block
    warmup_ms: Milliseconds = ()
    # every inference that counts, in order; empty where the tool gives none
    samples_ms: Milliseconds = ()
    # time of each sample on the processor, where the system counts it: of one thread, or the sum of
    # several
    processor_ms: Milliseconds = ()
    waits: Counts = ()  # how often each sample gave the processor up by itself
    preemptions: Counts = ()  # how often each sample lost the processor to another program
    # samples of a block: bursts of this many took turns with the other files
    block_runs: int | None = None
    blocks: tuple[Block, ...] = ()  # instead of samples, where the tool gives none
    process_start_ms: float | None = None  # until the program could open the file
    init_ms: float | None = None  # opening it
    first_inference_ms: float | None = None  # the first answer, allocation included
    cold_start_ms: float | None = None  # from the start of the process to the first answer
    baseline_rss_bytes: int | None = None  # resident memory before the file was opened
    peak_rss_bytes: int | None = None  # the most that was resident
    coverage: Coverage | None = None  # of the delegate
    before: Conditions | None = None  # the device before it
    after: Conditions | None = None  # the device after it
    left_out: str = ""  # why it does not count, such as that the device throttled; empty if it does

    _columns = pydantic.model_validator(mode="after")(_check_columns)


class TextMeasurement(Part):
    """One repetition from text to answer, each text at the shortest length that fits.

    `tokenizer_ms` is a part of the `samples_ms` of the same index. `processor_ms`, `waits` and
    `preemptions` are those of a `Measurement`.
    """

    model: str
    threads: int
    delegate: Delegate = "xnnpack"
    affinity: str | None = None
    repetition: int
    words: int | None = None  # of each text; None for the texts of the examples as they are
    tokens: int | None = None  # of the longest text of so many words, before any was cut
    tokenizer_ms: Milliseconds
    samples_ms: Milliseconds
    processor_ms: Milliseconds = ()
    waits: Counts = ()
    preemptions: Counts = ()

    _columns = pydantic.model_validator(mode="after")(_check_columns)


class AnswerComparison(BenchmarkCase):
    """The device's answers against the host's, on the same examples."""

    num_examples: int
    max_abs_error: float  # the largest difference of an output
    # 10 log10(sum host^2 / sum (host - device)^2); None when equal bit for bit
    sqnr_db: float | None
    # share of examples with the same largest output; None for one output
    argmax_agreement: float | None
    # of the task, from the device's answers
    metrics: dict[str, float] = pydantic.Field(default_factory=dict)
    # of the task, from the host's answers to the same file
    host_metrics: dict[str, float] = pydantic.Field(default_factory=dict)


class Failure(Part):
    """A measurement that failed, and why; what was finished before is in the result."""

    what: str
    error: str


class Percentiles(Part):
    """Durations by order statistics and moments."""

    # "inferences", or "blocks": then n counts inferences all the same, p50 is the median of the
    # blocks' medians (of their means where there are none), and the tails are unknown
    of: Literal["inferences", "blocks"] = "inferences"
    n: int  # inferences
    p50_ms: float = pydantic.Field(gt=0)
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    min_ms: float
    max_ms: float
    mean_ms: float
    std_ms: float | None = None  # with n - 1 in the denominator; 0 for one
    # whether other programs disturbed more than a tenth of the inferences. With one thread whose
    # processor time is known, the figures are then of that; otherwise they are not to be relied on
    busy: bool = False


class Summary(BenchmarkCase, Percentiles):
    """All repetitions of a case together."""

    p50_ci_ms: Interval  # 95% interval; so for the others
    p90_ci_ms: Interval | None = None
    p95_ci_ms: Interval | None = None
    p99_ci_ms: Interval | None = None
    repetition_p50_ms: Milliseconds = ()  # the median of each repetition: their spread
    # samples beyond 3 interquartile ranges above the upper quartile of their repetition
    outliers: int = 0
    # median of the last window of a repetition / of its first, the median over repetitions
    drift: float | None = None
    drift_ci: Interval | None = None  # 95% interval
    # whether a repetition that counts ran on a device that throttled, or the drift or a level that
    # rose and stayed show it
    throttled: bool = False
    process_start_ms: float | None = None
    init_ms: float | None = None
    first_inference_ms: float | None = None
    cold_start_ms: float | None = None
    baseline_rss_bytes: float | None = None
    peak_rss_bytes: float | None = None
    coverage: Coverage | None = None


class EndToEnd(Percentiles):
    """From text to answer."""

    model: str
    threads: int
    delegate: Delegate = "xnnpack"
    affinity: str | None = None
    words: int | None = None  # of each text, as in `TextMeasurement`
    tokens: int | None = None  # as in `TextMeasurement`

    @property
    def text(self) -> str:
        """Names what the time begins with."""
        return "text" if self.words is None else f"{self.words} words"


class TextTime(Part):
    """The expected time of a text: the mean over a file's development texts, padded as they are.

    Each takes the median of the shortest length that holds it; the texts are those of
    `Manifest.text_lengths`. Only where every length that they need was measured.
    """

    model: str
    threads: int
    delegate: Delegate = "xnnpack"
    affinity: str | None = None
    num_texts: int = pydantic.Field(gt=0)
    expected_ms: float = pydantic.Field(gt=0)
    busy: bool = False

    @property
    def setting(self) -> tuple[int, Delegate, str | None]:
        """Threads, delegate and cores: what two files must have in common to be compared."""
        return self.threads, self.delegate, self.affinity


class Comparison(Part):
    """The speedup of one file over another, from blocks that took turns."""

    baseline: str  # name of a file
    candidate: str  # name of another
    sequence_length: int
    threads: int
    delegate: Delegate = "xnnpack"
    affinity: str | None = None
    speedup: float = pydantic.Field(gt=0)  # median of the baseline / median of the candidate
    speedup_ci: Interval | None  # 95% interval; None where the machine was too busy for one
    # whether the candidate is; None where the interval holds 1 or is missing, and with one
    # repetition
    faster: bool | None
    busy: bool = False  # whether either file was measured on a busy machine: see `Percentiles`

    @property
    def case(self) -> BenchmarkCase:
        """Of the candidate."""
        settings = self.model_dump(include={"sequence_length", "threads", "delegate", "affinity"})
        return BenchmarkCase(model=self.candidate, **settings)


class Result(Part):
    """The whole of benchmark.json."""

    format_version: Literal[2] = FORMAT_VERSION
    kind: Kind  # where: a host, an emulated device, a phone
    backend: BackendName  # what measured
    created: str  # ISO 8601
    tfdistill_version: str
    command: tuple[str, ...] = ()
    settings: dict[str, Any] = pydantic.Field(default_factory=dict)  # what was asked for
    device: Device
    runtime: Runtime
    before: Conditions | None = None  # the device before everything
    after: Conditions | None = None  # the device after everything
    models: tuple[MeasuredFile, ...]
    measurements: tuple[Measurement, ...] = ()
    texts: tuple[TextMeasurement, ...] = ()  # from text to answer, in repetitions
    answers: tuple[AnswerComparison, ...] = ()
    failures: tuple[Failure, ...] = ()  # what was not measured
    summary: tuple[Summary, ...] = ()
    tokenizer: Percentiles | None = None  # of the examples' texts; None without
    end_to_end: tuple[EndToEnd, ...] = ()
    # the expected time of a text, by file, threads, delegate and cores
    text_times: tuple[TextTime, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()  # sentences that a reader of the numbers has to know

    @pydantic.model_validator(mode="before")
    @classmethod
    def _without_retired(cls, value: Any) -> Any:
        """Leaves out what earlier versions measured."""
        if not isinstance(value, dict):
            return value
        return {name: part for name, part in value.items() if name not in RETIRED}
