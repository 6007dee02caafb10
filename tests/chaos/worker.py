"""Worker: one client process. It does its steps and writes down what came of each.

`python -m chaos.worker PLAN LOG` connects, prints `ready`, and waits for a line with the moment
of the start. A record is written when its call begins and again when it ends, so that of a
worker that is killed everything is known but the answers it did not get.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from chaos.content import content_of, runs_of
from chaos.history import NAMESPACE
from chaos.operation import (
    CONTENDED,
    MISS,
    OK,
    REFUSED,
    UNSURE,
    Record,
    Step,
    answer_of,
    begun,
)
from chaos.schedule import CHUNK_BYTES
from gd2fs import Client, Corrupt, GD2FSError, InvalidRequest, Unavailable

PAGE_ROOM_BYTES = 1 << 20  # no page is longer
CONNECT_S = 20.0


class Log:
    """Lines of JSON, each written at once."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, line: Sequence[Any]) -> None:
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")


class Lane:
    """One thread's steps, one after the other."""

    def __init__(self, client: Client, steps: Sequence[Step], log: Log) -> None:
        self._client = client
        self._pages = client.pages(NAMESPACE)
        self._steps = steps
        self._log = log

    def run(self, start_ns: int) -> None:
        for step in self._steps:
            wait_s = start_ns / 1e9 + step.at_s - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            self._do(step)

    def _do(self, step: Step) -> None:
        call: Callable[[Step, list[Record]], None] = getattr(self, f"_{step.kind}")
        contents = [b""]
        if step.kind in ("write", "append", "put", "page_put"):
            contents = [content_of(step.number + i, step.length) for i in range(len(step.names))]
        records = begun(step, time.monotonic_ns())
        self._log.write(["begin", [asdict(record) for record in records]])
        self._contents = contents
        try:
            call(step, records)
        except GD2FSError as error:
            for record in records:
                record.outcome, record.error = _outcome_of(error), str(error)
        end_ns = time.monotonic_ns()
        for record in records:
            record.end_ns = end_ns
        self._log.write(["end", [[record.number, *answer_of(record)] for record in records]])

    # ---- pages: one record for each key ------------------------------------------------------

    def _page_put(self, step: Step, records: list[Record]) -> None:
        stored = self._pages.put(list(step.names), self._contents, timeout_s=step.timeout_s)
        for record, is_stored in zip(records, stored, strict=True):
            record.outcome = OK if is_stored else UNSURE

    def _page_get(self, step: Step, records: list[Record]) -> None:
        into = [bytearray(PAGE_ROOM_BYTES) for _ in records]
        result = self._pages.get(list(step.names), into, timeout_s=step.timeout_s)
        for record, room, size in zip(records, into, result.sizes, strict=True):
            record.outcome = MISS if size is None else OK
            if size is not None:
                record.value, record.runs = size, runs_of(memoryview(room)[:size])

    def _page_drop(self, step: Step, records: list[Record]) -> None:
        self._pages.drop(list(step.names), timeout_s=step.timeout_s)
        records[0].outcome = OK

    def _page_cool(self, step: Step, records: list[Record]) -> None:
        self._advise_pages(step, records, "dontneed")

    def _page_warm(self, step: Step, records: list[Record]) -> None:
        self._advise_pages(step, records, "willneed")

    def _advise_pages(self, step: Step, records: list[Record], advice: str) -> None:
        self._pages.fadvise(list(step.names), advice, timeout_s=step.timeout_s).wait()
        for record in records:
            record.outcome = OK

    # ---- files: one record -------------------------------------------------------------------

    def _create(self, step: Step, records: list[Record]) -> None:
        path = step.names[0]
        self._client.create(path, chunk_bytes=CHUNK_BYTES, timeout_s=step.timeout_s)
        records[0].outcome = OK

    def _write(self, step: Step, records: list[Record]) -> None:
        content = self._contents[0]
        self._client.write(step.names[0], step.offset, content, timeout_s=step.timeout_s)
        records[0].outcome = OK

    def _append(self, step: Step, records: list[Record]) -> None:
        at = self._client.append(step.names[0], self._contents[0], timeout_s=step.timeout_s)
        records[0].outcome, records[0].value = OK, at

    def _put(self, step: Step, records: list[Record]) -> None:
        path, content = step.names[0], self._contents[0]
        self._client.put(path, content, chunk_bytes=CHUNK_BYTES, timeout_s=step.timeout_s)
        records[0].outcome = OK

    def _truncate(self, step: Step, records: list[Record]) -> None:
        self._client.truncate(step.names[0], step.length, timeout_s=step.timeout_s)
        records[0].outcome = OK

    def _unlink(self, step: Step, records: list[Record]) -> None:
        was_there = self._client.unlink(step.names[0], timeout_s=step.timeout_s)
        records[0].outcome = OK if was_there else MISS

    def _read(self, step: Step, records: list[Record]) -> None:
        room = bytearray(step.length)
        count = self._client.read(step.names[0], step.offset, room, timeout_s=step.timeout_s)
        records[0].outcome = MISS if count is None else OK
        if count is not None:
            records[0].value = count
            records[0].runs = runs_of(memoryview(room)[:count], step.offset)

    def _get(self, step: Step, records: list[Record]) -> None:
        content = self._client.get(step.names[0], timeout_s=step.timeout_s)
        records[0].outcome = MISS if content is None else OK
        if content is not None:
            records[0].value, records[0].runs = len(content), runs_of(content)

    def _cool(self, step: Step, records: list[Record]) -> None:
        self._advise(step, records, "dontneed")

    def _warm(self, step: Step, records: list[Record]) -> None:
        self._advise(step, records, "willneed")

    def _advise(self, step: Step, records: list[Record], advice: str) -> None:
        self._client.fadvise(step.names[0], advice, timeout_s=step.timeout_s).wait()
        records[0].outcome = OK


def _outcome_of(error: GD2FSError) -> str:
    if "another writer was first" in getattr(error, "hint", ""):
        return CONTENDED
    if isinstance(error, InvalidRequest):
        return REFUSED
    assert isinstance(error, Unavailable | Corrupt), error
    return UNSURE


def main(plan_path: str, log_path: str) -> None:
    plan = json.loads(Path(plan_path).read_text(encoding="utf-8"))
    steps = [Step(**{**step, "names": tuple(step["names"])}) for step in plan["steps"]]
    by_lane: dict[int, list[Step]] = defaultdict(list)
    for step in steps:
        by_lane[step.lane].append(step)
    log = Log(Path(log_path))
    with _connect(plan["client"]) as client:
        print("ready", flush=True)
        start_ns = int(sys.stdin.readline())
        threads = [
            threading.Thread(target=Lane(client, steps, log).run, args=(start_ns,))
            for steps in by_lane.values()
        ]
        failures = []
        threading.excepthook = lambda failure: failures.append(failure.exc_value)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def _connect(settings: dict[str, Any]) -> Client:
    end = time.monotonic() + CONNECT_S
    while True:
        try:
            return Client(**settings)
        except Unavailable:
            if time.monotonic() > end:
                raise


if __name__ == "__main__":
    main(*sys.argv[1:])
