import errno
import shutil
import tempfile
from unittest import mock

import pytest
import tensorflow as tf

from export.conversion import convert
from export.model import signature
from tfdistill import errors

pytestmark = pytest.mark.usefixtures("convert_in_child")


def run(tmp_path, **options):
    arguments = (str(tmp_path / "saved; rm -rf $HOME"), str(tmp_path / "out.tflite"))
    layers = {"layer_0_key": "float16"}
    conversion = convert.Conversion(*arguments, "float32", ["len8", "len16"], layers=layers)
    convert.run_in_child(conversion, **options)


def test_a_failing_converter_is_quoted(program, tmp_path):
    program("echo 'I0000 00:00 noise' >&2; echo 'tf.Erf is neither builtin nor flex' >&2; exit 3")
    with pytest.raises(errors.ExportError, match=r"exit code 3.*tf.Erf is neither") as caught:
        run(tmp_path)
    assert "noise" not in str(caught.value)


def test_a_full_disk_of_the_converter_names_the_folder_with_less_room(
    program, tmp_path, monkeypatch
):
    program('echo "OSError: [Errno 28] No space left on device: x -> None" >&2; exit 1')
    small = tmp_path / "small"
    small.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(small))
    for full in (small, tmp_path):
        room = {str(small): 5, str(tmp_path): 5, str(full): 0}
        monkeypatch.setattr(
            shutil, "disk_usage", lambda folder, room=room: mock.Mock(free=room[str(folder)])
        )
        with pytest.raises(OSError, match="No space left") as caught:
            run(tmp_path)
        assert caught.value.filename == str(full) and caught.value.errno == errno.ENOSPC


def test_a_full_disk_under_the_saved_model_names_its_folder(toy, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise tf.errors.ResourceExhaustedError(
            None, None, "{{function_node __wrapped__SaveV2}} No space left on device [Op:SaveV2]"
        )

    monkeypatch.setattr(tf.saved_model, "save", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
        signature.save(toy.model, tmp_path, lengths=[8])


@pytest.mark.parametrize(
    ("does", "options", "says"),
    [
        ("kill -SEGV $$", {}, "signal SIGSEGV"),
        ("kill -KILL $$", {}, "SIGKILL: the memory may not suffice"),
        ("exec sleep 60", {"timeout_s": 0.3}, r"within 0.3 s.*Raise timeout_s"),
        ("exit 0", {}, "no file, though it reported success"),
    ],
)
def test_an_end_of_the_converter_without_a_file_is_told(program, tmp_path, does, options, says):
    program(does)
    with pytest.raises(errors.ExportError, match=says):
        run(tmp_path, **options)


@pytest.mark.slow
def test_a_folder_called_export_does_not_shadow_the_package(tmp_path, monkeypatch):
    """The converter starts where the packages are, wherever the user is."""
    shadow = tmp_path / "export"
    shadow.mkdir()
    (shadow / "__init__.py").write_text("raise SystemExit('the shadow ran')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.ExportError) as caught:
        convert.run_in_child(convert.Conversion("none", "out.tflite", "no_such_name", ["len8"]))
    assert "shadow" not in str(caught.value)
    assert "received 'no_such_name'" in str(caught.value)


def test_a_file_for_the_cpu_is_what_the_converter_made_byte_for_byte(tmp_path, monkeypatch):
    """Read and written again it would have another layout, and a large one would take minutes."""
    monkeypatch.setattr(convert, "_converted", lambda _, quantization: quantization.name.encode())
    file, floats = tmp_path / "model.tflite", tmp_path / "float.tflite"
    convert.run(
        convert.Conversion(str(tmp_path), str(file), "float16", ["len8"], float_file=str(floats))
    )
    assert (file.read_bytes(), floats.read_bytes()) == (b"float16", b"float32")
