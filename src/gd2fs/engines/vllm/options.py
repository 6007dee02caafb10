"""Options: what a tier's entry in ``secondary_tiers`` may say besides the store's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gd2fs.engines.settings import StoreSettings, settings_of
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.sizes import parse_bytes

THREADS_MAX = 16
QUEUE_PART = 4  # of the pool, one in so many bytes may wait to be stored: the rest is for loads


@dataclass(frozen=True, slots=True)
class TierOptions:
    """How the tier works.

    Attributes:
        store: How the store is reached, and the deadlines.
        load_threads: Jobs of loading under way at the same time, 1 to 16.
        store_threads: Jobs of storing likewise.
        store_queue_bytes: Of the pool, that may wait to be stored.
        locality: ``LOCAL`` or ``REMOTE``, for requests that name it; empty: not said.
    """

    store: StoreSettings
    load_threads: int
    store_threads: int
    store_queue_bytes: int
    locality: str


def options_of(mapping: Mapping[str, Any], *, pool_bytes: int) -> TierOptions:
    """Take what vLLM passes on of the tier's entry.

    Raises:
        InvalidRequest: A name is unknown, or a value is not of its kind.
    """
    rest = dict(mapping)
    load_threads = _threads(rest, "load_threads", 2)
    store_threads = _threads(rest, "store_threads", 2)
    queue_bytes = _bytes(rest, "store_queue_bytes", max(1, pool_bytes // QUEUE_PART))
    locality = str(rest.pop("locality", "") or "")
    if locality not in ("", "LOCAL", "REMOTE"):
        raise InvalidRequest(f"`locality` is {locality!r}", hint="`LOCAL` or `REMOTE`")
    return TierOptions(settings_of(rest), load_threads, store_threads, queue_bytes, locality)


def _threads(mapping: dict[str, Any], name: str, default: int) -> int:
    value = mapping.pop(name, default)
    if not isinstance(value, int) or not 1 <= value <= THREADS_MAX:
        raise InvalidRequest(f"`{name}` is {value!r}", hint=f"give 1 to {THREADS_MAX}")
    return value


def _bytes(mapping: dict[str, Any], name: str, default: int) -> int:
    value = mapping.pop(name, None)
    if value is None:
        return default
    try:
        size = parse_bytes(str(value))
    except GD2FSError as error:
        raise InvalidRequest(f"`{name}` is {value!r}", hint=error.hint) from error
    if size < 1:
        raise InvalidRequest(f"`{name}` is {value!r}", hint="give bytes, or `256MiB`")
    return size
