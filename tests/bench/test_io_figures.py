"""Figures: percentiles, histograms, processor time, and whether somebody else was busy."""

import os
import statistics
import time

import pytest

from gd2fs.bench.io.latency import BUCKETS_PER_OCTAVE, Latency, histogram, sparkline
from gd2fs.bench.io.processor import Foreign, Moment, process_cpu_s


def test_percentiles_are_values_that_were_measured():
    latency = Latency.of_ns([number * 1_000_000 for number in range(1, 1001)])

    assert (latency.p50, latency.p99, latency.p999) == (500.5, 990, 999)
    assert latency.samples == 1000


@pytest.mark.parametrize("time_ns", [1, 7, 8, 9, 1000, 123_456, 10**9 + 7])
def test_a_bucket_holds_its_values_within_its_width(time_ns):
    (bound_ms, count) = histogram([time_ns])[0]

    assert count == 1
    assert time_ns < bound_ms * 1e6 <= time_ns * (1 + 1 / BUCKETS_PER_OCTAVE) + 1


def test_a_histogram_counts_every_call_and_shows_gaps():
    times = [1000] * 90 + [100_000] * 10

    buckets = histogram(times)

    assert sum(count for _, count in buckets) == 100
    assert any(count == 0 for _, count in buckets)


def test_a_rare_call_still_shows_in_the_line():
    line = sparkline(histogram([1000] * 10_000 + [1_000_000]))

    assert line[0] == "█"
    assert line[-1] == "▁"


def stat(user=0, nice=0, system=0, idle=0, iowait=0, irq=0, softirq=0, steal=0):
    return f"cpu  {user} {nice} {system} {idle} {iowait} {irq} {softirq} {steal} 0 0"


def test_what_others_used_is_what_was_busy_less_our_own():
    start = Moment.parse(stat(), own_s=0)
    end = Moment.parse(stat(user=600, system=200, idle=200), own_s=5)

    foreign = Foreign.between(start, end)

    assert foreign.processes == pytest.approx(0.3)
    assert foreign.is_busy


def test_a_machine_of_our_own_is_not_busy():
    start = Moment.parse(stat(user=100, idle=100), own_s=1)
    end = Moment.parse(stat(user=1000, idle=1000), own_s=10)

    assert not Foreign.between(start, end).is_busy


def test_stolen_time_makes_it_busy():
    end = Moment.parse(stat(user=900, steal=100), own_s=9)

    foreign = Foreign.between(Moment.parse(stat(), own_s=0), end)

    assert foreign.steal == pytest.approx(0.1)
    assert foreign.is_busy


def test_processor_time_is_that_of_all_threads():
    before_s, ours_s = process_cpu_s(os.getpid()), time.process_time()
    while time.process_time() < ours_s + 0.05:
        statistics.median(range(1000))

    assert process_cpu_s(os.getpid()) - before_s >= 0.04
