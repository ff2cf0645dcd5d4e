"""The results that runs and sweeps leave as JSON: metrics.json, sweep.json, records of steps.

Whoever writes such a file and whoever reads it does so through these classes. An unknown key is
ignored; a key that is absent has its default.
"""

from __future__ import annotations

import logging
import math
import pathlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import pydantic

from tfdistill import errors
from tfdistill.io import files, reading

_log = logging.getLogger(__name__)

FORMAT_VERSION = 1
METRICS_FILE, SWEEP_FILE = "metrics.json", "sweep.json"
QUICKSTART_FILE = "quickstart.json"
UNCUT = "its whole vocabulary, for comparison"  # the note of a frozen teacher before it was cut
UNDERTRAINED = (
    "The teacher knew more before it was fine-tuned: train it for more steps or at another rate "
    "(teacher.finetune.min_steps, teacher.finetune.learning_rate)."
)
WORDS_BETTER = (
    "Give more rows of each label, or a --teacher that is a sentence encoder for such texts; from "
    "40 rows on, --finetune always trains the encoder."
)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


# A figure of a model: None where it is not a finite number.
Metric = Annotated[float | None, pydantic.BeforeValidator(_finite)]


class ResultPart(pydantic.BaseModel):
    """A part of a result file; not changed later."""

    model_config = pydantic.ConfigDict(
        extra="ignore", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )


class FitResult(ResultPart):
    """The result of a fit: result.json of a stage.

    Attributes:
      steps: Batches trained on, over all sessions.
      seconds: Time spent, over all sessions.
      best_metric: The best development metric, or None where none was watched.
      best_epoch: Its epoch, 1-based, or None.
    """

    steps: int
    seconds: float
    best_metric: Metric = None
    best_epoch: int | None = None


class PretrainedTeacher(ResultPart):
    """teacher/pretrained.json: metrics on held-out text, and what the training took."""

    metrics: Mapping[str, Metric]
    train_seconds: float
    steps: int


class PretrainingCorpus(ResultPart):
    """The examples and tokens of a pre-training's corpus."""

    num_examples: int
    num_tokens: int


class PretrainingResult(ResultPart):
    """metrics.json of `tfdistill pretrain`: metrics on held-out text, and what it took."""

    format_version: Literal[1] = 1
    steps: int
    seconds: float
    corpus: PretrainingCorpus
    num_parameters: int
    devices: tuple[str, ...]
    held_out: Mapping[str, Metric]
    model_folder: str


class RunTask(ResultPart):
    """The task of a run."""

    name: str = "task"
    kind: str = "classification"
    labels: tuple[str, ...] = ()
    primary_metric: str = "accuracy"


class HistoryFile(ResultPart):
    """The history of one stage: its path, relative to the run folder, and its checksum."""

    stage: str
    csv: str
    sha256: str | None = None

    @classmethod
    def of(cls, root: files.Path, stage: str, csv: str) -> HistoryFile:
        """Describes a file that is written."""
        return cls(stage=stage, csv=csv, sha256=files.sha256_of(pathlib.Path(root) / csv))


class ModelResult(ResultPart):
    """One trained model: a teacher, or a student of one variant and seed."""

    name: str  # "teacher", or the variant
    role: Literal["teacher", "student"]  # which of the two
    seed: int | None = None  # of initialisation and order
    stages: tuple[str, ...] = ()  # the stages that it went through
    # on the development set; on held-out text for a masked language model
    metrics: Mapping[str, Metric] = {}
    num_examples: int | None = None  # development examples
    parameters: int | None = None  # number of weights
    flops: dict[str, int] = {}  # of one example, by sequence length
    architecture: dict[str, Any] = {}  # family and sizes
    train_seconds: float | None = None  # of all stages
    folder: str | None = None  # the model's folder, relative to the run folder
    history: tuple[HistoryFile, ...] = ()  # one file a stage, or a part of a stage


