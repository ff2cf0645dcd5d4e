"""The agreement of two sets of outputs: one measurement for all callers, and named bounds.

With m the reference's outputs and f the file's, both (n, outputs), and e = m - f:
max_abs_error = max |e|, mean_abs_error = mean |e|, output_rms = sqrt(mean m^2),
sqnr_db = 10 log10(sum m^2 / sum e^2); means run over examples and outputs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.results import quantities

_Choice = Callable[[float, float], float]
_NEIGHBOURS = 10
_MOST_NEIGHBOURS = 4096  # rows whose nearest others are looked for
_SIMILAR = 6  # decimals of a cosine; equal texts are equally near
_ONE_SIDED = 1.645  # standard errors: 5% of a normal distribution lie beyond
_ROUNDING = 1e-9  # of decimal bounds such as 1 - 0.97


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The bounds of a file's difference from its model; beyond one of them it is not written.

    Errors are relative to the root mean square of the model's outputs, so that the bounds hold for
    logits of any scale.
    """

    max_error: float  # largest |model - file| / rms(model)
    mean_error: float  # largest mean |model - file| / rms(model)
    sqnr_db: float  # smallest 10 log10(sum model^2 / sum (model - file)^2), in dB
    argmax_agreement: float  # smallest share of examples with the same class, in [0, 1]
    metric_drop: float  # most that the task's primary metric may fall (model - file)

    def replace(self, changes: Mapping[str, float]) -> Bounds:
        """Returns a copy with some bounds changed."""
        names = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in names:
                raise errors.ConfigError(
                    "bounds", "names of bounds", repr(name), errors.nearest(name, names)
                )
        return dataclasses.replace(self, **changes)

    def loosest(self, other: Bounds) -> Bounds:
        """Returns, bound by bound, the one of the two that allows more."""
        return self._joined(other, most=max, least=min)

    def tightest(self, other: Bounds) -> Bounds:
        """Returns, bound by bound, the one of the two that allows less."""
        return self._joined(other, most=min, least=max)

    def _joined(self, other: Bounds, *, most: _Choice, least: _Choice) -> Bounds:
        """Chooses of two bounds that are the most allowed, and of two that are the least."""
        return Bounds(
            max_error=most(self.max_error, other.max_error),
            mean_error=most(self.mean_error, other.mean_error),
            sqnr_db=least(self.sqnr_db, other.sqnr_db),
            argmax_agreement=least(self.argmax_agreement, other.argmax_agreement),
            metric_drop=most(self.metric_drop, other.metric_drop),
        )

    def as_dict(self) -> dict[str, float]:
        """Returns the bounds by name."""
        return dataclasses.asdict(self)


# Where the bounds come from. Classifiers of 2 to 12 layers with random weights of ordinary size
# agree with their files to 115-125 dB in float32, 58-61 dB in float16 and 28-32 dB in
# dynamic_wi8_afp32; the least favourable real one, a linear probe of 0.69 accuracy on a 6 x 384
# encoder that was never fine-tuned, to 22.7 dB with 0.975 of the classes the same. GELU by tanh
# instead of erf leaves 70 dB; a lost bias, unmasked padding, mixed-up token types or positions, a
# twentieth of the vocabulary zeroed leave -2 to 19 dB and each break one of those bounds.
# int4 weights and int8 activations cost more: 24 to 28 dB on a 3 x 192 student of SST-2 with 0.99
# of the classes the same, 12 to 21 dB on 2 x 32 random ones; a layer that is lost still leaves less
# than the coarse bounds allow. What collapses (a MobileBERT of random weights: 2 dB) is refused.
FLOAT32 = Bounds(
    max_error=1e-3, mean_error=1e-4, sqnr_db=80.0, argmax_agreement=0.999, metric_drop=0.002
)
FLOAT16 = Bounds(
    max_error=0.02, mean_error=2e-3, sqnr_db=45.0, argmax_agreement=0.995, metric_drop=0.005
)
INT8 = Bounds(max_error=0.5, mean_error=0.1, sqnr_db=17.0, argmax_agreement=0.95, metric_drop=0.01)
COARSE = Bounds(
    max_error=1.0, mean_error=0.25, sqnr_db=10.0, argmax_agreement=0.9, metric_drop=0.02
)

