"""Numbers: how they stand in the environment."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gd2fs.errors import InvalidRequest


def number_in(environment: Mapping[str, str], name: str, default: float) -> float:
    """What a variable says, ``default`` where it says nothing. Raises InvalidRequest."""
    text = environment.get(name, "")
    if not text:
        return default
    try:
        return float(text)
    except ValueError as cause:
        raise InvalidRequest(
            f"`{name}` is `{text}`, not a number", hint="fix or unset it"
        ) from cause


def count_in(environment: Mapping[str, str], name: str, default: int) -> int:
    """Likewise, of a whole number. Raises InvalidRequest."""
    number = number_in(environment, name, default)
    if not math.isfinite(number) or number != int(number):
        raise InvalidRequest(f"`{name}` is `{number}`, not a count", hint="fix or unset it")
    return int(number)


def check_count(name: str, count: int, count_max: int) -> int:
    """Return ``count`` when it is 1 to ``count_max``. Raises InvalidRequest."""
    if not 1 <= count <= count_max:
        raise InvalidRequest(f"`{name}` is {count}", hint=f"give 1 to {count_max}")
    return count
