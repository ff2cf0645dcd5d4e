"""`CHECKS` that a written Hugging Face folder is the model, before it replaces anything.

The folder is read back as its users read it: by our loader, by the library `tokenizers`, and by
`transformers`, whose networks are run where PyTorch is installed.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.io import checks, processes, reading
from tfdistill.tasks.encoded import EncodedExamples, pad
from tfdistill.tflite import agreement
from tfdistill.tokenization import reading as tokenizer_reading
from tfdistill.tokenization.tokenizer import Tokenizer
from tfdistill.tokenization.wordpiece import vocabulary_fault
from tfdistill.weights import checkpoint, factorised, filling, keys, load

# What splits texts in more than one way: case, accents, ideographs, controls, long words.
_PROBES = (
    "",
    "Who was the First?",
    "Café naïve ΣΑΣ straße",
    "我爱東京 a",
    "a\u200bb\u0000c\u00a0d",
    "x" * 120,
)
_NUM_ANSWERED = 32  # texts that the networks answer; the ids of all texts are compared
# Rates of dropout change no answer, and a head without a pooler has none to read back.
_OF_TRAINING = {"dropout", "attention_dropout", "classifier_dropout", "pooler"}
# A product of the two factors of a word table is split again by a singular value decomposition.
_FACTORISED = 1e-5
# The outputs of a class of transformers that are our logits, by the kind of the head.
_OUTPUTS_THERE = {
    "sequence": ["logits"],
    "token": ["logits"],
    "span": ["start_logits", "end_logits"],
}
_PROGRAM = pathlib.Path(__file__).with_name("in_transformers.py")
_IN_TRANSFORMERS = """
import runpy, sys
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@dataclasses.dataclass(frozen=True)
class WrittenFolder:
    """A folder, the model that it must be, and what follows from the two."""

    folder: pathlib.Path
    model: keras.Model
    labels: tuple[str, ...] | None  # in the order of the logits
    tokenizer: Tokenizer | None  # that was put in
    texts: Sequence[str]  # of the task, besides `_PROBES`
    max_length: int  # of an example, as the folder says
    # Whether `transformers` shall answer them, where PyTorch is installed.
    for_transformers: bool = False

    @functools.cached_property
    def head(self) -> models.Head:
        """The head of the model."""
        return models.read_head(self.model)

    @functools.cached_property
    def config(self) -> models.EncoderConfig:
        """The architecture of the model."""
        return models.config_of(self.model)  # pyright: ignore[reportReturnType]

    @functools.cached_property
    def written_config(self) -> dict[str, Any]:
        """The content of config.json."""
        return reading.read_json_object(self.folder / checkpoint.CONFIG_FILE)

    @functools.cached_property
    def loaded(self) -> load.LoadedModel:
        """The model that our loader makes of the folder."""
        return load.load_model(self.folder, self.head.kind, next_sentence=self.head.next_sentence)

    @functools.cached_property
    def all_texts(self) -> list[str]:
        """The probes and the texts."""
        return [*_PROBES, *self.texts]

    @functools.cached_property
    def encoded(self) -> EncodedExamples | None:
        """The texts as our tokenizer splits them, cut at their end; None without a vocabulary."""
        if self.tokenizer is None:
            return None
        tokenizer = self.tokenizer.replace(truncation="end", prompt="")
        return tokenizer.encode_batch(self.all_texts, max_length=self.max_length)

    @functools.cached_property
    def of_texts(self) -> dict[str, np.ndarray] | None:
        """The first texts as features, int32 (n, L) by input; None without a vocabulary."""
        if self.encoded is None:
            return None
        count = min(len(self.encoded), len(_PROBES) + _NUM_ANSWERED)
        return pad(self.encoded, range(count))


