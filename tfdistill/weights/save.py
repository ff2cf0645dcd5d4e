"""Writes our models as Hugging Face folders that `transformers` loads."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np
import safetensors.numpy
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.io import checks, files, ledger, work_folder
from tfdistill.models import embedding
from tfdistill.tokenization import reading
from tfdistill.tokenization.tokenizer import Tokenizer
from tfdistill.weights import (
    checkpoint,
    factorised,
    filling,
    folder_checks,
    hf_config,
    keys,
    sentence_modules,
)


def save_hf(
    model: keras.Model,
    folder: files.Path,
    *,
    labels: Sequence[str] | None = None,
    tokenizer: Tokenizer | files.Path | None = None,
    texts: Sequence[str] = (),
    max_length: int | None = None,
    for_transformers: bool = False,
    overwrite: bool = False,
) -> pathlib.Path:
    """Saves a model as config.json, model.safetensors and, with a vocabulary, a tokenizer.

    The folder is written under a temporary name, read back and compared with the model (every
    number, the tokenizer's ids of `texts`; `folder_checks` lists the checks), and then renamed.
    `transformers` has no TinyBERT head (a ReLU between pooler and classifier): such a model is
    written as BERT with a note under "tfdistill" in config.json that `load_classifier` reads and
    `transformers` does not, so logits there differ; the encoder's outputs are equal. It has no
    factorised word table, which is written as the product of its factors: the same outputs there,
    and split again when it is loaded here. Every other head has its class there:
    For{SequenceClassification, TokenClassification, QuestionAnswering, MaskedLM} and, for a masked
    LM with next-sentence prediction, ForPreTraining. A sentence encoder (`build_embedder`) becomes
    a folder of sentence-transformers, with its pooling, projection and normalisation as modules.

    Args:
      model: A model of tfdistill.models.
      folder: Where to write.
      labels: Names of the classes in the order of the logits.
      tokenizer: Its tokenizer, or the file of its vocabulary, see `reading.read_tokenizer`.
        `transformers` cuts texts at their end only.
      texts: Texts whose ids are compared, besides some of our own.
      max_length: The most tokens of an example that other programs read (default, and at most: the
        model's positions).
      for_transformers: Whether the folder must answer in `transformers` as here. A model that it
        has no class for is refused then, and where PyTorch is installed its class answers `texts`.
      overwrite: Whether an existing folder is replaced.

    Returns:
      The folder.

    Raises:
      OutputExistsError: If the folder exists and `overwrite` is False.
      WeightsError: If the model is no transformer, the labels do not fit the head, the vocabulary
        is larger than the embedding, or `transformers` could only build a different network.
      ParityError: If the folder is not the model; nothing was replaced.
    """
    folder = pathlib.Path(folder)
    work_folder.WorkFolder(folder, ledger.SAVED_MODEL).check(overwrite=overwrite)
    config = models.config_of(model)
    if not isinstance(config, models.EncoderConfig):
        raise errors.WeightsError(
            f"model {model.name!r} to save for transformers",
            "one of the BERT family",
            f"a {type(config).__name__}",
            "Save it with model.save(path.keras).",
        )
    head = models.read_head(model)
    reason = ""
    tokenizer = None if tokenizer is None else reading.as_tokenizer(tokenizer)
    if for_transformers:
        reason = hf_config.foreign_head(config, head)
        if tokenizer is not None:
            reason = reason or tokenizer.foreign_reading(vectors=head.traits.vectors)
    if reason:
        raise errors.WeightsError(
            f"model {model.name!r} to save for transformers",
            "one that it answers like",
            reason,
            "Leave for_transformers out, or write a SavedModel.",
        )
    names = None if labels is None else tuple(labels)
    _check_labels(names, head)
    if tokenizer is not None:
        tokenizer.check_rows(config.vocab_size)
    written = hf_config.format_config(config, head, names or None)
    limit = min(max_length or config.max_positions, config.max_positions)
    bare = head.bare
    named = {
        v.key: filling.exported(model, v)
        for v in keys.variables(model)
        if v.layer != embedding.DENSE  # sentence_modules writes it
    }
    if factorised.is_factorised(config):
        named = factorised.merged(named)
    tensors = {keys.exported_key(key, config, bare=bare): value for key, value in named.items()}
    words = keys.exported_key("embeddings.word_embeddings.weight", config, bare=bare)
    if config.family == "mobilebert" and head.traits.predicts_words:
        # The TensorFlow class there has variables of its own for the tied decoder, and for the
        # extra one also where the table is as wide as the states.
        tensors["cls.predictions.decoder.weight"] = tensors[words].copy()
        empty = np.zeros((0, config.vocab_size), np.float32)
        tensors.setdefault("cls.predictions.dense.weight", empty)
    if config.family != "distilbert" and not config.type_vocab_size:
        key = keys.exported_key("embeddings.token_type_embeddings.weight", config, bare=bare)
        tensors[key] = np.zeros((2, config.hidden_size), np.float32)
    with work_folder.replaced(folder, ledger.SAVED_MODEL, overwrite=overwrite) as temporary:
        sentence_modules.write_json(temporary / checkpoint.CONFIG_FILE, written)
        safetensors.numpy.save_file(
            tensors, temporary / checkpoint.WEIGHTS_FILE, metadata={"format": "pt"}
        )
        if head.traits.vectors or head.pooled:
            sentence_modules.write_modules(model, temporary, limit)
        plain = tokenizer
        if head.traits.vectors and tokenizer is not None:
            sentence_modules.write_prompt(tokenizer.prompt, temporary)
            plain = tokenizer.replace(prompt="")  # it is not that of other heads on the encoder
        if plain is not None:
            _save_tokenizer(config, plain, temporary, limit)
        checks.require(
            f"{folder}",
            folder_checks.CHECKS,
            folder_checks.WrittenFolder(
                temporary, model, names, tokenizer, texts, limit, for_transformers
            ),
        )
    return folder


def _check_labels(labels: tuple[str, ...] | None, head: models.Head) -> None:
    named = head.num_labels if head.traits.classifies else 0
    if labels is None or (head.answers_number and not labels):
        return
    if len(labels) != named or len(set(labels)) != len(labels):
        raise errors.WeightsError(
            "labels", f"{named} different names for the classifier", list(labels)
        )


def _save_tokenizer(
    config: models.EncoderConfig, tokenizer: Tokenizer, folder: pathlib.Path, max_length: int
) -> None:
    """Writes the vocabulary and the tokenizer's settings, which every `transformers` reads alike.

    Its own classes are not asked to: their arguments mean other things in version 4 and 5.
    """
    tokenizer.save_files(folder)
    settings: dict[str, object] = {
        "model_max_length": max_length,
        **tokenizer.hf_settings(config.family),
    }
    if tokenizer.truncation != "end":
        settings[reading.TRUNCATION] = tokenizer.truncation
    if tokenizer.prompt:
        settings[reading.PROMPT] = tokenizer.prompt
    sentence_modules.write_json(folder / reading.CONFIG_FILE, settings)
