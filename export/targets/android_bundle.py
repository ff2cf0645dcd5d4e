"""Bundles for the Android app: an export with its test vectors, several in one folder.

A folder of assets holds ``bundles/index.json`` and a folder for each bundle::

    bundles/index.json            format_version and the bundles, by name
    bundles/sst2-float16/         model.json, model.tflite, vocab.txt, labels.txt,
                                  golden.json (texts -> ids -> logits), tokens.jsonl (texts -> ids)
                                  of variants model-gpu.tflite, golden-gpu.json, ... besides
    bundles/near-float32/search/  the index of texts of `tfdistill index`, where there is one

Every file is listed with its SHA-256: those of model.json in the index, the others in model.json,
tokens.jsonl and the manifest of an index of texts in the index too. Nothing in the folder that is
not ours is touched. The app maps the model straight from the package, so its build must not
compress it: ``noCompress "tflite"``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pydantic

from tfdistill import errors
from tfdistill import manifest as manifests
from tfdistill.data import text_index
from tfdistill.io import checks, files, reading, safe_paths
from tfdistill.manifest import FileName, FileRecord, Manifest
from tfdistill.manifest.parts import ManifestFile, ManifestPart
from tfdistill.tasks import Examples
from tfdistill.tokenization.reading import exported_tokenizer

from ..file import bundle
from . import android_bundle_checks, token_vectors

FOLDER = "bundles"
INDEX = "index.json"
TOKENS = "tokens.jsonl"
# Not what Android's packager leaves out: _x, .x, cvs, x.scc, thumbs.db, picasa.ini.
_NAME = re.compile(r"(?!(?i:cvs|.*\.(scc|db|ini))$)[A-Za-z0-9][A-Za-z0-9._-]{0,98}(?<!\.)")
_Records = tuple[FileRecord, ...]
_log = logging.getLogger(__name__)


class Bundle(ManifestPart):
    """A bundle in the index; `folder` is next to the index.

    Each variant in the manifest of a bundle has an entry of its own, `<bundle>-<device>`, with the
    same folder and its `device`, which is null in other entries. `search` is search/index.json, if
    an index of texts belongs to the bundle; None in entries of versions that did not record it.
    """

    folder: FileName
    quantization: str
    size_bytes: int  # of the model file
    manifest: FileRecord
    tokens: FileRecord
    device: manifests.DeviceKind | None = None
    search: _Records | None = None


class Index(ManifestFile):
    """The whole of bundles/index.json."""

    bundles: dict[str, Bundle]


def to_android(
    export_folder: files.Path,
    target: files.Path,
    *,
    texts: Examples | None = None,
    name: str | None = None,
    overwrite: bool = False,
) -> pathlib.Path:
    """Adds an export to the bundles in a folder of Android assets.

    Args:
      export_folder: What `to_tflite` wrote: the folder with model.json, with the files of all its
        variants, or one .tflite file. It must have a vocabulary, and golden vectors with texts.
      target: The folder of assets, for example ``app/src/main/assets``; made if need be.
      texts: Real texts for tokens.jsonl, next to the tokenizer's edge cases that it always has.
      name: Name of the bundle; default ``<name of the export>-<quantization>``.
      overwrite: Whether a bundle of that name is replaced. Files in its folder that are not of
        the bundle stay; an index of texts belongs to it only if model and tokenizer are the same.

    Returns:
      The folder of the bundle. Before it was put in place, every file was compared with the
      export's, the texts' ids with those of the bundle's vocabulary, and the golden outputs with
      those of the bundle's files.

    Raises:
      ConfigError: If the name, also the default one, is not one that every app can open.
      OutputExistsError: If there is another bundle of that name, or a folder that is none.
      ManifestError: If the export, or a bundle that is there already, is damaged or incomplete.
      ParityError: If the bundle is not the export; nothing was replaced.
      ExportError: If the files cannot be written; nothing was replaced.

    Examples:
      >>> bundle = export.to_android("student", "app/src/main/assets", name="sentiment")
      >>> (bundle / "model.tflite").is_file()
      True
    """
    manifest = manifests.read_manifest(export_folder)
    usual = bundle_name(manifest.name, manifest.quantization, manifest.device)
    chosen = usual if name is None else name
    folder = folder_of(target, chosen)
    source = pathlib.Path(export_folder)
    source = source if source.is_dir() else source.parent
    contents = _contents(manifest, source, texts)
    check_free(target, chosen, overwrite=overwrite)
    others = read_index(target).bundles if (folder.parent / INDEX).is_file() else {}
    others = {other: entry for other, entry in others.items() if entry.folder != folder.name}
    for clash in {
        _name_of(chosen, manifest, device) for device in manifest.devices
    } & others.keys():
        raise errors.OutputExistsError(
            f"bundle {clash}",
            "no other bundle of that name",
            f"that of {others[clash].folder}",
            "Choose another name.",
        )
    for other, entry in others.items():
        _check(safe_paths.inside(folder.parent, entry.folder), entry, other)
    search = _index_of(folder, manifest)
    with bundle.writing(f"bundle {folder}"):
        with files.atomic_folder(folder) as temporary:
            _keep_foreign_files(folder, temporary)
            for file, content in contents.items():
                _write(temporary / file, content)
            written = android_bundle_checks.WrittenBundle(
                temporary, source, manifest, tuple(_records(manifest)), TOKENS
            )
            checks.require(f"bundle {folder}", android_bundle_checks.CHECKS, written)
            entries = dict(_entries(temporary, folder.name, search))
        index = Index(bundles=dict(sorted({**others, **entries}.items())))
        files.atomic_write_json(folder.parent / INDEX, index.model_dump(mode="json"))
    return folder


def check_lengths(sizes: Collection[int], lengths: Sequence[int]) -> None:
    """Refuses a length that none of the golden examples, of so many tokens, fits into."""
    if (shortest := min(sizes)) > min(lengths):
        remedy = "The app compares answers at every length: leave it out, or add shorter examples."
        expected = f"at least the {shortest} tokens of the shortest example"
        raise errors.ConfigError("lengths of an Android bundle", expected, min(lengths), remedy)


def record_index(search_folder: pathlib.Path) -> None:
    """Writes into bundles/index.json whether an index of texts belongs to the bundle around it.

    Does nothing if there is none. Until this is done, an app refuses an index that was replaced.
    """
    folder = search_folder.absolute().parent
    path = folder.parent / INDEX
    if (search_folder.name, folder.parent.name) != (text_index.FOLDER, FOLDER) or not path.exists():
        return
    bundles = dict(read_index(folder.parents[1]).bundles)
    search = _index_of(folder, manifests.read_manifest(folder, verify=False))
    for name, entry in bundles.items():
        if entry.folder == folder.name and entry.device is None:
            bundles[name] = entry.model_copy(update={"search": search})
    files.atomic_write_json(path, Index(bundles=bundles).model_dump(mode="json"))


def check_texts(texts: Examples | None) -> None:
    """Refuses to begin without the texts that the golden vectors need."""
    if texts is None or not len(texts.texts):
        raise errors.ConfigError(
            "Android bundle",
            "a task with texts: the app's tests compare with their answers",
            "none",
            "Name one with --task and --data-dir; a run folder has its own.",
        )


def bundle_name(name: str, quantization: str, device: str = "cpu") -> str:
    """Returns the name that a bundle has by default: files for CPU and GPU lie side by side."""
    return "-".join((name, quantization, *([] if device == "cpu" else [device])))


def folder_of(target: files.Path, name: str) -> pathlib.Path:
    """Returns the folder of a bundle; Android's packager must keep a folder of that name."""
    if not _NAME.fullmatch(name):
        raise errors.ConfigError(
            "name of a bundle",
            "up to 99 of A-Z, a-z, 0-9, and '.', '_', '-' inside; not cvs, *.scc, *.db, *.ini",
            errors.shortened(repr(name)),
            "Choose another one: --name of `tfdistill export`, `name` in Python.",
        )
    return pathlib.Path(target) / FOLDER / name


