"""MobileBERT: layer by layer the teacher's feature maps and attention, then its answers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tf_keras as keras

from tfdistill import errors, models
from tfdistill.distillers.method import MethodDistiller
from tfdistill.losses import checks, methods, words

# What is learnt follows from the models where nobody names it.
_METHOD = functools.partial(methods.mobilebert, layers=None, predict_words=None)  # pyright: ignore


class MobileBertDistiller(MethodDistiller, method=_METHOD):
    """Distils with MobileBERT's knowledge transfer, layer against layer of equal number.

    With h the output of a layer and a its attention scores, over the chosen layers l (a sum, or a
    mean with ``layer_reduction="mean"``, as the published code divides):

        feature_map  = sum over l of MSE(LN0 h_t, LN0 h_s), LN0 without parameters
        mean         = sum over l of mean (mu(h_t) - mu(h_s))^2
        variance     = sum over l of mean |var(h_t) - var(h_s)|
        attention    = sum over l of mean CE(softmax a_t, softmax a_s)

    each a mean over real tokens (and heads), see `tfdistill.losses`. Where both predict words,
    with M the masked tokens and z the logits over the vocabulary:

        mlm    = 1 / |M| sum over M of -log softmax(z_s)[original token]
        logits = 1 / |M| sum over M of -softmax(z_t) . log_softmax(z_s)
        nsp    = next-sentence cross entropy, where the student has that head

    and ``loss = 100 feature_map + 5000 mean + 5 variance + 1 attention + 0.5 mlm +
    0.5 logits + 1 nsp``, the published weights (the half each is the published mix of the
    original token with the teacher's distribution). `compile(loss_weights=...)` changes them.

    AKT learns all terms at once, JKT the layers and then the words, PKT one layer after the other
    and then the words: `training.transfer_stages` makes the list of what each stage learns. What
    a stage does not learn is not computed either.

    Args:
      teacher: The teacher: an IB-BERT, or any model of `tfdistill.models` that is as deep and as
        wide between its blocks as the student and has as many heads.
      student: The student, a masked language model, or an encoder or classifier that learns the
        layers alone, for example on task text.
      same_tokens: As for `Distiller`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Keyword Args:
      layers (Sequence[int] | None): Student layers (0-based; negative ones count from the end)
        whose transfer is learnt; None for all, () for none.
      predict_words (bool | None): Whether the last three terms are learnt; None for "where the
        student is a masked language model".
      attention (str): "cross_entropy" as published, whose minimum is the teacher's entropy, or
        "kl_divergence", whose minimum is 0; they have the same gradient.
      reduction (str): "tokens", or "reference" for the published means, in which padding counts.
      layer_reduction (str): "sum" or "mean" over the chosen layers.

    Raises:
      ConfigError: If an option is unknown or a layer out of range, or nothing is left to learn.
      ShapeError: If teacher and student differ in depth or vocabulary, or a model that has to
        predict words cannot (unequal widths and heads are refused by `compile`, and only where a
        term compares them).

    Examples:
      >>> config = tfdistill.models.preset("ib_bert_6l_128d").replace(num_layers=2)
      >>> teacher = tfdistill.models.build_encoder(config)
      >>> config = tfdistill.models.preset("mobilebert_6l_128d").replace(num_layers=2)
      >>> student = tfdistill.models.build_encoder(config)
      >>> tfdistill.MobileBertDistiller(teacher, student, layers=[1]).terms
      ('feature_map', 'mean', 'variance', 'attention')

    Reference: Sun et al. 2020, MobileBERT, sections 3.4 and 3.5. Deviations from the published
      code: each layer is compared with its own statistics (TF1: with those of all teacher layers),
      attention passes through one softmax and LN0 adds 1e-12 (TF2: two, 1e-3), the teacher runs
      without dropout, replicas are averaged.
    """

    @classmethod
    def losses_of(
        cls, teacher: keras.Model, student: keras.Model, **options: Any
    ) -> methods.Losses:
        """Builds the losses, and checks that the pair fits; see the class."""
        predict_words = options["predict_words"]
        if predict_words is None:
            predict_words = models.head_of(student) == words.MASKED_LM
        learnt = _checked_layers(teacher, student, options["layers"])
        if not learnt and not predict_words:
            raise errors.ConfigError("layers", "some, where no words are predicted", "none")
        if predict_words:
            words.check_masked_lm(student, "student")
        chosen = {
            "layers": [(layer, layer) for layer in learnt],
            "predict_words": predict_words,
            "next_sentence": predict_words and words.has_nsp_head(student),
        }
        return methods.mobilebert(**{**options, **chosen})


def _checked_layers(
    teacher: keras.Model, student: keras.Model, layers: Sequence[int] | None
) -> tuple[int, ...]:
    """The layers to learn, counted from 0, in order."""
    if layers is not None and not layers:
        return ()
    depths = []
    for role, model in (("teacher", teacher), ("student", student)):
        config = models.config_of(model)
        if not isinstance(config, models.EncoderConfig):
            raise errors.ShapeError(role, "a model with transformer layers", type(config).__name__)
        depths.append(config.num_layers)
    if depths[0] != depths[1]:
        raise errors.ShapeError(
            "student layers",
            f"{depths[0]} as in the teacher",
            depths[1],
            "Layers are compared one by one: choose models of equal num_layers, or use "
            "TinyBertDistiller, which maps layers.",
        )
    chosen = range(depths[0]) if layers is None else layers
    checked = [checks.checked_layer("layers", layer, depths[0]) for layer in chosen]
    if len(set(checked)) < len(checked):
        raise errors.ConfigError("layers", "each layer once", list(chosen))
    return tuple(sorted(checked))
