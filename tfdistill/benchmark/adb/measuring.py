"""Measures files on the Android devices that are meant among those that adb lists.

Several devices are measured at once: each in a thread of its own. Serial numbers stay on the
terminal: a result is shared, and names its device by a hash.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import re
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence

from tfdistill import errors
from tfdistill.benchmark import measuring, schema
from tfdistill.benchmark.adb.binary import find_tool
from tfdistill.benchmark.adb.phone import AdbRunner, Completed, Phone, find_adb
from tfdistill.benchmark.adb.tool import read_layout
from tfdistill.benchmark.adb.tool_backend import BenchmarkModelBackend, Metric, Plan
from tfdistill.benchmark.backend import Findings
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import baseline_of, open_all
from tfdistill.io import files
from tfdistill.tflite.golden import Example

ALL = "all"
_TIMEOUT_S = 60.0  # adb's own server starts with the first command
_REMEDIES = {
    "unauthorized": "Unlock it and accept the dialog that asks to allow USB debugging.",
    "authorizing": "Unlock it and accept the dialog that asks to allow USB debugging.",
    "offline": "Reconnect the cable, or run `adb reconnect offline`.",
    "connecting": "Try again in a moment.",
    "recovery": "Start Android on it.",
    "sideload": "Start Android on it.",
    "bootloader": "Start Android on it.",
    "no permissions": "Let this user open USB devices (on Debian: the package "
    "android-sdk-platform-tools-common and the group plugdev), then reconnect it.",
}
# What adb prints of a connection (its adb.cpp); a serial number may hold blanks.
_STATES = (
    "device|offline|unauthorized|authorizing|connecting|no permissions.*?|recovery|rescue|sideload"
    "|bootloader|host|detached|unknown"
)
_DEVICE = re.compile(rf"(?!\* )(\S.*?)\s+({_STATES})((?:\s+[a-z_]+:\S+)*)\s*")
_POLL_S = 1.0


def measure(
    models: Sequence[files.Path] | Mapping[str, files.Path],
    *,
    settings: Settings | None = None,
    serials: Sequence[str] = (),
    binary: files.Path | None = None,
    examples: Sequence[Example] = (),
    metric: Metric | None = None,
    baseline: str | None = None,
    shown: MutableMapping[str, str] | None = None,
    progress: bool = False,
) -> list[schema.Result]:
    """Measures files with `benchmark_model` on one device or several, each with its own result.

    On each: how fast every case is, in blocks that take turns; what a delegate took, a silent
    fallback to the CPU being a failure; where the time goes and what heat leaves, if asked for;
    and how far the answers are the host's. What was pushed is removed again.

    Args:
      models: Export folders or files; or a mapping from the names to use to them.
      settings: How to measure; `Settings()` by default.
      serials: The devices, or "all"; the only one by default.
      binary: The benchmark_model to push.
      examples: Of a task: they are fed instead of the files' own, and all of them are answered at
        the longest length, one run of the tool each.
      metric: From one answer an example to the task's metrics.
      baseline: Name of the model that the others are compared with; the first by default.
      shown: Is filled with serials by the ids that replace them in the results:
        for a terminal.
      progress: Whether to draw a progress bar on stderr, if that is a terminal.

    Returns:
      One result a device, in the order of the serials. What could not be measured is among its
      `failures`.

    Raises:
      BenchmarkError: If a file is missing or damaged, a setting is wrong, there is no binary or no
        device, or nothing at all could be measured on any of them.
      EnvironmentFault: If adb is missing or does not work.
      ManifestError: If a checksum differs from a manifest's.
      BenchmarkInterrupted: At Ctrl-C, with what was finished.
    """
    settings = settings or Settings()
    subjects = open_all(models, settings, examples)
    layouts = {
        (subject.name, length): read_layout(subject.file, signature)
        for subject in subjects
        for length, signature in subject.signatures.items()
    }
    tool = find_tool(binary)
    plan = Plan(subjects, layouts, settings, tool, tuple(examples), metric)
    baseline = baseline_of(subjects, baseline)
    backends = [BenchmarkModelBackend(phone, plan) for phone in choose(serials)]
    return measure_on_each(backends, baseline=baseline, shown=shown, progress=progress)


def measure_on_each(
    backends: Sequence[BenchmarkModelBackend],
    *,
    baseline: str,
    shown: MutableMapping[str, str] | None = None,
    progress: bool = False,
) -> list[schema.Result]:
    """Measures on several devices at once, and makes a result for each without serial numbers."""
    findings = [Findings() for _ in backends]
    measured = list(zip(backends, findings, strict=True))
    with measuring.progress_bar(backends, shown=progress) as bar:
        work = [lambda b=b, f=f: measuring.measure(b, f, bar) for b, f in measured]
        phones = [backend.phone for backend in backends]
        finished = run_at_once(phones, work)
    results = measuring.results_of(measured, finished=finished, baseline=baseline)
    described = [backend.device for backend in backends]
    results = [hide_serials(result, phones, described, shown) for result in results]
    if not finished:
        raise measuring.BenchmarkInterrupted(results)
    return results


def run_at_once(phones: Sequence[Phone], work: Sequence[Callable[[], object]]) -> bool:
    """Works on several devices at once, and waits for all of them.

    Returns whether it came to its end; False after Ctrl-C.
    """
    finished, stopping = True, False
    to_start, futures = list(work), []
    waiting: Collection[object] = phones
    with concurrent.futures.ThreadPoolExecutor(len(phones)) as pool:
        while waiting:
            try:  # around everything: Ctrl-C may come at any time, and again
                if stopping:
                    for phone in phones:
                        phone.stop()
                while to_start:
                    futures.append(pool.submit(to_start.pop(0)))
                done, waiting = concurrent.futures.wait(futures, timeout=_POLL_S)
                stopping |= any(future.exception() is not None for future in done)
            except KeyboardInterrupt:
                finished, stopping = False, True
                to_start.clear()
    for future in futures:
        future.result()  # a fault of this program is not hidden
    return finished


def hide_serials(
    result: schema.Result,
    phones: Sequence[Phone],
    devices: Sequence[schema.Device],
    shown: MutableMapping[str, str] | None = None,
) -> schema.Result:
    """Replaces serial numbers by ids of devices in the texts of a result.

    adb's own messages name serials, too, so that texts are searched as they are: the command line,
    failures and notes, for the serials of all devices, since one command line names them all.
    """
    ids: dict[str, str] = {}
    device_ids = [device.id or "" for device in devices]
    for number, (phone, device_id) in enumerate(zip(phones, device_ids, strict=True)):
        # Some makers give all their devices one serial number; numbers as files of results have.
        same = device_ids[:number].count(device_id)
        ids[phone.serial] = f"{device_id}-{same}" if same else device_id
    if shown is not None:
        shown.update({device_id: serial for serial, device_id in ids.items()})
    longest_first = sorted(ids, key=len, reverse=True)
    # Not inside of a word: a serial may be as short as one.
    pattern = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    def without(text: str) -> str:
        return pattern.sub(lambda match: ids[match.group()], text)

    command, notes = tuple(map(without, result.command)), tuple(map(without, result.notes))
    hidden = result.model_copy(update={"command": command, "notes": notes})
    return _with_failures(hidden, without)


def show_serials(text: str, shown: Mapping[str, str]) -> str:
    """Puts the serials back into a text for a terminal: commands in it have to work there."""
    for device_id in sorted(shown, key=len, reverse=True):  # an id may begin another one
        text = text.replace(device_id, shown[device_id])
    return text


def show_serials_in_failures(result: schema.Result, shown: Mapping[str, str]) -> schema.Result:
    """Puts the serials back into the failures of a result that is not kept."""
    return _with_failures(result, lambda text: show_serials(text, shown))


def _with_failures(result: schema.Result, change: Callable[[str], str]) -> schema.Result:
    changed = [
        schema.Failure(what=change(row.what), error=change(row.error)) for row in result.failures
    ]
    return result.model_copy(update={"failures": tuple(changed)})


@dataclasses.dataclass(frozen=True)
class Listed:
    """A line of `adb devices -l`."""

    serial: str  # of the device, or its address
    state: str  # "device" when it is ready; otherwise such as "offline" or "unauthorized"
    model: str = ""  # such as "Pixel_8"; empty where it is unknown


def listed(adb: str) -> list[Listed]:
    """Returns the devices that adb knows, ready or not; starts adb's server if none runs."""
    done = _ask(adb, ["devices", "-l"])
    if done.exit_code != 0 or "List of devices attached" not in done.stdout:
        port = os.environ.get("ANDROID_ADB_SERVER_PORT", "5037")
        raise errors.EnvironmentFault(
            f"`{adb} devices`",
            "a list of devices",
            repr((done.stderr or done.stdout).strip()[-1000:]),
            f"Its server may be hung (`adb kill-server`), or another program may hold its "
            f"port {port} (choose another with ANDROID_ADB_SERVER_PORT).",
        )
    return parse_devices(done.stdout)


