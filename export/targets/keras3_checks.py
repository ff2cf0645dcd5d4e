"""The checks that a written .keras file is the model: `CHECKS`, before it replaces anything."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.data import batches as batching
from tfdistill.io import checks
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite import agreement

from ..model import inputs

_NUM_ANSWERED = 64  # examples of check_on that both models answer
_SETTINGS = {"epsilon", "rate"}


@dataclasses.dataclass(frozen=True)
class WrittenModel:
    """The content of a .keras file, the model that it must be, and what follows from the two."""

    model: keras.Model
    loaded: Any  # what Keras 3 makes of the file
    check_on: Any  # real examples in the forms that `to_tflite` takes, or None

    @functools.cached_property
    def examples(self) -> dict[str, EncodedExamples]:
        """The inputs that both answer: ids that reach every position, and real examples."""
        config = models.config_of(self.model)
        longest = config.max_positions
        drawn = inputs.draw(config, sorted({min(8, longest), longest}))
        examples = {"random ids": inputs.joined(inputs.probes_of(config, longest), drawn)}
        if self.check_on is not None:
            real = inputs.collect(self.check_on)
            inputs.check_examples(real, config, [longest])
            chosen = inputs.probes(real, [longest], _NUM_ANSWERED)
            examples["check_on"] = real.select(chosen)
        return examples


def _signature(written: WrittenModel) -> list[str]:
    """Compares the names, types and order of inputs and the shape of the output."""
    expected = [(name, "int32", 2) for name in written.model.input_names]
    received = [(each.name, str(each.dtype), len(each.shape)) for each in written.loaded.inputs]
    faults = []
    if sorted(expected) != sorted(received):
        faults.append(errors.explain("inputs", expected, received))
    widths = [(each.shape[-1], str(each.dtype)) for each in written.loaded.outputs]
    width = [(written.model.output.shape[-1], "float32")]
    return faults if widths == width else [*faults, errors.explain("outputs", width, widths)]


def _variables(written: WrittenModel) -> list[str]:
    """Compares every number of every layer."""
    expected = {layer.name: layer.get_weights() for layer in written.model.layers if layer.weights}
    received = {layer.name: layer.get_weights() for layer in written.loaded.layers if layer.weights}
    if expected.keys() != received.keys():
        names = expected.keys() ^ received.keys()
        return [errors.explain("layers with weights", "those of the model", sorted(names))]
    faults = []
    for name, values in expected.items():
        others = received[name]
        shapes = [value.shape for value in values]
        if shapes != [value.shape for value in others]:
            faults.append(errors.explain(name, shapes, [value.shape for value in others]))
            continue
        for number, (value, other) in enumerate(zip(values, others, strict=True)):
            wrong = int(np.sum(np.asarray(value, np.float32) != other))
            if wrong:
                what = f"{name}, tensor {number}"
                faults.append(errors.explain(what, "the model's numbers", f"{wrong} others"))
    return faults


def _settings(written: WrittenModel) -> list[str]:
    """Compares what no answer may show: the eps of a normalisation, a rate, an activation."""
    faults = []
    layers = {layer.name: layer for layer in written.loaded.layers}
    for layer in written.model.layers:
        if layer.name not in layers:  # operations without a name of their own
            continue
        other = layers[layer.name]
        expected, received = layer.get_config(), other.get_config()
        for name in _SETTINGS & expected.keys() & received.keys():
            if expected[name] != received[name]:
                faults.append(
                    errors.explain(f"{layer.name}, {name}", expected[name], received[name])
                )
        if isinstance(layer, keras.layers.Dense):
            names = layer.activation.__name__, other.activation.__name__
            if names[0] != names[1]:
                faults.append(errors.explain(f"{layer.name}, activation", *names))
    return faults


def _answers(written: WrittenModel) -> list[str]:
    """Compares the answers to random ids and to real examples, a row for each token or text."""
    faults = []
    for what, examples in written.examples.items():
        batches = batching.Batches(
            dataclasses.replace(examples, labels=None, weights=None),
            batch_size=32,
            shuffle=False,
            max_length=int(examples.lengths.max()),
        )
        parts = []
        for indices in batches.plan(0):
            features = batches.batch(indices)
            assert isinstance(features, dict)
            named = {key: features[key] for key in written.model.input_names}
            of_model = np.asarray(written.model(named, training=False), np.float32)
            answer = written.loaded(named, training=False)
            of_file = np.asarray(answer)
            if of_file.shape != of_model.shape:
                return [errors.explain(f"answers to {what}", of_model.shape, of_file.shape)]
            flat = (-1, of_model.shape[-1])
            parts.append((of_model.reshape(flat), of_file.reshape(flat)))
        of_model, of_file = (np.concatenate(rows) for rows in zip(*parts, strict=True))
        measured = agreement.compare(of_model, of_file)
        where = f"answers to {what}, "
        faults += agreement.violations(measured, agreement.FLOAT32, where=where)
    return faults


CHECKS = (
    checks.Check("signature", _signature),
    checks.Check("variables", _variables),
    checks.Check("settings", _settings),
    checks.Check("answers", _answers, ("signature",)),
)
