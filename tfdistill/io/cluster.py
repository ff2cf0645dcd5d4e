"""The cluster that TF_CONFIG describes: how many workers train together, and which one this is.

The chief alone keeps files. Ray Train, Kubeflow and Vertex AI set the variable for each worker.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import re

from tfdistill import errors
from tfdistill.io import reading

VARIABLE = "TF_CONFIG"
_ADDRESS = re.compile(r"[^\s/]+:[0-9]{1,5}")
_ROLES = ("chief", "worker")


@dataclasses.dataclass(frozen=True)
class Worker:
    """One process of a cluster."""

    index: int  # 0 is the chief, the only one that keeps files
    count: int  # the workers of the cluster, at least 2


def this_worker() -> Worker | None:
    """The worker that TF_CONFIG says this process is; None without it, or of a single worker."""
    text = os.environ.get(VARIABLE, "")
    if not text.strip():
        return None
    expected = "JSON with a cluster and a task, as TensorFlow reads it"
    config = reading.parse_json(text, VARIABLE, error=errors.ConfigError, expected=expected)
    try:
        cluster = config.get("cluster", {})
        workers = [cluster.get(role, ()) for role in _ROLES]
        listed = [list(w.values() if isinstance(w, dict) else w) for w in workers]
        sizes = [len(addresses) for addresses in listed]
        if sum(sizes) < 2:
            return None
        _check_addresses([address for addresses in listed for address in addresses])
        role, index = config["task"]["type"], int(config["task"]["index"])
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        if isinstance(error, errors.ConfigError):
            raise
        raise errors.ConfigError(VARIABLE, expected, repr(error)) from None
    if role not in _ROLES or not 0 <= index < sizes[_ROLES.index(role)]:
        raise errors.ConfigError(
            f"{VARIABLE}, task",
            f"one of {sizes[0]} chiefs or {sizes[1]} workers, counted from 0",
            f"{role} {index}",
            "Parameter servers and evaluators are not used: give them no process.",
        )
    return Worker(index + (sizes[0] if role == "worker" else 0), sum(sizes))


def _check_addresses(addresses: list[str]) -> None:
    """Refuses what TensorFlow waits for without end: a worker without address, two of one."""
    twice = [address for address, count in collections.Counter(addresses).items() if count > 1]
    wrong = [address for address in addresses if not _ADDRESS.fullmatch(address)] or twice
    if wrong:
        raise errors.ConfigError(
            f"{VARIABLE}, cluster", "a host:port of its own for each worker", repr(wrong[0])
        )


def keeps_files() -> bool:
    """Whether this process writes results: every process but the workers beside a chief."""
    worker = this_worker()
    return worker is None or worker.index == 0
