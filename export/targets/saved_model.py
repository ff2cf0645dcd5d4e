"""A classifier as a SavedModel that takes text: tokenizer, network and label names in one graph.

Whoever loads it needs the operators of tensorflow-text (``import tensorflow_text``); TensorFlow
Serving has them built in. The tokenizer in the graph is ours, so text becomes the same ids as in
training and on the phone.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.io import checks, files, work_folder
from tfdistill.tasks import Examples, TaskSpec
from tfdistill.tasks.encoded import check_max_length
from tfdistill.tokenization.reading import as_wordpiece
from tfdistill.tokenization.tokenizer import Tokenizer
from tfdistill.tokenization.wordpiece import VOCAB_FILE, WordPiece

from ..file import bundle
from ..model import graph
from ..model.heads import EMBEDDING, HEADS
from ..model.request import labels_of
from . import saved_model_checks, text_graph
from .saved_model_checks import DEFAULT_SIGNATURE, PAIR_SIGNATURE, SIGNATURE

KIND = "SavedModel"

Outputs = dict[str, tf.Tensor]


def to_saved_model(
    model: keras.Model,
    folder: files.Path,
    *,
    tokenizer: Tokenizer | files.Path,
    labels: Sequence[str] | None = None,
    task: TaskSpec | None = None,
    max_length: int | None = None,
    check_on: Examples | None = None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Writes a model of whole texts as a SavedModel from text to label and score, or to a vector.

    Signatures: "serving_text" (also "serving_default") takes `text`, string (n,);
    "serving_text_pair" takes `text` and `pair`, where "" is no second text. Both give

    - `label`, string (n,): the most probable label; not for a regression;
    - `score`, float32 (n,): its probability, or the value of a regression;
    - `scores`, float32 (n, num_labels): the probability of each label; not for a regression. They
      sum to 1 (softmax); for a task of kind "multi_label" each is a sigmoid of its own.

    A sentence encoder has the first signature alone and gives `embedding`, float32 (n, width).

    The folder is loaded and compared with tokenizer and model before it replaces anything: its
    signatures, the vocabulary in its graph, and labels and scores of real texts, of the tokenizer's
    edge cases and of texts that `max_length` cuts.

    Args:
      model: A classifier, regression or sentence encoder of `tfdistill.models`.
      folder: The folder to write.
      tokenizer: The tokenizer of the text, or the file of its vocabulary, see
        `tfdistill.tokenization.reading.read_tokenizer`.
      labels: Label names in the order of the logits; default the task's, or "0", "1", ...
      task: The task, for labels and kind. Without it the labels exclude each other, softmax, so
        a model that gives several labels a text needs it: its logits do not say so.
      max_length: The most tokens of an example, special ones included; default the model's
        positions. Longer texts are cut as in training.
      check_on: Real texts to check on, next to our own; the first 256 are used.
      overwrite: Whether a SavedModel at that path is replaced.

    Raises:
      ConfigError: If the model has another head, or the labels or the length do not fit it.
      DataError: If `max_length` is too small for the special tokens of a pair.
      VocabularyError: If the vocabulary cannot be used or is larger than the model's.
      OutputExistsError: If the path exists and may not be replaced.
      ParityError: If the written folder does not answer like tokenizer and model.
      ExportError: If it cannot be written.

    Examples:
      >>> folder = export.to_saved_model(student, "serving", tokenizer="vocab.txt", task=data.task)
      >>> (folder / "saved_model.pb").is_file()
      True
    """
    folder = pathlib.Path(folder)
    check_saved_model(model)
    work_folder.WorkFolder(folder, KIND).check(overwrite=overwrite)
    config = models.config_of(model)
    length = config.max_positions if max_length is None else max_length
    check_max_length(length, paired=True)
    if length > config.max_positions:
        raise errors.ConfigError(
            "max_length", f"at most {config.max_positions}, the model's positions", length
        )
    tokenizer = as_wordpiece(tokenizer, f"SavedModel {folder}")
    tokenizer.check_rows(config.vocab_size)
    network = graph.in_float32(model)
    embeds = models.read_head(model).traits.vectors
    names = () if embeds else _names(model, labels, task)
    independent = task is not None and task.traits.many_classes
    answer = _vectors if embeds else _answer(names, independent=independent)
    with (
        bundle.writing(f"SavedModel {folder}", tf.errors.OpError),
        work_folder.replaced(folder, KIND, overwrite=overwrite) as temporary,
    ):
        _save(temporary, network, tokenizer, answer, length)
        written = saved_model_checks.WrittenGraph(
            temporary,
            network,
            tokenizer,
            None if embeds else names,
            independent,
            length,
            check_on,
        )
        checks.require(f"SavedModel {folder}", saved_model_checks.CHECKS, written)
    return folder


