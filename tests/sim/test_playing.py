"""Playing: hits are those of the plainest simulation, and of real nodes that are asked the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sim.made_traces import plain_hits, small_trace

from gd2fs._core import Simulation
from gd2fs.errors import InvalidRequest
from gd2fs.sim.engine import PRESETS, Rates, engine_of
from gd2fs.sim.figures import figures_of
from gd2fs.sim.fleet import UNLIMITED, Fleet, Store
from gd2fs.sim.goal import Goal, rate_at
from gd2fs.sim.made import made_of, make_trace
from gd2fs.sim.playing import play
from gd2fs.sim.setting import Setting
from gd2fs.testing import LocalNodes

PAGE_BYTES = 4096
QUICK = Rates(token_s=1e-4, prompt_s=0.001, step_s=0.01, requests_max=32, token_bytes=1000)


@pytest.fixture(scope="module")
def trace():
    return small_trace()


@pytest.mark.parametrize("instances", [1, 4])
@pytest.mark.parametrize("capacity", [None, 150])
def test_private_caches_find_what_plain_lru_caches_find(trace, instances, capacity):
    fleet = Fleet(instances=instances, host_blocks=capacity or UNLIMITED)

    found = figures_of(play(trace, fleet))["blocks"]["found"]

    assert found == plain_hits(trace, instances, capacity)


@pytest.mark.parametrize("capacity", [None, 600])
def test_a_shared_cache_finds_what_one_plain_lru_cache_finds(trace, capacity):
    fleet = Fleet(instances=4, store=Store(memory_blocks=capacity or UNLIMITED))

    found = figures_of(play(trace, fleet))["blocks"]["found"]

    assert found == plain_hits(trace, 1, capacity)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["lru", "s3-fifo"])
def test_four_real_nodes_hit_exactly_as_often(policy):
    trace = small_trace(requests=250, first=400, block=128)
    each = 40  # blocks that a node has room for
    names = [f"n{at}" for at in range(4)]
    store = Store(nodes=4, names=names, memory_blocks=4 * each, policy=policy)
    simulated = play(trace, Fleet(store=store))

    with LocalNodes(4) as nodes:
        for server in nodes.servers:
            server.set_rules("sim", policy=policy, quota_bytes=each * PAGE_BYTES)
        real = real_hits(nodes, trace)
        evicted = sum(server.counts()["evicted_pieces"] for server in nodes.servers)

    assert real == simulated.found_blocks.tolist()
    assert evicted == figures_of(simulated)["evictions"]["memory"] > 100


def real_hits(nodes, trace) -> list[int]:
    """Of each request the leading blocks that are there; then all are used, from the last on."""
    page, into = bytes(PAGE_BYTES), bytearray(PAGE_BYTES)
    hits = []
    with nodes.client(timeout_s=20) as client:
        pages = client.pages("sim")
        for request in range(trace.requests):
            begin, end = (int(at) for at in trace.first_block[request : request + 2])
            keys = [Simulation.key_of(block) for block in trace.blocks[begin:end].tolist()]
            asked = keys[: int(trace.prompt_blocks[request])]
            hits.append(pages.exists(asked).leading if asked else 0)
            for key in reversed(keys):
                if not pages.get([key], [into]).leading:
                    assert pages.put([key], [page]) == [True]
    return hits


def test_the_same_seed_makes_the_same_world(trace):
    fleet = Fleet(
        instances=5, balancer="random", engine=QUICK, device_blocks=50, store=Store(nodes=3)
    )
    first, again = (play(trace, fleet) for _ in range(2))

    assert first.first_token_s.tolist() == again.first_token_s.tolist()
    assert first.counts == again.counts


def test_every_request_is_answered_after_its_first_token(trace):
    played = play(trace, Fleet(instances=3, engine=QUICK, store=Store()))

    assert np.all(played.first_token_s > 0)
    assert np.all(played.done_s >= played.first_token_s)
    assert played.bins[:, 0].sum() == played.bins[:, 4].sum() == trace.requests


def test_what_is_found_in_a_shared_cache_is_not_computed(trace):
    private, shared = (
        figures_of(play(trace, Setting(topology=name, instances=4, engine=QUICK).fleet()))
        for name in ("private", "shared")
    )

    assert shared["token_hit_rate"] > 1.2 * private["token_hit_rate"]
    assert shared["prefill_gpu_s"] < private["prefill_gpu_s"]
    assert shared["ttft_s"]["mean"] < private["ttft_s"]["mean"]
    total = shared["prefill_gpu_s"] + shared["prefill_gpu_s_saved"]
    assert total == pytest.approx(private["prefill_gpu_s"] + private["prefill_gpu_s_saved"])


def test_a_node_that_dies_takes_hits_along_and_a_second_copy_keeps_them(trace):
    half = trace.span_s / 2
    rates = [
        figures_of(play(trace, Fleet(store=Store(nodes=4, replicas=copies, deaths=deaths))))
        for copies, deaths in ((1, ()), (1, [(half, 1)]), (2, [(half, 1)]))
    ]
    whole, lost, kept = (each["block_hit_rate"] for each in rates)

    assert lost < whole == kept


def test_nvme_below_memory_finds_what_memory_alone_has_not(trace):
    small, tiered = (
        figures_of(play(trace, Fleet(store=Store(memory_blocks=200, disk_blocks=disk))))
        for disk in (0, 100_000)
    )

    assert small["block_hit_rate"] < tiered["block_hit_rate"]
    assert tiered["blocks"]["found"] == plain_hits(trace, 1, None)
    assert tiered["hit_rate_by_tier"]["disk"] > 0


def test_more_requests_a_second_are_in_time_with_a_shared_cache(trace):
    goal = Goal(0.5)
    private, shared = (
        rate_at(
            trace, Setting(topology=name, instances=2, engine=QUICK).fleet(), goal
        ).requests_per_s
        for name in ("private", "shared")
    )

    assert 0 < private < shared


def test_the_published_comparison_comes_out_as_published_or_better():
    """Four instances, several turns, a random balancer: docs/guides/simulator.md has the inputs."""
    made = "requests=640,turns=10,first=2048,follow=1024,answer=256,shared=0,block=64,spread=0"
    trace = make_trace(made_of(made))
    setting = Setting(
        topology="private",
        instances=4,
        nodes=4,
        balancer="random",
        device_blocks=2000,
        cache_blocks=3556,
        workers=32,
        node_gbit=400,
        engine_gbit=400,
        engine=engine_of("h100-8b"),
    )
    private, shared = (
        figures_of(play(trace, replace(setting, topology=name).fleet()))
        for name in ("private", "shared")
    )

    assert 1.3 < shared["requests_per_s"] / private["requests_per_s"] < 1.7
    assert shared["ttft_later_turns_s"]["mean"] < 0.5 * private["ttft_later_turns_s"]["mean"]
    assert shared["ttft_later_turns_s"]["p95"] < 0.4 * private["ttft_later_turns_s"]["p95"]
    assert 0.6 < shared["tpot_s"]["mean"] / private["tpot_s"]["mean"] < 0.9
    assert shared["tpot_s"]["max"] < 0.5 * private["tpot_s"]["max"]


@pytest.mark.parametrize("name", PRESETS)
def test_engines_that_are_known_follow_from_a_gpu_and_a_model(name):
    rates = engine_of(name)

    assert 1e-5 < rates.token_s < 1e-3
    assert 0.005 < rates.step_s < 0.05
    assert rates.tokens_max > 100_000


def test_an_engine_that_cannot_be_is_refused(tmp_path):
    wrong = tmp_path / "engine.json"
    wrong.write_text('{"token_s": -1, "step_s": 1, "requests_max": 3}')
    for text in ("none.json", str(wrong)):
        with pytest.raises(InvalidRequest):
            engine_of(text)


@pytest.mark.parametrize(
    "values",
    [
        {"instances": 0},
        {"balancer": "wrong"},
        {"policy": "wrong"},
        {"nodes": 2, "replicas": 3},
        {"cache_blocks": -1},
        {"kills": ["soon"]},
        {"kills": ["1:5"]},
        {"topology": "wrong"},
    ],
)
def test_a_fleet_that_cannot_be_is_refused(values):
    with pytest.raises(InvalidRequest):
        Setting(**({"topology": "shared"} | values)).fleet()
