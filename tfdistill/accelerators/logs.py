"""What LiteRT says about operators that it leaves to the CPU, read from its log."""

from __future__ import annotations

import dataclasses
import re

_UNSUPPORTED = "Following operations are not supported by GPU delegate:"
_SHARES = re.compile(
    r"^(?:(?P<some>\d+) operations will run on the GPU, and the remaining (?P<left>\d+) "
    r"operations will run on the CPU\.|No operations will run on the GPU, and all (?P<all>\d+) "
    r"operations will run on the CPU\.)",
    re.M,
)
_REASON = re.compile(r"^(?P<operator>[A-Z][A-Z0-9_]+): ?(?P<reason>.*)$")
_PARTITIONED = re.compile(
    r"Partitioned subgraph<(?P<graph>\d+)>, selected (?P<some>\d+) ops, from a total of "
    r"(?P<all>\d+) ops\. resulted in (?P<partitions>\d+) partitions"
)


@dataclasses.dataclass(frozen=True)
class Share:
    """How a subgraph was divided."""

    delegated: int  # operators that the accelerator takes
    partitions: int | None  # chains of operators that it takes; None where the log does not say
    reasons: dict[str, str]  # operator -> why it is not taken


def gpu_shares(log: str) -> list[Share]:
    """Reads the subgraphs that the GPU does not take whole, in the order of the file."""
    shares: list[Share] = []
    position = 0
    for match in _SHARES.finditer(log):
        block = log[position : match.start()]
        position = match.end()
        reasons = {}
        if _UNSUPPORTED in block:
            for line in block.rsplit(_UNSUPPORTED, 1)[1].splitlines():
                if reason := _REASON.match(line.strip()):
                    reasons[reason["operator"]] = reason["reason"].strip()
        if match["all"]:
            shares.append(Share(0, None, reasons))
        else:
            shares.append(Share(int(match["some"]), None, reasons))
    return shares


def npu_shares(log: str) -> dict[int, Share]:
    """Reads how an NPU's compiler divides the subgraphs, by their index."""
    return {
        int(match["graph"]): Share(int(match["some"]), int(match["partitions"]), {})
        for match in _PARTITIONED.finditer(log)
    }


def last_words(log: str) -> str:
    """Returns the last lines of a log that tell of a failure."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("INFO:", "I0000", "[LITERT_TOOLS"))]
    return " | ".join(line[:200] for line in telling[-3:]) or "none"
