"""The chaos suite in short: a list, and etcd with two copies. `make chaos` runs more of them."""

from __future__ import annotations

import pytest

from chaos.lab import why_not_under
from chaos.network import why_not
from chaos.run import run
from chaos.schedule import World, schedule_of

ETCD = World(provider="etcd", replicas=2)
CASES = {
    "list": (13, World()),
    "etcd": (9, ETCD),
    "disk": (0, World(has_disk=True)),
    "kept": (13, World(is_kept=True)),
    "rdma_tcp": (13, World(rdma="tcp")),
    "rdma_shm": (0, World(rdma="posix,sysv")),
}


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "world"), CASES.values(), ids=CASES)
def test_nothing_wrong_is_read_whatever_fails(seed, world, tmp_path):
    if reason := why_not() or why_not_under(world.provider, is_rdma=bool(world.rdma)):
        pytest.skip(reason)

    verdict = run(schedule_of(seed, world), tmp_path)

    replay = f"replay with: {world.replay(seed)}"
    assert not verdict.violations, "\n".join([*map(str, verdict.violations), replay])
    assert verdict.loaded > 0 or not world.has_disk
    assert verdict.by_rdma_bytes > 0 or not world.rdma
