"""Writes a BERT classifier by way of PyTorch: ``peer_torch_models.py WEIGHTS.npz FOLDER``.

Runs with the packages of peers_torch.txt, not with those of tfdistill. Each converter gets the
module as a user of PyTorch writes it and quantizes it by its own tools: ExecuTorch by
`XNNPACKQuantizer`, a file of litert-torch by ai-edge-quantizer, both with int8 weights by channel
and activations quantized as they come. The attention is `scaled_dot_product_attention`; for
ExecuTorch it is spelled out, since ExecuTorch expands the function into operators that XNNPACK does
not take (a network of one layer at 128 tokens: 3.5 against 1.6 ms).
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

# Query, key and value (1, heads, tokens, depth) and the additive mask -> the context.
Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def attend_in_steps(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Computes `scaled_dot_product_attention` by products and a softmax."""
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5  # (1, heads, tokens, tokens)
    return torch.softmax(scores + mask, dim=-1) @ value


class Normalized(torch.nn.LayerNorm):
    """A layer normalization with the weights of a layer."""

    def __init__(self, weights: dict[str, torch.Tensor], layer: str, epsilon: float) -> None:
        gamma = weights[f"{layer}/gamma"]
        super().__init__(gamma.shape[0], eps=epsilon)
        self.load_state_dict({"weight": gamma, "bias": weights[f"{layer}/beta"]})


class Block(torch.nn.Module):
    """A transformer layer with its residual sums: (1, tokens, width) to the same."""

    def __init__(
        self, weights: dict[str, torch.Tensor], at: str, config: dict[str, Any], attend: Attention
    ) -> None:
        super().__init__()
        self.attend = attend
        self.heads, epsilon = config["num_heads"], config["layer_norm_eps"]
        self.query, self.key, self.value, self.attention_output, self.intermediate, self.output = (
            dense(weights, f"{at}_{part}")
            for part in ("query", "key", "value", "attention_output", "intermediate", "output")
        )
        self.attention_norm = Normalized(weights, f"{at}_attention_layer_norm", epsilon)
        self.output_norm = Normalized(weights, f"{at}_layer_norm", epsilon)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Attends with the additive mask (1, 1, 1, tokens), then transforms each token."""
        query, key, value = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (1, heads, tokens, depth)
            for layer in (self.query, self.key, self.value)
        )
        context = self.attend(query, key, value, mask)
        x = self.attention_norm(self.attention_output(context.transpose(1, 2).flatten(2)) + x)
        return self.output_norm(self.output(functional.gelu(self.intermediate(x))) + x)


class Classifier(torch.nn.Module):
    """The classifier with TinyBERT's (relu) or BERT's head."""

    def __init__(
        self, weights: dict[str, torch.Tensor], config: dict[str, Any], attend: Attention
    ) -> None:
        super().__init__()
        self.words, self.types = (
            torch.nn.Embedding.from_pretrained(weights[f"{name}_embeddings/embeddings"])
            for name in ("word", "token_type")
        )
        places = weights["position_embeddings/embeddings"][: config["length"]]
        self.register_buffer("places", places[None])
        self.norm = Normalized(weights, "embeddings_layer_norm", config["layer_norm_eps"])
        self.blocks = torch.nn.ModuleList(
            Block(weights, f"layer_{i}", config, attend) for i in range(config["num_layers"])
        )
        self.pooler, self.classifier = (dense(weights, name) for name in ("pooler", "classifier"))
        self.has_relu = config["family"] == "tinybert"

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """Returns the logits (1, classes) of int32 inputs (1, tokens)."""
        x = self.norm(self.words(input_ids) + self.places + self.types(token_type_ids))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -50.0  # see peer_models._mask
        for block in self.blocks:
            x = block(x, mask)
        pooled = torch.tanh(self.pooler(x[:, 0]))
        return self.classifier(functional.relu(pooled) if self.has_relu else pooled)


def dense(weights: dict[str, torch.Tensor], layer: str) -> torch.nn.Linear:
    """Makes x W + b."""
    kernel = weights[f"{layer}/kernel"].T.contiguous()
    linear = torch.nn.Linear(kernel.shape[1], kernel.shape[0])
    linear.load_state_dict({"weight": kernel, "bias": weights[f"{layer}/bias"]})
    return linear


def write_executorch(model: Classifier, inputs: dict[str, torch.Tensor], place: str) -> None:
    """Writes the program, all of it for XNNPACK that XNNPACK takes."""
    from executorch.backends.xnnpack.partition import (  # pyright: ignore[reportMissingImports]
        xnnpack_partitioner,
    )
    from executorch.backends.xnnpack.quantizer import (  # pyright: ignore[reportMissingImports]
        xnnpack_quantizer,
    )
    from executorch.exir import (  # pyright: ignore[reportMissingImports]
        to_edge_transform_and_lower,
    )
    from torchao.quantization.pt2e import (  # pyright: ignore[reportMissingImports]
        quantize_pt2e,
    )

    arguments = tuple(inputs.values())
    quantizer = xnnpack_quantizer.XNNPACKQuantizer().set_global(
        xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
    )
    prepared = quantize_pt2e.prepare_pt2e(torch.export.export(model, arguments).module(), quantizer)
    prepared(*arguments)
    quantized = torch.export.export(quantize_pt2e.convert_pt2e(prepared), arguments)
    lowered = to_edge_transform_and_lower(
        quantized, partitioner=[xnnpack_partitioner.XnnpackPartitioner()]
    )
    pathlib.Path(place).write_bytes(lowered.to_executorch().buffer)


def write_litert(
    model: Classifier, inputs: dict[str, torch.Tensor], length: int, place: str
) -> None:
    """Writes the file of litert-torch, quantized by the recipe of our file's name."""
    import litert_torch  # pyright: ignore[reportMissingImports]
    from ai_edge_quantizer import quantizer, recipe  # pyright: ignore[reportMissingImports]

    float_file = f"{place}.float32"
    converted = litert_torch.signature(f"len{length}", model, sample_kwargs=inputs).convert()
    converted.export(float_file)
    quantized = quantizer.Quantizer(float_file, recipe.dynamic_wi8_afp32()).quantize()
    quantized.export_model(place)


def write(weights_file: str, folder: str) -> None:
    """Writes the models that the peers run."""
    with np.load(weights_file) as file:
        weights = {name: torch.tensor(file[name]) for name in file.files if name != "config"}
        config = json.loads(str(file["config"]))
    shape = (1, config["length"])
    inputs = {
        "input_ids": torch.arange(config["length"], dtype=torch.int32)[None],
        "attention_mask": torch.ones(shape, dtype=torch.int32),
        "token_type_ids": torch.zeros(shape, dtype=torch.int32),
    }
    model = Classifier(weights, config, attend_in_steps).eval()
    write_executorch(model, inputs, f"{folder}/executorch.pte")
    model = Classifier(weights, config, functional.scaled_dot_product_attention).eval()
    write_litert(model, inputs, config["length"], f"{folder}/litert_torch.tflite")


if __name__ == "__main__":
    write(*sys.argv[1:])
