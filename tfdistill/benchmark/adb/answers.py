"""The answers of a device against those of the host: the same file, the same examples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import output, tool
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.adb.tool import SignatureLayout
from tfdistill.benchmark.subjects import Subject
from tfdistill.tflite import TfliteModel, agreement
from tfdistill.tflite.model import rows_of, side_of

_CHUNK = 16  # examples that are answered in one trip to the device

Outputs = Sequence[np.ndarray]
Feed = Mapping[str, Sequence[int]]
Metric = Callable[[Sequence[np.ndarray]], Mapping[str, float]]


def of_host(
    subject: Subject,
    layout: SignatureLayout,
    feeds: Sequence[Feed],
    *,
    before_each: Callable[[], object] = lambda: None,
) -> list[list[np.ndarray]]:
    """Runs a file on this machine, in a process of its own.

    Returns for each example its outputs, in the layout's order.
    """
    outputs = []
    with TfliteModel(subject.file, isolated=True) as model:
        for feed in feeds:
            before_each()
            outputs.append(model.run(layout, feed_of(layout, feed)))
    return outputs


def of_device(
    phone: Phone, folder: str, command: tool.ToolCommand, num_examples: int, *, what: str
) -> list[list[np.ndarray]]:
    """Runs the tool once for each of some examples.

    Returns for each example its outputs, in the layout's order, of their full shapes.
    """
    outputs = []
    for first in range(0, num_examples, _CHUNK):
        last = min(first + _CHUNK, num_examples)
        outputs += _chunk_of_device(phone, folder, command, first, last, what=what)
    return outputs


def _chunk_of_device(
    phone: Phone, folder: str, command: tool.ToolCommand, first: int, last: int, *, what: str
) -> list[list[np.ndarray]]:
    remote, layout = f"{folder}/{tool.ANSWERS_FILE}", command.layout
    phone.shell(["rm", "-f", remote])
    arguments = tool.answer_arguments(command, folder, first, last)
    done = phone.shell(arguments, timeout_s=tool.timeout_s(command), check=False)
    printed = output.parse(done.printed, what=what, exit_code=done.exit_code)
    command.api.coverage(printed, command.delegate, layout, what=what)
    content = phone.read(remote)
    size = sum(tensor.num_bytes for tensor in layout.outputs)
    if len(content) != size * (last - first):
        raise errors.BenchmarkError(
            f"outputs of {what}",
            f"{last - first} times {size} bytes",
            f"{len(content)} bytes",
            "Is the storage of the device full?",
        )
    return [split_outputs(layout, content[at : at + size]) for at in range(0, len(content), size)]


def compare_outputs(
    case: schema.BenchmarkCase,
    layout: SignatureLayout,
    feeds: Sequence[Feed],
    host: Sequence[Outputs],
    device: Sequence[Outputs],
    *,
    metric: Metric | None = None,
) -> schema.AnswerComparison:
    """Compares the outputs of the device with those of the host, example by example."""
    tokens = [len(feed["input_ids"]) for feed in feeds]
    host_answers, device_answers = (
        [rows_of(layout, outputs, n) for outputs, n in zip(side, tokens, strict=True)]
        for side in (host, device)
    )
    return compare(case, host_answers, device_answers, metric=metric, span=is_span(layout))


def compare(
    case: schema.BenchmarkCase,
    host: Sequence[np.ndarray],
    device: Sequence[np.ndarray],
    *,
    metric: Metric | None = None,
    span: bool = False,
) -> schema.AnswerComparison:
    """Compares the answers to some examples. Pure.

    Returns the comparison. Two examples agree where the largest elements have the same indices;
    where there is only one number, they neither agree nor differ.
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
    decided = [
        [answer.argmax(axis) for answer in answers if answer.shape[axis] > 1]
        for answers in (host, device)
    ]
    flat = [np.concatenate([answer.reshape(-1, 1) for answer in side]) for side in (host, device)]
    measured = agreement.compare(*flat, decisions=decided, floor=sys.float_info.min)
    scores = [{} if metric is None else dict(metric(answers)) for answers in (device, host)]
    return schema.AnswerComparison(
        **case.model_dump(),
        num_examples=len(host),
        max_abs_error=measured.max_abs_error,
        sqnr_db=measured.sqnr_db,
        argmax_agreement=measured.argmax_agreement,
        metrics={name: float(value) for name, value in scores[0].items()},
        host_metrics={name: float(value) for name, value in scores[1].items()},
    )


def is_span(layout: SignatureLayout) -> bool:
    """Tells whether a file answers with starts and ends."""
    return sorted(side_of(tensor.name) for tensor in layout.outputs) == ["end", "start"]


def feed_of(layout: SignatureLayout, feed: Feed) -> list[np.ndarray]:
    """Pads one example to the length of an entry point.

    Returns one array an input, in the layout's order, of its dtype and shape.
    """
    ids = feed["input_ids"]
    if len(ids) > layout.sequence_length:
        raise errors.BenchmarkError(
            f"example for signature {layout.key}",
            f"at most {layout.sequence_length} tokens",
            len(ids),
            "Encode the examples for the file's own length.",
        )
    return layout.padded(ids, feed["token_type_ids"])


def split_outputs(layout: SignatureLayout, content: bytes) -> list[np.ndarray]:
    """Splits what the tool dumped into outputs, in the layout's order, of their full shapes."""
    arrays, at = [], 0
    for tensor in layout.outputs:
        part = content[at : at + tensor.num_bytes]
        arrays.append(np.frombuffer(part, tensor.dtype).reshape(tensor.shape))
        at += tensor.num_bytes
    return arrays
