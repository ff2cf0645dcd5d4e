"""Students over word vectors: a bidirectional LSTM or their mean, a hidden layer, a classifier.

They have no positions, no attention and no layers that a transformer's layers could teach: they
learn from labels and from logits.
Shapes: B examples, L tokens, e width of the word vectors, h units of each direction.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors
from tfdistill.models import layers
from tfdistill.models.bert import encoder_inputs
from tfdistill.models.config import BiLstmConfig, StaticConfig, WordVectorConfig
from tfdistill.models.dropout import Dropout


def build_bilstm(
    config: WordVectorConfig,
    num_labels: int,
    *,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised BiLSTM or static classifier; `build_classifier` by preset.

    With x the word vectors of the real tokens, f the state of an LSTM after the last of them and b
    that of another one that read them backwards: ``u = [f, b]``, ``logits = W relu(V u + c) + d``.
    "siamese" pairs: u1 of the first text ([CLS] and its [SEP] included) and u2 of the second,
    ``u = [u1, u2, |u1 - u2|, u1 * u2]``; an empty text has u2 = 0. Static: u is the mean of the
    word vectors, and without a hidden layer ``logits = W u + d``.

    Args:
      config: The shape.
      num_labels: Classes, or 1 for regression.
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy of every layer but the classifier, which stays float32;
        default the global policy.

    Returns:
      A functional model. Inputs, int32 (B, L), tokens first and padding after them: "input_ids",
      "attention_mask" and, for "siamese", "token_type_ids". Output: logits (B, num_labels),
      float32, no softmax.

    Raises:
      ConfigError: If `num_labels` is below 1.

    Reference: Tang et al. 2019, Distilling Task-Specific Knowledge from BERT into Simple Neural
      Networks, section 3.1. They have frozen and trained vectors side by side; here is one table,
      trained, and dropout. Static: Wieting et al. 2016, and model2vec (Minish Lab 2024), whose
      table is fixed.
    """
    if num_labels < 1:
        raise errors.ConfigError("num_labels", "at least 1", num_labels)
    inputs = encoder_inputs(config)
    words = layers.WordEmbedding(
        config.vocab_size,
        config.embedding_size,
        family=config.family,
        pad_token_id=config.pad_token_id,
        embeddings_initializer=keras.initializers.TruncatedNormal(stddev=0.1),
        name="word_embeddings",
        dtype=dtype_policy,
    )(inputs["input_ids"])
    words = Dropout(config.dropout, name="embeddings_dropout", dtype=dtype_policy)(words)
    read = _Reader(config, dtype_policy)
    if config.pair_encoding == "siamese":
        texts = TextMasks(name="text_masks", dtype=dtype_policy)(
            (inputs["attention_mask"], inputs["token_type_ids"])
        )
        pair = [read(words, keep, f"text_{index}") for index, keep in enumerate(texts)]
        features = PairFeatures(name="pair_features", dtype=dtype_policy)(pair)  # (B, 4 u)
    else:
        features = read(words, inputs["attention_mask"], "text")  # (B, u)
    hidden = features
    if config.dense_size:
        hidden = keras.layers.Dense(config.dense_size, name="dense", dtype=dtype_policy)(hidden)
        activation = keras.layers.Activation("relu", name="dense_activation", dtype=dtype_policy)
        hidden = activation(hidden)
    hidden = Dropout(config.dropout, name="pooled_dropout", dtype=dtype_policy)(hidden)
    logits = keras.layers.Dense(num_labels, name="classifier", dtype="float32")(hidden)
    return keras.Model(inputs, logits, name=name or config.family)


def is_over_words(model: keras.Model) -> bool:
    """Checks whether a model is one of `build_bilstm`, also after saving and loading."""
    families = (BiLstmConfig.family, StaticConfig.family)
    return any(
        isinstance(layer, layers.WordEmbedding) and layer.family in families
        for layer in model.layers
    )


