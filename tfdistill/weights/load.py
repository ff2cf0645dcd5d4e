"""Loads Hugging Face checkpoints as encoders and as models with a head."""

from __future__ import annotations

import dataclasses

import tf_keras as keras

from tfdistill import errors, models
from tfdistill.io import files
from tfdistill.models.heads import KINDS as HEAD_KINDS
from tfdistill.tokenization.tokenizer import Tokenizer
from tfdistill.weights import factorised, filling, head_checks, hf_config, keys, sentence_modules
from tfdistill.weights.checkpoint import (
    SENTENCE_FILES,
    Checkpoint,
    checkpoint_folder,
    open_checkpoint,
)
from tfdistill.weights.filling import LoadReport

_TYPES = "embeddings.token_type_embeddings.weight"


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A model from a checkpoint and what came with it.

    Attributes:
      model: The model, in inference precision float32.
      config: Its architecture.
      tokenizer: Its tokenizer, or None if the checkpoint has no vocabulary.
      report: What became of every tensor.
      labels: Names of a classifier's classes in the order of the logits; empty for regression and
        for a head that was initialised at random.
      max_length: The most tokens of an example that its tokenizer allows, or None.
    """

    model: keras.Model
    config: models.EncoderConfig
    tokenizer: Tokenizer | None
    report: LoadReport
    labels: tuple[str, ...] = ()
    max_length: int | None = None


def read_config(source: files.Path) -> models.EncoderConfig:
    """Reads the shape of a checkpoint, with a pooler where its family has one.

    Raises:
      WeightsError: If the checkpoint is missing, corrupt or of another kind.
    """
    return _config(open_checkpoint(source), None, pools=True)


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
    return load_model(source, "none", family=family).model


def load_classifier(
    source: files.Path,
    *,
    num_labels: int | None = None,
    family: str | None = None,
    new_head: bool = False,
) -> LoadedModel:
    """Loads a classifier of whole texts (or regressor, with one label); see `load_model`."""
    return load_model(source, "sequence", num_labels=num_labels, family=family, new_head=new_head)


def load_masked_lm(
    source: files.Path,
    *,
    family: str | None = None,
    new_head: bool = False,
    next_sentence: bool = False,
) -> LoadedModel:
    """Loads a masked language model; see `load_model`.

    With `new_head` any encoder becomes one: the decoder is tied to the table of word vectors, and
    only the transform before it and the bias start at random. It must be trained before it
    teaches.
    """
    return load_model(
        source, "masked_lm", family=family, new_head=new_head, next_sentence=next_sentence
    )


def load_model(
    source: files.Path | Checkpoint,
    kind: str,
    *,
    num_labels: int | None = None,
    family: str | None = None,
    new_head: bool = False,
    next_sentence: bool = False,
    task_kind: str | None = None,
    pairs: bool = False,
    pooled: bool = False,
) -> LoadedModel:
    """Loads a model with any head.

    Args:
      source: A Hugging Face folder or hub id, or what `open_checkpoint` returned for one.
      kind: The kind of head, see `models.Head`; of an embedding see `load_embedder`.
      num_labels: Width of a classifier. Needed where the checkpoint has none: one is then
        initialised at random and listed in the report.
      family: "tinybert" or "bert", to choose the head style of a BERT checkpoint; default what
        the checkpoint says.
      new_head: Whether a head in the checkpoint is left out and a new one initialised at random.
      next_sentence: Whether a masked LM also predicts next sentences; a head for it in the
        checkpoint is otherwise ignored.
      task_kind: The kind of the task that a head in the checkpoint has to answer, where it is
        known: config.json may say that it answers another.
      pairs: Whether this task has two texts, which a head in the checkpoint has to have seen as
        ours are: the second one with token type 1.
      pooled: Whether a new classifier of whole texts sees pooled states in the place of [CLS]:
        those of the folder where it is a sentence encoder, otherwise their mean with length 1.

    Returns:
      The model with its labels, vocabulary and report.

    Raises:
      WeightsError: If the checkpoint is missing, corrupt, of another kind, a tensor is missing,
        left over or of the wrong shape (the message names the keys), a head that is asked for is
        not there and neither `new_head` nor `num_labels` is given, or the decoder of a masked LM
        is not tied to its word vectors.
    """
    if HEAD_KINDS[kind].vectors and not isinstance(source, Checkpoint):
        return load_embedder(source)
    checkpoint = source if isinstance(source, Checkpoint) else open_checkpoint(source)
    pools = {
        "none": head_checks.has_tensors(checkpoint, "pooler."),
        "sequence": True,
        "masked_lm": next_sentence,
    }
    config = _config(checkpoint, family, pools=pools.get(kind, False))
    has_head = not new_head
    if kind in head_checks.OTHER_CLASSIFIERS:
        has_head = has_head and head_checks.has_head(checkpoint, kind)
        num_labels = head_checks.num_labels_of(checkpoint, num_labels, has_head, kind, config)
    elif has_head and kind in head_checks.HEAD_KEYS:
        head_checks.check_head(checkpoint, *head_checks.HEAD_KEYS[kind])
        if next_sentence:
            head_checks.check_head(checkpoint, "a next-sentence head", ("cls.seq_relationship.",))
        if HEAD_KINDS[kind].predicts_words:
            head_checks.check_tied(checkpoint)
    if has_head and task_kind is not None:
        head_checks.check_problem(checkpoint, task_kind)
    if has_head and pairs and config.type_vocab_size > 1:
        head_checks.check_pairs(checkpoint)
    head = models.Head(kind, HEAD_KINDS[kind].width or num_labels or 0, next_sentence)
    if pooled:
        sentences = sentence_head(checkpoint.folder) or models.Head("embedding")
        options = {"pooling": sentences.pooling, "normalize": sentences.normalize}
        head = dataclasses.replace(head, pooled=True, **options)
    elif has_head and HEAD_KINDS[kind].of_texts and HEAD_KINDS[kind].classifies:
        head = dataclasses.replace(head, **hf_config.pooled_options(checkpoint.raw_config))
    model = models.build_model(config, head)
    report = _fill(model, checkpoint, has_head)
    labels = (
        head_checks.labels_of(checkpoint, head.num_labels)
        if has_head and kind in head_checks.OTHER_CLASSIFIERS
        else ()
    )
    return _loaded(model, config, checkpoint, report, labels)


def load_embedder(source: files.Path, *, head: models.Head | None = None) -> LoadedModel:
    """Loads a sentence encoder, with the pooling that its folder names.

    Args:
      source: A folder of sentence-transformers or the id of one on the hub: modules.json, the
        encoder and 1_Pooling, perhaps 2_Dense and a Normalize module.
      head: Pooling, normalisation and width that the model shall have. A folder without
        modules.json gets this head, whose projection starts at random.

    Returns:
      The model, without labels.

    Raises:
      WeightsError: If the folder has no modules.json and there is no `head`, its modules give
        other vectors than `head` or than ours can, or the encoder cannot be read, see `load_model`.
    """
    folder = checkpoint_folder(source, SENTENCE_FILES)
    modules, wanted = None, head
    if head is None or sentence_modules.has_modules(folder):
        modules = sentence_modules.read_modules(folder)
        folder, head = modules.encoder, modules.head
    checkpoint = open_checkpoint(folder)
    if modules is not None:
        _check_case(checkpoint, modules)
        tensors = {**checkpoint.tensors, **modules.tensors}
        checkpoint = dataclasses.replace(checkpoint, tensors=tensors)
    assert head is not None
    config = _config(checkpoint, None, pools=False)
    if modules is not None and wanted is not None:
        _check_vectors(source, modules.head, wanted, config.hidden_size)
    model = models.build_model(config, head)
    report = _fill(model, checkpoint, modules is not None)
    if modules is not None:
        longest = modules.max_length or checkpoint.max_length
        tokenizer = checkpoint.tokenizer and checkpoint.tokenizer.replace(prompt=modules.prompt)
        checkpoint = dataclasses.replace(checkpoint, max_length=longest, tokenizer=tokenizer)
    return _loaded(model, config, checkpoint, report)


def _loaded(
    model: keras.Model,
    config: models.EncoderConfig,
    checkpoint: Checkpoint,
    report: LoadReport,
    labels: tuple[str, ...] = (),
) -> LoadedModel:
    read = checkpoint.tokenizer
    return LoadedModel(model, config, read, report, labels, checkpoint.max_length)


def sentence_head(source: files.Path) -> models.Head | None:
    """The head that a folder of sentence-transformers (or an id) names, None of other folders.

    Raises:
      WeightsError: As `load_embedder`, if the modules cannot be read.
    """
    modules = _modules_of(source)
    return None if modules is None else modules.head


def sentence_prompt(source: files.Path) -> str | None:
    """What stands in front of the texts of a sentence encoder; see `sentence_head`."""
    modules = _modules_of(source)
    return None if modules is None else modules.prompt


def _modules_of(source: files.Path) -> sentence_modules.SentenceModules | None:
    folder = checkpoint_folder(source, SENTENCE_FILES)
    return sentence_modules.read_modules(folder) if sentence_modules.has_modules(folder) else None


def _check_vectors(
    source: files.Path, of_folder: models.Head, wanted: models.Head, hidden_size: int
) -> None:
    """Refuses a folder whose modules give other vectors than those that are asked for."""
    received, expected = (
        f"pooling {head.pooling}, width {head.num_labels or hidden_size}, "
        f"{'normalised' if head.normalize else 'not normalised'}"
        for head in (of_folder, wanted)
    )
    if received != expected:
        raise errors.WeightsError(
            f"vectors of {source}",
            expected,
            received,
            "Give a copy of its encoder without modules.json: it gets a new head.",
        )


def _check_case(checkpoint: Checkpoint, modules: sentence_modules.SentenceModules) -> None:
    tokenizer = checkpoint.tokenizer
    if modules.lower_case and tokenizer is not None and not tokenizer.lower_case:
        raise errors.WeightsError(
            f"sentence_bert_config.json of {checkpoint.folder}, do_lower_case",
            "false where the tokenizer keeps case",
            "true",
            "Its texts are lower-cased but keep their accents, which no tokenizer of ours does.",
        )


def _fill(model: keras.Model, checkpoint: Checkpoint, has_head: bool) -> LoadReport:
    """Fills a model whose head comes from the checkpoint or, without `has_head`, is new."""
    wanted = keys.variables(model)
    config = models.config_of(model)
    head_keys = {v.key for v in wanted if models.is_of_head(v.layer)}
    pooler = {variable.key for variable in wanted if variable.layer == "pooler"}
    unused = keys.of_other_heads(checkpoint.tensors, head_keys if has_head else ())
    unused |= keys.unused(config) | (set() if has_head else head_keys)
    if not pooler:
        unused.update(key for key in checkpoint.tensors if key.startswith("pooler."))
    if "tfdistill" in checkpoint.raw_config and not config.type_vocab_size:
        unused.add(_TYPES)  # written by save_hf only because transformers asks for it
    fresh = set() if has_head else head_keys | pooler
    tensors = {key: value for key, value in checkpoint.tensors.items() if key not in unused}
    if factorised.is_factorised(config):
        assert config.embedding_size is not None
        tensors = factorised.factorised(tensors, config.embedding_size)
    received = filling.mismatch(wanted, tensors, fresh)
    if received:
        remedy = "The weights and config.json do not belong together."
        if received.startswith("unexpected") and ";" not in received:
            remedy = (
                "The rest fits: these are parts of another class. Save the model of transformers "
                "inside of it alone (save_pretrained), or take them out of the file if nothing "
                "computes with them."
            )
        raise errors.WeightsError(
            f"tensors of {checkpoint.folder}",
            f"those of a {config.family} of the sizes in config.json",
            received,
            remedy,
        )
    if not checkpoint.shapes_only:
        filling.assign(model, wanted, tensors)
    return LoadReport(
        loaded=tuple(sorted(tensors)),
        ignored=tuple(sorted({*checkpoint.ignored, *(unused & set(checkpoint.tensors))})),
        fresh=tuple(sorted(fresh - set(tensors))),
    )


def _config(checkpoint: Checkpoint, family: str | None, *, pools: bool) -> models.EncoderConfig:
    """Returns the architecture, with a pooler if the model `pools` and its family has one."""
    if family is None and checkpoint.is_tinybert and not checkpoint.raw_config.get("tfdistill"):
        family = "tinybert"
    config = hf_config.parse_config(checkpoint.raw_config, family=family, layout=checkpoint.layout)
    if config.family in ("bert", "tinybert"):
        config = config.replace(pooler=pools)
    elif not pools:
        config = config.replace(pooler=False)  # a MobileBERT that pools says how in its config
    if checkpoint.tokenizer is not None:
        checkpoint.tokenizer.check_rows(config.vocab_size)
    head_checks.check_size(checkpoint, config)
    return config
