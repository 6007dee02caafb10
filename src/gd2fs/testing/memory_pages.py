"""MemoryPages: the pages of one namespace of a MemoryStore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from gd2fs import _core
from gd2fs.answers import Listing, PageResult, Presence, Stored
from gd2fs.argument import list_limit, seconds
from gd2fs.buffers import page_views_of
from gd2fs.errors import InvalidRequest

if TYPE_CHECKING:
    from gd2fs.buffers import PageSources, PageTargets
    from gd2fs.testing.memory_store import MemoryStore

Key: TypeAlias = bytes | str


class MemoryPages:
    """The same methods as ``gd2fs.Pages``, with the same meaning."""

    def __init__(self, store: MemoryStore, namespace: str) -> None:
        self._store = store
        self.namespace = namespace

    def exists(self, keys: Sequence[Key], *, timeout_s: float | None = None) -> Presence:
        names = self._names(keys)
        return Presence([name in self._store.live_pages() for name in names])

    def get(
        self, keys: Sequence[Key], into: PageTargets, *, timeout_s: float | None = None
    ) -> PageResult:
        names, targets = self._names(keys), page_views_of(into)
        _check_counts(names, targets)
        pages = self._store.live_pages()
        sizes: list[int | None] = []
        for name, target in zip(names, targets, strict=True):
            page = pages.get(name)
            sizes.append(None if page is None else len(page))
            if page is not None:
                _scatter(page, target)
        return PageResult(sizes)

    def put(
        self,
        keys: Sequence[Key],
        values: PageSources,
        *,
        ttl_s: int | None = None,
        timeout_s: float | None = None,
    ) -> Stored:
        names, sources = self._names(keys), page_views_of(values)
        _check_counts(names, sources)
        pages = [b"".join(source) for source in sources]
        if not all(pages):
            raise InvalidRequest("a page is empty", hint="a page is 1 byte to 1 GiB")
        for name, page in zip(names, pages, strict=True):
            self._store.keep_page(name, page, seconds(ttl_s))
        return Stored([True] * len(names), [1] * len(names))

    def drop(self, keys: Sequence[Key], *, timeout_s: float | None = None) -> int:
        return sum(self._store.drop_page(name) for name in self._names(keys))

    def list(
        self, *, after: bytes = b"", limit: int = 1000, timeout_s: float | None = None
    ) -> Listing[bytes]:
        self._names([])
        entries = sorted(
            (key, len(page))
            for (namespace, key), page in self._store.live_pages().items()
            if namespace == self.namespace and key > after
        )
        shown = entries[: list_limit(limit)]
        return Listing(shown, shown[-1][0] if len(shown) < len(entries) else None, False)

    def clear(self, *, timeout_s: float | None = None) -> int:
        return self._store.clear(self.namespace)

    async def aexists(self, keys: Sequence[Key], *, timeout_s: float | None = None) -> Presence:
        return self.exists(keys)

    async def aget(
        self, keys: Sequence[Key], into: PageTargets, *, timeout_s: float | None = None
    ) -> PageResult:
        return self.get(keys, into)

    async def aput(
        self,
        keys: Sequence[Key],
        values: PageSources,
        *,
        ttl_s: int | None = None,
        timeout_s: float | None = None,
    ) -> Stored:
        return self.put(keys, values, ttl_s=ttl_s)

    async def adrop(self, keys: Sequence[Key], *, timeout_s: float | None = None) -> int:
        return self.drop(keys)

    def _names(self, keys: Sequence[Key]) -> Sequence[tuple[str, bytes]]:
        self._store.check_open()
        refuse(_core.namespace_fault(self.namespace.encode()))
        if len(keys) > _core.BATCH_ITEMS_MAX:
            raise InvalidRequest(f"{len(keys)} keys in one call", hint="cut the batch")
        plain = [key.encode() if isinstance(key, str) else bytes(key) for key in keys]
        for key in plain:
            refuse(_core.key_fault(key))
        return [(self.namespace, key) for key in plain]


def refuse(fault: str) -> None:
    """Raise InvalidRequest when there is a ``fault``."""
    if fault:
        raise InvalidRequest(fault, hint="fix the name")


def _check_counts(names: Sequence[object], pages: Sequence[Sequence[memoryview]]) -> None:
    if len(names) != len(pages):
        raise InvalidRequest(
            f"{len(pages)} buffers for {len(names)} keys",
            hint="give one buffer, or one list of them, per key",
        )
    for index, buffers in enumerate(pages):
        if len(buffers) > _core.PAGE_BUFFERS_MAX:
            raise InvalidRequest(
                f"{len(buffers)} buffers for page {index}, but the limit is "
                f"{_core.PAGE_BUFFERS_MAX}",
                hint="use fewer, longer ones",
            )


def _scatter(page: bytes, buffers: Sequence[memoryview]) -> None:
    room = sum(map(len, buffers))
    if len(page) > room:
        raise InvalidRequest(
            f"a page is {len(page)} bytes, its memory here {room}", hint="give it more"
        )
    at = 0
    for buffer in buffers:
        part = page[at : at + len(buffer)]
        buffer[: len(part)] = part
        at += len(part)
