"""Creates .venv from the lock files, or brings it up to date (called by scripts/setup).

A stamp inside .venv says what it was made from. It is written last, so that an interrupted set-up
is seen and started over; a lock on a file lets only one set-up work at a time, and the others wait.
Only the standard library is used: this runs before anything is installed.
"""

import functools
import hashlib
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile

import setting_up
from setting_up import SetupError

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
STAMP = VENV / "tfdistill-stamp"
UNFINISHED = VENV / "tfdistill-unfinished"
SOURCES = ("requirements-build.lock", "requirements.lock", "setup.py", "tfdistill/_version.py")
NEEDED_MODULES = ("venv", "ensurepip")
NEEDED_BYTES = 5 * 1000**3  # the packages take 4.1 GB; uv's cache has the same files, linked

say = functools.partial(setting_up.say, "setup")


def fingerprint() -> str:
    """Returns a digest of everything that the environment is made from, the place included.

    The place counts because a virtual environment works only where it was made.
    """
    digest = hashlib.sha256(f"{ROOT}\n".encode())
    for name in SOURCES:
        digest.update((ROOT / name).read_bytes() + b"\0")
    return digest.hexdigest()


def is_current() -> bool:
    """Tells whether .venv was made whole, here, from the files as they are now."""
    try:
        return STAMP.read_text().strip() == fingerprint() and PYTHON.exists()
    except OSError:
        return False


def run(command: list[str], variables: dict[str, str]) -> None:
    """Runs a command whose talk goes to stderr."""
    done = subprocess.run(command, stdout=sys.stderr, env=variables, cwd=ROOT, check=False)
    if done.returncode:
        raise SetupError(
            f"`{' '.join(command[1:4])} ...` failed with exit code {done.returncode}; "
            "the lines above say why. Run the command again when that is mended."
        )


def check_machine() -> None:
    """Finds out before the long work whether it can succeed."""
    missing = [name for name in NEEDED_MODULES if importlib.util.find_spec(name) is None]
    if missing:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SetupError(
            f"{sys.executable}: expected the modules {' and '.join(NEEDED_MODULES)}, received no "
            f"{' and no '.join(missing)} (Debian packs them apart). "
            f"Run: apt install python{version}-venv"
        )
    setting_up.check_disk(ROOT, NEEDED_BYTES)


def install(variables: dict[str, str]) -> None:
    """Brings .venv to exactly the locked versions, and tfdistill itself as an editable install."""
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    # pip installs uv, which installs the rest: in 20 s where pip takes 150.
    pip = [str(PYTHON), "-m", "pip", "install", "--no-input", *quiet]
    hashes = "--require-hashes"
    run([*pip, hashes, "--no-deps", "--requirement", "requirements-build.lock"], variables)
    variables = setting_up.for_uv(PYTHON, variables)
    # The lock is complete, so nothing is resolved, and what the few packages without a wheel are
    # built with is locked too, so that they come out the same tomorrow.
    install = setting_up.uv_install(UV, PYTHON, "--no-build-isolation", *quiet)
    # A program that may not leave bytecode behind would compile TensorFlow at each start: 10 s.
    compiled = ["--compile-bytecode"] if variables.get("PYTHONDONTWRITEBYTECODE") else []
    run([*install, *compiled, hashes, "--requirement", "requirements.lock"], variables)
    run([*install, "--editable", "."], variables)


def set_up() -> None:
    """Makes .venv current."""
    if UNFINISHED.exists() or (VENV.exists() and not PYTHON.exists()):
        say("the last set-up did not finish; starting over")
        shutil.rmtree(VENV)
    fresh = not VENV.exists()
    if fresh:
        check_machine()
        VENV.mkdir()
    UNFINISHED.touch()
    STAMP.unlink(missing_ok=True)
    say(f"{'creating' if fresh else 'updating'} .venv (TensorFlow is large: some minutes)")
    with tempfile.TemporaryDirectory(prefix="tfdistill-", dir=VENV) as temporary:
        # /tmp may be small and in memory; what is unpacked there is as large as what is installed.
        variables = setting_up.environment(TMPDIR=temporary)
        if fresh:
            run([sys.executable, "-m", "venv", str(VENV)], variables)
        install(variables)
    UNFINISHED.unlink()
    STAMP.write_text(fingerprint() + "\n")
    say("done")


def set_up_once() -> None:
    """Makes .venv current unless it is, or another set-up that was waited for has done it."""
    if is_current():
        return
    with setting_up.only_one("setup", ROOT / ".venv.lock"):
        if not is_current():
            set_up()


def main() -> int:
    """Runs the set-up and returns the exit code."""
    return setting_up.exit_code("setup", set_up_once)


if __name__ == "__main__":
    sys.exit(main())
