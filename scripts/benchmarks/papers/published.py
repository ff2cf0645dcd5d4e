"""What is published about the papers' models: parameters, FLOPs, speed and GLUE, with the device.

Each number is in the paper and table that its source names; what a paper does not report is None.
Latencies and speed-ups are those of the paper's own device and are not comparable with a latency of
another device. GLUE scores are averages over different tasks and sets: only two scores of one
source are comparable.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated

import pydantic

TITLES = {
    "bert_base": "BERT-base",
    "distilbert_6l_768d": "DistilBERT",
    "tinybert_4l_312d": "TinyBERT4",
    "tinybert_6l_768d": "TinyBERT6",
    "mobilebert": "MobileBERT",
    "mobilebert_without_opt": "MobileBERT without OPT",
    "mobilebert_tiny": "MobileBERT-TINY",
}
REFERENCE = "bert_base"  # the preset that speed-ups are over


@dataclasses.dataclass(frozen=True)
class PaperTable:
    """A table of a paper and how its numbers were measured.

    Attributes:
      key: Short name, unique.
      paper: Authors, year and title.
      arxiv: Number of the preprint; empty of what is no paper.
      place: Table or section.
      device: What speed was measured on.
      conditions: What was measured there, and how; `circumstances` in table.json.
      unit: Of `Row.time`; empty where only ratios are published.
      glue: What the GLUE score averages; empty where the table has none.
    """

    key: str
    paper: str
    arxiv: str
    place: str
    device: str
    conditions: Annotated[str, pydantic.Field(alias="circumstances")]
    unit: str = ""
    glue: str = ""


@dataclasses.dataclass(frozen=True)
class PublishedRow:
    """A row of a published table.

    Attributes:
      source: Key of the source.
      model: Preset of this model.
      parameters: As rounded there.
      flops: Of one sequence, as rounded there.
      time: In the source's unit.
      speedup: Over BERT-base on the same device; 1 for BERT-base itself.
      glue: In points, as the source averages.
    """

    source: str
    model: str
    parameters: float | None = None
    flops: float | None = None
    time: float | None = None
    speedup: float | None = None
    glue: float | None = None


_MILLION, _BILLION = 1e6, 1e9
_DISTILBERT = "Sanh et al. 2019, DistilBERT"

SOURCES = (
    PaperTable(
        key="mobilebert",
        paper="Sun et al. 2020, MobileBERT",
        arxiv="2004.02984",
        place="table 4",
        device="Pixel 4",
        conditions="an inference at 128 tokens, TensorFlow Lite, 4 threads",
        unit="ms",
        glue="test sets",
    ),
    PaperTable(
        key="tinybert",
        paper="Jiao et al. 2020, TinyBERT",
        arxiv="1909.10351",
        place="table 1",
        device="NVIDIA K80",
        conditions="inference on one GPU; only ratios are given",
        glue="test sets, without WNLI",
    ),
    PaperTable(
        key="distilbert",
        paper=_DISTILBERT,
        arxiv="1910.01108",
        place="tables 1 and 3",
        device="Xeon E5-2690 v3",
        conditions="all of STS-B's development set, one example at a time",
        unit="s",
        glue="development sets, with WNLI",
    ),
    PaperTable(
        key="distilbert_phone",
        paper=_DISTILBERT,
        arxiv="1910.01108",
        place="section 4.1",
        device="iPhone 7 Plus",
        conditions='question answering without the tokenizer; "71% faster", no time is given',
    ),
    PaperTable(
        key="ai_hub",
        paper="Qualcomm AI Hub Models",
        arxiv="",
        place="perf.yaml of each model at 052dc1f",
        device="Galaxy S24 NPU",
        conditions="an inference at 384 tokens with a masked-language-model head, LiteRT, floats",
        unit="ms",
    ),
)

ROWS = (
    PublishedRow("mobilebert", "bert_base", 109 * _MILLION, 22.5 * _BILLION, 342, 1.0, 78.3),
    PublishedRow("mobilebert", "mobilebert", 25.3 * _MILLION, 5.7 * _BILLION, 62, 342 / 62, 77.7),
    PublishedRow(
        "mobilebert",
        "mobilebert_without_opt",
        25.3 * _MILLION,
        5.7 * _BILLION,
        192,
        342 / 192,
        78.5,
    ),
    PublishedRow(
        "mobilebert", "mobilebert_tiny", 15.1 * _MILLION, 3.1 * _BILLION, 40, 342 / 40, 75.8
    ),
    PublishedRow("tinybert", "bert_base", 109 * _MILLION, 22.5 * _BILLION, None, 1.0, 79.5),
    PublishedRow(
        "tinybert", "distilbert_6l_768d", 67.0 * _MILLION, 11.3 * _BILLION, None, 2.0, 76.8
    ),
    PublishedRow("tinybert", "tinybert_4l_312d", 14.5 * _MILLION, 1.2 * _BILLION, None, 9.4, 77.0),
    PublishedRow("tinybert", "tinybert_6l_768d", 67.0 * _MILLION, 11.3 * _BILLION, None, 2.0, 79.4),
    PublishedRow("tinybert", "mobilebert_tiny", 15.1 * _MILLION, 3.1 * _BILLION, None, None, 77.0),
    PublishedRow("distilbert", "bert_base", 110 * _MILLION, None, 668, 1.0, 79.5),
    PublishedRow("distilbert", "distilbert_6l_768d", 66 * _MILLION, None, 410, 668 / 410, 77.0),
    PublishedRow("distilbert_phone", "bert_base", None, None, None, 1.0, None),
    PublishedRow("distilbert_phone", "distilbert_6l_768d", None, None, None, 1.71, None),
    PublishedRow("ai_hub", "bert_base", None, None, 17.064, 1.0),
    PublishedRow("ai_hub", "distilbert_6l_768d", None, None, 11.743, 17.064 / 11.743),
    PublishedRow("ai_hub", "mobilebert", None, None, 19.163, 17.064 / 19.163),
)


def title(model: str) -> str:
    """Returns the name that the papers use for a preset."""
    return TITLES.get(model, model)


def rows_of(model: str) -> tuple[PublishedRow, ...]:
    """Returns what was published about a model, in the order of the sources."""
    return tuple(row for row in ROWS if row.model == model)


def row_of(source: str, model: str) -> PublishedRow | None:
    """Returns what one source published about a model, or None."""
    return next((row for row in ROWS if (row.source, row.model) == (source, model)), None)
