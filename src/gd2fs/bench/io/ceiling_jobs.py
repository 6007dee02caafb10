"""Ceiling jobs: what bounds a case, moved between the same memory by the same process."""

from __future__ import annotations

import time
from collections.abc import Mapping

from gd2fs import _core
from gd2fs.bench.io.case import COPY_THREADS, Case
from gd2fs.bench.io.job import Job, Phase
from gd2fs.bench.io.memory import joined
from gd2fs.bench.io.store_jobs import key_of
from gd2fs.errors import Unavailable

COPY_BYTES = 128 << 20  # of the source, which is read over again: several times any cache


class Lines:
    """Connections to the raw server, and the copier; each made when it is first asked for.

    Args:
        raw: Addresses of the raw server by name, and its ``rung``.
    """

    def __init__(self, raw: Mapping[str, str]) -> None:
        self._raw = raw
        self._lines: dict[tuple[str, int], _core.RawLine] = {}
        self._bare: dict[str, _core.BareLine] = {}
        self._copier: _core.Copier | None = None

    def line(self, transport: str, streams: int) -> _core.RawLine:
        found = self._lines.get((transport, streams))
        if found is None:
            found = self._lines[transport, streams] = _core.RawLine(self._raw[transport], streams)
        return found

    def bare(self, transport: str) -> _core.BareLine:
        socket = "tcp" if transport == "tcp" else "unix"
        if socket not in self._bare:
            self._bare[socket] = _core.BareLine(self._raw[f"bare_{socket}"])
        return self._bare[socket]

    def copier(self) -> _core.Copier:
        if self._copier is None:
            self._copier = _core.Copier(COPY_BYTES, self._raw["rung"], COPY_THREADS)
        return self._copier


class Transfer(Job):
    """So many bytes over raw sockets."""

    def __init__(self, line: _core.RawLine, name: str, view: memoryview, *, is_write: bool) -> None:
        self._line, self._view = line, view
        self._is_write, self._is_spliced = is_write, name.endswith("_vmsplice")

    def call(self) -> None:
        if self._is_write:
            self._line.write(self._view)
        else:
            self._line.read(self._view, is_spliced=self._is_spliced)


class Copy(Job):
    """So many bytes from memory of the arena's kind into the caller's."""

    def __init__(self, copier: _core.Copier, into: memoryview, *, is_nontemporal: bool) -> None:
        self._copier, self._into, self._is_nontemporal = copier, into, is_nontemporal

    def call(self) -> None:
        self._copier.copy(self._into, is_nontemporal=self._is_nontemporal)


class Bare(Job):
    """Batches of small pages, or questions for them, from the bare loop."""

    def __init__(self, line: _core.BareLine, case: Case, into: memoryview) -> None:
        self._line, self._case, self._into = line, case, into

    def prepare(self) -> None:
        case = self._case
        keys = joined([key_of(0, number) for number in range(case.count)])
        self._line.fill(keys, count=case.count, item_bytes=case.bytes)

    def run(self, times: int) -> Phase:
        phase = Phase()
        cpu_ns, start_ns = time.process_time_ns(), time.perf_counter_ns()
        if self._case.op == "exists":
            self._line.exists(batches=times)
        else:
            case = self._case
            self._line.get(self._into, batches=times, depth=case.depth, is_verifying=case.verify)
        phase.call_ns = (time.perf_counter_ns() - start_ns) / times
        phase.cpu_ns = time.process_time_ns() - cpu_ns
        phase.calls_ns = [round(phase.call_ns)] * times
        return phase


def ceiling_job(lines: Lines, name: str, case: Case, source: memoryview, into: memoryview) -> Job:
    """The ceiling ``name`` at the size of ``case``."""
    if name in ("bare_get", "bare_exists"):
        return Bare(lines.bare(case.transport), case, into)
    if name in ("copy", "copy_nontemporal"):
        return Copy(lines.copier(), into, is_nontemporal=name == "copy_nontemporal")
    transport, _, way = name.partition("_")
    if way not in ("send", "vmsplice"):
        raise Unavailable(f"no ceiling `{name}`")
    is_write = case.op in ("write", "put")
    line = lines.line(transport, case.streams)
    return Transfer(line, name, source if is_write else into, is_write=is_write)
