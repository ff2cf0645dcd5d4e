"""A teacher's answers over a training set, computed once: in blocks, here or anywhere."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
from collections.abc import Callable, Sequence

import numpy as np
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.data import parallel
from tfdistill.data.batches import Batches
from tfdistill.io import arrays, files, storage
from tfdistill.tasks.encoded import EncodedExamples

_log = logging.getLogger(__name__)

BLOCK = 8192  # examples of a unit of work
_BATCH = 64
_LOGITS = "logits"
_SEEN = ("ids", "offsets", "types", "pad_id")  # what a teacher sees of examples

Load = Callable[[], keras.Model]
Predict = Callable[[Batches], np.ndarray]


@dataclasses.dataclass(frozen=True)
class _Answers:
    """Answers blocks of examples; each comes from a file and goes into one."""

    load: Load | None  # only for workers elsewhere
    teacher: str

    def setup(self) -> Predict:
        assert self.load is not None
        teacher = self.load()
        digest = teacher_digest(teacher).hexdigest()
        if digest != self.teacher:
            raise errors.TeacherError("teacher of a worker", f"sha256 {self.teacher}", digest)
        return models.predictor(teacher)

    def process(self, unit: parallel.WorkUnit, tools: Predict) -> None:
        seen = arrays.read_arrays(unit.task, error=errors.DataError)
        encoded = EncodedExamples(**{**seen, "pad_id": int(seen["pad_id"])})
        answers = tools(Batches(encoded, batch_size=_BATCH, shuffle=False))
        target = storage.located(unit.target)
        arrays.write_arrays(target, {_LOGITS: answers}, made_from=self.teacher)


def cached_logits(
    teacher: keras.Model,
    examples: EncodedExamples,
    folder: files.Path,
    *,
    pipeline: Sequence[str] | None = None,
    load: Load | None = None,
) -> np.ndarray:
    """The teacher's logits over a training set, from a file if they were computed before.

    The file is named by a hash of the teacher's architecture, precision and weights and of the
    examples, which it holds, too, with a checksum: it never answers for another teacher or another
    set, and a damaged one is computed again. Blocks of examples are
    answered one by one, each into a file of its own: an interrupted call continues, and the result
    is the same here and in a pipeline of like machines.

    Args:
      teacher: A classifier.
      examples: The examples.
      folder: The folder of the file, a path or an address.
      pipeline: Options of Apache Beam, whose workers answer then, see
        `data.preparation.prepare_corpus`.
      load: With `pipeline`: gives the teacher to a worker, which compares its hash; a function of
        a module, or a `functools.partial` of one.

    Returns:
      Logits, float32 (examples, classes), in the order of the examples; of a head over tokens or
      spans (tokens, classes).

    Raises:
      ConfigError: If `load` is missing, or the pipeline has no such runner.
      TeacherError: If a worker has another teacher.
      EnvironmentFault: If Apache Beam is not installed, or the pipeline fails.
    """
    if pipeline is not None:
        if load is None:
            raise errors.ConfigError("load", "a function for the workers", load)
        parallel.check_pipeline(pipeline, folder)
        folder = storage.absolute(folder)
    digest = teacher_digest(teacher)
    work = _Answers(load, digest.hexdigest())
    for array in (examples.ids, examples.offsets, examples.types):
        _update(digest, array)
    made_from = digest.hexdigest()
    path = storage.located(folder) / f"logits-{made_from[:16]}.safetensors"
    cached = _read(path, made_from)
    if cached is not None:
        return cached
    todo, left = [], []
    for start in range(0, len(examples), BLOCK):
        end = min(start + BLOCK, len(examples))
        file = str(path.with_suffix("") / f"{start:09d}-{end:09d}")
        unit = parallel.WorkUnit(
            f"examples {start} to {end - 1}", f"{file}.safetensors", f"{file}.task.safetensors"
        )
        todo.append(unit)
        if _read(unit.target, work.teacher) is None:
            left.append(unit)
            block = examples.select(np.arange(start, end))
            seen = {name: np.asarray(getattr(block, name)) for name in _SEEN}
            arrays.write_arrays(storage.located(unit.task), seen)
    for _ in parallel.run(work, left, pipeline=pipeline, tools=models.predictor(teacher)):
        pass
    logits = np.concatenate(
        [arrays.read_arrays(unit.target, made_from=work.teacher)[_LOGITS] for unit in todo]
    )
    arrays.write_arrays(path, {_LOGITS: logits}, made_from=made_from)
    storage.remove_folder(path.with_suffix(""))
    return logits


def _read(path: files.Path, made_from: str) -> np.ndarray | None:
    """Reads logits that were computed before; None where there are none, or damaged ones."""
    if not storage.located(path).exists():
        return None
    try:
        return arrays.read_arrays(path, made_from=made_from)[_LOGITS]
    except (errors.WeightsError, KeyError) as fault:
        _log.info(f"{fault} The teacher's answers are computed again.")
        return None


def teacher_digest(teacher: keras.Model) -> hashlib._Hash:
    """Begins a hash with a teacher's architecture, precision and weights."""
    policies = [layer.dtype_policy.name for layer in teacher.layers]
    digest = hashlib.sha256(repr((models.config_of(teacher), policies)).encode())
    for array in teacher.get_weights():
        _update(digest, array)
    return digest


def _update(digest: hashlib._Hash, array: np.ndarray) -> None:
    digest.update(repr((array.dtype.str, array.shape)).encode())
    digest.update(array.tobytes())
