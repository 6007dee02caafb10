"""Mix: everything that a client does, at random, with its own copy of what must come back.

A miss is an answer: arenas are smaller than what all clients keep. Bytes that differ never are.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from gd2fs.bench.io.case import KIB, MIB
from gd2fs.bench.io.job import wrong
from gd2fs.bench.io.memory import Memory, differ, fill
from gd2fs.client import Client

FILES = 24
FILE_BYTES_MAX = 8 * MIB
PAGE_BYTES = (4 * KIB, 64 * KIB, 128 * KIB)
PAGES_MAX = 64
PAGE_SETS = 8
WORKING_BYTES = FILES * FILE_BYTES_MAX // 2 + PAGE_SETS * PAGES_MAX * 64 * KIB  # on average


@dataclass(slots=True)
class Tally:
    """What a while of it came to."""

    calls: Counter[str] = field(default_factory=Counter)
    misses: Counter[str] = field(default_factory=Counter)
    bytes: int = 0


@dataclass(slots=True)
class Copy:
    """What a file must hold: the first ``size`` bytes of ``view``, memory that stays the same."""

    view: memoryview
    size: int = 0  # 0: there is no such file


class Mix:
    """One client's random calls. Nobody else touches its names.

    It takes all its memory at the start, so that what grows later is not its own.
    """

    def __init__(self, client: Client, index: int) -> None:
        self._client, self._index = client, index
        self._random = random.Random(index)
        self._noise = Memory(2 * FILE_BYTES_MAX).view
        fill(self._noise, seed=index)
        self._into = Memory(FILE_BYTES_MAX).view
        self._files = {
            f"/soak/{index}-{number}": Copy(Memory(FILE_BYTES_MAX).view) for number in range(FILES)
        }
        self._pages: dict[str, dict[bytes, memoryview]] = {}
        self._tally = Tally()

    def run(self, seconds: float) -> Tally:
        """Call for so long. Raises Corrupt, and what the calls raise."""
        self._tally = Tally()
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            name, call = self._random.choices(_CALLS, weights=_WEIGHTS)[0]
            call(self)
            self._tally.calls[name] += 1
        return self._tally

    def finish(self) -> None:
        """Remove all names."""
        for path in self._there():
            self._client.unlink(path)
        for namespace in self._pages:
            self._client.clear(namespace)

    def _put(self) -> None:
        path = self._random.choice(list(self._files))
        content = self._bytes(self._random.randint(1, FILE_BYTES_MAX))
        self._client.put(path, content)
        copy = self._files[path]
        copy.view[: len(content)] = content
        copy.size = len(content)
        self._tally.bytes += len(content)

    def _write(self) -> None:
        """Over a range of what is there, up to a little past its end."""
        path = self._path()
        copy = self._files[path]
        offset = self._random.randint(0, copy.size)
        part = self._bytes(self._random.randint(0, FILE_BYTES_MAX - offset))
        if copy.size == 0 or self._client.stat(path) is None:
            return
        self._client.write(path, offset, part)
        copy.view[offset : offset + len(part)] = part
        copy.size = max(copy.size, offset + len(part))
        self._tally.bytes += len(part)

    def _read(self) -> None:
        path = self._path()
        copy = self._files[path]
        if copy.size == 0:
            return
        offset = self._random.choice((0, self._random.randrange(copy.size)))
        length = self._random.randint(1, copy.size - offset)
        target = self._into[:length]
        size = self._client.read(path, offset, target)
        if size is None:
            self._tally.misses["read"] += 1
        elif size != length or differ(target, copy.view[offset : offset + length]):
            raise wrong(f"read {path} from {offset}")
        self._tally.bytes += size or 0

    def _unlink(self) -> None:
        path = self._path()
        self._client.unlink(path)
        self._files[path].size = 0

    def _put_pages(self) -> None:
        """Under keys of their own every time: a key never gets another value."""
        number = self._random.randrange(PAGE_SETS)
        namespace = f"soak-{self._index}-{number}"
        if self._random.random() < 0.2:
            self._client.clear(namespace)
            self._pages.pop(namespace, None)
        size, count = self._random.choice(PAGE_BYTES), self._random.randint(1, PAGES_MAX)
        fresh = {self._random.randbytes(16): self._bytes(size) for _ in range(count)}
        stored = self._client.pages(namespace).put(list(fresh), list(fresh.values()))
        kept = {
            key: page for (key, page), there in zip(fresh.items(), stored, strict=True) if there
        }
        self._tally.misses["put"] += len(fresh) - len(kept)
        self._tally.bytes += size * len(kept)
        if kept:
            self._pages[namespace] = kept

    def _get_pages(self) -> None:
        if not self._pages:
            return
        namespace = self._random.choice(list(self._pages))
        pages = self._pages[namespace]
        size = len(next(iter(pages.values())))
        into = [self._into[at * size : (at + 1) * size] for at in range(len(pages))]
        found = self._client.pages(namespace).get(list(pages), into)
        for got, page, target in zip(found.sizes, pages.values(), into, strict=True):
            if got is None:
                self._tally.misses["get"] += 1
            elif got != size or differ(target, page):
                raise wrong(f"get of namespace {namespace}")
        self._tally.bytes += size * len(pages)

    def _exists(self) -> None:
        if not self._pages:
            return
        namespace = self._random.choice(list(self._pages))
        keys = list(self._pages[namespace])
        never = [self._random.randbytes(16) for _ in keys]
        present = self._client.pages(namespace).exists([*keys, *never]).present
        self._tally.misses["exists"] += present[: len(keys)].count(False)
        if any(present[len(keys) :]):
            raise wrong(f"exists of namespace {namespace}")

    def _list(self) -> None:
        listing = self._client.list(f"/soak/{self._index}-")
        unknown = {path for path, _ in listing.entries} - set(self._there())
        if unknown:
            raise wrong(f"list has {min(unknown)}, which was never there or is removed")

    def _there(self) -> list[str]:
        return [path for path, copy in self._files.items() if copy.size]

    def _path(self) -> str:
        """Of a file that is there, if any is."""
        return self._random.choice(self._there() or list(self._files))

    def _bytes(self, size: int) -> memoryview:
        start = self._random.randrange(FILE_BYTES_MAX)
        return self._noise[start : start + size]


_WEIGHED: dict[Callable[[Mix], None], int] = {
    Mix._put: 4,
    Mix._write: 4,
    Mix._read: 12,
    Mix._unlink: 1,
    Mix._put_pages: 8,
    Mix._get_pages: 12,
    Mix._exists: 6,
    Mix._list: 1,
}
_CALLS = [(call.__name__.strip("_"), call) for call in _WEIGHED]
_WEIGHTS = list(_WEIGHED.values())
