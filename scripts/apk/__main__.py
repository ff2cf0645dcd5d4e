"""Assembles a package of the Android demo from what Maven built (called by scripts/android apk).

Android Studio makes the package that people install. This one shows that one can be made: that
the classes become dex, that assets and libraries lie in it so that they are mapped and not
unpacked, and that it can be signed. It is signed with a key that is made up on the spot.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

DEMO = pathlib.Path(__file__).resolve().parents[2] / "android_demo"
APP = DEMO / "demo"
BUILT = DEMO / "ci" / "maven" / "demo" / "target"
AARS = DEMO / "ci" / "maven" / "aars" / "target"
MIN_API = 26
PAGE_BYTES = 16384  # libraries are mapped page by page
ABIS = ("arm64-v8a", "x86_64")
STORED = (".tflite", ".int8", ".arsc", ".so", ".png")
_ALIGNMENT_FIELD = 0xD935  # tells the signer to keep the alignment
_EARLIEST = (1981, 1, 1, 0, 0, 0)  # the same classes give the same package


class PackageError(Exception):
    """There can be no package; the message says why."""


def run(*command: str | pathlib.Path) -> str:
    """Runs a command and returns what it says."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PackageError(f"{command[0]} failed with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def dex(folder: pathlib.Path, *, shrunk: bool) -> list[pathlib.Path]:
    """Makes dex files of the app, its libraries and TensorFlow Lite; returns them.

    Of LiteRT 2, which the app asks for a GPU, there are declarations alone: they say so.

    Args:
      folder: Where they go.
      shrunk: Whether R8 takes out what is not used, by the rules of the build type benchmark, of
        the libraries' jars, and of aapt2 for the manifest and the layouts.
    """
    jars = sorted((BUILT / "libraries").glob("*.jar"))
    jars += [path for path in sorted(BUILT.glob("*.jar")) if "sources" not in path.name]
    runtime = folder / "runtime.jar"
    classes = AARS / "classes"
    with zipfile.ZipFile(runtime, "w") as archive:
        for package in ("org/tensorflow", "com/google/ai/edge"):
            for path in sorted((classes / package).rglob("*.class")):
                archive.write(path, path.relative_to(classes).as_posix())
    tools = BUILT / "tools"
    program, rules = "D8", ()
    if shrunk:
        # Robolectric's framework lacks the classes of Java itself.
        java = pathlib.Path(shutil.which("java") or "java").resolve().parents[1]
        rule_files = (APP / "proguard-rules.pro", BUILT / "components.pro")
        program = "R8"
        rules = ("--lib", java, *(part for file in rule_files for part in ("--pg-conf", file)))
    run(
        *("java", "-cp", tools / "r8.jar", f"com.android.tools.r8.{program}", "--release"),
        *("--min-api", str(MIN_API), "--lib", tools / "android-all.jar", "--output", folder),
        *rules,
        *jars,
        runtime,
    )
    return sorted(folder.glob("classes*.dex"))


def native_libraries() -> dict[str, bytes]:
    """Reads TensorFlow Lite's libraries of the processors that phones and emulators have."""
    archive = AARS / "aar" / "tensorflow-lite.aar"
    with zipfile.ZipFile(archive) as aar:
        return {
            f"lib/{abi}/{pathlib.PurePosixPath(name).name}": aar.read(name)
            for abi in ABIS
            for name in sorted(aar.namelist())
            if name.startswith(f"jni/{abi}/") and name.endswith(".so")
        }


def contents(assets: pathlib.Path, folder: pathlib.Path, *, shrunk: bool) -> dict[str, bytes]:
    """Gathers all files of the package by name."""
    with zipfile.ZipFile(BUILT / "resources.apk") as resources:
        entries = {name: resources.read(name) for name in resources.namelist()}
    entries |= {path.name: path.read_bytes() for path in dex(folder, shrunk=shrunk)}
    entries |= native_libraries()
    for path in sorted(assets.rglob("*")):
        if path.is_file():
            entries[f"assets/{path.relative_to(assets).as_posix()}"] = path.read_bytes()
    return entries


def write(package: pathlib.Path, files: dict[str, bytes]) -> None:
    """Writes a package; what is mapped is stored, and begins where a page or a word does."""
    with zipfile.ZipFile(package, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            if name.endswith(STORED):
                entry.compress_type = zipfile.ZIP_STORED
                multiple = PAGE_BYTES if name.endswith(".so") else 4
                begin = archive.fp.tell() + 30 + len(name.encode()) + 6  # pyright: ignore
                padding = -begin % multiple
                entry.extra = struct.pack("<HHH", _ALIGNMENT_FIELD, 2 + padding, multiple)
                entry.extra += bytes(padding)
            archive.writestr(entry, content)


def sign(unsigned: pathlib.Path, package: pathlib.Path, folder: pathlib.Path) -> None:
    """Signs a package with a new key."""
    store = folder / "key.p12"
    key = ("-keystore", store, "-storetype", "PKCS12", "-storepass", "android", "-alias", "demo")
    name = ("-dname", "CN=tfdistill demo", "-keyalg", "EC", "-groupname", "secp256r1")
    run("keytool", "-genkeypair", *key, *name, "-validity", "10000")
    keys = ("--ks", store, "--ks-pass", "pass:android", "--ks-key-alias", "demo")
    run("apksigner", "sign", *keys, "--out", package, unsigned)
    run("zipalign", "-c", "-p", "4", package)
    run("apksigner", "verify", "--min-sdk-version", str(MIN_API), package)


def main(arguments: list[str] | None = None) -> int:
    """Assembles a package and returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/android apk", description="Assembles a package.")
    parser.add_argument("--assets", type=pathlib.Path, default=APP / "src" / "main" / "assets")
    parser.add_argument("--out", type=pathlib.Path, default=BUILT / "app.apk")
    parser.add_argument(
        "--shrunk", action="store_true", help="shrink it as the build that is measured"
    )
    args = parser.parse_args(arguments)
    try:
        if not (BUILT / "resources.apk").is_file():
            raise PackageError("nothing was built yet: run scripts/android test first.")
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            write(folder / "unsigned.apk", contents(args.assets, folder, shrunk=args.shrunk))
            sign(folder / "unsigned.apk", folder / "signed.apk", folder)
            args.out.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(folder / "signed.apk", args.out)
    except (PackageError, OSError) as error:
        print(f"android: {error}", file=sys.stderr)
        return 1
    print(f"{args.out} ({args.out.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
