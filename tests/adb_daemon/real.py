"""A phone behind Debian's own adbd: its shell is mksh, its programs are toybox's, as on Android.

Everything lives in a network and a mount namespace of its own: adbd listens on all addresses. The
adb server runs inside, and is reached through a socket in the file system.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import time

from adb_daemon import processes
from adb_daemon.phone import BORROWED, make_phone

RUNTIME = pathlib.Path(__file__).parents[2] / ".runtimes" / "adbd"
PORT = 7555  # not among those where adb looks for emulators
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
# The namespace has the machine's folders, but for /bin, and those of the phone.
_START = """
set -e
ip link set lo up
mount -t tmpfs none "$ROOT"
for folder in /*; do
    name=${folder#/}
    case $name in lost+found | bin | sbin | system | data | sdcard) continue ;; esac
    if [ -L "$folder" ]; then
        cp -P "$folder" "$ROOT/"
    elif [ -d "$folder" ]; then
        mkdir "$ROOT/$name"
        mount --rbind "$folder" "$ROOT/$name"
    fi
done
mkdir "$ROOT/bin" "$ROOT/sbin"
cp -L "$RUNTIME/usr/bin/mksh-static" "$ROOT/bin/sh"
for name in system data sdcard; do
    mkdir "$ROOT/$name"
    mount --bind "$DEVICE/$name" "$ROOT/$name"
done
exec chroot "$ROOT" /usr/bin/env -i \\
    PATH=/system/bin HOME=/data DEVICE="$DEVICE" ADBD_PORT="$PORT" \\
    "$LINKER" --library-path "$LIBRARIES" "$RUNTIME/usr/lib/android-sdk/platform-tools/adbd"
"""


class RealDaemon:
    """An adbd of Debian's, with an adb server that knows it alone.

    Attributes:
      root: The phone's files; /proc and /sys are the machine's.
      serial: As `adb devices` lists it.
      variables: What makes adb talk to this server.
    """

    serial = f"127.0.0.1:{PORT}"

    def __init__(self, folder: pathlib.Path, adb: str, **properties: str):
        self.root = make_phone(folder / "phone", **properties)
        self._use_toybox()
        mount_point = folder / "root"
        mount_point.mkdir()
        libraries = RUNTIME / _LIBRARIES
        environment = {
            **os.environ,
            "ROOT": str(mount_point),
            "DEVICE": str(self.root),
            "PORT": str(PORT),
            "RUNTIME": str(RUNTIME),
            "LINKER": str(libraries / "ld-linux-x86-64.so.2"),
            "LIBRARIES": f"{libraries / 'android'}:{libraries}",
            "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
        }
        options = [] if os.geteuid() == 0 else ["--map-root-user"]
        self._log = folder / "adbd.log"
        with open(self._log, "wb") as log:
            self.adbd = subprocess.Popen(
                ["unshare", *options, "--net", "--mount", "sh", "-c", _START],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait(lambda: "adbd started" in self._log.read_text(), "adbd")
        socket = folder / "adb"
        self.variables = {
            "HOME": str(folder),
            "ADB_SERVER_SOCKET": f"localfilesystem:{socket}",
            "ADB_LOCAL_TRANSPORT_MAX_PORT": "5554",  # looks for no emulators
        }
        users = ["--user", "--preserve-credentials"] if options else []
        enter = ["nsenter", f"--target={self.adbd.pid}", *users, "--net"]
        self.server = subprocess.Popen(
            [*enter, adb, "-L", f"localfilesystem:{socket}", "server", "nodaemon"],
            env={**os.environ, **self.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait(socket.exists, "adb's server")
        self.adb = [adb]
        self.connect()

    def connect(self) -> None:
        """Connects, as a cable would."""
        self._run("connect", self.serial)

    def disconnect(self) -> None:
        """Disconnects, as a cable that is pulled."""
        self._run("disconnect", self.serial)

    def path(self, name: str) -> pathlib.Path:
        """Returns the path of a file of the phone on this machine."""
        return self.root / name.lstrip("/")

    def running(self) -> list[int]:
        """Returns the processes that run in the phone's own /bin/sh or below it."""
        return processes.with_variable(f"DEVICE={self.root}", but=self.adbd.pid)

    def close(self) -> None:
        """Ends everything."""
        for process in (self.server, self.adbd):
            process.kill()
            process.wait()

    def _use_toybox(self) -> None:
        libraries = RUNTIME / _LIBRARIES
        toybox = [libraries / "ld-linux-x86-64.so.2", "--library-path", libraries]
        toybox += [RUNTIME / "usr/bin/toybox"]
        listed = subprocess.run(toybox, capture_output=True, text=True, check=True).stdout.split()
        words = " ".join(f'"{part}"' for part in toybox)
        for name in BORROWED:
            program = self.root / "system/bin" / name
            program.unlink()
            if name in listed:
                program.write_text(f'#!/bin/sh\nexec {words} {name} "$@"\n')
                program.chmod(0o755)
            elif name != "sh":  # Debian's toybox has no dd
                program.symlink_to(f"/usr/bin/{pathlib.Path(shutil.which(name) or name).name}")
        (self.root / "system/bin/sh").symlink_to("/bin/sh")

    def _run(self, *arguments: str) -> None:
        environment = {**os.environ, **self.variables}
        subprocess.run(
            [*self.adb, *arguments], env=environment, check=True, capture_output=True, timeout=60
        )

    def _wait(self, condition, what: str) -> None:
        for _ in range(600):
            if condition():
                return
            if self.adbd.poll() is not None:
                break
            time.sleep(0.05)
        self.adbd.kill()
        sys.stderr.write(self._log.read_text()[-3000:])
        raise AssertionError(f"{what} did not start")
