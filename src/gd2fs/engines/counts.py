"""Counts: what a plug-in did, ever growing, for the engine's metrics."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, replace


@dataclass(slots=True)
class EngineCounts:
    """Ever-growing counts of one plug-in. Pages are those of the engine."""

    lookups: int = 0  # calls
    lookup_pages: int = 0
    lookup_hits: int = 0  # pages
    loads: int = 0  # calls
    loaded_pages: int = 0
    loaded_bytes: int = 0
    load_misses: int = 0  # pages that were gone, or not in time
    load_microseconds: int = 0
    stores: int = 0  # calls
    stored_pages: int = 0
    stored_bytes: int = 0  # of pages that are there now; those that others had stored move none
    store_retries: int = 0  # calls for pages that a first one did not get in
    store_failures: int = 0  # pages
    store_microseconds: int = 0
    shed_pages: int = 0  # not stored since too many wait
    wrong_sizes: int = 0  # pages of another size than the engine's: not used
    unavailable: int = 0  # calls that a node which should have the pages did not answer
    skipped: int = 0  # calls answered with misses before a node was ever reached
    gate_admitted: int = 0  # spans that were loaded
    gate_refused: int = 0  # spans that are quicker to compute
    errors: int = 0  # faults of ours, caught at the engine's border


class CountsBoard:
    """The counts, for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # Guards: _counts. Held for additions only.
        self._counts = EngineCounts()

    def add(self, **amounts: int) -> None:
        """Add to the counts of these names."""
        with self._lock:
            for name, amount in amounts.items():
                setattr(self._counts, name, getattr(self._counts, name) + amount)

    def read(self) -> EngineCounts:
        """A copy of all of them, taken at once."""
        with self._lock:
            return replace(self._counts)

    def as_dict(self) -> dict[str, int]:
        """Names and values."""
        return asdict(self.read())
