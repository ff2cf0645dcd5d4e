"""What the report needs of metrics.json and sweep.json; anything else in them is ignored."""

from __future__ import annotations

from typing import Any, Literal

import pydantic


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        extra="ignore", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )


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


class Trial(_Part):
    """A quantization that was tried: what it costs, and whether it is good."""

    name: str
    verdict: str = ""
    why: str = ""
    size_bytes: int | None = None
    zipped_bytes: int | None = None
    p50_ms: dict[str, float] = {}  # by sequence length
    peak_rss_bytes: int | None = None
    file_metrics: dict[str, float] = {}
    primary_metric: str | None = None
    argmax_agreement: float | None = None
    num_examples: int | None = None


class Sweep(_Part):
    """sweep.json."""

    format_version: Literal[1]
    rows: tuple[Trial, ...] = ()
