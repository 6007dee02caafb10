"""Tide: instances follow the load; private caches go with them, the shared one stays."""

from __future__ import annotations

import json

import pytest
from sim.made_traces import small_trace

from gd2fs.cli import main
from gd2fs.sim.engine import Rates
from gd2fs.sim.made import made_of, make_trace
from gd2fs.sim.tide import elasticity_of, tide_of

DAY = "made:requests=4000,rate=0.046,tide=0.9,block=256,pause=600,turns=6"


def test_at_noon_there_are_more_than_at_midnight():
    counts = [count for _, count in tide_of(make_trace(made_of(DAY[5:])), 0.01, 100)]
    night, noon = counts[:12], counts[138:150]

    assert 2 * sum(night) < sum(noon)
    assert min(counts) >= 1


def test_hours_that_nobody_needs_are_counted():
    rates = Rates(token_s=0.001, step_s=0.01, requests_max=1)
    found = elasticity_of([(0.0, 4), (1800.0, 1)], 4, 3600.0, rates)

    assert found["instance_hours"] == pytest.approx(2.5)
    assert found["spare_hours"] == pytest.approx(1.5)
    assert found["mean_instances"] == pytest.approx(2.5)
    assert found["offline_tokens"] == pytest.approx(1.5 * 3600 / 0.001)


def test_private_caches_lose_by_the_tide_and_the_shared_one_does_not(tmp_path):
    rates = {}
    for name, words in (("still", []), ("tide", ["--elastic", "0.01"])):
        out = tmp_path / name
        base = ["sim", DAY, "--instances", "9", "--balancer", "sticky", "--json", str(out)]
        assert main([*base, *words]) == 0
        found = json.loads(out.read_text())
        rates[name] = [found[each]["block_hit_rate"] for each in ("private", "shared")]

    assert rates["tide"][1] == rates["still"][1]
    assert rates["tide"][0] < 0.9 * rates["still"][0]


def test_a_rate_that_cannot_be_is_refused():
    with pytest.raises(Exception, match="--elastic"):
        tide_of(small_trace(), 0.0, 3)
