"""The request for an export: one value from `to_tflite` to the last trial of a sweep."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tf_keras as keras

from tfdistill import config, files, models
from tfdistill.data.task_data import TaskData
from tfdistill.tasks import Examples, TaskSpec

from . import inputs


@dataclasses.dataclass(frozen=True, eq=False)
class ExportRequest:
    """The arguments of `to_tflite`.

    Attributes:
      model: A classifier or regressor of `tfdistill.models`.
      path: The .tflite file to write. model.json, golden.json and, where given, vocab.txt and
        labels.txt are written next to it (see `bundle.paths_of`).
      data: The data of `tfdistill.load_data`, which gives `task`, `vocab_file`, `lower_case`,
        `lengths`, `calibrate_on` (its training set), `check_on` and `texts` (its development set)
        where they are not named.
      quantize: Name of a quantization; see `export.quantizations`.
      device: What runs the file: "cpu", "gpu", "npu", or "npu-rows" for compilers without lookups;
        see `export.conversion.device_form`. For all but the first `tfdistill.accelerators` holds
        the answers against the CPU's, where what it needs is installed.
      variants: Further files of the same model, next to this one and in its manifest: device ->
        quantization.
      layers: Layers that take another quantization: pattern of layer names, as for a shell
        ("layer_0_*"), -> name. Of several patterns that fit a layer the first counts.
      lengths: Sequence lengths; they share the weights. Default 32, 64 and 128, as far as the model
        has positions.
      softmax: Whether the file gives probabilities instead of logits.
      check_on: Real examples to check on: `Batches`, `EncodedExamples` or a dataset of batches,
        with labels for the task's metric. None draws random ids, and the manifest records it.
      calibrate_on: Real examples, without labels or with them, in the same forms: what the ranges
        of a static quantization are measured on. Never those of `check_on`.
      num_calibration: Examples to draw from `calibrate_on`, without replacement.
      seed: Seed of that draw.
      texts: The texts of `check_on` in its order, for golden.json; they need `vocab_file`.
      task: The task, for metrics and labels.
      vocab_file: The vocabulary that text is tokenized with.
      lower_case: Whether text is lower-cased.
      labels: Label names in the order of the logits; default the task's.
      bounds: Bounds to change, by name (see `quantize.Bounds`), for example {"sqnr_db": 15}.
      metadata: Whether the file carries what MediaPipe needs to run it from text (see
        `export.file.metadata`): one length, softmax inside, a lower-case vocabulary, labels. None:
        where it can.
      answers: Whether answers.safetensors is written next to the file: what model and file answer
        to labelled `texts`, for a report.
      allow_weak: Whether a model may be exported that answers near chance: where `check_on` has
        labels of `task`, its metric must be a tenth of the way from chance to a perfect score.
      overwrite: Whether existing files may be replaced.
      name: Name in the manifest; default the file's stem.
      timeout_s: Seconds that the converter may take.
    """

    model: keras.Model
    path: files.Path
    _: dataclasses.KW_ONLY
    data: dataclasses.InitVar[TaskData | None] = None
    quantize: str = "dynamic_wi8_afp32"
    device: str = "cpu"
    variants: Mapping[str, str] = dataclasses.field(default_factory=dict)
    layers: Mapping[str, str] | None = None
    lengths: Sequence[int] | None = None
    softmax: bool = False
    check_on: Any = None
    calibrate_on: Any = None
    num_calibration: int = 200
    seed: int = 0
    texts: Examples | None = None
    task: TaskSpec | None = None
    vocab_file: files.Path | None = None
    lower_case: bool = True
    labels: Sequence[str] | None = None
    bounds: Mapping[str, float] | None = None
    metadata: bool | None = None
    answers: bool = False
    allow_weak: bool = False
    overwrite: bool = False
    name: str | None = None
    timeout_s: float = 1800

    def __post_init__(self, data: TaskData | None) -> None:
        """Takes from the data what is not named."""
        if data is None:
            return
        unnamed = {
            name: value for name, value in self._of_data(data) if getattr(self, name) is None
        }
        if "vocab_file" in unnamed:
            unnamed["lower_case"] = data.tokenizer.lower_case
        for name, value in unnamed.items():
            object.__setattr__(self, name, value)

    def _of_data(self, data: TaskData) -> Iterator[tuple[str, Any]]:
        """Yields the arguments that follow from a task's data."""
        lengths = self.lengths
        if lengths is None:
            positions = models.config_of(self.model).max_positions
            lengths = config.usual_lengths(data.settings.max_length, positions=positions)
        yield "lengths", lengths
        yield "task", data.task
        yield "labels", data.task.labels
        yield "vocab_file", data.vocab_file
        yield "calibrate_on", data.train.encoded
        if self.check_on is not None:
            return
        check_on, longest = data.dev.encoded, max(lengths)
        # The file will see such texts cut, too; and its longest signature is the window of a
        # question.
        windows = data.task.traits.decodes_spans and longest != data.settings.max_length
        if check_on.lengths.max() > longest or windows:
            check_on = data.encode(data.dev_examples, longest)
        yield "check_on", check_on
        yield "texts", data.dev_examples

    @property
    def chosen_lengths(self) -> Sequence[int]:
        """The lengths that are named, or else those of the default.

        Raises:
          ShapeError: If the model is not of `tfdistill.models`.
        """
        if self.lengths is not None:
            return self.lengths
        return config.usual_lengths(positions=models.config_of(self.model).max_positions)

    @property
    def manifest_name(self) -> str:
        """The name in the manifest."""
        return self.name or pathlib.Path(self.path).stem

    def replace(self, **changes: Any) -> ExportRequest:
        """Returns a copy with some arguments changed."""
        return dataclasses.replace(self, **changes)

    def collected(self) -> ExportRequest:
        """Returns a copy with its examples in memory: an iterator serves one export only.

        Raises:
          DataError: If there is none, or the batches hold no ids and mask.
        """
        given = {"check_on": self.check_on, "calibrate_on": self.calibrate_on}
        return self.replace(
            **{
                name: inputs.collect(value, name)
                for name, value in given.items()
                if value is not None
            }
        )
