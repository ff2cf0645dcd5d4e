"""DistilBERT: masked words, the teacher's answers at every token, and the last states."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill.distillers.method import MethodDistiller
from tfdistill.losses import methods, words


class DistilBertDistiller(MethodDistiller, method=methods.distilbert):
    """Distils a masked language model with DistilBERT's triple loss.

    With R the real tokens of the batch (no padding; [CLS] and [SEP] count), z their logits over
    the vocabulary, h their last hidden states and M the masked tokens among them:

        logits = T^2 / |R| sum over R of KL(softmax(z_t / T) || softmax(z_s / T))
        mlm    = 1 / |M| sum over M of -log softmax(z_s)[original token]
        cosine = 1 / |R| sum over R of 1 - cos(h_t, h_s)

    and ``loss = 5 logits + 2 mlm + 1 cosine``, as published; `compile(loss_weights=...)` can
    change the weights. Sample weights weigh the tokens of their example in every sum.

    The batches need the features ``mlm_labels`` and ``prediction_mask``; the latter is the
    attention mask itself, since the teacher is asked about every token (`data.masking.Masker` with
    ``predict="all"``). Both models answer the same masked text.

    The second step, while fine-tuning on a task, is `LogitDistiller` with ``temperature=2`` and
    ``alpha=0.5``.

    Args:
      teacher: A masked language model (`models.build_masked_lm`, `weights.load_masked_lm`).
      student: Another, with the same vocabulary and, where the cosine is learnt, the same width.
        `training.initialise_from_layers` starts it from some of the teacher's layers.
      same_tokens: As for `Distiller`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Keyword Args:
      temperature (float): T > 0.

    Raises:
      ConfigError: If the temperature is out of range.
      ShapeError: If a model has no masked-LM head, or their vocabularies differ in size.

    Examples:
      >>> config = tfdistill.models.preset("bert_tiny")
      >>> teacher = tfdistill.models.build_masked_lm(config)
      >>> student = tfdistill.models.build_masked_lm(config.replace(num_layers=1))
      >>> tfdistill.initialise_from_layers(student, teacher, layers=[0])
      >>> tfdistill.DistilBertDistiller(teacher, student, temperature=2.0).terms
      ('logits', 'mlm', 'cosine')

    Reference: Sanh et al. 2019, DistilBERT, section 3, with the weights of the published code.
    """

    @staticmethod
    def losses_of(teacher: keras.Model, student: keras.Model, **options: Any) -> methods.Losses:
        """Checks that both guess masked words, and builds the losses; see the class."""
        words.check_masked_lm(teacher, "teacher")
        words.check_masked_lm(student, "student")
        return methods.distilbert(**options)
