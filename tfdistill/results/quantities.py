"""Sizes and counts as text: three digits, always a unit. Absent values become a dash."""

from __future__ import annotations

ABSENT = "–"
_MOST_DIGITS = 12


def size(value: float | None) -> str:
    """Writes a size in decimal units: "14.9 MB", "23.1 kB"."""
    return _scaled(value, (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)), "B")


def megabytes(value: float | None, *, absent: str = ABSENT) -> str:
    """Writes a size for a column of megabytes: "14.9", "0.0231"."""
    return absent if value is None else digits(value / 1e6)


def count(value: float | None) -> str:
    """Writes a number of parameters: "14.4 M"."""
    return _scaled(value, (("G", 1e9), ("M", 1e6), ("k", 1e3)), "")


def plural(number: int, noun: str) -> str:
    """Writes a number of things: "1 thread", "2 threads"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def digits(value: float, significant: int = 3) -> str:
    """Writes a positive number with so many significant digits, never in scientific form."""
    if value == 0:
        return "0"
    size = abs(value)
    places = significant - 1
    while size >= 10 and places > 0:
        size /= 10
        places -= 1
    while 0 < size < 1 and places < 12:
        size *= 10
        places += 1
    text = f"{value:,.{places}f}"
    # 9.996 rounds up to 10.00: one digit too many.
    counted = len(text.replace(".", "").replace(",", "").lstrip("-0"))
    return f"{value:,.{places - 1}f}" if counted > significant and places > 0 else text


def apart(one: float, other: float, significant: int = 3) -> tuple[str, str]:
    """Writes two numbers with so many digits, or as many more as show that they differ."""
    while True:
        texts = digits(one, significant), digits(other, significant)
        if one == other or texts[0] != texts[1] or significant == _MOST_DIGITS:
            return texts
        significant += 1


def _scaled(value: float | None, units: tuple[tuple[str, float], ...], base: str) -> str:
    if value is None:
        return ABSENT
    for unit, factor in units:
        if abs(value) >= factor:
            return f"{digits(value / factor)} {unit}"
    return f"{value:,.0f} {base}".strip()
