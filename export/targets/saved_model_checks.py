"""The checks that a SavedModel is tokenizer, model and labels: `CHECKS`, before it replaces any."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from tensorflow.core.protobuf import saved_model_pb2

from tfdistill import errors
from tfdistill.io import checks
from tfdistill.tasks import Examples
from tfdistill.tflite import agreement
from tfdistill.tokenization.edge_cases import tokenizer_edge_cases
from tfdistill.tokenization.wordpiece import VOCAB_FILE, WordPiece

from ..checking.outputs import model_logits, softmax_of
from ..model.heads import EMBEDDING

SIGNATURE = "serving_text"
DEFAULT_SIGNATURE = "serving_default"
PAIR_SIGNATURE = "serving_text_pair"
_NUM_REAL = 256
_EVERY = 16  # of the edge cases
_SMALLEST = 1e-30  # probability whose logarithm is taken
_TIE = 1e-3  # scores of two labels that are nearer than that may change places


@dataclasses.dataclass(frozen=True)
class WrittenGraph:
    """A SavedModel, what it must hold, and what follows from the two."""

    folder: pathlib.Path
    model: keras.Model
    tokenizer: WordPiece  # that text must be tokenized with
    # the labels in the order of the logits, () of a regression; None of a sentence encoder
    labels: tuple[str, ...] | None
    independent: bool  # whether each label has a sigmoid of its own
    max_length: int  # the most tokens of an example
    check_on: Examples | None  # real texts, or None

    @functools.cached_property
    def loaded(self) -> Any:
        """The folder, as TensorFlow loads it."""
        return tf.saved_model.load(str(self.folder))

    @functools.cached_property
    def texts(self) -> list[str]:
        """Real texts, edge cases, and texts about as long as the longest that is not cut."""
        real = [] if self.check_on is None else self.check_on.texts[:_NUM_REAL]
        edge_cases = tokenizer_edge_cases()
        return [*real, *edge_cases[:64], *edge_cases[64::_EVERY], *self.long_texts]

    @functools.cached_property
    def pairs(self) -> list[str]:
        """A second text for each text; "" for some."""
        second = [] if self.check_on is None else list(self.check_on.pairs or ())[:_NUM_REAL]
        others = self.texts[len(second) :][::-1]
        return [*second, *others]

    @property
    def long_texts(self) -> list[str]:
        """Texts of about as many words as the limit allows tokens, and a far longer one."""
        random = np.random.default_rng(0)
        words = [token for token in self.tokenizer.vocab if token.isalnum()] or ["a", "b"]
        sizes = range(max(1, self.max_length - 4), self.max_length + 3)
        return [" ".join(random.choice(words, size)) for size in (*sizes, 3 * self.max_length)]

    def expected(self, pairs: Sequence[str] | None) -> dict[str, np.ndarray]:
        """The answers of tokenizer and model to the texts, one after the other."""
        encoded = self.tokenizer.encode_batch(self.texts, pairs, self.max_length)
        logits = model_logits(self.model, encoded)
        if self.labels is None:
            return {EMBEDDING: logits}
        if not self.labels:
            return {"score": logits[:, 0]}
        wide = logits.astype(np.float64)
        scores = 1 / (1 + np.exp(-wide)) if self.independent else softmax_of(logits)
        names = np.array([label.encode() for label in self.labels], object)
        return {
            "label": names[logits.argmax(axis=1)],
            "score": scores.max(axis=1),
            "scores": scores,
        }


def _signatures(written: WrittenGraph) -> list[str]:
    """Compares the signatures with their inputs and outputs, by name and type."""
    text = {"text": tf.string}
    answers = {"label": tf.string, "score": tf.float32, "scores": tf.float32}
    if not written.labels:
        answers = {EMBEDDING if written.labels is None else "score": tf.float32}
    expected = {name: (text, answers) for name in (SIGNATURE, DEFAULT_SIGNATURE)}
    if written.labels is not None:
        expected[PAIR_SIGNATURE] = ({**text, "pair": tf.string}, answers)
    received = {
        name: (
            {key: spec.dtype for key, spec in function.structured_input_signature[1].items()},
            {key: spec.dtype for key, spec in function.structured_outputs.items()},
        )
        for name, function in written.loaded.signatures.items()
    }
    return [
        errors.explain(f"signature {name}", expected.get(name, "none"), received.get(name, "none"))
        for name in sorted(expected.keys() | received.keys())
        if expected.get(name) != received.get(name)
    ]


def _vocabulary(written: WrittenGraph) -> list[str]:
    """Compares the vocabulary in the graph, and the copy of it for people."""
    parsed = saved_model_pb2.SavedModel()
    parsed.ParseFromString((written.folder / "saved_model.pb").read_bytes())
    graphs = [graph.graph_def for graph in parsed.meta_graphs]
    nodes = [node for graph in graphs for node in graph.node] + [
        node for graph in graphs for each in graph.library.function for node in each.node_def
    ]
    constants = {
        tf.make_ndarray(node.attr["value"].tensor).tobytes()
        for node in nodes
        if node.op == "Const" and node.attr["dtype"].type == tf.uint8.as_datatype_enum
    }
    faults = []
    if constants != {written.tokenizer.wordpiece_model}:
        faults.append(errors.explain("vocabulary in the graph", f"that of {VOCAB_FILE}", "another"))
    asset = written.folder / "assets" / VOCAB_FILE
    if not asset.is_file() or asset.read_bytes() != written.tokenizer.file_text.encode():
        faults.append(errors.explain(f"assets/{asset.name}", "the vocabulary", "another file"))
    return faults


def _answers(written: WrittenGraph) -> list[str]:
    """Compares labels and scores of every signature."""
    faults = []
    for name, function in written.loaded.signatures.items():
        paired = name == PAIR_SIGNATURE
        columns = {"text": written.texts, **({"pair": written.pairs} if paired else {})}
        received = function(
            **{
                key: tf.constant([text.encode("utf-8", "ignore") for text in texts])
                for key, texts in columns.items()
            }
        )
        arrays = {key: value.numpy() for key, value in received.items()}
        expected = written.expected(written.pairs if paired else None)
        faults += _disagreements(name, written.texts, expected, arrays)
    return faults


def _disagreements(
    name: str,
    texts: Sequence[str],
    expected: Mapping[str, np.ndarray],
    received: Mapping[str, np.ndarray],
) -> list[str]:
    """Compares logarithms of probabilities, other outputs as they are, and labels by name."""
    faults = []
    for output, values in expected.items():
        others = received[output]
        if output == "label":
            ordered = np.sort(expected["scores"], axis=1)
            clear = ordered[:, -1] - ordered[:, -2] > _TIE
            wrong = np.flatnonzero(clear & (values != others))
            if len(wrong):
                what = f"{name}, label of {len(wrong)} texts, the first {texts[wrong[0]][:60]!r}"
                faults.append(errors.explain(what, values[wrong[0]], others[wrong[0]]))
            continue
        if values.shape != others.shape:
            faults.append(errors.explain(f"{name}, {output}", values.shape, others.shape))
            continue
        rows, other_rows = (np.reshape(part, (len(texts), -1)) for part in (values, others))
        if "scores" in expected:
            rows, other_rows = (np.log(np.maximum(p, _SMALLEST)) for p in (rows, other_rows))
        measured = agreement.compare(rows, other_rows, decisions=(None, None))
        worst = int(np.abs(rows - other_rows).max(axis=1).argmax())
        where = f"{name}, {output}, worst for {errors.shortened(texts[worst])!r}: "
        faults += agreement.violations(measured, agreement.FLOAT32, where=where)
    return faults


CHECKS = (
    checks.Check("signatures", _signatures),
    checks.Check("vocabulary", _vocabulary),
    checks.Check("answers", _answers, ("signatures",)),
)
