"""The product's BERT, cut and AdamW in PyTorch, for several models of one shape at once.

Runs with PyTorch and NumPy, not with the packages of tfdistill. Every tensor of a `Stack` has a
leading axis of S models. Shapes: N texts, L tokens, d hidden width, V words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

HEAD_SIZE = 32
Tensor: TypeAlias = torch.Tensor
Weights = Mapping[str, Tensor]
Batch = tuple[Tensor, Tensor, Tensor]  # ids, types and mask of a batch, (N, L)
_DECAYED = ("position", "type", "qkv", "attended", "inner", "output", "pooler", "classifier")


def shapes(
    layers: int, width: int, heads: int, neurons: int, labels: int, positions: int
) -> dict[str, tuple[int, ...]]:
    """The shape of each weight of a model, without its word table."""
    attention = heads * HEAD_SIZE
    result: dict[str, tuple[int, ...]] = {"position": (positions, width), "type": (2, width)}
    result |= {"embedded.gamma": (width,), "embedded.beta": (width,)}
    for layer in range(layers):
        parts = {
            "qkv": (width, 3 * attention),
            "attended": (attention, width),
            "inner": (width, neurons),
            "output": (neurons, width),
        }
        for name, shape in parts.items():
            result |= {f"{layer}.{name}": shape, f"{layer}.{name}.bias": shape[1:]}
        for name in ("attended", "output"):
            result |= {f"{layer}.{name}.{part}": (width,) for part in ("gamma", "beta")}
    for name, shape in {"pooler": (width, width), "classifier": (width, labels)}.items():
        result |= {name: shape, f"{name}.bias": shape[1:]}
    return result


class Stack:
    """The weights of S models: word tables (S, V, d), the rest in one buffer with a view each."""

    def __init__(
        self, count: int, words: int, width: int, spec: Mapping[str, tuple[int, ...]], device: str
    ) -> None:
        self.count, self.spec = count, dict(spec)
        self.table = torch.zeros(count, words, width, device=device)
        size = sum(math.prod(shape) for shape in spec.values())
        self.buffer = torch.zeros(count, size, device=device)
        self.weights = self.views(self.buffer)

    def views(self, buffer: Tensor) -> dict[str, Tensor]:
        """Cuts a buffer (S, P) into weights."""
        result, start = {}, 0
        for name, shape in self.spec.items():
            size = math.prod(shape)
            result[name] = buffer[:, start : start + size].view(len(buffer), *shape)
            start += size
        return result

    def model(self, index: int) -> tuple[dict[str, Tensor], Tensor]:
        """One model's weights and table, with a leading axis of 1."""
        part = slice(index, index + 1)
        return {name: value[part] for name, value in self.weights.items()}, self.table[part]

    def place(self, index: int, weights: Weights, table: Tensor) -> None:
        """Copies one model's weights."""
        self.table[index] = table
        for name, value in weights.items():
            self.weights[name][index] = value

    def look_up(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Word vectors of ids (S, N, L), as they are, and their rows in the table (S V, d)."""
        count, words, width = self.table.shape
        first = torch.arange(count, device=ids.device).view(count, 1, 1) * words
        rows = (ids + first).reshape(-1)
        vectors = self.table.view(count * words, width).index_select(0, rows)
        return vectors.view(*ids.shape, width), rows


def dense(inputs: Tensor, weights: Weights, name: str) -> Tensor:
    """(S, N, k) -> (S, N, m)."""
    return torch.baddbmm(weights[f"{name}.bias"].unsqueeze(1), inputs, weights[name])


def normalize(inputs: Tensor, weights: Weights, name: str) -> Tensor:
    """A LayerNorm of rows (S, N, d)."""
    normed = functional.layer_norm(inputs, inputs.shape[-1:], eps=1e-12)
    return normed * weights[f"{name}.gamma"].unsqueeze(1) + weights[f"{name}.beta"].unsqueeze(1)


def drop(inputs: Tensor, rates: Tensor | None) -> Tensor:
    """Dropout with a rate (S,) of each model; None: none."""
    if rates is None:
        return inputs
    rate = rates.view(-1, *([1] * (inputs.dim() - 1)))
    return inputs * ((torch.rand_like(inputs) >= rate) / (1 - rate))


def run(
    weights: Weights,
    words: Tensor,
    types: Tensor,
    mask: Tensor,
    layers: int,
    *,
    rates: Tensor | None = None,
    measured: bool = False,
) -> tuple[list[Tensor], Tensor, dict[str, list[Tensor]]]:
    """Word vectors (S, N, L, d) -> states [(S, N L, d)], logits (S, N, C), and what is measured."""
    count, texts, length, width = words.shape
    steps = (weights["type"][:, 1] - weights["type"][:, 0])[:, None, None]
    summed = words + weights["position"][:, None, :length] + weights["type"][:, None, None, 0]
    summed = summed + types.unsqueeze(-1).to(words.dtype) * steps
    summed = summed.reshape(count, texts * length, width)
    hidden = drop(normalize(summed, weights, "embedded"), rates)
    states = [hidden]
    kinds = ("inner", "context", "attention sum", "attended", "output sum")
    seen: dict[str, list[Tensor]] = {name: [] for name in kinds}
    hides = ((1.0 - mask.to(words.dtype)) * -100.0).view(count * texts, 1, 1, length)
    for layer in range(layers):
        projected = dense(hidden, weights, f"{layer}.qkv")
        heads = projected.shape[-1] // (3 * HEAD_SIZE)
        parts = projected.view(count * texts, length, 3, heads, HEAD_SIZE)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query * HEAD_SIZE**-0.5 @ key.transpose(-1, -2) + hides
        shares = torch.softmax(scores, -1)
        if rates is not None:
            shares = drop(shares.view(count, -1, length, length), rates).view_as(shares)
        context = (shares @ value).transpose(1, 2).reshape(count, texts * length, -1)
        attention_sum = drop(dense(context, weights, f"{layer}.attended"), rates) + hidden
        attended = normalize(attention_sum, weights, f"{layer}.attended")
        inner = functional.gelu(dense(attended, weights, f"{layer}.inner"))
        output_sum = drop(dense(inner, weights, f"{layer}.output"), rates) + attended
        hidden = normalize(output_sum, weights, f"{layer}.output")
        states.append(hidden)
        if measured:
            values = (inner, context, attention_sum, attended, output_sum)
            for name, tensor in zip(kinds, values, strict=True):
                seen[name].append(tensor)
    first = hidden.view(count, texts, length, -1)[:, :, 0]
    pooled = torch.tanh(dense(first, weights, "pooler"))
    seen["pooled"] = [pooled]
    return states, dense(drop(pooled, rates), weights, "classifier"), seen


class AdamW:
    """The product's AdamW: decay 0.01, epsilon 1e-6, each tensor clipped to 1 or all together."""

    def __init__(self, stack: Stack, device: str, *, clips_all: bool = False) -> None:
        self._stack, self._clips_all = stack, clips_all
        self.table_gradient = torch.zeros_like(stack.table)
        self._gradient = torch.zeros_like(stack.buffer)
        self._gradients = stack.views(self._gradient)
        buffers = (stack.buffer, stack.table)
        self._moments = [(torch.zeros_like(b), torch.zeros_like(b)) for b in buffers]
        segments = torch.zeros(1, stack.buffer.shape[1], dtype=torch.int64, device=device)
        decay = torch.zeros(1, stack.buffer.shape[1], device=device)
        self._parts: list[tuple[str, slice]] = []
        self.leaves = {}
        for name, view in stack.views(segments).items():
            third = view.shape[-1] // 3 if "qkv" in name else view.shape[-1]
            for start in range(0, view.shape[-1], third):  # queries, keys, values by themselves
                view[..., start : start + third] = len(self._parts)
                self._parts.append((name, slice(start, start + third)))
            decays = name.split(".")[-1] in _DECAYED or name == "projection"
            stack.views(decay)[name].fill_(0.01 * decays)
            leaf = stack.weights[name].detach().requires_grad_()
            leaf.grad = self._gradients[name]
            self.leaves[name] = leaf
        self._segments, self._decay = segments[0], decay

    @property
    def state(self) -> list[Tensor]:
        """Everything that a step changes."""
        return [self._stack.buffer, self._stack.table, *self._moments[0], *self._moments[1]]

    def zero(self) -> None:
        """Forgets the gradients."""
        self._gradient.zero_()
        self.table_gradient.zero_()

    def step(self, rates: Tensor, correction: Tensor) -> None:
        """One step at rates (S,), with ``sqrt(1 - b2^t) / (1 - b1^t)``."""
        stack = self._stack
        parts = [self._gradients[name][..., columns] for name, columns in self._parts]
        norms = torch.stack([torch.linalg.vector_norm(p.flatten(1), dim=1) for p in parts], 1)
        of_table = torch.linalg.vector_norm(self.table_gradient.flatten(1), dim=1)
        if self._clips_all:
            of_table = (norms.square().sum(1) + of_table.square()).sqrt()
            norms = of_table[:, None].expand_as(norms)
        self._gradient *= (1 / norms.clamp(min=1))[:, self._segments]
        self.table_gradient *= (1 / of_table.clamp(min=1)).view(-1, 1, 1)
        targets = (
            (stack.buffer, self._gradient, self._decay, rates.view(-1, 1)),
            (stack.table, self.table_gradient, 0.01, rates.view(-1, 1, 1)),
        )
        for (mean, square), (value, gradient, decay, rate) in zip(
            self._moments, targets, strict=True
        ):
            mean.mul_(0.9).add_(gradient, alpha=0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            value.sub_(rate * decay * value)
            value.sub_(rate * correction * (mean / (square.sqrt() + 1e-6)))


def cut(
    teacher: Weights,
    table: Tensor,
    sample: Sequence[Batch],
    *,
    teacher_layers: int,
    layers: Sequence[int],
    width: int,
    neurons: int,
    heads: int,
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Cuts and refits a student as `tfdistill.pruning`: its weights, its table, and its basis."""
    measured = _measure(teacher, table, sample, teacher_layers)
    double = {name: value[0].double() for name, value in teacher.items()}
    depth = table.shape[-1]
    moments = measured["states"][[0, *(layer + 1 for layer in layers)]].mean(0).cpu().numpy()
    basis = torch.eye(depth, dtype=torch.float64)
    if width < depth:
        basis = torch.from_numpy(_basis(moments, width))
    basis = basis.to(table.device)
    scale = (depth / width) ** 0.5 / basis.square().sum(0).clamp(min=1e-12)

    def norm(name: str) -> dict[str, Tensor]:
        return {
            f"{name}.gamma": double[f"{name}.gamma"] @ basis.square() * scale,
            f"{name}.beta": double[f"{name}.beta"] @ basis,
        }

    result = {name: double[name] @ basis for name in ("position", "type")} | norm("embedded")
    for layer, source in enumerate(layers):
        chosen_heads = _best(measured["heads"][source], heads)
        places = [head * HEAD_SIZE + place for head in chosen_heads for place in range(HEAD_SIZE)]
        attention = double[f"{source}.qkv"].shape[1] // 3
        columns = [part * attention + place for part in range(3) for place in places]
        inner = _best(measured["inner"][source], neurons)
        names = {part: f"{source}.{part}" for part in ("qkv", "attended", "inner", "output")}
        cuts = {
            "qkv": (basis.T @ double[names["qkv"]][:, columns], columns),
            "attended": (double[names["attended"]][places] @ basis, None),
            "inner": (basis.T @ double[names["inner"]][:, inner], inner),
            "output": (double[names["output"]][inner] @ basis, None),
        }
        for part, (kernel, chosen) in cuts.items():
            bias = double[f"{names[part]}.bias"]
            bias = bias @ basis if chosen is None else bias[chosen]
            result |= {f"{layer}.{part}": kernel, f"{layer}.{part}.bias": bias}
        for part in ("attended", "output"):
            renamed = norm(f"{source}.{part}").items()
            result |= {f"{layer}.{part}.{name.split('.')[-1]}": value for name, value in renamed}
    pooled = _best(measured["pooled"], width)
    result |= {"pooler": basis.T @ double["pooler"][:, pooled]}
    result |= {"pooler.bias": double["pooler.bias"][pooled]}
    result |= {"classifier": double["classifier"][pooled]}
    result |= {"classifier.bias": double["classifier.bias"]}
    weights = {name: value.float()[None] for name, value in result.items()}
    words = (table[0].double() @ basis).float()[None]
    _refit(weights, words, teacher, table, sample, teacher_layers, layers, basis)
    return {name: value[0] for name, value in weights.items()}, words[0], basis.float()


def _best(importance: Tensor, count: int) -> list[int]:
    order = np.argsort(-importance.cpu().numpy(), kind="stable")
    return sorted(order[:count].tolist())


def _basis(moments: np.ndarray, width: int) -> np.ndarray:
    """`pruning.directions.hidden_basis`: leading directions whose coordinates sum to 0."""
    _, vectors = np.linalg.eigh(moments)
    leading = vectors[:, ::-1][:, : width - 1]
    signs = np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(width - 1)])
    mirror = np.full(width, 1.0 / np.sqrt(width))
    mirror[-1] -= 1.0
    reflection = np.eye(width) - 2.0 / (mirror @ mirror) * np.outer(mirror, mirror)
    return leading * signs @ reflection[:, : width - 1].T


def _run_one(
    weights: Weights, table: Tensor, batch: Batch, layers: int
) -> tuple[list[Tensor], Tensor, dict[str, list[Tensor]]]:
    ids, types, mask = batch
    words = table[0][ids][None].requires_grad_(torch.is_grad_enabled())
    return run(weights, words, types[None], mask[None], layers, measured=True)


def _measure(
    teacher: Weights, table: Tensor, sample: Sequence[Batch], layers: int
) -> dict[str, Tensor]:
    """Importances of neurons (L, f), heads (L, h) and pooled units (d,); moments (L + 1, d, d)."""
    sums: dict[str, Any] = dict.fromkeys(("inner", "heads", "pooled", "states"), 0.0)
    for batch in sample:
        states, logits, seen = _run_one(teacher, table, batch, layers)
        losses = functional.cross_entropy(logits[0], logits[0].argmax(-1), reduction="sum")
        wanted = [*seen["inner"], *seen["context"], *seen["pooled"]]
        products = [
            (value * gradient).detach()[0]
            for value, gradient in zip(wanted, torch.autograd.grad(losses, wanted), strict=True)
        ]
        by_text = [product.view(*batch[0].shape, -1) for product in products[:-1]]
        inner = [product.sum(1).abs().sum(0) for product in by_text[:layers]]
        contexts = [p.unflatten(-1, (-1, HEAD_SIZE)).sum((1, 3)) for p in by_text[layers:]]
        real = batch[2].reshape(-1) > 0
        rows = torch.stack([state[0][real] for state in states]).detach().double()
        sums["inner"] = sums["inner"] + torch.stack(inner).double()
        sums["heads"] = sums["heads"] + torch.stack([c.abs().sum(0) for c in contexts]).double()
        sums["pooled"] = sums["pooled"] + products[-1].abs().sum(0).double()
        sums["states"] = sums["states"] + torch.einsum("lni,lnj->lij", rows, rows)
    return sums


@torch.no_grad()
def _refit(
    weights: dict[str, Tensor],
    table: Tensor,
    teacher: Weights,
    teacher_table: Tensor,
    sample: Sequence[Batch],
    teacher_layers: int,
    layers: Sequence[int],
    basis: Tensor,
) -> None:
    """`pruning.refit`: LayerNorms, output matrices and classifier, in place."""
    walks = [_run_one(teacher, teacher_table, batch, teacher_layers) for batch in sample]
    real = torch.cat([mask.reshape(-1) > 0 for _, _, mask in sample])

    def target(kind: str, place: int) -> Tensor:
        rows = [walk[0] if kind == "states" else walk[2][kind] for walk in walks]
        return torch.cat([tensors[place][0] for tensors in rows])[real].double() @ basis

    def student(kind: str, layer: int) -> Tensor:
        runs = [_run_one(weights, table, batch, len(layers)) for batch in sample]
        return torch.cat([seen[kind][layer][0] for _, _, seen in runs])

    def fit_norm(name: str, rows: Tensor, wanted: Tensor) -> None:
        normed = functional.layer_norm(rows[real], rows.shape[-1:], eps=1e-12).double()
        centred = normed - normed.mean(0)
        variance = centred.square().mean(0)
        gamma = (centred * wanted).mean(0) / variance.clamp(min=1e-30)
        gamma = torch.where(variance > 1e-8, gamma, weights[f"{name}.gamma"][0].double())
        weights[f"{name}.gamma"] = gamma.float()[None]
        weights[f"{name}.beta"] = (wanted.mean(0) - gamma * normed.mean(0)).float()[None]

    def fit_dense(name: str, inputs: Tensor, outputs: Tensor, wanted: Tensor) -> None:
        change, shift = _ridge(inputs.double(), wanted - outputs.double())
        weights[name] = weights[name] + change
        weights[f"{name}.bias"] = weights[f"{name}.bias"] + shift

    before = torch.cat([_before_norm(weights, table, batch) for batch in sample])
    fit_norm("embedded", before, target("states", 0))
    for layer, source in enumerate(layers):
        parts = (
            ("attended", "context", "attention sum", target("attended", source)),
            ("output", "inner", "output sum", target("states", source + 1)),
        )
        for name, inputs, sums, wanted in parts:
            rows = student(inputs, layer)[real], student(sums, layer)[real]
            fit_dense(f"{layer}.{name}", *rows, target(sums, source))
            fit_norm(f"{layer}.{name}", student(sums, layer), wanted)
    runs = [_run_one(weights, table, batch, len(layers)) for batch in sample]
    pooled = torch.cat([seen["pooled"][0][0] for _, _, seen in runs])
    logits = torch.cat([logits[0] for _, logits, _ in runs])
    fit_dense("classifier", pooled, logits, torch.cat([walk[1][0] for walk in walks]).double())


def _before_norm(weights: Weights, table: Tensor, batch: Batch) -> Tensor:
    ids, types, _ = batch
    summed = table[0][ids] + weights["position"][0, : ids.shape[1]] + weights["type"][0][types]
    return summed.flatten(0, 1)


def _ridge(inputs: Tensor, missing: Tensor) -> tuple[Tensor, Tensor]:
    """`pruning.refitting._ridge`: the change of kernel and bias that explains what is missing."""
    mean, shift = inputs.mean(0), missing.mean(0)
    centred = inputs - mean
    moments = centred.T @ centred / len(centred)
    penalty = max(float(0.01 * moments.trace() / len(moments)), 1e-12)
    moments += penalty * torch.eye(len(moments), dtype=moments.dtype, device=moments.device)
    change = torch.linalg.solve(moments, centred.T @ (missing - shift) / len(centred))
    return change.float(), (shift - mean @ change).float()
