"""The files of a prepared corpus: TFRecord shards, a manifest and the vocabulary.

A record is a `tf.train.Example` with the int64 features ``input_ids`` (the tokens, special ones
included, without padding), ``first_length`` (the tokens of type 0: up to and including the first
[SEP]) and, for next-sentence prediction, ``nsp_label``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pydantic

from tfdistill import errors
from tfdistill.data import vocab as vocabularies
from tfdistill.io import files, reading, safe_paths, storage
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tokenization.reading import read_tokenizer, vocab_file_of
from tfdistill.tokenization.tokenizer import Tokenizer

FORMAT_VERSION = 1
MANIFEST = "corpus.json"
_PARSED_AT_ONCE = 4096  # records
# Of the settings those that readers need.
_SETTINGS = {"vocabulary": str, "lower_case": bool, "next_sentence": bool, "max_length": int}


_Count = Annotated[int, pydantic.Field(ge=0)]


@pydantic.dataclasses.dataclass(frozen=True)
class Shard:
    """One TFRecord file, named in the folder of the corpus."""

    file: str
    num_examples: _Count
    num_tokens: _Count  # of all its records
    size_bytes: _Count
    sha256: str
    text_sha256: str = ""  # of the text that it was made of; "" where nobody noted it


@dataclasses.dataclass(frozen=True)
class PreparedCorpus:
    """A manifest."""

    settings: dict[str, Any]  # what the preparation was asked for; equal settings give equal shards
    sources: list[dict[str, Any]]  # name, size_bytes and fingerprint of each text file
    shards: dict[int, Shard]  # those that are finished, by their number
    num_shards: int  # how many there will be

    @property
    def complete(self) -> bool:
        """Whether every shard is finished."""
        return len(self.shards) == self.num_shards

    @property
    def num_examples(self) -> int:
        """Records of all shards."""
        return sum(shard.num_examples for shard in self.shards.values())

    @property
    def num_tokens(self) -> int:
        """Tokens of all shards."""
        return sum(shard.num_tokens for shard in self.shards.values())


def write_manifest(corpus: PreparedCorpus, folder: files.Path) -> None:
    """Writes corpus.json so that it is whole or unchanged."""
    value = {
        "format_version": FORMAT_VERSION,
        "complete": corpus.complete,
        "num_examples": corpus.num_examples,
        "num_tokens": corpus.num_tokens,
        "num_shards": corpus.num_shards,
        "settings": corpus.settings,
        "sources": corpus.sources,
        "shards": {
            str(number): dataclasses.asdict(shard)
            for number, shard in sorted(corpus.shards.items())
        },
    }
    files.atomic_write_json(storage.located(folder) / MANIFEST, value)


def read_manifest(folder: files.Path) -> PreparedCorpus:
    """Reads corpus.json, of a folder that `prepare_corpus` wrote."""
    path = storage.located(folder) / MANIFEST
    if not path.is_file():
        raise errors.DataError(
            "corpus",
            f"a folder with {MANIFEST}",
            f"{folder}, which has none",
            "Prepare it with `tfdistill data prepare`.",
        )
    try:
        value = reading.read_json_object(path, remedy="Prepare the corpus again.")
        version = value["format_version"]
        if version != FORMAT_VERSION:
            raise errors.DataError(
                f"{path}, format_version", FORMAT_VERSION, version, "Prepare the corpus again."
            )
        for name, kind in _SETTINGS.items():
            if not isinstance(value["settings"].get(name), kind):
                raise errors.DataError(
                    f"{path}, settings.{name}", kind.__name__, value["settings"].get(name)
                )
        shards = {int(number): Shard(**shard) for number, shard in value["shards"].items()}
        return PreparedCorpus(value["settings"], value["sources"], shards, int(value["num_shards"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, errors.DataError):
            raise
        raise errors.DataError(
            f"{path}", "the manifest of a corpus", f"{type(error).__name__}: {error}"
        ) from None


def write_entry(shard: Shard, path: files.Path) -> None:
    """Writes a shard's entry of the manifest to a file, while others are still written."""
    files.atomic_write_json(storage.located(path), dataclasses.asdict(shard))


