"""An index of texts for search on a phone, made and searched with the exported file itself."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import statistics
import sys
from collections.abc import Sequence

import numpy as np
import tqdm

from export.file import folders
from export.targets import android_bundle
from tfdistill import _version, errors, files, manifest
from tfdistill.data import index_rows, text_index, tokenize
from tfdistill.data.text_index import Checks, IndexManifest, Match, Scores, Spread
from tfdistill.run import inputs

_EXPORT = "export"  # where `tfdistill export` writes by default
_NUM_QUERIES = 1000  # rows that the checks search for
_BLOCK = 32
_NEAREST = 10
_SAME = 1e-6  # of a cosine: sums in float32 have another order
_LEAST_RECALL = 0.8
_GOOD_RECALL = 0.95
_ANSWERED = 0.05  # share of unrelated questions that get an answer all the same
_LEAST_TEXTS = 20  # of a threshold
_SEED = 1  # of the choice of rows
_REMEDY = "Name a run or an export of --kind embedding; `tfdistill export` makes one."


@dataclasses.dataclass(frozen=True)
class Built:
    """An index that was written.

    Attributes:
      folder: Its folder.
      card: Its manifest.
      notes: What its maker should know, a sentence each.
    """

    folder: pathlib.Path
    card: IndexManifest
    notes: tuple[str, ...]


def open_encoder(source: str) -> inputs.ExportedSource:
    """Opens the exported sentence encoder of a run, or an export.

    Args:
      source: A run folder with an export in it, an export folder, a bundle, or a .tflite file.

    Raises:
      ManifestError: If there is no export, or one that is damaged or no sentence encoder.
    """
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
    kind = None if opened.card.task is None else opened.card.task.kind
    if kind != "embedding":
        raise errors.ManifestError(
            f"--model {path}", "a sentence encoder", f"a model of kind {kind}", _REMEDY
        )
    widths = {
        tensor.shape[-1]
        for signature in opened.card.signatures.values()
        for tensor in signature.outputs.values()
    }
    if len(widths) != 1:
        raise errors.ManifestError(f"{path}", "vectors of one width", f"widths {sorted(widths)}")
    return opened


def width_of(encoder: inputs.ExportedSource) -> int:
    """The width of an encoder's vectors."""
    (output,) = next(iter(encoder.card.signatures.values())).outputs.values()
    return output.shape[-1]


def target_of(encoder: inputs.ExportedSource, out: str | None) -> pathlib.Path:
    """The folder of an index: `out`, beside the model, or in its bundle in a folder of assets.

    Raises:
      ManifestError: If `out` is a folder of assets in which no bundle has this model.
    """
    if out is None:
        return encoder.folder / text_index.FOLDER
    bundles = pathlib.Path(out) / android_bundle.FOLDER
    if not (bundles / android_bundle.INDEX).is_file():
        return pathlib.Path(out)
    known = android_bundle.read_index(out).bundles
    for entry in known.values():
        folder = bundles / entry.folder
        card = manifest.read_manifest(folder, verify=False)
        if card.model.sha256 == encoder.card.model.sha256:
            return folder / text_index.FOLDER
    raise errors.ManifestError(
        f"bundles of {out}",
        f"one with the model of {encoder.folder}",
        ", ".join(known) or "none",
        "Write it there first: `tfdistill export --android`.",
    )


def check_free(folder: pathlib.Path, *, overwrite: bool) -> None:
    """Refuses to replace an index unless `overwrite`, and what is no index in any case.

    Raises:
      OutputExistsError: If the folder may not be replaced.
    """
    folders.check_free(folder, mark=text_index.FILE_NAME, overwrite=overwrite)


