#!/usr/bin/env python3
"""Compares requirements.lock with published advisories, before a release.

Needs pip-audit beside this Python or on the PATH (`pip install pip-audit`). Ends with 0 where no
advisory is known, 1 where one is, 3 where it was not run: no source answered for every package.
pip-audit itself ends with 0 where a source knows none of the packages.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

LOCK = pathlib.Path(__file__).parents[1] / "requirements.lock"
SOURCES = ("pypi", "osv")
CLEAN, VULNERABLE, NOT_RUN = 0, 1, 3


def main(lock: pathlib.Path = LOCK) -> int:
    """Asks one source after the other until one answers for every package."""
    places = os.pathsep.join((str(pathlib.Path(sys.executable).parent), os.environ["PATH"]))
    program = shutil.which("pip-audit", path=places)
    if program is None:
        print("audit: not run: pip-audit is not installed (pip install pip-audit)")
        return NOT_RUN
    for source in SOURCES:
        packages, reason = _ask(program, source, lock)
        skipped = [package["name"] for package in packages if "skip_reason" in package]
        advisories = [
            f"{package['name']} {package['version']}: {advisory['id']}, mended in "
            f"{', '.join(advisory['fix_versions']) or 'no version'}"
            for package in packages
            for advisory in package.get("vulns", ())
        ]
        if advisories:
            print("\n".join([f"audit: {len(advisories)} advisories of {source}:", *advisories]))
            return VULNERABLE
        if packages and not skipped:
            print(f"audit: {source} knows no advisory of the {len(packages)} packages")
            return CLEAN
        reason = reason or f"no answer for {len(skipped)} of {len(packages)} packages"
        print(f"audit: {source}: {reason}")
    print("audit: not run: no source answered for every package")
    return NOT_RUN


def _ask(program: str, source: str, lock: pathlib.Path) -> tuple[list[dict], str]:
    """What a source says of each package, and the last line of a failure."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [
            *(program, "--requirement", lock, "--require-hashes", "--disable-pip"),
            *("--vulnerability-service", source, "--timeout", "30", "--progress-spinner", "off"),
            *("--format", "json", "--output", report),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if not report.is_file():
            return [], (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:200]
        return json.loads(report.read_bytes())["dependencies"], ""


if __name__ == "__main__":
    sys.exit(main())