def read_entry(path: files.Path) -> Shard:
    """Reads what `write_entry` wrote."""
    try:
        return Shard(**reading.read_json_object(path))
    except (TypeError, ValueError) as error:
        if isinstance(error, errors.DataError):
            raise
        raise errors.DataError(
            f"{path}", "the entry of a shard", f"{error}", "Delete it and resume."
        ) from None


def open_corpus(folder: files.Path, vocab: list[str] | None = None) -> PreparedCorpus:
    """Reads the manifest of a finished corpus and checks its files by their sizes.

    `vocab` is the vocabulary of the model that will read it; the message names the first token that
    differs.
    """
    corpus = read_manifest(folder)
    if not corpus.complete:
        raise errors.DataError(
            f"corpus {folder}",
            f"{corpus.num_shards} finished shards",
            len(corpus.shards),
            "Finish it: `tfdistill data prepare ... --resume`.",
        )
    opened = storage.located(folder)
    sizes = storage.sizes(opened) if storage.is_remote(opened) else None
    for shard in corpus.shards.values():
        fault = _size_fault(shard, opened, sizes)
        if fault:
            raise errors.DataError(fault)
    tokenizer = corpus_tokenizer(folder)
    if tokenizer.digest != corpus.settings["vocabulary"]:
        raise errors.VocabularyError(
            tokenizer.vocab_file,
            "the vocabulary that the corpus was prepared with",
            "another one (its hash differs from the manifest's)",
            "Prepare the corpus again.",
        )
    if vocab is not None:
        vocabularies.check_same_vocabulary(tokenizer.vocab, vocab, names=("corpus", "model"))
    return corpus


def check_shards(folder: files.Path) -> None:
    """Reads every shard of a corpus and compares its checksum.

    Args:
      folder: The corpus.

    Raises:
      DataError: If one differs; the message names the file.
    """
    opened = storage.located(folder)
    for shard in open_corpus(folder).shards.values():
        if files.sha256_of(safe_paths.inside(opened, shard.file)) != shard.sha256:
            raise errors.DataError(damaged(opened / shard.file, "another checksum"))


def is_whole(shard: Shard, folder: files.Path) -> bool:
    """Whether a shard is there, of its size and with its checksum."""
    opened = storage.located(folder)
    path = safe_paths.inside(opened, shard.file)
    return _size_fault(shard, opened) is None and files.sha256_of(path) == shard.sha256


def vocabulary_hash(tokens: list[str]) -> str:
    """SHA-256 of the tokens in the order of their ids."""
    return hashlib.sha256("\n".join(tokens).encode("utf-8", "surrogatepass")).hexdigest()


def damaged(path: files.Path, received: str) -> str:
    """Words the error for a shard that is not what was written."""
    return errors.explain(
        f"shard {path}",
        "the records that were written",
        received,
        "The file is damaged or cut off: `tfdistill data prepare ... --resume` writes it again.",
    )


def write_shard(encoded: EncodedExamples | None, path: files.Path) -> Shard:
    """Writes examples as a TFRecord file that is whole or absent, and describes it.

    Their labels, if any, say whether b is random.
    """
    import tensorflow as tf

    target = storage.located(path)
    with files.atomic_write(target) as temporary, tf.io.TFRecordWriter(str(temporary)) as writer:
        for index in range(0 if encoded is None else len(encoded)):
            assert encoded is not None
            values = {
                "input_ids": encoded.row(index),
                "first_length": [int((encoded.row_types(index) == 0).sum())],
            }
            if encoded.labels is not None:
                values["nsp_label"] = [int(encoded.labels[index])]
            features = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=value))
                for name, value in values.items()
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString(deterministic=True))
        writer.close()
        return Shard(
            file=target.name,
            num_examples=0 if encoded is None else len(encoded),
            num_tokens=0 if encoded is None else encoded.num_tokens,
            size_bytes=temporary.stat().st_size,
            sha256=files.sha256_of(temporary),
        )


