"""An index of texts for search on a phone, made and searched with the exported file itself."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tqdm

from export.file import bundle
from export.model import heads
from export.targets import android_bundle
from tfdistill import _version, errors, manifest
from tfdistill.benchmark import environment
from tfdistill.data import index_rows, text_index
from tfdistill.data.routes import Route
from tfdistill.data.text_index import Checks, IndexManifest, Match, TextIndex
from tfdistill.io import work_folder
from tfdistill.run import index_checks, inputs
from tfdistill.tokenization.reading import exported_tokenizer

_log = logging.getLogger(__name__)

_EXPORT = "export"  # where `tfdistill export` writes by default
_LEAST_RECALL = 0.8
_GOOD_RECALL = 0.95
_REMEDY = "Name a run or an export of --kind embedding; `tfdistill export` makes one."

KIND = "index"


def open_encoder(source: str) -> inputs.ExportedSource:
    """Opens the exported sentence encoder of a run, an export, a bundle, or a .tflite file."""
    path = pathlib.Path(source)
    inside = path / _EXPORT
    if not (path / manifest.FILE_NAME).is_file() and (inside / manifest.FILE_NAME).is_file():
        path = inside
    folder = path if path.is_dir() else path.parent
    if not (folder / manifest.FILE_NAME).is_file():
        received = f"{path}: no {manifest.FILE_NAME}"
        raise errors.ManifestError("--model", "an exported sentence encoder", received, _REMEDY)
    opened = inputs.open_answerer(str(path))
    assert isinstance(opened, inputs.ExportedSource)
    # Not by the task: encoders that were exported without data had none before.
    named = {name for entry in opened.card.signatures.values() for name in entry.outputs}
    if named != {heads.EMBEDDING}:
        received = f"a model that gives {', '.join(sorted(named))}"
        raise errors.ManifestError(f"--model {path}", "a sentence encoder", received, _REMEDY)
    widths = {
        tensor.shape[-1]
        for signature in opened.card.signatures.values()
        for tensor in signature.outputs.values()
    }
    if len(widths) != 1:
        raise errors.ManifestError(f"{path}", "vectors of one width", f"widths {sorted(widths)}")
    return opened


def target_of(encoder: inputs.ExportedSource, out: str | None) -> pathlib.Path:
    """The folder of an index: `out`, beside the model, or in its bundle in a folder of assets.

    Refuses a folder of assets in which no bundle has this model.
    """
    if out is None:
        return encoder.folder / text_index.FOLDER
    bundles = pathlib.Path(out) / android_bundle.FOLDER
    if not (bundles / android_bundle.INDEX).is_file():
        return pathlib.Path(out)
    entries = android_bundle.read_index(out).bundles
    for entry in entries.values():
        folder = bundles / entry.folder
        card = manifest.read_manifest(folder, verify=False)
        if card.model.sha256 == encoder.card.model.sha256:
            return folder / text_index.FOLDER
    raise errors.ManifestError(
        f"bundles of {out}",
        f"one with the model of {encoder.folder}",
        ", ".join(entries) or "none",
        "Write it there first: `tfdistill export --android`.",
    )


def embed(
    encoder: inputs.ExportedSource, texts: Sequence[str], places: Sequence[str]
) -> tuple[np.ndarray, list[str]]:
    """Runs the exported file on texts, in a process of its own, as the app does.

    Messages call the texts by their `places`. Returns float32 (n, model_width), and the places of
    the texts that were cut; refuses texts without tokens, and vectors of zeros, NaN or infinity.
    """
    record = encoder.tokenizer
    tokenizer = exported_tokenizer(encoder.folder, record)
    rows = tokenizer.encode_batch(texts, None, record.max_length)
    sizes = np.diff(rows.offsets)
    empty = sizes <= len(tokenizer.encode(""))
    if empty.any():
        first = int(np.argmax(empty))
        raise errors.DataError(places[first], "a text with letters or signs", "blanks alone")
    vectors = []
    with encoder.opened() as file:
        for index in tqdm.tqdm(
            range(len(texts)), desc="Embedding", unit="text", disable=None, leave=False
        ):
            vector = file.predict(rows.row(index), pad_id=tokenizer.pad_id)
            if not np.isfinite(vector).all() or not vector.any():
                raise errors.ExportError(
                    f"vector of {places[index]}",
                    "finite numbers that are not all 0",
                    "others",
                    "The file is damaged, or its quantization too coarse: export it again.",
                )
            vectors.append(vector)
    whole = tokenizer.lengths(texts)
    cut = [place for place, size in zip(places, whole, strict=True) if size > record.max_length]
    return np.stack(vectors), cut


def build(
    rows: index_rows.IndexRows,
    encoder: inputs.ExportedSource,
    target: pathlib.Path,
    *,
    width: int | None = None,
    overwrite: bool = False,
) -> tuple[IndexManifest, tuple[str, ...]]:
    """Writes an index of texts: all of its files, or none; in a bundle's folder, records it there.

    `width` features are kept, the first ones; all by default. A model that was trained with
    `prefixes` loses little. Refuses int8 vectors that have other neighbours than the file's own.
    Returns the manifest, and what its maker should know, a sentence each.
    """
    work_folder.WorkFolder(target, KIND).check(overwrite=overwrite)
    (output,) = next(iter(encoder.card.signatures.values())).outputs.values()
    whole = output.shape[-1]
    width = whole if width is None else width
    if not 1 <= width <= min(whole, text_index.MOST_FEATURES):
        most = min(whole, text_index.MOST_FEATURES)
        raise errors.ConfigError("--dim", f"1 to {most}, the model's features", width)
    if len(rows.texts) * width > text_index.MOST_BYTES:
        raise errors.ConfigError(
            "texts x features",
            f"at most {text_index.MOST_BYTES:,}, which a phone maps",
            f"{len(rows.texts):,} x {width}",
            "Take fewer texts, or fewer features (--dim).",
        )
    places = [f"line {line}" for line in rows.lines]
    vectors, cut = embed(encoder, rows.texts, places)
    if not vectors[:, :width].any(axis=1).all():
        raise errors.ExportError("--dim", "features that are not all 0", width)
    int8 = text_index.quantize(vectors[:, :width])
    checks, scores = index_checks.measure(vectors, int8, _groups(rows))
    notes = [*rows.notes, *_notes(rows, int8, cut, encoder.tokenizer.max_length)]
    notes += [] if checks is None else _check_recall(checks)
    threshold = index_checks.threshold_of(scores.others, len(int8))
    if threshold == 1:
        notes.append(
            "unrelated texts score as high as equal ones: the model tells texts badly apart"
        )
    with (
        bundle.writing(f"index {target}"),
        work_folder.replaced(target, KIND, overwrite=overwrite) as temporary,
    ):
        card = text_index.write_index(
            temporary,
            int8,
            rows.texts,
            rows.answers,
            name=encoder.card.name,
            created=environment.now(),
            tfdistill_version=_version.__version__,
            model=encoder.card.model,
            model_width=whole,
            threshold=threshold,
            checks=checks,
            scores=scores,
            routes=index_checks.fit_routes(int8, rows.answers, threshold),
        )
        text_index.read_index(temporary)
    android_bundle.record_index(target)
    return card, tuple(notes)


def _groups(rows: index_rows.IndexRows) -> np.ndarray:
    """A number for each row, the same where the answers are; no answer is none that is shared."""
    numbers: dict[str, int] = {}
    answers = rows.answers or [""] * len(rows.texts)
    return np.array(
        [numbers.setdefault(answer or f"\0{index}", index) for index, answer in enumerate(answers)]
    )


def _notes(
    rows: index_rows.IndexRows, int8: np.ndarray, cut: list[str], max_length: int
) -> list[str]:
    """Sentences about texts that the model cannot tell apart, or has not read to the end."""
    notes = []
    first: dict[bytes, int] = {}
    same = []
    for index, row in enumerate(int8):
        other = first.setdefault(row.tobytes(), index)
        if other != index:
            same.append(f"line {rows.lines[index]} as line {rows.lines[other]}")
    if same:
        notes.append(f"the same to the model: {index_rows.listed(same)}")
    if cut:
        notes.append(f"cut to {max_length} tokens: {index_rows.listed(cut)}")
    return notes


def _check_recall(checks: Checks) -> list[str]:
    recall = checks.recall_at_10
    if recall < _LEAST_RECALL:
        raise errors.ExportError(
            "int8 vectors",
            f"{_LEAST_RECALL:.0%} of the ten nearest texts, as the file's vectors have them",
            f"{recall:.1%}",
            "A few features outweigh the others, or all texts are alike: this model's vectors "
            "cannot be rounded to int8.",
        )
    notes = []
    if recall < _GOOD_RECALL:
        notes.append(f"int8 vectors find {recall:.1%} of the ten nearest texts")
    if checks.whole_recall_at_10 is not None and checks.whole_recall_at_10 < _GOOD_RECALL:
        notes.append(
            f"of the ten nearest by all features {checks.whole_recall_at_10:.1%} are found: "
            "keep more with --dim, or train with prefixes"
        )
    return notes


def search(
    folder: str, query: str, *, source: str | None = None, count: int = 10
) -> tuple[IndexManifest, list[Match], Route | None]:
    """Searches an index with the model that it was made with, by default that around it.

    What of the query does not fit into the model is cut. Returns the manifest of the index, the
    nearest rows, and the label where the answers are labels.
    """
    if not query.strip() or len(query) > index_rows.MOST_CHARACTERS:
        received = f"{len(query):,}" if query.strip() else "blanks alone"
        raise errors.ConfigError(
            "--query", f"1 to {index_rows.MOST_CHARACTERS:,} characters", received
        )
    index, encoder = _opened(folder, source)
    vectors, cut = embed(encoder, [query], ["--query"])
    if cut:
        _log.info(f"The query was cut to {encoder.tokenizer.max_length} tokens.")
    routed = None if index.card.routes is None else index.route(vectors[0])
    return index.card, index.search(vectors[0], count), routed


def evaluate(
    folder: str, rows: index_rows.IndexRows, *, source: str | None = None
) -> dict[str, Any]:
    """Routes labelled texts, whose labels the index has, by an index; see `search`.

    Returns their number, "num_texts"; "accuracy", the share that gets its label, sure or not;
    "coverage", the share with a sure answer; "error", the share of these that is wrong, or None.
    """
    index, encoder = _opened(folder, source)
    thresholds = {} if index.card.routes is None else index.card.routes.thresholds
    if rows.answers is None:
        remedy = "Name their column with --answer-column."
        raise errors.DataError("texts to evaluate", "a label for each", "none", remedy)
    for line, label in zip(rows.lines, rows.answers, strict=True):
        if thresholds and label not in thresholds:
            expected = f"one of {', '.join(sorted(thresholds)[:8])}"
            raise errors.DataError(f"label to evaluate, line {line}", expected, repr(label))
    indexed = {index.text(row)[0] for row in range(index.card.count)}
    if shared := sum(text in indexed for text in rows.texts):
        _log.warning(
            f"{shared} of {len(rows.texts)} texts are in the index too: its figures are too good "
            "by up to that share."
        )
    vectors, _ = embed(encoder, rows.texts, [f"line {line}" for line in rows.lines])
    routed = [index.route(vector) for vector in vectors]
    sure = np.array([route.sure for route in routed])
    right = np.array([r.label == label for r, label in zip(routed, rows.answers, strict=True)])
    error = float(1 - right[sure].mean()) if sure.any() else None
    return {
        "num_texts": len(routed),
        "accuracy": float(right.mean()),
        "coverage": float(sure.mean()),
        "error": error,
    }


def _opened(folder: str, source: str | None) -> tuple[TextIndex, inputs.ExportedSource]:
    index = text_index.read_index(folder)
    encoder = open_encoder(str(pathlib.Path(folder).resolve().parent) if source is None else source)
    text_index.check_model(index.card, encoder.card)
    return index, encoder
