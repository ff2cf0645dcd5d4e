"""A float file that starts at the embeddings: rows of words come in, no operator looks any up.

GATHER of words is cut off; what it gave becomes an input. Of two rows a, b for the token types t
the GATHER becomes t (b - a) + a.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tfdistill import errors
from tfdistill.tflite import editing, word_rows
from tfdistill.tflite.reader import text

from . import lookup

if TYPE_CHECKING:
    import tf_keras as keras

LAYER = "word_embeddings"
TYPE_LAYER = "token_type_embeddings"
_IDS, _TYPES = "input_ids", "token_type_ids"
_MOST_TYPES = 2
_ops, _options = schema.BuiltinOperator, schema.BuiltinOptions


def table_of(model: keras.Model) -> np.ndarray:
    """Returns the model's table of words, float32 (words, width)."""
    (table,) = model.get_layer(LAYER).get_weights()
    return table.astype(np.float32)


def float_rows(model: keras.Model) -> Callable[[np.ndarray], np.ndarray]:
    """Returns what looks the model's own rows up: int (...,) -> float32 (..., width)."""
    table = table_of(model)
    return lambda ids: table[word_rows.checked_ids(ids, len(table))]


def check_model(model: keras.Model, *, quantize_aware: bool, layers: Mapping[str, Any]) -> None:
    """Refuses what has no such file.

    Raises:
      ConfigError: If the model is quantization-aware or has more token types, or the table of words
        is to be stored in another way.
    """
    from tfdistill import models  # not before TensorFlow is needed

    what, types = "device npu-rows", getattr(models.config_of(model), "type_vocab_size", 0)
    if quantize_aware:
        raise errors.ConfigError(
            what, "a model in floats", "a quantization-aware one, whose table has its own steps"
        )
    if types > _MOST_TYPES:
        raise errors.ConfigError(what, f"at most {_MOST_TYPES} token types", types)
    if LAYER in layers:
        raise errors.ConfigError(
            what, f"no quantization for {LAYER}: its table is int8", layers[LAYER].name
        )


def type_parts(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns a and b - a, (1, width), of the rows of the token types."""
    return table[:1], table[-1:] - table[:1]


def cut_lookups(model: Any) -> int:
    """Cuts the lookups off every signature.

    Args:
      model: A float32 file (`editing.read`); changed in place.

    Returns:
      How many were cut.

    Raises:
      ExportError: If ids are used for something else.
    """
    cut = 0
    for entry in model.signatureDefs:
        graph = model.subgraphs[entry.subgraphIndex]
        named = {text(item.name): item for item in entry.inputs}
        ids = named[_IDS]
        index = ids.tensorIndex
        types = named[_TYPES].tensorIndex if _TYPES in named else None
        operators = []
        for operator in graph.operators:
            read = {int(index) for index in operator.inputs}
            if index in read:
                rows = _table_and_rows(model, graph, operator, _IDS)[1]
                graph.inputs = [rows if i == index else int(i) for i in graph.inputs]
                ids.name, ids.tensorIndex = word_rows.INPUT, rows
            elif types in read:
                operators += _arithmetic(model, graph, operator)
            else:
                operators.append(operator)
                continue
            cut += 1
        graph.operators = operators
        if ids.name == _IDS.encode():
            raise errors.ExportError(f"signature {text(entry.signatureKey)}", "ids", "none used")
    editing.drop_unused_tensors(model)
    editing.drop_unused_buffers(model)
    return cut


def _table_and_rows(model: Any, graph: Any, operator: Any, name: str) -> tuple[int, int]:
    if not lookup.gathers_rows(model, graph, operator):
        kind = editing.name_of(model, operator)
        raise errors.ExportError(f"use of {name}", "the lookup of rows alone", kind)
    return int(operator.inputs[0]), int(operator.outputs[0])


def _arithmetic(model: Any, graph: Any, operator: Any) -> list[Any]:
    """Makes t (b - a) + a of the lookup of one or two rows."""
    table, rows = _table_and_rows(model, graph, operator, _TYPES)
    types, name = int(operator.inputs[1]), text(graph.tensors[rows].name)
    content = bytes(editing.constant(model, graph.tensors[table]))
    values = np.frombuffer(content, np.float32).reshape(graph.tensors[table].shape)
    shape, sizes = [list(graph.tensors[i].shape) for i in (rows, types)]
    kind = schema.TensorType.FLOAT32
    floats = editing.add_tensor(graph, f"{name}/cast", sizes, kind)
    column = editing.add_tensor(graph, f"{name}/column", [*sizes, 1], kind)
    step = editing.add_tensor(graph, f"{name}/step", shape, kind)
    first, difference = (
        editing.add_constant(model, graph, f"{name}/{what}", value.reshape(1, 1, -1))
        for what, value in zip(("first", "difference"), type_parts(values), strict=True)
    )
    made = [
        editing.new_operator(model, _ops.CAST, 1, [types], [floats]),
        lookup.reshape(model, graph, floats, column),
        editing.new_operator(model, _ops.MUL, 1, [column, difference], [step]),
        editing.new_operator(model, _ops.ADD, 1, [step, first], [rows]),
    ]
    for at, options in ((0, "Cast"), (2, "Mul"), (3, "Add")):
        made[at].builtinOptionsType = getattr(_options, f"{options}Options")
        made[at].builtinOptions = getattr(schema, f"{options}OptionsT")()
    made[0].builtinOptions.inDataType = graph.tensors[types].type
    made[0].builtinOptions.outDataType = kind
    return made
