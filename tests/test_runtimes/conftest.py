"""The foreign runtimes that scripts/runtimes sets up, and files for them to run."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
RUNTIMES = ROOT / ".runtimes"
HERE = pathlib.Path(__file__).parent
LENGTHS = (16, 32)
LABELS = ("good", "bad", "neither")


def _lacking(what: str) -> None:
    """Skips the test, or fails it where everything has to be there."""
    if os.environ.get("CI"):
        pytest.fail(f"no {what} on this machine: run scripts/runtimes")
    pytest.skip(f"no {what} on this machine: scripts/runtimes sets it up")


def _need(place: str) -> pathlib.Path:
    path = RUNTIMES / place
    if not path.exists():
        _lacking(place)
    return path


@pytest.fixture(scope="session")
def need_runtime() -> Callable[[str], pathlib.Path]:
    """Finds a file of a runtime; where there is none the test is skipped, on CI it fails."""
    return _need


def _run(command: Sequence[Any], job: Any, **variables: str) -> Any:
    done = subprocess.run(
        [str(part) for part in command],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def mediapipe() -> Callable[..., list[Any]]:
    """MediaPipe for Python: file and texts -> label: score, or the vector, of each text."""
    python = _need("mediapipe/bin/python")

    def run(model: pathlib.Path, texts: Sequence[str], embed: bool = False) -> list[Any]:
        job = {"model": str(model), "texts": list(texts), "embed": embed}
        return _run([python, HERE / "in_mediapipe.py"], job, PYTHONPATH="")

    return run


@pytest.fixture(scope="session")
def browser() -> Callable[..., list[dict[str, Any]]]:
    """A job for page.mjs in headless Chromium: file and job -> answers."""
    packages = _need("web/node_modules")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        _lacking("chromium")
    spec = importlib.util.spec_from_file_location("in_browser", HERE / "in_browser.py")
    in_browser = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(in_browser)

    def run(model: pathlib.Path, **job: Any) -> list[dict[str, Any]]:
        return in_browser.ask(chromium, packages, job, {"model.tflite": model})["answers"]

    return run


@pytest.fixture(scope="session")
def arm64() -> Callable[..., list[dict[str, list[float]]]]:
    """LiteRT for arm64: file, examples and processor -> outputs of each example."""
    home = _need("arm64/tfdistill-stamp").parent
    (python,) = (home / "root" / "usr" / "bin").glob("python3.[0-9]*")

    def run(model: pathlib.Path, examples: Any, processor: str) -> list[dict[str, list[float]]]:
        machine = (home / "qemu-aarch64-static", "-cpu", processor, "-L", home / "root")
        inside = ("-E", f"PYTHONPATH={home / 'site'}", python, HERE / "in_litert.py")
        said = _run([*machine, *inside], {"model": str(model), "examples": examples})
        assert said["machine"] == "aarch64"
        return said["answers"]

    return run


@dataclasses.dataclass(frozen=True)
class Student:
    """A toy classifier with its vocabulary, as an export wants it."""

    model: Any
    vocab_file: pathlib.Path
    texts: list[str]

    def encode(self, max_length: int) -> Any:
        """Returns the texts as ids."""
        from tfdistill.data.batches import encode_examples
        from tfdistill.tasks import Examples
        from tfdistill.tokenization.reading import read_tokenizer

        examples = Examples(self.task, self.texts, None, None)
        return encode_examples(examples, read_tokenizer(self.vocab_file), max_length)

    @property
    def task(self) -> Any:
        """The task that the student answers."""
        from tfdistill.tasks import TaskSpec

        return TaskSpec("toy", "text", "label", labels=LABELS)

    def export(self, path: pathlib.Path, **options: Any) -> pathlib.Path:
        """Exports the student; returns the path."""
        import export

        encoded = self.encode(max(options.setdefault("lengths", LENGTHS)))
        checking = {"check_on": encoded, "task": self.task, "tokenizer": self.vocab_file}
        export.to_tflite(self.model, path, **checking, **options)
        return path


def _student(family: str, vocab_file: pathlib.Path, texts: list[str]) -> Student:
    from export.checking.outputs import model_logits
    from tfdistill import models

    config = models.EncoderConfig(
        family=family,
        num_layers=2,
        hidden_size=32,
        num_heads=4,
        intermediate_size=64,
        vocab_size=len(vocab_file.read_text("utf-8").splitlines()),
        max_positions=64,
        **({"type_vocab_size": 0, "pooler": False} if family == "distilbert" else {}),
    )
    model = models.build_classifier(config, len(LABELS))
    random = np.random.default_rng(1)
    for weight in model.weights:  # each of ordinary size: every layer matters for the answer
        noise = random.standard_normal(weight.shape)
        if weight.shape.rank == 1:
            weight.assign(weight + 0.1 * noise)
        elif "embeddings" in weight.name:
            weight.assign(noise)
        else:
            weight.assign(noise / np.sqrt(weight.shape[0]))
    student = Student(model, vocab_file, texts)
    logits = model_logits(model, student.encode(32))
    kernel, bias = model.get_layer("classifier").weights
    size = 2.0 / logits.std(axis=0)  # every class is some text's
    kernel.assign(kernel * size)
    bias.assign((bias - logits.mean(axis=0)) * size)
    return student


@pytest.fixture(scope="session")
def make_student() -> Callable[..., Student]:
    """Makes a student: family, vocabulary, texts to check its file on."""
    return _student


@pytest.fixture(scope="session")
def sentences(toy_vocab_file: pathlib.Path) -> list[str]:
    """200 texts of the toy vocabulary, with capitals, punctuation, unknown words; some too long."""
    random = np.random.default_rng(5)
    words = [w for w in toy_vocab_file.read_text("utf-8").split("\n") if w.isalpha()]
    # No letter beyond ASCII: MediaPipe strips no accents.
    words += ["Films", "GOOD", "playing", "unheardof", "it's", "sets,", "42", "(alarm)", "—"]
    counts = [*random.integers(1, 12, 190), *random.integers(30, 60, 10)]
    return [" ".join(random.choice(words, count)) for count in counts]


@pytest.fixture(scope="session")
def toy(sentences: list[str], toy_vocab_file: pathlib.Path) -> Student:
    """The toy student."""
    return _student("tinybert", toy_vocab_file, sentences)


@pytest.fixture(scope="session")
def exports(
    toy: Student, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], pathlib.Path]:
    """The toy's file of two lengths and logits, for each quantization once."""
    done: dict[str, pathlib.Path] = {}

    def get(quantize: str) -> pathlib.Path:
        if quantize not in done:
            path = tmp_path_factory.mktemp(quantize) / "model.tflite"
            done[quantize] = toy.export(path, quantize=quantize)
        return done[quantize]

    return get
