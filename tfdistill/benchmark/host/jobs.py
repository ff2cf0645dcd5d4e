"""What a worker process is asked to do, for a file at a place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from tfdistill.benchmark import cores, inputs, schema
from tfdistill.benchmark.settings import Settings

Texts = list[tuple[str, str | None]]


@dataclasses.dataclass(frozen=True)
class Job:
    """What one worker is to do.

    Attributes:
      what: How messages call it, for example "student, 32 tokens, 1 thread(s), xnnpack".
      question: What the worker is asked first (see `tfdistill.benchmark.host.worker`).
    """

    what: str
    question: dict[str, Any]


def of_ids(
    subject: inputs.Subject, place: schema.Place, settings: Settings, *, kind: str = "ids"
) -> Job:
    """A file at one length, fed with ids.

    Args:
      subject: The file.
      place: Where; its name is not used.
      settings: How often.
      kind: "ids" to time it, "operators" to profile it.
    """
    entry = subject.entries[place.sequence_length]
    job = _job(subject, kind, place.threads, place.delegate, place.affinity, settings)
    job["entry"] = dataclasses.asdict(entry)
    job["feeds"] = inputs.feeds_for(subject, place.sequence_length)
    return Job(describe(place), {**job, "runs": settings.runs})


def of_texts(
    subject: inputs.Subject,
    texts: Texts,
    threads: int,
    delegate: schema.Delegate,
    affinity: str | None,
    settings: Settings,
) -> Job:
    """A file with its tokenizer, from texts to answers.

    Args:
      subject: The file, with a vocabulary.
      texts: Texts, with the second text of a pair.
      threads: Of the runtime.
      delegate: Who computes.
      affinity: Mask of the cores to run on, or None.
      settings: How often.
    """
    assert subject.card is not None and subject.card.tokenizer is not None
    job = _job(subject, "text", threads, delegate, affinity, settings)
    job["entries"] = [dataclasses.asdict(entry) for entry in subject.entries.values()]
    job["vocab"] = str(subject.vocab_file)
    job["lower_case"] = subject.card.tokenizer.lower_case
    return Job(
        f"{subject.name}, from text, {threads} thread(s), {delegate}", {**job, "texts": texts}
    )


def of_coverage(subject: inputs.Subject, lengths: Sequence[int], settings: Settings) -> Job:
    """A file that is looked at, at some of its lengths."""
    job = _job(subject, "coverage", 1, "xnnpack", None, settings)
    job["entries"] = [dataclasses.asdict(subject.entries[length]) for length in lengths]
    return Job(f"{subject.name}, coverage by XNNPACK", job)


def describe(place: schema.Place) -> str:
    """Names a place in a message."""
    tokens = f"{place.model}, {place.sequence_length} tokens"
    return f"{tokens}, {place.threads} thread(s), {place.delegate}"


def readers(subjects: Sequence[inputs.Subject]) -> Iterator[tuple[inputs.Subject, Texts]]:
    """Yields the files that can read text, each with what it is to read.

    All read the same texts, except that a file for questions gets only those that fit into one of
    its windows: a program would ask it several times about a longer one.
    """
    texts = inputs.texts_for(list(subjects))
    for subject in subjects:
        own = texts
        if subject.card is not None and subject.card.task is not None and subject.card.task.span:
            fits = {(e.text, e.pair) for e in subject.examples}
            own = [text for text in texts if text in fits]
        if subject.vocab_file is not None and own:
            yield subject, own


def _job(
    subject: inputs.Subject,
    kind: str,
    threads: int,
    delegate: schema.Delegate,
    affinity: str | None,
    settings: Settings,
) -> dict[str, Any]:
    return {
        "kind": kind,
        "file": str(subject.file.resolve()),
        "threads": threads,
        "delegate": delegate,
        "cores": None if affinity is None else cores.cores_of(affinity),
        "warmup": settings.warmup,
    }