# Golden outputs against those of the same file on another CPU, which agree far better.
GOLDEN_DB = 20.0
# Probabilities and features of a copy of a file with the same weights: they differ by 1e-7.
SAME_OUTPUTS = 1e-5


@dataclasses.dataclass(frozen=True)
class Agreement:
    """The agreement of a file with its model."""

    num_examples: int  # rows compared: examples or, where a model answers for tokens, tokens
    output_rms: float  # root mean square of the model's outputs
    max_abs_error: float  # largest absolute difference
    mean_abs_error: float  # mean absolute difference
    # signal to quantization noise, in dB; None where the two are equal bit for bit
    sqnr_db: float | None
    # share of decisions that are the same; None where nothing is decided
    argmax_agreement: float | None
    num_decisions: int  # decisions compared


def ratio_db(signal: float, noise: float, *, floor: float = 0.0) -> float | None:
    """Returns 10 log10(signal / noise) of two sums of squares, the signal at least `floor`.

    None without noise, -inf without signal.
    """
    if not noise:
        return None
    signal = max(signal, floor)
    return 10 * math.log10(signal / noise) if signal else -math.inf


def compare(
    model: np.ndarray,
    file: np.ndarray,
    *,
    decisions: Sequence[Any] | None = None,
    floor: float = 0.0,
) -> Agreement:
    """Compares the outputs of a reference and of a file on the same examples, (n, outputs) each.

    A NaN or infinity in the file makes every error infinite; one in the reference is an
    ExportError. `decisions` is what is decided from each of the two, (m,) or (m, parts), all parts
    of which must be the same; also m arrays of different sizes. None compares the largest output of
    each row, (None, None) nothing. `floor` is that of `ratio_db`.
    """
    model = np.asarray(model, np.float64)
    file = np.asarray(file, np.float64)
    if model.ndim != 2 or model.shape != file.shape or not model.size:
        raise errors.ShapeError("outputs to compare", f"two of shape {model.shape}", file.shape)
    if not np.isfinite(model).all():
        raise errors.ExportError(
            "model to export",
            "finite outputs",
            f"NaN or infinity on {int((~np.isfinite(model)).any(axis=1).sum())} examples",
            "Train it again, or load an earlier checkpoint.",
        )
    rms = float(np.sqrt(np.mean(model**2)))
    if decisions is None and model.shape[1] > 1:
        decisions = model.argmax(axis=1), file.argmax(axis=1)
    same, count = _same(*(decisions or (None, None)))
    if not np.isfinite(file).all():
        return Agreement(len(model), rms, math.inf, math.inf, -math.inf, same, count)
    error = model - file
    sqnr = ratio_db(float(np.sum(model**2)), float(np.sum(error**2)), floor=floor)
    return Agreement(
        len(model), rms, float(np.abs(error).max()), float(np.abs(error).mean()), sqnr, same, count
    )


def neighbours(vectors: np.ndarray, count: int) -> np.ndarray:
    """The `count` nearest other rows of each row of (n, width) by cosine, of the first 4,096 rows.

    Returns int64 (n, count), the nearest first; of equally near ones the first. All -1 where a
    vector is not finite.
    """
    rows = np.asarray(vectors[:_MOST_NEIGHBOURS], np.float64)
    if not np.isfinite(rows).all():
        return np.full((len(rows), count), -1)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    cosines = np.round(rows @ rows.T, _SIMILAR)
    np.fill_diagonal(cosines, -np.inf)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :count]


