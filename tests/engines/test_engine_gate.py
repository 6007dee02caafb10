"""Gate: what is quicker to compute than to load is not loaded; what is unknown is tried."""

from __future__ import annotations

import pytest

from gd2fs.engines.gate import COMPUTE_SAMPLES, PROBE_S, ComputeWatch, LoadGate

MIB = 1 << 20


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def gate(clock):
    """Loads 100 MiB a second, computes 1,000 tokens a second."""
    gate = LoadGate(clock=clock)
    load(gate, clock, size=100 * MIB, seconds=1.0)
    gate.saw_compute(tokens=1000, seconds=1.0)
    return gate


def load(gate: LoadGate, clock: Clock, *, size: int, seconds: float) -> None:
    with gate.loading(size):
        clock.now += seconds


@pytest.mark.parametrize(("tokens", "is_admitted"), [(999, False), (1001, True)])
def test_a_span_is_loaded_exactly_when_that_is_quicker(gate, tokens, is_admitted):
    assert gate.admits(tokens=tokens, size=100 * MIB) is is_admitted


def test_loads_under_way_count_as_a_queue(gate):
    with gate.loading(100 * MIB):
        admitted = [gate.admits(tokens=tokens, size=100 * MIB) for tokens in (1999, 2001)]

    assert admitted == [False, True]


def test_a_load_of_which_nothing_came_is_no_quick_one(gate, clock):
    with gate.loading(1000 * MIB) as failed:
        failed.arrived = 0
        clock.now += 2.0

    assert not gate.admits(tokens=1001, size=100 * MIB)


def test_what_is_unknown_is_loaded(clock):
    gate = LoadGate(clock=clock)
    first = gate.admits(tokens=1, size=1 << 40)
    load(gate, clock, size=1, seconds=1.0)

    assert first and gate.admits(tokens=1, size=1 << 40)


def test_an_open_gate_admits_everything(clock):
    gate = LoadGate(is_open=True, compute_tokens_per_s=1e9, clock=clock)
    load(gate, clock, size=1, seconds=1.0)

    assert gate.admits(tokens=1, size=1 << 40)


def test_after_a_while_without_loads_one_is_tried(gate, clock):
    clock.now += PROBE_S
    tried = gate.admits(tokens=1, size=100 * MIB)
    load(gate, clock, size=100 * MIB, seconds=1.0)

    assert tried and not gate.admits(tokens=1, size=100 * MIB)


def test_a_store_that_has_become_quick_is_used_again(gate, clock):
    for _ in range(20):
        load(gate, clock, size=100 * MIB, seconds=0.01)

    assert gate.admits(tokens=20, size=100 * MIB)


def test_a_given_rate_of_computing_is_not_observed(clock):
    gate = LoadGate(compute_tokens_per_s=10.0, clock=clock)
    gate.saw_compute(tokens=1000, seconds=1.0)

    assert gate.rates().compute_tokens_per_s == 10.0


def test_the_quickest_of_the_last_samples_counts(gate):
    gate.saw_compute(tokens=1000, seconds=0.5)
    best = gate.rates().compute_tokens_per_s
    for _ in range(COMPUTE_SAMPLES):
        gate.saw_compute(tokens=1000, seconds=2.0)

    assert (best, gate.rates().compute_tokens_per_s) == (2000.0, 500.0)


def test_a_span_is_timed_from_its_miss_to_its_store(clock):
    gate = LoadGate(clock=clock)
    watch = ComputeWatch(gate, page_tokens=16, clock=clock)
    watch.missed("p4")
    clock.now += 2.0
    watch.stored([f"p{at}" for at in range(14)])

    assert gate.rates().compute_tokens_per_s == 80.0


def test_a_span_that_nobody_missed_is_no_sample(clock):
    gate = LoadGate(clock=clock)
    ComputeWatch(gate, page_tokens=16, clock=clock).stored([f"p{at}" for at in range(14)])

    assert gate.rates().compute_tokens_per_s == 0.0
