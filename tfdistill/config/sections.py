"""The sections of a recipe, as validated values."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic

from tfdistill import errors
from tfdistill.config import short_forms
from tfdistill.config.answers import AnswersConfig, ModelAnswersConfig
from tfdistill.config.schema import Section, Seed, Tokens, Width, described, each_once
from tfdistill.config.short_forms import Choice, Quantize, is_checkpoint, is_pruned, parse_pruned
from tfdistill.config.training import FineTuneConfig, PathText, TeacherPretrainConfig
from tfdistill.config.vocabulary import CutConfig
from tfdistill.tasks.encoded import Truncation
from tfdistill.tasks.kind import KINDS, KindName

Baselines = Literal["none", "cheap", "all"]
BUILT_IN_DATA = "assistant"
"""The name of the synthetic data that comes with the package."""
STARTS = ("auto", "pruned", "teacher", "layers", "random")
"""How a student may start, other than from a checkpoint."""
_TRAINED = re.compile(r"train:[0-9]{1,7}")  # a vocabulary of so many tokens
SHORTHANDS = {
    "teacher": "source",
    "student": "preset",
}  # section -> the option that a plain string gives


def spelled_out(values: Any) -> Any:
    """Writes ``teacher: SOURCE`` and ``student: PRESET`` as sections."""
    if not isinstance(values, Mapping):
        return values
    sections = {
        section: {key: values[section]}
        for section, key in SHORTHANDS.items()
        if isinstance(values.get(section), str)
    }
    return {**values, **sections}


_EachOnce = pydantic.AfterValidator(each_once)


class AugmentConfig(Section):
    """TinyBERT's augmentation, once before the first stage that uses it; `copies` as published."""

    masked_lm: PathText | None = described(
        None, "Hugging Face folder or hub id with a masked-LM head and a vocab.txt"
    )  # None: the teacher
    vectors: PathText | None = described(
        None,
        "word vectors as text (GloVe, word2vec) for words of several pieces; without them such "
        "words stay",
    )
    copies: int | None = described(None, "augmented copies of each text", gt=0, le=1000)
    probability: float = described(0.4, "probability that a word is replaced", gt=0, le=1)
    candidates: int = described(15, "candidate words for each replacement", gt=0, le=1000)
    seed: Seed = 0


