"""Loads Hugging Face checkpoints as encoders and as models with a head."""

from __future__ import annotations

import dataclasses
import pathlib

import tf_keras as keras

from tfdistill import errors, files, models
from tfdistill.weights import hf_config, keys, mobilebert_keys
from tfdistill.weights.checkpoint import Checkpoint, check_vocab_size, open_checkpoint
from tfdistill.weights.filling import LoadReport, check_tied, fill

# Whose "classifier." is another one, and what it should have been.
_OTHER_CLASSIFIERS = {
    "sequence": (
        ("ForTokenClassification", "ForMultipleChoice"),
        "a classifier of whole sentences",
    ),
    "token": (("ForSequenceClassification", "ForMultipleChoice"), "a classifier of tokens"),
}


@dataclasses.dataclass(frozen=True)
class LoadedEncoder:
    """An encoder and what came with it; see `LoadedClassifier`."""

    model: keras.Model
    config: models.EncoderConfig
    vocab_file: pathlib.Path | None
    lower_case: bool
    report: LoadReport


@dataclasses.dataclass(frozen=True)
class LoadedClassifier:
    """A classifier, of texts or of tokens, and what came with it.

    Attributes:
      model: The model, in inference precision float32.
      config: Its architecture.
      labels: Names of the classes in the order of the logits; empty for regression and for a
        head that was initialised at random.
      vocab_file: The WordPiece vocabulary, or None if the checkpoint has none.
      lower_case: Whether its tokenizer lower-cases.
      report: What became of every tensor.
    """

    model: keras.Model
    config: models.EncoderConfig
    labels: tuple[str, ...]
    vocab_file: pathlib.Path | None
    lower_case: bool
    report: LoadReport


@dataclasses.dataclass(frozen=True)
class LoadedSpanClassifier:
    """A model that answers with a span, and what came with it; see `LoadedClassifier`."""

    model: keras.Model
    config: models.EncoderConfig
    vocab_file: pathlib.Path | None
    lower_case: bool
    report: LoadReport


@dataclasses.dataclass(frozen=True)
class LoadedMaskedLm:
    """A masked language model and what came with it; see `LoadedClassifier`."""

    model: keras.Model
    config: models.EncoderConfig
    vocab_file: pathlib.Path | None
    lower_case: bool
    report: LoadReport


def load_encoder(source: files.Path, *, family: str | None = None) -> keras.Model:
    """Loads an encoder; a head in the checkpoint is left out.

    Args:
      source: A Hugging Face folder or hub id, see `open_checkpoint`.
      family: "tinybert" or "bert", to choose the head style that a BERT checkpoint will have;
        default what the checkpoint says.

    Returns:
      The encoder.

    Raises:
      WeightsError: If the checkpoint is missing, corrupt, of another kind, or a tensor is
        missing, left over or of the wrong shape; the message names the keys.
    """
    return open_encoder(source, family=family).model


def open_encoder(source: files.Path, *, family: str | None = None) -> LoadedEncoder:
    """Loads an encoder as `load_encoder` does, together with its vocabulary and report."""
    checkpoint = open_checkpoint(source)
    config = _config(checkpoint, family, pools=_has(checkpoint, "pooler."))
    model = models.build_encoder(config)
    report = _fill(model, checkpoint, config, keys.Head(), has_head=True)
    return LoadedEncoder(model, config, checkpoint.vocab_file, checkpoint.lower_case, report)


def load_classifier(
    source: files.Path,
    *,
    num_labels: int | None = None,
    family: str | None = None,
    new_head: bool = False,
) -> LoadedClassifier:
    """Loads a classifier (or regressor, with one label).

    Args:
      source: A Hugging Face folder or hub id, see `open_checkpoint`.
      num_labels: Width of the head. Needed where the checkpoint has none: one is then
        initialised at random and listed in the report.
      family: "tinybert" or "bert", to choose the head style of a BERT checkpoint; default what
        the checkpoint says.
      new_head: Whether a head in the checkpoint is left out and a new one initialised.

    Returns:
      The model with its labels, vocabulary and report.

    Raises:
      WeightsError: If the checkpoint is missing, corrupt, of another kind, a tensor is missing,
        left over or of the wrong shape (the message names the keys), or it has no head and
        `num_labels` is not given.
    """
    checkpoint = open_checkpoint(source)
    config = _config(checkpoint, family, pools=True)
    has_head = not new_head and _has(checkpoint, "classifier.weight")
    head = keys.Head("sequence", _num_labels(checkpoint, num_labels, has_head, "sequence"))
    model = models.build_classifier(config, head.num_labels)
    report = _fill(model, checkpoint, config, head, has_head)
    labels = _labels(checkpoint, head.num_labels) if has_head else ()
    return LoadedClassifier(
        model, config, labels, checkpoint.vocab_file, checkpoint.lower_case, report
    )


