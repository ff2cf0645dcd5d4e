"""The protocol between the harness and the app: extras of an intent, a state, a result.

The other side is `BenchmarkActivity` of the Android demo; docs/guides/benchmark-protocol.md
describes both.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from typing import Literal

import pydantic

from tfdistill import errors, files, reading
from tfdistill import manifest as manifests
from tfdistill.benchmark import schema
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject
from tfdistill.manifest import Manifest

PACKAGE = "io.github.tfdistill.demo"
ACTIVITY = "io.github.tfdistill.demo.BenchmarkActivity"  # whatever the package is called
ACCELERATORS: dict[schema.Delegate, str] = {"xnnpack": "cpu", "gpu": "gpu"}
STATE_VERSION = 1
MAX_STATE_BYTES = 1 << 16
MAX_SECONDS = 3600.0  # what the app accepts
_PACKAGE = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+")
_BUNDLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class State(pydantic.BaseModel):
    """How far the app is.

    Attributes:
      finished: Measurements.
      of: All of them.
      error: Why it failed.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    format_version: Literal[1]
    state: Literal["running", "done", "failed"]
    finished: int = pydantic.Field(ge=0)
    of: int = pydantic.Field(ge=0)
    error: str | None = None


def check(settings: Settings, package: str) -> None:
    """Checks that the app can measure what is asked for.

    Raises:
      BenchmarkError: With every fault at once, if it cannot.
    """
    faults = []
    if not _PACKAGE.fullmatch(package):
        faults.append(errors.explain("--app", f"a package such as {PACKAGE}", repr(package)))
    if refused := [name for name in settings.delegates if name not in ACCELERATORS]:
        faults.append(
            errors.explain("delegates of the app", f"some of {(*ACCELERATORS,)}", refused)
        )
    without = "Leave out --app: benchmark_model can do that."
    if settings.affinity not in (None, "all"):
        faults.append(
            errors.explain(
                "affinity", "none: an app cannot choose its cores", settings.affinity, without
            )
        )
    if settings.operators:
        faults.append(errors.explain("operators", "none from an app", "--operators", without))
    for name in ("min_seconds", "sustained_seconds"):
        if getattr(settings, name) > MAX_SECONDS:
            faults.append(
                errors.explain(
                    name, f"at most {MAX_SECONDS:g} s in an app", getattr(settings, name)
                )
            )
    if faults:
        raise errors.BenchmarkError("\n".join(faults))


def bundle_of(subject: Subject) -> str:
    """Returns the name of the bundle that `tfdistill export --android` made of a file.

    A file below a folder of bundles is the one that is called like its folder; another export has
    the name that it gets by default.

    Raises:
      BenchmarkError: If the file has no manifest, so that no app can have it.
    """
    folder, name, variant = subject.file.parent, "", ""
    described = subject.manifest
    if described is not None:
        described, variant = _variant_of(subject.file, described)
    if (folder.parent / "index.json").is_file() and folder.parent.name == "bundles":
        name = "-".join(filter(None, (folder.name, variant)))
    elif described is not None:
        clean = re.sub(r"[^A-Za-z0-9._-]+", "-", described.name).strip(".-")
        device = "" if described.device == "cpu" else described.device
        name = "-".join(filter(None, (clean, described.quantization, device, variant)))
    if not _BUNDLE.fullmatch(name):
        raise errors.BenchmarkError(
            f"{subject.file.name}",
            "an export that is a bundle of the app",
            repr(name) if name else "a file without model.json",
            "Name the folder that `tfdistill export` wrote, or that of the bundle among the "
            "app's assets.",
        )
    return name


def _variant_of(file: pathlib.Path, known: Manifest) -> tuple[Manifest, str]:
    """Returns the manifest that a file is in, and for which device it is a variant there, or ""."""
    path = manifests.manifest_path(file)
    if not path.is_file():
        return known, ""
    described = manifests.read_manifest(path, verify=False)
    variants = described.variants.items()
    return described, next((d for d, own in variants if own.model.file == file.name), "")


def start_arguments(
    package: str,
    run_id: str,
    bundle: str,
    settings: Settings,
    *,
    lengths: Sequence[int],
    delegate: schema.Delegate,
    repetition: int,
    sustained_seconds: float,
) -> list[str]:
    """Returns the command that starts one repetition in a fresh process of the app."""
    extras: dict[str, str | int | float] = {
        "run_id": run_id,
        "bundle": bundle,
        "lengths": ",".join(map(str, lengths)),
        "threads": ",".join(map(str, settings.threads)),
        "accelerator": ACCELERATORS[delegate],
        "warmup": settings.warmup,
        "runs": settings.runs,
        "min_seconds": float(settings.min_seconds),
        "max_runs": settings.max_runs,
        "repetitions": 1,
        "rounds": settings.rounds,
        "cool_down_seconds": 0.0,
        "sustained_seconds": float(sustained_seconds),
        "seed": (settings.seed + repetition) % (1 << 31),
    }
    arguments = ["am", "start", "-W", "-S", "-n", f"{package}/{ACTIVITY}"]
    for name, value in extras.items():
        option = {str: "--es", int: "--ei", float: "--ef"}[type(value)]
        arguments += [option, name, str(value)]
    return arguments


def folder_of(package: str) -> str:
    """Returns the folder of the app's that the shell may read, too."""
    return f"/sdcard/Android/data/{package}/files/benchmark"


def parse_state(text: str, what: str) -> State:
    """Reads a state.

    Raises:
      BenchmarkError: If it is none.
    """
    try:
        return State.model_validate_json(text)
    except pydantic.ValidationError as error:
        raise _malformed(what, f"a state of format_version {STATE_VERSION}", error) from error


def read_result(path: files.Path, what: str) -> schema.Result:
    """Reads a result that an app wrote, and nothing else than what the schema knows.

    Args:
      path: The file.
      what: How messages call it.

    Raises:
      BenchmarkError: If it is no result of an app.
    """
    expected = f"a benchmark.json of format_version {schema.FORMAT_VERSION}"
    try:
        result = schema.Result.model_validate_json(pathlib.Path(path).read_bytes())
    except (pydantic.ValidationError, RecursionError) as error:
        raise _malformed(what, expected, error) from error
    if result.backend != "app" or len(result.models) != 1:
        received = f"backend {result.backend!r} with {len(result.models)} models"
        raise errors.BenchmarkError(what, f"{expected} of an app, about one model", received)
    return result


def _malformed(what: str, expected: str, error: Exception) -> errors.BenchmarkError:
    received = str(error)
    if isinstance(error, pydantic.ValidationError):
        received = reading.validation_faults(error)
    remedy = "The app and tfdistill may be of different versions: install the app that fits."
    return errors.BenchmarkError(what, expected, received[:1000], remedy)
