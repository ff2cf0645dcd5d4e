"""Several devices at once: each in a thread of its own, and Ctrl-C for all of them."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from tfdistill import errors
from tfdistill.benchmark import interruption, schema
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.host import places

_POLL_S = 1.0
_Found = TypeVar("_Found", bound=places.Findings)


def measure_on_each(
    phones: Sequence[Phone],
    found: Sequence[_Found],
    work: Callable[[Phone, _Found], None],
    assemble: Callable[[Phone, _Found], schema.Result],
) -> list[schema.Result]:
    """Measures on several devices at once, and makes a result for each.

    Args:
      phones: The devices.
      found: One for each: is filled as the work goes on.
      work: Measures on one device, and keeps what it finds.
      assemble: Makes a result of what was found.

    Returns:
      One result a device, in their order.

    Raises:
      BenchmarkError: If nothing at all was found on any of them.
      BenchmarkInterrupted: At Ctrl-C, with what was finished.
    """
    by_phone = dict(zip(phones, found, strict=True))
    finished = on_each(phones, lambda phone: work(phone, by_phone[phone]))
    if finished and not any(found):
        faults = [failure.error for one in found for failure in one.failures]
        raise errors.BenchmarkError("\n".join(dict.fromkeys(faults)) or "Nothing was measured.")
    results = [assemble(*pair) for pair in by_phone.items()] if any(found) else []
    if not finished:
        raise interruption.BenchmarkInterrupted(results)
    return results


def on_each(phones: Sequence[Phone], work: Callable[[Phone], None]) -> bool:
    """Works on several devices at once, and waits for all of them.

    Args:
      phones: The devices.
      work: Works on one. After Ctrl-C, and after a fault of this program in the work on another
        device, it gets KeyboardInterrupt from the phone, cleans up and returns.

    Returns:
      Whether it came to its end; False after Ctrl-C.
    """
    finished, stopping = True, False
    to_start, futures = list(phones), []
    waiting: Collection[object] = phones
    with concurrent.futures.ThreadPoolExecutor(len(phones)) as pool:
        while waiting:
            try:  # around everything: Ctrl-C may come at any time, and again
                if stopping:
                    for phone in phones:
                        phone.stop()
                while to_start:
                    futures.append(pool.submit(work, to_start.pop(0)))
                done, waiting = concurrent.futures.wait(futures, timeout=_POLL_S)
                stopping |= any(future.exception() is not None for future in done)
            except KeyboardInterrupt:
                finished, stopping = False, True
                to_start.clear()
    for future in futures:
        future.result()  # a fault of this program is not hidden
    return finished
