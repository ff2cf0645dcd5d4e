"""Files compiled ahead of time for the NPUs of chips, and the AI pack that Google Play delivers.

Each file is compiled as `tfdistill inspect --accelerators` does it: by LiteRT's compiler plugins,
in a process with a time limit, with the libraries of a folder that the user names, and its answers
are compared where this host can run it. `aot_compile` of `ai_edge_litert.aot` does none of this: it
looks for an installed package of the vendor's SDK alone. Its `ai_pack` lays the files out for Play.
"""

from __future__ import annotations

import importlib
import pathlib
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tfdistill import errors, files, safe_paths
from tfdistill import manifest as manifests
from tfdistill.accelerators import examples, gate, vendors
from tfdistill.accelerators.outcome import AcceleratorReport
from tfdistill.manifest import CompiledFile, FileRecord, Manifest
from tfdistill.tflite import word_rows

from ..checking.verify import accelerator_record
from ..file import bundle, folders
from . import android_bundle

PACK = "ai_pack"
_CHIP = re.compile(r"[A-Za-z0-9_]+")
# Names of `vendors` -> packages of `ai_edge_litert.aot.vendors` that Play has device groups for.
_PLAY = {
    "qualcomm": "qualcomm",
    "mediatek": "mediatek",
    "google-tensor": "google_tensor",
    "samsung": "samsung",
}


def check_targets(wanted: Sequence[tuple[str, str]], libraries: Mapping[str, pathlib.Path]) -> None:
    """Refuses what cannot be compiled here, before the long work.

    Args:
      wanted: Names and chips (`vendors.parse`).
      libraries: Folders of libraries by name.

    Raises:
      ConfigError: If one is no NPU, or Play knows no such chip.
      EnvironmentFault: If the libraries of one are missing; says which.
    """
    for name, soc in wanted:
        if vendors.VENDORS[name].kind != "npu" or not _CHIP.fullmatch(soc):
            raise errors.ConfigError(
                "aot", "NPUs and their chips, such as qualcomm:SM8650", f"{name}:{soc}"
            )
    _play_targets(wanted)
    for name, _ in wanted:
        vendors.folder_of(name, libraries)


def to_aot(
    folder: files.Path,
    wanted: Sequence[tuple[str, str]],
    *,
    libraries: Mapping[str, pathlib.Path] | None = None,
    timeout_s: float = 300,
) -> Manifest:
    """Compiles the files of an export for chips, beside them and in their manifest.

    A file for an NPU is compiled from the one of its kind, "npu-rows" where the compiler takes no
    lookups, else from the first. The first one is the fallback of the AI pack.

    Args:
      folder: What `to_tflite` wrote.
      wanted: Names and chips (`vendors.parse`).
      libraries: Folders of libraries by name.
      timeout_s: Seconds that a compiler may take.

    Returns:
      The manifest, as written.

    Raises:
      ConfigError: If one is no NPU, or Play knows no such chip.
      EnvironmentFault: If the libraries of one are missing; says which.
      ExportError: If one does not compile; nothing was written.
      ParityError: If a compiled file answers something else than the CPU's.
    """
    folder, libraries = pathlib.Path(folder), libraries or {}
    check_targets(wanted, libraries)
    known = manifests.read_manifest(folder)
    found: list[CompiledFile] = []
    contents: dict[pathlib.Path, bytes | pathlib.Path] = {}
    with files.temporary_folder("aot") as temporary:
        for name, soc in wanted:
            own = file_for(vendors.VENDORS[name], known)
            made = temporary / f"{pathlib.Path(own.model.file).stem}-{name}-{soc}.tflite"
            golden = own.golden_file
            (report,) = gate.check(
                folder / own.model.file,
                [(name, soc)],
                golden=golden and examples.read_golden(safe_paths.inside(folder, golden.file)),
                words=word_rows.of(own, folder),
                libraries=libraries,
                timeout_s=timeout_s,
                compiled=made,
            )
            _check(report, made.name)
            record = FileRecord(
                file=made.name, sha256=files.sha256_of(made), size_bytes=made.stat().st_size
            )
            accelerator = accelerator_record(report)
            found.append(
                CompiledFile(device=own.device, soc=soc, model=record, accelerator=accelerator)
            )
            contents[folder / made.name] = made
        written = known.model_copy(update={"compiled": found})
        with folders.writing(f"AI pack {folder / PACK}"):
            _write_pack(folder, written, wanted, temporary)
        path = manifests.manifest_path(folder / known.model.file)
        contents[path] = (written.model_dump_json(indent=2) + "\n").encode()
        old = {folder / own.model.file for own in known.compiled}
        bundle.write(contents, obsolete=old)
    return written


