import pytest

from tfdistill import errors
from tfdistill.io import locks, safe_paths


@pytest.mark.parametrize("name", ["a.txt", "b/c.txt", "b/../a.txt", "./a.txt"])
def test_a_name_inside_is_resolved(tmp_path, name):
    assert safe_paths.inside(tmp_path, name) == (tmp_path / name).resolve()


@pytest.mark.parametrize(
    "name",
    [
        *("..", "../a.txt", "../folder-2/a.txt", "b/../../a.txt", "/etc/passwd", ".", ""),
        *("link", "link/a.txt", "file", "a\0b", "ring", "absolute"),
    ],
)
def test_a_name_that_leads_out_is_refused(tmp_path, name):
    folder = tmp_path / "folder"
    (tmp_path / "out").mkdir()
    (tmp_path / "secret").write_text("")
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "out")
    (folder / "file").symlink_to(tmp_path / "secret")
    (folder / "ring").symlink_to(folder / "ring")
    name = str(folder / "a.txt") if name == "absolute" else name
    with pytest.raises(errors.ManifestError, match="a path inside folder/") as refused:
        safe_paths.inside(folder, name)
    assert ("a link that leads out. Copy the files" in str(refused.value)) == (
        name in ("link", "file", "ring")
    )


PLAIN = ("prediction", "pkt-2.b", "two words", "+aug", "层")
MORE = (
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a\\b",
    "/x",
    "a\0",
    "a\nb",
    "\x1b[31m",
    "-x",
    " x",
    "x" * 101,
)


@pytest.mark.parametrize("name", [*PLAIN, *MORE])
def test_a_plain_name_is_told_from_one_that_is_more(name):
    assert safe_paths.is_plain_name(name) is (name in PLAIN)


def test_a_folder_whose_links_lead_out_is_not_worked_in(tmp_path):
    run = tmp_path / "run"
    (run / "stages").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (run / "student").symlink_to("stages")  # stays inside
    (tmp_path / "linked-run").symlink_to(run)  # the folder itself may be a link
    with locks.exclusive_lock(tmp_path / "linked-run"):
        pass
    (run / "stages" / "seed-1").symlink_to(tmp_path / "home")
    with (
        pytest.raises(errors.OutputExistsError, match=r"stages/seed-1, which leads to .*home"),
        locks.exclusive_lock(run),
    ):
        pass
    assert not list((tmp_path / "home").iterdir())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("data.dir=/home/ann/glue/SST-2", "data.dir=glue/SST-2"),
        ("/home/ann/run", "run"),
        ("dir: '/srv/a/b/c'\nepochs: 1/2", "dir: 'b/c'\nepochs: 1/2"),
        ("runs/demo and https://x.org/a/b", "runs/demo and https://x.org/a/b"),
        ("rm -rf /data/local/tmp/tfdistill-1a", "rm -rf /data/local/tmp/tfdistill-1a"),
    ],
)
def test_a_shared_text_tells_no_home_folder(text, shown):
    assert safe_paths.without_folders(text) == shown
