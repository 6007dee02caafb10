"""Store jobs: the calls of GD2FS that are measured, with whole checks of what they give."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from gd2fs import _core
from gd2fs.bench.io.case import Case
from gd2fs.bench.io.job import Filling, Job, Phase, expect, wrong
from gd2fs.bench.io.memory import blank, differ, spots_differ
from gd2fs.client import Client
from gd2fs.errors import InvalidRequest

NAMESPACE = "bench"
KEY_BYTES = 16
PATIENCE_S = 120.0


def key_of(client_index: int, number: int) -> bytes:
    """16 bytes, as the digest of a page's tokens would be."""
    return b"%04d-%011d" % (client_index, number)


class Read(Filling):
    """One object, whole, into one buffer."""

    def __init__(self, client: Client, name: str, source: memoryview, into: memoryview) -> None:
        self._client = client
        self._path = f"/{NAMESPACE}/{name}"
        self.into, self.expected = into, source
        self.what = f"read {self._path}"

    def prepare(self) -> None:
        self._client.put(self._path, self.expected, timeout_s=PATIENCE_S)

    def call(self) -> None:
        size = self._client.read(self._path, 0, self.into, timeout_s=PATIENCE_S)
        expect(size == len(self.into), self.what, size)

    def finish(self) -> None:
        self._client.unlink(self._path)


class Write(Job):
    """One object, whole, into an empty file that is made before and removed after, untimed."""

    def __init__(self, client: Client, name: str, source: memoryview, into: memoryview) -> None:
        self._client = client
        self._path = f"/{NAMESPACE}/{name}"
        self._source, self._into = source, into

    def before(self) -> None:
        self._client.unlink(self._path, timeout_s=PATIENCE_S)
        self._client.create(self._path, timeout_s=PATIENCE_S)

    def call(self) -> None:
        self._client.write(self._path, 0, self._source, timeout_s=PATIENCE_S)

    def check(self) -> None:
        blank(self._into)
        size = self._client.read(self._path, 0, self._into, timeout_s=PATIENCE_S)
        expect(size == len(self._source), f"read {self._path}", size)
        if differ(self._into, self._source):
            raise wrong(f"write {self._path}")

    def finish(self) -> None:
        self._client.unlink(self._path)


class Get(Filling):
    """A batch of pages into buffers that lie back to back."""

    def __init__(
        self, client: Client, case: Case, index: int, source: memoryview, into: memoryview
    ):
        self._pages = client.pages(f"{NAMESPACE}-get-{case.bytes}-{index}")
        self.keys = [key_of(index, number) for number in range(case.count)]
        self.into, self.expected = into, source
        self._into = _cut(into, case)
        self._source = _cut(source, case)
        self.what = f"get {case.count} pages"

    def prepare(self) -> None:
        self._pages.clear(timeout_s=PATIENCE_S)
        stored = self._pages.put(self.keys, self._source, timeout_s=PATIENCE_S)
        expect(all(stored), f"put {len(self.keys)} pages", stored)

    def call(self) -> None:
        result = self._pages.get(self.keys, self._into, timeout_s=PATIENCE_S)
        expect(result.leading == len(self.keys), self.what, result.leading)

    def finish(self) -> None:
        self._pages.clear(timeout_s=PATIENCE_S)