def check_free(target: files.Path, name: str, *, overwrite: bool) -> None:
    """Refuses to replace a bundle unless `overwrite`, and what is no bundle in any case."""
    folder = folder_of(target, name)
    if not folder.exists():
        return
    if not (folder / manifests.FILE_NAME).is_file():
        raise errors.OutputExistsError(
            f"{folder}", "a bundle or nothing", "something else", "Choose a name."
        )
    if not overwrite:
        raise errors.OutputExistsError(
            f"{folder}", "no bundle", "one", "Choose another name, or overwrite it."
        )


def read_index(target: files.Path, *, verify: bool = False) -> Index:
    """Reads the bundles by name in a folder of assets, `verify` them and their checksums, too."""
    path = pathlib.Path(target) / FOLDER / INDEX
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise errors.ManifestError(
            "bundles", path, "no such file", "`tfdistill export --android` makes it."
        ) from error
    index = reading.read_model(
        content,
        Index,
        f"{path}",
        error=errors.ManifestError,
        expected="an index of bundles",
        remedy="Remove it together with the bundles, and export them again.",
    )
    if verify:
        for name, entry in index.bundles.items():
            _check(safe_paths.inside(path.parent, entry.folder), entry, name)
    return index


def _contents(
    manifest: Manifest, source: pathlib.Path, texts: Examples | None
) -> dict[str, bytes | pathlib.Path]:
    """Returns the files of the bundle, the manifest last."""
    if manifest.tokenizer is None:
        raise errors.ManifestError(
            f"export {source}",
            "a vocabulary: the app starts from text",
            "none",
            "Export with tokenizer.",
        )
    golden = manifest.golden_file
    examples = reading.read_json_object(source / golden.file)["examples"] if golden else []
    if not any(example.get("text") is not None for example in examples):
        raise errors.ManifestError(
            f"export {source}",
            "golden vectors with real texts: the app's tests compare with them",
            "none",
            "Export with the task's texts (--task and --data-dir, or a run folder).",
        )
    lengths = [signature.sequence_length for signature in manifest.signatures.values()]
    check_lengths([len(example["input_ids"]) for example in examples], lengths)
    tokenizer = exported_tokenizer(source, manifest.tokenizer)
    vectors = token_vectors.token_vectors(tokenizer, texts, manifest.tokenizer.max_length)
    contents: dict[str, bytes | pathlib.Path] = {
        record.file: source / record.file for record in _records(manifest)
    }
    contents[TOKENS] = vectors
    contents[manifests.FILE_NAME] = manifests.json_text(manifest).encode()
    return contents


