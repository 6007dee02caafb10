"""What `gd2fs status` shows of a node's machine: RDMA and NUMA, where there is something to say."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gd2fs.answers import NodeStatus
from gd2fs.cli.status import Report, _facts, _report, _table

GIB = 1 << 30
FAR = {"bytes": {"1": 31 * GIB, "0": 32 * GIB}, "fault": "mbind: Operation not permitted"}


def node(name: str) -> NodeStatus:
    return NodeStatus(name, 1, 1, "active", "hugetlb", "on", 63 * GIB, 63 * GIB)


def lines_of(reports: dict[str, Report]) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=200).print(_table([node("n0"), node("n1")], reports, has_bars=False))
    return out.getvalue().splitlines()


def test_memory_of_several_numa_nodes_is_told_by_each():
    report = _report({"numa": FAR, "rdma_lack": "it is turned off"})
    heading, first, second = lines_of({"n0": report})

    assert heading.split()[-1] == "numa"
    assert first.endswith("32 GiB + 31 GiB")
    assert second.split()[-1] == "-"
    assert report.numa_fault == "mbind: Operation not permitted"
    assert _facts(node("n0"), report)["numa_bytes"] == {0: 32 * GIB, 1: 31 * GIB}


@pytest.mark.parametrize("told", [{}, {"numa": {"bytes": {}, "fault": ""}}, {"numa": None}])
def test_where_all_memory_is_alike_there_is_no_such_column(told):
    reports = {name: _report(told) for name in ("n0", "n1")}

    assert "numa" not in lines_of(reports)[0]
    assert _facts(node("n0"), reports["n0"])["numa_bytes"] == {}
