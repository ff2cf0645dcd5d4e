"""Several devices at once: each in a thread of its own, and Ctrl-C for all of them."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence

from tfdistill.benchmark.adb.phone import Phone


def on_each(phones: Sequence[Phone], work: Callable[[Phone], None]) -> bool:
    """Measures on several devices at once, and waits for all of them.

    Args:
      phones: The devices.
      work: Measures on one, and keeps what it finds. On Ctrl-C it gets KeyboardInterrupt from the
        phone, cleans up and returns.

    Returns:
      Whether it came to its end; False after Ctrl-C.
    """
    finished = True
    with concurrent.futures.ThreadPoolExecutor(len(phones)) as pool:
        waiting = {pool.submit(work, phone) for phone in phones}
        while waiting:
            try:
                done, waiting = concurrent.futures.wait(waiting, timeout=1.0)
            except KeyboardInterrupt:
                finished = False
                for phone in phones:
                    phone.stop()
                continue
            for future in done:
                future.result()  # a fault of this program is not hidden
    return finished
