"""The app's bundles: as files on the computer, and as the app on the phone knows them."""

from __future__ import annotations

import hashlib
import pathlib

from adb_daemon.daemon import Daemon
from tfdistill.benchmark.adb import app_protocol
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject
from tfdistill.tflite.golden import Example
from tfdistill.tflite.signature import Signature, Tensor

QUICK = Settings(threads=(1, 2), warmup=2, runs=6, rounds=3, repetitions=2, min_seconds=0)


def signature(length: int) -> Signature:
    ids = Tensor("input_ids", "int32", (1, length), 0, role="input_ids")
    return Signature(f"len{length}", 0, (ids,), (), 90)


def subject(
    folder: pathlib.Path, name: str = "student", lengths: tuple[int, ...] = (32, 64)
) -> Subject:
    """A file in a folder of bundles; its content is never run."""
    bundle = folder / "bundles" / f"{name}-float32"
    bundle.mkdir(parents=True, exist_ok=True)
    (bundle.parent / "index.json").write_text("{}")
    file = bundle / "model.tflite"
    file.write_bytes(name.encode() * 100)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    signatures = {length: signature(length) for length in lengths}
    example = Example((2, 5, 3), (0, 0, 0))
    return Subject(name, file, digest, signatures, None, None, (example,), "golden")


def bundle_files(*subjects: Subject) -> dict[str, dict[str, object]]:
    return {
        s.file.parent.name: {"sha256": s.sha256, "size_bytes": s.file.stat().st_size}
        for s in subjects
    }


def left(daemon: Daemon) -> list[str]:
    """Returns what lies in the app's folder of results."""
    folder = daemon.path(app_protocol.folder_of(app_protocol.PACKAGE))
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []
