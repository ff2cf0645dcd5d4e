import errno
import os
import pickle

import pytest

from tfdistill import errors

BUILT_IN = {
    "AbsentSplitError": ValueError,
    "WrongTypeError": TypeError,
    "ConfigError": ValueError,
    "ShapeError": ValueError,
    "DataError": ValueError,
    "VocabularyError": ValueError,
    "WeightsError": ValueError,
    "TeacherError": ValueError,
    "NonFiniteLossError": ArithmeticError,
    "StudentError": ValueError,
    "OutputExistsError": FileExistsError,
    "ExportError": RuntimeError,
    "ParityError": RuntimeError,
    "ManifestError": ValueError,
    "ModelFileError": RuntimeError,
    "BenchmarkError": RuntimeError,
    "DeviceLostError": RuntimeError,
    "EnvironmentFault": RuntimeError,
}


def test_every_error_is_ours_and_the_built_in_that_a_caller_expects():
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert classes.pop("TfdistillError") is errors.TfdistillError
    assert set(classes) == set(BUILT_IN)
    for name, kind in classes.items():
        assert issubclass(kind, (errors.TfdistillError)) and issubclass(kind, BUILT_IN[name])


def test_a_message_says_what_was_expected_what_came_and_what_to_do_however_long_it_is():
    message = errors.explain("student width", 8, 12, "Use a projection.")
    assert message == "student width: expected 8, received 12. Use a projection."
    assert errors.explain("labels", "two", None) == "labels: expected two, received None."
    text = str(errors.DataError("cell", "a label", repr("x" * 2_600_000), "Leave it out."))
    assert len(text) < errors.MAX_LINE
    assert text.startswith("cell: expected a label, received 'xxx")
    assert text.endswith("xxx'. Leave it out.")
    lines = str(errors.DataError("\n".join(f"row {number}" for number in range(5_000)))).split("\n")
    assert lines[errors.MAX_LINES - 1 :] == ["row 199", "... and 4800 more lines."]
    whole = "\n".join(["a" * errors.MAX_LINE] * errors.MAX_LINES)
    assert str(errors.DataError(whole)) == whole
    assert errors.explain_os_error(OSError("no route")) == "no route"


@pytest.mark.parametrize("kind", [errors.ConfigError, errors.OutputExistsError])
def test_an_error_of_several_parts_explains_them_and_survives_pickling(kind):
    error = kind("copies", "at least 1", 0, "Use 10.")
    assert str(error) == errors.explain("copies", "at least 1", 0, "Use 10.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(kind("as it is")) == "as it is"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bert_tyni", "Did you mean 'bert_tiny'?"),
        ("BERT", "Valid choices: bert_base, bert_tiny, tinybert."),
        (7, "Valid choices: bert_base, bert_tiny, tinybert."),
    ],
)
def test_the_nearest_choice_is_suggested_or_all_are_listed(name, says):
    assert errors.nearest(name, {"tinybert": 1, "bert_tiny": 2, "bert_base": 3}) == says


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "a/b: no space left on device. Free disk space"),
        (errno.ENOTDIR, "a/b: not a directory. Part of the path is a file: choose a folder."),
        (errno.EIO, "a/b: input/output error."),
    ],
)
def test_what_the_system_refuses_is_said_with_the_file_and_a_remedy(number, says):
    message = errors.explain_os_error(OSError(number, os.strerror(number), "a/b"))
    assert message.startswith(says)
    assert "Errno" not in message
