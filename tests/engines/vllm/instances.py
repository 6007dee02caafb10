"""Instances: vLLM's own tiering manager with our tier, without an engine around it.

The scheduler's side of the connector is all real: specification, pool, manager, tier. What a
scheduler does in its steps, the methods here do.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.kv_offload.base import (
    LookupResult,
    ReqContext,
    ScheduleEndContext,
    make_offload_key,
)
from vllm.v1.kv_offload.config import (
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from gd2fs.testing import NodeProcess

BLOCK_TOKENS = 32
CHUNK_BLOCKS = 2
BLOCK_BYTES = 32 << 10
CHUNKS = 32
WAIT_S = 20.0

_numbers = count(1)


@cache
def engine_config(model: str, algorithm: str = "sha256_cbor") -> Any:
    """vLLM's configuration for a model."""
    return EngineArgs(
        model=model, prefix_caching_hash_algo=algorithm, served_model_name=["model"]
    ).create_engine_config()


def offloading_config(**changes: Any) -> OffloadingConfig:
    """What vLLM tells its offloading: one group of layers, one worker."""
    parallel = OffloadingParallelConfig(
        rank=0,
        world_size=1,
        tp_size=1,
        pp_size=1,
        pcp_size=1,
        dcp_size=1,
        data_parallel_index=0,
        data_parallel_size=1,
        data_parallel_rank_local=None,
        is_parallelism_agnostic=False,
    )
    config = OffloadingConfig(
        groups=(OffloadingGroupConfig(BLOCK_TOKENS, ("layer.0", "layer.1"), 0),),
        worker_kv_bytes_per_block=BLOCK_BYTES,
        enable_kv_cache_events=False,
        extra_config={},
        engine_id=f"gd2fs-test-{time.time_ns()}-{next(_numbers)}",
        model=OffloadingModelConfig("model", "bfloat16"),
        cache=OffloadingCacheConfig(tokens_per_hash=BLOCK_TOKENS, blocks_per_chunk=CHUNK_BLOCKS),
        parallel=parallel,
        kv_cache_layout="LBHNC",
    )
    return replace(config, **changes)


class Instance:
    """A manager with one tier. Close it.

    Args:
        vllm_config: The engine's.
        tier: Settings of the tier.
        config: What the offloading is told.
    """

    def __init__(
        self, vllm_config: Any, tier: dict[str, Any], config: OffloadingConfig | None = None
    ) -> None:
        entry = {"type": "GD2FSTier", "module_path": "gd2fs.engines.vllm", **tier}
        extra = {
            "cpu_bytes_to_use": CHUNKS * CHUNK_BLOCKS * BLOCK_BYTES,
            "secondary_tiers": [entry],
        }
        spec = TieringOffloadingSpec(replace(config or offloading_config(), extra_config=extra))
        self.manager = spec.get_manager()
        self.tier = self.manager.secondary_tiers[0]
        self.view = np.asarray(self.manager.primary_tier.get_kv_memoryview())

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        del self.view
        self.manager.shutdown()

    def request(self, name: str, keys: Sequence[bytes]) -> ReqContext:
        """A request whose prompt is these chunks."""
        context = ReqContext(req_id=name)
        for at, key in enumerate(keys):
            context.set_offload_key_position(key, (at + 1) * BLOCK_TOKENS * CHUNK_BLOCKS)
        self.manager.on_new_request(context)
        return context

    def compute(self, context: ReqContext, keys: Sequence[bytes], fill: Iterable[int]) -> None:
        """As if the engine had computed chunks whose bytes are all ``fill``."""
        output = self.manager.prepare_store(list(keys), context)
        assert output is not None
        for slot, value in zip(output.store_spec.chunk_ids, fill, strict=True):
            self.view[int(slot)] = value
        self.manager.complete_store(set(output.keys_to_store), context)
        self.settle()

    def settle(self) -> None:
        """Step until no transfer is under way."""
        end = time.monotonic() + WAIT_S
        while self.manager.has_pending_work():
            assert time.monotonic() < end, "transfers do not end"
            self.step()

    def step(self) -> None:
        """The end of one step of the scheduler."""
        self.manager.on_schedule_end(ScheduleEndContext((), ()))
        time.sleep(0.001)

    def find(self, context: ReqContext, keys: Sequence[bytes]) -> list[LookupResult]:
        """Look keys up as the scheduler does, step by step: all up to the first miss."""
        end = time.monotonic() + WAIT_S
        while True:
            results = []
            for key in keys:
                results.append(self.manager.lookup(key, context))
                if results[-1] is LookupResult.MISS:
                    break
            if set(results) <= {LookupResult.HIT, LookupResult.MISS}:
                return results
            assert time.monotonic() < end, f"still {results}"
            self.step()

    def forget(self) -> None:
        """Empty the pool."""
        self.manager.reset_cache()
        if hasattr(self.manager, "on_reset_flushed"):  # from 0.33 on, said by the scheduler
            self.manager.on_reset_flushed()

    def bytes_of(self, key: bytes, context: ReqContext) -> set[int]:
        """Which values the bytes of a chunk in the pool have."""
        spec = self.manager.prepare_load([key], context)
        values = set(self.view[int(spec.chunk_ids[0])].tolist())
        self.manager.complete_load([key], context)
        return values

    def measures(self) -> dict[str, float]:
        """Counters of ours since the last call, labels after a dot."""
        stats = self.tier.get_stats()
        found: dict[str, float] = {}
        for name, values in (stats.data["data"] if stats else {}).items():
            for labels, value in values.items():
                short = name.removeprefix("vllm:kv_offload_gd2fs_")
                found[".".join((short, *labels))] = value
        return found


def hang(node: NodeProcess) -> None:
    """Stop a node, and wait until the kernel has stopped all of it."""
    node.send(signal.SIGSTOP)
    assert node.process is not None
    state = Path(f"/proc/{node.process.pid}/stat")
    end = time.monotonic() + WAIT_S
    while state.read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < end, "it does not stop"
        time.sleep(0.001)


def chunk_keys(number: int, *, group: int = 0) -> list[bytes]:
    """Keys of chunks that no other test uses."""
    first = next(_numbers) << 32
    return [make_offload_key((first + at).to_bytes(32, "big"), group) for at in range(number)]
