"""Trees: SGLang's own prefix trees with GD2FS behind them, without a server.

The fixtures are those that SGLang ships for its tests; only the storage backend is ours. A tree
that produced pages, and one that prefetches them, are two instances as far as the store can tell.
"""

from __future__ import annotations

import json
import time
import unittest
from array import array
from typing import Any

import torch
from sglang.kernels.ops.attention.fla.chunk_delta_h import CHUNK_SIZE
from sglang.srt.mem_cache.base_prefix_cache import CacheRequestHandle
from sglang.srt.mem_cache.unified_cache.components.base import ComponentType
from sglang.srt.runtime_context import get_parallel
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang.test.kits.unified_radix_cache.config import CacheConfig
from sglang.test.kits.unified_radix_cache.fixtures import (
    build_fixture,
    drop_hicache_atexit_pin,
    match_prefix,
    node_host_value,
)
from sglang.test.kits.unified_radix_cache.storage import UnifiedRadixCacheStorageFixtures

from gd2fs.engines.sglang.launch import BACKEND

PATIENCE_S = 20.0
PAGE_TOKENS = 16
PAGES = 8

PLAIN = CacheConfig(page_size=PAGE_TOKENS, kv_size=1024, max_context_len=1024)
WINDOW = CacheConfig(
    page_size=PAGE_TOKENS,
    components=(ComponentType.FULL, ComponentType.SWA),
    sliding_window_size=2 * PAGE_TOKENS,
    kv_size=1024,
    max_context_len=1024,
)
STATES = CacheConfig(
    page_size=4,
    components=(ComponentType.FULL, ComponentType.MAMBA),
    enable_mamba_extra_buffer=True,
    mamba_cache_size=60,
    kv_size=1024,
    max_context_len=1024,
)


