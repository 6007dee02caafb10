"""Advice: which bytes of files, and which pages, shall be in the memory of their nodes.

What ``posix_fadvise`` says of one machine's page cache, said of a whole cluster's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from gd2fs import _core
from gd2fs.errors import InvalidRequest
from gd2fs.outcome import Status, check, error_of

WISHES = {"willneed": 0, "dontneed": 1, "pin": 2, "unpin": 3}  # as core/client.h counts them
SEQUENTIAL = "sequential"
BYTES_END = 1 << 40  # no file is longer
ANSWERS = (Status.OK, Status.MISS, Status.GONE, Status.CANCELLED)


def wish_of(advice: str) -> int:
    """The number of an advice. Raises InvalidRequest."""
    if advice not in WISHES:
        raise InvalidRequest(
            f"no advice {advice!r}", hint=f"{', '.join(WISHES)}, or {SEQUENTIAL} for files"
        )
    return WISHES[advice]


def check_range(offset: int, length: int) -> None:
    """A range of a file, in bytes; length 0 is to its end. Raises InvalidRequest."""
    if offset < 0 or length < 0 or offset + length > BYTES_END:
        raise InvalidRequest(
            f"{length} bytes at {offset} are no range of a file", hint="at most 1 TiB"
        )


class Advised:
    """Advice that is being carried out. It goes on whether or not anybody waits for it, as long as
    this object lives; when it goes, so does the advice.
    """

    def __init__(
        self,
        advice: str,
        names: Sequence[str | bytes],
        calls: Sequence[_core.Call],
        *,
        is_batch: bool = False,
    ) -> None:
        """``calls``: one for each name, or with ``is_batch`` one for all; or none."""
        self._advice = advice
        self._names = list(names)
        self._calls = list(calls)
        self._is_batch = is_batch

    @property
    def is_done(self) -> bool:
        """Nothing is left to be done."""
        return all(call.is_done() for call in self._calls)

    @property
    def progress_bytes(self) -> int:
        """Bytes of the ranges that are dealt with so far; grows by some MiB at a time."""
        return sum(call.progress() for call in self._calls)

    def cancel(self) -> None:
        """Begin nothing more. What was loaded stays."""
        for call in self._calls:
            call.cancel()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the end, at most ``timeout_s``; None: that came first, and it goes on.

        Returns:
            Bytes that are in memory now (``willneed``, ``pin``); that were let go, of all copies
            (``dontneed``); or that need not stay any more (``unpin``). After ``cancel``: so far.

        Raises:
            InvalidRequest: A bad name; or more would be pinned than may be.
            Unavailable: A node did not answer before the advice's own deadline.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        for call in self._calls:
            left = -1 if end is None else max(0, round((end - time.monotonic()) * 1e3))
            if not call.wait(left):
                return None
        return sum(self._bytes_of(call) for call in self._calls)

    @property
    def missing(self) -> list[str | bytes]:
        """Once it is done: the names under which there was not all that was asked for."""
        if self._is_batch:
            call = self._calls[0]
            if Status(call.status) is not Status.OK:
                return list(self._names)
            return [
                name for name, there in zip(self._names, call.present, strict=True) if not there
            ]
        absent = (Status.MISS, Status.GONE)
        pairs = zip(self._names, self._calls, strict=False)
        return [name for name, call in pairs if Status(call.status) in absent]

    def _bytes_of(self, call: _core.Call) -> int:
        status = check(call, f"advise {self._advice}", ANSWERS)
        if self._is_batch and call.fault and Status(call.fault[1]) is Status.DENIED:
            raise error_of(Status.DENIED, f"advise {self._advice}: denied")
        return call.progress() if status is Status.CANCELLED else call.value
