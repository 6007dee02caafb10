"""Host copies: vLLM's tiered offloading on its CPU build, for tests.

As shipped, the worker that copies between the device and the pool of host memory wants a GPU. On
the CPU build both are host memory, and indexing by torch does. All else is vLLM's own: scheduler,
connector, pool, tiers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

Places = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # blocks, chunks, blocks within these


class HostCopySpec(TieringOffloadingSpec):
    """``TieringOffloadingSpec`` with a worker for host memory."""

    def get_worker(self, kv_caches: Any) -> OffloadingWorker:
        if self._worker is None:
            region = SharedOffloadRegion(
                engine_id=self._engine_id,
                num_chunks=self.num_chunks,
                rank=self.config.parallel.rank,
                kv_bytes_per_chunk=self.kv_bytes_per_chunk,
                cpu_page_size=self.cpu_page_size_per_worker,
            )
            self._worker = HostCopyWorker(kv_caches, self.blocks_per_chunk, region)
        return self._worker


class HostCopyWorker(OffloadingWorker):
    """Copies when it is told to; a job is done when it is submitted."""

    def __init__(self, kv_caches: Any, blocks_per_chunk: int, region: SharedOffloadRegion) -> None:
        self._blocks_per_chunk = blocks_per_chunk
        self._region = region
        self._groups = kv_caches.group_data_refs
        self._caches = [each.tensor for each in kv_caches.tensors]
        self._pools = [
            region.create_next_worker_view(each.page_size_bytes * blocks_per_chunk).unflatten(
                1, (blocks_per_chunk, each.page_size_bytes)
            )
            for each in kv_caches.tensors
        ]
        self._done: list[TransferResult] = []

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        begin, count = time.perf_counter(), 0
        for index, (blocks, chunks, parts) in self._tensors(src_spec, dst_spec.block_ids):
            self._pools[index][chunks, parts] = self._caches[index][blocks]
            count += len(blocks) * self._caches[index].shape[1]
        return self._finish(job_id, count, begin)

    def submit_load(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        begin, count = time.perf_counter(), 0
        for index, (blocks, chunks, parts) in self._tensors(dst_spec, src_spec.block_ids):
            self._caches[index][blocks] = self._pools[index][chunks, parts]
            count += len(blocks) * self._caches[index].shape[1]
        return self._finish(job_id, count, begin)

    def get_finished(self) -> list[TransferResult]:
        done, self._done = self._done, []
        return done

    def wait(self, job_ids: set[int]) -> None:
        return

    def shutdown(self) -> None:
        self._pools.clear()
        self._region.cleanup()

    def _tensors(self, device: Any, chunk_ids: np.ndarray) -> Iterator[tuple[int, Places]]:
        """Each tensor of each group, with which of its blocks belong where in the pool."""
        at = chunk_at = 0
        for refs, count, first in zip(
            self._groups, device.group_sizes, device.block_indices, strict=True
        ):
            if not count:
                continue
            positions = np.arange(first, first + count)
            ordinals = positions // self._blocks_per_chunk - first // self._blocks_per_chunk
            places = (
                _index(device.block_ids[at : at + count]),
                _index(chunk_ids[chunk_at + ordinals]),
                _index(positions % self._blocks_per_chunk),
            )
            at += count
            chunk_at += int(ordinals[-1]) + 1
            for ref in refs:
                yield ref.tensor_idx, places

    def _finish(self, job_id: int, count: int, begin: float) -> bool:
        self._done.append(TransferResult(job_id, True, count, time.perf_counter() - begin))
        return True


def _index(values: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.int64))
