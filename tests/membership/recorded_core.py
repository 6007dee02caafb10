"""RecordedCore: a core that does nothing but remember what a provider told it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from gd2fs.membership.boottime import boottime_ms
from gd2fs.membership.provider import CoreNode

PATIENCE_S = 20.0


@dataclass
class Told:
    """One map, as the core got it."""

    epoch: int
    nodes: list[CoreNode]
    replicas: int
    namespaces: list[tuple[str, int]]
    is_gap: bool

    @property
    def states(self) -> dict[str, tuple[int, int]]:
        """State and left_by of every node."""
        return {node[0]: (node[4], node[5]) for node in self.nodes}


class RecordedCore:
    """Takes maps and leases. What a real one would count is set by the test."""

    def __init__(self) -> None:
        self.maps: list[Told] = []
        self.until_ms = 0
        self.wishes_draining = False
        self.moves_left = 0
        self._changed = threading.Condition()

    def apply_map(self, epoch, nodes, *, replicas, namespaces, is_gap):
        with self._changed:
            assert not self.maps or epoch > self.maps[-1].epoch, "maps come in order"
            self.maps.append(Told(epoch, nodes, replicas, namespaces, is_gap))
            self._changed.notify_all()

    def set_lease(self, until_boottime_ms):
        with self._changed:
            self.until_ms = until_boottime_ms
            self._changed.notify_all()

    def is_draining_wished(self):
        return self.wishes_draining

    def counts(self):
        epoch = self.maps[-1].epoch if self.maps else 0
        is_settled = int(self.moves_left == 0)
        return {
            "epoch": epoch,
            "moves_left": self.moves_left,
            "records_left": 0,
            "is_settled": is_settled,
        }

    @property
    def is_leased(self) -> bool:
        """Whether it answers for records now."""
        return boottime_ms() < self.until_ms

    @property
    def last(self) -> Told:
        """The newest map."""
        return self.maps[-1]

    def wait_for(self, is_so, timeout_s: float = PATIENCE_S) -> Told:
        """The first map, old or new, that is so."""
        end = time.monotonic() + timeout_s
        with self._changed:
            while True:
                found = next((told for told in self.maps if is_so(told)), None)
                if found:
                    return found
                left_s = end - time.monotonic()
                assert left_s > 0, f"no such map among {self.maps[-4:]}"
                self._changed.wait(left_s)


def wait_until(is_so, what: str, timeout_s: float = PATIENCE_S) -> None:
    """Poll until it is so."""
    end = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end, f"{what} did not happen in {timeout_s} s"
        time.sleep(0.01)
