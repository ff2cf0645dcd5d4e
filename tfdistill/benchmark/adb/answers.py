"""The answers of a device against those of the host: the same file, the same examples."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import deployment
from tfdistill.benchmark.adb.layout import SignatureLayout
from tfdistill.benchmark.host import isolated
from tfdistill.benchmark.subjects import Subject

Outputs = Sequence[np.ndarray]
Metric = Callable[[Sequence[np.ndarray]], Mapping[str, float]]


def of_host(
    subject: Subject,
    layout: SignatureLayout,
    feeds: Sequence[deployment.Feed],
    *,
    before_each: Callable[[], object] = lambda: None,
) -> list[list[np.ndarray]]:
    """Runs a file on this machine, in a process of its own.

    Args:
      subject: The file.
      layout: Of the entry point.
      feeds: Examples without padding.
      before_each: Called before each example; may end it with KeyboardInterrupt.

    Returns:
      For each example its outputs, in the layout's order.

    Raises:
      BenchmarkError: If LiteRT cannot run the file.
    """
    found = []
    with isolated.open_isolated(subject.file.resolve()) as interpreter:
        run = interpreter.get_signature_runner(layout.signature)
        for feed in feeds:
            before_each()
            values = deployment.feed_of(layout, feed)
            answered = run(**{t.label: v for t, v in zip(layout.inputs, values, strict=True)})
            found.append([answered[tensor.label] for tensor in layout.outputs])
    return found


def compare(
    case: schema.BenchmarkCase,
    host: Sequence[np.ndarray],
    device: Sequence[np.ndarray],
    *,
    metric: Metric | None = None,
    span: bool = False,
) -> schema.AnswerComparison:
    """Compares the answers to some examples. Pure.

    Args:
      case: Where the device's answers come from.
      host: For each example what `answer_of` makes of its outputs.
      device: The same, from the device.
      metric: From the answers to the task's metrics.
      span: Whether the answers are starts and ends: the largest is then sought among the tokens.

    Returns:
      The comparison. Two examples agree where the largest elements have the same indices; where
      there is only one number, they neither agree nor differ.

    Raises:
      BenchmarkError: If an answer is not finite.
    """
    for where, answers in (("host", host), ("device", device)):
        broken = sum(not np.all(np.isfinite(answer)) for answer in answers)
        if broken:
            raise errors.BenchmarkError(
                f"answers of {case.model} on the {where}",
                "finite numbers",
                f"others for {broken} of {len(answers)} examples",
                "Float16 overflows where float32 does not: export with a small finite mask, "
                f"or leave {case.delegate} out."
                if where == "device"
                else "Export it again.",
            )
    axis = 0 if span else -1
    pairs = [(np.float64(a), np.float64(b)) for a, b in zip(host, device, strict=True)]
    counted = [(a.argmax(axis), b.argmax(axis)) for a, b in pairs if a.shape[axis] > 1]
    noise = sum(float(np.square(a - b).sum()) for a, b in pairs)
    signal = sum(float(np.square(a).sum()) for a, _ in pairs)
    found = [{} if metric is None else dict(metric(answers)) for answers in (device, host)]
    return schema.AnswerComparison(
        **case.model_dump(),
        num_examples=len(pairs),
        max_abs_error=max(float(np.abs(a - b).max()) for a, b in pairs),
        sqnr_db=10 * math.log10(max(signal, sys.float_info.min) / noise) if noise else None,
        argmax_agreement=(
            sum(bool(np.all(a == b)) for a, b in counted) / len(counted) if counted else None
        ),
        metrics={name: float(value) for name, value in found[0].items()},
        host_metrics={name: float(value) for name, value in found[1].items()},
    )


def is_span(layout: SignatureLayout) -> bool:
    """Tells whether a file answers with starts and ends."""
    return sorted(_kind(tensor.label) for tensor in layout.outputs) == ["end", "start"]


def answer_of(layout: SignatureLayout, outputs: Outputs, tokens: int) -> np.ndarray:
    """Brings one example's outputs into the form that metrics take.

    Args:
      layout: Names the outputs.
      outputs: In its order, each with a batch of 1 in front.
      tokens: Of the example, without padding.

    Returns:
      float32 (num_labels,); of outputs for each token (tokens, num_labels); of starts and ends
      (tokens, 2). Of several other outputs the first.
    """
    if is_span(layout):
        kinds = [_kind(tensor.label) for tensor in layout.outputs]
        pair = [outputs[kinds.index(kind)][0] for kind in ("start", "end")]
        return np.stack(pair, axis=-1)[:tokens].astype(np.float32)
    first = np.asarray(outputs[0][0], np.float32)
    return first[:tokens] if first.ndim > 1 else np.atleast_1d(first)


def _kind(label: str) -> str:
    return next((kind for kind in ("start", "end") if kind in label.lower()), "")
