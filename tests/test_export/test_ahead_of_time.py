"""Files compiled for chips lie beside their export, in its manifest and in Play's AI pack."""

import json
import pathlib
import re
import shutil
import xml.etree.ElementTree as ElementTree

import pytest

import export
from export.targets import ahead_of_time
from tfdistill import cli, errors, manifest
from tfdistill.accelerators import gate, vendors
from tfdistill.accelerators.outcome import AcceleratorReport

RESOURCES = pathlib.Path(__file__).parents[2] / "android_demo/core/src/test/resources/rows/bundles"


@pytest.fixture
def folder(tmp_path):
    """An export with a file for the CPU and one for NPUs without lookups."""
    return shutil.copytree(RESOURCES / "rows-float32", tmp_path / "export")


@pytest.fixture
def asked(monkeypatch):
    """A compiler that writes what it was asked for, and any libraries."""
    found = []

    def check(file, wanted, *, golden, words, compiled, **_):
        ((name, soc),) = wanted
        found.append((file.name, name, soc, len(golden["examples"]) > 8, words is not None))
        compiled.write_bytes(f"{name} {soc}".encode())
        return [AcceleratorReport(name, f"{name}, {soc}", verdicts.get(name, "compiled"), (), "x")]

    verdicts = {}
    monkeypatch.setattr(gate, "check", check)
    monkeypatch.setattr(vendors, "folder_of", lambda *_: None)
    found_by = {"asked": found, "verdicts": verdicts}
    return found_by


def test_files_go_to_manifest_and_ai_pack_with_the_cpu_file_as_fallback(folder, asked):
    wanted = vendors.parse("qualcomm:SM8650,mediatek:MT6989,intel:LNL")
    card = ahead_of_time.to_aot(folder, wanted)

    assert [own[:3] for own in asked["asked"]] == [
        ("model.tflite", "qualcomm", "SM8650"),
        ("model-npu-rows.tflite", "mediatek", "MT6989"),  # takes no lookups
        ("model.tflite", "intel-npu", "LNL"),
    ]
    assert [own[3:] for own in asked["asked"]] == [(True, False), (True, True), (True, False)]
    assert manifest.read_manifest(folder) == card  # checksums compared
    files = [own.model.file for own in card.compiled]
    assert files == [
        "model-qualcomm-SM8650.tflite",
        "model-npu-rows-mediatek-MT6989.tflite",
        "model-intel-npu-LNL.tflite",
    ]
    assert [own.model.file for own in card.for_device("npu-rows").compiled] == files[1:2]

    assets = folder / "ai_pack" / "ai_pack" / "src" / "main" / "assets"
    pack = {path.parent.name: path for path in assets.rglob("*.tflite")}
    # Play knows no Intel: its chips are in no phone.
    assert pack.keys() == {
        "model#group_other",
        "model#group_Qualcomm_SM8650",
        "model#group_Mediatek_MT6989",
    }
    assert {path.name for path in pack.values()} == {"rows-float32.tflite"}
    assert pack["model#group_other"].read_bytes() == (folder / "model.tflite").read_bytes()
    assert pack["model#group_Qualcomm_SM8650"].read_bytes() == b"qualcomm SM8650"
    tree = ElementTree.parse(folder / "ai_pack" / "device_targeting_configuration.xml")
    chips = [chip.attrib for chip in tree.iter() if chip.tag.endswith("system-on-chip")]
    assert {"manufacturer": "Qualcomm", "model": "SM8650"} in chips
    assert {"manufacturer": "Mediatek", "model": "MT6989"} in chips

    ahead_of_time.to_aot(folder, vendors.parse("intel:LNL"))  # replaces all of it
    assert sorted(path.name for path in folder.glob("*-*.tflite")) == [
        "model-intel-npu-LNL.tflite",
        "model-npu-rows.tflite",
    ]
    assert not (folder / "ai_pack").exists()


def test_a_bundle_of_the_app_has_no_files_of_single_chips(folder, asked, tmp_path):
    ahead_of_time.to_aot(folder, vendors.parse("qualcomm:SM8650"))
    bundle = export.to_android(folder, tmp_path / "assets")
    assert "compiled" not in json.loads((bundle / "model.json").read_text())
    assert not list(bundle.glob("*qualcomm*"))


@pytest.mark.parametrize(
    ("verdict", "error"), [("wrong", errors.ParityError), ("failed", errors.ExportError)]
)
def test_one_file_that_answers_wrongly_or_fails_leaves_all_as_it_was(folder, asked, verdict, error):
    asked["verdicts"]["mediatek"] = verdict
    before = sorted(folder.iterdir()), (folder / "model.json").read_bytes()
    with pytest.raises(error, match=r"model-npu-rows-mediatek-MT6989.tflite, mediatek"):
        ahead_of_time.to_aot(folder, vendors.parse("qualcomm:SM8650,mediatek:MT6989"))
    assert before == (sorted(folder.iterdir()), (folder / "model.json").read_bytes())


@pytest.mark.parametrize(
    ("chips", "message"),
    [
        ("gpu", "NPUs and their chips"),
        ("qualcomm:../x", "NPUs and their chips"),
        ("qualcomm:SM1", "one of SA8255.*received SM1"),
        ("mediatek", "NeuroPilot SDK"),
        ("google:Tensor_G5", "given to partners"),
        ("samsung:E9965", "Exynos AI LiteCore"),
        ("qualcomm:SM8650", "AI Engine Direct"),
        ("intel:LNL,intel:LNL", "different ones"),
        ("apple", "mediatek"),
    ],
)
def test_what_cannot_be_compiled_here_is_said_before_any_work(chips, message, capsys, tmp_path):
    options = ["--aot", chips, "--out", str(tmp_path / "out")]
    assert cli.main(["export", str(RESOURCES), *options]) != 0
    assert re.search(message, capsys.readouterr().err.replace("\n", " "))
    assert not (tmp_path / "out").exists()


def test_a_compiled_file_that_was_changed_is_found(folder, asked):
    ahead_of_time.to_aot(folder, vendors.parse("qualcomm:SM8650"))
    (folder / "model-qualcomm-SM8650.tflite").write_bytes(b"other")
    with pytest.raises(errors.ManifestError, match=r"SM8650\.tflite: expected sha256"):
        manifest.read_manifest(folder)
