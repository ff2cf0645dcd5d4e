"""The distribution holds what it should, and `export` is ours wherever one stands."""

import email
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from xml.etree import ElementTree

import pytest
import yaml

from tfdistill import _version

ROOT = pathlib.Path(__file__).parents[2]
BUILT_FROM = ("setup.py", "pyproject.toml", "MANIFEST.in", "LICENSE", "CITATION.cff")


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> pathlib.Path:
    """A copy of the tree: a build leaves files behind."""
    copy = tmp_path_factory.mktemp("sources") / "project"
    folders = ("tfdistill", "export", "tests", "scripts", "docs")
    for name in folders:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (*ROOT.glob("*.md"), *ROOT.glob("*.lock"), *map(ROOT.joinpath, BUILT_FROM)):
        shutil.copy(file, copy)
    return copy


@pytest.fixture(scope="module")
def wheel(sources, tmp_path_factory) -> pathlib.Path:
    out = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", out, sources)
    (built,) = out.glob("*.whl")
    return built


def pip(*arguments: object, python: object = sys.executable) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--python", python, *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def clean_venv(folder: pathlib.Path) -> pathlib.Path:
    """Makes a venv with the dependencies of this one but without its tfdistill."""
    venv.create(folder, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # A path that is listed in a .pth file has its own .pth files ignored: an editable tfdistill
    # of this environment stays out.
    pth = folder / "lib" / version / "site-packages" / "dependencies.pth"
    pth.write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


def files_of(sources: pathlib.Path) -> set[str]:
    return {
        str(file.relative_to(sources))
        for package in ("tfdistill", "export")
        for file in (sources / package).rglob("*")
        if file.is_file()
    }


def test_the_wheel_holds_both_packages_whole_the_licence_versions_and_the_readme(wheel, sources):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))

    assert {name for name in names if ".dist-info/" not in name} == files_of(sources)
    assert {"tfdistill/py.typed", "export/py.typed"} <= names
    assert metadata["License"] == "Apache-2.0"
    assert len([name for name in names if name.endswith("LICENSE")]) == 1
    assert sorted(metadata["Requires-Python"].split(",")) == ["<3.14", ">=3.10"]
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    assert "# tfdistill" in metadata.get_payload()


def test_the_citation_and_the_badges_are_true():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))

    assert citation["version"] == _version.__version__
    assert f'license="{citation["license"]}"' in (ROOT / "setup.py").read_text("utf-8")
    pictures = ROOT / "docs" / "pictures"
    setup = (ROOT / "setup.py").read_text("utf-8")
    lowest, limit = re.search(r'python_requires=">=3\.(\d+),<3\.(\d+)"', setup).groups()
    licence = re.search(r'license="(.+?)"', setup).group(1)
    for name, said in (
        ("python", f"CPython: 3.{lowest} to 3.{int(limit) - 1}"),
        ("licence", f"licence: {licence}"),
    ):
        badge = ElementTree.parse(pictures / f"badge-{name}.svg").getroot()
        shown = [text.text for text in badge.iter("{http://www.w3.org/2000/svg}text")]
        assert badge.get("aria-label") == ": ".join(shown) == said


def test_the_source_distribution_holds_the_packages_and_the_changelog(sources, tmp_path):
    program = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", program], cwd=sources, capture_output=True)
    assert done.returncode == 0, done.stderr
    (sdist,) = tmp_path.glob("tfdistill-*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}

    assert files_of(sources) <= held
    assert {
        "CHANGELOG.md",
        "CITATION.cff",
        "LICENSE",
        "README.md",
        "SECURITY.md",
        "setup.py",
    } <= held
    assert not any(name.startswith((".venv", "runs", "docs")) for name in held)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["wheel", "editable"])
def test_both_packages_are_ours_from_any_folder(mode, wheel, sources, tmp_path):
    python = clean_venv(tmp_path / "venv")
    if mode == "wheel":
        home = tmp_path / "venv"
        pip("install", "--no-deps", "--no-index", wheel, python=python)
    else:
        home = sources
        pip("install", "--no-deps", "--no-build-isolation", "--editable", sources, python=python)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "export").mkdir(parents=True)  # as a person may name a folder of results
    (elsewhere / "export" / "model.json").touch()
    program = "import tfdistill, export; print(tfdistill.__file__, export.__file__, sep='\\n')"
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHONPATH"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # other tests list the files of `sources`

    for folder in ("/", elsewhere):
        command = [python, "-c", program]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for file in done.stdout.split():
            assert pathlib.Path(file).is_relative_to(home)
