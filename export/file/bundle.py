"""The files of an export: the model, its manifest, vocabulary, labels and golden vectors.

They are written to a temporary folder in the same folder and renamed when all are complete,
the manifest last. A full disk leaves the old files as they were; a kill between two renames leaves
whole files whose checksums show that they do not belong together.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping

from tfdistill import errors, manifest
from tfdistill.data import answers
from tfdistill.io import files, work_folder
from tfdistill.results import model_card
from tfdistill.tokenization.tokenizer import Tokenizer

SUFFIX = ".tflite"
KIND = "export"
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True)
class ExportPaths:
    """The paths of an export's files, all in one folder."""

    model: pathlib.Path
    manifest: pathlib.Path
    vocab: pathlib.Path
    labels: pathlib.Path
    golden: pathlib.Path
    answers: pathlib.Path

    def for_device(self, device: str) -> ExportPaths:
        """Returns the paths of the file for another device, in the same manifest."""
        return dataclasses.replace(
            self,
            **{
                name: path.with_name(f"{path.stem}-{device}{path.suffix}")
                for name, path in (("model", self.model), ("golden", self.golden))
            },
        )


def paths_of(path: files.Path, tokenizer: Tokenizer | None = None) -> ExportPaths:
    """Returns where the files of an export go.

    The vocabulary, labels.txt and golden.json are next to model.json; where the folder's
    model.json is about another file, all of them are called after this one: student.json,
    student.vocab.txt.
    """
    model = pathlib.Path(path)
    if model.suffix != SUFFIX or not _FILE_NAME.fullmatch(model.name) or model.is_dir():
        raise errors.ConfigError(
            "path", "a file of letters, digits, '.', '_' and '-' that ends in .tflite", path
        )
    described = manifest.manifest_path(model)
    if model in variant_files(described):
        raise errors.ConfigError(
            "path", "another name", f"{path}, a variant in {described}", "Export them together."
        )
    vocab = "vocab.txt" if tokenizer is None else tokenizer.file_name
    prefix = "" if described.name == manifest.FILE_NAME else f"{model.stem}."
    return ExportPaths(
        model,
        described,
        *(
            model.with_name(prefix + name)
            for name in (vocab, "labels.txt", "golden.json", answers.FILE_NAME)
        ),
    )


def variant_files(described: pathlib.Path) -> set[pathlib.Path]:
    """Returns the files of the variants in a manifest; none where it is missing or damaged."""
    try:
        card = manifest.read_manifest(described, verify=False)
    except errors.ManifestError:
        return set()
    return {
        described.with_name(record.file)
        for variant in card.variants.values()
        for record in (variant.model, variant.golden_file)
        if record is not None
    }


def check_free(contents: dict[pathlib.Path, bytes | None], *, overwrite: bool) -> None:
    """Refuses to replace a file unless `overwrite`.

    A file that already holds its content is no obstacle; content is None where it is not known yet.
    """
    for file, content in contents.items():
        if file.is_dir():
            raise errors.ConfigError(f"{file}", "a file or nothing", "a folder")
        if not file.exists() or (content is not None and file.read_bytes() == content):
            continue
        if overwrite and not is_ours(file):
            raise errors.OutputExistsError(
                f"{file}",
                "no such file, or one that tfdistill wrote",
                "another one",
                "It is never replaced: choose another path.",
            )
        if not overwrite:
            raise errors.OutputExistsError(
                f"{file}", "no such file", "one", "Choose another path, or overwrite it."
            )


def is_ours(file: pathlib.Path) -> bool:
    """Whether tfdistill wrote a file: a marker or a manifest next to it names it."""
    if file.is_symlink():
        return False
    if work_folder.is_listed(file):
        return True
    digest = files.sha256_of(file)
    for described in {file, *file.parent.glob("*.json")}:
        try:
            card = manifest.read_manifest(described, verify=False)
        except (errors.TfdistillError, OSError):
            continue
        if described == file:
            return True
        if f'"{digest}"' in card.model_dump_json():
            return True
    return False


def check_file_free(path: files.Path, *, suffix: str, overwrite: bool) -> None:
    """Refuses to replace a file unless `overwrite`, and a name without the suffix of its kind."""
    path = pathlib.Path(path)
    if path.suffix != suffix or path.is_dir():
        raise errors.ConfigError("path", f"a file that ends in {suffix}", path)
    work_folder.check_file(path, overwrite=overwrite)


@contextlib.contextmanager
def writing(what: str, *also: type[Exception]) -> Iterator[None]:
    """Reports a failure to write `what`, OSError or one of `also`, as an ExportError.

    Nothing of it may be left when the block fails.
    """
    try:
        yield
    except (OSError, *also) as error:
        raise errors.ExportError(
            what,
            "space and permission to write it",
            getattr(error, "strerror", None) or error,
            "Nothing was replaced.",
        ) from error


def write_card(path: files.Path, described: manifest.Manifest) -> None:
    """Writes the model card of an exported file; none for a second model in a folder."""
    described_in = paths_of(path).manifest
    if described_in.name == manifest.FILE_NAME:
        model_card.write(described_in.parent, model_card.of_file(described))


def write(
    contents: dict[pathlib.Path, bytes | pathlib.Path], obsolete: Iterable[pathlib.Path] = ()
) -> None:
    """Writes files into one folder: all of them or none, renamed in this order.

    Content is bytes or a file to copy. `obsolete` files are removed then, unless they were written.
    """
    folder = next(iter(contents)).parent
    with writing(f"export to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            work_folder.WorkFolder(folder, KIND).start()
        removed = {file for file in set(obsolete) - contents.keys() if file.is_file()}
        removed = {file for file in removed if is_ours(file)}  # while the old manifest names them
        with files.temporary_folder("export", folder) as temporary:
            staged = {}
            for file, content in contents.items():
                staged[file] = temporary / file.name
                _write_one(staged[file], content)
            _rename_all(staged, temporary)
        for file in removed:
            file.unlink(missing_ok=True)
    work_folder.record(folder, list(contents))


def _rename_all(staged: Mapping[pathlib.Path, pathlib.Path], temporary: pathlib.Path) -> None:
    """Renames files; where one cannot be renamed, those before it become what they were."""
    done: dict[pathlib.Path, pathlib.Path | None] = {}
    try:
        for file, complete in staged.items():
            done[file] = _kept(file, temporary / f"{file.name}.old")
            os.replace(complete, file)
    except BaseException:
        for file, old in done.items():
            if old is not None:
                os.replace(old, file)
            elif not staged[file].exists():  # renamed where nothing was
                file.unlink(missing_ok=True)
        raise


def _kept(file: pathlib.Path, old: pathlib.Path) -> pathlib.Path | None:
    """Gives a file a second name; None if there is no such file."""
    if not file.exists():
        return None
    try:
        os.link(file, old)
    except OSError:  # a file system without links
        shutil.copyfile(file, old)
    return old


def _write_one(file: pathlib.Path, content: bytes | pathlib.Path) -> None:
    with open(file, "wb") as target:
        if isinstance(content, bytes):
            target.write(content)
        else:
            with open(content, "rb") as source:
                shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
