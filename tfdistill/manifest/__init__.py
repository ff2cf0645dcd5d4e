"""model.json: the contract between export, benchmark and the Android app.

The manifest is next to the model file and has everything that a program needs to feed the file and
to read its answers: the signatures, the tokenizer, the labels, the checksums, and
how far the file was found to agree with the model that it came from.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Annotated, Literal

import pydantic

from tfdistill import errors
from tfdistill.io import files, reading, safe_paths
from tfdistill.manifest.confidence import Confidence
from tfdistill.manifest.parts import ManifestFile, ManifestPart, Sha256
from tfdistill.tasks.encoded import Truncation
from tfdistill.tasks.kind import KindName

FILE_NAME = "model.json"

FileName = Annotated[str, pydantic.StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")]
DeviceKind = Literal["cpu", "gpu", "npu"]  # "npu": of earlier versions, which wrote such files
PositiveInt = Annotated[int, pydantic.Field(gt=0)]


class FileRecord(ManifestPart):
    """A file next to the manifest."""

    file: FileName
    sha256: Sha256
    size_bytes: int = pydantic.Field(ge=0)


class TensorRecord(ManifestPart):
    """One input or output of a signature."""

    dtype: str
    shape: tuple[int, ...]


class SignatureRecord(ManifestPart):
    """One entry point of the file: a fixed sequence length and its tensors by name."""

    sequence_length: int = pydantic.Field(gt=0)
    inputs: dict[str, TensorRecord]
    outputs: dict[str, TensorRecord]


class TokenizerRecord(ManifestPart):
    """The tokenizer: how text becomes ids."""

    kind: Literal["wordpiece", "unigram"] = "wordpiece"
    vocab: FileRecord
    vocab_size: int = pydantic.Field(gt=0)
    lower_case: bool
    max_length: int = pydantic.Field(gt=0)
    truncation: Truncation = "end"  # where a longer text is cut, `tasks.encoded.heads_of`
    prompt: str = ""  # in front of every text, of a pair of the first


class SpanRecord(ManifestPart):
    """The rules by which a question about a text becomes windows, and logits an answer.

    Windows: `[CLS] question [SEP] part of the text [SEP]`, as many tokens as the tokenizer's
    `max_length` allows; the question is cut to `max_question_length` tokens, and each window starts
    `doc_stride` tokens of the text after the one before, until one reaches its end.
    Answers: of every window the `n_best` starts and ends are combined. A candidate is in the
    text, starts where its window shows most around the token (the poorer side counts, the first of
    equal windows), has at most `max_answer_length` tokens, and scores start logit + end logit. The
    best one over all windows is the answer; with `unanswerable` there is none where the least score
    of [CLS] over the windows is more than `null_threshold` above it.
    """

    doc_stride: int = pydantic.Field(gt=0)
    max_question_length: int = pydantic.Field(gt=0)
    max_answer_length: int = pydantic.Field(gt=0)
    n_best: int = pydantic.Field(gt=0)
    unanswerable: bool
    null_threshold: float


class TaskRecord(ManifestPart):
    """The meaning of the answers.

    "token": each word is split into pieces by itself, and the label with the largest logit of its
    first piece is the word's tag. "span": see `SpanRecord`. "embedding": the output is the vector
    of a text; texts are compared by the cosine of their vectors.
    """

    name: str
    kind: KindName
    labels: tuple[str, ...] = ()
    pair: bool = False
    text_column: str | None = None  # of its tables; None where texts are no cells
    pair_column: str | None = None
    primary_metric: str | None = None
    span: SpanRecord | None = None


class Architecture(ManifestPart):
    """The network, for reports: parameters are counted with the head."""

    family: str
    num_layers: int
    hidden_size: int
    num_heads: int
    intermediate_size: int
    vocab_size: int
    num_parameters: int
    # signature name -> floating-point operations (2 x MAC)
    flops: dict[str, int] = pydantic.Field(default_factory=dict)
    # of an attention head where the heads do not share `hidden_size`, as in a pruned student
    head_size: int | None = None


class Parity(ManifestPart):
    """The agreement of the file with the Keras model on real inputs.

    `sqnr_db` is 10 log10(sum model^2 / sum (model - file)^2); None when both are equal bit for bit.
    Of vectors `argmax_agreement` is the share of texts whose nearest other text is the same,
    `min_cosine` the smallest cosine between the vectors of one text, and `neighbour_agreement` the
    share of the ten nearest texts of each that both have; of other files the last two are None.
    `num_scored` counts what the metrics are taken over: texts, questions or pairs, however many
    rows `num_examples` counts; None without metrics. `test_metrics` are those of the file on the
    test set of its run, where it has one; the others are of the examples of the check.
    """

    num_examples: int
    num_scored: int | None = None
    inputs: Literal["real", "random"] = "real"  # random: token ids drawn for want of examples
    output_rms: float | None = None  # of the model: what the error bounds are relative to
    max_abs_error: float
    mean_abs_error: float
    sqnr_db: float | None
    argmax_agreement: float | None  # None for regression
    min_cosine: float | None = None
    neighbour_agreement: float | None = None
    model_metrics: dict[str, float] = pydantic.Field(default_factory=dict)
    file_metrics: dict[str, float] = pydantic.Field(default_factory=dict)
    test_metrics: dict[str, float] = pydantic.Field(default_factory=dict)
    bounds: dict[str, float] = pydantic.Field(default_factory=dict)

    @property
    def answer_word(self) -> str:
        """The word for what `argmax_agreement` counts: answers, or of vectors the nearest texts."""
        return "answer" if self.min_cosine is None else "nearest text"


class Calibration(ManifestPart):
    """The examples that the ranges of a static quantization were measured on."""

    num_examples: int = pydantic.Field(gt=0)
    seed: int  # of the draw
    source: Literal["given", "random"] = "given"  # random: token ids drawn for want of examples


class FileVariant(ManifestPart):
    """Another file of the same model, for another kind of processor.

    It has its own numbers and answers; vocabulary, labels and task are the manifest's.
    """

    model: FileRecord
    quantization: str
    least_runtime: str | None = None
    quantized_layers: dict[str, str] = pydantic.Field(default_factory=dict)
    calibration: Calibration | None = None
    confidence: Confidence | None = None
    signatures: dict[str, SignatureRecord]
    golden_file: FileRecord | None = None
    parity: Parity | None


class Manifest(ManifestFile):
    """The whole of model.json.

    `device` is what the file was exported for, `variants` are files of the same model for others.
    `least_runtime` is the oldest one that runs the file: one of `tflite.runtimes.RUNTIMES`.
    `text_lengths` counts the development texts by tokens, cut to the longest signature: what the
    expected time of a text is the mean over (`lengths.expected_time`).
    """

    name: str
    created: str  # ISO 8601, UTC
    tfdistill_version: str
    converter: str  # "tensorflow 2.20.0"
    model: FileRecord
    quantization: str
    least_runtime: str | None = None
    # pattern of layer names -> their own quantization
    quantized_layers: dict[str, str] = pydantic.Field(default_factory=dict)
    device: DeviceKind = "cpu"
    calibration: Calibration | None = None
    confidence: Confidence | None = None
    signatures: dict[str, SignatureRecord]
    softmax: bool
    tokenizer: TokenizerRecord | None
    task: TaskRecord | None
    labels_file: FileRecord | None = None
    golden_file: FileRecord | None = None
    architecture: Architecture
    text_lengths: dict[PositiveInt, PositiveInt] | None = None
    parity: Parity | None
    variants: dict[DeviceKind, FileVariant] = pydantic.Field(default_factory=dict)

    @pydantic.model_validator(mode="after")
    def _labels_differ(self) -> Manifest:
        labels = () if self.task is None else self.task.labels
        if len(set(labels)) < len(labels):
            raise ValueError(f"task.labels: expected different names, received {list(labels)}")
        return self

    @pydantic.model_validator(mode="after")
    def _variants_are_of_their_target(self) -> Manifest:
        owners = {self.model.file: self.device}
        for device, variant in self.variants.items():
            owner = owners.setdefault(variant.model.file, device)
            if device == self.device or owner != device:
                raise ValueError(f"variant {device}: {variant.model.file} is the file for {owner}")
        return self

    @pydantic.model_validator(mode="after")
    def _confidence_is_of_its_file(self) -> Manifest:
        for file in (self, *self.variants.values()):
            record, digest = file.confidence, file.model.sha256
            if record is not None and record.sha256 != record.digest_with(digest):
                raise ValueError(
                    f"confidence of {file.model.file}: its values are not those that were fitted "
                    "on this file. Export again."
                )
        return self

    @property
    def temperature(self) -> float:
        """The temperature that a reader divides the logits by."""
        return 1.0 if self.confidence is None else self.confidence.temperature

    def for_device(self, device: str) -> Manifest:
        """Returns the manifest of the file for a kind of processor, as if it were the only one."""
        if device == self.device:
            return self.model_copy(update={"variants": {}})
        for name, file in self.variants.items():
            if name == device:
                changes = {key: getattr(file, key) for key in FileVariant.model_fields}
                changes |= {"device": device, "variants": {}, "name": f"{self.name}-{device}"}
                return self.model_copy(update=changes)
        raise errors.ManifestError(
            f"variant of {self.name}",
            f"one of {', '.join(self.devices)}",
            device,
            "`tfdistill export --for` writes several.",
        )

    @property
    def devices(self) -> tuple[str, ...]:
        """The kinds of processors that it has files for, its own first."""
        return (self.device, *self.variants)

    def each_file(self) -> Iterator[Manifest]:
        """Yields the manifest of each file, its own first."""
        for device in self.devices:
            yield self.for_device(device)


def write_manifest(
    manifest: Manifest, folder: files.Path, *, file_name: str = FILE_NAME
) -> pathlib.Path:
    """Writes `folder`/model.json (or another name) atomically and returns its path."""
    path = pathlib.Path(folder) / file_name
    files.atomic_write_text(path, json_text(manifest))
    return path


def json_text(manifest: Manifest) -> str:
    """The content of a model.json, with its checksum."""
    return files.json_text(manifest.model_dump(mode="json"))


def manifest_path(model_file: files.Path) -> pathlib.Path:
    """Returns where the manifest of a model file is, or belongs.

    It is model.json in the same folder, unless that one is about other files: a second model in
    a folder has its manifest in `<stem>.json`. Neither file need exist.
    """
    model_file = pathlib.Path(model_file)
    usual = model_file.with_name(FILE_NAME)
    card_file = model_file.with_suffix(".json")
    if not usual.is_file():
        return usual
    try:
        described = read_manifest(usual, verify=False)
    except errors.ManifestError:
        return usual
    about = {file.model.file for file in described.each_file()}
    return usual if model_file.name in about else card_file


def read_manifest(path: files.Path, *, verify: bool = True) -> Manifest:
    """Reads a manifest and checks that the files next to it are the ones that it describes.

    `path` is model.json, the folder that holds it, or a .tflite file that it is about, whose part
    alone is then returned. `verify` says whether the files are read to compare their checksums. One
    that is missing, malformed, of an unknown version or about another file is refused.
    """
    path = pathlib.Path(path)
    about = path.name if path.suffix == ".tflite" else None
    if path.is_dir():
        path = path / FILE_NAME
    elif about is not None:
        path = manifest_path(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise errors.ManifestError(
            "manifest", path, "no such file", "`tfdistill export` writes it with the model."
        ) from error
    manifest = reading.read_model(
        content,
        Manifest,
        f"manifest {path}",
        error=errors.ManifestError,
        expected="a valid model.json",
    )
    if about is not None:
        cards = {file.model.file: file for file in manifest.each_file()}
        if about not in cards:
            raise errors.ManifestError(f"manifest {path}", f"one about {about}", ", ".join(cards))
        manifest = cards[about]
    if verify:
        for file in manifest.each_file():
            _verify(file, path.parent)
    return manifest


def _verify(manifest: Manifest, folder: pathlib.Path) -> None:
    records = [manifest.model, manifest.labels_file, manifest.golden_file]
    if manifest.tokenizer is not None:
        records.append(manifest.tokenizer.vocab)
    for record in records:
        if record is None:
            continue
        file = safe_paths.inside(folder, record.file)
        received = files.sha256_of(file) if file.is_file() else "no such file"
        if received != record.sha256:
            raise errors.ManifestError(
                f"{file.name}",
                f"sha256 {record.sha256}",
                received,
                "The file is not the one that was exported; export again.",
            )
    labels = () if manifest.task is None else manifest.task.labels
    if manifest.labels_file is not None and labels:
        path = safe_paths.inside(folder, manifest.labels_file.file)
        written = reading.read_text(path, error=errors.ManifestError)
        if written != "".join(f"{label}\n" for label in labels):
            raise errors.ManifestError(
                f"{path.name}",
                f"a line for each label of the manifest, {errors.shortened(', '.join(labels))}",
                errors.shortened(", ".join(written.splitlines())),
                "A wrong order gives wrong answers; export again.",
            )
