"""How fast a run's files are, and what accuracy costs: on its own device, then on others. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tfdistill.report.document import ReportSection
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.report.sections import device as device_section


def sections(run: RunAnalysis) -> Iterator[ReportSection]:
    """Yields the trade-off and the latencies of the run's own device, and each other device."""
    device = run.device
    if device is not None:
        parts = [
            part
            for part in device_section.trade_offs(device, run.levels)
            if any(len(table.rows) > 1 for table in part.tables)
        ]
        parts = [dataclasses.replace(parts[0], title="")] if len(parts) == 1 else parts
        parts += device_section.measurements(device)
        title = f"Size and latency {run.where}"
        yield ReportSection("latency", title, "Latency", parts=tuple(parts))
    yield from map(device_section.section, run.others)
