"""Fits a Hugging Face checkpoint into our models, with every tensor accounted for."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable

import numpy as np
import tf_keras as keras

from tfdistill import errors, files, models
from tfdistill.weights import hf_config, keys
from tfdistill.weights.checkpoint import Checkpoint, check_vocab_size, open_checkpoint

_HEAD = ("classifier.", "pre_classifier.")


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What became of every tensor.

    Attributes:
      loaded: Keys that were copied into the model.
      ignored: Keys of the checkpoint that the model has no use for.
      fresh: Keys of the model that the checkpoint lacks and that were initialised at random.
    """

    loaded: tuple[str, ...]
    ignored: tuple[str, ...]
    fresh: tuple[str, ...]

    def __str__(self) -> str:
        """Says it in a line."""
        parts = [f"{len(self.loaded)} tensors loaded"]
        if self.ignored:
            parts.append(f"{len(self.ignored)} ignored ({', '.join(self.ignored)})")
        if self.fresh:
            parts.append(f"{len(self.fresh)} initialised at random ({', '.join(self.fresh)})")
        return "; ".join(parts)


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
    """A classifier and what came with it.

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


def load_encoder(source: files.Path, *, family: str | None = None) -> keras.Model:
    """Loads an encoder; a classification head in the checkpoint is left out.

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
    config = _config(checkpoint, family)
    head = [key for key in checkpoint.tensors if key.startswith(_HEAD)]
    model = models.build_encoder(config)
    report = _fill(model, checkpoint, keys.variables(config), left_out=head, fresh=())
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
    config = _config(checkpoint, family)
    head = [key for key in checkpoint.tensors if key.startswith(_HEAD)]
    has_head = "classifier.weight" in head and not new_head
    width = _head_width(checkpoint, num_labels, has_head)
    fresh = () if has_head else _HEAD
    if config.family != "distilbert":
        if not config.pooler and not has_head:
            fresh = (*fresh, "pooler.")
        config = config.replace(pooler=True)
    model = models.build_classifier(config, width)
    wanted = keys.variables(config, width)
    left_out = [] if has_head else head
    report = _fill(model, checkpoint, wanted, left_out=left_out, fresh=fresh)
    labels = _labels(checkpoint, width) if has_head else ()
    return LoadedClassifier(
        model, config, labels, checkpoint.vocab_file, checkpoint.lower_case, report
    )


def _head_width(checkpoint: Checkpoint, num_labels: int | None, has_head: bool) -> int:
    what = f"head of {checkpoint.folder.name}"
    if not has_head:
        if num_labels is None:
            raise errors.WeightsError(
                errors.explain(
                    what,
                    "a classifier in the checkpoint, or num_labels",
                    "neither",
                    "Pass num_labels=2 (1 for regression) to start with a head at random.",
                )
            )
        return num_labels
    for name in checkpoint.raw_config.get("architectures") or ():
        if name.endswith(("ForTokenClassification", "ForMultipleChoice")):
            raise errors.WeightsError(
                errors.explain(
                    what,
                    "a classifier of whole sentences",
                    name,
                    "Pass num_labels and new_head=True for a new head over the same encoder.",
                )
            )
    rows = checkpoint.tensors["classifier.weight"].shape[0]
    if num_labels not in (None, rows):
        raise errors.WeightsError(
            errors.explain(
                what,
                f"{num_labels} labels",
                rows,
                "Pass new_head=True for a new head over the same encoder.",
            )
        )
    return rows


def _config(checkpoint: Checkpoint, family: str | None) -> models.EncoderConfig:
    if family is None and checkpoint.is_tinybert and not checkpoint.raw_config.get("tfdistill"):
        family = "tinybert"
    config = hf_config.parse_config(checkpoint.raw_config, family=family)
    if config.family != "distilbert":
        pooler = any(key.startswith("pooler.") for key in checkpoint.tensors)
        config = config.replace(pooler=pooler)
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
            errors.explain("config.json id2label", f"a name for 0 to {num_labels - 1}", names)
        )
    return tuple(str(names[str(index)]) for index in range(num_labels))


def _fill(
    model: keras.Model,
    checkpoint: Checkpoint,
    wanted: Iterable[keys.Variable],
    *,
    left_out: Iterable[str],
    fresh: tuple[str, ...],
) -> LoadReport:
    """Copies tensors into the model after every key has been found right.

    `left_out` are keys to ignore, `fresh` the prefixes of keys that may be absent.
    """
    variables = {variable.key: variable for variable in wanted}
    left_out = set(left_out)
    unused_types = "embeddings.token_type_embeddings.weight"
    if "tfdistill" in checkpoint.raw_config and unused_types not in variables:
        left_out.add(unused_types)  # written by save_hf only because transformers asks for it
    offered = {key: value for key, value in checkpoint.tensors.items() if key not in left_out}
    absent = [key for key in variables if key not in offered]
    initialised = [key for key in absent if fresh and key.startswith(fresh)]
    faults = {
        "missing": [key for key in absent if key not in initialised],
        "unexpected": [key for key in offered if key not in variables],
        "wrong shape": [
            f"{key} {offered[key].shape} instead of {variable.shape}"
            for key, variable in variables.items()
            if key in offered and offered[key].shape != variable.shape
        ],
    }
    if any(faults.values()):
        received = "; ".join(f"{what}: {', '.join(sorted(k))}" for what, k in faults.items() if k)
        raise errors.WeightsError(
            errors.explain(
                f"tensors of {checkpoint.folder}",
                f"those of a {models.config_of(model).family} of the sizes in config.json",
                received,
                "The weights and config.json do not belong together.",
            )
        )
    arrays: dict[str, dict[int, np.ndarray]] = {}
    for key, tensor in offered.items():
        variable = variables[key]
        array = tensor.T if variable.transposed else tensor
        arrays.setdefault(variable.layer, {})[variable.index] = array
    for layer, values in arrays.items():
        model.get_layer(layer).set_weights([values[index] for index in sorted(values)])
    return LoadReport(
        loaded=tuple(sorted(offered)),
        ignored=tuple(sorted({*checkpoint.ignored, *(left_out & set(checkpoint.tensors))})),
        fresh=tuple(sorted(initialised)),
    )
