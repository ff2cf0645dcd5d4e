"""A folder is ours by its marker; overwriting removes what its list names and nothing else."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from tfdistill import errors
from tfdistill.io import ledger, work_folder
from tfdistill.io.ledger import MARKER
from tfdistill.io.work_folder import WorkFolder


@pytest.fixture
def ours(tmp_path):
    """A folder of ours with a.txt and data/b.txt."""
    with WorkFolder(tmp_path / "out", "run").open() as folder:
        (folder.path / "data").mkdir()
        (folder.path / "a.txt").write_text("a")
        (folder.path / "data" / "b.txt").write_text("b")
    return folder.path


def overwrite(path):
    with WorkFolder(path, "run").open(overwrite=True):
        return ledger.entries(path)


def test_a_folder_that_is_copied_or_moved_stays_ours(ours, tmp_path):
    shutil.copytree(ours, tmp_path / "copy")
    ours.rename(tmp_path / "moved")
    assert overwrite(tmp_path / "copy") == overwrite(tmp_path / "moved") == set()


@pytest.mark.parametrize("name", ["notes.txt", "data/notes.txt", "empty/", "link"])
def test_a_users_file_is_named_and_nothing_is_removed(ours, tmp_path, name):
    if name == "link":
        (ours / name).symlink_to(tmp_path)
    elif name == "empty/":
        (ours / name).mkdir()
    else:
        (ours / name).write_text("the user's")
    before = ledger.entries(ours)
    if name != "link":  # the folder with a link that leaves it is not resumed either
        with WorkFolder(ours, "run").open(resume=True):
            pass  # this does not make the file ours
    with pytest.raises(errors.OutputExistsError, match=name):
        overwrite(ours)
    assert ledger.entries(ours) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"files": ["../user.txt"]},
        {"files": ["/etc/passwd"]},
        {"files": ["a.txt", "data/../../user.txt"]},
        {"files": "a.txt"},
        {"files": [1]},
        {"format": "another"},
        {"format_version": 2},
        {"kind": "report"},
        {"kind": None},
    ],
)
def test_a_marker_that_was_edited_is_refused_and_harmless(ours, tmp_path, changes):
    (tmp_path / "user.txt").write_text("the user's")
    content = json.loads((ours / MARKER).read_text())
    (ours / MARKER).write_text(json.dumps({**content, **changes}))
    for flags in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(errors.OutputExistsError):
            WorkFolder(ours, "run").check(**flags)
    assert (tmp_path / "user.txt").is_file() and (ours / "a.txt").is_file()


def test_a_marker_that_is_copied_or_a_link_gives_nothing_away(ours, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "main.py").write_text("the user's")
    shutil.copy(ours / MARKER, project)
    with pytest.raises(errors.OutputExistsError, match=r"main\.py"):
        overwrite(project)
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "b.txt").write_text("the user's")
    shutil.rmtree(ours / "data")
    (ours / "data").symlink_to(target)
    with pytest.raises(errors.OutputExistsError, match="data"):
        overwrite(ours)
    assert (target / "b.txt").read_text() == "the user's"


def test_after_a_kill_the_folder_resumes_and_what_is_not_listed_is_kept(tmp_path):
    code = (
        "import os, signal; from tfdistill.io.work_folder import WorkFolder\n"
        f"with WorkFolder({str(tmp_path / 'out')!r}, 'run').open() as folder:\n"
        "    (folder.path / 'first').write_text('1'); folder.save()\n"
        "    (folder.path / 'second').write_text('2'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=False)
    assert killed.returncode == -signal.SIGKILL
    with WorkFolder(tmp_path / "out", "run").open(resume=True):
        pass
    with pytest.raises(errors.OutputExistsError, match="second"):
        overwrite(tmp_path / "out")
    (tmp_path / "out" / "second").unlink()
    assert overwrite(tmp_path / "out") == set()


def test_what_is_written_inside_a_folder_of_ours_belongs_to_its_list(ours):
    with work_folder.replaced(ours / "export", "export", overwrite=False) as temporary:
        (temporary / "model.tflite").write_text("m")
    with WorkFolder(ours / "report", "report").open():
        (ours / "report" / "report.md").write_text("r")
    assert overwrite(ours) == set()


def test_a_replaced_folder_keeps_what_a_user_put_in(tmp_path):
    target = tmp_path / "hf"
    with work_folder.replaced(target, "hf", overwrite=False) as temporary:
        (temporary / "a").write_text("1")
    with work_folder.replaced(target, "hf", overwrite=True) as temporary:
        (temporary / "a").write_text("2")
    (target / "user").write_text("u")
    with (
        pytest.raises(errors.OutputExistsError, match="user"),
        work_folder.replaced(target, "hf", overwrite=True),
    ):
        pass
    assert (target / "user").read_text() == "u" and (target / "a").read_text() == "2"


def test_a_report_in_a_folder_of_ours_replaces_only_its_own(ours):
    (ours / "report.md").write_text("the user's")
    with pytest.raises(errors.OutputExistsError, match=r"report\.md"):
        work_folder.check_ours(ours, ["report.md", "report-tables/"])
    work_folder.check_ours(ours, ["a.txt", "report-tables/"])
