"""Units: numbers as tables of `gd2fs top` show them, short and alike in width."""

from __future__ import annotations

DECIMAL = ("", "k", "M", "G", "T")
NOTHING = "-"  # not known, which is not 0


def format_rate(bytes_per_s: float | None) -> str:
    """``1234567`` is ``1.23 MB/s``: powers of 1000, as networks count."""
    if bytes_per_s is None:
        return NOTHING
    value, prefix = _scaled(bytes_per_s)
    return f"{_three_digits(value)} {prefix}B/s"


def format_count(count: float | None) -> str:
    """``12345`` is ``12.3k``."""
    if count is None:
        return NOTHING
    value, prefix = _scaled(count)
    return f"{value:.0f}" if not prefix else f"{_three_digits(value)}{prefix}"


def format_share(share: float | None) -> str:
    """``0.982`` is ``98.2 %``; only all of it is ``100 %``."""
    if share is None:
        return NOTHING
    percent = 100 * share
    return f"{min(percent, 99.9):.1f} %" if 0 < percent < 100 else f"{percent:.0f} %"


def format_ms(milliseconds: float | None) -> str:
    """``1.234`` is ``1.23 ms``."""
    return NOTHING if milliseconds is None else f"{_three_digits(milliseconds)} ms"


def format_ago(seconds: float) -> str:
    """``125`` is ``2 min``."""
    for unit_s, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit_s:
            return f"{int(seconds // unit_s)} {name}"
    return f"{max(0, int(seconds))} s"


def _scaled(value: float) -> tuple[float, str]:
    for prefix in DECIMAL:
        if value < 999.5 or prefix == DECIMAL[-1]:
            return value, prefix
        value /= 1000
    raise AssertionError("the last prefix takes all")


def _three_digits(value: float) -> str:
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}" if value else "0"
