"""A client of one GPU uses its nearest NICs, where nobody has named addresses."""

from __future__ import annotations

import logging

import pytest
from topology.made_machine import cloud, dgx, two_sockets

from gd2fs.config import client_config
from gd2fs.config.affinity import near_device
from gd2fs.errors import InvalidRequest
from gd2fs.topology import interface_addresses

ADDRESSES = {f"ib{number}": [f"10.0.0.{number}"] for number in range(8)}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return dgx(tmp_path_factory.mktemp("dgx")).root


def test_eight_ranks_use_eight_nics(root):
    chosen = [near_device(rank, 1, {}, root=root, addresses=ADDRESSES) for rank in range(8)]

    assert chosen == [(f"10.0.0.{rank}",) for rank in range(8)]


def test_ranks_of_a_part_of_the_machine_count_what_they_see(root):
    environment = {"CUDA_VISIBLE_DEVICES": "6,7", "GD2FS_DEVICE_NICS": "1"}

    near = [near_device(rank, None, environment, root=root, addresses=ADDRESSES) for rank in (0, 1)]

    assert near == [("10.0.0.6",), ("10.0.0.7",)]


def test_the_environment_names_the_device(root):
    environment = {"GD2FS_DEVICE": "0000:2c:00.0", "GD2FS_DEVICE_NICS": "1"}

    assert near_device(None, None, environment, root=root, addresses=ADDRESSES) == ("10.0.0.1",)


@pytest.mark.parametrize(("device", "nics"), [(None, 4), (0, 0), (0, None)])
def test_without_a_device_or_a_count_the_system_chooses(root, device, nics):
    assert near_device(device, nics, {}, root=root, addresses=ADDRESSES) == ()


def test_a_machine_whose_nics_have_no_address_is_told(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        near = near_device(0, 1, {}, root=cloud(tmp_path).root, addresses={})

    assert near == ()
    assert "the system chooses" in caplog.text


def test_a_far_nic_is_better_than_none(tmp_path):
    root = two_sockets(tmp_path).root

    assert near_device(1, 2, {}, root=root, addresses={"ens1f0": ["10.0.0.1"]}) == ("10.0.0.1",)


@pytest.mark.parametrize(("device", "nics"), [(8, 1), ("GPU-9", 1), (0, -1), (0, 65)])
def test_what_cannot_be_is_refused(root, device, nics):
    with pytest.raises(InvalidRequest):
        near_device(device, nics, {}, root=root, addresses=ADDRESSES)


def test_named_addresses_win():
    named = {"dp": "tcp://10.9.0.1"}, {"environment": {"GD2FS_DPADDR": "tcp://10.9.0.1"}}
    configs = [
        client_config("a", cluster="c", device=99, device_nics=1, **{"environment": {}, **each})
        for each in named
    ]

    assert [config.dp for config in configs] == [("10.9.0.1",)] * 2


def test_a_client_of_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(InvalidRequest, match="no GPU"):
        client_config("a", cluster="c", device=4096, device_nics=1, environment={})


def test_interfaces_of_this_machine_have_addresses():
    assert all(addresses and name != "lo" for name, addresses in interface_addresses().items())
