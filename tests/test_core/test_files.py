import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from tfdistill import errors
from tfdistill.io import files, locks, reading


def only(folder, *names):
    return sorted(path.name for path in folder.iterdir()) == sorted(names)


# Files.


def test_a_link_that_leads_nowhere_is_no_absent_file(tmp_path):
    (tmp_path / "here").write_text("")
    (tmp_path / "link").symlink_to("here")
    assert files.is_there(tmp_path / "here") and files.is_there(tmp_path / "link")
    assert not files.is_there(tmp_path / "absent")
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "dangling").symlink_to("absent")
    (tmp_path / "folder").mkdir()
    for name in ("itself", "dangling", "folder"):
        with pytest.raises(errors.DataError, match=name):
            files.is_there(tmp_path / name)


def test_an_error_keeps_the_old_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def half_written():
        with files.atomic_write(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half_written()
    assert path.read_text() == "old"
    assert only(tmp_path, "a.txt")


def test_a_kill_keeps_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    code = (
        "import sys, time\nfrom tfdistill.io import files\n"
        "with files.atomic_write(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half')\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, path])
    deadline = time.monotonic() + 60
    while only(tmp_path, "a.txt") and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not only(tmp_path, "a.txt")  # the half that was written is there
    assert path.read_text() == "old"
    files.remove_leftovers(tmp_path)
    assert only(tmp_path, "a.txt")


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Otherwise a name may lead to nothing when the power fails."""
    done = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, r=real, n=name: (done.append(n), r(*a)))
    files.atomic_write_text(tmp_path / "a.txt", "new")
    assert done == ["fsync", "replace"]


def test_a_new_file_is_as_readable_as_any_other_in_utf_8_and_its_json_has_no_nan(tmp_path):
    (tmp_path / "usual").write_text("")
    files.atomic_write_text(tmp_path / "ours", "")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode
    files.atomic_write_text(tmp_path / "t", "é\n")
    assert (tmp_path / "t").read_bytes() == b"\xc3\xa9\n"
    files.atomic_write_json(tmp_path / "j", {"b": 1, "a": ["é"]})
    checksum = files.checksum_of({"b": 1, "a": ["é"]})
    written = f'{{ "b": 1, "a": [ "é" ], "checksum": "{checksum}" }}'
    assert " ".join((tmp_path / "j").read_text("utf-8").split()) == written
    with pytest.raises(ValueError, match="JSON"):
        files.atomic_write_json(tmp_path / "j", {"a": float("nan")})
    assert "é" in (tmp_path / "j").read_text("utf-8")


# Folders.


@pytest.fixture
def old(tmp_path):
    """A folder that is to be replaced."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept").write_text("old")
    return tmp_path / "out"


@pytest.fixture
def fail(monkeypatch):
    """Lets renames fail, by their number."""

    def make(fails, fault):
        real, calls = os.replace, []

        def replace(source, target):
            calls.append(target)
            if fails(len(calls)):
                raise fault
            real(source, target)

        monkeypatch.setattr(os, "replace", replace)

    return make


def test_a_folder_takes_the_place_of_the_old_one(tmp_path):
    path = tmp_path / "out"
    for content in ("first", "second"):
        with files.atomic_folder(path) as temporary:
            (temporary / content).write_text(content)
            assert not (path / content).exists()
        assert only(path, content)
        assert path.stat().st_mode & 0o777 == 0o755  # as readable as any other
    assert only(tmp_path, "out")


@pytest.mark.parametrize("fault", [OSError("full"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", [1, 2])
def test_what_comes_between_the_two_renames_brings_the_old_folder_back(old, fail, fault, call):
    fail(lambda number: number == call, fault)
    with pytest.raises(type(fault)), files.atomic_folder(old) as temporary:
        (temporary / "new").write_text("")
    assert only(old, "kept") and only(old.parent, "out")


def test_an_old_folder_that_cannot_come_back_is_left_aside(old, fail):
    fail(lambda number: number > 1, OSError("gone"))
    with pytest.raises(OSError, match="gone"), files.atomic_folder(old):
        pass
    (aside,) = old.parent.iterdir()
    assert only(aside, "kept")


# What killed processes leave.


@pytest.mark.parametrize("moment", ["before it is opened", "before it is locked"])
def test_a_folder_that_another_process_sweeps_before_it_is_locked_is_made_again(
    moment, tmp_path, monkeypatch
):
    module, name = (os, "open") if moment == "before it is opened" else (fcntl, "flock")
    real, swept = getattr(module, name), []

    def call(*args, **kwargs):
        if not swept:
            swept.extend(tmp_path.iterdir())
            for folder in tmp_path.iterdir():
                folder.rmdir()
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, call)
    with files.temporary_folder("c", tmp_path) as folder:
        assert len(swept) == 1 and folder.is_dir() and folder not in swept
    assert only(tmp_path)


def test_neither_files_of_the_user_nor_of_a_living_process_are_leftovers(tmp_path):
    names = [".a-12345678.txt", "tfdistill-abc", "tfdistill-", ".tfdistill-12345678", "a.tfdistill"]
    for name in names:
        (tmp_path / name).write_text("")
    files.remove_leftovers(tmp_path)
    assert only(tmp_path, *names)
    with (
        files.atomic_write(tmp_path / "a.txt") as file,
        files.atomic_folder(tmp_path / "b") as folder,
        files.temporary_folder("c", tmp_path) as other,
    ):
        files.remove_leftovers(tmp_path)
        assert file.is_file() and folder.is_dir() and other.is_dir()


def test_a_kill_between_the_two_renames_is_undone_by_the_next_writer(tmp_path):
    path = tmp_path / "a.b"
    path.mkdir()
    (path / "kept").write_text("old")
    code = (
        "import os, signal, sys\nfrom tfdistill.io import files\nreal = os.replace\n"
        "def replace(source, target):\n"
        "    if str(target) == sys.argv[1]: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(source, target)\n"
        "os.replace = replace\n"
        "with files.atomic_folder(sys.argv[1]): pass\n"
    )
    assert subprocess.run([sys.executable, "-c", code, path]).returncode == -signal.SIGKILL
    assert not path.exists()
    files.atomic_write_text(tmp_path / "other", "")
    assert only(tmp_path, "a.b", "other") and only(path, "kept")


def test_folders_in_the_temporary_folder_of_a_killed_process_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = (
        "import os, signal\nfrom tfdistill.io import files\n"
        "with files.temporary_folder('export'): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("tfdistill-export.")
    with files.temporary_folder("export") as living:
        files.remove_leftovers()
        assert only(tmp_path, living.name)
    assert only(tmp_path)


# Full disks.


class ForeignError(Exception):
    """As safetensors and TensorFlow report what the system said."""


@pytest.mark.parametrize("write", [files.atomic_write, files.atomic_folder])
@pytest.mark.parametrize(
    "fault",
    [
        lambda: OSError(errno.ENOSPC, "No space left on device"),
        lambda: OSError(errno.ENOSPC, "No space left on device", "/x/.out.tfdistill-12345678/a"),
        lambda: ForeignError("IoError(Os { code: 28, message: No space left on device })"),
    ],
)
def test_a_full_disk_is_an_error_that_names_the_output(tmp_path, write, fault):
    with pytest.raises(OSError) as caught, write(tmp_path / "out"):
        raise fault()
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path / "out")
    assert str(tmp_path / "out") in errors.explain_os_error(caught.value)
    assert only(tmp_path)


# Locks, and names from outside.


def test_an_output_has_one_writer_at_a_time_and_the_lock_of_a_killed_one_is_free(tmp_path):
    path = tmp_path / "new" / "result.json"
    for _ in range(2):
        with locks.output_lock(path):
            with (
                pytest.raises(errors.OutputExistsError, match="one that is still running"),
                locks.output_lock(path),
            ):
                pass
            with locks.output_lock(path.with_name("other.json")):  # has its own
                pass
        assert only(tmp_path)
    code = (
        "import os, signal, sys\nfrom tfdistill.io import locks\n"
        "with locks.output_lock(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "a"])
    assert only(tmp_path, ".a.lock")
    with locks.output_lock(tmp_path / "a"):
        pass
    assert only(tmp_path)


def test_many_processes_at_one_output_are_one_at_a_time(tmp_path):
    """Each that gets the lock finds nobody else inside; the rest are refused."""
    code = (
        "import os, sys, time\nfrom tfdistill import errors\nfrom tfdistill.io import locks\n"
        "for _ in range(200):\n"
        "    try:\n"
        "        with locks.output_lock(sys.argv[1]):\n"
        "            os.close(os.open(sys.argv[1], os.O_CREAT | os.O_EXCL))\n"
        "            os.unlink(sys.argv[1])\n"
        "    except errors.OutputExistsError: pass\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a")]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    assert [process.communicate()[1] for process in running] == [b""] * 4


def test_a_folder_has_one_process_at_a_time_and_a_failure_that_left_nothing_leaves_none(tmp_path):
    place = tmp_path / "run"
    for _ in range(2):
        with (
            locks.exclusive_lock(place),
            pytest.raises(errors.OutputExistsError),
            locks.exclusive_lock(place),
        ):
            pass
        assert place.is_dir()
    for name in ("empty", "begun"):
        with pytest.raises(KeyboardInterrupt), locks.exclusive_lock(tmp_path / name):
            if name == "begun":
                (tmp_path / name / "checkpoint").write_text("a step")
            raise KeyboardInterrupt
    assert not (tmp_path / "empty").exists()
    assert (tmp_path / "begun" / "checkpoint").is_file()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
@pytest.mark.parametrize("lock", [locks.output_lock, locks.exclusive_lock])
def test_a_file_system_without_locks_is_named_and_can_be_written(
    tmp_path, monkeypatch, lock, number
):
    def flock(descriptor, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(errors.EnvironmentFault) as caught, lock(tmp_path / "out"):
        pass
    assert str(caught.value).startswith(f"{tmp_path / 'out'}: expected a file system with locks")
    assert "--no-lock" in str(caught.value)
    monkeypatch.setenv(locks.VARIABLE, "1")
    with lock(tmp_path / "out"):
        pass


@pytest.mark.parametrize("address", ["s3://bucket/x", "gs:/bucket/x", "hdfs://host:9000/x"])
@pytest.mark.parametrize("write", [files.atomic_write, files.atomic_folder, locks.exclusive_lock])
def test_nothing_is_written_to_an_address(write, address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = pytest.raises(errors.ConfigError, match="expected a path on this machine")
    with refused, write(address):
        pass
    assert not list(tmp_path.iterdir())
    with files.atomic_write("a:b") as temporary:  # a name, and no address
        temporary.write_text("x")


def test_json_with_a_path_of_any_bytes_is_read_as_it_was_written(tmp_path):
    ascii_path = "größe".encode().decode("ascii", "surrogateescape")  # as the locale C reads it
    command = ["tfdistill", ascii_path, os.fsdecode(b"bad\xff")]
    files.atomic_write_json(tmp_path / "a.json", {"command": command})
    read = reading.read_json_object(tmp_path / "a.json")  # which compares the checksum
    assert read["command"] == ["tfdistill", "größe", "bad\ufffd"]
