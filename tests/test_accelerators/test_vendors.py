"""Accelerators are named, their libraries found, and what is missing is said."""

import json
import pathlib

import pytest

from tfdistill import errors
from tfdistill.accelerators import vendors


def test_names_and_chips_are_read():
    assert vendors.parse("gpu, intel-npu,qualcomm:SM8750") == [
        ("gpu", ""),
        ("intel-npu", "LNL"),
        ("qualcomm", "SM8750"),
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("intl-npu", "intel-npu"),
        ("gpu,gpu", "different ones"),
        ("", "different ones"),
        ("gpu:Adreno", "no name of a chip"),
    ],
)
def test_wrong_names_are_refused(names, message):
    with pytest.raises(errors.ConfigError, match=message):
        vendors.parse(names)


@pytest.mark.parametrize("libraries", ["gpu", "gpus=/tmp", "gpu=/no/such/folder"])
def test_wrong_libraries_are_refused(libraries):
    with pytest.raises(errors.ConfigError, match="libraries"):
        vendors.parse_libraries([libraries])


@pytest.mark.parametrize("name", ["qualcomm", "mediatek", "google-tensor", "samsung"])
def test_the_missing_sdk_is_named_and_a_folder_that_holds_it_is_taken(name, tmp_path):
    with pytest.raises(errors.EnvironmentFault, match=f"SDK.*--libraries {name}=DIR"):
        vendors.folder_of(name, {})
    libraries = vendors.parse_libraries([f"{name}={tmp_path}"])
    with pytest.raises(errors.EnvironmentFault, match="received none"):
        vendors.folder_of(name, libraries)
    (tmp_path / vendors.VENDORS[name].library.replace("*", "")).touch()
    assert vendors.folder_of(name, libraries) == tmp_path


def test_swiftshader_is_described_to_the_vulkan_loader(tmp_path):
    (tmp_path / "libvk_swiftshader.so").touch()
    environment = vendors.variables(tmp_path, tmp_path)

    assert environment["LD_LIBRARY_PATH"] == str(tmp_path)
    driver = json.loads(pathlib.Path(environment["VK_DRIVER_FILES"]).read_bytes())["ICD"]
    assert driver["library_path"] == str(tmp_path / "libvk_swiftshader.so")
    assert vendors.variables(None, tmp_path) == {}


def test_every_npu_has_a_plugin_of_the_installed_litert():
    folder = vendors.litert_folder()
    for vendor in vendors.VENDORS.values():
        if vendor.kind == "npu":
            compiler = folder / "vendors" / vendor.plugin / "compiler"
            assert len(list(compiler.glob("libLiteRtCompilerPlugin_*.so"))) == 1
