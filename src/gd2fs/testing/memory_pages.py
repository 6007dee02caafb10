"""MemoryPages: the pages of one namespace of a MemoryStore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from gd2fs import _core
from gd2fs.answers import Listing, PageResult, Presence, Stored
from gd2fs.argument import list_limit, seconds
from gd2fs.buffers import views_of
from gd2fs.errors import InvalidRequest

if TYPE_CHECKING:
    from gd2fs.buffers import Source, Target
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
        self, keys: Sequence[Key], into: Sequence[Target], *, timeout_s: float | None = None
    ) -> PageResult:
        names, targets = self._names(keys), views_of(into)
        _check_counts(names, targets)
        pages = self._store.live_pages()
        sizes: list[int | None] = []
        for name, target in zip(names, targets, strict=True):
            page = pages.get(name)
            if page is not None and len(page) > len(target):
                raise InvalidRequest(
                    f"a page is {len(page)} bytes, its buffer {len(target)}", hint="a longer one"
                )
            sizes.append(None if page is None else len(page))
            if page is not None:
                target[: len(page)] = page
        return PageResult(sizes)

    def put(
        self,
        keys: Sequence[Key],
        values: Sequence[Source],
        *,
        ttl_s: int | None = None,
        timeout_s: float | None = None,
    ) -> Stored:
        names, sources = self._names(keys), views_of(values)
        _check_counts(names, sources)
        if not all(len(source) for source in sources):
            raise InvalidRequest("a page is empty", hint="a page is 1 byte to 1 GiB")
        for name, source in zip(names, sources, strict=True):
            self._store.keep_page(name, bytes(source), seconds(ttl_s))
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
        self, keys: Sequence[Key], into: Sequence[Target], *, timeout_s: float | None = None
    ) -> PageResult:
        return self.get(keys, into)

    async def aput(
        self,
        keys: Sequence[Key],
        values: Sequence[Source],
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


def _check_counts(names: Sequence[object], buffers: Sequence[object]) -> None:
    if len(names) != len(buffers):
        raise InvalidRequest(
            f"{len(buffers)} buffers for {len(names)} keys", hint="give one buffer per key"
        )
