"""An exported file that was checked for the same request: it is used again, not converted."""

from __future__ import annotations

import argparse
import json
import logging
import os
import pathlib
from typing import Any

from tfdistill import config, errors, manifest
from tfdistill._version import __version__
from tfdistill.commands import base
from tfdistill.io import files, ledger, reading

_log = logging.getLogger(__name__)

TARGETS = ("android", "mediapipe", "saved_model", "keras", "hf")
_RECORD = "request.json"
# What changes neither the file nor its checks.
_NO_PART = {
    *TARGETS,
    *("model", "out", "overwrite", "json", "license", "card_language", "keys", "parser"),
}
# With these the other targets have fewer words than the model that is opened.
_SHRINKING = ("size_mb", "vocab_prune", "languages", "languages_of", "vocab_size")


def named_options(args: argparse.Namespace, parser: base.Parser) -> dict[str, Any]:
    """The options that say what is exported and how, without those that keep their default."""
    return {
        name: getattr(args, name)
        for name, default in vars(parser.parse_args([])).items()
        if name not in _NO_PART and getattr(args, name) != default
    }


def request_of(args: argparse.Namespace, named: dict[str, Any]) -> dict[str, Any]:
    """The request of an export, comparable: the model, the options, and the files they name."""
    paths = {name: value for name, value in named.items() if isinstance(value, str)}
    request = {
        "tfdistill_version": __version__,
        "model": ledger.digest_of(config.model_folder(args.model)),
        "options": {**named, "quantize": args.quantize},
        "files": {name: ledger.digest_of(p) for name, p in paths.items() if os.path.exists(p)},
    }
    return json.loads(json.dumps(request))


def checked_file(
    args: argparse.Namespace, named: dict[str, Any], request: dict[str, Any]
) -> tuple[pathlib.Path, manifest.Manifest] | None:
    """Folder and manifest of a file that was written and checked for this request, if any is whole.

    Where no option is named the file of a run is that which the run wrote.
    """
    if args.overwrite or any(getattr(args, name) for name in _SHRINKING):
        return None
    usual = pathlib.Path(args.out or pathlib.Path(args.model) / "export")
    of_run = not args.out and config.saved_recipe(args.model) is not None
    for folder in (usual, *([] if args.out else [usual.with_name(f"export-{args.quantize}")])):
        if not (folder / manifest.FILE_NAME).is_file():
            continue
        try:
            if (folder / _RECORD).is_file():
                same = reading.read_json_object(folder / _RECORD) == request
            else:
                same = of_run and folder == usual and not named
            if same:
                return folder, manifest.read_manifest(folder)
        except errors.TfdistillError as error:
            _log.warning(f"{folder} is not used again: {error}")
    return None


def record(folder: pathlib.Path, request: dict[str, Any]) -> None:
    """Writes down what a file was written and checked for."""
    files.atomic_write_json(folder / _RECORD, request)
