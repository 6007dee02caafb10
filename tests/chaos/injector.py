"""Injector: makes the faults of a schedule happen, and writes down when they were."""

from __future__ import annotations

import heapq
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.history import ETCD, Outage, S
from chaos.lab import Lab
from chaos.process import DidNotStart
from chaos.schedule import PROXY_FAULTS, Fault

POLL_S = 0.02
STARTS_MAX = 20  # of nodes that end because etcd is away


@dataclass(order=True)
class _Event:
    at_ns: int
    order: int
    act: Callable[[], None] = field(compare=False)


@dataclass
class _Running:
    """A fault that has begun."""

    fault: Fault
    start_ns: int


class Injector:
    """Runs the faults from the main thread, between looks at the clients."""

    def __init__(self, lab: Lab, start_ns: int) -> None:
        self._lab = lab
        self._start_ns = start_ns
        self._events: list[_Event] = []
        self._active: list[_Running] = []
        self._starting: list[_Running] = []  # killed, and not ready yet
        self._starts_left = STARTS_MAX
        self.outages: list[Outage] = []
        for fault in lab.schedule.faults:
            self._at(fault.at_s, lambda fault=fault: self._begin(fault))

    def run(self, is_over: Callable[[], bool]) -> None:
        """Make everything happen until all is over: no fault is left, and ``is_over``."""
        while self._events or self._starting or not is_over():
            now_ns = time.monotonic_ns()
            while self._events and self._events[0].at_ns <= now_ns:
                heapq.heappop(self._events).act()
            for running in list(self._starting):
                if self._is_back(running.fault.target):
                    self._starting.remove(running)
                    self._note(running)
            time.sleep(POLL_S)

    def _is_back(self, name: str) -> bool:
        """Whether a process that was killed serves again. A node that ends because etcd is away
        is started once more, as a supervisor would.
        """
        try:
            return self._lab.is_ready(name)
        except DidNotStart:
            self._starts_left -= 1
            if self._lab.etcd is None or self._starts_left == 0:
                raise
            self._lab.start_node(name)
            return False

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        at_ns = self._start_ns + int(at_s * S)
        heapq.heappush(self._events, _Event(at_ns, len(self._events), act))

    def _begin(self, fault: Fault) -> None:
        running = _Running(fault, time.monotonic_ns())
        if fault.kind == "kill":
            self._give_up_starting(fault.target)
        self._active.append(running)
        self._apply(fault, is_on=True)
        if fault.kind == "client_kill":
            self._note(running)
        else:
            self._at(fault.end_s, lambda: self._end(running))

    def _give_up_starting(self, target: str) -> None:
        """It is killed again before it was ready: the outage goes on as the next one."""
        for running in [each for each in self._starting if each.fault.target == target]:
            self._starting.remove(running)
            self._note(running)

    def _end(self, running: _Running) -> None:
        self._active.remove(running)
        self._apply(running.fault, is_on=False)
        if running.fault.kind == "kill":
            self._starting.append(running)
        else:
            self._note(running)

    def _note(self, running: _Running) -> None:
        fault = running.fault
        end_ns = time.monotonic_ns()
        self.outages.append(Outage(fault.kind, fault.target, running.start_ns, end_ns, fault.other))

    def _apply(self, fault: Fault, *, is_on: bool) -> None:
        if fault.kind in PROXY_FAULTS:
            assert self._lab.proxy is not None
            self._lab.proxy.tell(f"{fault.kind} {fault.amount}" if is_on else "pass")
        elif fault.kind in ("cut", "loss"):
            self._filter(fault.other if fault.kind == "cut" else fault.target)
        else:
            getattr(self, f"_{fault.kind}")(fault.target, is_on)

    def _kill(self, target: str, is_on: bool) -> None:
        if is_on:
            self._lab.process(target).kill()
        elif target == ETCD:
            self._lab.start_etcd()
        else:
            self._lab.start_node(target)

    def _pause(self, target: str, is_on: bool) -> None:
        self._lab.process(target).signal(signal.SIGSTOP if is_on else signal.SIGCONT)

    def _link_down(self, target: str, is_on: bool) -> None:
        self._lab.network.set_cable(target, is_up=not is_on)

    def _client_kill(self, target: str, is_on: bool) -> None:
        self._lab.clients[target].kill()

    def _filter(self, receiver: str) -> None:
        """Set what is dropped on its way to ``receiver``, by all faults that last."""
        rules = []
        for fault in (running.fault for running in self._active):
            if fault.kind == "cut" and fault.other == receiver:
                rules.append(f"ip saddr {self._lab.network.address(fault.target)} drop")
            elif fault.kind == "loss" and fault.target == receiver:
                rules.append(f'iif "eth0" numgen random mod 100 < {fault.amount} drop')
        self._lab.network.drop_to(self._lab.host_of(receiver), rules)
