"""One entry point of a file: fed by the roles of its inputs, padded, run.

The process that is measured imports this: it needs NumPy and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class EntryRunner:
    """Runs one entry point of a file: inputs bound by name, padding added."""

    def __init__(self, interpreter: Any, entry: dict[str, Any]) -> None:
        self._interpreter = interpreter
        self._entry = entry
        self.length = entry["sequence_length"]
        self._allocated = False
        if entry["signature"] is None:
            details = {d["name"]: d["index"] for d in interpreter.get_input_details()}
            self._indices = {r: details[i["name"]] for r, i in entry["inputs"].items()}
            self._outputs = [d["index"] for d in interpreter.get_output_details()]
        else:
            self._run = interpreter.get_signature_runner(entry["signature"])

    def feed(self, input_ids: list[int], token_type_ids: list[int]) -> dict[str, np.ndarray]:
        """Pads one example; returns (1, length) arrays by role."""
        return padded(self._entry, input_ids, token_type_ids)

    def __call__(self, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        """Writes the inputs, runs the model and copies its outputs."""
        if self._entry["signature"] is None:
            if not self._allocated:  # as a signature does: the first inference includes it
                self._interpreter.allocate_tensors()
                self._allocated = True
            for role, index in self._indices.items():
                self._interpreter.set_tensor(index, feed[role])
            self._interpreter.invoke()
            return [self._interpreter.get_tensor(index) for index in self._outputs]
        inputs = self._entry["inputs"]
        outputs = self._run(**{inputs[role]["name"]: value for role, value in feed.items()})
        return list(outputs.values())


def padded(
    entry: dict[str, Any], input_ids: list[int], token_type_ids: list[int]
) -> dict[str, np.ndarray]:
    """Pads one example for an entry point; returns (1, length) arrays by role."""
    values = {
        "input_ids": input_ids,
        "attention_mask": [1] * len(input_ids),
        "token_type_ids": token_type_ids,
    }
    found = {}
    for role, tensor in entry["inputs"].items():
        array = np.zeros((1, entry["sequence_length"]), dtype=tensor["dtype"])
        array[0, : len(values[role])] = values[role]
        found[role] = array
    return found
