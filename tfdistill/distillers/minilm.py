"""MiniLM: relations between the tokens inside one attention layer, whatever its width and heads."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill.distillers.method import MethodDistiller
from tfdistill.losses import methods


class MiniLmDistiller(MethodDistiller, method=methods.minilm):
    """Distils one layer's token relations, as MiniLM v2.

    Three terms, of weight 1 each, with A relation heads and R the real tokens of the batch, for X
    the queries, the keys and the values of one teacher and one student layer:

        term = 1 / (A |R|) sum over heads a and tokens i of KL(p_ai || q_ai)
        p_ai = softmax over j of (x_ai . x_aj / sqrt(width / A)) in the teacher, q in the student

    (`losses.relation_kl`). Widths, heads and depths need not agree: this is the method
    for a teacher whose number of heads the student cannot have. Layers of the student above
    `student_layer` get no gradient.

    Args:
      teacher: The teacher, a model of `tfdistill.models`; its head, if any, is not used.
      student: The student; the same vocabulary.
      same_tokens: As for `Distiller`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Keyword Args:
      teacher_layer (int): The layer that is learnt from, from 0 or, negative, from the end. The
        paper takes the last of 12 (-1) and the 21st of 24 (-4).
      student_layer (int): The layer that learns.
      num_relation_heads (int | None): A, a divisor of both attention widths. None takes the largest
        that is at most four times the teacher's heads: 48 for 768 and 12 heads, 64 for 1024 and 16,
        as in the paper.
      reduction (str): "tokens", or "reference" for the paper's mean over each sentence first.

    Raises:
      ConfigError: If a layer or an option is out of range.
      ShapeError: If A is no divisor of the widths, or the vocabularies differ in size.

    Examples:
      >>> distiller = tfdistill.MiniLmDistiller(teacher, student, teacher_layer=-2)
      >>> distiller.compile(tfdistill.adamw(1e-3))
      >>> distiller.active_terms
      ('query', 'key', 'value')

    Reference: Wang et al. 2021, MiniLMv2, section 3.
    """

    @staticmethod
    def losses_of(teacher: keras.Model, student: keras.Model, **options: Any) -> methods.Losses:
        """Builds the losses; see the class."""
        return methods.minilm(**options)
