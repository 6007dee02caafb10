"""Schedule: all of it follows from the seed."""

from __future__ import annotations

import pytest

from chaos.operation import Step
from chaos.schedule import (
    CLIENTS,
    NETWORK_FAULTS,
    PROXY_FAULTS,
    THEMES,
    Schedule,
    World,
    schedule_of,
)

SEEDS = range(2 * len(THEMES))


@pytest.fixture(scope="module")
def schedules() -> list[Schedule]:
    return [schedule_of(seed) for seed in SEEDS]


def numbers_of(step: Step) -> list[int]:
    return list(range(step.number, step.number + len(step.names)))


def test_one_seed_is_one_schedule():
    assert schedule_of(3) == schedule_of(3)


def test_another_seed_is_another_schedule():
    assert schedule_of(3).steps != schedule_of(3 + len(THEMES)).steps


def test_no_two_calls_write_under_one_number(schedules):
    for schedule in schedules:
        numbers = [number for step in schedule.steps for number in numbers_of(step)]
        assert len(numbers) == len(set(numbers))


def test_every_fault_is_over_before_all_is_read_once_more(schedules):
    for schedule in [*schedules, *(schedule_of(seed, World(provider="etcd")) for seed in SEEDS)]:
        pace = schedule.world.pace
        assert max(fault.end_s for fault in schedule.faults) <= pace.faults_end_s
        assert pace.faults_end_s + pace.settle_s < pace.sweep_s


def test_seeds_in_a_row_try_every_kind_of_fault(schedules):
    kinds = {fault.kind for schedule in schedules for fault in schedule.faults}

    assert kinds >= {"kill", "pause", "link_down", "cut", "loss", "client_kill", *PROXY_FAULTS}


def test_seeds_in_a_row_try_a_full_arena_and_shared_memory(schedules):
    assert any(schedule.world.is_small for schedule in schedules)
    assert any(schedule.world.has_local_client for schedule in schedules)


def test_faults_of_the_proxy_are_of_the_node_behind_it(schedules):
    for schedule in schedules:
        of_proxy = [fault for fault in schedule.faults if fault.kind in PROXY_FAULTS]
        assert all(fault.target == f"n{schedule.world.proxied}" for fault in of_proxy)


def test_every_client_has_steps_in_the_order_of_their_times(schedules):
    for schedule in schedules:
        for client in range(CLIENTS):
            times = [(step.lane, step.at_s) for step in schedule.steps_of(client)]
            assert times and times == sorted(times)


def test_a_disk_leaves_calls_and_faults_as_they_are():
    plain, with_disk = schedule_of(0), schedule_of(0, World(has_disk=True))

    assert with_disk.faults != () and len(with_disk.steps) > len(plain.steps) // 2
    assert with_disk.world.memory == "16MiB"
    assert "--nvme" in with_disk.world.replay(0)
    assert "--nvme" not in plain.world.replay(0)


def test_shared_memory_of_ucx_is_one_hosts_and_that_has_no_cables():
    for seed in range(20):
        schedule = schedule_of(seed, World(rdma="posix,sysv"))

        assert schedule.faults
        assert not {fault.kind for fault in schedule.faults} & set(NETWORK_FAULTS)
        assert schedule.world.replay(seed).endswith(' --rdma posix,sysv"')


def test_rdma_leaves_calls_and_faults_as_they_are():
    plain, by_rdma = schedule_of(0), schedule_of(0, World(rdma="tcp"))

    assert (by_rdma.steps, by_rdma.faults) == (plain.steps, plain.faults)
    assert by_rdma.world.replay(0) == plain.world.replay(0)[:-1] + ' --rdma tcp"'
