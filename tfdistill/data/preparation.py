"""From text files of any size to shards of tokens, in parallel processes, resumable."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import multiprocessing
import os
import pathlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdistill import errors, files
from tfdistill.data import corpus as corpora
from tfdistill.data import next_sentence as pairing
from tfdistill.data import shard_files, textspans
from tfdistill.data import vocab as vocabularies

if TYPE_CHECKING:
    from tfdistill.data.tokenize import Tokenizer

_FINGERPRINTED = 1 << 20  # bytes at each end of a source
_SECONDS_BETWEEN_MANIFESTS = 1.0

Progress = Callable[[shard_files.Corpus], None]


@dataclasses.dataclass(frozen=True)
class _Job:
    number: int
    span: textspans.TextSpan
    target: str
    settings: dict[str, Any]


def prepare_corpus(
    paths: textspans.Path | Sequence[textspans.Path],
    tokenizer: Tokenizer,
    folder: files.Path,
    *,
    max_length: int = 128,
    shard_bytes: int = 4 << 20,
    workers: int = 1,
    next_sentence: bool = False,
    short_sequence_probability: float = 0.1,
    pair_fraction: float = 0.0,
    seed: int = 0,
    on_invalid: textspans.OnInvalid = "error",
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> shard_files.Corpus:
    """Tokenizes text into TFRecord shards, each from about `shard_bytes` of text.

    Blank lines separate documents. Sentences of a document are packed into examples as
    `corpus.pack` does or, with `next_sentence`, paired as `next_sentence.sentence_pairs` does.
    Every shard depends on its own piece of text, the settings and the seed only: the files are
    the same bytes whatever `workers` is and however often the work was interrupted. Memory is
    that of a shard per process. Where a piece ends within a document, its examples do too.

    Args:
      paths: UTF-8 text files.
      tokenizer: The tokenizer of the model; its vocabulary is copied into the folder.
      folder: Where the shards and corpus.json go.
      max_length: The most tokens of an example, special ones included.
      shard_bytes: Bytes of text of a shard, about.
      workers: Processes; more than one are spawned, so that a script needs
        ``if __name__ == "__main__"``.
      next_sentence: Whether to make pairs with labels for next-sentence prediction.
      short_sequence_probability: The share of examples with a drawn, mostly shorter, length.
      pair_fraction: Without `next_sentence`: the share of examples that are written as a pair of
        neighbouring texts, see `corpus.encode_corpus`.
      seed: Seed of the draws.
      on_invalid: What to do with bytes that are not UTF-8, see `textspans.read_span`.
      resume: Whether to go on with the same preparation in `folder`; its shards are checked by
        their checksums, and what is missing or damaged is written.
      overwrite: Whether to remove an earlier corpus in `folder` first.
      progress: Called with the manifest as it grows.

    Returns:
      The manifest.

    Raises:
      DataError: If a file is missing or not UTF-8, an option is out of range, there is no text at
        all, or a document has no partner for a pair.
      OutputExistsError: If `folder` holds a corpus and neither option says what to do with it, or
        `resume` finds one of other text or settings.
    """
    settings = {
        "max_length": max_length,
        "shard_bytes": shard_bytes,
        "next_sentence": next_sentence,
        "short_sequence_probability": short_sequence_probability,
        "pair_fraction": pair_fraction,
        "seed": seed,
        "on_invalid": on_invalid,
        "lower_case": tokenizer.lower_case,
        "vocabulary": shard_files.vocabulary_hash(tokenizer.vocab),
    }
    _check_options(settings, workers)
    folder = pathlib.Path(folder)
    spans = textspans.plan_spans(paths, shard_bytes)
    sources = [_fingerprint(path) for path in textspans.as_list(paths)]
    corpus = shard_files.Corpus(settings, sources, {}, len(spans))
    corpus.shards.update(
        _finished(folder, corpus, tokenizer.vocab, resume=resume, overwrite=overwrite)
    )
    folder.mkdir(parents=True, exist_ok=True)
    for unfinished in folder.glob(".part-*.tfrecord"):  # of a preparation that was killed
        unfinished.unlink()
    vocabularies.write_vocab(tokenizer.vocab, folder / shard_files.VOCAB)
    shard_files.write_manifest(corpus, folder)
    digits = max(5, len(str(len(spans))))
    jobs = [
        _Job(number, span, str(folder / f"part-{number:0{digits}d}.tfrecord"), settings)
        for number, span in enumerate(spans)
        if number not in corpus.shards
    ]
    written = time.monotonic()
    try:
        for number, shard in _run(jobs, tokenizer, workers):
            corpus.shards[number] = shard
            if progress is not None:
                progress(corpus)
            if time.monotonic() - written > _SECONDS_BETWEEN_MANIFESTS:
                shard_files.write_manifest(corpus, folder)
                written = time.monotonic()
    finally:
        shard_files.write_manifest(corpus, folder)
    if not corpus.num_examples:
        raise errors.DataError(errors.explain("corpus", "words", "none in all of the files"))
    return corpus


def _check_options(settings: dict[str, Any], workers: int) -> None:
    for name in ("short_sequence_probability", "pair_fraction"):
        if not 0 <= settings[name] <= 1:
            raise errors.DataError(errors.explain(name, "0 to 1", settings[name]))
    if settings["next_sentence"] and settings["pair_fraction"]:
        raise errors.DataError(
            errors.explain("pairs", "next_sentence or pair_fraction", "both", "Choose one.")
        )
    if settings["on_invalid"] not in ("error", "replace"):
        raise errors.DataError(
            errors.explain("on_invalid", "error or replace", repr(settings["on_invalid"]))
        )
    if workers < 1:
        raise errors.DataError(errors.explain("workers", "at least 1", workers))
    _room(settings)


def _room(settings: dict[str, Any]) -> int:
    paired = settings["next_sentence"] or settings["pair_fraction"] > 0
    least = 2 if settings["next_sentence"] else 1  # a token of each half
    room = corpora.check_room(settings["max_length"], paired=paired)
    if room < least:
        raise errors.DataError(
            errors.explain("max_length", "room for a token of each half", settings["max_length"])
        )
    return room


def _fingerprint(path: textspans.Path) -> dict[str, Any]:
    """Tells a changed file from the same one without reading all of it."""
    size = textspans.file_size(path)
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        digest.update(file.read(_FINGERPRINTED))
        file.seek(max(size - _FINGERPRINTED, 0))
        digest.update(file.read(_FINGERPRINTED))
    return {
        "name": pathlib.Path(path).name,
        "size_bytes": size,
        "sha256_of_ends": digest.hexdigest(),
    }


def _finished(
    folder: pathlib.Path,
    wanted: shard_files.Corpus,
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
            errors.explain(
                f"corpus {folder}", "no earlier one", "one", "Use --resume or --overwrite."
            )
        )
    found = shard_files.read_manifest(folder)
    vocabularies.check_same_vocabulary(folder / shard_files.VOCAB, vocab, names=("corpus", "model"))
    now = {**wanted.settings, "sources": wanted.sources}
    before = {**found.settings, "sources": found.sources}
    for name in now:
        if before.get(name) != now[name]:
            raise errors.OutputExistsError(
                errors.explain(
                    f"corpus {folder}, {name}",
                    f"{now[name]} as asked for",
                    f"{before.get(name)} in what is there",
                    "Resume with the same files and options, or use --overwrite.",
                )
            )
    return {
        number: shard
        for number, shard in found.shards.items()
        if shard_files.is_whole(shard, folder)
    }


def _run(
    jobs: list[_Job], tokenizer: Tokenizer, workers: int
) -> Iterator[tuple[int, shard_files.Shard]]:
    if workers == 1 or len(jobs) < 2:
        for job in jobs:
            yield job.number, _write(job, tokenizer)
        return
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(
        min(workers, len(jobs)),
        mp_context=context,
        initializer=_start_worker,
        initargs=(tokenizer.vocab_file, tokenizer.lower_case),
    )
    try:
        pending = [pool.submit(_write_in_worker, job) for job in jobs]
        for done in concurrent.futures.as_completed(pending):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)


_worker: dict[str, Any] = {}  # the tokenizer of a worker process


def _start_worker(vocab_file: str, lower_case: bool) -> None:
    """Sets up a process: no accelerator, one core, and no life without its parent."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends the rest
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from tfdistill.data.tokenize import Tokenizer

    _worker["tokenizer"] = Tokenizer(vocab_file, lower_case=lower_case)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _write_in_worker(job: _Job) -> tuple[int, shard_files.Shard]:
    return job.number, _write(job, _worker["tokenizer"])


def _write(job: _Job, tokenizer: Tokenizer) -> shard_files.Shard:
    settings = job.settings
    text = textspans.read_span(job.span, settings["on_invalid"])
    sentences = corpora.tokenize_sentences(textspans.documents(text), tokenizer)
    generator = np.random.default_rng([settings["seed"], job.number])
    short = settings["short_sequence_probability"]
    encoded = None
    if sentences.lengths.any():
        if settings["next_sentence"]:
            try:
                encoded = pairing.sentence_pairs(
                    sentences,
                    tokenizer,
                    _room(settings),
                    short_probability=short,
                    generator=generator,
                )
            except errors.DataError as error:
                span = job.span
                where = f"{span.path}, bytes {span.begin} to {span.end}"
                raise errors.DataError(f"{where}: {error}") from None
        else:
            blocks = corpora.pack(
                sentences, _room(settings), short_probability=short, generator=generator
            )
            encoded = corpora.assemble(
                blocks, sentences.ids, tokenizer, settings["pair_fraction"], generator
            )
    return shard_files.write_shard(encoded, job.target)
