"""The device's side of the adb protocol: connections, streams, shell v2 and file sync.

A folder is the file system of the device. A command runs as a process of this machine, with the
device's folders in it replaced by those inside that folder and the device's programs on its PATH.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import queue
import re
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator

FOLDERS = re.compile(r"(?<![\w./-])/(?=(?:data|sdcard|proc|sys)/)")
VERSION, MAX_DATA = 0x01000001, 1 << 18  # this version leaves checksums out
WRITE = b"WRTE"  # codespell:ignore wrte
TOKEN, STDOUT, STDERR, EXIT = 1, 1, 2, 3


@dataclasses.dataclass
class Faults:
    """What goes wrong on the device; nothing by default.

    Attributes:
      unauthorized: Nobody accepts the computer's key.
      old: The device knows no shell v2 (Android 6).
      lost_at: A command that contains this loses the connection for good after its first output.
      hang_at: A command that contains this prints nothing and does not end.
      full_after: The storage holds no more bytes than this.
      cut_after: The connection is lost for good after so many bytes of a file.
      garble: The first byte of a pushed file changes.
    """

    unauthorized: bool = False
    old: bool = False
    lost_at: str | None = None
    hang_at: str | None = None
    full_after: int | None = None
    cut_after: int | None = None
    garble: bool = False


class Lost(Exception):
    """The connection is gone."""


class Daemon:
    """A device that listens on 127.0.0.1 until it is closed, or lost by a fault.

    Attributes:
      root: The folder that is its file system.
      serial: What `adb connect` takes and `adb devices` lists.
      faults: What goes wrong from now on.
      commands: Every command that ran, in order, before the folders were replaced.
    """

    def __init__(self, root: pathlib.Path, *, model: str = "Pixel_8"):
        self.root, self.model, self.faults = root, model, Faults()
        self.commands: list[str] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.serial = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def path(self, name: str) -> pathlib.Path:
        """Returns where a file of the device lies on this machine."""
        return self.root / name.lstrip("/")

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connected, _ = self._listener.accept()
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(connected)
                threading.Thread(target=_Connection(self, connected).serve, daemon=True).start()

    def lose(self) -> None:
        """Loses the connection, and lets nobody connect again."""
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        """Ends everything that is left."""
        self.lose()
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class _Connection:
    """One computer: reads messages and gives each stream its own thread."""

    def __init__(self, daemon: Daemon, connected: socket.socket):
        self.daemon, self.socket = daemon, connected
        self.streams: dict[int, _Stream] = {}
        self.writing = threading.Lock()

    def send(self, command: bytes, first: int, second: int, data: bytes = b"") -> None:
        (number,) = struct.unpack("<I", command)
        header = (number, first, second, len(data), 0, number ^ 0xFFFFFFFF)
        with self.writing:
            try:
                self.socket.sendall(struct.pack("<6I", *header) + data)
            except OSError as error:
                raise Lost from error

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except OSError as error:
                raise Lost from error
            if not more:
                raise Lost
            data += more
        return data

    def serve(self) -> None:
        with contextlib.suppress(Lost):
            while True:
                header = struct.unpack("<4s5I", self.read(24))
                self.answer(header[0], header[1], header[2], self.read(header[3]))
        for stream in list(self.streams.values()):
            stream.end()

    def answer(self, command: bytes, remote_id: int, ours: int, data: bytes) -> None:
        faults = self.daemon.faults
        if command in (b"CNXN", b"AUTH"):
            if faults.unauthorized:
                if remote_id != 3:  # a public key waits for somebody to accept it
                    self.send(b"AUTH", TOKEN, 0, bytes(20))
            else:
                features = "" if faults.old else "features=shell_v2"
                banner = f"device::ro.product.model={self.daemon.model};{features}"
                self.send(b"CNXN", VERSION, MAX_DATA, banner.encode())
        elif command == b"OPEN":
            stream = _Stream(self, ours=max(self.streams, default=0) + 1, remote_id=remote_id)
            self.streams[stream.ours] = stream
            self.send(b"OKAY", stream.ours, remote_id)
            service = data.rstrip(b"\0").decode()
            threading.Thread(target=stream.serve, args=(service,), daemon=True).start()
        elif ours in self.streams:
            self.streams[ours].take(command, data)


class _Stream:
    """One service of a connection."""

    def __init__(self, connection: _Connection, ours: int, remote_id: int):
        self.connection, self.ours, self.remote_id = connection, ours, remote_id
        self.daemon = connection.daemon
        self.inbox: queue.Queue[bytes] = queue.Queue()
        self.buffer = b""
        self.acknowledged = threading.Semaphore(1)
        self.writing = threading.Lock()
        self.closed = False
        self.process: subprocess.Popen[bytes] | None = None

    def take(self, command: bytes, data: bytes) -> None:
        if command == WRITE:
            self.inbox.put(data)
            self.connection.send(b"OKAY", self.ours, self.remote_id)
        elif command == b"OKAY":
            self.acknowledged.release()
        elif command == b"CLSE":
            self.end()

    def end(self) -> None:
        """What adbd does when its peer is gone: hangs up on the process that it started."""
        self.closed = True
        self.inbox.put(b"")
        self.acknowledged.release()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGHUP)

    def read(self, size: int) -> bytes:
        while len(self.buffer) < size:
            if not (more := self.inbox.get()):
                raise Lost
            self.buffer += more
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def write(self, data: bytes) -> None:
        with self.writing:
            self.acknowledged.acquire()
            if self.closed:
                raise Lost
            self.connection.send(WRITE, self.ours, self.remote_id, data)

    def serve(self, service: str) -> None:
        name, _, argument = service.partition(":")
        with contextlib.suppress(Lost):
            if name.startswith("shell"):
                self.shell(argument)
            elif name == "sync":
                self.sync()
            self.connection.send(b"CLSE", self.ours, self.remote_id)
        self.connection.streams.pop(self.ours, None)

    def shell(self, command: str) -> None:
        faults, root = self.daemon.faults, str(self.daemon.root)
        self.daemon.commands.append(command)
        if faults.hang_at is not None and faults.hang_at in command:
            command = "sleep 1000"
        environment = {"PATH": f"{root}/system/bin", "DEVICE": root, "HOME": root}
        self.process = process = subprocess.Popen(
            ["/bin/sh", "-c", FOLDERS.sub(f"{root}/", command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=root,
            env=environment,
            start_new_session=True,
        )
        self.daemon.processes.append(process)
        if self.closed:
            process.send_signal(signal.SIGHUP)
        lost = faults.lost_at is not None and faults.lost_at in command
        forward = [
            threading.Thread(target=self.forward, args=(kind, pipe, lost), daemon=True)
            for kind, pipe in ((STDOUT, process.stdout), (STDERR, process.stderr))
        ]
        for thread in forward:
            thread.start()
        for thread in forward:
            thread.join()
        self.write(struct.pack("<BIB", EXIT, 1, process.wait() & 0xFF))

    def forward(self, kind: int, pipe, lost: bool) -> None:
        root = str(self.daemon.root).encode()
        with pipe, contextlib.suppress(Lost):
            for line in pipe:
                if lost and kind == STDERR:
                    self.daemon.lose()
                line = line.replace(root, b"")
                for start in range(0, len(line), 1 << 16):
                    part = line[start : start + (1 << 16)]
                    self.write(struct.pack("<BI", kind, len(part)) + part)
                if lost:
                    self.acknowledged.acquire()  # what was written is not lost
                    self.daemon.lose()

    def sync(self) -> None:
        while True:
            request, size = struct.unpack("<4sI", self.read(8))
            name = self.read(size).decode()
            if request == b"QUIT":
                return
            if request == b"SEND":
                name, _, mode = name.rpartition(",")
                self.receive(self.daemon.path(name), int(mode))
            elif request == b"RECV":
                self.give(self.daemon.path(name))
            elif request == b"STAT":
                self.write(b"STAT" + _facts(self.daemon.path(name)))
            elif request == b"LIST":
                for entry in _entries(self.daemon.path(name)):
                    self.write(b"DENT" + _facts(entry) + _counted(entry.name.encode()))
                self.write(b"DONE" + bytes(16))

    def receive(self, path: pathlib.Path, mode: int) -> None:
        faults, content, fault = self.daemon.faults, b"", ""
        while (header := struct.unpack("<4sI", self.read(8)))[0] == b"DATA":
            content += self.read(header[1])
            if faults.cut_after is not None and len(content) > faults.cut_after:
                self.daemon.lose()
        if faults.garble:
            content = bytes([content[0] ^ 1]) + content[1:]
        if faults.full_after is not None and len(content) > faults.full_after:
            fault = "couldn't write to file: No space left on device"
            content = content[: faults.full_after]
        try:
            path.write_bytes(content)
            path.chmod(mode & 0o777)
        except OSError as error:
            fault = f"couldn't create file: {error.strerror}"
        self.write(b"FAIL" + _counted(fault.encode()) if fault else b"OKAY" + bytes(4))

    def give(self, path: pathlib.Path) -> None:
        try:
            content = path.read_bytes()
        except OSError as error:
            self.write(b"FAIL" + _counted(f"open failed: {error.strerror}".encode()))
            return
        for start in range(0, len(content), 1 << 16):
            self.write(b"DATA" + _counted(content[start : start + (1 << 16)]))
        self.write(b"DONE" + bytes(4))


def _counted(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _facts(path: pathlib.Path) -> bytes:
    try:
        status = path.stat()
    except OSError:
        return bytes(12)
    return struct.pack("<III", status.st_mode, status.st_size & 0xFFFFFFFF, int(status.st_mtime))


def _entries(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    if folder.is_dir():
        yield from sorted(folder.iterdir())
