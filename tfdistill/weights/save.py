"""Writes our models as Hugging Face folders that `transformers` loads."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Sequence

import numpy as np
import safetensors.numpy
import tf_keras as keras

from tfdistill import errors, files, models
from tfdistill.models import embedding
from tfdistill.weights import checkpoint, factorised, filling, hf_config, keys, sentence_modules


def save_hf(
    model: keras.Model,
    folder: files.Path,
    *,
    labels: Sequence[str] | None = None,
    vocab_file: files.Path | None = None,
    lower_case: bool = True,
    overwrite: bool = False,
) -> pathlib.Path:
    """Saves a model as config.json, model.safetensors and, with a vocabulary, a tokenizer.

    The folder is written under a temporary name and renamed when it is complete. `transformers` has
    no TinyBERT head (a ReLU between pooler and classifier): such a model is written as BERT with a
    note under "tfdistill" in config.json that `load_classifier` reads and `transformers` does not,
    so logits there differ; the encoder's outputs are equal. It has no factorised word table, which
    is written as the product of its factors: the same outputs there, and split again when it is
    loaded here. Every other head has its class there: For{SequenceClassification,
    TokenClassification, QuestionAnswering, MaskedLM} and, for a masked LM with next-sentence
    prediction, ForPreTraining. A sentence encoder (`build_embedder`) becomes a folder of
    sentence-transformers, with its pooling, projection and normalisation as modules.

    Args:
      model: A model of tfdistill.models.
      folder: Where to write.
      labels: Names of the classes in the order of the logits.
      vocab_file: The WordPiece vocabulary to put in.
      lower_case: Whether its tokenizer lower-cases.
      overwrite: Whether an existing folder is replaced.

    Returns:
      The folder.

    Raises:
      OutputExistsError: If the folder exists and `overwrite` is False.
      WeightsError: If the model is no transformer, the labels do not fit the head, the vocabulary
        is larger than the embedding, or `transformers` could only build a different network.
    """
    folder = pathlib.Path(folder)
    if folder.exists() and not overwrite:
        raise errors.OutputExistsError("output folder", "one that does not exist yet", f"{folder}")
    config = models.config_of(model)
    if not isinstance(config, models.EncoderConfig):
        raise errors.WeightsError(
            f"model {model.name!r} to save for transformers",
            "one of the BERT family",
            f"a {type(config).__name__}",
            "Save it with model.save(path.keras).",
        )
    head = models.read_head(model)
    names = None if labels is None else tuple(labels)
    _check_labels(names, head)
    if vocab_file is not None:
        checkpoint.check_vocab_size(vocab_file, config.vocab_size)
    written = hf_config.format_config(config, head, names or None)
    bare = head.kind in ("none", "embedding")
    named = {
        v.key: filling.exported(model, v)
        for v in keys.variables(model)
        if v.layer != embedding.DENSE  # sentence_modules writes it
    }
    if factorised.is_factorised(config):
        named = factorised.merged(named)
    tensors = {keys.exported_key(key, config, bare=bare): value for key, value in named.items()}
    words = keys.exported_key("embeddings.word_embeddings.weight", config, bare=bare)
    if config.family == "mobilebert" and head.kind == "masked_lm":
        # The TensorFlow class there has variables of its own for the tied decoder, and for the
        # extra one also where the table is as wide as the states.
        tensors["cls.predictions.decoder.weight"] = tensors[words].copy()
        empty = np.zeros((0, config.vocab_size), np.float32)
        tensors.setdefault("cls.predictions.dense.weight", empty)
    if config.family != "distilbert" and not config.type_vocab_size:
        key = keys.exported_key("embeddings.token_type_embeddings.weight", config, bare=bare)
        tensors[key] = np.zeros((2, config.hidden_size), np.float32)
    with files.atomic_folder(folder) as temporary:
        _write_json(temporary / checkpoint.CONFIG_FILE, written)
        safetensors.numpy.save_file(
            tensors, temporary / checkpoint.WEIGHTS_FILE, metadata={"format": "pt"}
        )
        if head.kind == "embedding":
            sentence_modules.write_modules(model, temporary)
        if vocab_file is not None:
            _save_tokenizer(config, vocab_file, lower_case, temporary)
            shutil.copyfile(vocab_file, temporary / checkpoint.VOCAB_FILE)
    return folder


def _check_labels(labels: tuple[str, ...] | None, head: models.Head) -> None:
    named = head.num_labels if head.kind in ("sequence", "token") else 0
    regression_without_names = head.kind == "sequence" and named == 1 and not labels
    if labels is None or regression_without_names:
        return
    if len(labels) != named or len(set(labels)) != len(labels):
        raise errors.WeightsError(
            "labels", f"{named} different names for the classifier", list(labels)
        )


def _save_tokenizer(
    config: models.EncoderConfig, vocab_file: files.Path, lower_case: bool, folder: pathlib.Path
) -> None:
    """Writes the tokenizer as `transformers` does: slow, fast, and its special tokens."""
    import transformers

    kinds = {
        "distilbert": transformers.DistilBertTokenizerFast,
        "mobilebert": transformers.MobileBertTokenizerFast,
    }
    kind = kinds.get(config.family, transformers.BertTokenizerFast)
    # The normalizer of a fast tokenizer follows these options only at construction.
    tokenizer = kind(
        vocab_file=str(vocab_file),
        do_lower_case=lower_case,
        model_max_length=config.max_positions,
    )
    tokenizer.save_pretrained(folder)


def _write_json(path: pathlib.Path, value: dict[str, object]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