class Trees(UnifiedRadixCacheStorageFixtures):
    """Makes trees of one configuration, and moves pages between them and the store.

    Args:
        config: Of the model that the trees are for.
        store: Settings of GD2FS.
    """

    def __init__(self, config: CacheConfig, store: dict[str, Any]) -> None:
        self.cfg = config
        self.store = store
        self._rid = 0
        self._ends: list[Any] = []

    def addCleanup(self, function: Any, *arguments: Any) -> None:
        """What SGLang's fixtures ask of unittest."""
        self._ends.append((function, arguments))

    def __getattr__(self, name: str) -> Any:
        if name == "fail" or name.startswith("assert"):
            return getattr(unittest.TestCase(), name)
        raise AttributeError(name)

    def close(self) -> None:
        """End what was made, the last first."""
        while self._ends:
            function, arguments = self._ends.pop()
            function(*arguments)

    def new(self, *, layout: str = "page_first", mode: str = "cache", **settings: Any) -> Any:
        """A tree with its pools, of an instance that has nothing yet.

        Returns:
            The tree, its allocator and its pool of requests.
        """
        fixture = build_fixture(self.cfg)
        override = get_parallel().override(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1)
        override.__enter__()
        self.addCleanup(override.__exit__, None, None, None)
        extra = {**BACKEND, **self.store, "prefetch_threshold": 1, **settings}
        arguments = ServerArgs(
            model_path="dummy",
            page_size=self.cfg.page_size,
            hicache_io_backend="kernel",
            hicache_mem_layout=layout,
            hicache_write_policy="write_through",
            hicache_storage_backend="dynamic",
            hicache_storage_backend_extra_config=json.dumps(extra),
            hicache_storage_prefetch_policy="wait_complete",
            hicache_host_memory_mode=mode,
        )
        arguments._mamba_cache_chunk_size = max(CHUNK_SIZE, self.cfg.page_size)
        set_global_server_args_for_scheduler(arguments)
        cache = fixture[0]
        cache.init_hicache(arguments, cache.cache_init_params)
        self.addCleanup(drop_hicache_atexit_pin, cache)
        self.addCleanup(cache.release_host_resources)
        cache.write_through_threshold = 1 << 30
        cache.load_back_threshold = 0
        controller = cache.cache_controller
        controller.prefetch_capacity_limit = max(
            controller.prefetch_capacity_limit, controller.mem_pool_host.size
        )
        self.addCleanup(controller._stop_storage_threads)
        return fixture

    def backend(self, tree: Any) -> Any:
        """Our storage behind a tree."""
        return tree.cache_controller.storage_backend

    def produce(self, fixture: Any, sequence: list[int]) -> dict[str, dict[str, bytes]]:
        """Compute a sequence, as far as a tree can tell, and store it; its pages as bytes."""
        tree = fixture[0]
        self._insert(*fixture, sequence)
        fill_device_pools(tree)
        leaf = match_prefix(tree, sequence).last_device_node
        self._backup_node(tree, leaf)
        self._write_path_to_l3(tree, leaf)
        self._flush_l3_backups(tree, timeout=PATIENCE_S)
        return pages_of(tree)

    def leaf(self, tree: Any, sequence: list[int]) -> Any:
        """The node where a sequence ends."""
        return match_prefix(tree, sequence).last_device_node

    def hashes(self, tree: Any) -> list[str]:
        """Of the pages of a tree that has one sequence, in order."""
        nodes = [
            each for each in tree.tree_core.get_all_node_ids() if each != tree.root_node_handle()
        ]
        chains = [self._path_chain(tree, node) for node in nodes]
        return self._all_page_hashes(tree, max(chains, key=len)[-1])

    def device_hit_after_prefetch(self, tree: Any, sequence: list[int]) -> int:
        """Have a tree without a host cache fetch a sequence; how many tokens it has then."""
        handle = CacheRequestHandle(f"request-{time.monotonic_ns()}", 0)
        tree.prefetch_from_storage(
            handle, tree.root_node_handle(), array("q", sequence), None, None
        )
        self._run_prefetch_to_completion(tree, handle, timeout=PATIENCE_S)
        return match_prefix(tree, sequence).device_prefix_len

    def prefetch(self, tree: Any, sequence: list[int]) -> int:
        """Have a tree fetch a sequence; how many tokens it has in its host memory then."""
        handle = CacheRequestHandle(f"request-{time.monotonic_ns()}", 0)
        tree.prefetch_from_storage(
            handle, tree.root_node_handle(), array("q", sequence), None, None
        )
        self._run_prefetch_to_completion(tree, handle, timeout=PATIENCE_S)
        return match_prefix(tree, sequence).host_hit_length


def fill_device_pools(tree: Any) -> None:
    """Put bytes of their own into all that the device has, of every pool."""
    draw = torch.Generator().manual_seed(7)
    for entry in tree.cache_controller.mem_pool_host.entries:
        host = entry.host_pool
        layers = [*getattr(host, "device_k_buffers", []), *getattr(host, "device_v_buffers", [])]
        layers += getattr(host, "temporal_device_layers", [])
        layers += [each for kind in getattr(host, "conv_device_layers", []) for each in kind]
        for layer in layers:
            layer.copy_(torch.randn(layer.shape, generator=draw).to(layer.dtype))


def pages_of(tree: Any) -> dict[str, dict[str, bytes]]:
    """All pages that a tree has in its host memory, by pool and by hash."""
    pools = {str(each.name): each.host_pool for each in tree.cache_controller.mem_pool_host.entries}
    kinds = {"kv": ComponentType.FULL, "swa": ComponentType.SWA, "mamba": ComponentType.MAMBA}
    found: dict[str, dict[str, bytes]] = {name: {} for name in pools}
    for node in tree.tree_core.get_all_node_ids():
        if node == tree.root_node_handle():
            continue
        hashes = tree.tree_core.get_hash_values(node)
        for name, host in pools.items():
            slots = node_host_value(tree, node, kinds[name])
            if slots is not None:
                firsts = slots[:: host.page_size].tolist()
                own = hashes[-len(firsts) :]
                found[name] |= {key: flat(host, at) for key, at in zip(own, firsts, strict=True)}
    return found


def flat(host: Any, slot: int) -> bytes:
    """The bytes of one page of a host pool."""
    return host.get_data_page(slot, flat=True).contiguous().view(torch.uint8).numpy().tobytes()
