"""Reads the operator profile that `benchmark_model` writes as CSV.

The file has a part for the start and one for the runs that count; each lists, graph by graph, the
nodes in their order, then the same again sorted and summed. Where a delegate reports what it does
inside, that follows under "Delegate internal".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfdistill import errors
from tfdistill.benchmark import schema

_RUNS = "Operator-wise Profiling Info for Regular Benchmark Runs"
_SECTION = re.compile(r"^=+ (.+?) =+$")
_INSIDE = re.compile(r"^Delegate/(.+):-?\d+$")


def parse_profile(text: str, *, what: str) -> tuple[schema.Operator, ...]:
    """Sums the time of an inference by kind of operator.

    Args:
      text: The CSV.
      what: How messages call the run.

    Returns:
      The kinds, the largest share first. A delegate that reports its operators is listed by
      them, and by its name for what remains.

    Raises:
      BenchmarkError: If no operator is listed.
    """
    nodes: dict[str, tuple[int, float]] = {}
    inside: dict[str, tuple[int, float]] = {}
    for kind, calls, milliseconds, within in _rows(text, what):
        group = inside if within else nodes
        before = group.get(kind, (0, 0.0))
        group[kind] = (before[0] + calls, before[1] + milliseconds)
    if not nodes:
        raise errors.BenchmarkError(
            f"operator profile of {what}",
            "a table of operators",
            "none" if not text.strip() else f"{text.strip()[:200]!r}",
            "Was --binary built with operator profiling? The official ones are.",
        )
    if inside:
        _replace_delegates(nodes, inside)
    found = [schema.Operator(type=k, calls=c, ms=round(ms, 6)) for k, (c, ms) in nodes.items()]
    return tuple(sorted(found, key=lambda operator: -operator.ms))


def coverage(text: str, delegate: str, num_nodes: int) -> schema.Coverage | None:
    """Counts in a profile the nodes that a delegate left over.

    Builds that do not log the number of delegated nodes still profile every node that ran.

    Args:
      text: The CSV.
      delegate: The one that was asked for.
      num_nodes: Of the graph that ran, before a delegate took some.

    Returns:
      The coverage; None where that of this delegate is unknown: none took part, or several did.
    """
    kinds = [row[0] for row in _rows(text, "profile") if not row[3]]
    ours = [kind for kind in kinds if "delegate" in kind.lower()]
    taken = num_nodes - (len(kinds) - len(ours))
    alike = {("xnnpack" in kind.lower()) == (delegate == "xnnpack") for kind in ours}
    if alike != {True} or not 0 < taken <= num_nodes:
        return None
    return schema.Coverage(delegated_nodes=taken, nodes=num_nodes, partitions=len(ours))


def _rows(text: str, what: str) -> Iterator[tuple[str, int, float, bool]]:
    """Yields each node that ran: its kind, calls, milliseconds, and whether inside another one."""
    columns: list[str] | None = None
    for line in text.partition(_RUNS)[2].splitlines():
        section = _SECTION.match(line.strip())
        if section:
            columns = [] if section.group(1) == "Run Order" else None
        elif columns == []:
            columns = [column.strip() for column in line.split(",")]
        elif columns and line.strip():
            yield _row(line, columns, what)
        elif columns:
            columns = None


def _row(line: str, columns: list[str], what: str) -> tuple[str, int, float, bool]:
    # Only the first column can hold commas itself: the tool replaces those of the last.
    cells = [cell.strip() for cell in line.rsplit(",", len(columns) - 1)]
    try:
        row = dict(zip(columns, cells, strict=True))
        milliseconds, calls = float(row["avg_ms"]), int(row["times called"])
        kind, within = row["node type"], _INSIDE.match(row["name"].replace("\t", ","))
    except (KeyError, ValueError) as error:
        raise errors.BenchmarkError(
            f"operator profile of {what}", f"the columns {columns}", repr(line)
        ) from error
    if within:
        kind = within.group(1)
    return kind, max(calls, 1), milliseconds * max(calls, 1), within is not None


def _replace_delegates(
    nodes: dict[str, tuple[int, float]], inside: dict[str, tuple[int, float]]
) -> None:
    """Replaces the nodes of a delegate by the operators inside it."""
    delegates = [kind for kind in nodes if "delegate" in kind.lower()]
    # Next to a GPU's node only XNNPACK's reports what is inside.
    telling = [kind for kind in delegates if "xnnpack" in kind.lower()] or delegates
    outer = {kind: nodes.pop(kind) for kind in telling}
    rest = sum(ms for _, ms in outer.values()) - sum(ms for _, ms in inside.values())
    for kind, (calls, ms) in inside.items():
        before = nodes.get(kind, (0, 0.0))
        nodes[kind] = (before[0] + calls, before[1] + ms)
    if outer and rest > 0:
        name = max(outer, key=lambda kind: outer[kind][1])
        nodes[name] = (sum(calls for calls, _ in outer.values()), rest)
