"""From text files of any size to shards of tokens, in parallel, resumable."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdistill import errors
from tfdistill.data import corpus as corpora
from tfdistill.data import next_sentence as pairing
from tfdistill.data import parallel, shard_files, textspans
from tfdistill.data import vocab as vocabularies
from tfdistill.io import files, storage, work_folder
from tfdistill.tokenization.reading import read_tokenizer, read_vocab, vocab_file_of

if TYPE_CHECKING:
    from tfdistill.tokenization.tokenizer import Tokenizer

_FINGERPRINTED = 1 << 20  # bytes at each end of a source
KIND = "corpus"
_ENTRIES = ".entries-"  # begins the name of the folder with what the manifest will say of shards

Progress = Callable[[shard_files.PreparedCorpus], None]


@dataclasses.dataclass(frozen=True)
class _Range:
    number: int
    span: textspans.TextSpan
    shard: str


@dataclasses.dataclass(frozen=True)
class _Preparation:
    """Turns ranges of text into shards, each with its entry of the manifest as a file."""

    vocab_file: str
    settings: dict[str, Any]

    def setup(self) -> Tokenizer:
        return read_tokenizer(self.vocab_file, self.settings["lower_case"])

    def process(self, unit: parallel.WorkUnit, tools: Tokenizer) -> None:
        shard_files.write_entry(_write(unit.task, self.settings, tools), unit.target)


def prepare_corpus(
    paths: textspans.Path | Sequence[textspans.Path],
    tokenizer: Tokenizer,
    folder: files.Path,
    *,
    max_length: int = 128,
    shard_bytes: int = 4 << 20,
    workers: int = 1,
    pipeline: Sequence[str] | None = None,
    next_sentence: bool = False,
    short_sequence_probability: float = 0.1,
    seed: int = 0,
    on_invalid: textspans.OnInvalid = "error",
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> shard_files.PreparedCorpus:
    """Tokenizes text into TFRecord shards, each from about `shard_bytes` of text.

    Blank lines separate documents. Sentences of a document are packed into examples as
    `corpus.pack` does or, with `next_sentence`, paired as `next_sentence.sentence_pairs` does.
    Every shard depends on its own piece of text, the settings and the seed only: the files are
    the same bytes whoever does the work and however often it was interrupted. Memory is that of a
    shard per process. Where a piece ends within a document, its examples do too.

    Args:
      paths: UTF-8 text files, or their addresses, see `storage`.
      tokenizer: The tokenizer of the model; its vocabulary is copied into the folder.
      folder: Where the shards and corpus.json go; it may be an address.
      max_length: The most tokens of an example, special ones included.
      shard_bytes: Bytes of text of a shard, about.
      workers: Processes; more than one are spawned, so that a script needs
        ``if __name__ == "__main__"``.
      pipeline: Options of Apache Beam, whose workers do the work then, such as
        ["--runner", "FlinkRunner", "--parallelism=64"]. They find tfdistill installed, and texts
        and folder under the same paths or addresses as here.
      next_sentence: Whether to make pairs with labels for next-sentence prediction.
      short_sequence_probability: The share of examples with a drawn, mostly shorter, length.
      seed: Seed of the draws.
      on_invalid: What to do with bytes that are not UTF-8, see `textspans.read_span`.
      resume: Whether to continue the same preparation in `folder`; its shards and their texts are
        checked by their checksums, and what is missing, damaged or of another text is written.
      overwrite: Whether to remove an earlier corpus in `folder` first.
      progress: Called with the manifest as it grows; of a pipeline, when it has ended.

    Returns:
      The manifest.

    Raises:
      DataError: If a file is missing or not UTF-8, an option is out of range, there is no text at
        all, or a document has no partner for a pair.
      OutputExistsError: If `folder` holds a corpus and neither option says what to do with it, or
        `resume` finds one of other text or settings.
      ConfigError: If the pipeline has no such runner.
      EnvironmentFault: If Apache Beam is not installed, or the pipeline fails.
    """
    settings = {
        "max_length": max_length,
        "shard_bytes": shard_bytes,
        "next_sentence": next_sentence,
        "short_sequence_probability": short_sequence_probability,
        "seed": seed,
        "on_invalid": on_invalid,
        "lower_case": tokenizer.lower_case,
        "vocabulary": tokenizer.digest,
    }
    _check_options(settings, workers)
    if next_sentence and not tokenizer.template.second_type:
        raise errors.DataError(
            "next_sentence", "a vocabulary whose second texts have a type", tokenizer.kind
        )
    if pipeline is not None:
        if workers != 1:
            raise errors.DataError(
                "workers", "1 with a pipeline, whose runner has its own", workers
            )
        parallel.check_pipeline(pipeline, folder, *textspans.as_list(paths))
        paths = [storage.absolute(path) for path in textspans.as_list(paths)]
        folder = storage.absolute(folder)
    root = storage.located(folder)
    spans = textspans.plan_spans(paths, shard_bytes)
    sources = [_fingerprint(path) for path in textspans.as_list(paths)]
    corpus = shard_files.PreparedCorpus(settings, sources, {}, len(spans))
    identity = hashlib.sha256(json.dumps([settings, sources], sort_keys=True).encode())
    entries = root / f"{_ENTRIES}{identity.hexdigest()[:16]}"
    # A folder at an address has no marker: only shards are replaced there.
    local = not storage.is_remote(root)
    with (
        work_folder.WorkFolder(root, KIND).open(resume=resume, overwrite=overwrite)
        if local
        else contextlib.nullcontext()
    ):
        corpus.shards.update(
            _finished(
                root, entries, corpus, spans, tokenizer.vocab, resume=resume, overwrite=overwrite
            )
        )
        for unfinished in root.glob(".part-*.tfrecord"):  # of a preparation that was killed
            unfinished.unlink()
        vocab_file = root / tokenizer.file_name
        files.atomic_write_text(vocab_file, tokenizer.file_text)
        shard_files.write_manifest(corpus, root)
        for left in root.glob(f"{_ENTRIES}*"):  # the manifest has now what was good
            storage.remove_folder(left)
        digits = max(5, len(str(len(spans))))
        todo = []
        for number, span in enumerate(spans):
            if number not in corpus.shards:
                name = f"part-{number:0{digits}d}"
                what = f"{span.path}, bytes {span.begin} to {span.end}"
                task = _Range(number, span, str(root / f"{name}.tfrecord"))
                todo.append(parallel.WorkUnit(what, str(entries / f"{name}.json"), task))
        work = _Preparation(str(vocab_file), settings)
        try:
            for unit in parallel.run(
                work, todo, workers=workers, pipeline=pipeline, tools=tokenizer
            ):
                corpus.shards[unit.task.number] = shard_files.read_entry(unit.target)
                if progress is not None:
                    progress(corpus)
        finally:
            shard_files.write_manifest(corpus, root)
        storage.remove_folder(entries)
    if not corpus.num_examples:
        raise errors.DataError("corpus", "words", "none in all of the files")
    return corpus


def _check_options(settings: dict[str, Any], workers: int) -> None:
    if not 0 <= settings["short_sequence_probability"] <= 1:
        probability = settings["short_sequence_probability"]
        raise errors.DataError("short_sequence_probability", "0 to 1", probability)
    if settings["on_invalid"] not in ("error", "replace"):
        raise errors.DataError("on_invalid", "error or replace", repr(settings["on_invalid"]))
    if workers < 1:
        raise errors.DataError("workers", "at least 1", workers)
    _room(settings)


def _room(settings: dict[str, Any]) -> int:
    paired = settings["next_sentence"]
    room = corpora.check_room(settings["max_length"], paired=paired)
    if paired and room < 2:
        raise errors.DataError(
            "max_length", "room for a token of each half", settings["max_length"]
        )
    return room


def _fingerprint(path: textspans.Path) -> dict[str, Any]:
    """Tells a changed file from the same one without reading all of it."""
    size = textspans.file_size(path)
    digest = hashlib.sha256()
    with storage.located(path).open("rb") as file:
        digest.update(file.read(_FINGERPRINTED))
        file.seek(max(size - _FINGERPRINTED, 0))
        digest.update(file.read(_FINGERPRINTED))
    return {
        "name": storage.located(path).name,
        "size_bytes": size,
        "sha256_of_ends": digest.hexdigest(),
    }


def _finished(
    folder: pathlib.Path,
    entries: pathlib.Path,
    wanted: shard_files.PreparedCorpus,
    spans: Sequence[textspans.TextSpan],
    vocab: list[str],
    *,
    resume: bool,
    overwrite: bool,
) -> dict[int, shard_files.Shard]:
    """The shards of an earlier preparation that can be kept."""
    if not (folder / shard_files.MANIFEST).exists():
        return {}
    if overwrite:
        for path in folder.glob("part-*.tfrecord"):
            path.unlink()
        (folder / shard_files.MANIFEST).unlink()
        return {}
    if not resume:
        raise errors.OutputExistsError(
            f"corpus {folder}", "no earlier one", "one", "Use --resume or --overwrite."
        )
    record = shard_files.read_manifest(folder)
    vocabulary = read_vocab(vocab_file_of(folder))
    vocabularies.check_same_vocabulary(vocabulary, vocab, names=("corpus", "model"))
    now = {**wanted.settings, "sources": wanted.sources}
    before = {**record.settings, "sources": record.sources}
    for name in now:
        if before.get(name) != now[name]:
            raise errors.OutputExistsError(
                f"corpus {folder}, {name}",
                f"{now[name]} as asked for",
                f"{before.get(name)} in what is there",
                "Resume with the same files and options, or use --overwrite.",
            )
    written = {
        int(path.stem.removeprefix("part-")): shard_files.read_entry(path)
        for path in entries.glob("part-*.json")
    }
    return {
        number: shard
        for number, shard in {**record.shards, **written}.items()
        if number < len(spans)
        and shard_files.is_whole(shard, folder)
        and (
            not shard.text_sha256
            or shard.text_sha256 == _text_of(spans[number], wanted.settings)[1]
        )
    }


def _text_of(span: textspans.TextSpan, settings: dict[str, Any]) -> tuple[str, str]:
    """A piece of text, and its SHA-256."""
    text = textspans.read_span(span, settings["on_invalid"])
    return text, hashlib.sha256(text.encode()).hexdigest()


def _write(part: _Range, settings: dict[str, Any], tokenizer: Tokenizer) -> shard_files.Shard:
    text, digest = _text_of(part.span, settings)
    sentences = corpora.tokenize_sentences(textspans.documents(text), tokenizer)
    generator = np.random.default_rng([settings["seed"], part.number])
    short = settings["short_sequence_probability"]
    encoded = None
    if sentences.lengths.any():
        if settings["next_sentence"]:
            encoded = pairing.sentence_pairs(
                sentences,
                tokenizer,
                _room(settings),
                short_probability=short,
                generator=generator,
            )
        else:
            blocks = corpora.pack(
                sentences, _room(settings), short_probability=short, generator=generator
            )
            encoded = corpora.assemble(blocks, sentences.ids, tokenizer)
    return dataclasses.replace(shard_files.write_shard(encoded, part.shard), text_sha256=digest)
