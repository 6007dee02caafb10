"""Workers: processes that play settings of one trace, and are ended at once when nobody waits."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection, resource_tracker
from typing import Any

from gd2fs.errors import GD2FSError, InvalidRequest

Work = Callable[[Any, Any], Any]  # of a child: what all have in common, and one task
Line = connection.Connection

ENDINGS = (signal.SIGINT, signal.SIGTERM)


def worked_out(work: Work, common: Any, tasks: Sequence[Any], jobs: int) -> Iterator[Any]:
    """What ``work`` gives for each task, as soon as it is known, in no order.

    Args:
        work: A function of a module.
        common: Sent to each process once.
        tasks: One at a time is sent to a process.
        jobs: Processes, 1 or more.

    Raises:
        InvalidRequest: A process ended, for want of memory for one.
        GD2FSError: What ``work`` has raised.
    """
    left = list(reversed(tasks))
    with _processes(work, min(jobs, len(tasks))) as processes:
        for line, process in processes.items():
            _send(line, process, common)
            _send(line, process, left.pop())
        waited = set(processes)
        while waited:
            ready = set(connection.wait(list(waited)))
            for line in [each for each in waited if each in ready]:
                found = _received(line, processes[line])
                if left:
                    _send(line, processes[line], left.pop())
                else:
                    waited.remove(line)
                yield found


@contextmanager
def _processes(work: Work, count: int) -> Iterator[dict[Line, Any]]:
    """Processes by the line to each. They are killed at the end, whatever they do."""
    context = multiprocessing.get_context("spawn")
    resource_tracker.ensure_running()  # it would let SIGINT through again
    found: dict[Line, Any] = {}
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, work), daemon=True)
            with _signals_later():
                process.start()
                found[ours] = process
                theirs.close()
        yield found
    finally:
        for process in found.values():
            process.kill()
        for line, process in found.items():
            process.join()
            line.close()


@contextmanager
def _signals_later() -> Iterator[None]:
    """What ends this process is taken afterwards, so that no process is left half started.

    What is started meanwhile takes no Ctrl-C of the terminal, either: its parent ends it. Blocked
    signals alone do not do: another thread may take one, and its Python handler runs in this one.
    """
    taken: list[int] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    handlers: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # no other may, and none runs there
        found = {each: signal.getsignal(each) for each in ENDINGS}
        handlers = {each: handler for each, handler in found.items() if handler is not None}
    try:
        for each in handlers:
            signal.signal(each, lambda number, _frame: taken.append(number))
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number in taken[:1]:
            signal.raise_signal(number)


def _send(line: Line, process: Any, value: Any) -> None:
    try:
        line.send(value)
    except ConnectionError as error:
        raise _ended(process) from error


def _received(line: Line, process: Any) -> Any:
    try:
        found = line.recv()
    except (EOFError, OSError) as error:
        raise _ended(process) from error
    if isinstance(found, GD2FSError):
        raise found
    return found


def _ended(process: Any) -> InvalidRequest:
    process.join()
    return InvalidRequest(
        f"a process of the sweep ended with status {process.exitcode}",
        hint="run it again with fewer `--jobs`, for the memory; what is known is kept",
    )


def _serve(line: Line, work: Work) -> None:
    """Of a child: until its parent is gone."""
    try:
        common = line.recv()
        while True:
            task = line.recv()
            try:
                found = work(common, task)
            except GD2FSError as error:
                found = error
            line.send(found)
    except (EOFError, OSError):
        return
