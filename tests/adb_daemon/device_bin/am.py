"""Starts and stops the app: its process is not a child of the shell, as on a phone."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

DEVICE = pathlib.Path(os.environ["DEVICE"])
APP = pathlib.Path(__file__).parents[1] / "app.py"
TYPES = {"--es": str, "--ei": int, "--ef": float}


def start(arguments: list[str]) -> int:
    extras, component = {}, ""
    while arguments:
        option = arguments.pop(0)
        if option in TYPES:
            name, value = arguments.pop(0), arguments.pop(0)
            extras[name] = TYPES[option](value)
        elif option == "-n":
            component = arguments.pop(0)
        elif option not in ("-W", "-S"):
            print(f"Error: Unknown option: {option}", file=sys.stderr)
            return 255
    app = json.loads((DEVICE / "says/app.json").read_text())
    stop(app["package"])
    print(f"Starting: Intent {{ cmp={component} (has extras) }}")
    if component != app["package"] + "/io.github.tfdistill.demo.BenchmarkActivity":
        print(f"Error type 3\nError: Activity class {{{component}}} does not exist.")
        return 1
    if app["fault"] == "no permission":
        print("\nException occurred while executing 'start':", file=sys.stderr)
        print("java.lang.SecurityException: Permission Denial: starting Intent", file=sys.stderr)
        return 255
    process = subprocess.Popen(
        [sys.executable, "-I", APP, DEVICE, json.dumps(extras)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    (DEVICE / "says/app.pid").write_text(f"{process.pid}\n")
    print(f"Status: ok\nLaunchState: COLD\nActivity: {component}\nTotalTime: 321\nComplete")
    return 0


def stop(package: str) -> None:
    app, pid = DEVICE / "says/app.json", DEVICE / "says/app.pid"
    if pid.exists() and json.loads(app.read_text())["package"] == package:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)
        pid.unlink()


if sys.argv[1] == "start":
    sys.exit(start(sys.argv[2:]))
if sys.argv[1] == "force-stop":
    stop(sys.argv[2])
