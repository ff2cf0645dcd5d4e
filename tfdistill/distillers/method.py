"""The distillers of the methods, whose options are those of `methods`; two stand by themselves.

Answers alone (`LogitDistiller`), answers and hidden states (`JointDistiller`), BERT-PKD, MiniLM and
DistilBERT. `tinybert` and `mobilebert` have the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import tf_keras as keras

from tfdistill.distillers import base
from tfdistill.losses import answers, methods, words

_FROM_MODELS = ("regression", "next_sentence")  # parameters that follow from the two models


class MethodDistiller(base.Distiller):
    """Distils with the losses of a method; keywords that are not named here are its options.

    A subclass names its function of `methods`, from which options and defaults are taken.
    """

    defaults: ClassVar[dict[str, Any]]
    method: ClassVar[Callable[..., methods.Losses]]

    def __init_subclass__(cls, method: Callable[..., methods.Losses]):
        """Shows the options of the method in the signature of the class."""
        super().__init_subclass__()
        parameters = inspect.signature(method).parameters.items()
        options = [p.replace(kind=p.KEYWORD_ONLY) for n, p in parameters if n not in _FROM_MODELS]
        cls.method = staticmethod(method)
        cls.defaults = {option.name: option.default for option in options}
        _, teacher, student, *common, _ = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature([teacher, student, *options, *common])

    def __init__(
        self,
        teacher: keras.Model,
        student: keras.Model,
        *,
        same_tokens: bool = True,
        seed: int = 0,
        name: str | None = None,
        **options: Any,
    ):
        """Builds the losses, and checks that the pair fits; see the class."""
        losses = self.losses_of(teacher, student, **{**self.defaults, **options})
        super().__init__(teacher, student, losses, same_tokens=same_tokens, seed=seed, name=name)

    @classmethod
    def losses_of(
        cls, teacher: keras.Model, student: keras.Model, **options: Any
    ) -> methods.Losses:
        """Builds the losses of a teacher and a student, with all options."""
        return cls.method(**options)


class LogitDistiller(MethodDistiller, method=methods.hinton):
    """Distils the teacher's logits, as Hinton et al. and many after them.

    Two terms, with z the logits and B the examples of the batch:

        logits = T^2 / B sum over b of KL(softmax(z_t / T) || softmax(z_s / T))
        label  = cross entropy with the gold label (`losses.gold_loss`), mean over the batch

    and ``loss = (1 - alpha) * logits + alpha * label``; `compile(loss_weights=...)` can
    change the weights. If ``label`` has none, the batches need no labels. `losses.soft_loss`
    defines `logits` for heads over tokens, spans and several labels at once.

    - Hinton: some `temperature` above 1, `alpha` to taste.
    - PD (pre-trained distillation): the defaults, on the task's text, labelled or not, with a
      student that was pre-trained as a masked language model.
    - Logit regression, as for the BiLSTM student: ``objective="logit_mse"``.
    - DistilBERT's second step: ``temperature=2, alpha=0.5``. With a span head that is
      ``0.5 (KL_start + KL_end) / 2 T^2 + 0.5 (CE_start + CE_end) / 2``.

    The batches may bring the teacher's logits along (``teacher_logits``).

    Args:
      teacher: The teacher, with a head.
      student: The student, with a head of the same kind and the same number of labels.
      same_tokens: As for `Distiller`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Keyword Args:
      objective (str): "kl_divergence", "soft_cross_entropy" (the same gradient, another value) or
        "logit_mse" (mean over classes; T is not used).
      temperature (float): T > 0.
      scale_by_t2 (bool): Whether the T^2 is there, which keeps the gradient's size as T grows.
      alpha (float): The share of the gold label, from 0 (off) to 1 (no teacher).
      head (str | None): None for the student's own; "multi_label" where a classifier's classes
        exclude nothing.
      reduction (str): "batch", or "reference" for means in which classes and padding count
        (`losses.soft_loss`).

    Raises:
      ConfigError: If an option is unknown or out of range, or asks a regression for soft targets.
      ShapeError: If teacher and student do not answer alike.

    Examples:
      >>> copy = tfdistill.load_teacher("teacher", task=data.task)
      >>> distiller = tfdistill.LogitDistiller(teacher, copy, temperature=2.0)
      >>> distiller.compile()
      >>> round(distiller.evaluate(data.dev, verbose=0, return_dict=True)["loss"], 3)
      0.0

    Reference: Hinton et al. 2015; Turc et al. 2019 (PD); Tang et al. 2019 (logit regression); Sanh
    et al. 2019, DistilBERT, section 4 (the second step).
    """

    @classmethod
    def losses_of(
        cls, teacher: keras.Model, student: keras.Model, **options: Any
    ) -> methods.Losses:
        """Builds the losses, and checks that the two answer alike; see the class."""
        losses = methods.hinton(**options)
        answers.check_answers(teacher, student, options["head"], options["objective"])
        return losses


class JointDistiller(MethodDistiller, method=methods.joint):
    """Distils the teacher's answers and its hidden states in one stage.

    Three terms, with z the logits, B the examples of the batch, N its real tokens, t and s the
    hidden states after a layer, d the teacher's width, K the student's layers, g the layer map and
    P the identity or, where the widths differ, one Dense layer:

        logits = T^2 / B sum over b of KL(softmax(z_t / T) || softmax(z_s / T))
        hidden = 1 / K sum over i < K of 1 / (N d) sum over tokens n of |P s_in - t_g(i)n|^2
        label  = cross entropy with the gold label, mean over the batch

    and ``loss = logits + hidden + 0 * label``; `compile(loss_weights=...)` changes the weights.
    Below T = 1, which sharpens a teacher, there is no factor T^2. If ``label`` has no weight, the
    batches need no labels.

    Args:
      teacher: The teacher, with a head; where there are no hidden states, any function from
        features to logits.
      student: The student, with a head of the same kind; see `tfdistill.build_student`.
      same_tokens: As for `Distiller`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Keyword Args:
      objective (str): Of ``logits``: "kl_divergence", "soft_cross_entropy", or "logit_mse" (for a
        regression: the mean over outputs of squared differences; T is not used).
      temperature (float): T > 0.
      layer_map (str | Sequence[int]): "uniform", "top", "bottom" or a list, as for
        `losses.layer_map`.
      hidden_states (bool): Whether the term ``hidden`` is there.
      head (str | None): None for the student's own; "multi_label" where a classifier's classes
        exclude nothing.

    Raises:
      ConfigError: If an option is unknown or out of range.
      ShapeError: If the student has more layers than the teacher, or another vocabulary.

    Examples:
      >>> distiller = tfdistill.JointDistiller(teacher, student, temperature=2.0)
      >>> distiller.compile(tfdistill.adamw(1e-3), loss_weights={"hidden": 0.1})
      >>> distiller.active_terms
      ('logits', 'hidden')

    Reference: the prediction layer of Jiao et al. 2020, TinyBERT, equation 10, and its hidden
    states, equation 8, which are learnt there one after the other.
    """


class PatientDistiller(MethodDistiller, method=methods.patient):
    """Distils answers and [CLS] states, as BERT-PKD.

    Three terms, with g the layer map (`patient_layer_map`) over K student layers, t and s the [CLS]
    states after a layer, d their width and B the examples of the batch:

        label   = cross entropy with the gold label, mean over the batch
        logits  = T^2 / B sum over b of KL(softmax(z_t / T) || softmax(z_s / T))
        patient = 1 / (K B d) sum over i < K, b of |t_gib / |t_gib| - s_ib / |s_ib||^2

    and ``loss = alpha * label + (1 - alpha) * logits + beta * patient``. (The paper writes
    alpha on the soft targets and 1 - alpha on the label.)

    Args:
      teacher: The fine-tuned teacher.
      student: The student, as wide as the teacher unless there are projections.
      same_tokens: As for `Distiller`.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Keyword Args:
      alpha (float): The share of the gold label, from 0 to 1. The paper searched 0.3, 0.5 and 0.8.
      beta (float): The weight of the patient term, at least 0. The paper searched 10, 100, 500,
        1000.
      temperature (float): T. The paper searched 5, 10 and 20.
      layer_map (str | Sequence[int]): "skip" (PKD-Skip: evenly spaced), "last" (PKD-Last) or a
        list.
      projection (str): "none" as published, or "per_layer": a Dense for each compared layer that
        maps the student's [CLS] state to the teacher's width; it learns with the student.
      objective (str): Of ``logits``: "kl_divergence" as published, "soft_cross_entropy" or
        "logit_mse" (for a regression).
      head (str | None): None for the student's own; "multi_label" where a classifier's classes
        exclude nothing.
      reduction (str): Of ``logits``: "batch", or "reference", the published mean, over the classes
        too.

    Raises:
      ConfigError: If an option is unknown or out of range.
      ShapeError: If teacher and student do not answer alike, or their widths differ without
        projections.

    Examples:
      >>> distiller = tfdistill.PatientDistiller(teacher, student, alpha=0.3, beta=10.0)
      >>> {name: loss.weight for name, loss in distiller.losses_by_name.items()}
      {'label': 0.3, 'logits': 0.7, 'patient': 10.0}

    Reference: Sun et al. 2019, Patient Knowledge Distillation for BERT Model Compression,
    equations 6 to 8.
    """

    @classmethod
    def losses_of(
        cls, teacher: keras.Model, student: keras.Model, **options: Any
    ) -> methods.Losses:
        """Builds the losses, and checks that the two answer alike; see the class."""
        losses = methods.patient(**options)
        answers.check_answers(teacher, student, options["head"], options["objective"])
        return losses


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

    @classmethod
    def losses_of(
        cls, teacher: keras.Model, student: keras.Model, **options: Any
    ) -> methods.Losses:
        """Checks that both guess masked words, and builds the losses; see the class."""
        words.check_masked_lm(teacher, "teacher")
        words.check_masked_lm(student, "student")
        return methods.distilbert(**options)
