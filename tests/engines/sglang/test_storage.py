"""The backend by itself, between host pools of any shape and real nodes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from host_pools import HostPool, hashes, slots_of, storage_of
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer

from gd2fs import Client, InvalidRequest
from gd2fs.engines.sglang import GD2FSStorage, recipe
from gd2fs.testing import Cluster, LocalNodes, NodeProcess

TRAILING = PoolHitPolicy.TRAILING_PAGES


@pytest.fixture
def attach(store_settings: dict[str, Any]) -> Iterator[Callable[..., GD2FSStorage]]:
    """Makes backends of one namespace, unless a test says otherwise."""
    made: list[GD2FSStorage] = []

    def attach(pools: dict[str, HostPool], **options: Any) -> GD2FSStorage:
        made.append(storage_of(store_settings, pools, **options))
        return made[-1]

    yield attach
    for each in made:
        each.close()


def transfer(name: str, numbers: list[int], **options: Any) -> PoolTransfer:
    """Pages of a pool, in the places of the same numbers."""
    return PoolTransfer(
        PoolName(name), host_indices=slots_of(*numbers), keys=hashes(*numbers), **options
    )


@pytest.mark.parametrize("pieces", [1, 2, 64])
@pytest.mark.parametrize("is_addressable", [True, False], ids=["in place", "copied"])
def test_pages_come_back_into_any_place(attach, pieces, is_addressable):
    pools = [HostPool(pieces=pieces, is_addressable=is_addressable) for _ in range(2)]
    one, other = attach({"kv": pools[0].fill()}), attach({"kv": pools[1]})
    stored = one.batch_set_v1(hashes(0, 1, 2), slots_of(7, 3, 9))
    found = other.batch_get_v1(hashes(2, 0, 5, 1), slots_of(1, 2, 3, 4))

    assert (stored, found) == ([True] * 3, [True, True, False, True])
    assert [pools[1].page(at) for at in (1, 2, 4)] == [pools[0].page(at) for at in (9, 7, 3)]


def test_flat_tensors_come_back(attach):
    one = attach({"kv": HostPool().fill()}, extra={"interface_v1": 0})
    pages = [one.mem_pool_host.get_data_page(at) for at in (0, 4)]
    rooms = [one.mem_pool_host.get_dummy_flat_data_page() for _ in range(3)]

    assert one.batch_set(hashes(0, 1), pages)
    found = one.batch_get(hashes(0, 9, 1), rooms)
    assert found[1] is None and [found[0].equal(pages[0]), found[2].equal(pages[1])] == [True] * 2
    assert (one.exists(hashes(0)[0]), one.exists(hashes(9)[0])) == (True, False)
    assert one.get(hashes(1)[0], rooms[0]).equal(pages[1])
    assert one.set(hashes(9)[0], pages[0])


def test_a_span_is_asked_about_once_for_all_pools(attach):
    pools = {name: HostPool(2000, piece_bytes=64).fill() for name in ("kv", "indexer", "draft")}
    one, span = attach(pools), list(range(1500))
    one.batch_set_v1(hashes(*span), slots_of(*span))
    one.batch_set_v2([transfer("indexer", span), transfer("draft", span[:1400])])
    before = one.board.read()
    asked = [PoolTransfer(PoolName.INDEXER), PoolTransfer(PoolName.DRAFT)]
    hits = one.batch_exists_v2(hashes(*span), asked)

    assert one.board.read().lookups == before.lookups + 1
    assert (hits.kv_hit_pages, hits.extra_pool_hit_pages) == (
        1400,
        {"kv": 1500, "indexer": 1500, "draft": 1400},
    )


def test_states_are_restorable_where_they_were_stored(attach):
    one = attach({"kv": HostPool().fill(), "mamba": HostPool(pieces=3).fill()})
    one.batch_set_v1(hashes(*range(8)), slots_of(*range(8)))
    one.batch_set_v2([transfer("mamba", [2, 5])])
    state = PoolTransfer(PoolName.MAMBA, keys=hashes(7), hit_policy=TRAILING)
    hits = one.batch_exists_v2(hashes(*range(8)), [state])

    assert (hits.kv_hit_pages, hits.restorable_prefix_pages) == (6, [3, 6])


def test_a_window_that_is_not_whole_is_no_hit(attach):
    one = attach({"kv": HostPool().fill(), "swa": HostPool().fill()})
    one.batch_set_v2([transfer("swa", [1, 2])])
    found = one.batch_get_v2([transfer("swa", [0, 1, 2], hit_policy=TRAILING)])

    assert found == {"swa": [False] * 3}


def test_pages_that_all_ranks_have_alike_are_stored_once_and_read_by_all(attach):
    pools = [HostPool(pieces=1) for _ in range(2)]
    ranks = [
        attach({"kv": pools[rank]}, tp_rank=rank, tp_size=2, is_mla_model=True) for rank in (0, 1)
    ]
    pools[0].fill()
    by_other = ranks[1].batch_set_v1(hashes(0), slots_of(0))
    nothing = ranks[0].batch_exists(hashes(0))
    ranks[0].batch_set_v1(hashes(0), slots_of(0))
    found = ranks[1].batch_get_v1(hashes(0), slots_of(0))

    assert (by_other, nothing, found) == ([True], 0, [True])
    assert pools[1].page(0) == pools[0].page(0)


def test_parts_of_ranks_are_kept_apart(attach):
    pools = [HostPool().fill(), HostPool()]
    ranks = [attach({"kv": pools[rank]}, tp_rank=rank, tp_size=2) for rank in (0, 1)]
    ranks[0].batch_set_v1(hashes(0), slots_of(0))

    assert [each.batch_exists(hashes(0)) for each in ranks] == [1, 0]
    assert len({each.identity.namespace() for each in ranks}) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"tp_size": 2},
        {"pp_size": 2},
        {"attn_cp_size": 2},
        {"model_name": "another"},
        {"extra": {"weights": "others"}},
        {"extra": {"tag": "another"}},
    ],
    ids=str,
)
def test_instances_that_differ_share_no_page(attach, other):
    attach({"kv": HostPool().fill()}).batch_set_v1(hashes(0), slots_of(0))

    assert attach({"kv": HostPool()}, **other).batch_exists(hashes(0)) == 0


@pytest.mark.parametrize(
    "pool",
    [
        HostPool(dtype=torch.bfloat16),
        HostPool(layout="page_first_direct"),
        HostPool(pieces=4, piece_bytes=512),
        HostPool(piece_bytes=2048),
        HostPool(is_addressable=False),
    ],
    ids=["dtype", "layout", "pieces", "size", "flat"],
)
def test_pools_that_differ_share_no_page(attach, pool):
    attach({"kv": HostPool().fill()}).batch_set_v1(hashes(0), slots_of(0))

    assert attach({"kv": pool}).batch_exists(hashes(0)) == 0


def test_the_size_of_a_pool_is_no_difference(attach):
    attach({"kv": HostPool(8).fill()}).batch_set_v1(hashes(0), slots_of(0))

    assert attach({"kv": HostPool(99)}).batch_exists(hashes(0)) == 1


def test_other_weights_than_at_the_start_are_another_namespace(attach, monkeypatch):
    one = attach({"kv": HostPool().fill()})
    one.batch_set_v1(hashes(0), slots_of(0))
    monkeypatch.setattr(recipe, "weights_version", lambda: "put in later")

    assert one.batch_exists(hashes(0)) == 0


def test_pages_of_former_weights_are_not_stored_as_those_of_the_new(attach, monkeypatch):
    pool = HostPool().fill()
    one = attach({"kv": pool})
    monkeypatch.setattr(recipe, "weights_version", lambda: "put in later")
    before_the_flush = one.batch_set_v1(hashes(0), slots_of(0))
    pool.clear()
    after = one.batch_set_v1(hashes(0), slots_of(0))

    assert (before_the_flush, after) == ([False], [True])


def test_a_pool_without_bytes_is_as_far_as_its_companions(attach):
    pools = {"kv": HostPool(is_logical=True), "deepseek_v4_c4": HostPool().fill()}
    one = attach(pools)
    one.batch_set_v2([transfer("deepseek_v4_c4", [0, 1, 2])])
    hits = one.batch_exists_v2(hashes(*range(5)), [PoolTransfer(PoolName.DEEPSEEK_V4_C4)])

    assert hits.kv_hit_pages == 3
    assert one.batch_get_v1(hashes(0, 1), slots_of(0, 1)) == [True, True]


def test_clear_forgets_this_namespace_alone(attach):
    one = attach({"kv": HostPool().fill()})
    other = attach({"kv": HostPool().fill()}, extra={"tag": "another"})
    for each in (one, other):
        each.batch_set_v1(hashes(0), slots_of(0))
    one.clear()

    assert (one.batch_exists(hashes(0)), other.batch_exists(hashes(0))) == (0, 1)


def test_figures_are_taken_once(attach):
    one = attach({"kv": HostPool().fill()})
    one.batch_set_v1(hashes(0, 1), slots_of(0, 1))
    one.batch_get_v1(hashes(0), slots_of(5))
    taken = one.get_stats()

    assert (taken.backup_pgs, taken.prefetch_pgs, one.get_stats().backup_pgs) == ([2], [1], [])


def test_the_namespace_says_what_it_is_of(attach, nodes):
    one = attach({"kv": HostPool().fill()})
    one.batch_set_v1(hashes(0), slots_of(0))
    namespace = one.identity.namespace()
    with Client(nodes.cp, cluster=nodes.cluster) as client:
        text = client.get(f"/{namespace}/identity.json")

    assert namespace.startswith("sglang-model-")
    assert bytes(text).decode() == one.identity.as_text()


# ---- never slower -------------------------------------------------------------------------------


def test_what_is_quicker_to_compute_is_a_miss(attach):
    extra = {"never_slower": True, "prefill_tokens_per_s": 1e12}
    one = attach({"kv": HostPool().fill()}, extra=extra)
    one.batch_set_v1(hashes(0, 1), slots_of(0, 1))
    first = one.batch_exists(hashes(0, 1))  # nothing is known of loading yet
    one.batch_get_v1(hashes(0, 1), slots_of(4, 5))

    assert (first, one.batch_exists(hashes(0, 1))) == (2, 0)
    assert one.board.read().gate_refused == 1


def test_what_was_promised_is_loaded_first_and_counts(attach):
    extra = {"never_slower": True, "prefill_tokens_per_s": 1.0}
    one = attach({"kv": HostPool(1000).fill()}, extra=extra)
    one.batch_set_v1(hashes(*range(900)), slots_of(*range(900)))
    one.batch_get_v1(hashes(0), slots_of(950))
    one.promises.add(["a page of someone else"], page_bytes=1 << 50)
    refused = one.batch_exists(hashes(*range(900)))
    one.promises.keep(["a page of someone else"])

    assert (refused, one.batch_exists(hashes(*range(900)))) == (0, 900)


def test_what_takes_long_to_compute_is_loaded(attach):
    extra = {"never_slower": True, "prefill_tokens_per_s": 1.0}
    one = attach({"kv": HostPool().fill()}, extra=extra)
    one.batch_set_v1(hashes(0, 1), slots_of(0, 1))
    one.batch_get_v1(hashes(0, 1), slots_of(4, 5))

    assert one.batch_exists(hashes(0, 1)) == 2


def test_the_rate_of_computing_is_seen_between_a_miss_and_its_store(attach):
    one, span = attach({"kv": HostPool().fill()}), list(range(32))
    one.batch_exists(hashes(*span))
    one.batch_set_v1(hashes(*span), slots_of(*span))

    assert one.gate.rates().compute_tokens_per_s > 0


# ---- faults -------------------------------------------------------------------------------------


def test_nothing_is_raised_whatever_is_asked(attach):
    one = attach({"kv": HostPool().fill()})
    asked = [
        one.batch_get_v1(hashes(0, 1), slots_of(0)),  # too few places
        one.batch_set_v1(hashes(0), slots_of(0, 1)),
        one.batch_get_v1(hashes(0), None),
        one.batch_get_v2([transfer("swa", [0])]),  # a pool that was never registered
        one.batch_exists_v2(hashes(0), [PoolTransfer(PoolName.SWA)]).kv_hit_pages,
        one.batch_exists([]),
        one.batch_get(hashes(0)),
        one.batch_set(hashes(0)),
        one.batch_set_v1(["x" * 600], slots_of(0)),  # no key can be so long
        one.batch_exists_v2(hashes(0), "no transfers").kv_hit_pages,
    ]

    assert asked[:4] == [[False] * 2, [False], [False], {"swa": [False]}]
    assert asked[4:] == [0, 0, [None], False, [False], 0]


def test_figures_that_cannot_be_shown_end_no_call(attach):
    class FullDisk:
        def inc(self, amount: int) -> None:
            raise OSError(28, "No space left on device")

    one = attach({"kv": HostPool().fill()})
    one.figures._counters = {"stored_pages": FullDisk()}
    stored = one.batch_set_v1(hashes(0), slots_of(0))
    one.close()

    assert stored == [True]


@pytest.mark.parametrize("name", ["exists", "get", "put", "clear", "put_text", "close"])
def test_no_fault_of_the_store_reaches_sglang(attach, monkeypatch, name):
    def fail(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("a fault")

    one = attach({"kv": HostPool().fill()})
    monkeypatch.setattr(one._store, name, fail)
    calls = (
        lambda: one.batch_exists(hashes(0)),
        lambda: one.batch_get_v1(hashes(0), slots_of(0)),
        lambda: one.batch_set_v1(hashes(0), slots_of(0)),
        one.clear,
        one.get_stats,
        one.close,
    )
    for call in calls:
        call()
    monkeypatch.undo()  # whoever closes it once more shall end its threads

    assert one.board.read().errors >= 1


def test_a_closed_backend_answers_misses(attach):
    one = attach({"kv": HostPool().fill()})
    one.batch_set_v1(hashes(0), slots_of(0))
    one.close()
    one.close()

    assert one.batch_exists(hashes(0)) == 0
    assert one.batch_get_v1(hashes(0), slots_of(0)) == [False]
    assert one.batch_set_v1(hashes(0), slots_of(0)) == [False]


def test_a_setting_that_does_not_exist_is_refused(store_settings):
    with pytest.raises(InvalidRequest, match="lookup_timeout"):
        storage_of(store_settings, {"kv": HostPool()}, extra={"lookup_timeout": 1})


def test_pages_that_are_spread_over_ranks_are_refused(store_settings):
    pool = HostPool()
    pool.shard_size = 2

    with pytest.raises(InvalidRequest, match="2 ranks"):
        storage_of(store_settings, {"kv": pool})


def stop(node: NodeProcess) -> None:
    """Hold a node up; it may still answer before the signal has reached all of its threads."""
    node.send(signal.SIGSTOP)
    tasks = Path(f"/proc/{node.process.pid}/task")
    while any(") T " not in (task / "stat").read_text() for task in tasks.iterdir()):
        time.sleep(0.01)


def test_a_store_that_hangs_costs_a_deadline_and_no_more(tmp_path):
    with Cluster(1, "64MiB", str(tmp_path), arena="plain") as cluster:
        deadlines = dict.fromkeys(("lookup_timeout_s", "load_timeout_s", "store_timeout_s"), 1.0)
        settings = {"cp": cluster.cp, "cluster": cluster.name, "transport": "tcp", **deadlines}
        one = storage_of(settings, {"kv": HostPool().fill()})
        one.batch_set_v1(hashes(0), slots_of(0))
        stop(cluster.members[0])
        begin = time.monotonic()
        answers = [
            one.batch_exists(hashes(0)),
            one.batch_get_v1(hashes(0), slots_of(1)),
            one.batch_set_v1(hashes(1), slots_of(1)),
        ]
        seconds = time.monotonic() - begin
        cluster.members[0].send(signal.SIGCONT)
        one.close()

    assert answers == [0, [False], [False]]
    assert seconds < 30  # of three deadlines of 1 s each, on a busy machine


def test_a_store_that_is_away_at_the_start_is_found_later(store_settings):
    nodes = LocalNodes(1)
    settings = store_settings | {"cp": nodes.cp, "cluster": nodes.cluster}
    one = storage_of(settings, {"kv": HostPool().fill()})
    before = one.batch_set_v1(hashes(0), slots_of(0))
    with nodes:
        end = time.monotonic() + 20
        while one.batch_set_v1(hashes(0), slots_of(0)) != [True] and time.monotonic() < end:
            time.sleep(0.05)
        after = one.batch_exists(hashes(0))
        one.close()

    assert (before, after) == ([False], 1)
