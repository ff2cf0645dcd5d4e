"""What XNNPACK, LiteRT's fast path on processors, takes over of a file.

It takes chains of operators, each as one; between them LiteRT's own kernels run, and numbers are
handed over. The fewer the chains the better: one, or two, of a good file. LiteRT decides when it
opens the file, so the file is opened, in a process of its own that a damaged one cannot take along:
``python -m export.file.delegation FILE`` writes JSON.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from ai_edge_litert import interpreter as litert

from tfdistill import errors, files

from . import child, flatbuffer


@dataclasses.dataclass(frozen=True)
class Delegation:
    """What happens to one subgraph.

    Attributes:
      partitions: Number of chains that XNNPACK takes over.
      left_operators: Operators that LiteRT runs itself: name -> how often.
    """

    partitions: int
    left_operators: dict[str, int]


def delegate(path: files.Path, *, timeout_s: float = 300) -> dict[str | None, Delegation]:
    """Opens a file in a process of its own and tells what XNNPACK takes over.

    Args:
      path: A .tflite file.
      timeout_s: Seconds after which the process is stopped.

    Returns:
      By key of the signature; by None for the only subgraph of a file without signatures. A
      signature that runs several subgraphs, as loops do, is left out.

    Raises:
      ExportError: If LiteRT cannot open the file, crashes or takes too long.
    """
    what = f"model file {path}"
    done = child.run("file.delegation", [os.path.abspath(path)], timeout_s=timeout_s, what=what)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        last = " | ".join(done.stderr.strip().splitlines()[-2:])
        raise errors.ExportError(
            errors.explain(
                what,
                "LiteRT to open it",
                f"exit code {done.returncode}. Its last words: {last or 'none'}",
                "Export it again.",
            )
        ) from None
    if "error" in answer:
        raise errors.ExportError(errors.explain(what, "LiteRT to open it", answer["error"]))
    return {row.pop("signature"): Delegation(**row) for row in answer["subgraphs"]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Opens each signature by itself; what the module runs as a program."""
    (path,) = sys.argv[1:] if arguments is None else arguments
    try:
        answer: dict[str, Any] = {"subgraphs": _subgraphs(path)}
    except (errors.ExportError, ValueError, RuntimeError, OSError) as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)


def _subgraphs(path: str) -> list[dict[str, Any]]:
    opened = litert.Interpreter(path, num_threads=1)
    keys = list(opened.get_signature_list())
    if len(keys) < 2 and opened.num_subgraphs() == 1:  # of several, only the first can be looked at
        return [{"signature": keys[0] if keys else None, **_first_subgraph(opened)}]
    del opened
    if not keys:
        return []
    rows = []
    with tempfile.TemporaryDirectory(prefix="tfdistill-delegation-") as folder:
        part = os.path.join(folder, "part.tflite")
        for key in keys:
            model = flatbuffer.read(path)
            try:
                flatbuffer.keep_signature(model, key)
            except errors.ExportError:
                continue
            flatbuffer.write(model, part)
            del model
            opened = litert.Interpreter(part, num_threads=1)
            rows.append({"signature": key, **_first_subgraph(opened)})
    return rows


def _first_subgraph(interpreter: Any) -> dict[str, Any]:
    """Walks from the outputs back to the inputs, through chains where there are any.

    LiteRT lists the operators of the file, then one for each chain; those that a chain has taken
    over stay in the list, but nothing that is still run needs them.
    """
    interpreter.allocate_tensors()
    operators = interpreter._get_ops_details()
    # A tensor's last producer is the chain, where one has taken its operator over.
    producers = {tensor: op for op in operators for tensor in op["outputs"]}
    waiting = [detail["index"] for detail in interpreter.get_output_details()]
    found: dict[int, str] = {}
    while waiting:
        operator = producers.get(waiting.pop())
        if operator is not None and operator["index"] not in found:
            found[operator["index"]] = operator["op_name"]
            waiting += [tensor for tensor in operator["inputs"] if tensor >= 0]
    left = collections.Counter(found.values())
    partitions = left.pop("DELEGATE", 0)
    return {"partitions": partitions, "left_operators": dict(left)}


if __name__ == "__main__":
    main()
