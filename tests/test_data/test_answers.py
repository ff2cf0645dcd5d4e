import numpy as np
import pytest

from tfdistill import errors, tasks
from tfdistill.data import answers
from tfdistill.tasks import spec

TASK = spec.TaskSpec("kinds", "text", "kind", labels=("a", "b"))
LOGITS = np.array([[2.0, -1.0], [0.5, 0.25], [-3.0, 3.0]], np.float32)


def examples(**changes):
    values = {"texts": ["one", "two " * 200, "drei ü"], "pairs": None}
    return tasks.Examples(TASK, **{**values, "labels": np.array([0, 1, 1], np.int32), **changes})


def answer_set(**options):
    recorded = answers.of_examples(examples(), {"model": LOGITS}, **options)
    assert recorded is not None
    return recorded


def test_answers_are_read_as_they_were_written_with_texts_or_without(tmp_path):
    before = answer_set(model_sha256="f" * 64)
    answers.write(before, tmp_path / "a.safetensors")
    after = answers.read(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(after.logits["model"], LOGITS)
    np.testing.assert_array_equal(after.gold, [0, 1, 1])
    assert (after.task.labels, after.task.primary_metric) == (("a", "b"), "accuracy")
    assert after.texts == before.texts and after.texts[2] == "drei ü"
    assert len(after.texts[1]) == 300 and after.texts[1].endswith("…")
    assert (after.examples, after.model_sha256) == (before.examples, "f" * 64)
    answers.write(answer_set(with_texts=False), tmp_path / "b.safetensors")
    without = answers.read(tmp_path / "b.safetensors")
    assert without.texts == () and without.examples == after.examples
    assert b"drei" not in (tmp_path / "b.safetensors").read_bytes()


def test_other_texts_pairs_or_labels_are_other_examples():
    others = (
        examples(texts=["one", "two", "three"]),
        examples(pairs=["", "", "x"]),
        examples(labels=np.array([1, 1, 1], np.int32)),
    )
    hashes = [answers.of_examples(other, {"model": LOGITS}) for other in others]
    assert len({answer_set().examples, *(hash_of.examples for hash_of in hashes if hash_of)}) == 4


def test_a_changed_byte_a_foreign_file_and_an_absent_one_are_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(errors.DataError, match=r"a\.safetensors"):
        answers.read(path)
    whole = answers.to_bytes(answer_set())
    zeros = np.zeros_like(LOGITS).tobytes()
    for old, new in ((LOGITS.tobytes(), zeros), (rb"\"a\", \"b\"", rb"\"b\", \"a\"")):
        path.write_bytes(whole.replace(old, new))
        assert path.read_bytes() != whole
        with pytest.raises(errors.DataError, match="another checksum"):
            answers.read(path)
    path.write_bytes(whole[:40])
    with pytest.raises(errors.DataError):
        answers.read(path)