def _records(part: Any) -> Iterator[FileRecord]:
    """Yields the files of a manifest, wherever they are in it."""
    if isinstance(part, FileRecord):
        yield part
    elif isinstance(part, pydantic.BaseModel):
        for _, value in part:
            yield from _records(value)
    elif isinstance(part, dict):
        for value in part.values():
            yield from _records(value)


def _write(file: pathlib.Path, content: bytes | pathlib.Path) -> None:
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        shutil.copyfile(content, file)
    with open(file, "rb") as written:
        os.fsync(written.fileno())


def _keep_foreign_files(folder: pathlib.Path, temporary: pathlib.Path) -> None:
    """Copies what is in the folder of a bundle and not of the bundle."""
    if not folder.is_dir():
        return
    old = manifests.read_manifest(folder, verify=False)
    ours = {record.file for record in _records(old)} | {TOKENS, manifests.FILE_NAME}
    for entry in (path for path in folder.iterdir() if path.name not in ours):
        if entry.is_dir() and not entry.is_symlink():
            shutil.copytree(entry, temporary / entry.name, symlinks=True)
        else:
            shutil.copy2(entry, temporary / entry.name, follow_symlinks=False)


def _index_of(folder: pathlib.Path, manifest: Manifest) -> _Records:
    """Returns the record of the index of texts in a bundle's folder, () if it is of another model.

    Its vectors come from the model file and the tokenizer.
    """
    file = folder / text_index.FOLDER / text_index.FILE_NAME
    if not file.is_file():
        return ()
    with contextlib.suppress(errors.ManifestError):
        text_index.check_model(text_index.read_index(file.parent).card, manifest)
        if manifests.read_manifest(folder, verify=False).tokenizer == manifest.tokenizer:
            return (_record(file),)
    _log.warning(f"{file}: not of this model, so the bundle has no index; `tfdistill index` again")
    return ()


def _name_of(bundle: str, manifest: Manifest, device: str) -> str:
    """Returns the name in the index of a bundle's file for a device."""
    return bundle if device == manifest.device else f"{bundle}-{device}"


def _entries(folder: pathlib.Path, name: str, search: _Records) -> Iterator[tuple[str, Bundle]]:
    manifest = manifests.read_manifest(folder, verify=False)
    for file in manifest.each_file():
        variant = file.device != manifest.device
        yield (
            _name_of(name, manifest, file.device),
            Bundle(
                folder=name,
                quantization=file.quantization,
                size_bytes=file.model.size_bytes,
                manifest=_record(folder / manifests.FILE_NAME),
                tokens=_record(folder / TOKENS),
                device=file.device if variant else None,  # pyright: ignore[reportArgumentType]
                search=() if variant else search,
            ),
        )


def _record(file: pathlib.Path) -> FileRecord:
    return FileRecord(file=file.name, sha256=files.sha256_of(file), size_bytes=file.stat().st_size)


def _check(folder: pathlib.Path, entry: Bundle, name: str) -> None:
    """Checks that the files of a bundle are the ones that index and manifest describe."""
    search = [(f"{text_index.FOLDER}/", record) for record in entry.search or ()]
    for place, record in (("", entry.manifest), ("", entry.tokens), *search):
        file = safe_paths.inside(folder, place + record.file)
        received = files.sha256_of(file) if file.is_file() else "no such file"
        if received != record.sha256:
            raise errors.ManifestError(
                f"bundle {name}, {place}{record.file}",
                f"sha256 {record.sha256}",
                received,
                "Export, or index, this bundle again, or take it out of the index.",
            )
    manifests.read_manifest(folder)
