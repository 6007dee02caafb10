"""Storage: what SGLang's HiCache calls to look pages up, load them and store them.

HiCache asks from three threads: one looks spans up, one loads, one stores; a fourth, the
scheduler's, clears, detaches and asks for figures. Ranks of one instance agree on the least that
any of them has after each call, so they may differ in what they answer, but each must answer once
and in time: every call here has a deadline, raises nothing, and gives a miss when in doubt.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorage,
    HiCacheStorageConfig,
    HiCacheStorageExtraInfo,
    PoolName,
    PoolTransfer,
    PoolTransferResult,
)
from sglang.srt.observability.metrics_collector import StorageMetrics

from gd2fs.engines.counts import CountsBoard
from gd2fs.engines.gate import ComputeWatch, LoadGate
from gd2fs.engines.identity import IDENTITY_FILE, KvIdentity, page_key
from gd2fs.engines.settings import settings_of
from gd2fs.engines.sglang import recipe
from gd2fs.engines.sglang.figures import Figures
from gd2fs.engines.sglang.hits import (
    ALL_PAGES,
    BLOCK_GROUPS,
    TRAILING_PAGES,
    PoolPresence,
    SpanHits,
    leading,
    span_hits,
)
from gd2fs.engines.sglang.pools import PagePool
from gd2fs.engines.sglang.promises import Promises
from gd2fs.engines.sglang.transfer import Part, Transfers
from gd2fs.engines.store import EngineStore
from gd2fs.errors import InvalidRequest

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

FOREIGN = frozenset(
    (
        *("backend_name", "module_path", "class_name", "interface_v1", "allocator"),
        *("prefetch_threshold", "prefetch_timeout_base", "prefetch_timeout_per_ki_token"),
        *("hicache_storage_pass_prefix_keys", "tp_lcm_size"),
    )
)  # SGLang's own, should it pass them on
TELL_S = 60.0  # a store that has lost all is told again after so long
KV = PoolName.KV.value
DRAFTS = frozenset((PoolName.DRAFT.value, PoolName.DRAFT_INDEXER.value, PoolName.DRAFT_SWA.value))

log = logging.getLogger(__name__)


def never_raises(otherwise: Callable[..., T]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """A fault of ours must not end a thread of SGLang's: count it, and answer ``otherwise``."""

    def wrap(method: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(method)
        def guarded(self: GD2FSStorage, *arguments: Any, **options: Any) -> T:
            try:
                return method(self, *arguments, **options)
            except Exception:
                self.board.add(errors=1)
                log.exception("`%s` failed; it is answered as a miss", method.__name__)
                return otherwise(self, *arguments, **options)
            finally:
                self.figures.publish()

        return guarded

    return wrap


def _no_keys(self: Any, keys: Sequence[str], *rest: Any, **options: Any) -> list[bool]:
    return [False] * len(keys)


def _no_transfers(self: Any, transfers: Sequence[PoolTransfer], *rest: Any, **options: Any) -> Any:
    return {each.name: [False] * len(each.keys or []) for each in transfers}


class GD2FSStorage(HiCacheStorage):
    """HiCache's `dynamic` backend on GD2FS.

    Args:
        storage_config: SGLang's; its ``extra_config`` holds the settings of ``StoreSettings``.
        kwargs: Nothing that is needed.

    Raises:
        InvalidRequest: The settings are wrong; SGLang then does not start, or does not attach. A
            store that is away is no reason: everything is computed until it is there.
    """

    def __init__(self, storage_config: HiCacheStorageConfig, kwargs: dict[str, Any]) -> None:
        extra = storage_config.extra_config or {}
        self.config = storage_config
        self.settings = settings_of(extra, foreign=FOREIGN)
        self.board = CountsBoard()
        self.gate = LoadGate(
            is_open=not self.settings.never_slower,
            compute_tokens_per_s=self.settings.prefill_tokens_per_s or None,
        )
        self.promises = Promises()
        self.identity: KvIdentity | None = None
        self._is_flat = not extra.get("interface_v1")
        self._arguments = recipe.server_arguments()
        self._weights = self.settings.weights or recipe.weights_of(self._arguments)
        self._draft = recipe.draft_of(self._arguments)
        self._adapters = recipe.adapters_of(self._arguments)
        self._weights_version = recipe.weights_version()
        self.figures = Figures(
            self.board,
            self.gate,
            {
                "model_name": str(storage_config.model_name or ""),
                "tp_rank": str(storage_config.tp_rank),
                "pp_rank": str(storage_config.pp_rank),
            },
            is_shown=bool(storage_config.enable_storage_metrics),
        )
        self._lock = threading.Lock()  # Guards: all below. Never held while asking the store.
        self._pools: dict[str, PagePool] = {}
        self._prefixes: dict[str, bytes] = {}
        self._transfers: Transfers | None = None
        self._store: EngineStore | None = None
        self._watch: ComputeWatch | None = None
        self._tell_at = 0.0  # when the store is told next of what its pages are
        self._before: Any = None  # what the host pool was, when other weights were put in

    # ---- attach and detach: the scheduler's thread ----------------------------------------------

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """Take the pool of the KV cache."""
        super().register_mem_pool_host(mem_pool_host)
        self._add_pool(KV, mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        """Take a pool; that of the KV cache comes here too."""
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        self._add_pool(_name(host_pool_name), host_pool)

    def on_host_pools_registered(self) -> None:
        """Find out what the pages depend on, and connect.

        Raises:
            InvalidRequest: The settings name no store, or the wrong one.
        """
        self.identity = recipe.identity_of(
            self.config,
            self._pools[KV],
            tag=self.settings.tag,
            weights=self._weights,
            draft=self._draft,
            adapters=self._adapters,
            arguments=self._arguments,
        )
        namespace = self.identity.namespace()
        if self._store is not None:
            self._store.namespace = namespace
            return
        self._watch = ComputeWatch(self.gate, page_tokens=self.identity.page_tokens)
        memory = [piece for pool in self._pools.values() for piece in pool.memory()]
        self._store = EngineStore(
            self.settings, namespace, board=self.board, gate=self.gate, pools=memory
        )
        self._transfers = Transfers(self._store, self.figures)
        log.info("pages are in namespace %s, of %s", namespace, self.identity)

    @never_raises(lambda self: None)
    def clear(self) -> None:
        """Forget all pages of this namespace, those of other ranks and instances too."""
        if self._store is not None and not self._store.clear():
            log.warning("not every node cleared namespace %s in time", self._store.namespace)

    @never_raises(lambda self: None)
    def close(self) -> None:
        """End the connection. Twice is fine."""
        if self._store is not None:
            self._store.close()

    def get_stats(self) -> StorageMetrics:
        """What was transferred since the last call; cheap, as each step of the scheduler asks."""
        return StorageMetrics(**self.figures.take_transfers())

    # ---- look up: the prefetch thread -----------------------------------------------------------

    @never_raises(lambda self, *arguments, **options: False)
    def exists(self, key: str) -> bool:
        """Whether one page is there."""
        return self._look_up([key], []).pages == 1

    @never_raises(lambda self, *arguments, **options: 0)
    def batch_exists(
        self, keys: list[str], extra_info: HiCacheStorageExtraInfo | None = None
    ) -> int:
        """How many leading pages are there and worth loading."""
        return self._look_up(keys, []).pages

    @never_raises(lambda self, *arguments, **options: PoolTransferResult.empty())
    def batch_exists_v2(
        self,
        keys: list[str],
        pool_transfers: list[PoolTransfer] | None = None,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> PoolTransferResult:
        """As ``batch_exists``, with all pools that must follow; one question for all of them."""
        hits = self._look_up(keys, pool_transfers or [])
        return PoolTransferResult(hits.pages, hits.reached, hits.ends)

    def _look_up(self, keys: Sequence[str], transfers: Sequence[PoolTransfer]) -> SpanHits:
        store = self._ready_store()
        if store is None or not keys:
            return SpanHits([], {})
        pages = [(KV, list(keys))] if self._pools[KV].has_bytes else []
        pages += [(_name(each.name), _asked_keys(each, keys)) for each in transfers]
        names = [self._key(name, each) for name, asked in pages for each in asked]
        present = iter(store.exists(names))
        answers = [[next(present) for _ in asked] for _, asked in pages]
        kv_pages = leading(answers.pop(0)) if self._pools[KV].has_bytes else len(keys)
        hits = span_hits(kv_pages, list(map(self._presence, transfers, answers)), kv_pool=KV)
        return self._gated(keys, transfers, hits)

    def _presence(self, transfer: PoolTransfer, present: Sequence[bool]) -> PoolPresence:
        return PoolPresence(
            _name(transfer.name),
            _name(transfer.hit_policy),
            present if self._is_usable(_name(transfer.name)) else [False] * len(present),
            window_pages=max(1, len(transfer.keys or [])),
            block_pages=transfer.block_pages,
            group_keys=transfer.group_pages,
        )

    def _gated(
        self, keys: Sequence[str], transfers: Sequence[PoolTransfer], hits: SpanHits
    ) -> SpanHits:
        """Nothing, where computing is quicker. What is missing is watched until it is stored."""
        assert self._watch is not None and self.identity is not None
        missed = hits.pages
        if hits.pages:
            tokens = hits.pages * self.identity.page_tokens
            size = self._span_bytes(hits.pages, transfers)
            if self.gate.admits(tokens=tokens, size=size + self.promises.size()):
                self.board.add(gate_admitted=1)
                self.promises.add(keys[: hits.pages], page_bytes=size // hits.pages)
            else:
                self.board.add(gate_refused=1)
                hits, missed = SpanHits([], hits.reached), 0
        if missed < len(keys):
            self._watch.missed(keys[missed])
        return hits

    def _span_bytes(self, pages: int, transfers: Sequence[PoolTransfer]) -> int:
        size = pages * self._pools[KV].page_bytes
        for each in transfers:
            pool = self._pools.get(_name(each.name))
            if pool is not None:
                is_window = _name(each.hit_policy) != ALL_PAGES
                size += pool.page_bytes * (len(each.keys or [1]) if is_window else pages)
        return size

    # ---- load: the prefetch's other thread ------------------------------------------------------

    @never_raises(_no_keys)
    def batch_get_v1(
        self,
        keys: list[str],
        host_indices: torch.Tensor,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> list[bool]:
        """Load pages straight into the host pool; of each whether it is there now."""
        self.promises.keep(keys)
        return self._load([self._part(KV, keys, host_indices)])[0]

    @never_raises(_no_transfers)
    def batch_get_v2(
        self, transfers: list[PoolTransfer], extra_info: HiCacheStorageExtraInfo | None = None
    ) -> dict[str, list[bool]]:
        """Load pages of several pools at once. A window that is not whole is no hit at all."""
        parts = [
            self._part(_name(each.name), each.keys or [], each.host_indices) for each in transfers
        ]
        found = self._load(parts)
        for at, each in enumerate(transfers):
            if _name(each.hit_policy) == TRAILING_PAGES and not all(found[at]):
                found[at] = [False] * len(found[at])
        return _by_pool(transfers, found)

    @never_raises(lambda self, keys, *arguments, **options: [None] * len(keys))
    def batch_get(
        self, keys: list[str], target_locations: Any = None, target_sizes: Any = None
    ) -> list[torch.Tensor | None]:
        """Load pages into flat tensors of the caller; None for each that is not there."""
        self.promises.keep(keys)
        tensors = list(target_locations or [])
        if self._ready_store() is None or len(tensors) != len(keys):
            return [None] * len(keys)
        assert self._transfers is not None
        found = self._transfers.load_flat([self._key(KV, key) for key in keys], tensors)
        return [tensor if ok else None for tensor, ok in zip(tensors, found, strict=True)]

    def get(
        self, key: str, target_location: Any = None, target_sizes: Any = None
    ) -> torch.Tensor | None:
        """As ``batch_get``, of one page."""
        return self.batch_get([key], None if target_location is None else [target_location])[0]

    def _load(self, parts: list[Part]) -> list[list[bool]]:
        if self._ready_store() is None:
            return [[False] * len(part.keys) for part in parts]
        assert self._transfers is not None
        return self._transfers.load(parts)

    # ---- store: the backup thread ---------------------------------------------------------------

    @never_raises(_no_keys)
    def batch_set_v1(
        self,
        keys: list[str],
        host_indices: torch.Tensor,
        extra_info: HiCacheStorageExtraInfo | None = None,
    ) -> list[bool]:
        """Store pages straight from the host pool; of each whether it is there now."""
        return self._save([self._part(KV, keys, host_indices)], [list(keys)])[0]

    @never_raises(_no_transfers)
    def batch_set_v2(
        self, transfers: list[PoolTransfer], extra_info: HiCacheStorageExtraInfo | None = None
    ) -> dict[str, list[bool]]:
        """Store pages of several pools at once."""
        parts = [
            self._part(_name(each.name), each.keys or [], each.host_indices) for each in transfers
        ]
        return _by_pool(transfers, self._save(parts, []))

    @never_raises(lambda self, *arguments, **options: False)
    def batch_set(
        self,
        keys: list[str],
        values: Any = None,
        target_locations: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        """Store flat tensors; whether all are there now."""
        tensors = list(values if values is not None else target_locations or [])
        if self._ready_store() is None or len(tensors) != len(keys):
            return False
        if self._has_pages_of_before():
            return False
        if not self._is_writer(KV):
            return True
        assert self._transfers is not None
        stored = self._transfers.save_flat([self._key(KV, key) for key in keys], tensors)
        self._saw_stored([list(keys)], stored)
        return all(stored)

    def set(
        self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None
    ) -> bool:
        """As ``batch_set``, of one page."""
        found = value if value is not None else target_location
        return found is not None and self.batch_set([key], [found])

    def _save(self, parts: list[Part], chains: list[list[str]]) -> list[list[bool]]:
        if self._ready_store() is None:
            return [[False] * len(part.keys) for part in parts]
        assert self._transfers is not None
        if self._has_pages_of_before():
            return [[False] * len(part.keys) for part in parts]
        stored = self._transfers.save(parts)
        self._saw_stored(chains, [ok for each in stored for ok in each])
        return stored

    def _saw_stored(self, chains: list[list[str]], stored: list[bool]) -> None:
        """Computing took until now; and who looks at the store finds out what is in there."""
        assert self._watch is not None and self._store is not None and self.identity is not None
        for chain in chains:
            self._watch.stored(chain)
        now = time.monotonic()
        if any(stored) and now >= self._tell_at:
            self._tell_at = now + TELL_S
            self._store.put_text(IDENTITY_FILE, self.identity.as_text())

    # ---- pools and keys -------------------------------------------------------------------------

    def _add_pool(self, name: str, host: Any) -> None:
        if int(getattr(host, "shard_size", 1)) > 1:
            raise InvalidRequest(
                f"whole pages of pool {name} are spread over {host.shard_size} ranks",
                hint="SGLang numbers them over all ranks, and says nowhere where ours are; "
                "start it without that, or without a storage backend",
            )
        pool = PagePool(
            name,
            host,
            is_flat=self._is_flat and name == KV,
            salt=self._draft if name in DRAFTS else "",
        )
        rank = recipe.rank_part(self.config, is_cut_by_heads=self._is_cut_by_heads(pool))
        prefix = page_key("-", pool=f"{name}-{pool.digest}", rank=rank)[:-1]
        with self._lock:
            self._pools[name], self._prefixes[name] = pool, prefix

    def _is_cut_by_heads(self, pool: PagePool) -> bool:
        """Whether ranks of one group have different parts of its pages.

        Where SGLang says that the KV cache is the same on all ranks, pools of attention heads and
        of states beside it are not.
        """
        from sglang.srt.mem_cache.pool_host.mamba import MambaPoolHost
        from sglang.srt.mem_cache.pool_host.mha import MHATokenToKOnlyPoolHost, MHATokenToKVPoolHost

        kinds = (MambaPoolHost, MHATokenToKVPoolHost, MHATokenToKOnlyPoolHost)
        return not self.config.is_mla_model or isinstance(pool.host, kinds)

    def _is_writer(self, name: str) -> bool:
        """Of pages that all ranks have alike, one rank stores them."""
        pool = self._pools[name]
        return self.config.is_storage_writer or self._is_cut_by_heads(pool)

    def _is_usable(self, name: str) -> bool:
        pool = self._pools.get(name)
        return pool is not None and pool.page_bytes > 0

    def _key(self, name: str, page_hash: str) -> bytes:
        return self._prefixes.get(name, b"unknown/") + page_hash.encode()

    def _part(self, name: str, keys: Sequence[str], slots: Any) -> Part:
        names = [self._key(name, key) for key in keys]
        return Part(
            pool=self._pools.get(name),
            keys=names,
            slots=slots,
            is_ours=self._is_usable(name) and self._is_writer(name),
        )

    def _ready_store(self) -> EngineStore | None:
        """The store; None before the pools are there. Weights that were put in since make it
        another namespace."""
        if self._store is not None and recipe.weights_version() != self._weights_version:
            self._weights_version = recipe.weights_version()
            self._tell_at = 0.0
            self._before = self._life_of_host_pool()
            log.warning("weights are now version %s: earlier pages are left", self._weights_version)
            self.on_host_pools_registered()
        return self._store

    def _has_pages_of_before(self) -> bool:
        """Whether the host pool may still have pages of weights that are not served any more.

        They must not be stored as pages of the new ones. SGLang flushes when it is told to.
        """
        if self._before is None or self._life_of_host_pool() is not self._before:
            self._before = None
            return False
        self.board.add(shed_pages=1)
        return True

    def _life_of_host_pool(self) -> Any:
        """An object that is another one after each flush; of a pool that has none, always ours."""
        return getattr(self.mem_pool_host, "slot_used", self)


def _name(name: Any) -> str:
    """The plain text of a member of one of SGLang's enumerations."""
    return str(getattr(name, "value", name))


def _asked_keys(transfer: PoolTransfer, span: Sequence[str]) -> list[str]:
    """Which pages of a pool are asked for: those of the span, or those of its own groups."""
    is_grouped = _name(transfer.hit_policy) == BLOCK_GROUPS
    return list(transfer.keys or []) if is_grouped else list(span)


def _by_pool(transfers: Sequence[PoolTransfer], found: Sequence[list[bool]]) -> dict[str, Any]:
    """Answers by pool. Of two transfers of one pool, the second counts if the first is whole."""
    answers: dict[str, list[bool]] = {}
    for each, own in zip(transfers, found, strict=True):
        is_whole = all(answers.get(each.name, []))
        answers[each.name] = own if is_whole else [False] * len(own)
    return answers
