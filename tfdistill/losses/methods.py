"""The losses of the published methods: functions that return what a `Distiller` is given.

    distiller = tfdistill.Distiller(teacher, student, tfdistill.methods.tinybert("intermediate"))

The result is a dict; take from it, or add losses of your own. Formulas and references stand with
the distillers of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tfdistill.losses import answers, checks, embedded, layered, words
from tfdistill.losses import labels as gold_labels
from tfdistill.losses.base import LayerMap, Loss, NamedProjection, Projection

Stage = Literal["general", "intermediate", "prediction"]
STAGES: tuple[Stage, ...] = ("general", "intermediate", "prediction")
Losses = dict[str, Loss]
# MobileBERT's published weights.
TRANSFER_WEIGHTS = {"feature_map": 100.0, "mean": 5000.0, "variance": 5.0, "attention": 1.0}
WORD_WEIGHTS = {"mlm": 0.5, "logits": 0.5, "nsp": 1.0}
_TRANSFER_LOSSES = {
    "feature_map": layered.FeatureMapMSE,
    "mean": layered.FeatureMeanMSE,
    "variance": layered.FeatureVarianceMAE,
}
_ATTENTION_LOSSES = {
    "cross_entropy": layered.AttentionCrossEntropy,
    "kl_divergence": layered.AttentionKLDivergence,
}


def answer_loss(objective: str, *, weight: float = 1.0, **options: Any) -> answers.LogitLoss:
    """The loss on answers that an objective names; LogitMSE has no temperature.

    Examples:
      >>> tfdistill.methods.answer_loss("kl_divergence", temperature=2.0).weight
      1.0
    """
    checks.check_choice("objective", objective, answers.OBJECTIVES)
    if objective == "logit_mse":
        options = {key: options[key] for key in ("head", "reduction", "rows") if key in options}
    return answers.LOSSES[objective](weight=weight, **options)


def tinybert(
    stage: Stage = "intermediate",
    *,
    layer_map: LayerMap = "uniform",
    projection: Literal["shared", "per_layer", "none"] = "shared",
    layer_weights: Mapping[str, Sequence[float]] | None = None,
    objective: str = "soft_cross_entropy",
    temperature: float = 1.0,
    head: str | None = None,
    reduction: Literal["tokens", "reference"] = "tokens",
    regression: bool = False,
) -> Losses:
    """The losses of a stage of TinyBERT; see `distillers.TinyBertDistiller`.

    Args:
      stage: "general" and "intermediate" learn layers, "prediction" the answers.
      layer_map: As `layers` of `LayerLoss`.
      projection: "shared", "per_layer" or "none".
      layer_weights: "attention" and "hidden" -> a weight for each student layer.
      objective: "soft_cross_entropy", "kl_divergence" or "logit_mse".
      temperature: T of the prediction stage.
      head: As for `LogitLoss`.
      reduction: "tokens" or "reference".
      regression: Whether the answer is a number, which the prediction stage learns from the labels.

    Returns:
      Name -> loss.

    Raises:
      ConfigError: If an option is unknown or out of range.

    Examples:
      >>> list(tfdistill.methods.tinybert("prediction", temperature=2.0))
      ['logits', 'label']
    """
    checks.check_choice("stage", stage, STAGES)
    checks.check_choice("projection", projection, ("shared", "per_layer", "none"))
    checks.check_choice("reduction", reduction, ("tokens", "reference"))
    checks.check_choice("objective", objective, answers.OBJECTIVES)
    for term in layer_weights or {}:
        checks.check_choice("layer_weights", term, ("attention", "hidden"))
    if stage == "prediction":
        if regression:
            return labels(head=head)
        soft = answer_loss(
            objective,
            temperature=temperature,
            scale_by_t2=False,
            head=head,
            reduction="reference" if reduction == "reference" else "batch",
        )
        return {"logits": soft, "label": gold_labels.GoldLabels(head=head, weight=0.0)}
    projections: tuple[Projection, Projection] = ("none", "none")
    if projection != "none":
        per_layer = projection == "per_layer"
        projections = (
            NamedProjection("hidden_projection", per_layer=per_layer),
            NamedProjection("hidden_projection", per_layer=per_layer, first=1),
        )
    weights = {name: tuple(values) for name, values in (layer_weights or {}).items()}
    return {
        "attention": layered.AttentionScoreMSE(
            layers=layer_map, reduction=reduction, layer_weights=weights.get("attention", ())
        ),
        "embedding": layered.HiddenStateMSE(
            tap="embeddings", reduction=reduction, projection=projections[0]
        ),
        "hidden": layered.HiddenStateMSE(
            layers=layer_map,
            reduction=reduction,
            layer_weights=weights.get("hidden", ()),
            projection=projections[1],
        ),
    }


def hinton(
    *,
    objective: str = "kl_divergence",
    temperature: float = 1.0,
    scale_by_t2: bool = True,
    alpha: float = 0.0,
    head: str | None = None,
    reduction: Literal["batch", "reference"] = "batch",
) -> Losses:
    """The teacher's answers and a share `alpha` of the gold labels; see `LogitDistiller`.

    Examples:
      >>> {name: loss.weight for name, loss in tfdistill.methods.hinton(alpha=0.25).items()}
      {'logits': 0.75, 'label': 0.25}
    """
    checks.check_share("alpha", alpha)
    return {
        "logits": answer_loss(
            objective,
            temperature=temperature,
            scale_by_t2=scale_by_t2,
            head=head,
            reduction=reduction,
            weight=1.0 - alpha,
        ),
        "label": gold_labels.GoldLabels(head=head, weight=float(alpha)),
    }


def joint(
    *,
    objective: str = "kl_divergence",
    temperature: float = 1.0,
    layer_map: LayerMap = "uniform",
    hidden_states: bool = True,
    head: str | None = None,
) -> Losses:
    """Answers and hidden states at once; see `distillers.JointDistiller`.

    Examples:
      >>> list(tfdistill.methods.joint(temperature=2.0))
      ['logits', 'label', 'hidden']
    """
    losses: Losses = {
        # T^2 makes up for the smaller gradients above 1; below 1 it would silence the loss.
        "logits": answer_loss(
            objective, temperature=temperature, scale_by_t2=temperature >= 1, head=head
        ),
        "label": gold_labels.GoldLabels(head=head, weight=0.0),
    }
    if hidden_states:
        losses["hidden"] = layered.HiddenStateMSE(
            layers=layer_map, over_layers="mean", projection="auto"
        )
    return losses


def embedding(
    *,
    objective: Literal["vector_cosine", "vector_mse"] = "vector_cosine",
    temperature: float = 0.05,
    prefixes: Sequence[int] = (),
    layer_map: LayerMap = "uniform",
    hidden_states: bool = True,
) -> Losses:
    """A sentence encoder's vectors, their similarities, and, with weight 0, its hidden states.

    Examples:
      >>> list(tfdistill.methods.embedding(hidden_states=False))
      ['vectors', 'similarity']
    """
    checks.check_choice("objective", objective, ("vector_cosine", "vector_mse"))
    vector_loss = {"vector_cosine": embedded.VectorCosine, "vector_mse": embedded.VectorMSE}
    losses: Losses = {
        "vectors": vector_loss[objective](projection="auto"),
        "similarity": embedded.SimilarityKL(temperature=temperature, prefixes=prefixes),
    }
    if hidden_states:
        losses["hidden"] = layered.HiddenStateMSE(
            layers=layer_map, over_layers="mean", projection="auto", weight=0.0
        )
    return losses


def patient(
    *,
    alpha: float = 0.5,
    beta: float = 100.0,
    temperature: float = 10.0,
    layer_map: LayerMap = "skip",
    projection: Literal["none", "per_layer", "auto"] = "none",
    objective: str = "kl_divergence",
    head: str | None = None,
    reduction: Literal["batch", "reference"] = "batch",
) -> Losses:
    """Labels, answers and [CLS] states; see `distillers.PatientDistiller`.

    Examples:
      >>> tfdistill.methods.patient(beta=10.0)["patient"].weight
      10.0
    """
    checks.check_share("alpha", alpha)
    checks.check_number("beta", beta)
    checks.check_choice("projection", projection, ("none", "per_layer", "auto"))
    named: Projection = (
        NamedProjection("patient_projection", per_layer=True)
        if projection == "per_layer"
        else projection
    )
    options = {"temperature": temperature, "head": head, "reduction": reduction}
    return {
        "label": gold_labels.GoldLabels(head=head, weight=float(alpha)),
        "logits": answer_loss(objective, weight=1.0 - alpha, **options),
        "patient": layered.PatientMSE(
            layers=layer_map, over_layers="mean", projection=named, weight=float(beta)
        ),
    }


def minilm(
    *,
    teacher_layer: int = -1,
    student_layer: int = -1,
    num_relation_heads: int | None = None,
    reduction: Literal["tokens", "reference"] = "tokens",
) -> Losses:
    """The relations of one layer; see `distillers.MiniLmDistiller`.

    Examples:
      >>> list(tfdistill.methods.minilm(teacher_layer=-2))
      ['query', 'key', 'value']
    """
    taps: dict[str, Literal["queries", "keys", "values"]]
    taps = {"query": "queries", "key": "keys", "value": "values"}
    return {
        name: layered.RelationKL(
            vectors=vectors,
            num_relation_heads=num_relation_heads,
            layers=((teacher_layer, student_layer),),
            reduction=reduction,
        )
        for name, vectors in taps.items()
    }


def distilbert(*, temperature: float = 2.0) -> Losses:
    """DistilBERT's triple loss; see `distillers.DistilBertDistiller`.

    Examples:
      >>> {name: loss.weight for name, loss in tfdistill.methods.distilbert().items()}
      {'logits': 5.0, 'mlm': 2.0, 'cosine': 1.0}
    """
    return {
        "logits": answers.KLDivergence(temperature=temperature, rows="all", weight=5.0),
        "mlm": words.MaskedWords(weight=2.0),
        "cosine": layered.CosineDistance(layers=((-1, -1),)),
    }


def mobilebert(
    *,
    layers: LayerMap = "same",
    predict_words: bool = True,
    next_sentence: bool = True,
    attention: Literal["cross_entropy", "kl_divergence"] = "cross_entropy",
    reduction: Literal["tokens", "reference"] = "tokens",
    layer_reduction: Literal["sum", "mean"] = "sum",
) -> Losses:
    """MobileBERT's transfer and masked words; see `distillers.MobileBertDistiller`.

    Args:
      layers: As for `LayerLoss`; () for no transfer.
      predict_words: Whether masked words are learnt, too.
      next_sentence: Whether next sentences are.
      attention: "cross_entropy" or "kl_divergence".
      reduction: "tokens" or "reference".
      layer_reduction: "sum" or "mean" over the layers.

    Returns:
      Name -> loss.

    Raises:
      ConfigError: If an option is unknown.

    Examples:
      >>> list(tfdistill.methods.mobilebert(predict_words=False))
      ['feature_map', 'mean', 'variance', 'attention']
    """
    checks.check_choice("attention", attention, tuple(_ATTENTION_LOSSES))
    checks.check_choice("layer_reduction", layer_reduction, ("sum", "mean"))
    losses: Losses = {}
    if layers:
        compared = {**_TRANSFER_LOSSES, "attention": _ATTENTION_LOSSES[attention]}
        for name, weight in TRANSFER_WEIGHTS.items():
            losses[name] = compared[name](
                layers=layers, reduction=reduction, over_layers=layer_reduction, weight=weight
            )
    if predict_words:
        losses["mlm"] = words.MaskedWords(weight=WORD_WEIGHTS["mlm"])
        losses["logits"] = answers.SoftCrossEntropy(
            rows="masked", scale_by_t2=False, weight=WORD_WEIGHTS["logits"]
        )
        if next_sentence:
            losses["nsp"] = words.NextSentence(weight=WORD_WEIGHTS["nsp"])
    return losses


def labels(*, head: str | None = None) -> Losses:
    """The gold labels alone.

    Examples:
      >>> list(tfdistill.methods.labels())
      ['label']
    """
    return {"label": gold_labels.GoldLabels(head=head)}


def masked_words(*, next_sentence: bool = False) -> Losses:
    """Masked words, and next sentences, which count only where `next_sentence` is true.

    Examples:
      >>> {name: loss.weight for name, loss in tfdistill.methods.masked_words().items()}
      {'mlm': 1.0, 'nsp': 0.0}
    """
    return {
        "mlm": words.MaskedWords(),
        "nsp": words.NextSentence(weight=float(next_sentence)),
    }
