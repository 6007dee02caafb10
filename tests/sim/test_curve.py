"""Curves: every point is what a cache of that size finds, sampled ones within their error."""

from __future__ import annotations

import json

import pytest
from sim.made_traces import plain_hits, small_trace

from gd2fs.cli import main
from gd2fs.sim.curve import curve_of


@pytest.fixture(scope="module")
def trace():
    return small_trace()


def test_every_point_is_what_a_cache_of_that_size_finds(trace):
    blocks = int(trace.prompt_blocks.sum())
    curve = curve_of(trace, samples=1_000_000)

    assert curve.sampled_share == 1
    for point in curve.points[6::4]:
        exact = plain_hits(trace, 1, point.blocks) / blocks
        assert point.hit_rate == pytest.approx(exact, abs=0.01)
        assert point.error == 0


def test_a_sample_tells_how_far_off_it_may_be(trace):
    whole = curve_of(trace, samples=1_000_000)
    sampled = curve_of(trace, samples=2_000)

    assert sampled.sampled_share < 0.5
    for exact, point in zip(whole.points[8:], sampled.points[8:], strict=True):
        assert 0 < point.error < 0.15
        assert abs(point.hit_rate - exact.hit_rate) <= 2 * point.error + 0.01


def test_the_command_tells_the_curve(capsys):
    assert main(["sim", "curve", "made:requests=300,block=64", "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]

    rates = [each["hit_rate"] for each in points]
    assert rates == sorted(rates)
    assert main(["sim", "curve", "made:requests=300", "--samples", "1"]) == 1
