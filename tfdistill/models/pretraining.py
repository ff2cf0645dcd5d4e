"""Masked language models: an encoder with a tied decoder over the words to be guessed."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill import errors
from tfdistill.models import bert, layers
from tfdistill.models.config import EncoderConfig
from tfdistill.models.layer_factory import LayerFactory, initializer, output_layer
from tfdistill.models.presets import as_config

PREDICTION_MASK = "prediction_mask"


def build_masked_lm(
    preset_or_config: str | EncoderConfig,
    *,
    next_sentence: bool = False,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder with a masked-LM head.

    With h the last state of a token that is asked about, E the table of word vectors (V, e), W
    (d, d), and a LayerNorm that MobileBERT also has where its blocks have none:
    ``x = LayerNorm(act(W h + c))``, ``logits = E x + b``. MobileBERT's table is narrower than the
    states, e < d: there an extra table X (V, d - e) reads the rest,
    ``logits = E x[:e] + X x[e:] + b``. E is the encoder's own table, used a second time.

    The head works on the asked tokens alone: its cost is that of N rows, not of B L. The pooler
    is built only for next-sentence prediction.

    Args:
      preset_or_config: A preset's name or an `EncoderConfig`.
      next_sentence: Whether there is also BERT's next-sentence head over the pooled [CLS].
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy of the layers; default the global policy. The product with
        E is in its compute dtype; bias, logits and next-sentence head are float32.

    Returns:
      A functional model with the inputs of `build_encoder` and "prediction_mask", int32 (B, L), 1
      where the head must answer. Outputs, a dict of float32: "mlm_logits" (N, V), N the number of
      ones in the mask, rows in the order of the tokens (example after example), no softmax;
      with `next_sentence` also "nsp_logits" (B, 2), class 0: the second sentence follows.

    Raises:
      ConfigError: If next-sentence prediction is asked for and the encoder pools nothing, the word
        table is factorised, or it is an ELECTRA.

    Reference: Devlin et al. 2019, BERT, sections 3.1 and A.1; Sun et al. 2020, MobileBERT.
    """
    config = as_config(preset_or_config)
    pools = config.pooler or config.family == "mobilebert"  # which pools by taking h[CLS]
    if next_sentence and not pools:
        raise errors.ConfigError(
            f"{config.family} with next-sentence prediction",
            "an encoder with a pooler",
            "pooler=False",
            "DistilBERT has none; elsewhere use config.replace(pooler=True).",
        )
    if config.family == "electra":
        raise errors.ConfigError(
            "masked-LM head",
            "an encoder that learnt to guess words",
            "an ELECTRA, which learnt to find exchanged ones",
            "Its encoder teaches layers and, fine-tuned, answers.",
        )
    if config.embedding_size is not None and config.family != "mobilebert":
        raise errors.ConfigError(
            f"masked-LM head of {config.family}",
            "a word table as wide as the states, which the decoder is tied to",
            f"embedding_size={config.embedding_size}",
            "Factorise the word table of the student of a task.",
        )
    inputs = bert.encoder_inputs(config)
    outputs = bert.encode(inputs, config, dtype_policy)
    words = keras.Model(inputs, outputs).get_layer("word_embeddings")
    inputs[PREDICTION_MASK] = keras.Input((None,), dtype="int32", name=PREDICTION_MASK)
    rows = layers.PredictedRows(name="mlm_rows", dtype=dtype_policy)(
        (outputs["sequence_output"], inputs[PREDICTION_MASK])
    )  # (N, d)
    answers = {"mlm_logits": _mlm_logits(rows, words, config, dtype_policy)}
    if next_sentence:
        answers["nsp_logits"] = output_layer(2, "nsp_classifier")(outputs["pooled_output"])
    return keras.Model(inputs, answers, name=name or config.family)


def _mlm_logits(
    rows: Any, words: layers.WordEmbedding, config: EncoderConfig, dtype_policy: str | None
) -> Any:
    """Maps (N, d) to float32 (N, V)."""
    make = LayerFactory(config, dtype_policy)
    states = make.dense(config.hidden_size, "mlm_transform")(rows)
    states = make.activation(config.hidden_act, "mlm_transform_activation")(states)
    states = make.layer_norm("mlm_layer_norm")(states)  # (N, d)
    if words.output_dim == config.hidden_size:
        logits = words(states, as_decoder=True)  # (N, V)
    else:
        split = layers.SplitFeatures(words.output_dim, name="mlm_split", dtype=dtype_policy)
        extra = keras.layers.Dense(
            config.vocab_size,
            use_bias=False,
            kernel_initializer=initializer(),
            name="mlm_extra_decoder",
            dtype=dtype_policy,
        )
        first, rest = split(states)
        logits = make.add("mlm_decoder_add")([words(first, as_decoder=True), extra(rest)])
    return layers.Bias(name="mlm_bias", dtype="float32")(logits)
