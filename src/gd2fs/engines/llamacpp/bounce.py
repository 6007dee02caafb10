"""Bounce: files in shared memory through which a slot passes between the engine and the store.

llama.cpp saves and restores slots by file name only. Every transfer has a file of its own, gone
when the transfer is over. The directory is locked by its process; one whose lock is free was
left by a process that was killed, and the next instance to start removes it.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

SHARED_MEMORY = Path("/dev/shm")
ROOM_BYTES_MIN = 512 << 20  # containers often have 64 MiB there, less than a few slots
PREFIX = "gd2fs-bounce-"
LOCK_NAME = "lock"


class BounceDirectory:
    """A directory for this process alone, removed on exit. A context manager."""

    def __init__(self, root: Path) -> None:
        remove_left_over(root)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        self._lock = os.open(self.path / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._numbers = itertools.count()

    def __enter__(self) -> BounceDirectory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the directory and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    @contextmanager
    def new_file(self) -> Iterator[Path]:
        """Give a path that nothing else uses, and remove the file afterwards if there is one."""
        path = self.path / f"{next(self._numbers)}.kv"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def bounce_root(shared_memory: Path = SHARED_MEMORY, *, room: int = ROOM_BYTES_MIN) -> Path:
    """Where to bounce: shared memory, or the folder for temporary files where that is small."""
    try:
        facts = os.statvfs(shared_memory)
    except OSError:
        return Path(tempfile.gettempdir())
    is_roomy = facts.f_bavail * facts.f_frsize >= room
    return shared_memory if is_roomy else Path(tempfile.gettempdir())


def remove_left_over(root: Path) -> int:
    """Remove the directories of processes that are gone; how many."""
    return sum(_remove_if_unlocked(path) for path in root.glob(f"{PREFIX}*"))


def _remove_if_unlocked(path: Path) -> bool:
    try:
        lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # just being made, or another user's
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        shutil.rmtree(path, ignore_errors=True)
        return True
    finally:
        os.close(lock)