def load_token_classifier(
    source: files.Path,
    *,
    num_labels: int | None = None,
    family: str | None = None,
    new_head: bool = False,
) -> LoadedClassifier:
    """Loads a classifier of tokens.

    Args:
      source: A Hugging Face folder or hub id, see `open_checkpoint`.
      num_labels: Width of the head. Needed where the checkpoint has none: one is then
        initialised at random and listed in the report.
      family: As for `load_classifier`.
      new_head: Whether a head in the checkpoint is left out and a new one initialised.

    Returns:
      The model with its labels, vocabulary and report.

    Raises:
      WeightsError: As `load_classifier` does, and if the checkpoint classifies whole texts.
    """
    checkpoint = open_checkpoint(source)
    config = _config(checkpoint, family, pools=False)
    has_head = not new_head and _has(checkpoint, "classifier.weight")
    head = keys.Head("token", _num_labels(checkpoint, num_labels, has_head, "token"))
    model = models.build_token_classifier(config, head.num_labels)
    report = _fill(model, checkpoint, config, head, has_head)
    labels = _labels(checkpoint, head.num_labels) if has_head else ()
    return LoadedClassifier(
        model, config, labels, checkpoint.vocab_file, checkpoint.lower_case, report
    )


def load_span_classifier(
    source: files.Path, *, family: str | None = None, new_head: bool = False
) -> LoadedSpanClassifier:
    """Loads a model that answers with a span (extractive question answering).

    Args:
      source: A Hugging Face folder or hub id, see `open_checkpoint`.
      family: As for `load_classifier`.
      new_head: Whether a new head is initialised at random; one in the checkpoint is left out.

    Returns:
      The model with its vocabulary and report.

    Raises:
      WeightsError: As `load_classifier` does, and if the checkpoint has no such head and
        `new_head` is not given.
    """
    checkpoint = open_checkpoint(source)
    config = _config(checkpoint, family, pools=False)
    if not new_head:
        _check_head(checkpoint, "a head over spans (qa_outputs)", ("qa_outputs.",))
    model = models.build_span_classifier(config)
    report = _fill(model, checkpoint, config, keys.Head("span", 2), not new_head)
    return LoadedSpanClassifier(model, config, checkpoint.vocab_file, checkpoint.lower_case, report)


def load_masked_lm(
    source: files.Path,
    *,
    family: str | None = None,
    new_head: bool = False,
    next_sentence: bool = False,
) -> LoadedMaskedLm:
    """Loads a masked language model.

    With `new_head` any encoder becomes one: the decoder is tied to the table of word vectors, and
    only the transform before it and the bias start at random. It must be trained before it
    teaches.

    Args:
      source: A Hugging Face folder or hub id, see `open_checkpoint`.
      family: As for `load_classifier`.
      new_head: Whether new heads are initialised at random; those in the checkpoint are left out.
      next_sentence: Whether the model also predicts next sentences; a head for it in the
        checkpoint is otherwise ignored.

    Returns:
      The model with its vocabulary and report.

    Raises:
      WeightsError: As `load_classifier` does, if a head that is asked for is not there and
        `new_head` is not given, or if the checkpoint's decoder is not tied to its word vectors.
    """
    checkpoint = open_checkpoint(source)
    config = _config(checkpoint, family, pools=next_sentence)
    if not new_head:
        masked = ("cls.predictions.", "vocab_projector.")
        _check_head(checkpoint, "a masked-LM head", masked)
        if next_sentence:
            _check_head(checkpoint, "a next-sentence head", ("cls.seq_relationship.",))
        check_tied(checkpoint)
    model = models.build_masked_lm(config, next_sentence=next_sentence)
    head = keys.Head("masked_lm", next_sentence=next_sentence)
    report = _fill(model, checkpoint, config, head, not new_head)
    return LoadedMaskedLm(model, config, checkpoint.vocab_file, checkpoint.lower_case, report)