class BaselineResult(ResultPart):
    """A linear model, or an answer that ignores its input, on the run's data."""

    name: str  # see `run.baselines`
    note: str = ""  # what it is, where the name leaves it open
    metrics: Mapping[str, Metric]  # on the development set
    seconds: float | None = None  # what it took
    parameters: int | None = None  # number of weights; words and pairs of words do not count
    # median time of one answer in Python, of words from the text on, of vectors from the tokens on
    latency_ms: float | None = None
    folder: str | None = None  # where its answers are kept, relative to the run folder

    @property
    def is_alternative(self) -> bool:
        """Whether it could replace a student: an uncut teacher could not."""
        return self.note != UNCUT


def part_of(teacher: int | None, student: int | None) -> tuple[int, int] | None:
    """Examples that a teacher was scored on and those of its student, where they are fewer."""
    if teacher is None or student is None or teacher >= student:
        return None
    return teacher, student


class Baselines(ResultPart):
    """results/baselines.json of a run."""

    rows: tuple[BaselineResult, ...]


class SavedModel(ModelResult):
    """A model as a single fine-tuning or distillation leaves it, and its folder in the run's."""

    model_folder: str
    primary_metric: str = ""  # the task's; "" where there is none
    baselines: tuple[BaselineResult, ...] = ()  # what it is compared with
    teacher_metrics: Mapping[str, Metric] = {}  # of its teacher, where it is a student of one
    teacher_examples: int | None = None  # development examples that the teacher was scored on


class ExportedFile(ResultPart):
    """An exported file: its name, the model folder that it came from, its manifest."""

    name: str
    of: str
    manifest: str


class CutTexts(ResultPart):
    """What a cut vocabulary does to texts that did not choose it."""

    texts: str  # the set: "development" or "test"
    language: str = ""  # where the data name it
    num_texts: int
    num_changed: int  # of these texts: cut into other pieces than before
    num_pieces: int
    num_pieces_before: int
    num_unknown: int  # of these pieces
    num_unknown_before: int

    @property
    def summary(self) -> str:
        """The shares as a phrase."""
        return (
            f"{self.num_changed / self.num_texts:.1%} of {self.num_texts} texts cut otherwise, "
            f"{self.num_pieces / max(self.num_pieces_before, 1):.3f} times as many pieces, "
            f"{self.num_unknown / max(self.num_pieces, 1):.2%} of them unknown "
            f"(before {self.num_unknown_before / max(self.num_pieces_before, 1):.2%})"
        )


