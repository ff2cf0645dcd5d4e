"""What the report needs of metrics.json and benchmark.json; anything else in them is ignored."""

from __future__ import annotations

from typing import Any, Literal

import pydantic


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class Task(_Part):
    """The task of a run."""

    name: str = "task"
    kind: str = "classification"
    labels: tuple[str, ...] = ()
    primary_metric: str = "accuracy"


class HistoryFile(_Part):
    """Where the history of one stage lies, relative to the run folder."""

    stage: str
    csv: str


class ModelResult(_Part):
    """One trained model: a teacher, or a student of one variant and seed."""

    name: str
    role: Literal["teacher", "student"]
    seed: int | None = None
    stages: tuple[str, ...] = ()
    metrics: dict[str, float | None] = {}
    num_examples: int | None = None
    parameters: int | None = None
    flops: dict[str, int] = {}  # by sequence length
    architecture: dict[str, Any] = {}
    train_seconds: float | None = None
    folder: str | None = None
    history: tuple[HistoryFile, ...] = ()


class ExportFile(_Part):
    """An exported file: its name, the model folder that it came from, its manifest."""

    name: str
    of: str
    manifest: str


class RunMetrics(_Part):
    """metrics.json."""

    format_version: Literal[1]
    recipe: str = "run"
    created: str | None = None
    seed: int | None = None
    task: Task = Task()
    synthetic_data: bool = False
    models: tuple[ModelResult, ...] = ()
    chosen: str | None = None
    exports: tuple[ExportFile, ...] = ()


class MeasuredFile(_Part):
    """A file in benchmark.json."""

    name: str
    sha256: str | None = None
    size_bytes: int | None = None
    quantization: str | None = None


class Latency(_Part):
    """Percentiles of samples, in milliseconds."""

    n: int
    p50_ms: float = pydantic.Field(gt=0)
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None


class Cell(Latency):
    """The summary of one file at one length and number of threads."""

    model: str
    sequence_length: int
    threads: int
    p50_ci_ms: tuple[float, float] | None = None
    init_ms: float | None = None
    first_inference_ms: float | None = None
    cold_start_ms: float | None = None
    peak_rss_bytes: int | None = None


class EndToEnd(Latency):
    """From text to answer."""

    model: str
    threads: int


class Comparison(_Part):
    """How much faster a file is than the baseline."""

    baseline: str
    candidate: str
    sequence_length: int
    threads: int
    speedup: float = pydantic.Field(gt=0)
    speedup_ci: tuple[float, float] | None = None
    faster: bool | None = None


class Benchmark(_Part):
    """benchmark.json."""

    format_version: Literal[1]
    kind: str = "host"
    created: str | None = None
    environment: dict[str, Any] = {}
    command: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    models: tuple[MeasuredFile, ...] = ()
    summary: tuple[Cell, ...] = ()
    tokenizer: Latency | None = None
    end_to_end: tuple[EndToEnd, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()
