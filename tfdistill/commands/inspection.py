"""inspect, doctor: look at a file, at a machine."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.metadata
import pathlib
import platform
import shutil
import sys
from typing import Any

from tfdistill import errors
from tfdistill.commands import base, measurement_options, options, plan
from tfdistill.io import cluster, files, reading, safe_paths
from tfdistill.results import tables

_PACKAGES = {  # package -> its version, and what is imported of it
    "tensorflow": ("2.20", "tensorflow"),
    "tf-keras": ("2.20", "tf_keras"),
    "tensorflow-text": ("2.20", "tensorflow_text"),
    "tf-models-official": ("2.20", "official.nlp.optimization"),
    "transformers": ("4.", "transformers"),
    "ai-edge-litert": ("2.", "ai_edge_litert.interpreter"),
    "numpy": ("2.", "numpy"),
}
_PACKAGES_FIRST = "install the packages that are missing above"
_LEAST_FREE_BYTES = 2_000_000_000


def _inspect_arguments(parser: argparse.ArgumentParser) -> None:
    texts = {
        "file": "a .tflite file or an export folder",
        "--static": "only read the file; do not open it in LiteRT to count XNNPACK's partitions",
    }
    options.add_plain(parser, texts)
    measurement_options.add_roles(parser)
    against = parser.add_argument_group("against the model that it was converted from")
    texts = {
        "--against FOLDER": "compare its outputs with those of the model in a Hugging Face folder; "
        "exit code 1 if they differ",
        "--text-file FILE": "compare on these texts, a line each",
        "--vocab FILE": "the app's vocabulary, compared with the folder's",
    }
    options.add_plain(against, texts)
    text = "whether the app keeps upper case (default: as the folder says)"
    options.add_plain(against, {"--cased": text}, action=argparse.BooleanOptionalAction)
    text = "the app's labels, a line each, compared with the folder's"
    options.add_plain(against, {"--labels FILE": text})
    options.add_json(parser)


def _inspect(args: argparse.Namespace) -> int:
    plan.no_file_of_others(args.file, "file", exported=True)
    if args.against is not None and args.static:
        raise errors.ConfigError("--static", "no --against", args.against, "It runs the file.")
    if args.against is not None:
        plan.model(args.against, "--against")
        return _against(args)
    needs_against = ("roles", "text_file", "vocab", "cased", "labels")
    if unread := [name for name in needs_against if getattr(args, name) is not None]:
        raise errors.ConfigError(options.flag_of(unread[0]), "--against FOLDER", "none")
    from tfdistill.tflite import inspection

    paths = _model_files(pathlib.Path(args.file))
    reports = {d: inspection.inspect(file, open_it=not args.static) for d, file in paths.items()}
    report, *_ = reports.values()
    shown, lines = dataclasses.asdict(report), [inspection.format_text(report)]
    for device, report in list(reports.items())[1:]:
        shown.setdefault("variants", {})[device] = dataclasses.asdict(report)
        lines += ["", f"for {device}:", inspection.format_text(report)]
    base.show(shown, as_json=args.json, lines=lines)
    return 1 if any(report.fault for report in reports.values()) else 0


def _against(args: argparse.Namespace) -> int:
    from tfdistill.benchmark import host
    from tfdistill.run import against
    from tfdistill.tflite import roles as tensor_roles

    roles = None if args.roles is None else tensor_roles.parse(args.roles)
    path = next(iter(_model_files(pathlib.Path(args.file)).values()))
    for option, named in (("--vocab", args.vocab), ("--labels", args.labels)):
        if named is not None:
            plan.existing(named, option, hub=False)
    texts: list[str] = []
    if args.text_file is not None:
        lines = reading.read_text(args.text_file).splitlines()
        texts = [text for text in lines if text.strip()]
        if not texts:
            raise errors.DataError(f"{args.text_file}", "a text a line", "no text")
    compared = against.compare_with_folder(
        path,
        args.against,
        tensor_roles=roles,
        texts=texts,
        vocab_file=args.vocab,
        cased=args.cased,
        labels_file=args.labels,
        temperature=_temperature_inside(path),
    )
    measured = host.quick_benchmark(path, runs=20, min_seconds=0.2, roles=roles)
    figures = [
        tables.marked(f"{ms:.3g} ms at {length} tokens", length in measured["busy_lengths"])
        for length, ms in measured["p50_ms"].items()
    ]
    lines = [
        against.format_text(compared),
        f"  median latency on this host: {', '.join(figures)}",
    ]
    latency = {name: measured[name] for name in ("p50_ms", "busy_lengths")}
    shown = {**dataclasses.asdict(compared), **latency}
    base.show(shown, as_json=args.json, lines=lines)
    return 1 if compared.faults else 0


def _temperature_inside(path: pathlib.Path) -> float:
    """Returns what a file of probabilities divides its logits by, as far as a manifest says it."""
    from tfdistill import manifest

    if not manifest.manifest_path(path).is_file():
        return 1.0
    record = manifest.read_manifest(path).confidence
    return 1.0 if record is None else record.temperature_inside


def _model_files(path: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the files of an export by device, the manifest's own first; or one file."""
    from tfdistill import manifest
    from tfdistill.tflite import described

    if not path.is_dir():
        return {"": path}
    folder = path if (path / manifest.FILE_NAME).is_file() else path / "export"
    file_of = {}
    for card in manifest.read_manifest(folder).each_file():
        file_of[card.device] = safe_paths.inside(folder, card.model.file)
        described.check_signatures(card, file_of[card.device])
    return file_of