class DataConfig(Section):
    """The task and its files.

    `task` is a built-in name (GLUE's, imdb, ner, squad, squad_v2), "assistant" (the embedded
    synthetic commands), any name of your own together with `kind` or the columns, or null: then
    the students go through stages on plain text only, and no classifier is trained.
    """

    task: str | None = described(
        ..., "GLUE task, imdb, ner, squad, squad_v2, assistant, or a name of your own"
    )
    dir: PathText | None = described(None, "folder with the task's files")
    file: PathText | None = described(
        None,
        "one labelled file instead of a folder, whose columns and kind are recognised, and whose "
        "development and test sets are split off",
    )
    split_seed: Seed = 1  # of that split
    text_column: str | None = described(None, "column of the text, for a task of your own")
    pair_column: str | None = described(None, "column of the second text, if there is one")
    label_column: str | None = described(None, "column of the label, for a task of your own")
    labels: Annotated[tuple[str, ...], _EachOnce] | None = None
    kind: KindName | None = described(
        None, "kind of a task of your own; without it, classification", examples=list(KINDS)
    )
    layout: Literal["table", "folders", "conll", "squad"] | None = None
    metrics: Annotated[tuple[str, ...], _EachOnce] | None = (
        None  # the first one chooses a checkpoint
    )
    label_separator: str = described(",", "separator between labels in a cell", min_length=1)
    class_weights: Literal["balanced"] | None = described(
        None,
        "weights of classes in losses on gold labels: balanced makes rare classes count as much as "
        "frequent ones",
    )
    cross_fitted: bool = False  # dev_split train: each row answered by a head fitted without it
    encoding: str = "utf-8"
    offsets: Literal["characters", "utf-16", "utf-8"] | None = described(
        None,
        "unit of the offsets of entities (default: characters, refused where another fits better)",
    )
    dev_split: str | None = None
    unanswerable: bool = False  # span: whether a text may hold no answer
    null_threshold: float = 0.0
    max_answer_length: int = pydantic.Field(default=30, gt=0)
    doc_stride: int = described(
        128, "tokens from one window of a long text to the next, for questions", gt=0
    )
    max_question_length: int = pydantic.Field(default=64, gt=0)
    max_length: Tokens = described(
        128, "longest text in tokens: longer ones are cut, or split into windows"
    )
    truncation: Truncation | None = described(
        None,
        "where longer texts are cut: at the end, or in the middle, which keeps their beginning and "
        "their end (default: as the model's folder says, else end)",
    )
    prompt: str | None = described(
        None,
        "prefix of every encoded text, such as 'query: ' (default: of a "
        "sentence encoder as its folder says, else nothing)",
        max_length=1000,
    )
    vocab: PathText = described(
        "teacher", "vocabulary: teacher (that of the model), a vocab.txt, or train:SIZE"
    )
    cut: CutConfig | None = None  # None: the whole vocabulary
    lower_case: bool | None = None  # None: as the teacher's tokenizer
    train_limit: int | None = described(None, "only the first N training examples", gt=0)
    dev_limit: int | None = described(None, "only the first N examples", gt=0)
    unlabelled: tuple[PathText, ...] = described(
        (),
        "texts without labels, which the teacher answers: plain text, one a line, or tables with "
        "the text columns of the task; of words records whose tags are not read",
    )
    promise_on: PathText | None = described(
        None,
        "held-out labelled texts, in a file like the task's, from which the file's confidence "
        "thresholds are set",
    )
    other: PathText | None = described(
        None,
        "texts of no label, plain or a table: half of them raise the thresholds until one in 20 of "
        "them is sure, half measure the share; fewer than 45 raise nothing",
    )
    model_answers: ModelAnswersConfig | None = None
    min_recall: float | None = described(
        None,
        "share of the entities that the exported file's mask shall find, such as 0.99: a threshold "
        "on words is promised on the held-out texts",
        gt=0,
        lt=1,
    )
    augment: AugmentConfig | None = None

    @pydantic.field_validator("vocab")
    @classmethod
    def _trains_so_many_tokens(cls, vocab: str) -> str:
        if vocab.startswith("train:") and not _TRAINED.fullmatch(vocab):
            raise ValueError(f"expected train:SIZE, such as train:8000, received {vocab!r}")
        return vocab

    @pydantic.field_validator("encoding")
    @classmethod
    def _is_an_encoding_of_text(cls, encoding: str) -> str:
        try:
            io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        except (LookupError, ValueError) as error:
            raise ValueError(
                f"expected an encoding of text that Python has, received {encoding!r}"
            ) from error
        return encoding

    @pydantic.model_validator(mode="after")
    def _reads_texts_of_a_task(self) -> DataConfig:
        for name in ("truncation", "prompt"):
            value = getattr(self, name)
            if self.task is None and value is not None:
                raise ValueError(errors.explain(name, "none without a task", repr(value)))
        return self

    @pydantic.model_validator(mode="after")
    def _says_nothing_of_a_folder_beside_a_file(self) -> DataConfig:
        fields = type(self).model_fields
        unread = [
            name
            for name in ("dir", "labels", "layout", "encoding", "dev_split", "model_answers")
            if self.file is not None and getattr(self, name) != fields[name].default
        ]
        if unread:
            remedy = "A file gives all of that itself; leave it out, or name a folder in dir"
            raise ValueError(
                errors.explain(unread[0], "nothing beside file", f"{', '.join(unread)}", remedy)
            )
        return self

    @property
    def has_own_labels(self) -> bool:
        """Whether the labels are those of the user's files, not of a built-in task."""
        return any((self.file, self.text_column, self.label_column, self.kind))

    @property
    def gives_vectors(self) -> bool:
        """Whether the task is an embedding."""
        return self.kind is not None and KINDS[self.kind].vectors


class ShapeConfig(Section):
    """Sizes and an activation that replace those of a preset, each where the preset has it."""

    num_layers: int | None = pydantic.Field(default=None, gt=0, le=1000)
    hidden_size: Width | None = None
    num_heads: Width | None = None
    intermediate_size: Width | None = None
    embedding_size: Width | None = None
    bottleneck_size: Width | None = None
    dense_size: Width | None = None
    hidden_act: Literal["gelu", "gelu_tanh", "relu"] | None = described(
        None,
        "activation of the student's feed-forward networks, instead of the preset's or teacher's",
    )
    dropout: float | None = pydantic.Field(default=None, ge=0, lt=1)

    def sizes(self) -> dict[str, Any]:
        """The sizes that are given, by field of the model's configuration."""
        values = {name: getattr(self, name) for name in ShapeConfig.model_fields}
        return {name: value for name, value in values.items() if value is not None}


class TeacherConfig(ShapeConfig):
    """Where the teacher comes from.

    `source` is a Hugging Face folder or hub id, or ``preset:NAME`` for a teacher that starts from
    random weights: it is pre-trained on plain text (`pretrain`), or trained on the task itself.
    Sizes are for a preset only. Where `source` is fine-tuned already, `general` is the model before
    that, which stages on plain text learn from. Instead of all these, `answers` names files with
    the answers of any teacher.
    """

    source: PathText = ""
    answers: AnswersConfig | None = None
    general: PathText | None = None
    pretrain: TeacherPretrainConfig | None = None
    finetune: FineTuneConfig | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    allow_weak: bool = False
    export: bool = True

    @pydantic.model_validator(mode="after")
    def _one_of_two(self) -> TeacherConfig:
        if self.answers is None:
            if not self.source:
                raise ValueError(errors.explain("source", "a model, or files in answers", "none"))
            return self
        model_keys = ("source", "general", "pretrain", "finetune")
        of_model = [name for name in model_keys if getattr(self, name)] + list(self.sizes())
        if of_model:
            raise ValueError(
                errors.explain("answers", "answers or a model", f"also {', '.join(of_model)}")
            )
        return self


