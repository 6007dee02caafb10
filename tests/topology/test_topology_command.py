"""What `gd2fs topology` prints, for people and for programs."""

from __future__ import annotations

import json

import pytest
from topology.made_machine import dgx, two_sockets

from gd2fs.cli.app import run


def printed(capsys, *words: str) -> str:
    assert run(["topology", *words]) == 0
    return capsys.readouterr().out


def test_the_matrix_has_a_row_for_every_device(tmp_path, capsys):
    lines = printed(capsys, "--root", str(dgx(tmp_path).root)).splitlines()
    names = lines[0].split()

    assert names == [*(f"GPU{n}" for n in range(8)), *(f"NIC{n}" for n in range(11))]
    rows = [line.split() for line in lines[1 : 1 + len(names)]]
    assert [row[0] for row in rows] == names
    assert [row[1 + at] for at, row in enumerate(rows)] == ["X"] * len(names)


def test_devices_are_listed_with_what_they_are(tmp_path, capsys):
    text = printed(capsys, "--root", str(two_sockets(tmp_path).root))

    assert "mlx5_0 ens1f0: up, 100 Gbit/s" in text
    assert "mlx5_1 ens1f1: down\n" in text
    assert "a virtual function of 0000:3b:00.0" in text
    assert "the link between NUMA nodes" in text


def test_programs_get_the_same(tmp_path, capsys):
    root = str(two_sockets(tmp_path).root)
    told = json.loads(printed(capsys, "--json", "--nearest", "2", "--root", root))

    assert [gpu["nearest"] for gpu in told["gpus"]] == [["NIC0"], ["NIC0"]]
    assert told["distances"]["GPU1"]["NIC0"] == "SYS"
    assert told["distances"]["GPU0"] == {
        "GPU0": "X",
        **{"GPU1": "SYS", "NIC0": "NODE", "NIC1": "NODE", "NIC2": "NODE"},
    }
    assert told["nics"][1] == {
        "name": "NIC1",
        "address": "0000:3b:00.1",
        "numa_node": 0,
        "interfaces": ["ens1f1"],
        "rdma": ["mlx5_1"],
        "is_up": False,
        "speed_mbit": 400_000,
        "physical": "",
    }


def test_a_machine_without_devices_is_no_error(tmp_path, capsys):
    assert printed(capsys, "--root", str(tmp_path)) == ""


@pytest.mark.parametrize("words", [["--nearest", "0"], ["--nearest", "x"]])
def test_a_wrong_count_is_refused(words, capsys):
    assert run(["topology", *words]) == 2
