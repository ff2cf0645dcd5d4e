"""A phone for the tests: a small adb daemon on loopback that Debian's real adb client talks to."""

from adb_daemon.daemon import Daemon, Faults
from adb_daemon.phone import make_phone

__all__ = ["Daemon", "Faults", "make_phone"]