class StudentConfig(ShapeConfig):
    """The student's architecture and how its weights start.

    `preset` is "teacher" (the teacher itself, exported as it is), a preset's name, or
    ``pruned:layers=3,ffn=384,heads=6,width=384`` (the teacher's shape, smaller, see
    `config.short_forms`), or the Hugging Face folder or hub id of a student that exists. The
    sizes that are given replace those of a preset.

    `initialise` is "pruned" (cut out of the teacher and fitted to its states, see
    `tfdistill.pruning`), "teacher" (embeddings projected from the teacher's), "layers"
    (embeddings and the teacher layers in `teacher_layers`, copied), "random", or a Hugging Face
    folder or hub id of a student that went through a general stage elsewhere, such as a published
    TinyBERT. "auto" is the checkpoint that `preset` names, or "pruned" where the student fits into
    its teacher, or else "teacher".
    `vector_size` is the width of an embedding's vectors, by default the teacher's.
    `teacher_layers` lists the layers that "layers" copies. "pruned" takes such a list, too, or
    "uniform", "top" or "bottom", which the short form calls ``choose=top``. With `keep_head` the
    folder in `initialise` holds a finished student of the task, of any shape, which stages then
    compress. `allow_weak` accepts a student that ends near chance.
    """

    preset: PathText
    initialise: PathText = "auto"
    allow_weak: bool = False
    keep_head: bool = False
    teacher_layers: tuple[int, ...] | Choice | None = None
    vector_size: Width | None = None

    @pydantic.model_validator(mode="after")
    def _names_its_layers_once(self) -> StudentConfig:
        layers = self.teacher_layers
        if self.initialise == "layers" and not isinstance(layers, tuple):
            expected = "the teacher's layers that initialise: layers copies"
            raise ValueError(errors.explain("teacher_layers", expected, repr(layers)))
        is_part = is_pruned(self.preset) and not short_forms.short_form_faults(self.preset)
        choose = parse_pruned(self.preset).choose if is_part else None
        if layers is not None and choose is not None:
            expected = f"none beside choose={choose} in preset"
            raise ValueError(errors.explain("teacher_layers", expected, repr(layers)))
        return self

    @property
    def is_teacher(self) -> bool:
        """Whether the teacher itself is exported."""
        return self.preset == short_forms.TEACHER

    @property
    def start(self) -> str:
        """What the weights start from: `initialise`, or the checkpoint that `preset` names."""
        named = self.initialise == "auto" and is_checkpoint(self.preset)
        return self.preset if named else self.initialise


class VariantConfig(Section):
    """One student of the comparison: the stages that it goes through, in order."""

    stages: tuple[str, ...] = pydantic.Field(min_length=1)


# Tokens of a signature: [CLS] and [SEP] at least.
Length = Annotated[int, pydantic.Field(ge=2, le=512)]


class ExportConfig(Section):
    """The phone file; `lengths` None: those that fit the development set (`manifest.lengths`).

    Student and teacher (where that is exported) also get a file in each of `also_quantize`, unless
    it differs too far. `variants` are files of the student for other devices, in one manifest.
    Where the student's file in `quantize` differs too far, `export.auto` takes the smallest of
    `fallback` that does not; of a quantization-aware student its float weights. `size_mb`:
    `export.fit_size` makes the file. `goal_mb`: its word table is smaller where the
    development texts show that this costs less than a point. What they take stands for `quantize`
    in `also_quantize`, too.
    """

    quantize: Quantize = "dynamic_wi8_afp32"
    lengths: Annotated[tuple[Length, ...], _EachOnce] | None = pydantic.Field(
        default=None, min_length=1
    )
    softmax: bool = False
    teacher_quantize: Quantize = "float32"
    also_quantize: tuple[Quantize, ...] = ()
    fallback: tuple[Quantize, ...] = ()
    size_mb: float | None = described(
        None, "maximum file size in MB; format and vocabulary are shrunk until it fits", gt=0
    )
    goal_mb: float | None = pydantic.Field(default=None, gt=0)
    variants: dict[Literal["gpu"], Quantize] = pydantic.Field(default_factory=dict)

    @pydantic.model_validator(mode="after")
    def _one_file_falls_back(self) -> ExportConfig:
        for name in ("fallback", "size_mb", "goal_mb"):
            if getattr(self, name) and self.variants:
                raise ValueError(f"{name}: expected none with export.variants, received both")
        return self


Threads = Annotated[int, pydantic.Field(gt=0, le=256)]


class BenchmarkConfig(Section):
    """The measurement on this host."""

    threads: Annotated[tuple[Threads, ...], _EachOnce] = described(
        (1,), "numbers of CPU threads, each measured", min_length=1
    )
    warmup: int = described(10, "inferences before the first sample", ge=0, le=2**16)
    runs: int = described(100, "minimum number of samples per repetition", gt=0, le=2**16)
    min_seconds: float = described(1.0, "minimum measured time per repetition", ge=0, le=3600)
    repetitions: int = described(3, "fresh processes for each case", gt=0, le=1000)
