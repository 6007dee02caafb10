"""Tier: GD2FS below the host memory of vLLM's offloading connector.

The engine copies between the device and its pool of host memory, and cascades every chunk to us; a
chunk that is not in the pool is looked up here and loaded into it. All methods run on the thread of
the engine's scheduler: they move nothing and wait for nothing. What fails is a miss, and computed.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import (
    OffloadingConnectorStats,
)
from vllm.logger import init_logger
from vllm.v1.kv_offload.base import (
    Locality,
    LookupResult,
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    RequestOffloadingContext,
    get_offload_block_hash,
    get_offload_group_idx,
)
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager
from vllm.version import __version__ as vllm_version

from gd2fs.engines.gate import ComputeWatch, LoadGate
from gd2fs.engines.identity import IDENTITY_FILE, page_key
from gd2fs.engines.store import EngineStore
from gd2fs.engines.vllm.asker import Asker
from gd2fs.engines.vllm.facts import engine_config, facts_of
from gd2fs.engines.vllm.handshake import Handshake, Standing
from gd2fs.engines.vllm.lookups import Answer, Lookups
from gd2fs.engines.vllm.measures import Tally, definitions
from gd2fs.engines.vllm.options import options_of
from gd2fs.engines.vllm.transfers import Job, Pool, Transfers
from gd2fs.engines.vllm.versions import check_version, slots_of

DRAIN_WARN_S = 10.0

log = init_logger("vllm.gd2fs")


class GD2FSTier(SecondaryTierManager):
    """A secondary tier, made by vLLM from an entry of ``secondary_tiers``.

    Args:
        offloading_spec: vLLM's.
        primary_kv_view: The pool, ``(chunks, bytes)``. It outlives the tier.
        tier_type: The name that vLLM has for us.
        backpressure_detector: vLLM's own, when it is configured. Ours works beside it.
        options: The rest of the entry, see ``TierOptions``.

    Raises:
        InvalidRequest: The configuration is wrong, vLLM's release is unknown, or other instances of
            this model hash their blocks otherwise. The engine does not start then.
    """

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: Any = None,
        **options: Any,
    ) -> None:
        release = check_version(vllm_version)
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        pool = _pool_of(primary_kv_view)
        self._options = options_of(options, pool_bytes=pool.count * pool.chunk_bytes)
        store = self._options.store
        if self._options.locality:
            self.locality = Locality(self._options.locality)
        self._facts = facts_of(
            engine_config(),
            offloading_spec.config,
            store,
            release=release,
            page_bytes=pool.chunk_bytes,
        )
        self._pool = pool
        self._request_chunks_max = max(1, pool.count * 3 // 4)  # the rest is for what is stored
        self._gate = LoadGate(
            is_open=not store.never_slower,
            compute_tokens_per_s=store.prefill_tokens_per_s or None,
        )
        # Groups of layers have pages of their own for the same tokens.
        self._page_tokens = max(self._facts.page_tokens) // len(self._facts.page_tokens)
        self._watch = ComputeWatch(self._gate, page_tokens=self._page_tokens)
        self._lookups = Lookups(timeout_s=store.lookup_timeout_s)
        self._tally = Tally()
        self._admitted: dict[str, bool] = {}
        self._unanswered = 0
        self._is_open = True
        self._open(tier_type)

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:
        """Descriptions of what ``get_stats`` tells; called in the API server's process."""
        return definitions(OffloadingCounterMetadata, OffloadingGaugeMetadata)

    # ---- lookups ------------------------------------------------------------------------------

    def on_new_request(self, req_context: Any) -> RequestOffloadingContext:
        """Only chunks that are new are stored."""
        return RequestOffloadingContext()

    def lookup(self, key: bytes, req_context: Any) -> LookupResult:
        """Whether the store has a chunk; asked for together with all others of this step."""
        request = req_context.req_id
        for keys, answers in self._asker.answers():
            self._lookups.resolve(keys, answers)
        answer = self._lookups.look(key, request)
        if answer is Answer.LATER:
            return LookupResult.RETRY
        reason = "" if answer is Answer.HIT else answer.value
        if not reason and not self._admits(request):
            reason = "slower"
        if not reason and not self._lookups.grant(key, request, self._request_chunks_max):
            reason = "pool"
        if self._lookups.is_news(key, request):
            self._count_lookup(key, reason)
        return LookupResult.MISS if reason else LookupResult.HIT

    def on_schedule_end(self, context: Any) -> None:
        """Ask for all keys that this step was the first to name."""
        batch = self._lookups.take_batch()
        if batch:
            self._asker.ask(batch)

    def on_request_finished(self, req_context: Any) -> None:
        """Forget what a request asked for."""
        self._lookups.forget(req_context.req_id)
        self._admitted.pop(req_context.req_id, None)

    # ---- jobs ---------------------------------------------------------------------------------

    def submit_load(self, job_metadata: Any) -> None:
        """Load chunks into the pool. Never shed."""
        seconds = self._options.store.load_timeout_s
        self._transfers.load(self._job_of(job_metadata, seconds, is_load=True))

    def submit_store(self, job_metadata: Any) -> None:
        """Store chunks of the pool, or leave it when the store is away or too much waits."""
        job = self._job_of(job_metadata, self._options.store.store_timeout_s, is_load=False)
        self._watch.stored(job.keys)
        if self._handshake.standing is not Standing.AGREED:
            self._transfers.shed(job)
            self._tally.add("shed_chunks", len(job.keys), reason="apart")
        elif not self._transfers.store(job):
            self._tally.add("shed_chunks", len(job.keys), reason="queue")

    def get_finished_jobs(self) -> Iterable[JobResult]:
        """Jobs that ended since the last call; what could not be loaded is a miss from now on."""
        return [self._result_of(job) for job in self._transfers.finished()]

    def drain_jobs(self) -> None:
        """Wait until no job is under way. Each has its deadline, so this ends."""
        while not self._transfers.drain(DRAIN_WARN_S):
            log.warning("transfers are still under way after %.0f s", DRAIN_WARN_S)

    # ---- the rest -----------------------------------------------------------------------------

    def get_stats(self) -> OffloadingConnectorStats | None:
        """What has happened since the last call."""
        self._set_gauges()
        stats = OffloadingConnectorStats()
        for measure, value, labels in self._tally.take():
            if measure.kind == "counter":
                stats.increase_counter(measure.full_name, value, labels)
            else:
                stats.set_gauge(measure.full_name, value, labels)
        return None if stats.is_empty() else stats

    def shutdown(self) -> None:
        """End calls, threads and connections. Twice is fine.

        Raises:
            RuntimeError: A thread may still touch the pool, which must stay where it is.
        """
        if not self._is_open:
            return
        self._is_open = False
        self._transfers.drain(self._options.store.store_timeout_s)
        self._store.close()
        self._handshake.close()
        has_ended = self._asker.close()
        if not (self._transfers.close() and has_ended):
            raise RuntimeError("a transfer does not end; the pool is left as it is")

    def _open(self, tier_type: str) -> None:
        facts, settings = self._facts, self._options.store
        meeting = facts.meeting_place().namespace()
        where = f"model `{facts.identity.model}`" + (
            f" with tag `{settings.tag}`" if settings.tag else ""
        )
        self._handshake = Handshake(
            EngineStore(replace(settings, streams=1, io_threads=1), meeting),
            facts.recipe,
            where,
            timeout_s=settings.lookup_timeout_s,
        )
        try:
            self._handshake.check()
        except BaseException:
            self._handshake.close()
            raise
        namespace = facts.identity.namespace()
        self._store = EngineStore(settings, namespace, gate=self._gate, pools=[self._pool.whole])
        tell = partial(
            self._store.put_text,
            IDENTITY_FILE,
            facts.identity.as_text(),
            deadline_s=settings.lookup_timeout_s,  # lookups wait meanwhile
        )
        self._asker = Asker(self._store, self._handshake, self._page_of, tell=tell)
        self._transfers = Transfers(
            self._store,
            self._pool,
            load_threads=self._options.load_threads,
            store_threads=self._options.store_threads,
            store_queue_bytes=self._options.store_queue_bytes,
        )
        log.info(
            "Tier %s: namespace %s, %d chunks of %d bytes, %s tokens each; %s",
            tier_type,
            namespace,
            self._pool.count,
            self._pool.chunk_bytes,
            "/".join(map(str, facts.page_tokens)),
            "the store is there" if self._store.is_open else "no node of the store answers yet",
        )

    def _page_of(self, key: bytes) -> bytes:
        return page_key(get_offload_block_hash(key), pool=str(get_offload_group_idx(key)))

    def _job_of(self, metadata: Any, timeout_s: float, *, is_load: bool) -> Job:
        position = metadata.req_context.get_offload_key_position
        pairs = sorted(
            zip(metadata.keys, slots_of(metadata), strict=True),
            key=lambda pair: position(pair[0]) or 0,
        )
        begin = time.monotonic()
        return Job(
            number=metadata.job_id,
            keys=[key for key, _ in pairs],
            pages=[self._page_of(key) for key, _ in pairs],
            slots=[slot for _, slot in pairs],
            is_load=is_load,
            begin=begin,
            end=begin + timeout_s,
        )

    def _result_of(self, job: Job) -> JobResult:
        done = [key for key, is_done in zip(job.keys, job.done, strict=True) if is_done]
        failed = [key for key, is_done in zip(job.keys, job.done, strict=True) if not is_done]
        if job.is_load:
            self._lookups.fail(failed)
        else:
            self._lookups.stored(done)
        if not job.is_shed:
            self._count_job(job, done)
        return JobResult(
            job_id=job.number,
            success=not failed,
            successful_keys=tuple(done) if job.is_load and failed and done else None,
            transfer_time=job.seconds,
            transfer_bytes=len(done) * self._pool.chunk_bytes,
        )

    def _admits(self, request: str) -> bool:
        """Whether what a request has in the store is worth loading; decided once for all of it."""
        is_admitted = self._admitted.get(request)
        if is_admitted is None:
            hits = min(len(self._lookups.hits_of(request)), self._request_chunks_max)
            tokens = hits * self._page_tokens
            size = hits * self._pool.chunk_bytes + self._transfers.waiting_load_bytes
            is_admitted = self._gate.admits(tokens=tokens, size=size)
            self._admitted[request] = is_admitted
        return is_admitted

    def _count_lookup(self, key: bytes, reason: str) -> None:
        if reason:
            self._tally.add("misses", reason=reason)
            self._watch.missed(key)
        else:
            self._tally.add("hits")

    def _count_job(self, job: Job, done: Collection[bytes]) -> None:
        size, missing = len(done) * self._pool.chunk_bytes, len(job.keys) - len(done)
        kind = "load" if job.is_load else "store"
        past = "loaded" if job.is_load else "stored"
        self._tally.add(f"{past}_chunks", len(done))
        self._tally.add(f"{past}_bytes", size)
        self._tally.add(f"{kind}_seconds", job.seconds)
        self._tally.add(f"failed_{kind}s", missing)

    def _set_gauges(self) -> None:
        unanswered = self._store.board.read().unavailable
        self._tally.add("unanswered_calls", unanswered - self._unanswered)
        self._unanswered = unanswered
        rates = self._gate.rates()
        self._tally.set("standing", self._handshake.standing.value)
        self._tally.set("load_bytes_per_second", round(rates.load_bytes_per_s))
        self._tally.set("prefill_tokens_per_second", round(rates.compute_tokens_per_s))
        self._tally.set("queued_store_bytes", self._transfers.queued_store_bytes)


def _pool_of(view: memoryview) -> Pool:
    """Where the engine's chunks lie. Holds on to nothing: the engine unmaps them when it ends."""
    assert view.c_contiguous and not view.readonly
    row = view.strides[0] if view.strides else view.nbytes
    address = ctypes.addressof(ctypes.c_char.from_buffer(view))
    return Pool(address, row, view.nbytes // row)
