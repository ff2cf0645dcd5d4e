"""Options of the commands that measure: on which device, and what tensors are for."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tfdistill import errors
from tfdistill.commands.options import add_plain, flag_of

if TYPE_CHECKING:
    from tfdistill.benchmark import schema
    from tfdistill.benchmark.settings import Settings


def add_roles(group: argparse._ActionsContainer) -> None:
    """Adds --roles: what the tensors of a file are for."""
    text = "roles of tensors whose names do not say it: args_0=input_ids,...; "
    add_plain(group, {"--roles NAME=ROLE,...": f"{text}0=input_ids names an input by position"})


def add_device(group: argparse._ActionsContainer, *, several: bool = False) -> None:
    """Adds where to measure: --device, and which phone and program."""
    text = "this machine, or a phone through adb (default: %(default)s)"
    add_plain(group, {"--device": text}, choices=("host", "adb"), default="host")
    repeated: dict[str, Any] = {"action": "append", "default": []} if several else {}
    text = "which phone, as `adb devices` lists it"
    text += ", or all; may be given several times" if several else ""
    add_plain(group, {"--serial SERIAL": text}, **repeated)
    add_plain(group, {"--binary PATH": "LiteRT's benchmark_model for the phone"})


def measurer(args: argparse.Namespace) -> Callable[..., schema.Result]:
    """Returns what measures (models, settings) on the one device that --device names."""

    def measure(models: Mapping[str, pathlib.Path], settings: Settings) -> schema.Result:
        if args.device == "host":
            from tfdistill.benchmark import host

            return host.compare(models, settings=settings)
        from tfdistill.benchmark import adb
        from tfdistill.benchmark.adb import measuring as on_devices

        shown: dict[str, str] = {}
        results = adb.measure(
            models,
            settings=settings,
            serials=() if args.serial is None else (args.serial,),
            binary=args.binary,
            shown=shown,
        )
        if len(results) != 1:
            raise errors.BenchmarkError(
                "--serial", "one device", len(results), "Choose it with --serial SERIAL."
            )
        return on_devices.show_serials_in_failures(results[0], shown)

    return measure


def device_faults(args: argparse.Namespace) -> list[str]:
    """Options of a phone that were given for the host."""
    phone = ("serial", "binary")
    return [
        errors.explain(flag_of(name), "--device adb", "--device host")
        for name in phone
        if args.device == "host" and getattr(args, name, None)
    ]
