"""The environments of other runtimes: .runtimes/NAME, made at the first run from NAME.txt."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import record

from tfdistill import errors

_HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass(frozen=True)
class Environment:
    """Packages, the script that writes models with them, and name -> runtime, file."""

    name: str
    script: str
    contestants: dict[str, tuple[str, str]]

    @property
    def python(self) -> pathlib.Path:
        """The interpreter."""
        return record.ROOT / ".runtimes" / self.name / "bin" / "python"

    @property
    def requirements(self) -> pathlib.Path:
        """The list of packages."""
        return _HERE / f"{self.name}.txt"

    @property
    def installed(self) -> pathlib.Path:
        """The copy of the list that a finished installation leaves."""
        return self.python.parents[1] / self.requirements.name

    def is_installed(self) -> bool:
        """Tells whether the packages are there, at the versions of the list."""
        listed = self.requirements.read_text()
        return self.installed.is_file() and self.installed.read_text() == listed

    def prepare(self) -> None:
        """Installs the packages, unless they are there."""
        if self.is_installed():
            return
        place = self.installed.parent
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        command = [str(self.python), "-m", "pip", "install", "-q", "-r", str(self.requirements)]
        if subprocess.run(command).returncode:
            raise errors.TfdistillError(
                errors.explain(
                    "packages of the peers",
                    f"what {_HERE.name}/{self.requirements.name} lists",
                    "pip's error above",
                    "They are only needed for this benchmark; the others run without.",
                )
            )
        self.installed.write_text(self.requirements.read_text())

    def versions(self) -> dict[str, str]:
        """Returns the versions of the listed packages and of NumPy."""
        listed = subprocess.run(
            [str(self.python), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"],
            capture_output=True,
            text=True,
            check=True,
        )
        lines = self.requirements.read_text().splitlines()
        wanted = {line.split("==")[0].lower() for line in lines} | {"numpy"}
        return {
            row["name"]: row["version"]
            for row in json.loads(listed.stdout)
            if row["name"].lower() in wanted
        }

    def write_models(self, weights_file: pathlib.Path) -> dict[str, list[str]]:
        """Writes the models next to the weights; returns the command that runs each."""
        folder = weights_file.parent
        command = [str(self.python), str(_HERE / self.script), str(weights_file), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise errors.TfdistillError(
                errors.explain("models of the peers", "them to be written", done.stderr[-500:])
            )
        # A TFLite file runs where the student's does.
        pythons = {"litert": sys.executable}
        return {
            name: [pythons.get(runtime, str(self.python)), runtime, str(folder / file)]
            for name, (runtime, file) in self.contestants.items()
        }


@contextlib.contextmanager
def asking(name: str, command: list[str], **variables: str) -> Iterator[Callable[[Any], Any]]:
    """Starts a process that answers lines of JSON, and yields what asks it; ends it afterwards."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", **variables},
        text=True,
    )

    def ask(question: Any) -> Any:
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise errors.TfdistillError(errors.explain(name, "an answer", "the end of its process"))
        return json.loads(line)

    try:
        yield ask
    finally:
        process.communicate()  # closes its stdin, which ends it


PEERS = Environment(
    "peers",
    "peer_models.py",
    {
        "onnxruntime int8": ("onnxruntime", "onnxruntime_int8.onnx"),
        "onnxruntime float32": ("onnxruntime", "onnxruntime_float32.onnx"),
        "openvino": ("openvino", "openvino.xml"),
        "openvino int8 (nncf)": ("openvino", "openvino_int8.xml"),
        "mnn int8": ("mnn", "int8.mnn"),
    },
)
TORCH = Environment(
    "peers_torch",
    "peer_torch_models.py",
    {
        "executorch int8": ("executorch", "executorch.pte"),
        "litert-torch int8": ("litert", "litert_torch.tflite"),
    },
)