def parse_devices(text: str) -> list[Listed]:
    """Reads the output of `adb devices -l`; lines without a state, such as adb's own, are none."""
    devices = []
    for line in text.partition("List of devices attached")[2].splitlines():
        parts = _DEVICE.fullmatch(line)
        if parts is None:
            continue
        model = re.search(r"\smodel:(\S+)", parts[3])
        devices.append(Listed(parts[1], parts[2], model[1] if model else ""))
    return devices


def choose(serials: Sequence[str] = ()) -> list[Phone]:
    """Finds the devices to measure on, and checks that they can be.

    Returns the devices, in the order of `serials`, each once.
    """
    adb = find_adb()
    named = serials or [serial for serial in [os.environ.get("ANDROID_SERIAL")] if serial]
    source = "--serial" if serials else "ANDROID_SERIAL"
    chosen = select(listed(adb), named, source=source)
    faults = [fault for device in chosen if (fault := _shell_fault(adb, device))]
    if faults:
        raise errors.BenchmarkError("\n".join(faults))
    return [Phone(adb, device.serial, device.model) for device in chosen]


def select(
    devices: Sequence[Listed], serials: Sequence[str], *, source: str = "--serial"
) -> list[Listed]:
    """Selects the devices that are meant among those that adb lists."""
    if not devices:
        raise errors.BenchmarkError(
            "adb",
            "a device",
            "none",
            "Connect one with USB debugging switched on (Settings > System > Developer "
            "options), or start an emulator; `adb devices` must list it.",
        )
    by_serial = {device.serial: device for device in devices}
    if not serials and len(devices) > 1:
        raise errors.BenchmarkError(
            "adb",
            "one device, or a choice among several",
            _names(devices),
            "Choose with --serial SERIAL (once or more), or --serial all.",
        )
    wanted = list(by_serial) if not serials or ALL in serials else list(dict.fromkeys(serials))
    faults = [
        errors.explain(source, f"one of {_names(devices)}", repr(serial))
        for serial in wanted
        if serial not in by_serial
    ]
    chosen = [by_serial[serial] for serial in wanted if serial in by_serial]
    faults += [
        errors.explain(
            f"device {_name(device)}",
            "state 'device'",
            repr(device.state),
            next((r for state, r in _REMEDIES.items() if device.state.startswith(state)), ""),
        )
        for device in chosen
        if device.state != "device"
    ]
    if faults:
        raise errors.BenchmarkError("\n".join(faults))
    return chosen


