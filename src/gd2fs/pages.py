"""Pages: small immutable values under keys of one namespace, read and written in batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from gd2fs.advice import Advised, wish_of
from gd2fs.answers import Listing, PageResult, Presence, Stored
from gd2fs.argument import list_limit, name_bytes, seconds
from gd2fs.completion import Deadline, Steps
from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.marks import NONE, Marks
from gd2fs.outcome import KEPT_AT, SYNC_ANSWERS, Status, check, error_of

if TYPE_CHECKING:
    from gd2fs import _core
    from gd2fs.buffers import PageSources, PageTargets
    from gd2fs.client import Client

Key: TypeAlias = bytes | str  # str travels as UTF-8; 1 to 512 bytes

KEY_SHOWN_MAX = 64  # of a key, in messages


class Pages:
    """The pages of one namespace. Made by ``Client.pages``; lives as long as its client.

    A key is meant to be a hash of its value, or of what determines it. The first value put under a
    key stays: a second put of it moves no bytes, and where that has other bytes a reader may see
    either value. A batch is 1 to 65,536 keys. Methods with an ``a`` in front do the same with
    await.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._steps = PageSteps(client._core, namespace)
        self.namespace = namespace

    def __repr__(self) -> str:
        return f"<Pages of {self.namespace!r}>"

    def exists(self, keys: Sequence[Key], *, timeout_s: float | None = None) -> Presence:
        """Ask which pages are there. Does not count as use, and promises nothing for later.

        Raises:
            InvalidRequest: A key is empty or too long, or there are too many.
            Unavailable: No node answered in time. Treat it as a miss.
        """
        client = self._client
        return client._run(self._steps.exists(keys, client._deadline(timeout_s)))

    async def aexists(self, keys: Sequence[Key], *, timeout_s: float | None = None) -> Presence:
        """As ``exists``."""
        client = self._client
        return await client._arun(self._steps.exists(keys, client._deadline(timeout_s)))

    def get(
        self, keys: Sequence[Key], into: PageTargets, *, timeout_s: float | None = None
    ) -> PageResult:
        """Copy pages into ``into``, for each key memory that is at least as long as its page.

        Args:
            keys: In the order of the answer.
            into: For each key one buffer, or a list or tuple of up to 1,024 that the page is
                scattered over, in order. Writable, without overlaps. Borrowed for the call only.
                The memory of a miss may have been written to.

        Raises:
            InvalidRequest: As for ``exists``; or the memory of a page is shorter than the page, in
                too many buffers, or shared.
            Unavailable: No node answered in time. Treat it as a miss.
        """
        client = self._client
        return client._run(self._steps.get(keys, into, client._deadline(timeout_s)))

    async def aget(
        self, keys: Sequence[Key], into: PageTargets, *, timeout_s: float | None = None
    ) -> PageResult:
        """As ``get``. The buffers are borrowed until the await ends, however it ends."""
        client = self._client
        return await client._arun(self._steps.get(keys, into, client._deadline(timeout_s)))

    def put(
        self,
        keys: Sequence[Key],
        values: PageSources,
        *,
        ttl_s: int | None = None,
        marks: Marks = NONE,
        timeout_s: float | None = None,
    ) -> Stored:
        """Store values, one per key, 1 byte to 1 GiB each.

        Args:
            keys: What is there already stays as it is, and counts as stored.
            values: For each key one buffer, or a list or tuple of up to 1,024 whose bytes in
                order are the value; how it lies here is not stored. Borrowed for the call only.
                They must not change meanwhile.
            ttl_s: Seconds until the pages go by themselves.
            marks: What is said about them to those who choose what stays.

        Returns:
            For each key whether it is there now. False: a node had no room or did not answer.
            ``copies`` says on how many nodes each of them is.

        Raises:
            InvalidRequest: As for ``exists``; or a value is empty, larger than a whole arena, or
                in too many buffers.
            Unavailable: No node answered in time. Some pages may be there.
        """
        client = self._client
        deadline = client._deadline(timeout_s)
        return client._run(self._steps.put(keys, values, ttl_s, deadline, marks))

    async def aput(
        self,
        keys: Sequence[Key],
        values: PageSources,
        *,
        ttl_s: int | None = None,
        marks: Marks = NONE,
        timeout_s: float | None = None,
    ) -> Stored:
        """As ``put``. The values are borrowed until the await ends, however it ends."""
        client = self._client
        deadline = client._deadline(timeout_s)
        return await client._arun(self._steps.put(keys, values, ttl_s, deadline, marks))

    def drop(self, keys: Sequence[Key], *, timeout_s: float | None = None) -> int:
        """Forget pages; how many of them were there.

        Raises:
            InvalidRequest: As for ``exists``.
            Unavailable: Not every node answered in time; some pages may still be there.
        """
        client = self._client
        return client._run(self._steps.drop(keys, client._deadline(timeout_s)))

    async def adrop(self, keys: Sequence[Key], *, timeout_s: float | None = None) -> int:
        """As ``drop``."""
        client = self._client
        return await client._arun(self._steps.drop(keys, client._deadline(timeout_s)))

    def fadvise(
        self, keys: Sequence[Key], advice: str, *, timeout_s: float | None = None, trace: int = 0
    ) -> Advised:
        """Say which pages shall be in the memory of their nodes. As ``Client.fadvise``.

        Args:
            keys: Of whole pages, 1 to 65,536 of them.
            advice: ``willneed``, ``dontneed``, ``pin`` or ``unpin``.
            timeout_s: Deadline of the whole.
            trace: As for ``Client.fadvise``.

        Raises:
            InvalidRequest: As for ``exists``, or a bad advice.
        """
        deadline = self._client._deadline(timeout_s)
        call = self._steps.fadvise(keys, wish_of(advice), deadline, trace)
        return Advised(advice, list(keys), [call], is_batch=True)

    def sync(self, keys: Sequence[Key], *, timeout_s: float | None = None) -> list[str]:
        """Bring pages to where they outlive the processes of their nodes; of each where that is.

        Returns:
            For each key ``disk``: it outlives the machine; ``memory``: a kept arena, it outlives
            the node's process, not the machine; or an empty string: it is not there, or its nodes
            keep nothing.

        Raises:
            InvalidRequest: As for ``exists``.
            Unavailable: A node or its disk did not answer in time, so some are not known.
        """
        client = self._client
        return client._run(self._steps.sync(keys, client._deadline(timeout_s)))

    async def async_(self, keys: Sequence[Key], *, timeout_s: float | None = None) -> list[str]:
        """As ``sync``."""
        client = self._client
        return await client._arun(self._steps.sync(keys, client._deadline(timeout_s)))

    def list(
        self, *, after: bytes = b"", limit: int = 1000, timeout_s: float | None = None
    ) -> Listing[bytes]:
        """Keys after ``after`` in byte order, with the sizes of their pages; at most ``limit``.

        Raises:
            InvalidRequest: The namespace is not valid, or ``limit`` is not 1 to 65,536.
            Unavailable: No node answered in time.
        """
        client = self._client
        return client._run(self._steps.list(after, limit, client._deadline(timeout_s)))

    def clear(self, *, timeout_s: float | None = None) -> int:
        """Forget everything of the namespace, its files too. As ``Client.clear``."""
        return self._client.clear(self.namespace, timeout_s=timeout_s)