class VocabularyCut(ResultPart):
    """data/cut/vocabulary.json of a run: the pieces that its models keep of a vocabulary."""

    num_pieces: int
    num_pieces_before: int
    words_of: str = ""  # the languages whose words are kept besides the texts'
    rows: tuple[CutTexts, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The whole for a terminal."""
        beside = f", for words of {self.words_of}" if self.words_of else ", for the training texts"
        pieces = f"vocabulary: {self.num_pieces:,} of {self.num_pieces_before:,} pieces{beside}"
        named = [(" ".join(filter(None, [row.texts, row.language])), row) for row in self.rows]
        return [pieces, *(f"  {name}: {row.summary}" for name, row in named)]


class RunMetrics(ResultPart):
    """metrics.json of a run: of the development set, but for `test_metrics` of each role."""

    format_version: Literal[1]
    recipe: str
    created: str | None = None
    seed: int | None = None
    task: RunTask = RunTask()
    synthetic_data: bool = False
    models: tuple[ModelResult, ...] = ()
    baselines: tuple[BaselineResult, ...] = ()
    chosen: str | None = None
    exports: tuple[ExportedFile, ...] = ()
    vocabulary: VocabularyCut | None = None  # where it was cut
    num_unlabelled: int | None = None  # texts without labels that a student was distilled from
    test_metrics: dict[str, dict[str, float | None]] = {}
    test_counts: dict[str, dict[str, int]] = {}  # of entities by role, see `tags.entity_counts`
    caveats: tuple[str, ...] = ()  # what makes its figures doubtful, a sentence each


class QuickstartRecord(ResultPart):
    """quickstart.json of a run: what a quickstart was to cost, and what it took."""

    format_version: Literal[1] = FORMAT_VERSION
    estimated_seconds: float  # what it was to take, before it began
    seconds: float | None = None  # what it took, over all sessions that were not killed
    latency_ms: float | None = None  # the budget: of an inference at the longest length
    device: Literal["host", "adb"] = "host"  # what that latency is of
    size_mb: float | None = None  # the budget: the file in units of 1,000,000 bytes, or None
    max_minutes: float | None = None  # the budget: of the whole, or None
    similar_together: bool = False  # whether no two sets have similar texts


class Trial(ResultPart):
    """The result of one quantization of a model.

    Figures are None (or empty) where there is no file to take them from.
    """

    name: str
    layers: dict[str, str] = {}  # pattern of layer names -> the quantization of those layers
    # "good"; "beyond bounds", converted, but its answers differ too far; "impossible", not
    # available for this model and these arguments; "failed", when it was converted or run
    verdict: Literal["good", "beyond bounds", "impossible", "failed"]
    why: str = ""  # the error where it is not good, otherwise ""
    size_bytes: int | None = None
    zipped_bytes: int | None = None  # its size after deflate, as in an APK or a download
    # sequence length -> median latency on this host, where it was measured
    p50_ms: dict[int, float] = {}
    busy_lengths: tuple[int, ...] = ()  # those whose latency other programs disturbed
    # largest resident memory of a process that runs the file, where measured
    peak_rss_bytes: int | None = None
    model_metrics: dict[str, Metric] = {}  # the model's metrics on the examples that were checked
    file_metrics: dict[str, Metric] = {}  # the file's
    primary_metric: str | None = None  # the name of the metric that counts, or None without a task
    argmax_agreement: float | None = None  # share of equal decisions, None where nothing is decided
    # signal to quantization noise; None where the answers are equal bit for bit
    sqnr_db: float | None = None
    real_inputs: bool = True  # whether the examples were real, not drawn
    num_examples: int | None = None  # examples that were checked
    partitions: int | None = None  # XNNPACK's chains of operators, the most of any signature

    @pydantic.computed_field
    @property
    def metric_drop(self) -> float | None:
        """The primary metric of the model minus the file's; None without labels."""
        model = self.model_metrics.get(self.primary_metric or "")
        file = self.file_metrics.get(self.primary_metric or "")
        return None if model is None or file is None else model - file


class SweepResults(ResultPart):
    """sweep.json: the quantizations that were tried on one model, and what was asked for."""

    format_version: Literal[1]
    lengths: tuple[int, ...] = ()
    threads: int | None = None
    request: dict[str, Any] = {}
    rows: tuple[Trial, ...] = ()


ResultType = TypeVar("ResultType", bound=ResultPart)


def read_result_file(path: files.Path, kind: type[ResultType]) -> ResultType:
    """Reads a JSON result; one that is missing, malformed or of another format is a DataError."""
    expected = f"a valid {pathlib.Path(path).name}"
    if "format_version" in kind.model_fields:
        expected += f" of format_version {FORMAT_VERSION}"
    try:
        content = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise errors.DataError(f"{path}", expected, error.strerror or error) from error
    return reading.read_model(content, kind, f"{path}", error=errors.DataError, expected=expected)


def read_finished(path: files.Path, kind: type[ResultType]) -> ResultType | None:
    """Reads the result of a step; None where the step is to be done, or done again.

    A step writes its result last, so a damaged one means no more than that it has to be written
    again; a message says so.
    """
    if not pathlib.Path(path).exists():
        return None
    try:
        return read_result_file(path, kind)
    except errors.DataError as error:
        _log.info(f"{error} This step is done again.")
        return None


def write_result_file(result: ResultPart, path: files.Path) -> None:
    """Writes a result as JSON, whole or not at all."""
    files.atomic_write_json(path, result.model_dump(mode="json"))
