"""The matching of two results: whether they compare, what belongs together, what else differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfdistill import errors
from tfdistill.benchmark import schema

_KIND_WORDS = {"host": "a host", "emulator": "an emulated phone", "phone": "a phone"}
# What identifies a device where one of the results has no id of it.
_TRAITS = ("name", "soc", "abi", "fingerprint", "cores_logical", "memory_bytes")
# What may change on one device; an update of its system changes the fingerprint.
_STATE = ("fingerprint", "os", "kernel", "governor", "max_frequencies_mhz")
# Settings that are part of a case, and those that do not change a latency.
_IRRELEVANT = {
    *("threads", "lengths", "delegates", "affinity", "baseline", "seed", "operators", "texts"),
    *("words", "timeout_seconds", "sustained_seconds", "max_repeats", "cool_timeout_seconds"),
}


def other_device(old: schema.Device, new: schema.Device) -> str | None:
    """Says in words how two devices are not the same one; None if they are.

    Where both have an id, that decides; otherwise name, chip, ABI, build fingerprint, cores and
    memory.
    """
    if old.id is not None and new.id is not None:
        return None if old.id == new.id else f"{old.name} ({old.id}) and {new.name} ({new.id})"
    for name in _TRAITS:
        before, after = getattr(old, name), getattr(new, name)
        if before is not None and after is not None and before != after:
            return f"{name} {before} and {after}"
    return None


def check(old: schema.Result, new: schema.Result) -> None:
    """Refuses results that cannot be compared: kind, backend and device must be the same."""
    if old.kind != new.kind:
        raise errors.BenchmarkError(
            "results",
            "two of one kind",
            f"one of {_KIND_WORDS[old.kind]} and one of {_KIND_WORDS[new.kind]}",
            "What is faster on one may be slower on the other: measure both on one device.",
        )
    if old.backend != new.backend:
        raise errors.BenchmarkError(
            "results",
            "two of one backend",
            f"{old.backend} and {new.backend}",
            "They do not time the same thing: measure both with the same one.",
        )
    difference = other_device(old.device, new.device)
    if difference is not None:
        raise errors.BenchmarkError(
            "results",
            "two of one device",
            difference,
            "Measure both files on one device. `tfdistill report OLD NEW` shows both.",
        )


def pair_models(old: schema.Result, new: schema.Result) -> dict[str, str]:
    """Pairs the files of two results by name, or the only one of each: old name -> new."""
    before, after = ([model.name for model in result.models] for result in (old, new))
    pairs = {name: name for name in before if name in after}
    if not pairs and len(before) == len(after) == 1:
        pairs = {before[0]: after[0]}
    if not pairs:
        raise errors.BenchmarkError(
            "files of the results",
            "one name that both have, or one file in each",
            f"{before} and {after}",
            "Measure them under the same names.",
        )
    return pairs


def differences(old: schema.Result, new: schema.Result) -> list[str]:
    """Names what else differs, "what: before -> after": it may explain a change."""
    return [
        f"{name}: {_shown(before)} -> {_shown(after)}"
        for name, before, after in _environment(old, new)
        if before != after and not (name in _UNKNOWN_IS_NO_CHANGE and None in (before, after))
    ]


_UNKNOWN_IS_NO_CHANGE = {"charging before", "thermal status before"}
# Those that only older results have, and what is so of the others.
_FORMER_SETTINGS = {"fixed_performance": False, "when_throttled": "flag"}


def _environment(old: schema.Result, new: schema.Result) -> Iterator[tuple[str, Any, Any]]:
    for name in _STATE:
        yield name, getattr(old.device, name), getattr(new.device, name)
    for name in ("name", "version", "build", "sha256"):
        yield f"runtime {name}", getattr(old.runtime, name), getattr(new.runtime, name)
    packages = (old.runtime.packages, new.runtime.packages)
    for name in sorted({*packages[0], *packages[1]}):
        yield f"{name}", packages[0].get(name), packages[1].get(name)
    for name in sorted({*old.settings, *new.settings} - _IRRELEVANT):
        absent = _FORMER_SETTINGS.get(name)
        yield name, old.settings.get(name, absent), new.settings.get(name, absent)
    conditions = [result.before or schema.Conditions(time="") for result in (old, new)]
    yield "charging before", conditions[0].charging, conditions[1].charging
    status = [at.thermal_status for at in conditions]
    yield "thermal status before", status[0], status[1]
    fed = [{model.name: model.inputs.source for model in result.models} for result in (old, new)]
    for name in fed[0].keys() & fed[1].keys():
        yield f"inputs of {name}", fed[0][name], fed[1][name]


def _shown(value: Any) -> str:
    return "unknown" if value is None else str(value)