def _shell_fault(adb: str, device: Listed) -> str:
    done = _ask(adb, ["-s", device.serial, "features"])
    answer = (done.stderr or done.stdout).strip()[-500:]
    if done.exit_code != 0 and re.search(r"unknown command|usage|help", answer, re.IGNORECASE):
        raise errors.EnvironmentFault(
            adb,
            "an adb that passes exit codes on (shell v2)",
            "an older one",
            "Install Android's SDK Platform-Tools 24 or newer.",
        )
    if done.exit_code != 0:
        return errors.explain(f"device {_name(device)}", "its features", repr(answer))
    if "shell_v2" not in re.split(r"[\s,]+", done.stdout):
        return errors.explain(
            f"device {_name(device)}",
            "Android 7 or newer, whose shell passes exit codes on (shell_v2)",
            "an older one",
        )
    return ""


def _ask(adb: str, arguments: Sequence[str]) -> Completed:
    """Asks adb what it answers at once."""
    try:
        return AdbRunner().run([adb, *arguments], timeout_s=_TIMEOUT_S)
    except (OSError, TimeoutError) as error:
        raise errors.EnvironmentFault(
            f"`{adb} {' '.join(arguments)}`", "an answer", str(error), "Try `adb kill-server`."
        ) from error


def _name(device: Listed) -> str:
    return f"{device.serial} ({device.model})" if device.model else device.serial


def _names(devices: Sequence[Listed]) -> str:
    return ", ".join(
        _name(device) + ("" if device.state == "device" else f" [{device.state}]")
        for device in devices
    )
