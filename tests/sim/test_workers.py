"""Processes of a sweep: whatever ends one, or their parent, is told in a line and leaves none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.context import SpawnProcess

import pytest

from gd2fs.errors import InvalidRequest
from gd2fs.sim.workers import worked_out


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def _ends(_common, _task):
    os._exit(9)


@pytest.mark.slow
def test_a_process_that_ends_is_told():
    with pytest.raises(InvalidRequest, match="status 9"):
        list(worked_out(_ends, None, [1, 2, 3], 2))


@pytest.mark.slow
@pytest.mark.parametrize("wait_s", [0.0, 1.5])  # while they start, and while they play
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_sweep_and_its_processes_at_once(results, number, status, wait_s):
    words = ["sim", "sweep", "made:requests=400000,rate=100", "--results", results, "--jobs", "2"]
    words += ["--instances", "64,65", "--engine", "h100-8b", "--cache-blocks", "1000..64000"]
    command = [sys.executable, "-m", "gd2fs", *map(str, words)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    while not results.exists() or len(_children(process.pid)) < 3:  # one tracks resources
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(wait_s)
    children = _children(process.pid)

    started = time.monotonic()
    process.send_signal(number)
    _, told = process.communicate(timeout=60)

    assert process.returncode == status
    assert time.monotonic() - started < 3
    assert told.count(b"\n") == 1, told
    assert not any(_is_alive(child) for child in children)


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(each) for each in file.read().split()]


def _is_alive(pid):
    deadline = time.monotonic() + 5  # the tracker of resources ends by itself
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.05)
    return True


class _Taken(Exception):
    pass


def _raise_taken(_number, _frame):
    raise _Taken


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_another_thread_takes_waits_until_a_process_is_started(monkeypatch, number):
    started, may_end = [], threading.Event()
    other = threading.Thread(target=may_end.wait)
    other.start()  # it blocks no signal
    former = signal.signal(number, _raise_taken)

    def start(process):
        signal.pthread_kill(other.ident, number)
        for _ in range(50):  # a Python handler runs between two of these
            time.sleep(0.001)
        start_it(process)
        started.append(process)

    start_it = SpawnProcess.start
    monkeypatch.setattr(SpawnProcess, "start", start)
    try:
        with pytest.raises(_Taken):
            list(worked_out(_echo, None, [1, 2], 2))
    finally:
        signal.signal(number, former)
        may_end.set()
        other.join()

    assert len(started) == 1 and started[0].exitcode == -signal.SIGKILL
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []).isdisjoint({number})


def _echo(_common, task):
    return task
