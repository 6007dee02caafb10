"""Store: pages of one namespace for the threads of an engine, which must neither wait nor fail.

Every call answers within its deadline and raises nothing: what cannot be had is a miss. A node
that hangs costs the first calls their deadline; the client then knows it, and answers at once until
the node is back. A store that is away at the start is looked for by a thread of ours.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from gd2fs.client import Client
from gd2fs.engines.counts import CountsBoard
from gd2fs.engines.device import current_device
from gd2fs.engines.gate import LoadGate
from gd2fs.engines.settings import StoreSettings
from gd2fs.errors import Closed, Corrupt, GD2FSError, InvalidRequest, Unavailable

if TYPE_CHECKING:
    from gd2fs.buffers import Sources, Target, Targets

T = TypeVar("T")

BATCH_MAX = 65_536  # keys of one call of the client
CONNECT_S = 1.0  # that the first connection may hold up the start of an engine
RECONNECT_S = 0.5  # between looks for a store that was away at the start
RETRY_FIRST_S = 0.02  # doubled with each try
TEXT_BYTES_MAX = 64 << 10  # of a small file
TEXTS_MAX = 1000  # of one namespace
WRONG_SIZE = -1  # of a page that is longer than its memory

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Put:
    """Which pages are there, and whether trying again can change nothing."""

    stored: list[bool]
    is_final: bool = False


class EngineStore:
    """Pages of one namespace. Thread-safe; no method raises, but the constructor.

    Args:
        settings: How the store is reached, and the deadlines.
        namespace: Of all pages.
        board: Counts what is done; one of its own without.
        gate: Told about every load; one that admits all without.
        pools: The engine's memory that outlives the store, each a buffer: nodes may reach it by
            RDMA, where there is any.
        connect: Makes the client; called again until it has made one.

    Raises:
        InvalidRequest: The settings name no store, or a wrong one. A store that is away raises
            nothing: it is looked for until it is there.
    """

    def __init__(
        self,
        settings: StoreSettings,
        namespace: str,
        *,
        board: CountsBoard | None = None,
        gate: LoadGate | None = None,
        pools: Sequence[Target] = (),
        connect: Callable[[], Client] | None = None,
    ) -> None:
        self.settings = settings
        self.namespace = namespace
        self.board = board or CountsBoard()
        self.gate = gate or LoadGate(is_open=True)
        self._pools = pools
        self._connect = connect or partial(client_of, settings)
        self._lock = threading.Lock()  # Guards: _client and _is_closed. Never held while waiting.
        self._client: Client | None = None
        self._is_closed = False
        self._stop = threading.Event()
        self._opener: threading.Thread | None = None
        if not self._open():
            log.warning("no node of the store answers yet: all is computed until one does")
            self._opener = threading.Thread(target=self._keep_opening, daemon=True)
            self._opener.start()

    @property
    def is_open(self) -> bool:
        """Whether a node was reached. Until then, calls are answered without asking."""
        return self._client is not None

    def exists(self, keys: Sequence[bytes], *, deadline_s: float | None = None) -> list[bool]:
        """Which pages are there. One question for all keys, to every node that may have some."""
        end = _end(deadline_s, self.settings.lookup_timeout_s)
        present: list[bool] = []
        for batch in _batches(keys):
            present += self._ask(partial(self._exists, batch, end)) or [False] * len(batch)
        self.board.add(lookups=1, lookup_pages=len(keys), lookup_hits=sum(present))
        return present

    def exists_leading(self, keys: Sequence[bytes], *, deadline_s: float | None = None) -> int:
        """How many pages from the first on are there without a gap."""
        return sum(takewhile(bool, self.exists(keys, deadline_s=deadline_s)))

    def get(
        self, keys: Sequence[bytes], into: Sequence[Targets], *, deadline_s: float | None = None
    ) -> list[bool]:
        """Copy pages into the engine's memory; of each whether all of its bytes are there now.

        Args:
            keys: Of the pages.
            into: Of each its buffer, or its buffers in order, as long as the page together.
                Borrowed for the call only: a late answer is never written to them.
        """
        end = _end(deadline_s, self.settings.load_timeout_s)
        sizes = [_size_of(buffers) for buffers in into]
        begin = time.monotonic()
        found: list[bool] = []
        with self.gate.loading(sum(sizes)) as load:
            for batch, buffers, wanted in zip(
                _batches(keys), _batches(into), _batches(sizes), strict=True
            ):
                found += self._get(batch, buffers, wanted, end)
            load.arrived = sum(size for size, came in zip(sizes, found, strict=True) if came)
        self.board.add(
            loads=1,
            loaded_pages=sum(found),
            loaded_bytes=load.arrived,
            load_misses=len(found) - sum(found),
            load_microseconds=_microseconds_since(begin),
        )
        return found

    def put(
        self, keys: Sequence[bytes], values: Sequence[Sources], *, deadline_s: float | None = None
    ) -> list[bool]:
        """Store pages; of each whether it is there now. What fails is tried again until then.

        Args:
            keys: Of the pages. What is there already moves no bytes.
            values: As ``into`` of ``get``. They must not change meanwhile.
        """
        end = _end(deadline_s, self.settings.store_timeout_s)
        begin = time.monotonic()
        stored: list[bool] = []
        for batch, buffers in zip(_batches(keys), _batches(values), strict=True):
            stored += self._put_until(batch, buffers, end)
        done = [value for value, is_stored in zip(values, stored, strict=True) if is_stored]
        self.board.add(
            stores=1,
            stored_pages=len(done),
            stored_bytes=sum(map(_size_of, done)),
            store_failures=len(stored) - len(done),
            store_microseconds=_microseconds_since(begin),
        )
        return stored

    def clear(self) -> bool:
        """Forget all of the namespace, and nothing else; whether every node did."""
        end = _end(None, self.settings.store_timeout_s)
        return (
            self._ask(lambda client: client.clear(self.namespace, timeout_s=_left_s(end)))
            is not None
        )

    def put_text(self, name: str, text: str, *, deadline_s: float | None = None) -> bool:
        """Keep a small file of the namespace, unless there is one; whether there is one now."""
        end = _end(deadline_s, self.settings.store_timeout_s)
        return self._ask(partial(self._put_text, name, text, end)) is not None

    def text_of(self, name: str) -> str | None:
        """A small file of the namespace; None when there is none, or the store is away."""
        end = _end(None, self.settings.lookup_timeout_s)
        content = self._ask(lambda client: client.get(self._path(name), timeout_s=_left_s(end)))
        return None if content is None else bytes(content).decode("utf-8", "replace")

    def texts(self, prefix: str) -> list[str] | None:
        """Names of the small files that begin so, in order; None when no node answered, or not all.

        Who puts a text of a name of its own and then asks sees whoever has put theirs before, so
        of two that do this at once, one or both see the other.
        """
        end = _end(None, self.settings.lookup_timeout_s)
        return self._ask(partial(self._texts, prefix, end))

    def drop_text(self, name: str) -> None:
        """Forget a small file."""
        end = _end(None, self.settings.store_timeout_s)
        self._ask(lambda client: client.unlink(self._path(name), timeout_s=_left_s(end)))

    def close(self) -> None:
        """End calls under way and the threads. Twice is fine."""
        self._stop.set()
        with self._lock:
            self._is_closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # ---- one call of the client ---------------------------------------------------------------

    def _exists(self, keys: Sequence[bytes], end: float, client: Client) -> list[bool]:
        found = client.pages(self.namespace).exists(keys, timeout_s=_left_s(end))
        if found.is_partial:
            self.board.add(unavailable=1)
        return found.present

    def _get(
        self, keys: Sequence[bytes], into: Sequence[Targets], sizes: Sequence[int], end: float
    ) -> list[bool]:
        found = self._ask(partial(self._read, keys, into, end))
        if found is None:
            return [False] * len(keys)
        wrong = sum(
            size is not None and size != wanted for size, wanted in zip(found, sizes, strict=True)
        )
        if wrong:
            self.board.add(wrong_sizes=wrong)
        return [size == wanted for size, wanted in zip(found, sizes, strict=True)]

    def _read(
        self, keys: Sequence[bytes], into: Sequence[Targets], end: float, client: Client
    ) -> list[int | None]:
        """Sizes of the pages. One that is longer than its memory must not cost the others."""
        try:
            found = client.pages(self.namespace).get(keys, into, timeout_s=_left_s(end))
        except InvalidRequest as error:
            if len(keys) == 1:
                log.debug("no page of ours: %s", error)
                return [WRONG_SIZE]
        else:
            if found.is_partial:
                self.board.add(unavailable=1)
            return found.sizes
        half = len(keys) // 2
        return self._read(keys[:half], into[:half], end, client) + self._read(
            keys[half:], into[half:], end, client
        )

    def _put_until(
        self, keys: Sequence[bytes], values: Sequence[Sources], end: float
    ) -> list[bool]:
        stored = [False] * len(keys)
        pause_s = RETRY_FIRST_S
        while True:
            left = [at for at, is_stored in enumerate(stored) if not is_stored]
            wanted, sources = [keys[at] for at in left], [values[at] for at in left]
            answer = self._ask(partial(self._put, wanted, sources, end)) or _Put(
                [False] * len(left)
            )
            for at, is_stored in zip(left, answer.stored, strict=True):
                stored[at] = is_stored
            is_over = answer.is_final or not self.is_open or time.monotonic() + pause_s >= end
            if is_over or all(stored):
                return stored
            self._stop.wait(pause_s)
            pause_s *= 2
            self.board.add(store_retries=1)

    def _put(
        self, keys: Sequence[bytes], values: Sequence[Sources], end: float, client: Client
    ) -> _Put:
        pages = client.pages(self.namespace)
        ttl_s = self.settings.ttl_s or None
        try:
            return _Put(pages.put(keys, values, ttl_s=ttl_s, timeout_s=_left_s(end)))
        except InvalidRequest as error:  # for one of them; the others may be there
            log.debug("not all pages are stored: %s", error)
            present = pages.exists(keys, timeout_s=_left_s(end)).present
            return _Put(present, is_final=True)  # a quota, a rule: trying again holds others up

    def _put_text(self, name: str, text: str, end: float, client: Client) -> bool:
        content = text.encode()[:TEXT_BYTES_MAX]
        path = self._path(name)
        if client.stat(path, timeout_s=_left_s(end)) is None:
            client.put(path, content, timeout_s=_left_s(end))
        return True

    def _texts(self, prefix: str, end: float, client: Client) -> list[str]:
        found = client.list(self._path(prefix), limit=TEXTS_MAX, timeout_s=_left_s(end))
        if found.is_partial:
            raise Unavailable("not every node said which files it has")
        return [path.rpartition("/")[2] for path, _ in found.entries]

    def _path(self, name: str) -> str:
        return f"/{self.namespace}/{name}"

    def _ask(self, call: Callable[[Client], T]) -> T | None:
        """Make a call; None when there is no answer, for whatever reason."""
        client = self._client
        if client is None:
            self.board.add(skipped=1)
            return None
        try:
            return call(client)
        except (Unavailable, Corrupt) as error:
            self.board.add(unavailable=1)
            log.debug("namespace %s: %s", self.namespace, error)
        except Closed:
            self.board.add(skipped=1)
        except GD2FSError as error:
            self.board.add(errors=1)
            log.error("namespace %s: %s", self.namespace, error)
        except Exception:
            self.board.add(errors=1)
            log.exception("namespace %s: a call failed", self.namespace)
        return None

    # ---- the first connection -----------------------------------------------------------------

    def _open(self) -> bool:
        """Connect; whether that needs no further try. Raises InvalidRequest."""
        try:
            client = self._connect()
        except Unavailable:
            return False
        for pool in self._pools:
            _register(client, pool)
        with self._lock:
            if not self._is_closed:
                self._client = client
                return True
        client.close()
        return True

    def _keep_opening(self) -> None:
        while not self._stop.wait(RECONNECT_S):
            try:
                if self._open():
                    return
            except Exception:
                log.exception("cannot connect to the store; it is tried again")


def client_of(settings: StoreSettings) -> Client:
    """A client as the settings have it. Raises InvalidRequest or Unavailable."""
    return Client(
        settings.cp,
        cluster=settings.cluster,
        dp=settings.dp,
        device=current_device() if settings.device is None else settings.device,
        device_nics=settings.device_nics,
        io_threads=settings.io_threads,
        streams=settings.streams,
        timeout_s=CONNECT_S,
        transport=settings.transport,
        token_file=settings.token_file,
    )


def _register(client: Client, pool: Target) -> None:
    try:
        client.register(pool)
    except GD2FSError as error:
        log.warning("a pool of the engine is registered for each call anew: %s", error)


def _batches(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[at : at + BATCH_MAX] for at in range(0, len(items), BATCH_MAX)]


def _size_of(buffers: Any) -> int:
    if isinstance(buffers, list):
        return sum(map(_size_of, buffers))
    if isinstance(buffers, tuple):
        return int(buffers[1])
    return memoryview(buffers).nbytes


def _end(deadline_s: float | None, default_s: float) -> float:
    return time.monotonic() + (default_s if deadline_s is None else deadline_s)


def _left_s(end: float) -> float:
    return max(1e-3, end - time.monotonic())


def _microseconds_since(begin: float) -> int:
    return round((time.monotonic() - begin) * 1e6)
