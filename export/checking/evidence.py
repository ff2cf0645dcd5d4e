"""The evidence for the checks of a file, each part computed once, when the first check needs it."""

from __future__ import annotations

import dataclasses
import filecmp
import functools
import os
import pathlib
from typing import Any

import numpy as np

from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite import TfliteModel, editing, inspection
from tfdistill.tflite.inspection import ModelReport
from tfdistill.tflite.reader import text

from ..conversion.convert import Converted
from ..model import inputs
from ..model.heads import LOGITS, SCORES
from . import carried, golden, pairing, simulation
from .outputs import file_outputs, model_logits, softmax_of
from .pairing import Pair


@dataclasses.dataclass(frozen=True)
class Group:
    """Inputs of one signature and what the model answers."""

    length: int  # tokens of the signature
    examples: EncodedExamples  # the inputs, padded to it
    logits: np.ndarray  # the model's, see `export.model.heads`


@dataclasses.dataclass(frozen=True)
class Reference:
    """A float32 conversion that passed its checks, for all number formats that are made of it."""

    file: pathlib.Path
    logits: np.ndarray  # the model's, on the examples
    groups: tuple[Group, ...]  # the inputs of each signature
    # the conversion's logits on the examples; None where they are not real
    outputs: np.ndarray | None


@dataclasses.dataclass
class FloatConversion:
    """The float32 conversion of a model, which all of its files are made of and compared with."""

    file: pathlib.Path  # where it is, or goes
    reference: Reference | None = None  # what was computed for its checks, once it has passed them


