"""The published schema of TFLite metadata, as far as a text model needs it, as a flatbuffer.

A table is a mapping of slot -> value here; a slot is the index of a field in the schema's table.
The classes below name the slots and the values of the schema's enumerations and unions, in version
1.1.0 of the schema: the first with the tokenizer of BERT.

Reference: metadata_schema.fbs in MediaPipe and in TFLite Support; file identifier "M001".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

import flatbuffers

IDENTIFIER = b"M001"
MIN_PARSER_VERSION = "1.1.0"

# A table, a string, a vector of tables, or the value of an enumeration (one byte in all of them).
Value = Union["Table", str, Sequence["Table"], int]
Table = Mapping[int, Value]


class Model:
    """Slots of ModelMetadata, the root."""

    NAME, DESCRIPTION, VERSION, SUBGRAPHS = 0, 1, 2, 3
    MIN_PARSER_VERSION = 7


class SubgraphSlots:
    """Slots of SubGraphMetadata."""

    INPUTS, OUTPUTS = 2, 3
    INPUT_PROCESS_UNITS = 5


class OutputTensor:
    """Slots of TensorMetadata."""

    NAME, DESCRIPTION = 0, 1
    CONTENT = 3
    FILES = 6


class Content:
    """Slots of Content: a union, which has its type in a slot of its own."""

    KIND, PROPERTIES = 0, 1
    FEATURE = 1  # the member FeatureProperties


class ProcessUnit:
    """Slots of ProcessUnit: a union too."""

    KIND, OPTIONS = 0, 1
    BERT_TOKENIZER = 4  # the member BertTokenizerOptions


class BertTokenizer:
    """Slots of BertTokenizerOptions."""

    VOCABULARY = 0


class File:
    """Slots of AssociatedFile and the kinds of file."""

    NAME, DESCRIPTION, KIND = 0, 1, 2
    AXIS_LABELS, VOCABULARY = 2, 5


def pack(root: Table) -> bytes:
    """Writes a ModelMetadata table, slot -> value, with the file identifier of the schema."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(_reference(builder, root), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _reference(builder: flatbuffers.Builder, value: Table | str | Sequence[Table]) -> int:
    """Writes a value that tables refer to; returns its offset."""
    if isinstance(value, str):
        return builder.CreateString(value)
    if isinstance(value, Mapping):
        # What a table refers to must be complete before the table is begun.
        offsets = {
            slot: _reference(builder, field)
            for slot, field in value.items()
            if not isinstance(field, int)
        }
        builder.StartObject(max(value, default=-1) + 1)
        for slot, field in value.items():
            if isinstance(field, int):
                builder.PrependInt8Slot(slot, field, 0)
            else:
                builder.PrependUOffsetTRelativeSlot(slot, offsets[slot], 0)
        return builder.EndObject()
    entries = [_reference(builder, entry) for entry in value]
    builder.StartVector(4, len(entries), 4)
    for entry in reversed(entries):
        builder.PrependUOffsetTRelative(entry)
    return builder.EndVector()
