"""Plants each fault in each output beside the TFLite file, and counts what is written."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import tempfile
from typing import Any
from unittest import mock

import networks
import numpy as np
import planted_outputs
from campaign import Outcome, without_folders
from networks import Network

import export
from export.checking.outputs import model_logits
from tfdistill import errors, weights
from tfdistill.data.batches import encode_examples
from tfdistill.io import checks
from tfdistill.tasks import Examples, TaskSpec
from tfdistill.tokenization.reading import read_tokenizer

TARGETS = tuple(planted_outputs.FAULTS)
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_TASK = TaskSpec("toy", "text", "label", labels=planted_outputs.LABELS)
_NUM_TEXTS = 48


class OutputCampaign:
    """Outputs of one network, a BERT with three classes.

    Args:
      network: The network.
      folder: A folder for its files.
      seed: Seed of the texts.
    """

    def __init__(self, network: Network, folder: pathlib.Path, seed: int = 0) -> None:
        self._model, self._folder, self._seed = network.model, folder, seed
        self.name = network.name
        self._folder.mkdir(parents=True, exist_ok=True)

    def attempt(self, fault: str, target: str) -> Outcome:
        """Writes one output with a fault; "" is none."""
        failed: dict[str, list[str]] = {}
        verdicts, exported = checks.verdicts, self._exported

        def collect(listed: Any, evidence: Any) -> dict[str, list[str]]:
            faults = verdicts(listed, evidence)
            failed.update(faults)
            return faults

        planted = planted_outputs.FAULTS[target][fault].planted() if fault else None
        message = ""
        with (
            tempfile.TemporaryDirectory() as place,
            mock.patch.object(checks, "verdicts", collect),
            planted or contextlib.nullcontext(),
        ):
            try:
                self._write(target, pathlib.Path(place), exported)
            except errors.TfdistillError as error:
                lines = without_folders(str(error)).split("\n  - ")
                message = lines[min(1, len(lines) - 1)][:300]
        names = tuple(f"{target}: {name}" for name in failed)
        place = "output" if fault else ""
        return Outcome(self.name, target, fault, place, not message, message, names, None, None)

    def _write(self, target: str, place: pathlib.Path, exported: pathlib.Path) -> None:
        vocabulary: Any = {"tokenizer": self._vocab_file}
        if target == "hf":
            texts = self._texts.texts
            labels = planted_outputs.LABELS
            weights.save_hf(self._model, place / "hf", labels=labels, texts=texts, **vocabulary)
        elif target == "saved_model":
            described = {"task": _TASK, "max_length": max(networks.LENGTHS)}
            export.to_saved_model(
                self._model, place / "saved", check_on=self._texts, **described, **vocabulary
            )
        elif target == "keras":
            export.to_keras(self._model, place / "student.keras")
        elif target == "probabilities":
            self._export(place / "model.tflite", softmax=True)
        elif target == "mediapipe":
            export.to_mediapipe(exported, place / "mediapipe.tflite")
        else:
            export.to_android(exported, place / "assets", texts=self._texts)

    @functools.cached_property
    def _vocab_file(self) -> pathlib.Path:
        words = [f"w{number}" for number in range(networks.VOCAB_SIZE - len(_SPECIAL))]
        file = self._folder / "vocab.txt"
        file.write_text("\n".join([*_SPECIAL, *words]) + "\n")
        return file

    @functools.cached_property
    def _texts(self) -> Examples:
        """Texts of known words; the answers of the model are the labels, but for an eighth."""
        random = np.random.default_rng(self._seed)
        most = networks.KNOWN_LENGTH - 2
        texts = [
            " ".join(f"w{word}" for word in random.integers(0, networks.KNOWN_IDS, size))
            for size in random.integers(1, most + 1, _NUM_TEXTS)
        ]
        rows = read_tokenizer(self._vocab_file).encode_batch(texts, None, max(networks.LENGTHS))
        labels = model_logits(self._model, rows).argmax(axis=1).astype(np.int32)
        labels[::8] = (labels[::8] + 1) % len(planted_outputs.LABELS)  # which tells a temperature
        return Examples(_TASK, texts, None, labels)

    @functools.cached_property
    def _exported(self) -> pathlib.Path:
        """The TFLite file that the copies for MediaPipe and Android are made of."""
        file = self._folder / "export" / "model.tflite"
        self._export(file, softmax=False)
        return file.parent

    def _export(self, file: pathlib.Path, *, softmax: bool) -> None:
        tokenizer = read_tokenizer(self._vocab_file)
        export.to_tflite(
            self._model,
            file,
            lengths=networks.LENGTHS,
            softmax=softmax,
            check_on=encode_examples(self._texts, tokenizer, max(networks.LENGTHS)),
            texts=self._texts,
            task=_TASK,
            tokenizer=self._vocab_file,
            allow_weak=True,  # some steps of training may teach it nothing of these labels
        )
