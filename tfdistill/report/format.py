"""Numbers as text: few digits, always a unit. Absent values become a dash."""

from __future__ import annotations

from collections.abc import Sequence

from tfdistill.results import quantities

ABSENT = quantities.ABSENT
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TITLES = {
    "accuracy": "Accuracy",
    "f1": "F1",
    "matthews": "Matthews correlation",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "r2": "R2",
    "auc": "AUC",
    "entity_f1": "Entity F1",
    "entity_precision": "Entity precision",
    "entity_recall": "Entity recall",
    "exact_match": "Exact match",
    "macro_f1": "Macro F1",
    "micro_f1": "Micro F1",
    "recall_at_1": "Recall at 1",
    "recall_at_10": "Recall at 10",
    "mrr": "Mean reciprocal rank",
    "ndcg_at_10": "nDCG at 10",
}
# Whose capitals stay in a sentence.
_NAMES = ("f1", "auc", "matthews", "pearson", "spearman", "r2", "ndcg_at_10")
_BASELINES = {
    "majority": "Always the same answer",
    "tfidf": "TF-IDF and a linear model",
    "word_vectors": "The teacher’s word vectors and a linear model",
    "frozen_teacher": "The frozen teacher and a linear model",
    "gazetteer": "The entities of the training set",
    "linear_tagger": "A linear model over words",
    "frozen_teacher_uncut": "The same with its whole vocabulary",
    "tfidf_cosine": "TF-IDF",
    "mean_word_vectors": "The mean of the teacher’s word vectors",
    "no_teacher": "The same student without a teacher",
}
_SHORT = {"tfidf": "TF-IDF", "tfidf_cosine": "TF-IDF", "majority": "one answer for all"}
# Shown in percent; correlations are not shares of anything.
_SHARES = ("accuracy", "f1", "entity_", "exact_match", "macro_f1", "micro_f1")


def metric_title(name: str) -> str:
    """Names a metric: "accuracy" -> "Accuracy"."""
    name, _, label = name.partition(":")
    return _TITLES.get(name, name) + (f" of {label!r}" if label else "")


def metric_words(name: str) -> str:
    """Names a metric inside a sentence: "accuracy", "Matthews correlation"."""
    title = metric_title(name)
    name, _, _ = name.partition(":")
    return title if name in _NAMES or name not in _TITLES else f"{title[0].lower()}{title[1:]}"


def baseline_title(name: str) -> str:
    """Names a baseline: "tfidf" -> "TF-IDF and a linear model"."""
    return _BASELINES.get(name, name.replace("_", " ").capitalize())


def baseline_words(name: str) -> str:
    """Names a baseline in a chart: "word_vectors" -> "word vectors"."""
    return _SHORT.get(name, name.replace("_", " "))


def is_share(name: str) -> bool:
    """Whether a metric is shown in percent."""
    return name.startswith(_SHARES)


def metric(name: str, value: float | None, *, unit: bool = True) -> str:
    """Writes a metric: 91.3% for a share, 0.512 for a correlation."""
    if value is None:
        return ABSENT
    return f"{100 * value:.1f}{'%' if unit else ''}" if is_share(name) else f"{value:.3f}"


def metric_tick(name: str, value: float) -> str:
    """Writes a metric at an axis: 85%, 87.5%, 0.55."""
    return f"{100 * value:.4g}%" if is_share(name) else f"{value:.4g}"


def metric_difference(name: str, value: float) -> str:
    """Writes a difference of metrics: "+2.1 points", or "+0.034"."""
    text = f"{100 * value:+.1f} points" if is_share(name) else f"{value:+.3f}"
    return text.replace("-", "\u2212")


def points(name: str, value: float) -> str:
    """Writes the size of a difference: "2.1 points", or "0.034"."""
    return metric_difference(name, abs(value))[1:]


def difference_interval(name: str, low: float, high: float) -> str:
    """Writes the interval of a difference: "−1.3 to +0.6 points"."""
    ends = [metric_difference(name, value) for value in (low, high)]
    return f"{ends[0].removesuffix(' points')} to {ends[1]}"


def metric_interval(name: str, low: float, high: float) -> str:
    """Writes the interval of a metric: "86.2 to 91.5%"."""
    return f"{metric(name, low, unit=False)} to {metric(name, high)}"


def mean_and_spread(name: str, mean: float | None, spread: float | None) -> str:
    """Writes a mean with its standard deviation where there is one: "91.3 ± 0.4%"."""
    if mean is None or spread is None:
        return metric(name, mean)
    unit = "%" if is_share(name) else ""
    return f"{metric(name, mean, unit=False)} ± {metric(name, spread, unit=False)}{unit}"


def ratio(value: float | None) -> str:
    """Writes a factor with three digits: 43.6×, 4.80×, 128×."""
    return ABSENT if value is None else f"{quantities.digits(value)}×"


def interval(low: float, high: float) -> str:
    """Writes an interval: "[17.9, 18.5]"."""
    return f"[{quantities.digits(low)}, {quantities.digits(high)}]"


def error(value: float) -> str:
    """Writes an error with two digits, small ones as a power of ten: 0.093, 7.1×10⁻⁶."""
    if value == 0 or value >= 1e-3:
        return quantities.digits(value, 2)
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}×10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def milliseconds(value: float | None) -> str:
    """Writes a latency: "5.19 ms", "0.0412 ms"; always in milliseconds, so that they compare."""
    return ABSENT if value is None else f"{quantities.digits(value)} ms"


def case(length: int, number: int) -> str:
    """Writes a length and a number of threads: "128 tokens, 1 thread"."""
    return f"{length} tokens, {quantities.plural(number, 'thread')}"


def join(parts: Sequence[str]) -> str:
    """Lists parts in a sentence: "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def shortened(text: str, longest: int) -> str:
    """Shortens a text in its middle, since names often differ at their ends."""
    if len(text) <= longest:
        return text
    tail = (longest - 1) * 2 // 5
    return f"{text[: longest - 1 - tail].rstrip()}…{text[-tail:].lstrip()}"
