"""A disk that is full at each step of a command: one line with the path, older files whole."""

import builtins
import errno
import io
import os
import pathlib
import re
import shutil

import pytest
import toys

from tfdistill import cli, weights
from tfdistill.io import ledger
from tfdistill.tokenization.reading import read_tokenizer

ROOT = pathlib.Path(__file__).parents[2]
_TEMPORARY = re.compile(r"tfdistill-[a-z0-9_]{8}")


class FullDisk:
    """Fails the first write of every file below a folder: opening it, and renaming it."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.failed, self.rest = folder, set(), True
        opened, replaced = io.open, os.replace

        def open_(file, mode="r", *args, **kwargs):
            if isinstance(file, str | os.PathLike) and set(mode) & set("wax+"):
                self.check("open", file)
            return opened(file, mode, *args, **kwargs)

        def replace(source, target, **kwargs):
            self.check("rename", target)
            return replaced(source, target, **kwargs)

        for module in (builtins, io):
            monkeypatch.setattr(module, "open", open_)
        monkeypatch.setattr(os, "replace", replace)

    def check(self, what, path):
        name = _TEMPORARY.sub("", os.path.abspath(path))
        key = (what, name)
        if self.rest or not name.startswith(str(self.folder)) or key in self.failed:
            return
        if name.endswith(".lock"):
            return  # of the next process, not of the output
        self.failed.add(key)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path))


_OF_FOLDERS = (".lock", ".report.html.lock", ledger.MARKER)  # not what was asked for


def survive(disk, capsys, command, again=()):
    """Calls a command until no write of it fails any more; returns how often it failed."""
    for count in range(200):
        before = len(disk.failed)
        contents = _contents(disk.folder)
        disk.rest = False
        try:
            code = cli.main([*command, *(again if count else ())])
        finally:
            disk.rest = True
        shown = capsys.readouterr().err
        if len(disk.failed) == before:
            assert code == 0, shown
            return count
        where = sorted(disk.failed)
        assert code == 1, (where, shown)
        assert "Traceback" not in shown, (where, shown)
        last = shown.strip().splitlines()[-1]
        assert "no space left" in last.lower() and str(disk.folder) in last, (where, shown)
        assert not [path for path in disk.folder.rglob("*") if _TEMPORARY.search(path.name)]
        if not again:
            assert contents.items() <= _contents(disk.folder).items(), where
    raise AssertionError("no end")


def _contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in _OF_FOLDERS)
    return {path.relative_to(folder): path.read_bytes() for path in files}


@pytest.fixture
def disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "disk"
    folder.mkdir()
    return FullDisk(folder, monkeypatch)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "test_report"))
    import fake_run

    return fake_run.build(tmp_path / "run") or tmp_path / "run"


def test_a_recipe_is_copied_whole_or_not_at_all(disk, capsys):
    assert survive(disk, capsys, ["recipes", "cp", "demo", f"{disk.folder}/demo.yaml"]) >= 1


@pytest.mark.thorough
def test_a_report_is_written_whole_or_not_at_all(disk, run, capsys):
    page = disk.folder / "page"
    assert survive(disk, capsys, ["report", str(run), "--out", str(page)]) >= 2
    # An older page stays as it was until the new one is there.
    disk.failed.clear()
    assert survive(disk, capsys, ["report", str(run), "--out", str(page)], ()) >= 2


@pytest.mark.slow
def test_an_index_is_written_whole_or_not_at_all(disk, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    from test_android import vectors

    model = shutil.copytree(
        vectors.RESOURCES / "bundles" / vectors.INDEXED,
        tmp_path / "model",
        ignore=shutil.ignore_patterns("search"),
    )
    texts = tmp_path / "faq.csv"
    texts.write_text("text\ngood film\nbad film\ndull plot\n")
    command = ["index", str(texts), "--model", str(model), "--out", f"{disk.folder}/a"]
    assert cli.main(command) == 0  # it stays as it was until the new one is there
    texts.write_text("text\ngood film\nbright plot\n")
    assert survive(disk, capsys, [*command, "--overwrite"]) >= 5


def test_a_vocabulary_is_written_whole_or_not_at_all(disk, tmp_path, capsys):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a good film\n\na bad film\n" * 20)
    command = ["data", "vocab", str(corpus), "--size", "40", "--out", f"{disk.folder}/vocab.txt"]
    assert survive(disk, capsys, command) >= 1


@pytest.mark.thorough
@pytest.mark.parametrize("ways", [["hf"], ["saved-model", "keras", "android"]])
def test_an_export_in_several_forms_is_written_whole_or_not_at_all(
    disk, tmp_path, capsys, toy_vocab_file, ways
):
    size = len(read_tokenizer(toy_vocab_file).vocab)
    shape = toys.SHALLOW_STUDENT.replace(
        family="distilbert", vocab_size=size, max_positions=16, pooler=False, type_vocab_size=0
    )
    model = toys.classifier(shape, 2)
    weights.save_hf(model, tmp_path / "m", labels=["bad", "good"], tokenizer=toy_vocab_file)
    forms = {way: disk.folder / f"as-{way}" for way in ways}
    if "keras" in forms:
        forms["keras"] = disk.folder / "student.keras"
    options = [part for way, path in forms.items() for part in (f"--{way}", str(path))]
    command = ["export", str(tmp_path / "m"), "--out", f"{disk.folder}/file", "--lengths", "8"]
    (tmp_path / "data").mkdir()
    rows = "text\tlabel\n" + "good film\tgood\nbad story\tbad\n" * 4
    for name in ("train", "dev"):
        (tmp_path / "data" / f"{name}.tsv").write_text(rows)
    command += ["--task", "films", "--data-dir", str(tmp_path / "data"), "--allow-weak"]
    command += ["--text-column", "text", "--label-column", "label"]
    command += ["--quantize", "float32", *options]
    counted = survive(disk, capsys, command, ["--overwrite"])
    assert counted >= 10
    assert all(path.exists() for path in forms.values())
