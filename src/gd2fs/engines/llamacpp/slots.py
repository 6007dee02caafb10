"""Slots: which of the engine's slots are free. One request has one slot for itself."""

from __future__ import annotations

import asyncio

from gd2fs.errors import Unavailable

WAITING_PER_SLOT_MAX = 128
WAIT_S_MAX = 600.0


class SlotPool:
    """Free slots, given out in the order of asking. For one event loop."""

    def __init__(self, count: int, *, wait_s: float = WAIT_S_MAX) -> None:
        self._free: asyncio.Queue[int] = asyncio.Queue()
        for slot in range(count):
            self._free.put_nowait(slot)
        self._wait_s = wait_s
        self._waiting_max = count * WAITING_PER_SLOT_MAX
        self.waiting = 0

    async def take(self) -> int:
        """Wait for a free slot; the caller gives it back.

        Raises:
            Unavailable: Too many wait already, or it took too long.
        """
        if self.waiting >= self._waiting_max:
            raise Unavailable(f"{self.waiting} requests wait for a slot already")
        self.waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                return await self._free.get()
        except TimeoutError as error:
            raise Unavailable(f"no slot became free within {self._wait_s:.0f} s") from error
        finally:
            self.waiting -= 1

    def give(self, slot: int) -> None:
        """Give a slot back."""
        self._free.put_nowait(slot)
