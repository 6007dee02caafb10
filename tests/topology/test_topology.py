"""Which NIC is near which GPU, on machines of real shapes."""

from __future__ import annotations

from pathlib import Path

import pytest
from topology.made_machine import MadeMachine, cloud, dgx, two_sockets

from gd2fs.errors import InvalidRequest
from gd2fs.topology import Distance, Topology, addresses_near, distance, read_topology


@pytest.fixture(scope="module")
def eight(tmp_path_factory) -> Topology:
    return read_topology(dgx(tmp_path_factory.mktemp("dgx")).root)


def names(nics) -> list[str]:
    return [nic.interfaces[0].name for nic in nics]


def between(topology: Topology, gpu: int, interface: str) -> Distance:
    nic = next(nic for nic in topology.nics if interface in nic.names)
    return distance(topology.gpus[gpu].place, nic.place)


def chain(root: Path, gpu: str, nic: str) -> Distance:
    machine = MadeMachine(root)
    machine.gpu(gpu)
    machine.nic(nic, "eth0")
    topology = read_topology(root)
    return distance(topology.gpus[0].place, topology.nics[0].place)


def test_every_device_of_a_large_machine_is_found(eight):
    assert [gpu.index for gpu in eight.gpus] == list(range(8))
    assert len(eight.nics) == 11
    assert eight.numa_nodes == 2
    assert eight.gpus[3].uuid.startswith("GPU-3")
    assert eight.gpus[3].model == "NVIDIA H100"


def test_a_display_on_the_board_is_no_gpu(eight):
    assert all(gpu.vendor == "0x10de" for gpu in eight.gpus)


def test_the_nic_of_a_gpus_own_switch_is_the_nearest(eight):
    nearest = [names(eight.nearest_nics(gpu, 1)) for gpu in eight.gpus]

    assert nearest == [[f"ib{number}"] for number in range(8)]


def test_distances_are_those_of_the_fields_words(eight):
    assert between(eight, 0, "ib0") is Distance.PIX
    assert between(eight, 0, "ib1") is Distance.NODE
    assert between(eight, 0, "ib4") is Distance.SYS
    assert between(eight, 0, "mlx5_9") is Distance.SYS
    assert distance(eight.gpus[0].place, eight.gpus[0].place) is Distance.SELF


@pytest.mark.parametrize("gpu", [0, 5])
def test_a_distance_is_the_same_both_ways(eight, gpu):
    ways = [
        (distance(eight.gpus[gpu].place, nic.place), distance(nic.place, eight.gpus[gpu].place))
        for nic in eight.nics
    ]

    assert all(there is back for there, back in ways)


PORT = "pci0000:10/0000:10:01.0"
SWITCH = f"{PORT}/0000:11:00.0"


@pytest.mark.parametrize(
    ("gpu", "nic", "expected"),
    [
        (f"{PORT}/0000:11:00.0", f"{PORT}/0000:11:00.1", Distance.PIX),
        (
            f"{SWITCH}/0000:12:00.0/0000:13:00.0",
            f"{SWITCH}/0000:12:01.0/0000:14:00.0",
            Distance.PIX,
        ),
        (
            f"{SWITCH}/0000:12:00.0/0000:13:00.0",
            f"{SWITCH}/0000:12:01.0/0000:14:00.0/0000:15:00.0/0000:16:00.0",
            Distance.PXB,
        ),
        (f"{PORT}/0000:11:00.0", "pci0000:10/0000:10:02.0/0000:20:00.0", Distance.PHB),
        ("pci0000:10/0000:10:03.0", "pci0000:10/0000:10:04.0", Distance.PHB),
        (
            "pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:01.0/10000:e1:00.0",
            "pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:02.0/10000:e2:00.0",
            Distance.PHB,
        ),
    ],
    ids=["one port", "one switch", "two switches", "one processor", "flat", "nested root complex"],
)
def test_what_lies_between_is_named(tmp_path, gpu, nic, expected):
    assert chain(tmp_path, gpu, nic) is expected


def test_behind_the_near_nic_come_the_fast_ones_of_the_socket_then_the_far_ones(eight):
    order = names(eight.nearest_nics(eight.gpus[0]))

    assert order[0] == "ib0"
    assert set(order[1:5]) == {"ib1", "ib2", "ib3", "ens0"}
    assert set(order[5:]) == {"ib4", "ib5", "ib6", "ib7", "ens1"}


def test_a_nic_that_is_far_slower_is_not_for_bytes(eight):
    assert all("eno1" not in names(eight.nearest_nics(gpu)) for gpu in eight.gpus)


