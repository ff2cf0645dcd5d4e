import os
import pathlib
import signal
import subprocess
import sys

import pytest

from export.file import bundle
from tfdistill import errors

ROOT = pathlib.Path(bundle.__file__).parents[1]


def failing(function, number, error):
    """The function, but for its call of this number, which fails."""
    calls = []

    def call(*arguments):
        calls.append(arguments)
        if len(calls) == number:
            raise error
        return function(*arguments)

    return call


FULL = OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("step", "number", "links"),
    [("fsync", 2, True), ("replace", 4, True), ("replace", 4, False)],
)
def test_a_failure_in_the_middle_leaves_every_file_as_it_was(
    tmp_path, monkeypatch, step, number, links
):
    names = ("m.tflite", "vocab.txt", "golden.json", "model.json")
    for name in names[::2]:
        (tmp_path / name).write_bytes(b"old")
    monkeypatch.setattr(os, step, failing(getattr(os, step), number, FULL))
    if not links:
        monkeypatch.setattr(os, "link", failing(os.link, 1, OSError(95, "Operation not supported")))
    with pytest.raises(errors.ExportError):
        bundle.write({tmp_path / name: b"new" for name in names})
    contents = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert contents == dict.fromkeys(names[::2], b"old")


@pytest.mark.parametrize(("renames", "expected"), [(0, "old old"), (1, "new old")])
def test_a_killed_process_leaves_whole_files(renames, expected, tmp_path):
    for name in ("m.tflite", "model.json"):
        (tmp_path / name).write_bytes(b"old" * 50_000)
    program = f"""
import os, pathlib, signal
from export.file import bundle
rename, left = os.replace, [{renames}]
def replace(*arguments):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    rename(*arguments)
os.replace = replace
folder = pathlib.Path({str(tmp_path)!r})
bundle.write({{folder / "m.tflite": b"new" * 50_000, folder / "model.json": b"new" * 50_000}})
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    contents = [(tmp_path / name).read_bytes() for name in ("m.tflite", "model.json")]
    assert contents == [word.encode() * 50_000 for word in expected.split()]


def test_an_existing_file_is_refused_and_a_folder_in_the_way_even_with_overwrite(tmp_path):
    file = tmp_path / "m.tflite"
    file.write_bytes(b"old")
    for content in (None, b"new"):
        with pytest.raises(errors.OutputExistsError):
            bundle.check_free({file: content}, overwrite=False)
    bundle.check_free({file: b"old"}, overwrite=False)  # nothing would change
    bundle.check_free({tmp_path / "other": None}, overwrite=False)
    with pytest.raises(errors.OutputExistsError, match="never replaced"):  # somebody else's
        bundle.check_free({file: None}, overwrite=True)
    new = tmp_path / "new" / "m.tflite"
    bundle.write({new: b"old"})
    bundle.check_free({new: None}, overwrite=True)
    (tmp_path / "vocab.txt").mkdir()
    with pytest.raises(errors.ConfigError, match="received a folder"):
        bundle.check_free({tmp_path / "vocab.txt": b"x"}, overwrite=True)