def config_of(model: keras.Model) -> Any:
    """Reads the configuration, a `WordVectorConfig`, off the layers of such a model."""
    words = model.get_layer("word_embeddings")
    names = {layer.name for layer in model.layers}
    common = {
        "embedding_size": words.output_dim,
        "dense_size": model.get_layer("dense").units if "dense" in names else 0,
        "vocab_size": words.input_dim,
        "pair_encoding": "siamese" if "pair_features" in names else "joined",
        "dropout": model.get_layer("embeddings_dropout").rate,
        "pad_token_id": words.pad_token_id,
    }
    if words.family == StaticConfig.family:
        return StaticConfig(**common)
    return BiLstmConfig(
        **common,
        hidden_size=model.get_layer("lstm_forward").units,
        bidirectional="lstm_backward" in names,
    )


def taps(model: keras.Model) -> keras.Model:
    """Gives the view of a model over word vectors that `models.taps` documents.

    Its outputs are "embeddings" (B, L, e), after dropout, "logits", and "hidden_states",
    "attention_scores", "queries", "keys", "values" as empty lists.
    """
    inputs = {tensor.name.split(":")[0]: tensor for tensor in model.inputs}
    layerwise = ("hidden_states", "attention_scores", "queries", "keys", "values")
    outputs: dict[str, Any] = {
        "embeddings": model.get_layer("embeddings_dropout").output,
        "logits": model.get_layer("classifier").output,
        **{name: [] for name in layerwise},
    }
    return keras.Model(inputs, outputs, name=f"{model.name}_taps")