def file_for(vendor: vendors.Vendor, known: Manifest) -> Manifest:
    """Chooses the file of an export that is for an accelerator; the first where none is."""
    chosen = next((d for d in vendor.devices if d in known.devices), known.device)
    return known.for_device(chosen)


def _check(report: AcceleratorReport, name: str) -> None:
    if report.good:
        return
    what = f"{name}, {report.name} ({report.title})"
    if report.verdict == "wrong":
        raise errors.ParityError(f"{what} was not written: {report.fault}")
    raise errors.ExportError(what, "a compiled file", report.fault)


def _play_targets(wanted: Sequence[tuple[str, str]]) -> list[tuple[tuple[str, str], Any]]:
    """Returns the backends of `ai_edge_litert.aot` for the chips that Play can tell apart."""
    found = []
    for name, soc in wanted:
        if name not in _PLAY:
            continue
        backend, target = _vendor_modules(_PLAY[name])
        chips = [chip for chip in target.SocModel if chip.value != "ALL"]
        same = [chip for chip in chips if chip.value.lower() == soc.lower()]
        if not same:
            known = ", ".join(chip.value for chip in chips)
            raise errors.ConfigError(f"aot {name}", f"one of {known}", soc)
        flat = target.Target(same[0]).flatten()
        found.append(((name, soc), backend.create(flat)))
    return found


def _vendor_modules(vendor: str) -> tuple[Any, Any]:
    """Returns the backend class of a vendor and the module of its chips."""
    place = f"ai_edge_litert.aot.vendors.{vendor}"
    try:
        from ai_edge_litert.aot.vendors import import_vendor

        importlib.import_module(f"{place}.{vendor}_backend")
        target = importlib.import_module(f"{place}.target")
        return import_vendor.import_vendor(target.Target.backend_id()), target
    except ImportError as error:  # on Python 3.10 it needs backports.strenum
        raise errors.EnvironmentFault(
            "AI packs", f"{place}, which Python {sys.version_info[1]} imports", str(error)
        ) from error


def _write_pack(
    folder: pathlib.Path,
    written: Manifest,
    wanted: Sequence[tuple[str, str]],
    compiled: pathlib.Path,
) -> None:
    """Writes the AI pack, where Play delivers to one of the chips."""
    targets = dict(_play_targets(wanted))
    if not targets:
        shutil.rmtree(folder / PACK, ignore_errors=True)  # of other chips
        return
    from ai_edge_litert.aot.ai_pack import export_lib
    from ai_edge_litert.aot.core import aot_types
    from ai_edge_litert.aot.vendors import fallback_backend

    fallback = fallback_backend.FallbackBackend.create({"backend_id": "fallback"})
    models = [(fallback, aot_types.Model(path=folder / written.model.file))]
    for (name, soc), own in zip(wanted, written.compiled, strict=True):
        if (name, soc) in targets:
            model = aot_types.Model(path=compiled / own.model.file)
            models.append((targets[name, soc], model))
    name = android_bundle.bundle_name(written.name, written.quantization, written.device)
    with files.atomic_folder(folder / PACK) as temporary:
        export_lib.export(aot_types.CompilationResult(models), temporary, PACK, name)
