"""The device, what ran on it, and the state that it was in. Pure."""

from __future__ import annotations

from tfdistill.benchmark import schema
from tfdistill.report import device_tables
from tfdistill.report import format as fmt
from tfdistill.report.cells import Cell, Row, Table, without_empty
from tfdistill.report.devices import Bench

_LONGEST = 600  # letters of a value, such as a command line


def facts(bench: Bench) -> list[tuple[str, str]]:
    """Lists names and values of what a device is."""
    device = bench.device
    clocks = sorted({round(value) for value in device.max_frequencies_mhz})
    rows = [
        ("System on a chip", device.soc),
        ("System", device.os),
        ("Kernel", device.kernel),
        ("Architecture", device.abi),
        ("Cores", _cores(device)),
        ("Highest clocks", ", ".join(f"{value:,} MHz" for value in clocks)),
        ("Governor", device.governor),
        ("Instruction sets", ", ".join(device.cpu_flags)),
        ("Memory", fmt.size(device.memory_bytes) if device.memory_bytes else None),
        ("Build", device.fingerprint),
        ("Device id", device.id),
    ]
    return [(name, cut(value)) for name, value in rows if value]


def conditions(bench: Bench) -> Table:
    """What ran in each result, and the device's state before and after."""
    rows = []
    for named in bench.results:
        result = named.result
        runtime = " ".join(filter(None, (result.runtime.name, result.runtime.version)))
        for when, state in (("before", result.before), ("after", result.after)):
            if when == "after" and state is None:
                continue
            rows.append(
                Row(
                    Cell(cut(named.label, 80), when),
                    (
                        Cell(state.time[:19] if state else result.created[:19]),
                        Cell(cut(runtime, 80), result.backend),
                        Cell(device_tables.thermal_words(state.thermal_status if state else None)),
                        _hottest(state),
                        _battery(state),
                        _load(state),
                    ),
                    opens=when == "before" and bool(rows),
                )
            )
    columns = (
        "Result",
        "Time",
        "Runtime",
        "Thermal status",
        "Hottest sensor",
        "Battery",
        "Load average",
    )
    caption = "The state of the device before and after"
    return without_empty(Table(bench.anchor("conditions"), caption, columns, tuple(rows)))


def cut(text: str, longest: int = _LONGEST) -> str:
    """Shortens a text that somebody else wrote."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _cores(device: schema.Device) -> str | None:
    if device.cores_logical is None:
        return None
    physical = device.cores_physical
    if physical is None or physical == device.cores_logical:
        return f"{device.cores_logical}"
    return f"{device.cores_logical} ({physical} physical)"


def _hottest(state: schema.Conditions | None) -> Cell:
    if state is None or not state.temperatures_c:
        return Cell(fmt.ABSENT)
    name, value = max(state.temperatures_c.items(), key=lambda item: item[1])
    return Cell(f"{value:.1f} °C", cut(name, 40), value, "°C")


def _battery(state: schema.Conditions | None) -> Cell:
    if state is None or state.battery_percent is None:
        return Cell(fmt.ABSENT)
    parts = []
    if state.battery_temperature_c is not None:
        parts.append(f"{state.battery_temperature_c:.1f} °C")
    if state.charging is not None:
        parts.append("charging" if state.charging else "not charging")
    return Cell(f"{state.battery_percent:.0f}%", ", ".join(parts), state.battery_percent, "%")


def _load(state: schema.Conditions | None) -> Cell:
    if state is None or state.load_average is None:
        return Cell(fmt.ABSENT)
    return Cell(f"{state.load_average:.2f}", value=state.load_average)
