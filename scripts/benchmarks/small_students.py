#!/usr/bin/env python3
"""Small students of a MiniLM side by side on a GPU: one stacked model, a CUDA graph a length.

    small_students.py TEXTS.npz OUT.json [--tasks cola trec mrpc] [--steps 1000 5000]

Fine-tunes a teacher for each seed, cuts the students out of it and trains all variants at once by
the joint stage of tfdistill: divergence of the answers and squared error of the hidden states.
TEXTS.npz is of `small_students_texts.py`. Runs with PyTorch and NumPy alone.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import small_students_model as model
import torch  # pyright: ignore[reportMissingImports]
from small_students_batches import BATCH, ROUNDED_TO, SEEDS, Rows, pair_noise, plan, token_noise
from torch.nn import functional  # pyright: ignore[reportMissingImports]

Tensor: TypeAlias = torch.Tensor
LABELS = {"cola": 2, "mrpc": 2, "trec": 6}
LAYERS, HEADS, NEURONS, WIDTH = 6, 12, 1536, 384  # of the teacher
MAPPED = (1, 3, 5)  # the teacher layers of a student with three
SIZES = {"width": 192, "neurons": 384, "heads": 6}
RATE, TEACHER_RATE, TEACHER_STEPS = 3e-4, 1e-4, 400
USUAL = {"rate": 1.0, "dropout": 0.1, "noise": 0.5, "pairs": 0.5, "hidden": 1.0}
USUAL |= {"temperature": 1.0, "unlabelled": 0.0}
VARIANTS: Mapping[str, Mapping[str, float]] = {
    "before": {},
    "rate x2": {"rate": 2.0},
    "no dropout": {"dropout": 0.0},
    "rate x2, no dropout": {"rate": 2.0, "dropout": 0.0},
    "noise in 0.75": {"noise": 0.75},
    "noise in 0.75, no dropout": {"noise": 0.75, "dropout": 0.0},
    "noise in all, no dropout": {"noise": 1.0, "dropout": 0.0},
    "hidden 0.1": {"hidden": 0.1},
    "temperature 2": {"temperature": 2.0},
}


class Training:
    """Planned batches, rates and optimizer of a stack; each length's step is captured once."""

    def __init__(
        self,
        stack: model.Stack,
        rows: Rows,
        steps: int,
        rates: Sequence[float],
        device: str,
        *,
        clips_all: bool = False,
    ) -> None:
        self.stack, self.rows, self.device, self.steps = stack, rows, device, steps
        self.optimizer = model.AdamW(stack, device, clips_all=clips_all)
        indices, self._widths = plan(rows.lengths, steps)
        self._indices = torch.as_tensor(indices, device=device)
        step = torch.arange(steps, device=device)
        warm_up = max(steps // 10, 1)
        line = torch.where(step < warm_up, step / warm_up, 1 - step / steps)
        self._rates = line[:, None] * torch.tensor(rates, device=device)
        corrections = torch.sqrt(1 - 0.999 ** (step + 1.0)) / (1 - 0.9 ** (step + 1.0))
        self._corrections = corrections[:, None]
        self._step = torch.zeros(1, dtype=torch.int64, device=device)
        self._graphs: dict[int, Any] = {}

    def indices(self) -> Tensor:
        """The texts of this step, (seeds, B)."""
        return self._indices.index_select(0, self._step)[0]

    def loss(self, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of each model, (S,); its word vectors and their rows in the tables."""
        raise NotImplementedError

    def run(self, evaluate: Callable[[], Any], evaluations: int) -> list[tuple[int, Any]]:
        """Trains and returns what `evaluate` says after equal parts of the steps."""
        every, results = max(1, self.steps // evaluations), []
        for step in range(self.steps):
            width = int(self._widths[step])
            if self.device == "cpu":
                self._train(width)
            else:
                if width not in self._graphs:
                    self._graphs[width] = self._capture(width)
                self._graphs[width].replay()
            if (step + 1) % every == 0 or step + 1 == self.steps:
                results.append((step + 1, evaluate()))
        return results

    def _train(self, width: int) -> None:
        self.optimizer.zero()
        losses, words, rows = self.loss(width)
        losses.sum().backward()
        gradient = self.optimizer.table_gradient
        assert words.grad is not None
        gradient.view(-1, gradient.shape[-1]).index_add_(0, rows, words.grad.flatten(0, 2))
        rates, correction = (
            table.index_select(0, self._step)[0] for table in (self._rates, self._corrections)
        )
        self.optimizer.step(rates, correction)
        self._step += 1

    def _capture(self, width: int) -> Any:
        """Records a step as a CUDA graph, after two steps that are undone."""
        state = [*self.optimizer.state, self._step]
        saved = [tensor.clone() for tensor in state]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._train(width)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._train(width)
        for tensor, value in zip(state, saved, strict=True):
            tensor.copy_(value)
        return graph


class LabelTraining(Training):
    """Teachers of one task, a seed each, on gold labels."""

    def loss(self, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """Cross entropy, with dropout."""
        ids, types, mask = self.rows.batch(self.indices(), width)
        vectors, rows = self.stack.look_up(ids)
        words = vectors.requires_grad_()
        rates = torch.full((self.stack.count,), USUAL["dropout"], device=self.device)
        _, logits, _ = model.run(self.optimizer.leaves, words, types, mask, LAYERS, rates=rates)
        labels = self.rows.labels[self.indices()]
        losses = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        return losses.view(self.stack.count, -1).mean(1), words, rows


class JointTraining(Training):
    """The joint stage of V variants for each seed; model s V + v."""

    def __init__(
        self,
        *arguments: Any,
        teachers: model.Stack,
        options: Sequence[Mapping[str, float]],
        special: Tensor,
        separator: int,
        more: Rows | None,
    ) -> None:
        rates = [RATE * option["rate"] for option in options] * len(SEEDS)
        stack, rows, steps, device = arguments
        super().__init__(stack, rows, steps, rates, device)
        self._dtype = torch.float32 if device == "cpu" else torch.bfloat16
        self._teachers = {n: w.to(self._dtype) for n, w in teachers.weights.items()}
        self._teacher_table = teachers
        self._variants = len(options)
        self._special, self._separator, self._more = special, separator, more
        self._options = {
            key: torch.tensor([option[key] for option in options] * len(SEEDS), device=device)
            for key in USUAL
        }

    def _texts(self, width: int) -> tuple[Tensor, Tensor, Tensor]:
        chosen = self.rows.batch(self.indices(), width)
        if self._more is not None:
            fits = torch.as_tensor(np.flatnonzero(self._more.lengths <= width))
            picks = fits.to(self.device)[
                (torch.rand(len(SEEDS), BATCH, device=self.device) * len(fits)).long()
            ]
            others = self._more.batch(picks, width)
            uses = torch.rand(len(SEEDS), 1, BATCH, 1, device=self.device)
            shares = self._options["unlabelled"].view(len(SEEDS), -1, 1, 1)
            pairs = zip(others, chosen, strict=True)
            texts = [torch.where(uses < shares, a[:, None], b[:, None]) for a, b in pairs]
        else:
            texts = [x[:, None].expand(-1, self._variants, -1, -1) for x in chosen]
        ids, types, mask = (x.reshape(self.stack.count, BATCH, width) for x in texts)
        ids, types, mask = pair_noise((ids, types, mask), self._options["pairs"], self._separator)
        return token_noise(ids, mask, self._options["noise"], self._special), types, mask

    def _ask(self, texts: tuple[Tensor, Tensor, Tensor]) -> tuple[list[Tensor], Tensor]:
        """The teachers' states [(S, B L, d)] and logits (S, B, C)."""
        seeds, count = len(SEEDS), self.stack.count
        ids, types, mask = (x.view(seeds, -1, x.shape[-1]) for x in texts)
        with torch.no_grad():
            vectors, _ = self._teacher_table.look_up(ids)
            states, logits, _ = model.run(
                self._teachers, vectors.to(self._dtype), types, mask, LAYERS
            )
        rows = [state.reshape(count, -1, WIDTH).float() for state in states]
        return rows, logits.reshape(count, -1, logits.shape[-1]).float()

    def loss(self, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """Divergence of the answers and mean squared error of the states."""
        ids, types, mask = texts = self._texts(width)
        taught, answers = self._ask(texts)
        vectors, rows = self.stack.look_up(ids)
        words = vectors.requires_grad_()
        leaves = self.optimizer.leaves
        states, logits, _ = model.run(
            leaves, words, types, mask, len(MAPPED), rates=self._options["dropout"]
        )
        temperature = self._options["temperature"]
        wanted, reached = (
            torch.log_softmax(x / temperature.view(-1, 1, 1), -1) for x in (answers, logits)
        )
        losses = (wanted.exp() * (wanted - reached)).sum(-1).mean(1) * temperature**2
        real = mask.view(self.stack.count, -1).float()
        for state, source in zip(states[1:], MAPPED, strict=True):
            error = model.dense(state, leaves, "projection") - taught[source + 1]
            mean = (error.square().mean(-1) * real).sum(1) / real.sum(1)
            losses = losses + self._options["hidden"] * mean / len(MAPPED)
        return losses, words, rows


def predict(stack: model.Stack, rows: Rows, layers: int) -> Tensor:
    """Logits (S, n, C), in float32."""
    length = -(-int(rows.lengths.max()) // ROUNDED_TO) * ROUNDED_TO
    results = []
    with torch.no_grad():
        for start in range(0, len(rows.ids), 64):
            batch = rows.batch(slice(start, start + 64), length)
            ids, types, mask = (x.expand(stack.count, *x.shape) for x in batch)
            words, _ = stack.look_up(ids)
            results.append(model.run(stack.weights, words, types, mask, layers)[1])
    return torch.cat(results, 1)


def score(task: str, logits: Tensor, labels: Tensor) -> list[float]:
    """Accuracy (trec), F1 (mrpc) or Matthews correlation (cola) of each model."""
    guesses = logits.argmax(-1)
    if task == "trec":
        return (guesses == labels).double().mean(-1).tolist()
    counts = [
        ((guesses == guess) & (labels == label)).double().sum(-1)
        for guess, label in ((1, 1), (1, 0), (0, 1), (0, 0))
    ]
    hits, false, missed, rejected = counts
    if task == "mrpc":
        return (2 * hits / (2 * hits + false + missed).clamp(min=1)).tolist()
    sides = (hits + false) * (hits + missed) * (rejected + false) * (rejected + missed)
    return ((hits * rejected - false * missed) / sides.sqrt().clamp(min=1e-9)).tolist()


def divergence(teacher: Tensor, student: Tensor) -> list[float]:
    """Mean KL of each model's answers from its seed's teacher's."""
    ours = student.view(len(teacher), -1, *student.shape[1:])
    wanted, answers = (torch.log_softmax(x.double(), -1) for x in (teacher[:, None], ours))
    return (wanted.exp() * (wanted - answers)).sum(-1).mean(-1).flatten().tolist()


def read_teacher(file: Mapping[str, np.ndarray], labels: int, seed: int) -> dict[str, Tensor]:
    """A Hugging Face encoder by our names, with its pooler and a classifier of random numbers."""
    held = {name: torch.from_numpy(value.astype(np.float32)) for name, value in file.items()}

    def norm(name: str, source: str) -> dict[str, Tensor]:
        pair = {"gamma": "weight", "beta": "bias"}.items()
        return {f"{name}.{ours}": held[f"{source}.LayerNorm.{end}"] for ours, end in pair}

    result = {
        "position": held["embeddings.position_embeddings.weight"],
        "type": held["embeddings.token_type_embeddings.weight"],
    } | norm("embedded", "embeddings")
    depth = sum(name.endswith("attention.self.query.weight") for name in held)
    for layer in range(depth):
        block = f"encoder.layer.{layer}"
        projections = [f"{block}.attention.self.{name}" for name in ("query", "key", "value")]
        result[f"{layer}.qkv"] = torch.cat([held[f"{name}.weight"].T for name in projections], 1)
        result[f"{layer}.qkv.bias"] = torch.cat([held[f"{name}.bias"] for name in projections])
        sources = {"attended": "attention.output", "inner": "intermediate", "output": "output"}
        for name, source in sources.items():
            result[f"{layer}.{name}"] = held[f"{block}.{source}.dense.weight"].T
            result[f"{layer}.{name}.bias"] = held[f"{block}.{source}.dense.bias"]
            if name != "inner":
                result |= norm(f"{layer}.{name}", f"{block}.{source}")
    result["pooler"] = held["pooler.dense.weight"].T
    result["pooler.bias"] = held["pooler.dense.bias"]
    numbers = torch.Generator().manual_seed(seed)
    start = torch.randn(len(result["pooler"]), labels, generator=numbers)
    result["classifier"] = start.clamp(-2, 2) * 0.02
    result["classifier.bias"] = torch.zeros(labels)
    return result


def fine_tune(arrays: Mapping[str, np.ndarray], task: str, rows: Rows, device: str) -> model.Stack:
    """A teacher for each seed, after its last step."""
    encoder = {
        name.removeprefix("encoder."): value
        for name, value in arrays.items()
        if name.startswith("encoder.")
    }
    table = torch.from_numpy(encoder["embeddings.word_embeddings.weight"].astype(np.float32))
    positions = len(encoder["embeddings.position_embeddings.weight"])
    spec = model.shapes(LAYERS, WIDTH, HEADS, NEURONS, LABELS[task], positions)
    stack = model.Stack(len(SEEDS), len(table), WIDTH, spec, device)
    for place, seed in enumerate(SEEDS):
        stack.place(place, read_teacher(encoder, LABELS[task], seed), table)
    steps = max(TEACHER_STEPS, 3 * -(-len(rows.ids) // BATCH))
    rates = [TEACHER_RATE] * len(SEEDS)
    training = LabelTraining(stack, rows, steps, rates, device, clips_all=True)
    training.run(lambda: None, 1)
    return stack


def start(teachers: model.Stack, rows: Rows, task: str, count: int, device: str) -> model.Stack:
    """Students for so many variants, cut out of each teacher."""
    indices, widths = plan(rows.lengths, 32)
    positions = teachers.spec["position"][0]
    spec = model.shapes(
        len(MAPPED), SIZES["width"], SIZES["heads"], SIZES["neurons"], LABELS[task], positions
    ) | {"projection": (SIZES["width"], WIDTH), "projection.bias": (WIDTH,)}
    words = teachers.table.shape[1]
    stack = model.Stack(len(SEEDS) * count, words, SIZES["width"], spec, device)
    for place in range(len(SEEDS)):
        batches = zip(indices[:, place], widths, strict=True)
        sample = [rows.batch(index, int(width)) for index, width in batches]
        sample = sample[: max(1, len(rows.ids) // BATCH)]
        weights, table, basis = model.cut(
            *teachers.model(place), sample, teacher_layers=LAYERS, layers=MAPPED, **SIZES
        )
        weights |= {"projection": basis.T, "projection.bias": torch.zeros_like(basis[:, 0])}
        for variant in range(count):
            stack.place(place * count + variant, weights, table)
    return stack


def measure(
    arrays: Mapping[str, np.ndarray],
    task: str,
    numbers_of_steps: Sequence[int],
    device: str,
) -> Iterator[dict[str, Any]]:
    """Trains all variants of a task, once for each number of steps, and yields a record of each."""
    rows = {split: Rows(arrays, f"{task}.{split}", device) for split in ("train", "dev", "test")}
    options = {name: {**USUAL, **changes} for name, changes in VARIANTS.items()}
    more = None
    if task == "trec":
        more = Rows(arrays, "trec.unlabelled", device)
        options["unlabelled in 0.75"] = {**USUAL, "unlabelled": 0.75}
    torch.backends.cuda.matmul.allow_tf32 = True
    teachers = fine_tune(arrays, task, rows["train"], device)
    for steps in numbers_of_steps:
        torch.backends.cuda.matmul.allow_tf32 = False
        answers = {split: predict(teachers, rows[split], LAYERS) for split in ("dev", "test")}
        students = start(teachers, rows["train"], task, len(options), device)
        torch.backends.cuda.matmul.allow_tf32 = True
        training = JointTraining(
            students, rows["train"], steps, device,
            teachers=teachers, options=list(options.values()), more=more,
            special=torch.as_tensor(arrays["special"], device=device),
            separator=int(arrays["separator"][0]),
        )  # fmt: skip
        began = time.perf_counter()
        curve = training.run(functools.partial(judge, task, students, rows, answers), 10)
        yield {
            "task": task,
            "steps": steps,
            "seeds": SEEDS,
            "variants": options,  # of each seed, in this order
            "teachers": score(task, answers["dev"], rows["dev"].labels),
            "seconds": time.perf_counter() - began,
            "curve": curve,
        }


def judge(
    task: str, students: model.Stack, rows: Mapping[str, Rows], answers: Mapping[str, Tensor]
) -> dict[str, list[float]]:
    """The divergence of all students on both sets, and the metric on the development set."""
    logits = {split: predict(students, rows[split], len(MAPPED)) for split in answers}
    result = {f"kl_{split}": divergence(answers[split], logits[split]) for split in answers}
    return result | {"metric": score(task, logits["dev"], rows["dev"].labels)}


def main() -> None:
    """Writes the records after each training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts")
    parser.add_argument("out")
    parser.add_argument("--tasks", nargs="+", default=list(LABELS), choices=list(LABELS))
    parser.add_argument("--steps", nargs="+", type=int, default=[1000, 5000])
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    records = []
    with np.load(args.texts) as file:
        arrays = dict(file)
    for task in args.tasks:
        for record in measure(arrays, task, args.steps, args.device):
            records.append(record)
            with open(args.out, "w", encoding="utf-8") as file:
                json.dump(records, file)
            print(f"{task}, {record['steps']} steps: {record['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