def embed(
    encoder: inputs.ExportedSource, texts: Sequence[str], places: Sequence[str]
) -> tuple[np.ndarray, list[str]]:
    """Runs the exported file on texts, in a process of its own, as the app does.

    Args:
      encoder: The export.
      texts: The texts.
      places: How messages call each.

    Returns:
      float32 (n, model_width), and the places of the texts that were cut.

    Raises:
      DataError: If the tokenizer finds nothing in a text.
      ExportError: If a vector holds NaN or infinity, or only zeros.
      BenchmarkError: If LiteRT cannot run the file, or crashes.
    """
    record = encoder.tokenizer
    tokenizer = tokenize.Tokenizer(encoder.vocab_file, lower_case=record.lower_case)
    rows = tokenizer.encode_batch(texts, None, record.max_length)
    sizes = np.diff(rows.offsets)
    if (sizes <= 2).any():
        first = int(np.argmax(sizes <= 2))
        raise errors.DataError(places[first], "a text with letters or signs", "blanks alone")
    found = []
    with inputs.open_foreign(encoder.folder / encoder.card.model.file) as file:
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
            found.append(vector)
    whole = tokenizer.lengths(texts)
    cut = [place for place, size in zip(places, whole, strict=True) if size > record.max_length]
    return np.stack(found), cut


def build(
    rows: index_rows.IndexRows,
    encoder: inputs.ExportedSource,
    target: pathlib.Path,
    *,
    width: int | None = None,
    overwrite: bool = False,
) -> Built:
    """Writes an index of texts: all of its files, or none.

    Args:
      rows: The texts.
      encoder: The export that gives the vectors.
      target: The folder to write.
      width: Features that are kept, the first ones; all by default. A model that was trained with
        `prefixes` loses little.
      overwrite: Whether an index there is replaced.

    Raises:
      ConfigError: If the width is not one of 1 to the model's, or the index too large to be mapped.
      DataError, ExportError, BenchmarkError: See `embed`.
      ExportError: If int8 vectors have other neighbours than the file's own, or nothing can be
        written.
      OutputExistsError: If the folder may not be replaced.
    """
    check_free(target, overwrite=overwrite)
    whole = width_of(encoder)
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
    checks, scores = measure(vectors, int8, _groups(rows))
    notes = [*rows.notes, *_notes(rows, int8, cut, encoder.tokenizer.max_length)]
    notes += _check_recall(checks)
    threshold = threshold_of(scores.others, len(int8))
    if threshold == 1:
        notes.append(
            "unrelated texts score as high as equal ones: the model tells texts badly apart"
        )
    with folders.writing(f"index {target}"), files.atomic_folder(target) as temporary:
        card = text_index.write_index(
            temporary,
            int8,
            rows.texts,
            rows.answers,
            name=encoder.card.name,
            created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            tfdistill_version=_version.__version__,
            model=encoder.card.model,
            model_width=whole,
            threshold=threshold,
            checks=checks,
            scores=scores,
        )
        text_index.read_index(temporary)
    return Built(target, card, tuple(notes))


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


def _check_recall(checks: Checks | None) -> list[str]:
    if checks is None:
        return []
    found = checks.recall_at_10
    if found < _LEAST_RECALL:
        raise errors.ExportError(
            "int8 vectors",
            f"{_LEAST_RECALL:.0%} of the ten nearest texts, as the file's vectors have them",
            f"{found:.1%}",
            "A few features outweigh the others, or all texts are alike: this model's vectors "
            "cannot be rounded to int8.",
        )
    notes = []
    if found < _GOOD_RECALL:
        notes.append(f"int8 vectors find {found:.1%} of the ten nearest texts")
    if checks.whole_recall_at_10 is not None and checks.whole_recall_at_10 < _GOOD_RECALL:
        notes.append(
            f"of the ten nearest by all features {checks.whole_recall_at_10:.1%} are found: "
            "keep more with --dim, or train with prefixes"
        )
    return notes


