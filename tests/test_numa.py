"""What a node says of memory at several NUMA nodes; where threads and regions go: test_numa.cc."""

from __future__ import annotations

import logging

import pytest

from gd2fs.config import NodeConfig
from gd2fs.errors import InvalidRequest
from gd2fs.metrics.collector import _numa
from gd2fs.numa import tell_spread

GIB = 1 << 30
SPREAD = {"bytes": {0: 32 * GIB, 1: 31 * GIB}, "fault": "", "near_bytes": 5, "far_bytes": 7}
ALIKE = {"bytes": {}, "fault": "", "near_bytes": 0, "far_bytes": 0}


@pytest.mark.parametrize(
    ("spread", "level", "words"),
    [
        (SPREAD, "INFO", "32 GiB at 0, 31 GiB at 1"),
        (SPREAD | {"fault": "mbind: Operation not permitted"}, "WARNING", "not permitted"),
    ],
)
def test_a_node_tells_where_its_memory_lies(caplog, spread, level, words):
    with caplog.at_level(logging.INFO):
        tell_spread(spread)

    assert [record.levelname for record in caplog.records] == [level]
    assert words in caplog.text


def test_where_all_memory_is_alike_nothing_is_said(caplog):
    with caplog.at_level(logging.INFO):
        tell_spread(ALIKE)

    assert caplog.records == []
    assert [sample for family in _numa(ALIKE) for sample in family.samples] == []


def test_metrics_tell_shares_and_what_was_taken_near_and_far():
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in _numa(SPREAD)
        for sample in family.samples
    }

    assert samples == {
        ("gd2fs_numa_arena_bytes", "0"): 32 * GIB,
        ("gd2fs_numa_arena_bytes", "1"): 31 * GIB,
        ("gd2fs_numa_taken_bytes_total", "near"): 5,
        ("gd2fs_numa_taken_bytes_total", "far"): 7,
    }


def test_another_word_is_refused():
    with pytest.raises(InvalidRequest, match="--numa"):
        NodeConfig(cluster="c", numa="on")