def read_shard(
    shard: Shard, folder: files.Path, *, next_sentence: bool, pad_id: int
) -> EncodedExamples:
    """Reads a whole shard, in the order of the text; refuses damaged and missing records.

    With `next_sentence` its records have labels.
    """
    import tensorflow as tf

    path = _on_this_machine(shard, storage.located(folder))
    spec: dict[str, Any] = {
        "input_ids": tf.io.RaggedFeature(tf.int64),
        "first_length": tf.io.FixedLenFeature([], tf.int64),
    }
    if next_sentence:
        spec["nsp_label"] = tf.io.FixedLenFeature([], tf.int64)
    ids, sizes, firsts, labels = [], [], [], []
    records = tf.data.TFRecordDataset(str(path)).batch(_PARSED_AT_ONCE)
    try:
        for serialized in records:
            block = tf.io.parse_example(serialized, spec)
            ids.append(block["input_ids"].values.numpy())
            sizes.append(block["input_ids"].row_lengths().numpy())
            firsts.append(block["first_length"].numpy())
            if next_sentence:
                labels.append(block["nsp_label"].numpy())
    except tf.errors.OpError as error:
        raise errors.DataError(damaged(path, str(error).splitlines()[0])) from error
    lengths = np.concatenate([np.zeros(0, np.int64), *sizes])
    if len(lengths) != shard.num_examples:
        raise errors.DataError(
            damaged(path, f"{len(lengths)} records instead of {shard.num_examples}")
        )
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = np.concatenate([np.zeros(0, np.int64), *ids])
    first = np.concatenate([np.zeros(0, np.int64), *firsts])
    said = np.concatenate([np.zeros(0, np.int64), *labels])
    for what, values, least, most in (
        ("id", flat, 0, corpus_tokenizer(folder).vocab_size - 1),
        ("first_length", first, 1, lengths),
        ("nsp_label", said, 0, 1),
    ):
        wrong = values[(values < least) | (values > most)]
        if wrong.size:
            raise errors.DataError(damaged(path, f"the {what} {wrong[0]}"))
    inside = np.arange(len(flat)) - np.repeat(offsets[:-1], lengths)  # position in its example
    return EncodedExamples(
        ids=flat.astype(np.int32),
        offsets=offsets,
        types=(inside >= np.repeat(first, lengths)).astype(np.uint8),
        labels=said.astype(np.int32) if next_sentence else None,
        pad_id=pad_id,
    )


def _on_this_machine(shard: Shard, folder: Any) -> pathlib.Path:
    """The file of a shard; of one at an address the copy here, checked by its checksum."""
    path = safe_paths.inside(folder, shard.file)
    if not storage.is_remote(path):
        return path
    caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    copy = safe_paths.inside(caches / "tfdistill" / "shards", f"{shard.sha256}.tfrecord")
    if not copy.is_file() or files.sha256_of(copy) != shard.sha256:
        try:
            with files.atomic_write(copy) as temporary:
                storage.download(path, temporary)
                if files.sha256_of(temporary) != shard.sha256:
                    raise errors.DataError(damaged(path, "another checksum"))
        except FileNotFoundError:
            raise errors.DataError(damaged(path, "no file")) from None
    return copy


def _size_fault(
    shard: Shard, folder: files.Path, sizes: Mapping[str, int] | None = None
) -> str | None:
    path = safe_paths.inside(folder, shard.file)
    if sizes is not None:
        size = sizes.get(shard.file)
    else:
        size = path.stat().st_size if path.is_file() else None
    if size is None:
        return damaged(path, "no file")
    if size != shard.size_bytes:
        return damaged(path, f"{size} bytes instead of {shard.size_bytes}")
    return None


def corpus_tokenizer(folder: files.Path) -> Tokenizer:
    """The tokenizer of a corpus; whether it lower-cases stands in the manifest."""
    return read_tokenizer(vocab_file_of(folder), read_manifest(folder).settings["lower_case"])
