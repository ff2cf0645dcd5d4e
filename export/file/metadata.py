"""TFLite metadata: what lets MediaPipe run an exported file from plain text.

MediaPipe's TextClassifier and TextEmbedder (Android, iOS, web, Python) read from the file itself
which input is which, the vocabulary, and the names of the labels. They refuse a file of more than
one subgraph, so of more than one length (`export.to_mediapipe` cuts one out), and one with other
than three inputs, and they return the outputs unchanged, so softmax must be inside. There is no
task for questions, tags or pairs of texts.

Its tokenizer lower-cases ASCII letters only and strips no accents: where a text has others, its
pieces, and so its answer, may differ from ours.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from tfdistill import errors
from tfdistill.io import files
from tfdistill.tasks import KINDS
from tfdistill.tflite import editing
from tfdistill.tflite.reader import text
from tfdistill.tokenization.tokenizer import Tokenizer

from ..model.heads import EMBEDDING, HEADS, SCORES
from . import metadata_schema as names

NAME = "TFLITE_METADATA"
ONE_LENGTH = (
    "Export one length (lengths=(128,)), or cut one out with export.to_mediapipe "
    "(`tfdistill export --mediapipe FILE`)."
)
VOCAB_FILE = "vocab.txt"
LABELS_FILE = "labels.txt"
# Our name of an input -> the one that MediaPipe looks for, and what it holds.
_INPUTS = {
    "input_ids": ("ids", "Token ids with [CLS] and [SEP]."),
    "attention_mask": ("mask", "1 for each token, 0 for padding."),
    "token_type_ids": ("segment_ids", "0 for the first text, 1 for the second."),
}
_TYPES = "token_type_ids"


def obstacles(
    *,
    head: str,
    kind: str | None,
    pair: bool,
    lengths: Sequence[int],
    softmax: bool,
    labels: Sequence[str],
    tokenizer: Tokenizer | None,
) -> list[str]:
    """Lists why MediaPipe could not run a file from text, with the remedy where there is one.

    `kind` is None where the task is not known, `head` is that of the model: "sequence", "span", ...
    """
    embeds = HEADS[head].vectors
    if not HEADS[head].in_mediapipe:
        return [f"MediaPipe has no task for a {head} head"]
    if kind is not None and not (embeds or KINDS[kind].one_class):
        return [f"MediaPipe's text classifier chooses one class, the task is {kind}"]
    reasons = []
    if pair:
        reasons.append("MediaPipe's text classifier takes one text, the task has two")
    if len(lengths) > 1:
        reasons.append(f"MediaPipe runs files of one length, this has {len(lengths)}. {ONE_LENGTH}")
    if not softmax and not embeds:
        reasons.append("MediaPipe passes scores on as they come: softmax must be inside")
    if tokenizer is None:
        reasons.append("the vocabulary is not known: pass tokenizer")
    else:
        reasons += tokenizer.mediapipe_faults
    if not labels and not embeds:
        reasons.append("the classes have no names: pass task or labels")
    return reasons


def wanted(requested: bool | None, reasons: Sequence[str]) -> bool:
    """Decides whether a file gets metadata; None asks for them where there are no `reasons`.

    Raises ConfigError if they were asked for and cannot be.
    """
    if requested and reasons:
        raise refusal(reasons)
    return requested is not False and not reasons


def refusal(reasons: Sequence[str]) -> errors.ConfigError:
    """Returns the error with the reasons why a file cannot have metadata."""
    return errors.ConfigError(
        "metadata: expected a file that MediaPipe can run from text, received one that it "
        "cannot:\n  - " + "\n  - ".join(reasons)
    )


def attach(
    file: files.Path,
    *,
    name: str,
    tokenizer: Tokenizer,
    labels: Sequence[str],
) -> None:
    """Writes metadata into an exported file of one length, in place, instead of any that it had.

    Where the model reads no token types, its graph gets an input for them that nothing reads; the
    signature does not have it. `labels` are in the order of the scores; a sentence encoder has
    none.
    """
    model = editing.read(file)
    entry = _signature(model, file)
    (graph,) = model.subgraphs
    inputs = {int(tensor.tensorIndex): text(tensor.name) for tensor in entry.inputs}
    outputs = {text(tensor.name) for tensor in entry.outputs}
    _check(file, set(inputs.values()), outputs)
    if _TYPES not in inputs.values():
        inputs[editing.add_input(model, _INPUTS[_TYPES][0], next(iter(inputs)))] = _TYPES
    vocabulary: names.Table = {
        names.File.NAME: VOCAB_FILE,
        names.File.DESCRIPTION: "The tokens, in the order of their ids.",
        names.File.KIND: names.File.VOCABULARY,
    }
    unit: names.Table = {
        names.ProcessUnit.KIND: names.ProcessUnit.BERT_TOKENIZER,
        names.ProcessUnit.OPTIONS: {names.BertTokenizer.VOCABULARY: [vocabulary]},
    }
    classes: names.Table = {
        names.File.NAME: LABELS_FILE,
        names.File.DESCRIPTION: "The classes, in the order of the scores.",
        names.File.KIND: names.File.AXIS_LABELS,
    }
    answer = {**_tensor("score", "Probability of each class."), names.OutputTensor.FILES: [classes]}
    if outputs == {EMBEDDING}:
        answer = _tensor(EMBEDDING, "Vector of the text.")
    root: names.Table = {
        names.Model.NAME: name,
        names.Model.DESCRIPTION: "",
        names.Model.MIN_PARSER_VERSION: names.MIN_PARSER_VERSION,
        names.Model.SUBGRAPHS: [
            {
                names.SubgraphSlots.INPUTS: [_tensor(*_INPUTS[inputs[i]]) for i in graph.inputs],
                names.SubgraphSlots.OUTPUTS: [answer],
                names.SubgraphSlots.INPUT_PROCESS_UNITS: [unit],
            }
        ],
    }
    _set(model, names.pack(root))
    editing.write(model, file)
    contents = {VOCAB_FILE: tokenizer.file_text.encode()}
    if outputs != {EMBEDDING}:
        contents[LABELS_FILE] = "".join(f"{label}\n" for label in labels).encode()
    _append(file, contents)


def packed_faults(file: files.Path, *, tokenizer: Tokenizer, labels: Sequence[str]) -> list[str]:
    """Lists how vocabulary and labels behind a file differ from those that it must carry."""
    expected = {VOCAB_FILE: tokenizer.file_text.encode()}
    if labels:
        expected[LABELS_FILE] = "".join(f"{label}\n" for label in labels).encode()
    if not zipfile.is_zipfile(file):
        return [errors.explain("files for MediaPipe", sorted(expected), "none")]
    with zipfile.ZipFile(file) as archive:
        received = {name: archive.read(name) for name in archive.namelist()}
    faults = []
    if expected.keys() != received.keys():
        faults.append(errors.explain("files for MediaPipe", sorted(expected), sorted(received)))
    for name in expected.keys() & received.keys():
        lines, others = expected[name].splitlines(), received[name].splitlines()
        if expected[name] != received[name]:
            different = [i for i, line in enumerate(lines) if others[i : i + 1] != [line]]
            first = different[0] if different else len(lines)
            what = f"{name} for MediaPipe, line {first + 1}"
            faults.append(errors.explain(what, *(
                each[first : first + 1] or "no more" for each in (lines, others)
            )))  # fmt: skip
    return faults


def _signature(model: Any, file: files.Path) -> Any:
    """Returns the only signature of a model that is one subgraph."""
    if len(model.subgraphs) == 1 and len(model.signatureDefs or []) == 1:
        return model.signatureDefs[0]
    raise errors.ExportError(
        f"{file} for metadata",
        "one signature and one subgraph, all that MediaPipe runs",
        f"{len(model.signatureDefs or [])} and {len(model.subgraphs)}",
        ONE_LENGTH,
    )


def _check(file: files.Path, inputs: set[str], outputs: set[str]) -> None:
    is_ours = outputs in ({SCORES}, {EMBEDDING})
    if {"input_ids", "attention_mask"} <= inputs <= set(_INPUTS) and is_ours:
        return
    raise errors.ExportError(
        f"{file} for metadata",
        f"inputs of {sorted(_INPUTS)} and the output {SCORES!r} or {EMBEDDING!r}",
        f"{sorted(inputs)} and {sorted(outputs)}",
        "Export a classifier with softmax, or a sentence encoder.",
    )


def _tensor(name: str, description: str) -> dict[int, names.Value]:
    return {
        names.OutputTensor.NAME: name,
        names.OutputTensor.DESCRIPTION: description,
        names.OutputTensor.CONTENT: {
            names.Content.KIND: names.Content.FEATURE,
            names.Content.PROPERTIES: {},
        },
    }


def _set(model: Any, content: bytes) -> None:
    """Puts the metadata into the buffer of the model's record of it; adds both where missing."""
    for record in model.metadata or []:
        if text(record.name) == NAME:
            model.buffers[record.buffer].data = content
            return
    record, buffer = schema.MetadataT(), schema.BufferT()
    record.name, record.buffer = NAME, len(model.buffers)
    buffer.data = content
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or []), record]


def _append(file: files.Path, contents: Mapping[str, bytes]) -> None:
    """Appends files as a zip archive, stored as they are: readers map them into memory."""
    with open(file, "r+b") as stream:
        stream.seek(0, io.SEEK_END)
        with zipfile.ZipFile(stream, "a", zipfile.ZIP_STORED) as archive:
            for name, content in contents.items():
                # A fixed date: the same model gives the same bytes.
                archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
