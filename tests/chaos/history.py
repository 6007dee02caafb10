"""History: what the clients saw and what was wrong meanwhile, of one run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.operation import KILLED, NEVER_NS, Record, take_answer

S = 1_000_000_000  # ns


@dataclass(frozen=True, slots=True)
class Outage:
    """A fault as it was: from before its first effect to after its last one."""

    kind: str
    target: str
    start_ns: int
    end_ns: int = NEVER_NS
    other: str = ""

    @property
    def loses_memory(self) -> bool:
        return self.kind == "kill"

    @property
    def ends_client(self) -> bool:
        return self.kind == "client_kill"


@dataclass
class History:
    """The records of all clients and the outages of a run.

    Attributes:
        replicas: Copies of acknowledged data.
        is_roomy: Nothing was ever evicted, so what was acknowledged stays.
        settle_ns: After an outage, until all is expected to be as before.
        chunk_bytes: Of every file.
    """

    records: list[Record] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    replicas: int = 1
    is_roomy: bool = True
    settle_ns: int = 2 * S
    chunk_bytes: int = 64 << 10

    def is_calm(self, start_ns: int, end_ns: int) -> bool:
        """Whether nothing was wrong in that time, nor just before."""
        return not any(
            outage.start_ns < end_ns and outage.end_ns + self.settle_ns > start_ns
            for outage in self.outages
            if not outage.ends_client
        )

    def losses(self, start_ns: int, end_ns: int) -> int:
        """How many nodes lost their memory in that time."""
        return len(
            {
                outage.target
                for outage in self.outages
                if outage.loses_memory and outage.start_ns <= end_ns and outage.end_ns >= start_ns
            }
        )

    def is_safe(self, change: Record, until_ns: int) -> bool:
        """Whether what ``change`` wrote must still be there: acknowledged while nothing was wrong,
        and no more nodes were lost since than there are further copies."""
        return (
            self.is_roomy
            and change.is_acknowledged
            and self.is_calm(change.start_ns, change.end_ns)
            and self.losses(change.start_ns, until_ns) < self.replicas
        )


def read_log(path: Path, ended_ns: int = NEVER_NS) -> list[Record]:
    """The records of one worker. ``ended_ns``: when it was killed, if it was: then its calls ended.

    A last line that was cut off by the kill is left out.
    """
    records: dict[int, Record] = {}
    for line in _whole_lines(path):
        what, entries = json.loads(line)
        for entry in entries:
            if what == "begin":
                records[entry["number"]] = Record(**entry)
            else:
                take_answer(records[entry[0]], entry[1:])
    for record in records.values():
        if record.end_ns > ended_ns:
            record.end_ns, record.outcome = ended_ns, KILLED
    return list(records.values())


def _whole_lines(path: Path) -> Iterable[str]:
    if not path.exists():
        return []
    return (line for line in path.read_text(encoding="utf-8").split("\n")[:-1])
