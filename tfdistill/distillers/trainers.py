"""Training without a teacher: on gold labels, or on masked words."""

from __future__ import annotations

import tf_keras as keras

from tfdistill.distillers import base
from tfdistill.losses import answers, methods, words


class LabelTrainer(base.Distiller):
    """Trains a model with a head on gold labels, without a teacher.

    One term, ``label``: `losses.gold_loss`. The step, the callbacks, the checkpoints and the logs
    are those of every distiller, so that a baseline differs from a distilled student in its loss
    only. A teacher is fine-tuned by it, too.

    Args:
      student: A classifier of sequences, tokens or spans, or a regressor.
      head: None for the model's own; "multi_label" where a classifier's classes exclude nothing.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ConfigError: If `head` is unknown.
      ShapeError: If the model has no such head.

    Examples:
      >>> trainer = tfdistill.LabelTrainer(student)
      >>> trainer.compile(tfdistill.adamw(1e-3), metrics=["accuracy"])
      >>> sorted(trainer.fit(data.train, verbose=0).history)
      ['accuracy', 'label', 'loss']
    """

    def __init__(
        self,
        student: keras.Model,
        *,
        head: str | None = None,
        seed: int = 0,
        name: str | None = None,
    ):
        """Checks that there is a head to train; see the class."""
        answers.resolve_head(student, head)
        super().__init__(None, student, methods.labels(head=head), seed=seed, name=name)


class MaskedLmTrainer(base.Distiller):
    """Pre-trains a masked language model, without a teacher.

    Terms: ``mlm`` (`mlm.mlm_loss`) and, where the student has the head, ``nsp`` (`mlm.nsp_loss`),
    each of weight 1 as BERT adds them. The log also holds ``mlm_accuracy``, over all masked
    positions of the epoch so far.

    Args:
      student: A model of `models.build_masked_lm`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ShapeError: If the student has no masked-LM head.

    Examples:
      >>> model = tfdistill.models.build_masked_lm(tfdistill.models.preset("bert_tiny"))
      >>> tfdistill.MaskedLmTrainer(model).terms
      ('mlm', 'nsp')

    Reference: Devlin et al. 2019, BERT, section 3.1.
    """

    def __init__(self, student: keras.Model, *, seed: int = 0, name: str | None = None):
        """Checks that there is a head to train; see the class."""
        words.check_masked_lm(student, "student")
        losses = methods.masked_words(next_sentence=words.has_nsp_head(student))
        super().__init__(None, student, losses, seed=seed, name=name)
