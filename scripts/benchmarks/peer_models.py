"""Writes a BERT classifier as ONNX for other runtimes: ``peer_models.py WEIGHTS.npz FOLDER``.

Runs with the packages of peers.txt, not with those of tfdistill. Each runtime gets the form that
its own tools arrive at: ONNX Runtime its fused operators (attention with one product for query,
key and value, normalization with the residual, GELU with the bias), quantized by its
`quantize_dynamic`; OpenVINO the plain operators, which it fuses itself, in its default precision
and quantized by NNCF; MNN the same, with int8 weights by its converter.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import numpy as np
import onnx  # pyright: ignore[reportMissingImports]
from onnx import helper  # pyright: ignore[reportMissingImports]

_MS = "com.microsoft"
_FLOAT = onnx.TensorProto.FLOAT


class Graph:
    """Nodes and constants of an ONNX graph under construction."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, name: str, value: Any = None) -> str:
        """Adds a weight, or a value under a name; returns the name."""
        self.constants[name] = self.weights[name] if value is None else np.asarray(value)
        return name

    def node(
        self, operator: str, inputs: list[str], name: str, *, domain: str = "", **options: Any
    ) -> str:
        """Adds a node with one output of the same name; returns it."""
        self.nodes.append(
            helper.make_node(operator, inputs, [name], name=name, domain=domain, **options)
        )
        return name

    def dense(self, x: str, layer: str, *, bias: bool = True) -> str:
        """Adds x W + b, or x W."""
        product = self.node("MatMul", [x, self.constant(f"{layer}/kernel")], f"{layer}_product")
        if not bias:
            return product
        return self.node("Add", [product, self.constant(f"{layer}/bias")], layer)

    def model(self, inputs: list[str], output: str, length: int) -> onnx.ModelProto:
        """Puts the graph together."""
        integer = onnx.TensorProto.INT32
        graph = helper.make_graph(
            self.nodes,
            "classifier",
            [helper.make_tensor_value_info(name, integer, (1, length)) for name in inputs],
            [helper.make_tensor_value_info(output, _FLOAT, None)],
            [onnx.numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid(_MS, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def build(weights: dict[str, np.ndarray], config: dict[str, Any], *, fused: bool) -> Any:
    """Builds the classifier: TinyBERT's (relu) or BERT's head, erf GELU."""
    graph = Graph(weights)
    length, heads = config["length"], config["num_heads"]
    width, epsilon = config["hidden_size"], config["layer_norm_eps"]
    names = ["input_ids", "attention_mask", "token_type_ids"]
    if fused:
        x = _embed_fused(graph, epsilon)
    else:
        x = _embed(graph, length, epsilon)
        mask = _mask(graph)
    for index in range(config["num_layers"]):
        at = f"layer_{index}"
        if fused:
            context = _attention_fused(graph, x, at, heads)
        else:
            context = _attention(graph, x, mask, at, length, width, heads)
        x = _residual(
            graph, context, x, f"{at}_attention_output", f"{at}_attention", epsilon, fused
        )
        if fused:
            inner = graph.dense(x, f"{at}_intermediate", bias=False)
            bias = graph.constant(f"{at}_intermediate/bias")
            inner = graph.node("BiasGelu", [inner, bias], f"{at}_gelu", domain=_MS)
        else:
            inner = graph.node("Gelu", [graph.dense(x, f"{at}_intermediate")], f"{at}_gelu")
        x = _residual(graph, inner, x, f"{at}_output", at, epsilon, fused)
    first = graph.constant("first", np.array(0, np.int64))
    first = graph.node("Gather", [x, first], "first_token", axis=1)
    pooled = graph.node("Tanh", [graph.dense(first, "pooler")], "pooled")
    if config["family"] == "tinybert":
        pooled = graph.node("Relu", [pooled], "pooled_relu")
    output = graph.dense(pooled, "classifier")
    return graph.model(names, output, length)


def _embed_fused(graph: Graph, epsilon: float) -> str:
    tables = ["word_embeddings", "position_embeddings", "token_type_embeddings"]
    inputs = ["input_ids", "token_type_ids"]
    inputs += [graph.constant(f"{table}/embeddings") for table in tables]
    inputs += [graph.constant(f"embeddings_layer_norm/{part}") for part in ("gamma", "beta")]
    outputs = ["embedded", "mask_index"]
    graph.nodes.append(
        helper.make_node(
            "EmbedLayerNormalization", inputs, outputs, name="embed", domain=_MS, epsilon=epsilon
        )
    )
    return "embedded"


def _embed(graph: Graph, length: int, epsilon: float) -> str:
    table = graph.constant("word_embeddings/embeddings")
    words = graph.node("Gather", [table, "input_ids"], "words")
    rows = graph.weights["position_embeddings/embeddings"][np.newaxis, :length]
    x = graph.node("Add", [words, graph.constant("positions", rows)], "placed")
    table = graph.constant("token_type_embeddings/embeddings")
    types = graph.node("Gather", [table, "token_type_ids"], "types")
    x = graph.node("Add", [x, types], "summed")
    return _norm(graph, x, "embeddings_layer_norm", epsilon)


def _mask(graph: Graph) -> str:
    mask = graph.node("Cast", ["attention_mask"], "mask_float", to=_FLOAT)
    axes = graph.constant("mask_axes", np.array([1, 2], np.int64))
    mask = graph.node("Unsqueeze", [mask, axes], "mask_rank_4")
    mask = graph.node("Sub", [graph.constant("one", np.float32(1)), mask], "padding")
    # e**-100 is a denormal number, with which MNN computes at a third of its speed; e**-50 is none.
    return graph.node("Mul", [mask, graph.constant("low", np.float32(-50))], "mask")


def _norm(graph: Graph, x: str, name: str, epsilon: float) -> str:
    parts = [graph.constant(f"{name}/{part}") for part in ("gamma", "beta")]
    return graph.node("LayerNormalization", [x, *parts], name, axis=-1, epsilon=epsilon)


def _residual(
    graph: Graph, x: str, residual: str, dense: str, norm: str, epsilon: float, fused: bool
) -> str:
    norm = f"{norm}_layer_norm"
    if not fused:
        x = graph.node("Add", [graph.dense(x, dense), residual], f"{dense}_sum")
        return _norm(graph, x, norm, epsilon)
    product = graph.dense(x, dense, bias=False)
    parts = [graph.constant(f"{norm}/{part}") for part in ("gamma", "beta")]
    parts.append(graph.constant(f"{dense}/bias"))
    return graph.node(
        "SkipLayerNormalization", [product, residual, *parts], norm, domain=_MS, epsilon=epsilon
    )


def _attention_fused(graph: Graph, x: str, at: str, heads: int) -> str:
    layers = [f"{at}_{part}" for part in ("query", "key", "value")]
    kernel = np.concatenate([graph.weights[f"{layer}/kernel"] for layer in layers], axis=1)
    bias = np.concatenate([graph.weights[f"{layer}/bias"] for layer in layers])
    kernel, bias = (
        graph.constant(f"{at}_qkv/kernel", kernel),
        graph.constant(f"{at}_qkv/bias", bias),
    )
    inputs = [x, kernel, bias, "attention_mask"]
    return graph.node("Attention", inputs, f"{at}_context", domain=_MS, num_heads=heads)


def _attention(
    graph: Graph, x: str, mask: str, at: str, length: int, width: int, heads: int
) -> str:
    shape = graph.constant("heads", np.array([1, length, heads, width // heads], np.int64))
    parts = {}
    for part, order in (("query", (0, 2, 1, 3)), ("key", (0, 2, 3, 1)), ("value", (0, 2, 1, 3))):
        dense = graph.dense(x, f"{at}_{part}")
        split = graph.node("Reshape", [dense, shape], f"{at}_{part}_heads")
        parts[part] = graph.node("Transpose", [split], f"{at}_{part}_turned", perm=order)
    scores = graph.node("MatMul", [parts["query"], parts["key"]], f"{at}_products")
    root = graph.constant("root", np.float32((width // heads) ** 0.5))
    scores = graph.node("Div", [scores, root], f"{at}_scores")
    scores = graph.node("Add", [scores, mask], f"{at}_masked")
    scores = graph.node("Softmax", [scores], f"{at}_probs", axis=-1)
    context = graph.node("MatMul", [scores, parts["value"]], f"{at}_weighted")
    context = graph.node("Transpose", [context], f"{at}_joined", perm=(0, 2, 1, 3))
    shape = graph.constant("rows", np.array([1, length, width], np.int64))
    return graph.node("Reshape", [context, shape], f"{at}_context")


def write(weights_file: str, folder: str) -> None:
    """Writes the models that the peers run."""
    import nncf  # pyright: ignore[reportMissingImports]
    import openvino  # pyright: ignore[reportMissingImports]
    from onnxruntime import quantization  # pyright: ignore[reportMissingImports]

    with np.load(weights_file) as file:
        weights = {name: file[name] for name in file.files if name != "config"}
        config = json.loads(str(file["config"]))
    place = pathlib.Path(folder)
    fused, plain = place / "onnxruntime_float32.onnx", place / "plain.onnx"
    onnx.save(build(weights, config, fused=True), str(fused))
    onnx.save(build(weights, config, fused=False), str(plain))
    quantization.quantize_dynamic(
        fused,
        place / "onnxruntime_int8.onnx",
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
        # The fused operators are not in ONNX, so it cannot infer what they give.
        extra_options={"DefaultTensorType": _FLOAT},
    )
    model = openvino.convert_model(str(plain))
    openvino.save_model(model, str(place / "openvino.xml"), compress_to_fp16=False)
    feeds = _calibration(config)
    quantized = nncf.quantize(
        model, nncf.Dataset(feeds), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(feeds)
    )
    openvino.save_model(quantized, str(place / "openvino_int8.xml"))
    _write_mnn(plain, place / "int8.mnn")


def _write_mnn(source: pathlib.Path, place: pathlib.Path) -> None:
    """Calls MNN's converter itself: its command line installs an uploader of logs with any pip."""
    import _tools  # pyright: ignore[reportMissingImports]
    import MNN  # noqa: F401  # pyright: ignore[reportMissingImports]

    arguments = ["--framework", "ONNX", "--modelFile", str(source), "--MNNModel", str(place)]
    if not _tools.mnnconvert(["mnnconvert", *arguments, "--weightQuantBits", "8"]):
        raise RuntimeError("MNN did not convert the network.")


def _calibration(config: dict[str, Any]) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    shape = (1, config["length"])
    return [
        {
            "input_ids": random.integers(0, config["vocab_size"], shape).astype(np.int32),
            "attention_mask": np.ones(shape, np.int32),
            "token_type_ids": np.zeros(shape, np.int32),
        }
        for _ in range(16)
    ]


if __name__ == "__main__":
    write(*sys.argv[1:])
