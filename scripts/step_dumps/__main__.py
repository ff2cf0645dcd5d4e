"""Dumps every step of every kind of stage on toy models, or compares two such dumps."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import stage_kinds  # noqa: E402

from tfdistill import training  # noqa: E402
from tfdistill.data.streaming import TrainingBatches  # noqa: E402

STEPS = 4


class Repeated(TrainingBatches):
    """The same batches in every epoch, as `training.fit` takes them."""

    def __init__(self, kind: str):
        self._batches = [stage_kinds.batch_of(kind, step) for step in range(STEPS)]

    num_examples = STEPS * stage_kinds.EXAMPLES
    steps_per_epoch = STEPS

    def dataset(self, epochs: int = 1, start_step: int = 0) -> tf.data.Dataset:
        """The batches of so many epochs, from a step on."""
        return _dataset((self._batches * epochs)[start_step:])


def _dataset(batches: list[Any]) -> tf.data.Dataset:
    specs = tf.nest.map_structure(
        lambda tensor: tf.TensorSpec([None] * tensor.shape.rank, tensor.dtype), batches[0]
    )
    data = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=specs)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return data.with_options(options)


class Recorder(keras.callbacks.Callback):
    """Notes the logs and the hash of every variable after each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[dict[str, Any]] = []

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        """Notes the step."""
        values = {name: float(value).hex() for name, value in (logs or {}).items()}
        self.steps.append({"logs": values, "hashes": _hashes(self.model)})


def _hashes(distiller: Any) -> dict[str, str]:
    state = distiller.optimizer.variables
    state = state() if callable(state) else state
    groups = {
        "weights": distiller.trainable_variables,
        "optimizer": state,  # with beta_1 = 0 the first moments are the gradients
        "accumulated": distiller.gathered.trainable_variables or distiller.gathered.variables,
    }
    return {
        name: hashlib.sha256(
            b"".join(np.ascontiguousarray(variable.numpy()).tobytes() for variable in variables)
        ).hexdigest()[:16]
        for name, variables in groups.items()
    }


def _compiled(kind: str, stage: Any, **options: Any) -> Any:
    distiller = stage_kinds.distiller(kind, stage, **options.pop("models", {}))
    random = np.random.default_rng(3)
    for projection in getattr(distiller, "projections", ()):
        shapes = [array.shape for array in projection.get_weights()]
        projection.set_weights([random.normal(0, 0.3, shape) for shape in shapes])
    distiller.compile(
        keras.optimizers.Adam(0.01, beta_1=0.0), loss_weights=stage.loss_weights or None, **options
    )
    return distiller


def _recorded(distiller: Any, kind: str) -> dict[str, Any]:
    recorder = Recorder()
    batches = Repeated(kind)
    history = distiller.fit(batches.dataset(), verbose=0, callbacks=[recorder])
    evaluated = distiller.evaluate(batches.dataset(), verbose=0, return_dict=True)
    return {
        "steps": recorder.steps,
        "logged": list(history.history),
        "evaluated": {name: float(value).hex() for name, value in evaluated.items()},
        "variables": [
            f"{variable.name} {tuple(variable.shape)} {variable.dtype.name}"
            for variable in distiller.trainable_variables
        ],
        "traces": distiller.train_tf_function.experimental_get_tracing_count(),
    }


def _plain(kind: str, stage: Any) -> dict[str, Any]:
    return _recorded(_compiled(kind, stage), kind)


def _accumulation(kind: str, stage: Any) -> dict[str, Any]:
    return _recorded(_compiled(kind, stage, gradient_accumulation=2), kind)


def _two_replicas(kind: str, stage: Any) -> dict[str, Any]:
    one_device = tf.distribute.ReductionToOneDevice()  # collective keys would outlive a session
    replicas = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=one_device)
    with replicas.scope():
        distiller = _compiled(kind, stage)
    return _recorded(distiller, kind)


def _bfloat16(kind: str, stage: Any) -> dict[str, Any]:
    models = {"teacher_policy": "bfloat16", "student_policy": "mixed_bfloat16"}
    return _recorded(_compiled(kind, stage, models=models), kind)


def _resume(kind: str, stage: Any) -> dict[str, Any]:
    """Two epochs in one go, and the same with the second after a restart."""
    with tempfile.TemporaryDirectory() as folder:
        results = {}
        for name, lengths in (("whole", (2,)), ("resumed", (1, 2))):
            for epochs in lengths:
                distiller = _compiled(kind, stage)
                with contextlib.redirect_stderr(io.StringIO()):
                    training.fit(
                        distiller, Repeated(kind), epochs=epochs, folder=f"{folder}/{name}"
                    )
            results[name] = _hashes(distiller)
            rows = pathlib.Path(folder, name, "history.csv").read_text().splitlines()
            columns = rows[0].split(",")
            timed = {i for i, column in enumerate(columns) if "second" in column}
            results[f"{name}_history"] = [
                [cell for index, cell in enumerate(row.split(",")) if index not in timed]
                for row in rows
            ]
        return results


WAYS: dict[str, Callable[[str, Any], dict[str, Any]]] = {
    "plain": _plain,
    "accumulation": _accumulation,
    "two replicas": _two_replicas,
    "bfloat16": _bfloat16,
    "resume": _resume,
}


def dumped(kinds: list[str]) -> dict[str, Any]:
    """The dump: case -> way -> what was computed."""
    results: dict[str, Any] = {}
    for name, (kind, stage) in stage_kinds.CASES.items():
        if kinds and kind not in kinds:
            continue
        results[name] = {}
        for way, train in WAYS.items():
            keras.backend.clear_session()
            keras.utils.set_random_seed(7)
            results[name][way] = train(kind, stage())
            print(name, way, file=sys.stderr, flush=True)
    return results


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """The places in which two dumps differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            if key in before and key in after:
                yield from differences(before[key], after[key], f"{where}/{key}")
            else:
                yield f"{where}/{key}: only {'before' if key in before else 'after'}"
        if list(before) != list(after) and set(before) == set(after):
            yield f"{where}: {list(before)} before, {list(after)} after"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, f"{where}/{index}")
    elif before != after:
        yield f"{where}: {before} before, {after} after"


def main() -> int:
    """Writes the dump, and compares it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--kinds", nargs="*", default=[])
    parser.add_argument("--against", type=pathlib.Path)
    arguments = parser.parse_args()
    cpus = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    after = dumped(arguments.kinds)
    arguments.file.write_text(json.dumps(after, indent=1), encoding="utf-8")
    if arguments.against is None:
        return 0
    before = json.loads(arguments.against.read_text(encoding="utf-8"))
    if arguments.kinds:
        before = {name: before[name] for name in after if name in before}
    lines = list(differences(before, after))
    print("\n".join(lines[:50]) if lines else f"{len(after)} cases are equal bit for bit")
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
