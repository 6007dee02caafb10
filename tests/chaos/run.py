"""Run: one schedule on real processes, and what the checker says of its history."""

from __future__ import annotations

import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from chaos.checker import check
from chaos.history import History, S, read_log
from chaos.injector import Injector
from chaos.lab import PYTHON, Lab
from chaos.leaks import bytes_by_rdma, find_leaks, footprint_of, loaded_pieces, lost_pieces
from chaos.operation import NEVER_NS
from chaos.process import Process
from chaos.schedule import CHUNK_BYTES, Schedule
from chaos.violation import Violation

LEAD_S = 0.1  # from the order to start to the start
END_S = 20.0  # after all was to be read once more; a client that has not ended by then never will


@dataclass
class Verdict:
    """What came of a run."""

    schedule: Schedule
    history: History
    violations: list[Violation] = field(default_factory=list)
    took_s: float = 0.0
    loaded: int = 0  # pieces that came from disk
    by_rdma_bytes: int = 0  # to and from nodes, by one-sided transfers

    def summary(self) -> str:
        """One line: how many calls ended how, and what was wrong meanwhile."""
        outcomes = Counter(record.outcome for record in self.history.records)
        calls = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        faults = Counter(fault.kind for fault in self.schedule.faults)
        wrong = ", ".join(f"{count} {kind}" for kind, count in sorted(faults.items()))
        loaded = f" {self.loaded} pieces from disk;" if self.schedule.world.has_disk else ""
        if self.schedule.world.rdma:
            loaded += f" {self.by_rdma_bytes >> 20} MiB by RDMA;"
        return f"{len(self.history.records)} calls: {calls}; {wrong};{loaded} {self.took_s:.1f} s"


def run(
    schedule: Schedule,
    folder: Path | None = None,
    *,
    python: Sequence[str] = PYTHON,
    environment: dict[str, str] | None = None,
) -> Verdict:
    """Do all that the schedule says, and check what was seen. Call from the main thread."""
    begin = time.monotonic()
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gd2fs-chaos-")))
        lab = stack.enter_context(Lab(schedule, folder, python=python, environment=environment))
        verdict = _run_in(lab)
    verdict.took_s = time.monotonic() - begin
    return verdict


def _run_in(lab: Lab) -> Verdict:
    before = {name: footprint_of(node.pid) for name, node in lab.nodes.items()}
    start_ns = time.monotonic_ns() + int(LEAD_S * S)
    for client in lab.clients.values():
        client.tell(str(start_ns))
    injector = Injector(lab, start_ns)
    end_ns = start_ns + int((lab.world.pace.sweep_s + END_S) * S)
    injector.run(lambda: _have_ended(lab) or time.monotonic_ns() > end_ns)
    stuck = list(_find_stuck(lab))
    is_small = lab.world.is_small and not lab.world.has_disk
    history = _history_of(lab, injector, is_roomy=lost_pieces(lab) == 0 and not is_small)
    loaded, by_rdma_bytes = loaded_pieces(lab), bytes_by_rdma(lab)
    # A client's end explains the rest.
    violations = [*stuck, *check(history), *find_leaks(lab, before)]
    return Verdict(lab.schedule, history, violations, loaded=loaded, by_rdma_bytes=by_rdma_bytes)


def _have_ended(lab: Lab) -> bool:
    return not any(client.is_running for client in lab.clients.values())


def _find_stuck(lab: Lab) -> list[Violation]:
    killed = {fault.target for fault in lab.schedule.faults if fault.kind == "client_kill"}
    found = []
    for name, client in lab.clients.items():
        if client.is_running:
            found.append(Violation("a client never ends", name))
            client.kill()
        elif name not in killed and client.wait() != 0:
            found.append(Violation("a client died", f"{name}: {_end_of(client)}"))
    return found


def _end_of(client: Process) -> str:
    """How a client ended that should not have: by which signal, or with what last words."""
    code = client.wait()
    return signal.Signals(-code).name if code < 0 else client.last_words()


def _history_of(lab: Lab, injector: Injector, *, is_roomy: bool) -> History:
    history = History(
        outages=injector.outages,
        replicas=lab.world.replicas,
        is_roomy=is_roomy,
        settle_ns=int(lab.world.pace.settle_s * S),
        chunk_bytes=CHUNK_BYTES,
        lease_ns=lab.world.lease_s * S,
        nodes=lab.node_names() if lab.world.provider == "static" else [],
        is_kept=lab.world.is_kept,
    )
    ends = {each.target: each.end_ns for each in injector.outages if each.ends_client}
    for name in lab.clients:
        history.records += read_log(lab.client_log(name), ends.get(name, NEVER_NS))
    history.records.sort(key=lambda record: record.start_ns)
    return history