def measure(
    vectors: np.ndarray, int8: np.ndarray, groups: np.ndarray
) -> tuple[Checks | None, Scores]:
    """Searches for up to 1,000 rows among all others, by float and by int8 vectors.

    Args:
      vectors: float (n, model_width), of the file.
      int8: int8 (n, width), their first features.
      groups: int (n,), the same where rows have the same answer.

    Returns:
      How both compare, and how rows of other answers score; None where there are no others.
    """
    count, width = int8.shape
    if count == 1:
        return None, Scores(others=None, nearest_other=None, nearest_same=None)
    random = np.random.default_rng(_SEED)
    chosen = np.sort(random.choice(count, min(count, _NUM_QUERIES), replace=False))
    unit = _normalised(vectors[:, :width])
    whole = _normalised(vectors) if width < vectors.shape[1] else None
    recalls, whole_recalls, errors_of = [], [], []
    others, nearest_other, nearest_same = [], [], []
    for start in range(0, len(chosen), _BLOCK):
        asked = chosen[start : start + _BLOCK]
        own = np.arange(len(asked)), asked
        scores = text_index.scores_of(int8[asked], int8)
        exact = unit[asked] @ unit.T
        errors_of.append(np.abs(scores - exact).max())
        scores[own] = exact[own] = -np.inf
        recalls.append(_recall(scores, exact))
        if whole is not None:
            exact = whole[asked] @ whole.T
            exact[own] = -np.inf
            whole_recalls.append(_recall(scores, exact))
        same = groups[asked][:, None] == groups
        nearest_same.append(np.where(same, scores, -np.inf).max(axis=1))
        scores[same] = -np.inf
        nearest_other.append(scores.max(axis=1))
        others.append(scores[:, random.integers(0, count, min(count, _NUM_QUERIES))].ravel())
    checks = Checks(
        num_queries=len(chosen),
        recall_at_10=float(np.concatenate(recalls).mean()),
        whole_recall_at_10=float(np.concatenate(whole_recalls).mean()) if whole_recalls else None,
        mean_cosine_error=float(np.mean(1 - (unit * _normalised(int8)).sum(axis=1, dtype=float))),
        max_score_error=float(max(errors_of)),
    )
    return checks, Scores(
        others=_spread(others),
        nearest_other=_spread(nearest_other),
        nearest_same=_spread(nearest_same),
    )


def threshold_of(others: Spread | None, count: int) -> float | None:
    """The score that the best of `count` unrelated texts exceeds in 5% of the cases.

    Scores of two texts are taken as normally distributed above their median, with the width that
    their 95th percentile shows: ``p50 + z (p95 - p50) / 1.645``, where a normal variable is above z
    with probability 0.05 / count. Most pairs of an index are unrelated; those that are related
    widen the upper half, so that the threshold is rather too high. A few texts show nothing.

    Args:
      others: Scores of different texts; None where there are none.
      count: Texts of the index.

    Returns:
      At most 1, four decimals; None for fewer than 20 texts.
    """
    if others is None or count < _LEAST_TEXTS:
        return None
    normal = statistics.NormalDist()
    z = -normal.inv_cdf(_ANSWERED / count)
    spread = (others.p95 - others.p50) / normal.inv_cdf(0.95)
    return round(min(1.0, others.p50 + z * spread), 4)


def _normalised(rows: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _recall(scores: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The share of the best by `scores` that are among the best by `exact`, for each query."""
    count = min(_NEAREST, scores.shape[1] - 1)
    least = -np.partition(-exact, count - 1, axis=1)[:, count - 1 : count] - _SAME
    found = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    return (np.take_along_axis(exact, found, axis=1) >= least).mean(axis=1)


def _spread(parts: list[np.ndarray]) -> Spread | None:
    values = np.concatenate(parts)
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, middle, high = (round(float(x), 4) for x in np.percentile(values, (5, 50, 95)))
    return Spread(p05=low, p50=middle, p95=high)


def search(
    folder: str, query: str, *, source: str | None = None, count: int = 10
) -> tuple[IndexManifest, list[Match]]:
    """Searches an index with the model that it was made with.

    Args:
      folder: The index.
      query: A text of at most 100,000 characters; what does not fit into the model is cut.
      source: The run or export; default the folder that the index lies in.
      count: The most rows.

    Returns:
      The manifest of the index, and the nearest rows.

    Raises:
      ConfigError: If the query is empty or too long.
      ManifestError: If index or export is damaged, or the index of another model.
    """
    if not query.strip() or len(query) > index_rows.MOST_CHARACTERS:
        raise errors.ConfigError(
            "--query", f"1 to {index_rows.MOST_CHARACTERS:,} characters", f"{len(query):,}"
        )
    index = text_index.read_index(folder)
    encoder = open_encoder(str(pathlib.Path(folder).resolve().parent) if source is None else source)
    text_index.check_model(index.card, encoder.card)
    vectors, cut = embed(encoder, [query], ["--query"])
    if cut:
        print(f"The query was cut to {encoder.tokenizer.max_length} tokens.", file=sys.stderr)
    return index.card, index.search(vectors[0], count)
