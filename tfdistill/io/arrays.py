"""Arrays in safetensors files that say what they were made from and carry their checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import safetensors
import safetensors.numpy

from tfdistill import errors
from tfdistill.io import files

_SHA256, _MADE_FROM = "sha256", "made_from"


def write_arrays(
    path: files.Path,
    arrays: Mapping[str, np.ndarray],
    *,
    made_from: str = "",
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes arrays by name, whole or not at all; `metadata` are more entries for the header.

    `made_from` is what they were computed from, such as a hash of the inputs.
    """
    whole = {
        name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()
    }
    header = {**(metadata or {}), _MADE_FROM: made_from}
    header[_SHA256] = digest_of(whole, header)
    with files.atomic_write(path) as temporary:
        safetensors.numpy.save_file(whole, temporary, metadata=header)


def read_arrays(
    path: files.Path,
    *,
    made_from: str | None = None,
    error: type[errors.TfdistillError] = errors.WeightsError,
    remedy: str = "",
    entries: dict[str, str] | None = None,
) -> dict[str, np.ndarray]:
    """Reads what `write_arrays` wrote: name -> array; `entries` gets those of the header.

    Raises `error` if the file is missing, cut short, altered since it was written, or made from
    something else than `made_from`; None takes any.
    """
    files.check_readable(path)
    try:
        with (
            files.local_copy(path) as local,
            safetensors.safe_open(local, framework="numpy") as file,
        ):
            header = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, TypeError, ValueError, AttributeError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        raise error(f"{path}", "a whole safetensors file", reason, remedy) from None
    if header.pop(_SHA256, None) != digest_of(arrays, header):
        raise error(f"{path}", "the arrays that were written", "another checksum", remedy)
    if made_from is not None and header.get(_MADE_FROM) != made_from:
        raise error(f"{path}", f"arrays made from {made_from}", header.get(_MADE_FROM), remedy)
    if entries is not None:
        entries |= header
    return arrays


def digest_of(arrays: Mapping[str, np.ndarray], header: Mapping[str, str]) -> str:
    """The SHA-256 of arrays, their names, types and shapes, and of the entries of a header."""
    digest = hashlib.sha256(repr(sorted(header.items())).encode())
    for name, array in sorted(arrays.items()):
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
