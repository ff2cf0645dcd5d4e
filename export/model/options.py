"""The keywords of `to_tflite`, `auto` and `sweep`, declared once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from tfdistill.data.model_answers import ModelAnswers
from tfdistill.data.task_data import TaskData
from tfdistill.io import files
from tfdistill.tasks import Examples, TaskSpec
from tfdistill.tokenization.tokenizer import Tokenizer


class ExportOptions(TypedDict, total=False):
    """Options of an export.

    `auto` chooses `quantize` and `layers` itself and writes no `variants`; `sweep` tries each
    `quantize`, and takes neither `variants` nor a `name`.

    Attributes:
      data: The data of `tfdistill.load_data`, which gives `task`, `tokenizer`,
        `lengths`, `calibrate_on` (its training set), `check_on` and `texts` (its development set)
        where they are not named.
      quantize: Name of a quantization, see `export.quantizations`, or in short int8 or int4, as
        wherever one is named; default dynamic_wi8_afp32.
      device: What runs the file: "cpu" (default) or "gpu"; see `export.conversion.device_form`. A
        file for a GPU is checked on the CPU: only the phone compares the GPU's answers.
      variants: Further files of the same model, next to this one and in its manifest: device ->
        quantization.
      layers: Layers that take another quantization: pattern of layer names, as for a shell
        ("layer_0_*"), -> name. Of several patterns that fit a layer the first counts.
      lengths: Sequence lengths in tokens; they share the weights. Default with `data` those that
        minimize the expected time of a development text (`manifest.lengths`), else 32, 64 and
        128, as far as the model has positions.
      softmax: Whether the file gives probabilities instead of logits, at the temperature that fits
        the labels of `check_on`; default False.
      check_on: Real examples to check on: `Batches`, `EncodedExamples` or a dataset of batches of
        int32 (rows, tokens) features by name, with labels for the task's metric. None (default)
        draws random ids, and the manifest records it.
      promise_on: Labelled examples that chose nothing, neither weights nor epoch, number format or
        temperature, in the forms of `check_on`: the manifest then says above which confidence at
        most 1, 2, 5 and 10% of the answers are wrong (see `manifest.confidence`). Default those of
        `data`, where it names a file of them. Where tags name entities, of the entities.
      promise_answers: A large model's answers to the texts of `promise_on`: the manifest then also
        says above which confidence at most so large a share of all texts gets another answer than
        its own. Default those of `data`, where it declares them for its own promise texts.
      min_recall: With `promise_on`, where tags name entities and O: the share of the entities that
        a mask shall find, between 0 and 1 (see `manifest.confidence.Recall`). Default that of
        `data`, else no threshold for masks.
      calibrate_on: Real examples, without labels or with them, in the same forms, or a function
        that returns a generator of features by name: what the ranges of a static quantization are
        measured on, and with `promise_on` what tells texts of another kind, which are not sure.
        Never those of `check_on`.
      num_calibration: Examples to draw from `calibrate_on`, without replacement; default 200.
      seed: Seed of that draw; default 1.
      texts: The texts of `check_on` in its order, for golden.json; they need `tokenizer`.
      task: The task, for metrics and labels.
      tokenizer: The tokenizer of the texts, or the file of its vocabulary, see
        `tfdistill.tokenization.reading.read_tokenizer`.
      labels: Label names in the order of the logits; default the task's.
      bounds: Bounds to change, by name (see `quantize.Bounds`), for example {"sqnr_db": 15}.
      metadata: Whether the file carries what MediaPipe needs to run it from text (see
        `export.file.metadata`): one length, softmax inside, a lower-case vocabulary, labels. None
        (default): where it can.
      allow_weak: Whether a model may be exported that answers near chance; default False: where
        `check_on` has labels of `task`, its metric must be a tenth of the way from chance to a
        perfect score.
      overwrite: Whether existing files may be replaced; default False.
      name: Name in the manifest; default the file's stem.
      timeout_s: Seconds that the converter may take; default 1800.

    Examples:
      >>> options: export.ExportOptions = {"data": data, "lengths": (8, 16), "softmax": True}
      >>> card = export.to_tflite(student, "both/model.tflite", quantize="int4", **options)
      >>> list(card.signatures)
      ['len8', 'len16']
    """

    data: TaskData | None
    quantize: str
    device: str
    variants: Mapping[str, str] | None
    layers: Mapping[str, str] | None
    lengths: Sequence[int] | None
    softmax: bool
    check_on: Any
    promise_on: Any
    promise_answers: ModelAnswers | None
    min_recall: float | None
    calibrate_on: Any
    num_calibration: int
    seed: int
    texts: Examples | None
    task: TaskSpec | None
    tokenizer: Tokenizer | files.Path | None
    labels: Sequence[str] | None
    bounds: Mapping[str, float] | None
    metadata: bool | None
    allow_weak: bool
    overwrite: bool
    name: str | None
    timeout_s: float
