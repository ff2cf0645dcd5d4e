"""inspect, benchmark, compare, doctor: look at a file, a measurement, a machine."""

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

from tfdistill import errors, files
from tfdistill.commands import base

_PACKAGES = {
    "tensorflow": "2.20",
    "tf-keras": "2.20",
    "tensorflow-text": "2.20",
    "tf-models-official": "2.20",
    "transformers": "4.",
    "ai-edge-litert": "2.",
    "numpy": "2.",
}
_MODULES = {
    "tf-keras": "tf_keras",
    "tensorflow-text": "tensorflow_text",
    "tf-models-official": "official.nlp.optimization",
    "ai-edge-litert": "ai_edge_litert.interpreter",
}
_LEAST_FREE_BYTES = 2_000_000_000


def _inspect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="a .tflite file or an export folder")
    parser.add_argument(
        "--static",
        action="store_true",
        help="only read the file; do not open it in LiteRT to count XNNPACK's partitions",
    )
    base.add_json(parser)


def _inspect(args: argparse.Namespace) -> None:
    from export import inspection

    report = inspection.inspect(_model_file(pathlib.Path(args.file)), open_it=not args.static)
    base.show(dataclasses.asdict(report), as_json=args.json, lines=[inspection.format_text(report)])


def _model_file(path: pathlib.Path) -> pathlib.Path:
    from tfdistill import manifest

    if not path.is_dir():
        return path
    folder = path if (path / manifest.FILE_NAME).is_file() else path / "export"
    card = manifest.read_manifest(folder)
    return files.inside(folder, card.model.file)


def _benchmark_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="an export folder, a run folder or a .tflite file")
    _add_measurement(parser)


def _compare_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", help="export folders or files; the first is the base")
    _add_measurement(parser)


def _add_measurement(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", choices=("host",), default="host", help="where to measure (default: host)"
    )
    parser.add_argument("--threads", type=base.numbers, default=(1,), metavar="N,N,...")
    parser.add_argument("--lengths", type=base.numbers, metavar="L,L,...", help="(default: all)")
    parser.add_argument("--warmup", type=int, default=10, help="(default: %(default)s)")
    parser.add_argument("--runs", type=int, default=100, help="at least (default: %(default)s)")
    parser.add_argument("--min-seconds", type=float, default=2.0, help="(default: %(default)s)")
    parser.add_argument("--repetitions", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--out", metavar="FILE", help="also write the result here, as JSON")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier result")
    base.add_json(parser)


def _benchmark(args: argparse.Namespace) -> None:
    _measure([args.model], args)


def _compare(args: argparse.Namespace) -> None:
    if len(args.models) < 2:
        raise errors.ConfigError(
            errors.explain("models", "two or more", len(args.models), "Use `tfdistill benchmark`.")
        )
    _measure(args.models, args)


def _measure(models: list[str], args: argparse.Namespace) -> None:
    from tfdistill import benchmark

    if args.out and pathlib.Path(args.out).exists() and not args.overwrite:
        raise errors.OutputExistsError(
            errors.explain(args.out, "an absent file", "an earlier result", "Use --overwrite.")
        )
    options: dict[str, Any] = {
        "threads": args.threads,
        "lengths": args.lengths,
        "warmup": args.warmup,
        "runs": args.runs,
        "min_seconds": args.min_seconds,
        "repetitions": args.repetitions,
        "progress": sys.stderr.isatty(),
    }
    paths = [_export_folder(pathlib.Path(model)) for model in models]
    if len(paths) == 1:
        result = benchmark.measure(paths[0], **options)
    else:
        result = benchmark.compare(paths, **options)
    if args.out:
        benchmark.write_result(result, args.out)
    base.show(result, as_json=args.json, lines=[benchmark.format_text(result)])


def _export_folder(path: pathlib.Path) -> pathlib.Path:
    is_run = path.is_dir() and not (path / "model.json").is_file()
    return path / "export" if is_run and (path / "export" / "model.json").is_file() else path


def _doctor_arguments(parser: argparse.ArgumentParser) -> None:
    base.add_json(parser)


def _doctor(args: argparse.Namespace) -> int:
    checks = [_python(), *(_package(name, wanted) for name, wanted in _PACKAGES.items())]
    checks += [_litert(), _disk()]
    good = all(check["ok"] for check in checks)
    lines = [
        f"{'ok  ' if check['ok'] else 'FAIL'} {check['name']}: {check['found']}"
        + ("" if check["ok"] else f"  ({check['remedy']})")
        for check in checks
    ]
    base.show({"ok": good, "checks": checks}, as_json=args.json, lines=lines)
    return 0 if good else 1


def _check(name: str, ok: bool, found: object, remedy: str) -> dict[str, Any]:
    return {"name": name, "ok": ok, "found": str(found), "remedy": remedy}


def _python() -> dict[str, Any]:
    good = (3, 10) <= sys.version_info[:2] <= (3, 13)
    return _check("python", good, platform.python_version(), "use Python 3.10 to 3.13")


def _package(name: str, wanted: str) -> dict[str, Any]:
    remedy = f"pip install '{name}=={wanted.rstrip('.')}.*'"
    try:
        found = importlib.metadata.version(name)
        importlib.import_module(_MODULES.get(name, name))
    except Exception as error:
        return _check(name, False, f"{type(error).__name__}: {error}", remedy)
    return _check(name, found.startswith(wanted), found, remedy)


def _litert() -> dict[str, Any]:
    """Whether a conversion runs: a tiny export, from a model to an answer of its file."""
    import tempfile

    try:
        import export
        from tfdistill import models

        shape = models.preset("bert_tiny").replace(num_layers=1, vocab_size=32)
        model = models.build_classifier(shape, 2)
        with tempfile.TemporaryDirectory() as folder:
            card = export.to_tflite(model, f"{folder}/model.tflite", lengths=(8,))
        found = f"a file of {card.model.size_bytes} bytes that agrees with its model"
    except errors.TfdistillError as error:
        return _check("export", False, error, "see the error")
    return _check("export", True, found, "")


def _disk() -> dict[str, Any]:
    free = shutil.disk_usage(".").free
    good = free >= _LEAST_FREE_BYTES
    return _check("disk", good, f"{free / 1e9:.1f} GB free here", "free 2 GB or use another --out")


COMMANDS = (
    base.Command(
        name="inspect",
        summary="show inputs, outputs, operators, types and sizes of a .tflite file",
        arguments=_inspect_arguments,
        execute=_inspect,
        examples=("inspect runs/demo/export", "inspect model.tflite --json"),
    ),
    base.Command(
        name="benchmark",
        summary="measure an exported file on this host",
        arguments=_benchmark_arguments,
        execute=_benchmark,
        examples=(
            "benchmark runs/demo/export --threads 1,2",
            "benchmark runs/demo --lengths 32 --runs 1000 --out latency.json",
        ),
    ),
    base.Command(
        name="compare",
        summary="measure several files interleaved in one run and compare them",
        arguments=_compare_arguments,
        execute=_compare,
        examples=(
            "compare runs/demo/teacher/export runs/demo/export",
            "compare a.tflite b.tflite --threads 1 --json",
        ),
    ),
    base.Command(
        name="doctor",
        summary="check this machine and its packages",
        arguments=_doctor_arguments,
        execute=_doctor,
        examples=("doctor", "doctor --json"),
    ),
)
