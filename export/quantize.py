"""Quantizations as named values: how numbers are stored, and how far a file may then differ.

One grammar: ``float32`` and ``float16`` store everything in that format; otherwise
``<method>_w<type><bits>_a<type><bits>`` says when activations are quantized (dynamic: while the
model runs; static: with ranges from calibration), then the type of the weights (w) and of the
activations (a), ``i`` for integers and ``fp`` for floating point.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from tfdistill import errors

_GRAMMAR = re.compile(r"(dynamic|static)_w(i4|i8|fp16|fp32)_a(i8|i16|fp16|fp32)")


@dataclasses.dataclass(frozen=True)
class Bounds:
    """How far a file may differ from its model; beyond one of these it is not written.

    Errors are relative to the root mean square of the model's outputs, so that the bounds hold for
    logits of any scale.

    Attributes:
      max_error: Largest |model - file| / rms(model).
      mean_error: Largest mean |model - file| / rms(model).
      sqnr_db: Smallest 10 log10(sum model^2 / sum (model - file)^2), in dB.
      argmax_agreement: Smallest share of examples with the same class, in [0, 1].
      metric_drop: Most that the task's primary metric may fall (model - file).
    """

    max_error: float
    mean_error: float
    sqnr_db: float
    argmax_agreement: float
    metric_drop: float

    def replace(self, changes: Mapping[str, float]) -> Bounds:
        """Returns a copy with some bounds changed.

        Raises:
          ConfigError: If there is no bound of that name.
        """
        names = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in names:
                raise errors.ConfigError(
                    errors.explain("bounds", "known names", repr(name), errors.nearest(name, names))
                )
        return dataclasses.replace(self, **changes)

    def as_dict(self) -> dict[str, float]:
        """Returns the bounds by name."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Quantization:
    """A way to store a model's numbers.

    Attributes:
      name: The name in the grammar of this module.
      summary: What it is good for, a phrase.
      bytes_per_weight: Bytes of one element of a weight matrix or an embedding table.
      bytes_per_constant: Bytes of one element of the others: biases, scales, positions.
      bounds: How far a file may differ from its model.
    """

    name: str
    summary: str
    bytes_per_weight: int
    bytes_per_constant: int
    bounds: Bounds


# Where the bounds come from. Classifiers of 2 to 12 layers with random weights of ordinary size
# agree with their files to 115-125 dB in float32, 58-61 dB in float16 and 28-32 dB in
# dynamic_wi8_afp32; the least favourable real one, a linear probe of 0.69 accuracy on a 6 x 384
# encoder that was never fine-tuned, to 22.7 dB with 0.975 of the classes the same. GELU by tanh
# instead of erf leaves 70 dB; a lost bias, unmasked padding, mixed-up token types or positions, a
# twentieth of the vocabulary zeroed leave -2 to 19 dB and each break one of these bounds.
_ALL = (
    Quantization(
        "float32",
        "nothing lost; the reference",
        4,
        4,
        Bounds(
            max_error=1e-3,
            mean_error=1e-4,
            sqnr_db=80.0,
            argmax_agreement=0.999,
            metric_drop=0.002,
        ),
    ),
    Quantization(
        "float16",
        "half the size; computes in float32 on a CPU",
        2,
        2,
        Bounds(
            max_error=0.02,
            mean_error=2e-3,
            sqnr_db=45.0,
            argmax_agreement=0.995,
            metric_drop=0.005,
        ),
    ),
    Quantization(
        "dynamic_wi8_afp32",
        "a quarter of the size and the fastest on a CPU; weights int8, activations as they come",
        1,
        4,
        Bounds(
            max_error=0.5,
            mean_error=0.1,
            sqnr_db=17.0,
            argmax_agreement=0.95,
            metric_drop=0.01,
        ),
    ),
)
_BY_NAME = {quantization.name: quantization for quantization in _ALL}


def quantizations() -> dict[str, Quantization]:
    """Returns the quantizations that `to_tflite` offers: name -> value."""
    return dict(_BY_NAME)


def quantization(name: str) -> Quantization:
    """Returns the quantization of that name.

    Raises:
      ConfigError: If the name is not in the grammar, or in it but not offered.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    if _GRAMMAR.fullmatch(str(name)):
        expected, hint = "one that this version offers", f"Choose from {', '.join(_BY_NAME)}."
    else:
        expected, hint = "a known name", errors.nearest(name, _BY_NAME)
    raise errors.ConfigError(errors.explain("quantize", expected, repr(name), hint))
