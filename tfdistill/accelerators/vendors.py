"""The accelerators that LiteRT compiles for on this host, and where their libraries are found."""

from __future__ import annotations

import contextlib
import ctypes.util
import dataclasses
import importlib.util
import json
import pathlib
from collections.abc import Mapping

from tfdistill import errors

# Chromium's software Vulkan, which Debian's chromium-common and Google's packages hold.
_SWIFTSHADER = "libvk_swiftshader.so"
_CHROMIUM = ("/usr/lib/chromium", "/opt/google/chrome")
# In a checkout scripts/runtimes puts OpenVINO there.
_CHECKOUT_OPENVINO = pathlib.Path(__file__).parents[2] / ".runtimes" / "openvino"


@dataclasses.dataclass(frozen=True)
class Vendor:
    """One accelerator."""

    title: str  # what it is called in reports
    kind: str  # "gpu" or "npu"
    library: str  # a library of the SDK, as a pattern of file names, by which its folder is known
    sdk: str  # what is missing where that is not found, and where it comes from
    manufacturer: str = ""  # what LiteRT's compiler calls the manufacturer; of an NPU
    plugin: str = ""  # folder of LiteRT's compiler plugin; of an NPU
    soc: str = ""  # the chip that is compiled for unless another is named; of an NPU
    flags: tuple[str, ...] = ()  # further flags of LiteRT's compiler
    runs: bool = False  # whether the compiled file runs on this host
    float16: bool = False  # whether it may compute floats in 16 bits


VENDORS: dict[str, Vendor] = {
    "gpu": Vendor(
        "GPU (LiteRT's WebGPU accelerator)",
        "gpu",
        _SWIFTSHADER,
        "a Vulkan driver: Debian's package chromium brings SwiftShader, one in software "
        "(scripts/runtimes installs it)",
        runs=True,
    ),
    "intel-npu": Vendor(
        "Intel NPU (OpenVINO, run on the CPU)",
        "npu",
        "libopenvino.so*",
        "OpenVINO: `pip install --target DIR --no-deps openvino==2026.3.1`, then "
        "--libraries intel-npu=DIR/openvino/libs (scripts/runtimes sets it up)",
        "IntelOpenVINO",
        "intel_openvino",
        "LNL",
        ("--intel_openvino_graph_backends=cpu",),
        runs=True,
        float16=True,  # bfloat16 where this host's CPU has it
    ),
    "qualcomm": Vendor(
        "Qualcomm NPU",
        "npu",
        "libQnnHtp.so",
        "Qualcomm's AI Engine Direct SDK (QAIRT 2.50 or newer), under its own licence: "
        "--libraries qualcomm=DIR names the folder of libQnnHtp.so and libQnnSystem.so",
        "Qualcomm",
        "qualcomm",
        "SM8650",
    ),
    "mediatek": Vendor(
        "MediaTek NPU",
        "npu",
        "libneuron_adapter*.so",
        "MediaTek's NeuroPilot SDK: --libraries mediatek=DIR names the folder of "
        "libneuron_adapter.so",
        "MediaTek",
        "mediatek",
        "mt6989",
    ),
    "google-tensor": Vendor(
        "Google Tensor TPU",
        "npu",
        "*.so*",  # its name is not published
        "Google's Tensor ML SDK, which is given to partners: --libraries google-tensor=DIR names "
        "the folder of its compiler's library",
        "Google",
        "google_tensor",
        "Tensor_G5",
    ),
    "samsung": Vendor(
        "Samsung NPU",
        "npu",
        "*.so*",  # its name is not published
        "Samsung's Exynos AI LiteCore SDK: --libraries samsung=DIR names the folder of its "
        "compiler's library",
        "Samsung",
        "samsung",
        "E9955",
    ),
}


_SHORT = {"intel": "intel-npu", "google": "google-tensor"}


def parse(names: str) -> list[tuple[str, str]]:
    """Reads "gpu,qualcomm:SM8750" as names and chips; refuses a name twice, or a chip of a GPU."""
    chosen: list[tuple[str, str]] = []
    for part in filter(None, (part.strip() for part in names.split(","))):
        name, _, soc = part.partition(":")
        name = _SHORT.get(name, name)
        vendor = VENDORS.get(name)
        if vendor is None:
            raise errors.ConfigError(
                "accelerators", ", ".join(VENDORS), repr(name), errors.nearest(name, VENDORS)
            )
        if soc and vendor.kind != "npu":
            raise errors.ConfigError(f"accelerator {name}", "no name of a chip", repr(soc))
        chosen.append((name, soc or vendor.soc))
    if not chosen or len(set(chosen)) < len(chosen):
        raise errors.ConfigError(
            "accelerators", "different ones of " + ", ".join(VENDORS), repr(names)
        )
    return chosen


def parse_libraries(options: list[str]) -> dict[str, pathlib.Path]:
    """Reads NAME=DIR options."""
    folders = {}
    for text in options:
        name, _, folder = text.partition("=")
        name = _SHORT.get(name, name)
        if name not in VENDORS or not folder:
            raise errors.ConfigError(
                "libraries", "NAME=DIR, NAME one of " + ", ".join(VENDORS), repr(text)
            )
        folders[name] = pathlib.Path(folder).expanduser().resolve()
        if not folders[name].is_dir():
            raise errors.ConfigError(f"libraries {name}", "a folder", folder)
    return folders


def folder_of(name: str, libraries: Mapping[str, pathlib.Path]) -> pathlib.Path | None:
    """Finds the folder of an accelerator's libraries; None where the system's linker has them.

    Where they are missing, the EnvironmentFault says which.
    """
    vendor = VENDORS[name]
    if name in libraries:
        folder = libraries[name]
        if any(folder.glob(vendor.library)):
            return folder
        raise errors.EnvironmentFault(
            f"libraries of {vendor.title}", f"{vendor.library} in {folder}", "none", _needs(vendor)
        )
    places = [pathlib.Path(place) for place in _CHROMIUM] if name == "gpu" else []
    if name == "intel-npu":
        places = [_CHECKOUT_OPENVINO / "openvino" / "libs"]
        with contextlib.suppress(ImportError, ValueError):
            if (spec := importlib.util.find_spec("openvino")) and spec.origin:
                places.insert(0, pathlib.Path(spec.origin).parent / "libs")
    for folder in places:
        if any(folder.glob(vendor.library)):
            return folder
    if name == "gpu" and ctypes.util.find_library("vulkan"):
        return None
    raise errors.EnvironmentFault(
        f"libraries of {vendor.title}", vendor.library, "none", _needs(vendor)
    )


def _needs(vendor: Vendor) -> str:
    return f"It needs {vendor.sdk}."


def variables(folder: pathlib.Path | None, scratch: pathlib.Path) -> dict[str, str]:
    """Returns the variables by which a process finds the libraries in the folder of `folder_of`.

    What has to be written goes to `scratch`.
    """
    if folder is None:
        return {}
    environment = {"LD_LIBRARY_PATH": str(folder)}
    if (folder / _SWIFTSHADER).is_file():
        driver = {"library_path": str(folder / _SWIFTSHADER), "api_version": "1.0.5"}
        described = scratch / "swiftshader.json"
        described.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": driver}))
        # The newer and the older name of one variable.
        environment |= dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(described))
    return environment


def litert_folder() -> pathlib.Path:
    """Returns the folder of the installed package ai_edge_litert."""
    import ai_edge_litert

    return pathlib.Path(next(iter(ai_edge_litert.__path__)))
