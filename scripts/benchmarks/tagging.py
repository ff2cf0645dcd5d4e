"""tagging: the whole answer of a tagger against a classifier's of the same shape, on one thread.

Both have 3 layers of MiniLM's width, random weights, and the same texts, whose words are one piece
each. The answer is `Predictor.predict`: tokenizer, file, decoding, and of the tagger entities, of
which its bias towards O leaves about as many as WNUT-17 has. Of a long text the tagger reads
windows that overlap by half; its time a word is compared with the classifier's in one window.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import record
import turns

from tfdistill.benchmark.statistics import stats
from tfdistill.data import vocab
from tfdistill.predictor import Predictor
from tfdistill.tasks import TaskSpec

if TYPE_CHECKING:
    from tfdistill import models

_TAGS = ("O", *(f"{begin}-{name}" for name in ("PER", "LOC", "ORG", "DATE") for begin in "BI"))
_LENGTHS = (32, 96, 160, 256)  # tokens
_WORDS = (16, 64, 128)  # of texts in one window
_LONG = 1000  # words of a text in several windows
_IN_ONE, _BEYOND = 1.5, 2.2  # the goals: at most so many times as long, a word
_TOWARDS_O = 0.5  # added to the random logits of O: one word in twenty is of an entity then
_BLOCK = 10  # rounds of a block, which the intervals take together


def measure(*, quick: bool) -> record.Outcome:
    """Exports both and answers texts with them in turns."""
    from tfdistill import models

    shape = models.EncoderConfig(
        num_layers=1 if quick else 3,
        hidden_size=32 if quick else 384,
        num_heads=2 if quick else 12,
        intermediate_size=64 if quick else 768,
        vocab_size=1000 if quick else 30_522,
        max_positions=512,
    )
    random, rounds = np.random.default_rng(0), 2 * _BLOCK if quick else 20 * _BLOCK
    words: dict[str, None] = {}
    while len(words) < shape.vocab_size - len(vocab.SPECIAL_TOKENS):
        words["".join(random.choice([*"abcdefghijklmnopqrstuvwxyz"], random.integers(2, 9)))] = None
    drawn = random.choice([*words], _LONG).tolist()
    texts = {number: " ".join(drawn[:number]) for number in (*_WORDS, _LONG)}
    with tempfile.TemporaryDirectory(prefix="tfdistill-bench-") as scratch:
        folder = pathlib.Path(scratch)
        vocab.write_vocab([*vocab.SPECIAL_TOKENS, *words], folder / "vocab.txt")
        taggers = {"tagger": "token", "classifier": "classification"}
        answering = {name: export(shape, kind, folder) for name, kind in taggers.items()}
        tasks = {
            f"{name}, {number} words": functools.partial(predictor.predict, texts[number])
            for name, predictor in answering.items()
            for number in ((*_WORDS, _LONG) if name == "tagger" else _WORDS)
        }
        num_entities = len(answering["tagger"].predict(texts[_LONG]).entities or ())
        samples = turns.take_turns(tasks, rounds=rounds, warmup=2)
        sizes = {name: predictor.card.model.size_bytes for name, predictor in answering.items()}
    busy = samples["processor_seconds"]
    return record.Outcome(
        title=f"tagging: answers of a tagger and a classifier, {shape.num_layers} layers x "
        f"{shape.hidden_size}, dynamic_wi8_afp32, one thread",
        figures=[
            *(_figure(busy, f"{words} words in one window", words, words) for words in _WORDS),
            _figure(busy, f"a word of {_LONG} against one of {max(_WORDS)}", _LONG, max(_WORDS)),
        ],
        details=[
            *((name, f"p50 {1000 * value:.2f} ms") for name, value in turns.medians(busy).items()),
            *((f"{name}, file", f"{size / 1e6:.2f} MB") for name, size in sizes.items()),
            (f"entities in {_LONG} words", f"{num_entities}"),
            ("machine taken by other processes", turns.describe_others(samples)),
        ],
        settings={**dataclasses.asdict(shape), "lengths": _LENGTHS, "rounds": rounds},
        samples={**samples, "size_bytes": sizes},
        notes=[
            f"Ratios are processor time of the classifier / the tagger: 1 / {_IN_ONE:g} and 1 / "
            f"{_BEYOND:g} are the goals, at most so many times as long."
        ],
    )


def export(shape: models.EncoderConfig, kind: str, folder: pathlib.Path) -> Predictor:
    """Exports a random model of a kind of task, and opens the file on one thread."""
    import export as exporter
    from tfdistill import models
    from tfdistill.models.layers import layer_of

    labels = _TAGS if kind == "token" else tuple(f"class {number}" for number in range(len(_TAGS)))
    task = TaskSpec(kind, "text", "label", labels=labels, kind=kind)
    model = models.build_random(shape, models.Head(task.head, len(labels)))
    if kind == "token":
        layer = layer_of(model, models.read_head(model).layer)
        kernel, bias = layer.get_weights()
        layer.set_weights([kernel, bias + _TOWARDS_O * np.eye(len(labels))[0]])
    exporter.to_tflite(
        model,
        folder / kind / "model.tflite",
        quantize="dynamic_wi8_afp32",
        lengths=_LENGTHS,
        task=task,
        tokenizer=folder / "vocab.txt",
    )
    return Predictor(folder / kind, threads=1)


def _figure(busy: dict[str, list[float]], name: str, tagged: int, classified: int) -> record.Figure:
    """The processor time of the classifier / the tagger, each a word."""
    sides = [
        [[value / words for value in block] for block in stats.blocks_of(busy[key], _BLOCK)]
        for key, words in (
            (f"classifier, {classified} words", classified),
            (f"tagger, {tagged} words", tagged),
        )
    ]
    interval = stats.speedup_ci([sides[0]], [sides[1]])
    classifier, tagger = (np.median(np.concatenate(side)) for side in sides)
    note = f"{tagger / classifier:.2f} times as long"
    if interval is not None:
        note += f", 95% interval {1 / interval[1]:.2f} to {1 / interval[0]:.2f}"
    goal = 1 / (_IN_ONE if tagged == classified else _BEYOND)
    return record.Figure(name, float(classifier / tagger), goal, unit="x", note=note)