class PipelinedGet(Get):
    """Several such batches in flight, each into buffers of its own."""

    def __init__(
        self, client: Client, case: Case, index: int, source: memoryview, into: memoryview
    ):
        super().__init__(client, case, index, source[: case.call_bytes], into[: case.call_bytes])
        self._core = client._core
        self._namespace = self._pages.namespace.encode()
        parts = [into[at * case.call_bytes :][: case.call_bytes] for at in range(case.depth)]
        self._areas = parts
        self._targets = [_cut(part, case) for part in parts]

    def run(self, times: int) -> Phase:
        """The latency of each batch; ``call_ns`` is what one costs while others are in flight."""
        phase = Phase()
        for area in self._areas:
            blank(area)
        cpu_ns, free_ns = time.process_time_ns(), _core.gil_released_ns()
        flying: deque[tuple[_core.Call, int]] = deque()
        start_ns = time.perf_counter_ns()
        for number in range(times):
            if len(flying) == len(self._targets):
                self._take(*flying.popleft(), phase)
            into = self._targets[number % len(self._targets)]
            flying.append((self._start(into), time.perf_counter_ns()))
        while flying:
            self._take(*flying.popleft(), phase)
        spent_ns = time.perf_counter_ns() - start_ns
        phase.call_ns = spent_ns / times
        phase.cpu_ns = time.process_time_ns() - cpu_ns
        held_ns = spent_ns - (_core.gil_released_ns() - free_ns)
        phase.gil_ns = [held_ns // times]
        self._check_areas(times)
        return phase

    def _start(self, into: list[memoryview]) -> _core.Call:
        return self._core.get_pages(
            self._namespace, self.keys, into, timeout_ms=round(PATIENCE_S * 1000)
        )

    def _take(self, call: _core.Call, start_ns: int, phase: Phase) -> None:
        call.wait()
        phase.calls_ns.append(time.perf_counter_ns() - start_ns)
        expect(call.status == 0, self.what, call.status)

    def _check_areas(self, times: int) -> None:
        for area in self._areas[:times]:
            if differ(area, self.expected):
                raise wrong(self.what)


class LookAt(Job):
    """A page where it lies: until its bytes can be read, and are given back."""

    def __init__(self, client: Any, case: Case, index: int, source: memoryview) -> None:
        self._client, self._source = client, source
        self._namespace = f"{NAMESPACE}-view-{case.bytes}-{index}"
        self._key = key_of(index, 0)
        self._what = f"view {len(source)} bytes"

    def prepare(self) -> None:
        pages = self._client.pages(self._namespace)
        expect(all(pages.put([self._key], [self._source], timeout_s=PATIENCE_S)), "put a page")

    def call(self) -> None:
        """The pause between getting and giving back is not the store's: nothing is read here."""
        with self._look() as view:
            expect(len(view.parts) > 0, self._what)

    def after(self) -> None:
        with self._look() as view:
            at = 0
            for part in view.parts:
                if spots_differ(part, self._source[at : at + len(part)]):
                    raise wrong(self._what)
                at += len(part)
            expect(at == len(self._source), self._what, at)

    def check(self) -> None:
        with self._look() as view:
            at = 0
            for part in view.parts:
                if bytes(part) != self._source[at : at + len(part)].tobytes():
                    raise wrong(self._what)
                at += len(part)

    def finish(self) -> None:
        self._client.clear(self._namespace, timeout_s=PATIENCE_S)

    def _look(self) -> Any:
        view = self._client.view(self._namespace, self._key, timeout_s=PATIENCE_S)
        expect(view is not None, self._what)
        if view._core.is_copy:
            raise InvalidRequest(
                f"{self._what}: the node gave a copy",
                hint="a client may look at a 16th of a node's `--memory`; give it more",
            )
        return view


class Put(Job):
    """A batch of pages that are not there yet; the last ones are dropped before, untimed."""

    def __init__(
        self, client: Client, case: Case, index: int, source: memoryview, into: memoryview
    ):
        self._pages = client.pages(f"{NAMESPACE}-put-{case.bytes}-{index}")
        self._keys = [key_of(index, number) for number in range(case.count)]
        self._source, self._parts = source, _cut(source, case)
        self._into, self._into_parts = into, _cut(into, case)

    def before(self) -> None:
        self._pages.drop(self._keys, timeout_s=PATIENCE_S)

    def call(self) -> None:
        stored = self._pages.put(self._keys, self._parts, timeout_s=PATIENCE_S)
        expect(all(stored), f"put {len(self._keys)} pages", stored)

    def check(self) -> None:
        blank(self._into)
        result = self._pages.get(self._keys, self._into_parts, timeout_s=PATIENCE_S)
        expect(result.leading == len(self._keys), f"get {len(self._keys)} pages", result.leading)
        if differ(self._into, self._source):
            raise wrong(f"put {len(self._keys)} pages")

    def finish(self) -> None:
        self._pages.clear(timeout_s=PATIENCE_S)


class Exists(Job):
    """Keys of which every second one is there."""

    def __init__(self, client: Client, case: Case, index: int) -> None:
        self._pages = client.pages(f"{NAMESPACE}-exists-{index}")
        self._keys = [key_of(index, number) for number in range(case.count)]
        self._present: list[bool] = []

    def prepare(self) -> None:
        there = self._keys[::2]
        stored = self._pages.put(there, [b"x"] * len(there), timeout_s=PATIENCE_S)
        expect(all(stored), f"put {len(there)} pages", stored)

    def call(self) -> None:
        self._present = self._pages.exists(self._keys, timeout_s=PATIENCE_S).present

    def after(self) -> None:
        if self._present != [at % 2 == 0 for at in range(len(self._keys))]:
            raise wrong(f"exists {len(self._keys)} keys")

    def finish(self) -> None:
        self._pages.clear(timeout_s=PATIENCE_S)


Make = Callable[[Client, Case, int, memoryview, memoryview], Job]


def store_job(client: Client, case: Case, index: int, source: memoryview, into: memoryview) -> Job:
    """The job of ``case`` for client ``index``.

    Args:
        source: The bytes of one call, and what is compared with.
        into: As long; of pipelined cases, ``depth`` times as long.
    """
    if case.op == "view":
        return LookAt(client, case, index, source)
    if case.op == "exists":
        return Exists(client, case, index)
    if case.op == "get" and case.depth > 1:
        return PipelinedGet(client, case, index, source, into)
    if case.op in ("get", "put"):
        make = Get if case.op == "get" else Put
        return make(client, case, index, source, into)
    name = f"{case.op}-{case.transport}-{case.bytes}-{index}"
    return (Read if case.op == "read" else Write)(client, name, source, into)


def _cut(view: memoryview, case: Case) -> list[memoryview]:
    return [view[at * case.bytes : (at + 1) * case.bytes] for at in range(case.count)]
