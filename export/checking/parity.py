"""How far two sets of outputs agree: pure functions of arrays.

With m the model's outputs and f the file's, both (n, outputs), and e = m - f:
max_abs_error = max |e|, mean_abs_error = mean |e|, output_rms = sqrt(mean m^2),
sqnr_db = 10 log10(sum m^2 / sum e^2); means run over examples and outputs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from tfdistill import errors

from ..conversion.quantize import Bounds
from ..model.heads import neighbours

_NEIGHBOURS = 10
_ONE_SIDED = 1.645  # standard errors: 5% of a normal distribution lie beyond
_ROUNDING = 1e-9  # of decimal bounds such as 1 - 0.97


@dataclasses.dataclass(frozen=True)
class Agreement:
    """How far a file agrees with its model.

    Attributes:
      num_examples: Rows compared: examples or, where a model answers for tokens, tokens.
      output_rms: Root mean square of the model's outputs.
      max_abs_error: Largest absolute difference.
      mean_abs_error: Mean absolute difference.
      sqnr_db: Signal to quantization noise, in dB; None where the two are equal bit for bit.
      argmax_agreement: Share of decisions that are the same; None where nothing is decided.
      num_decisions: Decisions compared.
    """

    num_examples: int
    output_rms: float
    max_abs_error: float
    mean_abs_error: float
    sqnr_db: float | None
    argmax_agreement: float | None
    num_decisions: int


def compare(
    model: np.ndarray,
    file: np.ndarray,
    *,
    decisions: Sequence[np.ndarray | None] | None = None,
) -> Agreement:
    """Compares the outputs of a model and of a file on the same examples.

    Args:
      model: (n, outputs), n at least 1.
      file: (n, outputs). A NaN or infinity in it makes every error infinite.
      decisions: What is decided from each of the two, (m,) or (m, parts), all parts of which must
        be the same; see `rows.decisions`. None compares the largest output of each row.

    Returns:
      The agreement.

    Raises:
      ShapeError: If the shapes differ or there is no example.
      ExportError: If the model itself gives NaN or infinity.
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
    noise = float(np.sum(error**2))
    signal = float(np.sum(model**2))
    sqnr = None
    if noise:
        sqnr = 10 * math.log10(signal / noise) if signal else -math.inf
    return Agreement(
        len(model), rms, float(np.abs(error).max()), float(np.abs(error).mean()), sqnr, same, count
    )


def compare_vectors(model: np.ndarray, file: np.ndarray) -> dict[str, float]:
    """Compares vectors of the same texts by direction, and by which texts are near each other.

    Args:
      model: (n, width).
      file: (n, width).

    Returns:
      "min_cosine", the smallest ``cos(m_i, f_i)``, and, of two texts or more,
      "neighbour_agreement": with M_i and F_i the ten nearest other texts of text i by cosine (fewer
      where there are fewer texts), the mean over i of ``|M_i & F_i| / |M_i|``.
    """
    model, file = np.asarray(model, np.float64), np.asarray(file, np.float64)
    lengths = np.linalg.norm(model, axis=1) * np.linalg.norm(file, axis=1)
    cosines = (model * file).sum(axis=1) / np.maximum(lengths, 1e-12)
    found = {"min_cosine": float(cosines.min())}
    count = min(_NEIGHBOURS, len(model) - 1)
    if count > 0:
        both = zip(neighbours(model, count), neighbours(file, count), strict=True)
        found["neighbour_agreement"] = float(np.mean([np.isin(m, f).mean() for m, f in both]))
    return found


def _same(model: np.ndarray | None, file: np.ndarray | None) -> tuple[float | None, int]:
    """Returns the share of equal decisions and their number."""
    if model is None or file is None or not len(model):
        return None, 0
    equal = (model == file).reshape(len(model), -1).all(axis=1)
    return float(np.mean(equal)), len(equal)


def violations(agreement: Agreement, bounds: Bounds, *, where: str = "") -> list[str]:
    """Lists the bounds that an agreement breaks.

    Of n decisions, ceil(n * (1 - argmax_agreement)) may change: among few examples one on the
    border between two classes must not decide.

    Args:
      agreement: What was measured.
      bounds: What is allowed.
      where: Put before each line, for example "len32: ".

    Returns:
      One line for each broken bound; empty if none is.
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

    ``max(bound, 2 / n, 1.645 sqrt(k) / m)``: a metric of n examples moves in steps of about 1 / n,
    and where k of m decisions change, each for better or worse by chance, the share of right ones
    has a standard error of at most ``sqrt(k) / m`` and falls by more than that in 5% of the cases
    (McNemar, 1947, one-sided).

    Args:
      bound: What is allowed of a large set.
      num_examples: Examples n behind the metric.
      agreement: How many decisions changed; without it the third term is 0.
    """
    chance = 0.0
    if agreement is not None and agreement.argmax_agreement is not None:
        changed = agreement.num_decisions * (1 - agreement.argmax_agreement)
        chance = _ONE_SIDED * math.sqrt(changed) / agreement.num_decisions
    return max(bound, 2 / num_examples, chance)


def metric_violations(
    model: dict[str, float], file: dict[str, float], primary: str, allowed: float
) -> list[str]:
    """Lists whether the task's primary metric falls too far from the model to the file.

    Args:
      model: The model's metrics by name; higher is better.
      file: The file's metrics by name.
      primary: Name of the metric that counts.
      allowed: The most that it may fall.

    Returns:
      One line, or none.
    """
    if model[primary] - file[primary] <= allowed + _ROUNDING:
        return []
    return [
        f"{primary}: expected a drop of at most {allowed:.4g}, "
        f"received {model[primary]:.4g} -> {file[primary]:.4g} "
        "(`tfdistill export --quantize auto` looks for a format that keeps it)"
    ]
