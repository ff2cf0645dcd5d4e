"""table.json: our sizes and latencies of the papers' models, beside what they published."""

from __future__ import annotations

from typing import Any, Literal

from tfdistill.benchmark import schema
from tfdistill.report.published import ROWS, SOURCES, Row, Source

FORMAT_VERSION = 1
TITLES = {
    "bert_base": "BERT-base",
    "distilbert_6l_768d": "DistilBERT",
    "tinybert_4l_312d": "TinyBERT4",
    "tinybert_6l_768d": "TinyBERT6",
    "mobilebert": "MobileBERT",
    "mobilebert_without_opt": "MobileBERT without OPT",
    "mobilebert_tiny": "MobileBERT-TINY",
}
REFERENCE = "bert_base"


class Model(schema.Part):
    """A model of the table.

    Attributes:
      model: Its preset.
      parameters: Of the encoder, with its pooler where it has one, without a head.
      flops: Of one sequence, by its length in tokens: matrix products only, without a head.
    """

    model: str
    parameters: int
    flops: dict[int, int]


class File(schema.Part):
    """An exported file."""

    model: str
    quantization: str
    file: str
    sha256: str
    size_bytes: int


class Latency(schema.Part):
    """The latency of a file at a length and a number of threads.

    Attributes:
      n: Inferences behind it.
      repetitions: Fresh processes that they come from.
      p50_ci_ms: 95% interval; so for the others.
      throttled: Whether the device slowed down meanwhile.
      speedup: Over the table's reference in the same quantization; None for the reference itself.
      over_float32: Over the reference in float32; None where it is not in the table, and for the
        reference in float32 itself.
    """

    model: str
    quantization: str
    sequence_length: int
    threads: int
    n: int
    repetitions: int
    p50_ms: float
    p50_ci_ms: schema.Interval
    throttled: bool = False
    speedup: float | None = None
    speedup_ci: schema.Interval | None = None
    over_float32: float | None = None
    over_float32_ci: schema.Interval | None = None


class PapersTable(schema.Part):
    """The whole of table.json.

    Attributes:
      kind: Of what it was measured on: a host, an emulated device, a phone.
      reference: The preset that speed-ups are over.
      scaled_down: Whether toys of the models' kinds stand for them.
      measurements: The benchmark results that the latencies come from, by name in the folder.
      published: The papers' rows, and where they stand.
    """

    format_version: Literal[1] = FORMAT_VERSION
    created: str
    tfdistill_version: str
    kind: schema.Kind
    backend: schema.Backend
    device: schema.Device
    runtime: schema.Runtime
    settings: dict[str, Any]
    reference: str
    scaled_down: bool
    models: tuple[Model, ...]
    files: tuple[File, ...]
    latencies: tuple[Latency, ...]
    measurements: tuple[str, ...]
    sources: tuple[Source, ...] = SOURCES
    published: tuple[Row, ...] = ROWS
    notes: tuple[str, ...] = ()

    @property
    def quantizations(self) -> tuple[str, ...]:
        """The quantizations, in order."""
        return tuple(dict.fromkeys(file.quantization for file in self.files))

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths, ascending."""
        return tuple(sorted({row.sequence_length for row in self.latencies}))

    @property
    def threads(self) -> tuple[int, ...]:
        """The numbers of threads, ascending."""
        return tuple(sorted({row.threads for row in self.latencies}))

    def latency(self, model: str, quantization: str, length: int, threads: int) -> Latency | None:
        """Finds a latency."""
        wanted = (model, quantization, length, threads)
        return next(
            (
                row
                for row in self.latencies
                if (row.model, row.quantization, row.sequence_length, row.threads) == wanted
            ),
            None,
        )


def title(model: str) -> str:
    """Returns how a reader calls a preset."""
    return TITLES.get(model, model)