def _architecture(written: WrittenFolder) -> list[str]:
    """Compares what config.json says of the network, and the head."""
    expected, received = (
        {n: value for n, value in dataclasses.asdict(config).items() if n not in _OF_TRAINING}
        for config in (written.config, written.loaded.config)
    )
    heads = map(dataclasses.asdict, (written.head, models.read_head(written.loaded.model)))
    return [*_differences("architecture", expected, received), *_differences("head", *heads)]


def _labels(written: WrittenFolder) -> list[str]:
    """Compares the names of the classes in both tables of config.json."""
    if not written.labels or written.head.answers_number:
        return []
    numbered = dict(enumerate(written.labels))
    config = written.written_config
    tables = {
        "config.json id2label": {int(key): name for key, name in config["id2label"].items()},
        "config.json label2id": {number: name for name, number in config["label2id"].items()},
        "labels that our loader reads": dict(enumerate(written.loaded.labels)),
    }
    return [
        errors.explain(what, numbered, received)
        for what, received in tables.items()
        if received != numbered
    ]


def _variables(written: WrittenFolder) -> list[str]:
    """Compares every number of the model with the folder's."""
    expected, received = (
        {each.key: filling.exported(model, each) for each in keys.variables(model)}
        for model in (written.model, written.loaded.model)
    )
    bound = 0.0
    if factorised.is_factorised(written.config):
        expected, received = factorised.merged(expected), factorised.merged(received)
        bound = _FACTORISED
    faults = []
    for key, values in expected.items():
        if key not in received or received[key].shape != values.shape:
            shape = received[key].shape if key in received else "no such tensor"
            faults.append(errors.explain(key, f"shape {values.shape}", shape))
            continue
        error = np.abs(values - received[key])
        changed = ~(error <= bound * max(1.0, float(np.abs(values).max(initial=0))))
        if changed.any():
            place = tuple(int(index) for index in np.argwhere(changed)[0])
            faults.append(
                errors.explain(
                    f"{key}, {int(changed.sum())} of {changed.size} numbers, the first at {place}",
                    float(values[place]),
                    float(received[key][place]),
                )
            )
    return faults


def _tokens(written: WrittenFolder) -> list[str]:
    """Compares the vocabularies and settings of the tokenizer, and the ids that it gives."""
    if written.tokenizer is None or written.encoded is None:
        return []
    folder, expected = written.folder, written.tokenizer
    again = tokenizer_reading.read_tokenizer(folder / tokenizer_reading.JSON_FILE)
    stated = {
        "model_max_length": written.max_length,
        **expected.hf_settings(written.config.family),
    }
    listed = tokenizer_reading.read_vocab(folder / expected.file_name)
    named = ((expected.file_name, listed), (tokenizer_reading.JSON_FILE, again.vocab))
    faults = [vocabulary_fault(name, expected.vocab, tokens) for name, tokens in named]
    faults = [
        *filter(None, faults),
        *_differences(
            tokenizer_reading.JSON_FILE,
            {"lower_case": expected.lower_case},
            {"lower_case": again.lower_case},
        ),
        *_differences("our loader", _settings(expected), _settings(written.loaded.tokenizer)),
        *_differences(
            tokenizer_reading.CONFIG_FILE,
            stated,
            reading.read_json_object(folder / tokenizer_reading.CONFIG_FILE),
        ),
    ]
    if faults:
        return faults
    rows = [again.fast.encode(text, max_length=written.max_length) for text in written.all_texts]
    return _other_ids(written, rows, "the library tokenizers")


def _settings(tokenizer: Tokenizer | None) -> dict[str, Any]:
    return {name: getattr(tokenizer, name, None) for name in ("lower_case", "truncation", "prompt")}