def check_saved_model(model: keras.Model) -> None:
    """Refuses a model that does not answer with one row a text."""
    head = models.head_of(model)
    outputs = HEADS.get(head)
    if outputs is None or outputs.per_token or not (outputs.classifies or outputs.vectors):
        raise errors.ConfigError(
            "model for a SavedModel from text",
            "a classifier, a regression or a sentence encoder of whole texts",
            f"one with the head {head!r}",
            "Write the TFLite file or the Hugging Face folder instead.",
        )


def _names(
    model: keras.Model, labels: Sequence[str] | None, task: TaskSpec | None
) -> tuple[str, ...]:
    """Returns the label names, none for a regression."""
    count = models.num_labels_of(model) or 0
    if count == 1:
        return ()
    names, _ = labels_of(task, labels, HEADS["sequence"], count)
    return names or tuple(map(str, range(count)))


def _answer(names: tuple[str, ...], *, independent: bool) -> Callable[[tf.Tensor], Outputs]:
    """Returns the function from logits (n, num_labels) to the outputs by name."""

    def answer(logits: tf.Tensor) -> Outputs:
        if not names:
            return {"score": logits[:, 0]}
        scores = tf.sigmoid(logits) if independent else tf.nn.softmax(logits)
        return {
            "label": tf.gather(tf.constant(names), tf.argmax(logits, axis=-1)),
            "score": tf.reduce_max(scores, axis=-1),
            "scores": scores,
        }

    return answer


def _vectors(vectors: tf.Tensor) -> Outputs:
    return {EMBEDDING: vectors}


def _save(
    folder: pathlib.Path,
    model: keras.Model,
    tokenizer: WordPiece,
    answer: Callable[[tf.Tensor], Outputs],
    max_length: int,
) -> None:
    text = tf.TensorSpec([None], tf.string, name="text")
    pair = tf.TensorSpec([None], tf.string, name="pair")

    @tf.function(input_signature=[text, pair, tf.TensorSpec([], tf.bool)], autograph=False)
    def answers(text: tf.Tensor, pair: tf.Tensor, is_pair: tf.Tensor) -> Outputs:
        features = text_graph.encode(tokenizer, text, pair, max_length, is_pair)
        inputs = {name: features[name] for name in model.input_names}
        return answer(model(inputs, training=False))

    @tf.function(input_signature=[text, pair], autograph=False)
    def paired(text: tf.Tensor, pair: tf.Tensor) -> Outputs:
        return answers(text, pair, tf.constant(True))

    @tf.function(input_signature=[text], autograph=False)
    def single(text: tf.Tensor) -> Outputs:
        return answers(text, tf.zeros_like(text), tf.constant(False))

    module = tf.Module()
    # The variables alone: tracking the model would also trace and save each of its layers.
    module.variables_of_model = model.weights
    alone = single.get_concrete_function()
    signatures = {SIGNATURE: alone, DEFAULT_SIGNATURE: alone}
    if answer is not _vectors:
        signatures[PAIR_SIGNATURE] = paired.get_concrete_function()
    with files.temporary_folder("vocabulary") as place:
        file = place / VOCAB_FILE
        file.write_text(tokenizer.file_text, encoding="utf-8", newline="\n")
        module.vocabulary = tf.saved_model.Asset(str(file))  # for people: nothing reads it
        tf.saved_model.save(module, str(folder), signatures=signatures)
