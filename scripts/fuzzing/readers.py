"""What a command takes from files, as text: faster than the command, and whole.

``("read", NAME)`` in the place of a command line prints what the product reads there. A damage that
it takes without a word changes this text, or changes nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pydantic


def text_of(value: Any) -> str:
    """A value as lines of JSON, arrays by their checksum."""
    return json.dumps(_plain(value), indent=1)


def _plain(value: Any) -> Any:
    if isinstance(value, pydantic.BaseModel):
        return _plain(value.model_dump())
    if isinstance(value, Mapping):
        return [[repr(key), _plain(part)] for key, part in value.items() if key != "checksum"]
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return [str(value.dtype), list(value.shape), digest]
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return _plain({field.name: getattr(value, field.name) for field in fields})
    return value if isinstance(value, int | float | str | None) else repr(value)


def _run() -> Any:
    """What a report of a run is made of, and what its models are verified against."""
    from tfdistill import config, report
    from tfdistill.io import ledger

    models = [path.parent for path in sorted(pathlib.Path("run").rglob(ledger.CHECKSUMS))]
    for model in models:
        ledger.check_folder(model)
    recipe, collected = config.saved_recipe("run"), report.collect("run")
    if collected.missing:
        raise SystemExit("\n".join(collected.missing))
    return recipe, collected


def _records() -> Any:
    """The results of the steps of a run; a damaged one is None, and its step is done again."""
    from tfdistill import results

    places = {
        "run/results/full-1.json": results.ModelResult,
        "run/teacher/result.json": results.ModelResult,
        "run/stages/logits/seed-1/result.json": results.FitResult,
        "run/stages/logits+patient/seed-1/result.json": results.FitResult,
    }
    read = {place: results.read_finished(place, kind) for place, kind in places.items()}
    if None in read.values():
        raise SystemExit(1)
    return read


def _weights() -> Any:
    from tfdistill.io import arrays

    paths = sorted(pathlib.Path("run").rglob("*.safetensors"))
    ours = [
        path for path in paths if path.parent.name != "hf" and path.name != "answers.safetensors"
    ]
    origins = {path: path.parent.relative_to("run").as_posix() for path in ours}
    stage_of = {
        path: origin if origin.startswith("stages/") else None for path, origin in origins.items()
    }
    stage_of[pathlib.Path("run/stages/start.safetensors")] = None
    return {str(path): arrays.read_arrays(path, made_from=stage_of[path]) for path in ours}


def _export() -> Any:
    from tfdistill import manifest
    from tfdistill.data import answers
    from tfdistill.tflite import golden

    card = manifest.read_manifest("exported")
    return (
        card,
        golden.read_golden("exported/golden.json"),
        answers.read("exported/answers.safetensors"),
    )


def _measured() -> Any:
    from tfdistill.benchmark import result

    return result.read_result("both.json"), result.read_result("run/benchmark.json")


def _index() -> Any:
    from tfdistill.data import text_index

    index = text_index.read_index("near/search")
    return index.card, np.array(index.rows), [index.text(row) for row in range(index.card.count)]


def _checkpoint() -> Any:
    from tfdistill import weights

    opened = weights.open_checkpoint("run/teacher/model/hf")
    folder = dataclasses.replace(opened, folder=None, tokenizer=None)
    return folder, opened.tokenizer and opened.tokenizer.vocab


def _sentences() -> Any:
    from tfdistill import weights
    from tfdistill.weights import sentence_modules

    opened = weights.open_checkpoint("sentences")
    modules = sentence_modules.read_modules(pathlib.Path("sentences"))
    return dataclasses.replace(opened, folder=None, tokenizer=None), modules


def _shards() -> Any:
    from tfdistill.data import shard_files

    shard_files.check_shards("shards")
    return shard_files.open_corpus("shards")


def _bundles() -> Any:
    from export.targets import android_bundle
    from tfdistill import manifest

    index = android_bundle.read_index("assets", verify=True)
    folders = sorted(path for path in pathlib.Path("assets/bundles").iterdir() if path.is_dir())
    return index, [manifest.read_manifest(folder) for folder in folders]


def _sweep() -> Any:
    from tfdistill import results

    return results.read_result_file("text/sweep.json", results.SweepResults)


def _pretrained() -> Any:
    from tfdistill import results, weights
    from tfdistill.io import reading

    opened = weights.open_checkpoint("pretrained/model/hf")
    return (
        reading.read_json_object("pretrained/pretraining.json"),
        results.read_result_file("pretrained/metrics.json", results.PretrainingResult),
        dataclasses.replace(opened, folder=None, tokenizer=None),
    )


def _augmented() -> Any:
    from tfdistill.io import reading

    return reading.read_json_object("augmented/augmentation.json")


READERS: dict[str, Callable[[], Any]] = {
    "run": _run,
    "records": _records,
    "weights": _weights,
    "export": _export,
    "measured": _measured,
    "index": _index,
    "checkpoint": _checkpoint,
    "sentences": _sentences,
    "shards": _shards,
    "bundles": _bundles,
    "sweep": _sweep,
    "augmented": _augmented,
    "pretrained": _pretrained,
}