@keras.saving.register_keras_serializable(package="tfdistill")
class TextMasks(keras.layers.Layer):
    """Separates the two texts of a pair by their token types."""

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Maps mask and types, int32 (B, L), to the masks of first and second text."""
        mask, types = inputs
        return mask * (1 - types), mask * types


@keras.saving.register_keras_serializable(package="tfdistill")
class LastLstmState(keras.layers.Layer):
    """The state of an LSTM after the last token of a text; 0 where there is no token.

    With z = W x + U h + b in four parts i, f, g, o: c' = sigmoid(f) c + sigmoid(i) tanh(g),
    h' = sigmoid(o) tanh(c'). A step at a token outside the text leaves h and c as they are, so
    that padding, and the other text of a pair, change nothing. The weights are those of
    `keras.layers.LSTM`. That layer is not used because TFLite's fused operator for it carries its
    state from one call to the next: a file would answer by what it was asked before.

    Where L is known when a graph is built, as in an exported file, the steps are unrolled;
    otherwise they run in a loop.
    """

    def __init__(self, units: int, *, backwards: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.backwards = backwards

    def build(self, input_shape: Any) -> None:
        """Creates W (e, 4 h), U (h, 4 h) and b (4 h,), which starts at 1 for the forget gate."""
        width, gates = input_shape[0][-1], 4 * self.units
        self.kernel = self.add_weight("kernel", (width, gates), initializer="glorot_uniform")
        self.recurrent = self.add_weight(
            "recurrent_kernel", (self.units, gates), initializer=_orthogonal
        )
        self.bias = self.add_weight("bias", (gates,), initializer=_open_forget_gate)
        super().build(input_shape)

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Maps word vectors (B, L, e) and the text's mask, int32 (B, L), to (B, h)."""
        vectors, mask = inputs
        batch, length, width = layers.lengths_of(vectors)
        rows = tf.reshape(vectors, (batch * length, width))
        rows = tf.nn.bias_add(tf.matmul(rows, self.kernel), self.bias)
        rows = tf.reshape(rows, (batch, length, 4 * self.units))
        rows = tf.transpose(rows, (1, 0, 2))  # (L, B, 4 h)
        keep = mask[:, :, tf.newaxis] > 0  # (B, L, 1)
        start = tf.zeros((batch, self.units), rows.dtype)
        if isinstance(length, int):
            steps = list(
                zip(tf.unstack(rows, length), tf.unstack(keep, length, axis=1), strict=True)
            )
            state = (start, start)
            for row, inside in reversed(steps) if self.backwards else steps:
                state = self._step(row, inside, *state)
            return state[0]

        def body(step: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor) -> tuple[tf.Tensor, ...]:
            index = length - 1 - step if self.backwards else step
            return step + 1, *self._step(rows[index], keep[:, index], hidden, cell)

        _, last, _ = tf.while_loop(lambda step, *_: step < length, body, (0, start, start))
        return last

    def _step(
        self, row: tf.Tensor, keep: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One token: W x + b (B, 4 h), whether to read it (B, 1), both states (B, h)."""
        gates = row + tf.matmul(hidden, self.recurrent)
        take, forget, new, show = tf.split(gates, 4, axis=1)
        moved = tf.sigmoid(forget) * cell + tf.sigmoid(take) * tf.tanh(new)
        shown = tf.sigmoid(show) * tf.tanh(moved)
        return tf.where(keep, shown, hidden), tf.where(keep, moved, cell)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns (B, h)."""
        return (input_shape[0][0], self.units)

    def get_config(self) -> dict[str, Any]:
        """Returns units and direction."""
        return {**super().get_config(), "units": self.units, "backwards": self.backwards}


@keras.saving.register_keras_serializable(package="tfdistill")
class MaskedMean(keras.layers.Layer):
    """The mean of a text's word vectors: ``sum_l m_l x_l / max(sum_l m_l, 1)``."""

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Maps word vectors (B, L, e) and the text's mask, int32 (B, L), to (B, e)."""
        vectors, mask = inputs
        keep = tf.cast(mask, vectors.dtype)[:, :, tf.newaxis]  # (B, L, 1)
        return tf.reduce_sum(vectors * keep, axis=1) / tf.maximum(tf.reduce_sum(keep, axis=1), 1.0)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns (B, e)."""
        return (input_shape[0][0], input_shape[0][-1])


@keras.saving.register_keras_serializable(package="tfdistill")
class PairFeatures(keras.layers.Layer):
    """Compares two texts: [u, v, |u - v|, u * v]."""

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Maps two (B, d) to (B, 4 d)."""
        first, second = inputs
        return tf.concat([first, second, tf.abs(first - second), first * second], axis=-1)


class _Reader:
    """Reads texts with one LSTM a direction, the same for all texts, or as their mean."""

    def __init__(self, config: WordVectorConfig, dtype: str | None) -> None:
        self._dtype = dtype
        self._lstms: list[LastLstmState] = []
        if isinstance(config, BiLstmConfig):
            self._lstms = [
                LastLstmState(
                    config.hidden_size,
                    backwards=direction == "backward",
                    name=f"lstm_{direction}",
                    dtype=dtype,
                )
                for direction in ("forward", "backward")[: config.directions]
            ]

    def __call__(self, vectors: Any, keep: Any, text: str) -> Any:
        """Maps word vectors (B, L, e) and a text's mask (B, L) to features (B, u)."""
        if not self._lstms:
            return MaskedMean(name=f"{text}_mean", dtype=self._dtype)((vectors, keep))
        states = [lstm((vectors, keep)) for lstm in self._lstms]  # (B, h)
        if len(states) == 1:
            return states[0]
        return keras.layers.Concatenate(name=f"{text}_state", dtype=self._dtype)(states)


def _orthogonal(shape: Any, dtype: Any = None, **_: Any) -> tf.Tensor:
    """Starts a matrix with orthogonal rows; computed in float32, as there is no QR in bfloat16."""
    return tf.cast(keras.initializers.Orthogonal()(shape, tf.float32), dtype)


def _open_forget_gate(shape: Any, dtype: Any = None, **_: Any) -> tf.Tensor:
    """Starts the bias of an LSTM: 1 for the forget gate, the second of four, 0 otherwise."""
    units = shape[0] // 4
    return tf.concat([tf.zeros(units, dtype), tf.ones(units, dtype), tf.zeros(2 * units, dtype)], 0)
