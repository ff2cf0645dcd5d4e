"""Linear heads: over pooled states, for few rows; over tokens, where their fine-tuning starts."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import time

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import analysis, config, distillers, errors, losses, models, results
from tfdistill.data import batches
from tfdistill.data.task_data import TaskData, to_evaluate
from tfdistill.io import arrays
from tfdistill.models.layers import layer_of
from tfdistill.tasks import splitting
from tfdistill.training import callbacks, optimizers
from tfdistill.training.initialise import start_at_numbers

_log = logging.getLogger(__name__)

_UNSEEN, _LOGITS = "unseen.safetensors", "logits"
# Of a first head: the words that are read, as how many a text counts, the share, C of scikit-learn.
_PROBED, _WORDS_A_TEXT, _SHARED, _PENALTY = 20_000, 4, 0.5, 0.01


def fit_linear_head(
    model: keras.Model,
    data: TaskData,
    settings: config.FineTuneConfig,
    folder: pathlib.Path,
    *,
    seed: int = 0,
    description: str = "model",
) -> results.FitResult:
    """Fits a logistic regression over the pooled states of an encoder, `analysis.fit_head`.

    By the method "frozen" nothing else changes. By "contrastive" the encoder is first fine-tuned
    with `losses.LabelSimilarity` on batches of the training rows, without dropout; the vectors of
    words stay, so that words of no row keep their place among those of the rows. Each fold of a
    cross-validation is answered by an encoder and a head that were trained without it. These
    answers calibrate the head, and decide: where the head over the encoder as it was has the better
    metric, that is kept.

    Args:
      model: A classifier over pooled states (`weights.load_model`, ``pooled=True``), changed in
        place.
      data: Gives the training rows and the task.
      settings: The method; of "contrastive" also the optimizer, `batch_size`, `epochs`, `min_steps`
        and `precision`.
      folder: Gets the logits of the rows that were left out, for `read_unseen`.
      seed: Seed of batches and dropout.
      description: Of the model, for progress bars and the line that says what was taken.

    Returns:
      The steps of the training on all rows, and all seconds.

    Raises:
      ConfigError: If the task is not one of classes that exclude each other.
      NonFiniteLossError: If the loss is NaN or infinite.
    """
    if not data.task.traits.one_class:
        expected = "a task of classes that exclude each other"
        raise errors.ConfigError(f"method {settings.method}", expected, f"kind {data.task.kind}")
    started, steps = time.monotonic(), 0
    labels = np.asarray(data.train_examples.labels)
    pooled = _States(model, data.train.encoded)
    head = analysis.fit_head(pooled(), labels, data.task.num_labels)
    if settings.method == "contrastive":
        trainer = _ContrastiveTrainer(model, data, settings, seed)
        tuned, steps = _fit_tuned(trainer, pooled, data, description)
        paired = analysis.paired_difference(data.task, labels, head.unseen, tuned.unseen)
        if paired.difference >= 0:
            head = tuned
        else:
            trainer.reset()
        low, high = paired.interval
        _log.info(
            f"{description}: {data.task.primary_metric}, cross-validated: encoder fine-tuned on "
            f"pairs of rows {paired.after:.3f}, as it is {paired.before:.3f} (difference "
            f"{paired.difference:+.3f}, 95% interval {low:+.3f} to {high:+.3f}); taken: "
            + ("the fine-tuned one" if head is tuned else "the encoder as it is")
        )
    layer_of(model, models.read_head(model).layer).set_weights([head.kernel, head.bias])
    folder.mkdir(parents=True, exist_ok=True)
    arrays.write_arrays(folder / _UNSEEN, {_LOGITS: head.unseen})
    return results.FitResult(steps=steps, seconds=time.monotonic() - started)


def start_head(model: keras.Model, data: TaskData, *, seed: int = 0) -> None:
    """Starts the new head of a pretrained encoder that is fine-tuned next.

    That of a regression starts at its numbers, see `start_at_numbers`. That of several labels a
    text starts as a logistic regression of each over 5,000 states of the encoder as it is: twenty
    labels that 1 to 20% of 1,044 texts had were never answered after 430 steps from a head at
    random. That of tags starts as one over the states of 20,000 words, where half of the states'
    squared length is one direction that all share, as 66% are of multilingual-e5-small: every word
    stayed O for 250 steps. Of all-MiniLM-L6-v2, 4% shared, a head at random found more entities
    that no training row has (F1 0.43 and 0.38). Any other head stays as it is.

    The regressions minimise ``sum -log p(label) + |W|^2 / (2 C)``, C = 0.01, over the rows and one
    mean row of each class, with states centred and scaled as in `analysis.fit_head`; `W` (d,
    labels) and the bias are those for states as they are.

    Args:
      model: A model with the task's head, changed in place.
      data: Gives the training rows and the task.
      seed: Seed of the choice of rows.
    """
    traits, encoded = data.task.traits, data.train.encoded
    if traits.one_number:
        start_at_numbers(model, data.train_examples)
    if encoded.labels is None or not (traits.tags_words or traits.many_classes):
        return
    drawn = np.random.default_rng(seed).permutation(len(encoded))
    counts = np.full(len(encoded), _WORDS_A_TEXT)
    if traits.tags_words:
        counts = np.add.reduceat(encoded.labels >= 0, encoded.offsets[:-1])
    most = 1 + np.searchsorted(np.cumsum(counts[drawn]), _PROBED)
    encoded = encoded.select(drawn[:most])
    labels = encoded.labels
    assert labels is not None
    vectors, layer = _States(model, encoded)(), layer_of(model, models.read_head(model).layer)
    width, num_labels = layer.kernel.shape
    if traits.tags_words:
        vectors, labels = vectors[labels >= 0], labels[labels >= 0]
    mean = vectors.mean(axis=0)
    if traits.tags_words and mean @ mean < _SHARED * np.square(vectors).sum(axis=1).mean():
        return
    # A mean word or text of each class: one that no row drawn has is rare, not impossible.
    if traits.tags_words:
        vectors = np.append(vectors, np.tile(mean, (num_labels, 1)), axis=0)
        classes = np.append(labels, np.arange(num_labels)).astype(np.int64)
        layer.set_weights(analysis.fit_regression(vectors, classes, num_labels, _PENALTY))
        return
    vectors = np.append(vectors, [mean, mean], axis=0)
    kernel, bias = np.zeros((width, num_labels)), np.zeros(num_labels)
    for number, column in enumerate(labels.T > 0.5):
        classes = np.append(column, [False, True]).astype(np.int64)
        of_two = analysis.fit_regression(vectors, classes, 2, _PENALTY)
        kernel[:, number], bias[number] = np.diff(of_two[0])[:, 0], np.diff(of_two[1])[0]
    layer.set_weights([kernel, bias])


def read_unseen(folder: pathlib.Path) -> np.ndarray:
    """The logits of each training row by a model that was fitted without it, (n, num_labels).

    Raises:
      DataError: If `fit_linear_head` has not written them to the folder, or they are damaged.
    """
    return arrays.read_arrays(folder / _UNSEEN, error=errors.DataError)[_LOGITS]


def _fit_tuned(
    trainer: _ContrastiveTrainer, pooled: _States, data: TaskData, description: str
) -> tuple[analysis.LinearHead, int]:
    """The head over an encoder tuned on all rows, calibrated by folds, and the steps of these."""
    labels = np.asarray(data.train_examples.labels)
    steps = trainer.fit(np.arange(len(labels)), f"{description}, all rows")
    final = trainer.encoder.get_weights()
    vectors, width = pooled(), data.task.num_labels
    penalty = analysis.fit_head(vectors, labels, width).penalty
    kernel, bias = analysis.fit_regression(vectors, labels, width, penalty)
    unseen = np.empty((len(labels), width), np.float32)
    folds = splitting.folds_of(labels)
    for number, fold in enumerate(np.unique(folds), 1):
        left_out = folds == fold
        trainer.reset()
        trainer.fit(np.flatnonzero(~left_out), f"{description}, without fold {number}")
        vectors = pooled()
        of_fold = analysis.fit_regression(vectors[~left_out], labels[~left_out], width, penalty)
        unseen[left_out] = vectors[left_out] @ of_fold[0] + of_fold[1]
    trainer.set_encoder(final)
    return analysis.LinearHead(kernel, bias, penalty, unseen).calibrated(labels), steps


class _States:
    """The features of rows under a classifier's head, by its current weights: (n, d).

    n are the texts, or the tokens of a head over tokens.
    """

    def __init__(self, model: keras.Model, rows: batches.EncodedExamples):
        head = models.read_head(model)
        states = layer_of(model, head.layer).input
        if head.over_tokens:  # (B L, d) there
            states = layer_of(model, "sequence_output").output
        of_states = keras.Model(model.inputs, states)
        self._predict = models.predictor(of_states, over_tokens=head.over_tokens)
        self._rows = to_evaluate(rows)

    def __call__(self) -> np.ndarray:
        return self._predict(self._rows)


class _ContrastiveTrainer:
    """Fine-tunes the encoder of a classifier, again and again from the same start; traced once."""

    def __init__(
        self,
        model: keras.Model,
        data: TaskData,
        settings: config.FineTuneConfig,
        seed: int,
    ):
        self._model, self._rows = model, data.train.encoded
        self._settings, self._seed = settings, seed
        head = models.read_head(model)
        with model.distribute_strategy.scope():
            self.encoder = models.build_embedder(
                models.config_of(model),
                pooling=head.pooling,
                normalize=head.normalize,
                dtype_policy=settings.precision,
            )
            models.copy_encoder(model, self.encoder)
            layer_of(self.encoder, "word_embeddings").trainable = False
            self._start = self.encoder.get_weights()
            pairs = {"pairs": losses.LabelSimilarity()}
            self._distiller = distillers.Distiller(None, self.encoder, pairs, seed=seed)
            batches_of_all = self._batches(np.arange(len(self._rows)))
            steps = self._epochs(batches_of_all) * batches_of_all.steps_per_epoch
            self._distiller.compile(optimizers.build(settings, steps), dropout=False)

    def fit(self, rows: np.ndarray, description: str) -> int:
        """Trains on some of the rows; the classifier gets the encoder. Returns the steps."""
        train = self._batches(rows)
        epochs = self._epochs(train)
        steps = epochs * train.steps_per_epoch
        bar = callbacks.ProgressBar(description, steps)
        chain = [callbacks.StopOnNonFinite(), bar]
        with contextlib.closing(bar):
            self._distiller.fit(train, epochs=epochs, callbacks=chain, verbose=0)
        models.copy_encoder(self.encoder, self._model)
        return steps

    def reset(self) -> None:
        """Gives the encoder its weights before any training, and the optimizer its state."""
        self.set_encoder(self._start)
        for variable in self._distiller.optimizer.weights:  # the step and its moments, from 0
            variable.assign(tf.zeros_like(variable))

    def set_encoder(self, weights: list[np.ndarray]) -> None:
        """Sets them, also in the classifier."""
        self.encoder.set_weights(weights)
        models.copy_encoder(self.encoder, self._model)

    def _batches(self, rows: np.ndarray) -> batches.Batches:
        size = min(self._settings.batch_size, len(rows))
        chosen = self._rows.select(rows)
        return batches.Batches(chosen, batch_size=size, seed=self._seed)

    def _epochs(self, train: batches.Batches) -> int:
        return self._settings.num_epochs(train.steps_per_epoch)
