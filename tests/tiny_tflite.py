"""Writes .tflite files of a few bytes: tensors in any order, and nothing that could be run."""

import flatbuffers
from ai_edge_litert import schema_py_generated as flat


def _tensor(name, kind, shape, signature=None):
    tensor = flat.TensorT()
    tensor.name, tensor.type, tensor.shape, tensor.buffer = name.encode(), kind, list(shape), 0
    tensor.shapeSignature = signature
    return tensor


def _map(name, index):
    entry = flat.TensorMapT()
    entry.name, entry.tensorIndex = name.encode(), index
    return entry


def write(path, graphs):
    """Writes a file.

    Args:
      path: Where.
      graphs: For each subgraph its signature's key (or None), its inputs and its outputs, each a
        list of (name in the signature, tensor's name, type, shape) in the subgraph's order.
    """
    model = flat.ModelT()
    model.version, model.subgraphs, model.signatureDefs = 3, [], []
    model.buffers, model.operatorCodes = [flat.BufferT()], [flat.OperatorCodeT()]
    for index, (key, inputs, outputs) in enumerate(graphs):
        graph = flat.SubGraphT()
        graph.name = f"graph{index}".encode()
        tensors = [*inputs, *outputs]
        graph.tensors = [_tensor(*tensor[1:]) for tensor in tensors]
        graph.inputs = list(range(len(inputs)))
        graph.outputs = list(range(len(inputs), len(tensors)))
        operator = flat.OperatorT()
        operator.inputs, operator.outputs = graph.inputs, graph.outputs
        graph.operators = [operator] * (index + 2)
        model.subgraphs.append(graph)
        if key is not None:
            signature = flat.SignatureDefT()
            signature.signatureKey, signature.subgraphIndex = key.encode(), index
            maps = [_map(tensor[0], i) for i, tensor in enumerate(tensors)]
            signature.inputs = sorted(maps[: len(inputs)], key=lambda m: m.name)
            signature.outputs = maps[len(inputs) :]
            model.signatureDefs.append(signature)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


INT32, FLOAT32 = flat.TensorType.INT32, flat.TensorType.FLOAT32


def bert(length, *, labels=3):
    """Inputs in an order of their own and named as converters do, and one output."""
    roles = ("token_type_ids", "input_ids", "attention_mask")
    inputs = [(r, f"len{length}_{r}:0", INT32, (1, length)) for r in roles]
    return f"len{length}", inputs, [("logits", "StatefulCall:0", FLOAT32, (1, labels))]
