"""The tier under vLLM's own manager: hits, misses and failures, and what is never shared."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from engines.vllm.instances import (
    CHUNKS,
    WAIT_S,
    Instance,
    chunk_keys,
    engine_config,
    hang,
    offloading_config,
)
from vllm.plugins import load_general_plugins
from vllm.v1.kv_offload.base import LookupResult, OffloadingCounterMetadata, get_offload_block_hash
from vllm.v1.kv_offload.config import OffloadingModelConfig
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory

from gd2fs import InvalidRequest
from gd2fs.engines.identity import IDENTITY_FILE, page_key
from gd2fs.engines.vllm import GD2FSTier
from gd2fs.testing import Cluster, LocalNodes

HIT, MISS = LookupResult.HIT, LookupResult.MISS
IMPORT_S = 500.0  # of vLLM by a process of its own, on a busy machine; seconds on an idle one
PATIENT = {"lookup_timeout_s": 10.0, "load_timeout_s": 10.0, "store_timeout_s": 10.0}

_tags = count(1)


@pytest.fixture
def tier(nodes: LocalNodes) -> dict[str, Any]:
    """Settings under which no other test finds anything."""
    tag = f"test-{next(_tags)}"
    return {"cp": nodes.cp, "cluster": nodes.cluster, "tag": tag, "never_slower": False, **PATIENT}


@pytest.fixture
def config(model: str) -> Any:
    return engine_config(model)


@pytest.fixture
def first(config: Any, tier: dict[str, Any]) -> Iterator[Instance]:
    with Instance(config, tier) as instance:
        yield instance


@pytest.fixture
def second(config: Any, tier: dict[str, Any], first: Instance) -> Iterator[Instance]:
    with Instance(config, tier) as instance:
        yield instance


def stored_by(instance: Instance, number: int) -> list[bytes]:
    """Chunks whose bytes are 1, 2, and so on."""
    keys = chunk_keys(number)
    instance.compute(instance.request("a", keys), keys, range(1, number + 1))
    return keys


def stored_at_last_by(instance: Instance, number: int) -> list[bytes]:
    """As ``stored_by``, once the store takes them."""
    end = time.monotonic() + WAIT_S
    for name in count():
        found_by(instance, chunk_keys(1), f"asks whether it is back {name}")
        instance.measures()
        keys = stored_by(instance, number)
        if instance.measures().get("stored_chunks") == number:
            return keys
        assert time.monotonic() < end, "the store takes nothing"
    raise AssertionError("counting does not end")


def found_by(instance: Instance, keys: list[bytes], name: str = "b") -> list[LookupResult]:
    return instance.find(instance.request(name, keys), keys)


def test_a_fresh_instance_has_what_another_computed(first: Instance, second: Instance) -> None:
    keys = stored_by(first, 8)
    request = second.request("b", keys)
    results = second.find(request, keys)

    assert results == [HIT] * 8
    assert [second.bytes_of(key, request) for key in keys] == [{at + 1} for at in range(8)]


def test_what_nobody_stored_is_a_miss_after_the_hits(first: Instance, second: Instance) -> None:
    keys = [*stored_by(first, 2), *chunk_keys(2)]

    assert found_by(second, keys) == [HIT, HIT, MISS]
    measures = second.measures()
    assert (measures["hits"], measures["misses.absent"], measures["loaded_chunks"]) == (2, 1, 2)


def test_a_prompt_larger_than_the_pool_is_loaded_as_far_as_it_fits(
    first: Instance, second: Instance
) -> None:
    keys = [key for _ in range(3) for key in stored_by(first, CHUNKS // 2)]
    results = found_by(second, keys)

    assert results == [HIT] * (CHUNKS * 3 // 4) + [MISS]
    assert second.measures()["misses.pool"] == 1


def test_a_chunk_that_is_gone_by_its_load_is_a_miss_and_the_others_are_kept(
    first: Instance, second: Instance, nodes: LocalNodes
) -> None:
    keys = stored_by(first, 4)
    request = second.request("b", keys)
    while any(second.tier.lookup(key, request) is LookupResult.RETRY for key in keys):
        second.step()
    with nodes.client() as client:
        gone = page_key(get_offload_block_hash(keys[2]), pool="0")
        assert client.pages(second.tier._store.namespace).drop([gone]) == 1
    results = second.find(request, keys)
    results.append(second.manager.lookup(keys[3], request))

    assert results == [HIT, HIT, MISS, HIT]
    assert [second.bytes_of(keys[at], request) for at in (0, 1, 3)] == [{1}, {2}, {4}]
    assert second.measures()["failed_loads"] == 1


def test_a_request_that_lost_a_chunk_is_not_told_to_load_it_again(
    first: Instance, second: Instance, nodes: LocalNodes
) -> None:
    keys = stored_by(first, 1)
    request = second.request("b", keys)
    second.find(request, keys)
    second.forget()
    with nodes.client() as client:
        client.clear(second.tier._store.namespace)

    assert second.find(request, keys) == [MISS]
    assert second.find(request, keys) == [MISS]
    assert second.measures()["failed_loads"] == 1


def test_without_a_store_an_instance_starts_and_finds_nothing(
    config: Any, tier: dict[str, Any]
) -> None:
    with LocalNodes(1) as gone:
        cp = gone.cp
    away = tier | {"cp": cp, "lookup_timeout_s": 0.2}
    with Instance(config, away) as instance:
        keys = stored_by(instance, 3)
        new = chunk_keys(2)

        assert found_by(instance, keys) == [HIT] * 3  # in its own pool
        assert found_by(instance, new, "c") == [MISS]
        measures = instance.measures()
        assert (measures["misses.apart"], measures["shed_chunks.apart"]) == (1, 3)


def test_a_store_that_comes_later_is_used(config: Any, tier: dict[str, Any]) -> None:
    with LocalNodes(1) as late:
        late.stop(0)
        settings = tier | {"cp": late.cp, "lookup_timeout_s": 0.5}
        with Instance(config, settings) as instance:
            late.start(0)
            keys = stored_at_last_by(instance, 2)
            instance.forget()

            assert found_by(instance, keys, "again") == [HIT] * 2


def test_the_namespace_says_what_it_is_of(first: Instance) -> None:
    found_by(first, chunk_keys(1))
    store, wanted = first.tier._store, first.tier._facts.identity.as_text()
    end = time.monotonic() + WAIT_S
    while store.text_of(IDENTITY_FILE) != wanted and time.monotonic() < end:
        time.sleep(0.01)

    assert store.text_of(IDENTITY_FILE) == wanted


def test_a_store_that_ends_is_a_miss_and_none_waits(config: Any, tier: dict[str, Any]) -> None:
    with LocalNodes(1) as node:
        settings = tier | {"cp": node.cp, "lookup_timeout_s": 0.3, "store_timeout_s": 0.3}
        with Instance(config, settings) as instance:
            keys = stored_by(instance, 2)
            instance.forget()
            node.stop(0)
            lost = found_by(instance, keys)
            stored_by(instance, 2)  # settles, though nobody takes it
            node.start(0)
            again = stored_at_last_by(instance, 2)
            instance.forget()

            assert lost == [MISS]
            assert found_by(instance, again, "c") == [HIT, HIT]


def test_a_store_that_hangs_costs_its_deadlines_and_no_more(
    config: Any, tier: dict[str, Any], tmp_path: Path
) -> None:
    with Cluster(1, "64MiB", str(tmp_path)) as cluster:
        deadlines = {"lookup_timeout_s": 0.3, "load_timeout_s": 0.5, "store_timeout_s": 0.5}
        where = {"cp": cluster.cp, "cluster": cluster.name}
        with Instance(config, tier | where | deadlines) as instance:
            keys = stored_at_last_by(instance, 2)
            instance.forget()
            request = instance.request("b", keys)
            while any(instance.tier.lookup(key, request) is LookupResult.RETRY for key in keys):
                instance.step()
            hang(cluster.members[0])
            loaded = instance.find(request, keys)
            asked = found_by(instance, chunk_keys(1), "c")
            cluster.members[0].send(signal.SIGCONT)
            again = stored_at_last_by(instance, 2)
            instance.forget()

            assert (loaded, asked) == ([MISS], [MISS])
            assert found_by(instance, again, "d") == [HIT, HIT]


OTHERS = {
    "dtype": lambda: {"model": OffloadingModelConfig("model", "float16")},
    "layout": lambda: {"kv_cache_layout": "BLHNC"},
    "canonical": lambda: {"canonical_layout": True},
    "tensor parallel": lambda: {"parallel": replace(offloading_config().parallel, tp_size=2)},
    "layers": lambda: {"groups": (replace(offloading_config().groups[0], layer_names=("a",)),)},
}


@pytest.mark.parametrize("what", OTHERS)
def test_instances_that_differ_never_share_a_page(
    first: Instance, config: Any, tier: dict[str, Any], what: str
) -> None:
    keys = stored_by(first, 2)
    other = offloading_config(**OTHERS[what]())
    # A layout of its own is refused at the start; beside it the pages are apart all the same.
    apart = tier | {"tag": tier["tag"] + "-"} if "layout" in what or "canon" in what else tier
    with Instance(config, apart, other) as instance:
        assert instance.tier._store.namespace != first.tier._store.namespace
        assert found_by(instance, keys) == [MISS]


def test_other_weights_never_share_a_page(
    first: Instance, config: Any, tier: dict[str, Any]
) -> None:
    keys = stored_by(first, 2)
    with Instance(config, tier | {"weights": "of another checkpoint"}) as instance:
        assert found_by(instance, keys) == [MISS]


def test_groups_of_layers_have_pages_of_their_own(first: Instance, second: Instance) -> None:
    keys = stored_by(first, 1)
    other_group = [keys[0][:-4] + (1).to_bytes(4, "big")]

    assert found_by(second, other_group) == [MISS]


REFUSED = {
    "tokens_per_block": {"groups": (replace(offloading_config().groups[0], tokens_per_block=64),)},
    "tokens_per_chunk": {"cache": replace(offloading_config().cache, blocks_per_chunk=4)},
    "layout": {"kv_cache_layout": "BLHNC"},
}


@pytest.mark.parametrize("what", REFUSED)
def test_instances_whose_blocks_differ_are_refused(
    first: Instance, config: Any, tier: dict[str, Any], what: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"{what}: recorded .*, here "):
        Instance(config, tier, offloading_config(**REFUSED[what]))


def test_another_hash_is_refused(first: Instance, model: str, tier: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="algorithm: recorded sha256_cbor, here sha256 "):
        Instance(engine_config(model, "sha256"), tier)


def test_another_seed_is_refused(
    first: Instance, config: Any, tier: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "7")

    with pytest.raises(InvalidRequest, match="seed: recorded none, here "):
        Instance(config, tier)


def test_a_seed_that_differs_by_process_is_refused(
    model: str, tier: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    other = replace_algorithm(engine_config(model), "xxhash")

    with pytest.raises(InvalidRequest, match="another seed in every process"):
        Instance(other, tier)


def replace_algorithm(config: Any, algorithm: str) -> Any:
    other = replace(config, cache_config=replace(config.cache_config))
    other.cache_config.prefix_caching_hash_algo = algorithm
    return other


def test_adapters_need_a_tag(config: Any, tier: dict[str, Any]) -> None:
    other = copy(config)
    other.lora_config = object()

    with pytest.raises(InvalidRequest, match="adapters") as refused:
        Instance(other, tier | {"tag": ""})

    assert "`tag`" in refused.value.hint
    Instance(other, tier).close()


def test_an_unknown_release_is_refused(
    config: Any, tier: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gd2fs.engines.vllm.tier.vllm_version", "0.99.0")

    with pytest.raises(InvalidRequest, match=r"vLLM 0\.99\.0 is not known"):
        Instance(config, tier)


def test_a_misspelt_setting_is_refused(config: Any, tier: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Instance(config, tier | {"cluter": "test"})

    assert "cluster" in refused.value.hint


def test_what_is_slower_to_load_is_computed(
    first: Instance, config: Any, tier: dict[str, Any]
) -> None:
    keys, later = stored_by(first, 2), stored_by(first, 2)
    gated = tier | {"never_slower": True, "prefill_tokens_per_s": 1e12}
    with Instance(config, gated) as instance:
        probe = found_by(instance, keys, "b")  # with nothing known, it is loaded
        results = found_by(instance, later, "c")

        assert (probe, results) == ([HIT, HIT], [MISS])
        measures = instance.measures()
        assert measures["misses.slower"] == 1
        assert measures["load_bytes_per_second"] > 0


def test_every_request_counts_its_own_hits(first: Instance, second: Instance) -> None:
    keys = stored_by(first, 2)
    for name in ("b", "c"):
        request = second.request(name, keys)
        second.find(request, keys)
        second.manager.on_request_finished(request)
        second.forget()

    assert second.measures()["hits"] == 4
    assert len(second.tier._lookups) == 0


def test_the_end_of_an_instance_waits_for_its_transfers_and_may_come_twice(
    config: Any, tier: dict[str, Any]
) -> None:
    instance = Instance(config, tier)
    keys = chunk_keys(2)
    request = instance.request("a", keys)
    output = instance.manager.prepare_store(keys, request)
    instance.manager.complete_store(set(output.keys_to_store), request)
    instance.tier.shutdown()
    instance.close()

    assert [job.number for job in instance.tier._transfers.finished()] == [0]


def test_the_entry_point_makes_the_tier_known_by_name() -> None:
    load_general_plugins()

    assert SecondaryTierFactory.get_tier_class({"type": "gd2fs"}) is GD2FSTier


def test_vllm_can_make_metrics_of_every_measure() -> None:
    made = GD2FSTier.build_metric_definitions({})

    assert all(name.startswith("vllm:kv_offload_gd2fs_") for name in made)
    assert made["vllm:kv_offload_gd2fs_misses"].labelnames == ("reason",)
    assert isinstance(made["vllm:kv_offload_gd2fs_hits"], OffloadingCounterMetadata)


def test_importing_the_tier_starts_nothing(tmp_path: Path) -> None:
    program = """
import os, threading
import vllm.v1.kv_offload.tiering.base
before = threading.active_count(), len(os.listdir("/proc/self/fd"))
from gd2fs.engines.vllm import GD2FSTier
GD2FSTier.build_metric_definitions({})
after = threading.active_count(), len(os.listdir("/proc/self/fd"))
assert before == after, (before, after)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=IMPORT_S,
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stderr