def _doctor(args: argparse.Namespace) -> int:
    system, free = platform.system(), shutil.disk_usage(".").free
    machine = f"{system} {platform.machine()}" + (", untried" if system == "Darwin" else "")
    remedy = "use Linux, a Linux container, or WSL"  # Windows lacks locks and child processes
    usual = (3, 10) <= sys.version_info[:2] <= (3, 13)
    checks = [
        _check("system", system in ("Linux", "Darwin"), machine, remedy),
        _check("python", usual, platform.python_version(), "use Python 3.10 to 3.13"),
        *(_package(name, *wanted) for name, wanted in _PACKAGES.items()),
        *(_litert(), _devices()),
    ]
    remedy, state = "free 2 GB or use another --out", f"{free / 1e9:.1f} GB free here"
    checks.append(_check("disk", free >= _LEAST_FREE_BYTES, state, remedy))
    good = all(check["ok"] for check in checks)
    lines = [
        f"{'ok  ' if check['ok'] else 'FAIL'} {check['name']}: {check['found']}"
        + (f"  ({check['remedy']})" if check["remedy"] and not check["ok"] else "")
        for check in checks
    ]
    base.show({"ok": good, "checks": checks}, as_json=args.json, lines=lines)
    return 0 if good else 1


def _check(name: str, ok: bool, state: object, remedy: str) -> dict[str, Any]:
    return {"name": name, "ok": ok, "found": str(state), "remedy": remedy}


def _package(name: str, wanted: str, module: str) -> dict[str, Any]:
    remedy = f"pip install '{name}=={wanted.rstrip('.')}.*'"
    try:
        version = importlib.metadata.version(name)
        importlib.import_module(module)
    except Exception as error:
        return _check(name, False, f"{type(error).__name__}: {error}", remedy)
    return _check(name, version.startswith(wanted), version, remedy)


def _litert() -> dict[str, Any]:
    """Whether an export works: a tiny model is converted and its file is run."""
    try:
        import export
        from tfdistill import models

        shape = models.preset("bert_tiny").replace(num_layers=1, vocab_size=32)
        model = models.build_random(shape, models.Head("sequence", 2))
        with files.temporary_folder("doctor") as folder:
            card = export.to_tflite(model, f"{folder}/model.tflite", lengths=(8,))
        state = f"a file of {card.model.size_bytes} bytes that agrees with its model"
    except ImportError as error:
        return _check("export", False, error, _PACKAGES_FIRST)
    except errors.TfdistillError as error:  # which says what to do
        return _check("export", False, error, "")
    except OSError as error:  # the folder of temporary files is full, or cannot be written
        return _check("export", False, errors.explain_os_error(error), "free it, or set TMPDIR")
    return _check("export", True, state, "")


def _devices() -> dict[str, Any]:
    try:
        from tfdistill.training import strategies

        worker = cluster.this_worker()
    except ImportError as error:
        return _check("devices", False, error, _PACKAGES_FIRST)
    except errors.ConfigError as error:
        return _check("devices", False, error, "")
    # `choose` would wait for the other workers.
    names = strategies.devices_here() if worker else strategies.devices_of(strategies.choose())
    gpus = sum("GPU" in name for name in names)
    state = f"training uses {gpus} GPU{'s' * (gpus > 1)}" if gpus else "no GPU: training uses CPU"
    where = f"; worker {worker.index} of {worker.count} ({cluster.VARIABLE})" if worker else ""
    return _check("devices", True, f"{state} ({', '.join(names)}){where}", "")


COMMANDS = (
    base.Command(
        name="inspect",
        summary="show inputs, outputs, operators, types and sizes of a .tflite file",
        arguments=_inspect_arguments,
        execute=_inspect,
        usual="--static --roles --against --text-file --vocab --labels --json",
        examples=(
            "inspect runs/demo/export --static --json",
            "inspect model.tflite --against ./my-bert "
            "--roles args_0=input_ids,args_1=attention_mask,output_0=logits",
        ),
    ),
    base.Command(
        name="doctor",
        summary="check this machine and its packages",
        arguments=options.add_json,
        execute=_doctor,
        examples=("doctor", "doctor --json"),
    ),
)