def _tokens_of_transformers(written: WrittenFolder) -> list[str]:
    """Loads the folder's configuration and tokenizer with `transformers`, and compares the ids."""
    import transformers

    try:
        transformers.AutoConfig.from_pretrained(written.folder)
        if written.tokenizer is None or written.encoded is None:
            return []
        tokenizer = transformers.AutoTokenizer.from_pretrained(written.folder)
    except (OSError, ValueError, KeyError) as error:
        fault = " ".join(str(error).split())[:300]
        return [errors.explain("folder", "one that transformers can read", fault)]
    # Where a special token that somebody typed is ordinary text, it is so on phones, too.
    rows = tokenizer(
        written.all_texts,
        truncation=True,
        max_length=tokenizer.model_max_length,
        split_special_tokens=not written.tokenizer.types_special,
    )["input_ids"]
    return _other_ids(written, rows, f"transformers {transformers.__version__}")


def _answers_of_transformers(written: WrittenFolder) -> list[str]:
    """Runs the network of `transformers` on texts, in a process of its own."""
    names = _OUTPUTS_THERE.get(written.head.kind)
    if not written.for_transformers or names is None or written.of_texts is None:
        return []
    import transformers

    if not transformers.is_torch_available():
        return []
    features = written.of_texts
    mask = features["attention_mask"] == 1
    expected = run(written.model, features)
    texts = written.all_texts[: len(mask)]
    job = {"folder": str(written.folder), "texts": texts, "outputs": names}
    child = subprocess.run(
        # Not by its path: modules beside it have names of packages.
        [sys.executable, "-c", _IN_TRANSFORMERS, str(_PROGRAM)],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        env={**processes.child_environment(), "USE_TF": "0", "USE_TORCH": "1"},
    )
    what = f"answers of transformers {transformers.__version__} to texts"
    if child.returncode:
        last = " ".join(child.stderr.split()[-40:])
        return [errors.explain(what, "a network that runs", last)]
    outputs = json.loads(child.stdout.splitlines()[-1])
    received = np.array(outputs["logits"] if names == ["logits"] else [outputs[n] for n in names])
    if names != ["logits"]:
        received = np.moveaxis(received, 0, -1)  # (2, B, L) -> (B, L, 2)
    if received.shape != expected.shape:
        return [errors.explain(what, f"the shape {expected.shape}", received.shape)]
    if received.ndim == 3:  # (B, L, outputs): padding has no answer
        expected, received = expected[mask], received[mask]
    rows, other = (np.reshape(each, (-1, each.shape[-1])) for each in (expected, received))
    measured = agreement.compare(rows, other, decisions=(None, None))
    return agreement.violations(measured, agreement.FLOAT32, where=f"{what}: ")


CHECKS = (
    checks.Check("architecture", _architecture),
    checks.Check("labels", _labels),
    checks.Check("variables", _variables, ("architecture",)),
    checks.Check("tokens", _tokens),
    checks.Check("tokens of transformers", _tokens_of_transformers, ("tokens",)),
    checks.Check(
        "answers of transformers",
        _answers_of_transformers,
        ("architecture", "variables", "tokens", "tokens of transformers"),
    ),
)


def run(model: keras.Model, features: Mapping[str, np.ndarray]) -> np.ndarray:
    """Runs a classifier on features by name; returns its logits."""
    inputs = {name: features[name] for name in model.input_names}
    return np.asarray(model(inputs, training=False), np.float32)


def _differences(what: str, expected: Mapping[str, Any], received: Mapping[str, Any]) -> list[str]:
    return [
        errors.explain(f"{what}, {name}", value, received.get(name))
        for name, value in expected.items()
        if received.get(name) != value
    ]


def _other_ids(written: WrittenFolder, rows: Sequence[Sequence[int]], whose: str) -> list[str]:
    """Compares the ids that another tokenizer gives with ours; tells the first difference."""
    assert written.encoded is not None
    for index, text in enumerate(written.all_texts):
        ids = written.encoded.row(index).tolist()
        if ids != list(rows[index]):
            what = f"tokens of {errors.shortened(text)!r}"
            return [errors.explain(what, f"the ids {ids[:12]} from {whose}", rows[index][:12])]
    return []
