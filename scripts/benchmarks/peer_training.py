"""A joint stage in PyTorch: ``peer_training.py FOLDER``, in an environment with transformers.

FOLDER has what `training.write_stage` wrote: teacher and student as Hugging Face folders, the
projection of the hidden states, the batches and the settings. Losses, lengths and optimizer are
those of `distillers.JointDistiller`. ``{"loss": ARITHMETIC}`` is answered with the loss of the
first batch, without dropout; ``{"train": ARITHMETIC}`` with the processor seconds of one epoch.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import sys
import time
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import transformers
from torch.nn import functional  # pyright: ignore[reportMissingImports]

_NO_DECAY = ("LayerNorm", "bias")


class Stage:
    """Teacher, student, projection and optimizer of one arithmetic, "float32" or "bfloat16".

    In bfloat16 the teacher's weights are bfloat16, and the student runs under autocast.
    """

    def __init__(self, folder: pathlib.Path, arithmetic: str) -> None:
        self.settings = json.loads((folder / "settings.json").read_text())
        self.in_bfloat16 = arithmetic == "bfloat16"
        load = transformers.AutoModelForSequenceClassification.from_pretrained
        self.teacher, self.student = load(folder / "teacher"), load(folder / "student")
        self.teacher.eval().requires_grad_(False)
        if self.in_bfloat16:
            self.teacher.bfloat16()
        with np.load(folder / "projection.npz") as file:
            kernel, bias = torch.tensor(file["kernel"].T.copy()), torch.tensor(file["bias"])
        self.projection = torch.nn.Linear(kernel.shape[1], kernel.shape[0])
        self.projection.load_state_dict({"weight": kernel, "bias": bias})
        self.batches: list[dict[str, torch.Tensor]] = []
        for file in sorted(folder.glob("batch*.npy")):
            ids, mask, types = torch.tensor(np.load(file)).long()
            features = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
            self.batches.append(features)
        named = [*self.student.named_parameters(), *self.projection.named_parameters()]
        decayed = [p for name, p in named if not any(part in name for part in _NO_DECAY)]
        others = [p for name, p in named if any(part in name for part in _NO_DECAY)]
        self.weights = [*decayed, *others]
        groups = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(
            groups,
            lr=self.settings["learning_rate"],
            eps=1e-6,
            weight_decay=0.01,
            fused=True,
        )
        self.compiled = torch.compile(self.loss, dynamic=False)

    def loss(self, features: dict[str, torch.Tensor]) -> torch.Tensor:
        """KL of the answers, and the mean over layers of the squared error of hidden states."""
        with torch.no_grad():
            teacher = self.teacher(**features, output_hidden_states=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.in_bfloat16):
            student = self.student(**features, output_hidden_states=True)
            projected = [
                self.projection(student.hidden_states[layer + 1])
                for _, layer in self.settings["pairs"]
            ]
        targets = functional.log_softmax(teacher.logits.float(), -1)
        answers = functional.log_softmax(student.logits.float(), -1)
        loss = functional.kl_div(answers, targets, reduction="batchmean", log_target=True)
        mask = features["attention_mask"][:, :, None].float()  # (batch, tokens, 1)
        for states, (source, _) in zip(projected, self.settings["pairs"], strict=True):
            wanted = teacher.hidden_states[source + 1]  # (batch, tokens, width)
            errors = (states.float() - wanted.float()).square() * mask
            scale = wanted.shape[-1] * len(projected) * mask.sum()
            loss = loss + errors.sum() / scale
        return loss

    def evaluate(self) -> float:
        """Returns the loss of the first batch."""
        self.student.eval()
        with torch.no_grad():
            return float(self.loss(self.batches[0]))

    def train(self) -> float:
        """Trains for one epoch; returns the processor seconds."""
        self.student.train()
        started = time.process_time()
        for features in self.batches:
            loss = self.compiled(features)
            loss.backward()
            gradients = [p.grad for p in self.weights if p.grad is not None]
            norms = torch.stack(torch._foreach_norm(gradients))
            torch._foreach_mul_(gradients, list((1.0 / norms.clamp(min=1.0)).unbind()))
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            loss.item()
        return time.process_time() - started


def main() -> None:
    """Serves until stdin ends; what a library prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    torch._dynamo.config.recompile_limit = 64  # a graph for each length and arithmetic
    stage = functools.cache(functools.partial(Stage, pathlib.Path(sys.argv[1])))
    for line in sys.stdin:
        question: dict[str, Any] = json.loads(line)
        if "loss" in question:
            value = stage(question["loss"]).evaluate()
        else:
            value = stage(question["train"]).train()
        answers.write(json.dumps(value) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