class Evidence:
    """A file, its float32 conversion, its model, and what follows from the three.

    `float_file` is the conversion of the same SavedModel; of a float32 file the file itself.
    """

    def __init__(
        self, converted: Converted, folder: pathlib.Path, reference: Reference | None = None
    ) -> None:
        """Takes a file, a folder for temporary files, and the reference of an earlier file."""
        self.plan, self.file = converted.plan, converted.file
        self.float_file = self.file if self.plan.is_float else converted.float_file
        self._folder = folder
        if reference is not None and self.plan.is_float:
            same = filecmp.cmp(self.file, reference.file, shallow=False)
            reference = reference if same else None  # with metadata: what is written is checked
        self._checked_reference = reference

    @property
    def float_is_checked(self) -> bool:
        """Whether the float32 conversion passed its checks before another file."""
        return self._checked_reference is not None

    @functools.cached_property
    def reference(self) -> Reference:
        """The float32 conversion with what was computed for its checks."""
        if self._checked_reference is not None:
            return self._checked_reference
        outputs = self.float_outputs if self.plan.real_examples else None
        return Reference(self.float_file, self.logits, self.groups, outputs)

    @functools.cached_property
    def report(self) -> ModelReport:
        """The content of the file."""
        return inspection.inspect(self.file)

    @functools.cached_property
    def probes(self) -> np.ndarray:
        """Indices of the examples that go through every signature, int64 (m,)."""
        return inputs.probes(self.plan.examples, self.plan.lengths)

    @functools.cached_property
    def logits(self) -> np.ndarray:
        """The model's logits on the examples, (rows, num_labels)."""
        if self._checked_reference is not None:
            return self._checked_reference.logits
        return model_logits(self.plan.model, self.plan.examples, self.plan.lengths)

    @functools.cached_property
    def groups(self) -> tuple[Group, ...]:
        """The inputs of each signature: drawn probes, and probes of the examples that fit it."""
        if self._checked_reference is not None:
            return self._checked_reference.groups
        groups = []
        for length in self.plan.lengths:
            examples = inputs.probes_of(self.plan.config, length)
            fitting = self.probes[self.plan.examples.lengths[self.probes] <= length]
            if len(fitting):
                examples = inputs.joined(examples, self.plan.examples.select(fitting))
            logits = model_logits(self.plan.model, examples, [length])
            groups.append(Group(length, examples, logits))
        return tuple(groups)

    @functools.cached_property
    def float_tree(self) -> Any:
        """The float32 conversion as a tree of objects; nothing changes it."""
        return editing.read(self.float_file)

    @functools.cached_property
    def float_model(self) -> TfliteModel:
        """The float32 conversion with logits: probabilities near 0 and 1 hide what is wrong."""
        if not self.plan.request.softmax:
            return TfliteModel(self.float_file)
        copy = self._folder / "logits.tflite"
        editing.write(_with_logits(editing.read(self.float_file)), copy)
        return TfliteModel(copy)

    @functools.cached_property
    def float_answers(self) -> tuple[np.ndarray, ...]:
        """The logits of the float32 conversion for each group."""
        return tuple(
            file_outputs(self.float_model, group.examples, length=group.length)
            for group in self.groups
        )

    @functools.cached_property
    def float_outputs(self) -> np.ndarray:
        """The logits of the float32 conversion for the examples."""
        return file_outputs(self.float_model, self.plan.examples)

    @functools.cached_property
    def _paired(self) -> tuple[Any, Any, dict[str, carried.Places], list[Pair]]:
        float_tree, tree = editing.read(self.float_file), editing.read(self.file)
        places: dict[str, carried.Places] = {}
        if self.plan.quantize_aware:
            for each in (float_tree, tree):
                carried.split_activations(each)
            places = carried.remove(float_tree)
        pairs = pairing.pair(float_tree, tree, reshapes_move=self.plan.quantize_aware)
        return float_tree, tree, places, pairs

    @property
    def trees(self) -> tuple[Any, Any]:
        """The float32 conversion and the file as trees of objects, as they were paired."""
        return self._paired[:2]

    @property
    def places(self) -> dict[str, carried.Places]:
        """The places where a quantization-aware model rounds, by signature."""
        return self._paired[2]

    @property
    def pairs(self) -> list[Pair]:
        """The signatures of the float32 conversion and of the file, operator by operator."""
        return self._paired[3]

    @functools.cached_property
    def opened(self) -> TfliteModel:
        """The file in LiteRT."""
        return TfliteModel(self.file, threads=min(4, os.cpu_count() or 1))

    @functools.cached_property
    def simulated(self) -> TfliteModel:
        """The float32 conversion with the file's rounding; changes the trees, so it is last."""
        path = self._folder / "rounded.tflite"
        simulation.write(*self.trees, self.pairs, path)
        return TfliteModel(path)

    @functools.cached_property
    def on_groups(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The outputs of the model, the simulated rounding and the file for all groups."""
        parts = [
            (
                softmax_of(group.logits) if self.plan.request.softmax else group.logits,
                file_outputs(self.simulated, group.examples, length=group.length),
                file_outputs(self.opened, group.examples, length=group.length),
            )
            for group in self.groups
        ]
        model, simulated, file = (np.concatenate(rows) for rows in zip(*parts, strict=True))
        return model, simulated, file

    @property
    def decided_on_groups(self) -> list[np.ndarray | None]:
        """The decisions from each of the three; None of a regression."""
        decided, first = [], 0
        for group in self.groups:
            rows = slice(first, first := first + len(group.logits))
            decided.append([
                self.plan.head.decisions(outputs[rows], group.examples)
                for outputs in self.on_groups
            ])  # fmt: skip
        return [
            None if parts[0] is None else np.concatenate(parts)
            for parts in zip(*decided, strict=True)
        ]

    @functools.cached_property
    def outputs(self) -> np.ndarray:
        """The file's outputs for the examples."""
        if self.plan.is_float and not self.plan.request.softmax:
            outputs = self.reference.outputs
            if outputs is not None:
                return outputs
        return file_outputs(self.opened, self.plan.examples)

    @property
    def expected_outputs(self) -> np.ndarray:
        """The expected outputs for the examples: the model's logits or probabilities."""
        return softmax_of(self.logits) if self.plan.request.softmax else self.logits

    @functools.cached_property
    def golden(self) -> dict[str, Any]:
        """The content of golden.json."""
        chosen = self.probes
        if self.plan.head.decodes_spans:
            chosen = inputs.whole_texts(self.plan.examples, chosen)
        return golden.content(self.plan, chosen, self.logits, self.outputs)


def _with_logits(tree: Any) -> Any:
    """Takes the softmax off the outputs of a file."""
    for entry in tree.signatureDefs:
        graph: Any = tree.subgraphs[entry.subgraphIndex]
        for named in entry.outputs:
            last = [o for o in graph.operators if named.tensorIndex in o.outputs]
            if text(named.name) != SCORES or editing.name_of(tree, last[0]) != "SOFTMAX":
                continue
            graph.outputs = [int(last[0].inputs[0])]
            named.name, named.tensorIndex = LOGITS, int(last[0].inputs[0])
    return tree
