"""Fits on one CPU and on two logical ones; writes what each ended with to results.json.

The arguments are a folder and what to train: labels, words, recipe. A program of its own,
because logical devices must be made before TensorFlow starts. Dropout is off: its masks differ
between one device and two. Shares are uneven everywhere: the lengths of examples differ, and the
last batch of an epoch has one example or is small, so that one of two devices may have none.
"""

import json
import pathlib
import sys
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
import toy_run
import yaml

from tfdistill import cli, config, errors, run, training
from tfdistill.data import synthetic, vocab
from tfdistill.run import inputs
from tfdistill.training import callbacks, pretrain_run, strategies

TWO = 2
STOP = 7  # in the second epoch, with one batch gathered


class Killed(BaseException):
    """Stands for the end of the process."""


class KillAtStop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.model.batches_trained == STOP:
            raise Killed


def toy(devices):
    with strategies.scope(strategies.choose(devices)):
        return toy_run.Run(2, dropout=0.0, num_examples=17)


def ended(fits, folder, result):
    values = {name: value.ravel().tolist() for name, value in fits.state().items()}
    return {"values": values, "history": toy_run.history(folder), "steps": result.steps}


def finetuned(folder):
    """Label training, whole and killed: "12" was begun on one device and ended on two."""
    runs = {"1": toy(1), "2": toy(TWO)}
    results = {}
    for name, fits in runs.items():
        whole = folder / name
        results[name] = ended(fits, whole, fits.fit(whole))
    # As in a new process, where moments do not exist yet when they are restored.
    new = toy(TWO)
    for name, fits in (("22", new), ("21", runs["1"]), ("12", new)):
        where = folder / name
        try:
            runs[name[0]].fit(where, KillAtStop(), checkpoint_seconds=0)
        except Killed:
            results[name] = ended(fits, where, fits.fit(where, checkpoint_seconds=0))
    return results


def pretrained(folder, text, devices):
    """Masked words and next sentences from text, as `tfdistill pretrain` does it."""
    source = pretrain_run.PretrainSource(
        "bert_tiny",
        vocab_file=str(text / "vocab.txt"),
        overrides={
            **{"num_layers": 1, "hidden_size": 16, "num_heads": 2, "intermediate_size": 24},
            **{"max_positions": 32, "dropout": 0.0, "attention_dropout": 0.0},
        },
    )
    config = training.PretrainConfig(
        epochs=1, batch_size=16, learning_rate=0.01, next_sentence=True, held_out=0.1, evaluations=1
    )
    metrics = pretrain_run.run_pretraining(
        source, [text / "corpus.txt"], folder, config, max_length=24, devices=devices
    )
    model = keras.models.load_model(folder / "model" / "model.keras", compile=False)
    weights = {v.name: v.numpy().ravel().tolist() for v in model.weights}
    return {
        "values": weights,
        "history": toy_run.history(folder),
        "steps": metrics["steps"],
        "held_out": metrics["held_out"],
        "devices": metrics["devices"],
    }


def recipe(data):
    """A toy recipe, from a fine-tuned teacher to the file."""
    step = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-3, "epsilon": 1e-3}
    shape = {"num_layers": 1, "hidden_size": 16, "intermediate_size": 32}
    return {
        "name": "toy",
        "data": {"task": "assistant", "dir": str(data), "max_length": 24, "vocab": "train:400"},
        "teacher": {
            **{"source": "preset:bert_tiny", "dropout": 0.0, "finetune": step},
            **{"allow_weak": True, "export": False},
        },
        "student": {"preset": "bert_tiny", "dropout": 0.0, "allow_weak": True, **shape},
        "stages": {
            "intermediate": {"kind": "intermediate", **step},
            "prediction": {"kind": "prediction", **step},
        },
        "variants": {"student": {"stages": ["intermediate", "prediction"]}},
        "baselines": "none",
        "export": {"lengths": [24]},
        "benchmark": {"warmup": 1, "runs": 5, "min_seconds": 0, "repetitions": 1},
    }


def ran(folder, devices):
    """The models of a recipe; "21" has its teacher from two devices and ends on one.

    On two devices `tfdistill run` goes on to the file.
    """
    values = recipe(folder / "data")
    toy_recipe = config.parse_recipe(values)
    out = folder / f"run-{devices}"
    if devices == "2":
        (folder / "toy.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
        arguments = ["run", str(folder / "toy.yaml"), "--out", str(out), "--gpus", devices]
        assert cli.main(arguments) == 0
    else:
        if devices == "21":
            run.finetune(toy_recipe, out, devices=TWO)
        run.distill_variant(toy_recipe, out, devices=1, resume=devices == "21")
    weights = {}
    for where in ("teacher/model", "student"):
        model = inputs.open_source(str(out / where)).model
        weights |= {f"{where} {v.name}": v.numpy().ravel().tolist() for v in model.weights}
    environment = json.loads((out / "environment.json").read_text("utf-8"))
    return {"values": weights, "devices": environment["devices"]}


def refusals(folder):
    """What is refused before any work, by name."""
    quantized = recipe(folder)
    quantized["stages"]["prediction"]["compress"] = {"method": "quantize"}
    uneven = recipe(folder)
    uneven["stages"]["prediction"]["batch_size"] = 15
    uneven["teacher"]["finetune"]["batch_size"] = 1
    attempts = {
        "devices": lambda: strategies.choose(3),
        "none": lambda: strategies.choose(0),
        "batch": lambda: run.run_recipe(config.parse_recipe(uneven), folder, devices=TWO),
        "quantize": lambda: run.distill_variant(
            config.parse_recipe(quantized), folder, devices=TWO
        ),
    }
    messages = {}
    for name, attempt in attempts.items():
        try:
            attempt()
        except errors.ConfigError as error:
            messages[name] = str(error)
    return messages


def shares():
    """The rows that each of two devices gets of batches of 5, 4 and 1."""
    two = strategies.choose(TWO)
    assert two is not None
    rows = [np.arange(start, start + count) for start, count in ((0, 5), (10, 4), (20, 1))]
    data = tf.data.Dataset.from_generator(
        lambda: ({"x": x} for x in rows), output_signature={"x": tf.TensorSpec((None,), tf.int64)}
    )
    rows_of_devices = []
    for batch in strategies.share_out(data, two):
        rows_of_devices.append(
            [part.numpy().tolist() for part in two.experimental_local_results(batch["x"])]
        )
    return rows_of_devices


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    callbacks.REPLICAS_EVERY = 1
    cpus = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    parts = sys.argv[2:]
    results: dict[str, Any] = {"chosen": strategies.choose() is None}
    if "labels" in parts:
        results |= {"refusals": refusals(folder / "refused"), "shares": shares()}
        results["labels"] = finetuned(folder / "labels")
    if "words" in parts:
        written = synthetic.generate_corpus(24, seed=1)
        (folder / "corpus.txt").write_text(written, encoding="utf-8")
        vocab.write_vocab(vocab.train_vocab([written], 160), folder / "vocab.txt")
        results["words"] = {
            n: pretrained(folder / f"words-{n}", folder, int(n)) for n in ("1", "2")
        }
    if "recipe" in parts:
        synthetic.write_task(
            folder / "data", num_train=101, num_dev=40, num_test=10, num_documents=40
        )
        results["recipe"] = {n: ran(folder, n) for n in ("1", "2", "21")}
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main()