class PageSteps:
    """The calls on pages of one namespace, as steps (see ``completion``)."""

    def __init__(self, core: _core.Client, namespace: str) -> None:
        self._core = core
        self._namespace = name_bytes(namespace)
        self._what = f"of namespace {namespace}"

    def exists(self, keys: Sequence[Key], deadline: Deadline) -> Steps[Presence]:
        call = yield partial(
            self._core.exists, self._namespace, keys, timeout_ms=deadline.left_ms()
        )
        check(call, f"exists {len(keys)} keys {self._what}", (Status.OK, Status.MISS))
        self._check_pages(call, keys)
        return Presence(call.present, call.is_partial)

    def get(self, keys: Sequence[Key], into: PageTargets, deadline: Deadline) -> Steps[PageResult]:
        call = yield partial(
            self._core.get_pages, self._namespace, keys, into, timeout_ms=deadline.left_ms()
        )
        check(call, f"get {len(keys)} pages {self._what}", (Status.OK, Status.MISS))
        self._check_pages(call, keys)
        return PageResult(call.sizes, call.is_partial)

    def put(
        self,
        keys: Sequence[Key],
        values: PageSources,
        ttl_s: int | None,
        deadline: Deadline,
        marks: Marks = NONE,
    ) -> Steps[Stored]:
        call = yield partial(
            self._core.put_pages,
            self._namespace,
            keys,
            values,
            ttl_s=seconds(ttl_s),
            **marks.as_arguments(),
            timeout_ms=deadline.left_ms(),
        )
        check(call, f"put {len(keys)} pages {self._what}", (Status.OK, Status.MISS))
        self._check_pages(call, keys)
        return Stored(call.present, call.copies)

    def sync(self, keys: Sequence[Key], deadline: Deadline) -> Steps[list[str]]:
        call = yield partial(
            self._core.sync_pages, self._namespace, keys, timeout_ms=deadline.left_ms()
        )
        what = f"sync {len(keys)} pages {self._what}"
        check(call, what)
        silent = [status for status in call.statuses if status not in SYNC_ANSWERS]
        if silent:
            raise error_of(Status(silent[0]), f"{what}: {len(silent)} are not known to be kept")
        return [KEPT_AT[at] for at in call.kept]

    def drop(self, keys: Sequence[Key], deadline: Deadline) -> Steps[int]:
        call = yield partial(
            self._core.drop_pages, self._namespace, keys, timeout_ms=deadline.left_ms()
        )
        check(call, f"drop {len(keys)} pages {self._what}", (Status.OK, Status.MISS))
        if call.is_partial:
            raise Unavailable(
                f"drop {len(keys)} pages {self._what}: not every node answered",
                hint="drop them again when it is back",
            )
        return call.value

    def fadvise(self, keys: Sequence[Key], wish: int, deadline: Deadline, trace: int) -> _core.Call:
        return self._core.advise_pages(
            self._namespace, keys, wish, trace=trace, timeout_ms=deadline.left_ms()
        )

    def list(self, after: bytes, limit: int, deadline: Deadline) -> Steps[Listing[bytes]]:
        call = yield partial(
            self._core.list_pages,
            self._namespace,
            after=after,
            count_max=list_limit(limit),
            timeout_ms=deadline.left_ms(),
        )
        check(call, f"list pages {self._what}")
        return Listing(call.entries, call.next or None, call.is_partial)

    def _check_pages(self, call: _core.Call, keys: Sequence[Key]) -> None:
        """Raise for the first page that was refused; a miss is none."""
        if call.fault is None:
            return
        index, status, page_bytes, buffer_bytes = call.fault
        page = f"page {keys[index][:KEY_SHOWN_MAX]!r} {self._what}"
        if status == Status.FULL:
            raise InvalidRequest(
                f"put {page}: {buffer_bytes} bytes are not let in, by the size of its node's "
                "arena, a quota or the site's rule",
                hint="`gd2fs why` says more; store it in parts, or give the nodes more memory",
            )
        if status == Status.INVALID and page_bytes > buffer_bytes:
            raise InvalidRequest(
                f"get {page}: it is {page_bytes} bytes, its memory here {buffer_bytes}",
                hint="give every page memory of its size",
            )
        raise error_of(Status(status), f"{page}: {Status(status).name.lower()}")