def _fill(
    model: keras.Model,
    checkpoint: Checkpoint,
    config: models.EncoderConfig,
    head: keys.Head,
    has_head: bool,
) -> LoadReport:
    """Fills a model whose head comes from the checkpoint or, without `has_head`, is new."""
    wanted = keys.variables(config, head)
    own = {variable.key for variable in keys.head_variables(config, head)}
    pooler = {variable.key for variable in wanted if variable.key.startswith("pooler.")}
    left_out = set() if has_head else set(own)
    if not pooler:
        left_out.update(key for key in checkpoint.tensors if key.startswith("pooler."))
    if isinstance(config, models.MobileBertConfig):
        left_out.update(mobilebert_keys.unused(config))
    fresh = set() if has_head else own | pooler
    return fill(model, checkpoint, wanted, left_out=left_out, fresh=fresh)


def _has(checkpoint: Checkpoint, *prefixes: str) -> bool:
    return any(key.startswith(prefixes) for key in checkpoint.tensors)


def _check_head(checkpoint: Checkpoint, what: str, prefixes: tuple[str, ...]) -> None:
    if not _has(checkpoint, *prefixes):
        raise errors.WeightsError(
            f"head of {checkpoint.folder.name}",
            what,
            f"none in {checkpoint.raw_config.get('architectures') or 'its tensors'}",
            "Pass new_head=True to start with a head at random.",
        )


def _num_labels(checkpoint: Checkpoint, num_labels: int | None, has_head: bool, kind: str) -> int:
    what = f"head of {checkpoint.folder.name}"
    if not has_head:
        if num_labels is None:
            raise errors.WeightsError(
                what,
                "a classifier in the checkpoint, or num_labels",
                "neither",
                "Fine-tune it first (`tfdistill finetune`), or pass num_labels=2 (1 for "
                "regression) to start with a head at random.",
            )
        return num_labels
    others, expected = _OTHER_CLASSIFIERS[kind]
    told = checkpoint.raw_config.get("architectures") or ()
    if not told and _has(checkpoint, "pre_classifier."):
        told = ("DistilBertForSequenceClassification",)
    for name in told:
        if name.endswith(others):
            raise errors.WeightsError(
                what,
                expected,
                name,
                "Pass num_labels and new_head=True for a new head over the same encoder.",
            )
    rows = checkpoint.tensors["classifier.weight"].shape[0]
    if num_labels not in (None, rows):
        raise errors.WeightsError(
            what,
            f"{num_labels} labels",
            rows,
            "Pass new_head=True for a new head over the same encoder.",
        )
    return rows


def _config(checkpoint: Checkpoint, family: str | None, *, pools: bool) -> models.EncoderConfig:
    """Returns the architecture, with a pooler if the model `pools` and its family has one."""
    if family is None and checkpoint.is_tinybert and not checkpoint.raw_config.get("tfdistill"):
        family = "tinybert"
    config = hf_config.parse_config(checkpoint.raw_config, family=family)
    if config.family in ("bert", "tinybert"):
        config = config.replace(pooler=pools)
    elif not pools:
        config = config.replace(pooler=False)  # a MobileBERT that pools says how in its config
    if checkpoint.vocab_file is not None:
        check_vocab_size(checkpoint.vocab_file, config.vocab_size)
    return config


def _labels(checkpoint: Checkpoint, num_labels: int) -> tuple[str, ...]:
    names = checkpoint.raw_config.get("id2label") or {}
    if num_labels == 1:
        return ()
    if not names:
        return tuple(f"LABEL_{index}" for index in range(num_labels))
    if sorted(map(str, names)) != sorted(map(str, range(num_labels))):
        raise errors.WeightsError(
            "config.json id2label", f"a name for 0 to {num_labels - 1}", names
        )
    return tuple(str(names[str(index)]) for index in range(num_labels))
