"""MemoryStore: all of the client's methods over a dictionary, the reference for what they mean.

It says what a cluster does that forgets nothing and never fails. A cluster may answer with a
miss where this has bytes, and never with other bytes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from gd2fs import _core
from gd2fs.answers import FileStat, Listing, NodeStatus
from gd2fs.argument import (
    chunk_size,
    copies,
    generation_of,
    list_limit,
    name_bytes,
    prefix_bytes,
    seconds,
    whole,
)
from gd2fs.buffers import views_of
from gd2fs.errors import Closed, InvalidRequest
from gd2fs.testing.memory_pages import MemoryPages, refuse

if TYPE_CHECKING:
    from gd2fs.buffers import Sources, Targets

PageName: TypeAlias = tuple[str, bytes]  # namespace, key
NEVER = float("inf")


@dataclass
class _File:
    chunk_bytes: int
    ttl_s: int
    end_s: float
    generation: int
    sequence: int = 0
    replicas: int = 0
    content: bytearray = field(default_factory=bytearray)

    @property
    def stat(self) -> FileStat:
        return FileStat(
            len(self.content),
            self.chunk_bytes,
            self.ttl_s,
            self.generation,
            self.sequence,
            self.replicas,
        )


class MemoryStore:
    """The same methods as ``gd2fs.Client``, with the same meaning; one thread only.

    Args:
        clock: Seconds; tells when a time to live is over.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._generations = itertools.count(1)
        self._files: dict[str, _File] = {}
        self._pages: dict[PageName, tuple[bytes, float]] = {}
        self._is_open = True

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- files -----------------------------------------------------------------------------

    def create(
        self,
        path: str,
        *,
        chunk_bytes: int | None = None,
        ttl_s: int | None = None,
        replicas: int | None = None,
        if_absent: bool = False,
        timeout_s: float | None = None,
    ) -> FileStat:
        wanted = chunk_size(chunk_bytes) or _core.CHUNK_BYTES_DEFAULT
        end_s = self._end_s(seconds(ttl_s))
        wanted_copies = copies(replicas)
        file = self._find(path)
        if file is not None and if_absent:
            raise InvalidRequest(f"create {path}: it is there already", hint="unlink it first")
        if file is None:
            generation = next(self._generations)
            file = self._files[path] = _File(wanted, seconds(ttl_s), end_s, generation)
            file.replicas = wanted_copies
        return file.stat

    def write(
        self,
        path: str,
        offset: int,
        buffers: Sources,
        *,
        if_generation: int | None = None,
        timeout_s: float | None = None,
    ) -> int:
        content = b"".join(views_of(buffers))
        end = whole("offset", offset) + len(content)
        if end > _core.FILE_BYTES_MAX:
            raise InvalidRequest(f"write {path}: it would end at {end}", hint="1 TiB at most")
        file = self._must_find(path)
        if generation_of(if_generation) not in (0, file.generation):
            raise InvalidRequest(f"write {path}: another file by now", hint="make it again")
        if content:
            file.content.extend(bytes(max(0, end - len(file.content))))
            file.content[offset:end] = content
            file.sequence += 1
        return len(content)

    def append(self, path: str, buffers: Sources, *, timeout_s: float | None = None) -> int:
        offset = len(self._must_find(path).content)
        self.write(path, offset, buffers)
        return offset

    def read(
        self, path: str, offset: int, into: Targets, *, timeout_s: float | None = None
    ) -> int | None:
        targets = views_of(into)
        offset = whole("offset", offset)
        file = self._find(path)
        if file is None:
            return None
        count = 0
        for target in targets:
            part = file.content[offset + count : offset + count + len(target)]
            target[: len(part)] = part
            count += len(part)
        return count

    def put(
        self,
        path: str,
        buffers: Sources,
        *,
        chunk_bytes: int | None = None,
        ttl_s: int | None = None,
        replicas: int | None = None,
        timeout_s: float | None = None,
    ) -> int:
        chunk_size(chunk_bytes)  # what is wrong is told before anything is changed
        seconds(ttl_s)
        copies(replicas)
        self.unlink(path)
        self.create(path, chunk_bytes=chunk_bytes, ttl_s=ttl_s, replicas=replicas)
        return self.write(path, 0, buffers)

    def get(self, path: str, *, timeout_s: float | None = None) -> bytearray | None:
        file = self._find(path)
        return None if file is None else bytearray(file.content)

    def stat(self, path: str, *, timeout_s: float | None = None) -> FileStat | None:
        file = self._find(path)
        return None if file is None else file.stat

    def truncate(self, path: str, size: int, *, timeout_s: float | None = None) -> None:
        size = whole("size", size, _core.FILE_BYTES_MAX)
        file = self._must_find(path)
        if size > len(file.content):
            raise InvalidRequest(
                f"truncate {path} to {size} bytes: it has {len(file.content)}", hint="it can shrink"
            )
        del file.content[size:]
        file.sequence += 1

    def unlink(self, path: str, *, timeout_s: float | None = None) -> bool:
        was_there = self._find(path) is not None
        self._files.pop(path, None)
        return was_there

    def advise(
        self,
        path: str,
        advice: str,
        *,
        replicas: int | None = None,
        timeout_s: float | None = None,
    ) -> int | None:
        if advice not in ("willneed", "dontneed"):
            raise InvalidRequest(f"no advice {advice!r}", hint="willneed or dontneed")
        wanted = copies(replicas)
        file = self._find(path)
        if file is None:
            return None
        file.replicas = wanted
        file.sequence += 1
        return len(file.content) if advice == "willneed" else 0  # one copy is all there is

    def list(
        self, prefix: str, *, after: str = "", limit: int = 1000, timeout_s: float | None = None
    ) -> Listing[str]:
        self.check_open()
        prefix_bytes(prefix)
        entries = [
            (path, len(self._files[path].content))
            for path in sorted(self._files, key=name_bytes)
            if path.startswith(prefix)
            and name_bytes(path) > name_bytes(after)
            and self._find(path) is not None
        ]
        shown = entries[: list_limit(limit)]
        return Listing(shown, shown[-1][0] if len(shown) < len(entries) else None, False)

    # ---- everything else -------------------------------------------------------------------

    def pages(self, namespace: str) -> MemoryPages:
        return MemoryPages(self, namespace)

    def clear(self, namespace: str, *, timeout_s: float | None = None) -> int:
        self.check_open()
        refuse(_core.namespace_fault(name_bytes(namespace)))
        files = [path for path in self._files if path.startswith(f"/{namespace}/")]
        pages = [name for name in self._pages if name[0] == namespace]
        for path in files:
            del self._files[path]
        for name in pages:
            del self._pages[name]
        return len(files) + len(pages)

    def ping(self, *, timeout_s: float | None = None) -> Sequence[NodeStatus]:
        self.check_open()
        return [NodeStatus("memory", 1, 1, "active", "plain", "off: no wire", 0, 0)]

    def close(self) -> None:
        self._is_open = False

    # ---- with await ------------------------------------------------------------------------

    async def acreate(
        self,
        path: str,
        *,
        chunk_bytes: int | None = None,
        ttl_s: int | None = None,
        replicas: int | None = None,
        if_absent: bool = False,
        timeout_s: float | None = None,
    ) -> FileStat:
        return self.create(
            path, chunk_bytes=chunk_bytes, ttl_s=ttl_s, replicas=replicas, if_absent=if_absent
        )

    async def awrite(
        self,
        path: str,
        offset: int,
        buffers: Sources,
        *,
        if_generation: int | None = None,
        timeout_s: float | None = None,
    ) -> int:
        return self.write(path, offset, buffers, if_generation=if_generation)

    async def aappend(self, path: str, buffers: Sources, *, timeout_s: float | None = None) -> int:
        return self.append(path, buffers)

    async def aread(
        self, path: str, offset: int, into: Targets, *, timeout_s: float | None = None
    ) -> int | None:
        return self.read(path, offset, into)

    async def aput(
        self,
        path: str,
        buffers: Sources,
        *,
        chunk_bytes: int | None = None,
        ttl_s: int | None = None,
        replicas: int | None = None,
        timeout_s: float | None = None,
    ) -> int:
        return self.put(path, buffers, chunk_bytes=chunk_bytes, ttl_s=ttl_s, replicas=replicas)

    async def aget(self, path: str, *, timeout_s: float | None = None) -> bytearray | None:
        return self.get(path)

    async def astat(self, path: str, *, timeout_s: float | None = None) -> FileStat | None:
        return self.stat(path)

    async def atruncate(self, path: str, size: int, *, timeout_s: float | None = None) -> None:
        self.truncate(path, size)

    async def aunlink(self, path: str, *, timeout_s: float | None = None) -> bool:
        return self.unlink(path)

    async def aadvise(
        self,
        path: str,
        advice: str,
        *,
        replicas: int | None = None,
        timeout_s: float | None = None,
    ) -> int | None:
        return self.advise(path, advice, replicas=replicas)

    async def alist(
        self, prefix: str, *, after: str = "", limit: int = 1000, timeout_s: float | None = None
    ) -> Listing[str]:
        return self.list(prefix, after=after, limit=limit)

    # ---- for MemoryPages -------------------------------------------------------------------

    def check_open(self) -> None:
        if not self._is_open:
            raise Closed("the store is closed", hint="make a new one")

    def live_pages(self) -> Mapping[PageName, bytes]:
        now_s = self._clock()
        return {name: page for name, (page, end_s) in self._pages.items() if end_s > now_s}

    def keep_page(self, name: PageName, page: bytes, ttl_s: int) -> None:
        if name not in self.live_pages():
            self._pages[name] = (page, self._end_s(ttl_s))

    def drop_page(self, name: PageName) -> bool:
        was_there = name in self.live_pages()
        self._pages.pop(name, None)
        return was_there

    def _end_s(self, ttl_s: int) -> float:
        return self._clock() + ttl_s if ttl_s else NEVER

    def _find(self, path: str) -> _File | None:
        self.check_open()
        refuse(_core.path_fault(name_bytes(path)))
        file = self._files.get(path)
        return file if file is not None and file.end_s > self._clock() else None

    def _must_find(self, path: str) -> _File:
        file = self._find(path)
        if file is None:
            raise InvalidRequest(f"{path}: no such file", hint="create it first")
        return file
