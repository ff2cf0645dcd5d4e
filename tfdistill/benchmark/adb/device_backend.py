"""What the two backends on a device share: its description, its state, and its preparation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import conditions, device_environment, preparation
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.backend import Environment, Findings
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject


class DeviceBackend:
    """A device that is measured on; see `backend.Backend`.

    Args:
      phone: The device.
      subjects: The files, of unique names.
      settings: How to measure.
    """

    counts_last_try = False

    def __init__(self, phone: Phone, subjects: Sequence[Subject], settings: Settings) -> None:
        self.phone, self.where = phone, phone.serial
        self.subjects, self.settings = subjects, settings
        self.affinity: str | None = None
        self.device: schema.Device | None = None
        self.kind: schema.Kind = "phone"
        self.thermal_status_known = True

    @contextlib.contextmanager
    def prepared(self, found: Findings) -> Iterator[device_environment.DeviceEnvironment]:
        """Describes the device, and keeps it in fixed performance mode if that was asked for."""
        described = device_environment.read(self.phone)
        self.device, self.kind = described.device, described.kind
        if note := preparation.thermal_note(self.phone):
            self.thermal_status_known = False
            found.note(note)
        with contextlib.ExitStack() as stack:
            if self.settings.fixed_performance:
                stack.enter_context(preparation.fixed_performance(self.phone))
                found.note("The device was in Android's fixed performance mode.")
            yield described

    def environment_with(self, runtime: schema.Runtime) -> Environment:
        """Describes the device, as far as it is known by now, with a runtime."""
        device = self.device or device_environment.unknown_device(self.phone)
        return Environment(self.kind, device, runtime)

    def conditions(self) -> schema.Conditions:
        """Reads the state of the device."""
        return conditions.read(self.phone)

    def wait_until_cool(self) -> schema.Conditions:
        """Waits until the thermal status is 0."""
        return conditions.wait_until_cool(self.phone, self.settings)

    def rest(self, seconds: float) -> None:
        """Waits."""
        self.phone.rest(seconds)