def compare_vectors(model: np.ndarray, file: np.ndarray) -> dict[str, float]:
    """Compares vectors (n, width) of the same texts by direction and by their neighbours.

    Returns "min_cosine", the smallest ``cos(m_i, f_i)``, and, of two texts or more,
    "neighbour_agreement": with M_i and F_i the ten nearest other texts of text i by cosine (fewer
    where there are fewer texts), the mean over i of ``|M_i & F_i| / |M_i|``.
    """
    model, file = np.asarray(model, np.float64), np.asarray(file, np.float64)
    lengths = np.linalg.norm(model, axis=1) * np.linalg.norm(file, axis=1)
    cosines = (model * file).sum(axis=1) / np.maximum(lengths, 1e-12)
    near = {"min_cosine": float(cosines.min())}
    count = min(_NEIGHBOURS, len(model) - 1)
    if count > 0:
        both = zip(neighbours(model, count), neighbours(file, count), strict=True)
        near["neighbour_agreement"] = float(np.mean([np.isin(m, f).mean() for m, f in both]))
    return near


def _same(model: Any, file: Any) -> tuple[float | None, int]:
    """Returns the share of equal decisions and their number."""
    if model is None or file is None or not len(model):
        return None, 0
    if isinstance(model, np.ndarray):
        equal = (model == file).reshape(len(model), -1).all(axis=1)
    else:
        equal = [np.array_equal(first, second) for first, second in zip(model, file, strict=True)]
    return float(np.mean(equal)), len(equal)


def violations(agreement: Agreement, bounds: Bounds, *, where: str = "") -> list[str]:
    """Lists the bounds that an agreement breaks, a line each that begins with `where`.

    Of n decisions, ceil(n * (1 - argmax_agreement)) may change: among few examples one on the
    border between two classes must not decide.
    """
    faults = []

    def fault(name: str, expected: str, received: float, unit: str = "") -> None:
        faults.append(f"{where}{name}: expected {expected}{unit}, received {received:.4g}{unit}")

    scale = agreement.output_rms or 1.0
    largest = agreement.max_abs_error / scale
    mean = agreement.mean_abs_error / scale
    if not largest <= bounds.max_error:
        fault("max error / rms", f"at most {bounds.max_error:g}", largest)
    if not mean <= bounds.mean_error:
        fault("mean error / rms", f"at most {bounds.mean_error:g}", mean)
    if agreement.sqnr_db is not None and not agreement.sqnr_db >= bounds.sqnr_db:
        fault("SQNR", f"at least {bounds.sqnr_db:g}", agreement.sqnr_db, " dB")
    if agreement.argmax_agreement is not None:
        changed = round(agreement.num_decisions * (1 - agreement.argmax_agreement))
        allowed = agreement.num_decisions * (1 - bounds.argmax_agreement)
        if changed > math.ceil(allowed - _ROUNDING):
            fault(
                "argmax agreement",
                f"at least {bounds.argmax_agreement:g}",
                agreement.argmax_agreement,
            )
    return faults


def allowed_drop(bound: float, num_examples: int, agreement: Agreement | None = None) -> float:
    """The most that a metric may fall: its bound, or what chance explains on so few examples.

    ``max(ceil(bound n) / n, 2 / n, 1.645 sqrt(k) / m)``: a metric of n examples moves in steps of
    about 1 / n, and where k of m decisions change, each for better or worse by chance, the share of
    right ones has a standard error of at most ``sqrt(k) / m`` and falls by more than that in 5% of
    the cases (McNemar, 1947, one-sided). Without an agreement the third term is 0.
    """
    chance = 0.0
    if agreement is not None and agreement.argmax_agreement is not None:
        changed = agreement.num_decisions * (1 - agreement.argmax_agreement)
        chance = _ONE_SIDED * math.sqrt(changed) / agreement.num_decisions
    examples = max(2, math.ceil(bound * num_examples - _ROUNDING))
    return max(examples / num_examples, chance)


def metric_violations(
    model: dict[str, float], file: dict[str, float], primary: str, allowed: float
) -> list[str]:
    """Says in a line, or none, that the task's primary metric falls by more than is allowed."""
    if model[primary] - file[primary] <= allowed + _ROUNDING:
        return []
    shown = quantities.apart(model[primary], file[primary], 4)
    return [
        f"{primary}: expected a drop of at most {allowed:.4g}, received {' -> '.join(shown)} "
        "(`tfdistill export --quantize auto` looks for a format that keeps it)"
    ]