def test_the_order_is_the_same_each_time(tmp_path, eight):
    again = read_topology(dgx(tmp_path).root)

    assert [names(again.nearest_nics(gpu)) for gpu in again.gpus] == [
        names(eight.nearest_nics(gpu)) for gpu in eight.gpus
    ]


def test_a_gpu_of_the_other_socket_has_the_only_nic_far_away(tmp_path):
    topology = read_topology(two_sockets(tmp_path).root)

    assert [between(topology, gpu, "ens1f0") for gpu in (0, 1)] == [Distance.NODE, Distance.SYS]
    assert names(topology.nearest_nics(topology.gpus[1], 4)) == ["ens1f0"]


def test_a_nic_without_a_link_and_a_virtual_function_of_one_that_is_there_are_left_out(tmp_path):
    topology = read_topology(two_sockets(tmp_path).root)
    down, virtual = topology.nics[1:]

    assert (down.is_up, virtual.is_up) == (False, True)
    assert virtual.physical == topology.nics[0].place.address


def test_a_virtual_function_whose_nic_is_elsewhere_is_a_nic(tmp_path):
    topology = read_topology(two_sockets(tmp_path).root)
    alone = Topology(topology.gpus, topology.nics[1:], 2)

    assert names(alone.nearest_nics(alone.gpus[0], 1)) == ["ens1f0v0"]


def test_on_a_flat_bus_gpus_are_spread_over_nics(tmp_path):
    topology = read_topology(cloud(tmp_path).root)

    assert [names(topology.nearest_nics(gpu, 1)) for gpu in topology.gpus] == [
        ["eth0"],
        ["eth1"],
        ["eth0"],
        ["eth1"],
    ]
    assert {between(topology, 0, "eth0"), between(topology, 0, "eth1")} == {Distance.PHB}


def test_a_machine_without_any_device_has_none(tmp_path):
    assert read_topology(tmp_path) == Topology()


def test_this_machine_can_be_read():
    topology = read_topology()

    assert topology.numa_nodes >= 1
    assert [nic.index for nic in topology.nics] == list(range(len(topology.nics)))


@pytest.mark.parametrize(
    "name",
    [2, "2", "cuda:2", "0000:44:00.0", "44:00.0", "00000000:44:00.0", "GPU-20000000"],
)
def test_a_gpu_has_many_names(eight, name):
    assert eight.gpu(name) is eight.gpus[2]


@pytest.mark.parametrize(
    ("visible", "expected"), [("5,3", 3), ("GPU-70000000,GPU-40000000", 4), ("", 1)]
)
def test_an_index_counts_what_is_visible(eight, visible, expected):
    assert eight.gpu(1, visible).index == expected


@pytest.mark.parametrize(
    ("name", "visible"), [(8, ""), (2, "0,1"), ("GPU-", ""), ("MIG-1", ""), ("0000:99:00.0", "")]
)
def test_a_gpu_that_is_not_there_is_refused(eight, name, visible):
    with pytest.raises(InvalidRequest):
        eight.gpu(name, visible)


def test_indexes_count_nvidias_gpus_alone_where_there_are_some(tmp_path):
    machine = MadeMachine(tmp_path)
    machine.gpu("pci0000:00/0000:00:02.0", vendor="0x8086")
    nvidia = machine.gpu("pci0000:00/0000:00:03.0")

    assert read_topology(tmp_path).gpu(0).place.address == nvidia


def test_a_client_gets_one_address_of_each_near_nic(eight):
    addresses = {"ib0": ["fd00::1", "10.0.0.1"], "ib1": ["fe80::1"], "ens0": ["10.1.0.1"]}

    assert addresses_near(eight, eight.gpus[0], 2, addresses) == ("10.0.0.1", "10.1.0.1")
    assert addresses_near(eight, eight.gpus[0], 1, {"ib0": ["fd00::1"]}) == ("fd00::1",)
    assert addresses_near(eight, eight.gpus[0], 3, {}) == ()


def test_nics_below_one_bond_have_its_address_once(tmp_path):
    machine = dgx(tmp_path)
    for number in (0, 1):
        folder = (tmp_path / f"sys/class/net/ib{number}").resolve()
        machine.link(f"{folder.relative_to(tmp_path.resolve())}/upper_bond0", "/sys/class/net/ib0")
    topology = read_topology(tmp_path)

    assert addresses_near(topology, topology.gpus[0], 2, {"bond0": ["10.0.0.1"]}) == ("10.0.0.1",)
