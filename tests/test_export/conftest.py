"""Toy classifiers and their exports, each converted once for all workers."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import export
from tfdistill import manifest

LENGTHS = (8, 16)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCAB_SIZE = 200


def _lively(model, seed=0):
    """Gives every layer weights of ordinary size, so that each one matters for the answer."""
    random = np.random.default_rng(seed)
    for layer in model.layers:
        new = []
        for weight in layer.get_weights():
            noise = random.standard_normal(weight.shape)
            if weight.ndim == 1:  # biases around 0, LayerNorm's scales around 1
                new.append(weight + 0.1 * noise)
            elif "embeddings" in layer.name:
                new.append(noise)
            else:
                size = 4.0 if layer.name == "classifier" else 1.0
                new.append(size * noise / np.sqrt(weight.shape[0]))
        layer.set_weights(new)
    return model


@dataclasses.dataclass(frozen=True)
class Toy:
    """A three-class classifier of pairs, with everything that an export may want to know."""

    model: Any
    config: Any
    task: Any
    vocab_file: pathlib.Path
    texts: Any
    encoded: Any
    lengths: tuple[int, ...] = LENGTHS

    def arguments(self, **changes):
        """Arguments of a complete export."""
        from tfdistill.tokenization import reading

        return {
            "lengths": self.lengths,
            "check_on": self.encoded,
            "texts": self.texts,
            "task": self.task,
            "tokenizer": reading.read_tokenizer(self.vocab_file),
            **changes,
        }

    def export(self, path, **changes):
        """Writes a complete export; returns its manifest."""
        return export.to_tflite(self.model, path, **self.arguments(**changes))

    def measured(self, path):
        """How far a file is from the model."""
        from export.checking.outputs import file_outputs, model_logits
        from tfdistill.tflite import TfliteModel, agreement

        file = TfliteModel(path)
        logits = model_logits(self.model, self.encoded, file.lengths)
        return agreement.compare(logits, file_outputs(file, self.encoded))

    def plan(self, **changes):
        """The plan of a complete export."""
        from export.conversion.prepare import make_plan
        from export.model.request import ExportRequest

        return make_plan(ExportRequest(self.model, "model.tflite", **self.arguments(**changes)))


@dataclasses.dataclass(frozen=True)
class Exported:
    """An exported toy."""

    path: pathlib.Path
    card: manifest.Manifest


@pytest.fixture(scope="session")
def lively():
    return _lively


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """The toy; its labels are its own answers, a tenth of them wrong."""
    from export.checking.outputs import model_logits
    from tfdistill import models
    from tfdistill.data.batches import encode_examples
    from tfdistill.tasks import Examples, TaskSpec
    from tfdistill.tokenization.reading import read_tokenizer

    config = models.EncoderConfig(
        family="tinybert",
        num_layers=2,
        hidden_size=32,
        num_heads=4,
        intermediate_size=64,
        vocab_size=VOCAB_SIZE,
        max_positions=40,
    )
    task = TaskSpec("toy", "text", "label", "pair", labels=("no", "yes", "maybe"))
    words = [f"w{i}" for i in range(VOCAB_SIZE - len(SPECIAL))]
    vocab_file = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    vocab_file.write_text("\n".join([*SPECIAL, *words]) + "\n")
    random = np.random.default_rng(1)

    def text(most: int) -> str:
        return " ".join(random.choice(words, random.integers(1, most + 1)))

    texts = [text(7) for _ in range(120)]
    pairs = [text(6) if i % 2 else "" for i in range(120)]
    examples = Examples(task, texts, pairs, None)
    encoded = encode_examples(examples, read_tokenizer(vocab_file), max(LENGTHS))
    model = _lively(models.build_classifier(config, 3))
    labels = model_logits(model, encoded).argmax(axis=1).astype(np.int32)
    labels[::10] = (labels[::10] + 1) % 3
    return Toy(
        model,
        config,
        task,
        vocab_file,
        dataclasses.replace(examples, labels=labels),
        dataclasses.replace(encoded, labels=labels),
    )


@pytest.fixture(scope="session")
def exported(
    toy: Toy, converter_process: Any, made_once: Callable[..., pathlib.Path]
) -> Callable[[str], Exported]:
    """Exports the toy in a quantization, once; float32 through the real converter process."""

    def get(quantize: str) -> Exported:
        def fill(folder: pathlib.Path) -> None:
            with pytest.MonkeyPatch.context() as patch:
                if quantize == "float32" and converter_process is not None:
                    patch.setattr("export.conversion.convert.run_in_child", converter_process)
                path = folder / "model.tflite"
                toy.export(path, quantize=quantize)

        path = made_once(f"toy-{quantize}", fill) / "model.tflite"
        return Exported(path, manifest.read_manifest(path))

    return get


@pytest.fixture(scope="module")
def few_edge_cases() -> Iterator[None]:
    """A few of the edge cases: two thousand are tokenized once, in the test that is about them."""
    from export.targets import token_vectors
    from tfdistill.tokenization import edge_cases

    few = edge_cases.tokenizer_edge_cases()[::80]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_vectors, "tokenizer_edge_cases", lambda: few)
        yield


@pytest.fixture(scope="session")
def zeroed() -> Callable[..., None]:
    """Copies a file with the first constant of some shape set to a value (zero)."""

    def copy(source, target, shape, *, value=0):
        from ai_edge_litert.tools import flatbuffer_utils

        model = flatbuffer_utils.read_model(str(source))
        for graph in model.subgraphs:
            for tensor in graph.tensors:
                buffer = model.buffers[tensor.buffer]
                if tuple(tensor.shape) == shape and buffer.data is not None:
                    kind = flatbuffer_utils.type_to_name(tensor.type).lower()
                    count = int(np.prod(shape))
                    buffer.data = np.full(count, value, kind).view(np.uint8)
                    flatbuffer_utils.write_model(model, str(target))
                    return
        raise AssertionError(f"no constant of shape {shape}")

    return copy


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Puts a shell script in the place of the Python of child processes."""

    def use(text):
        script = tmp_path / "python"
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))

    return use


@pytest.fixture(scope="session")
def packed():
    """Reads the files in the zip archive behind a model, by name; {} where there is none."""

    def read(file):
        if not zipfile.is_zipfile(file):
            return {}
        with zipfile.ZipFile(file) as archive:
            # MediaPipe maps them where they lie.
            assert {part.compress_type for part in archive.infolist()} == {zipfile.ZIP_STORED}
            return {name: archive.read(name) for name in archive.namelist()}

    return read
