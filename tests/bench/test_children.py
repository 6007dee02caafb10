"""Children: they say when they are ready, and end with whoever started them."""

import os
import signal
import subprocess
import sys
import time

import pytest

from gd2fs.bench.children import Children
from gd2fs.errors import Unavailable

DEADLINE_S = 30
READY = "import sys, time; print('ready address=x port=7', flush=True); time.sleep(600)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + READY
PARENT = f"""
import time
from pathlib import Path
from gd2fs.bench.children import Children
with Children(Path({{folder!r}})) as children:
    child = children.start("child", [{sys.executable!r}, "-c", {READY!r}])
    child.wait_ready()
    print(child.pid, flush=True)
    time.sleep(600)
"""


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_gone(pid):
    end = time.monotonic() + DEADLINE_S
    while is_alive(pid):
        assert time.monotonic() < end, f"{pid} is still there"
        time.sleep(0.01)


def test_the_ready_line_tells_its_facts(tmp_path):
    with Children(tmp_path) as children:
        child = children.start("child", [sys.executable, "-c", READY])
        child.wait_ready()

        assert child.facts == {"address": "x", "port": "7"}


def test_a_child_that_ends_early_is_told_with_its_last_words(tmp_path):
    with Children(tmp_path) as children:
        child = children.start("child", [sys.executable, "-c", "raise SystemExit('no luck')"])

        with pytest.raises(Unavailable, match="child did not get ready: no luck"):
            child.wait_ready()


def test_a_child_that_never_gets_ready_costs_its_deadline(tmp_path):
    with Children(tmp_path) as children:
        child = children.start("child", [sys.executable, "-c", "import time; time.sleep(600)"])

        with pytest.raises(Unavailable):
            child.wait_ready(timeout_s=0.01)


def test_the_last_words_are_those_of_a_child_that_ended(tmp_path):
    talk = "import sys; print('fine', file=sys.stderr); " + READY
    with Children(tmp_path) as children:
        children.start("alive", [sys.executable, "-c", talk]).wait_ready()
        dead = children.start("dead", [sys.executable, "-c", "raise SystemExit('no luck')"])
        dead.process.wait()

        assert children.last_words() == "dead said: no luck"


def test_all_children_end_with_the_context(tmp_path):
    with Children(tmp_path) as children:
        started = [children.start(f"c{n}", [sys.executable, "-c", READY]) for n in range(3)]

    assert [child.process.returncode for child in started] == [-signal.SIGTERM] * 3


def test_a_child_that_does_not_listen_is_killed(tmp_path):
    with Children(tmp_path) as children:
        child = children.start("child", [sys.executable, "-c", DEAF])
        child.wait_ready()
        child.terminate()
        child.wait_end(timeout_s=0.01)

    assert child.process.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_children_end_with_their_parent_however_it_ends(tmp_path, number):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(folder=str(tmp_path))],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    pid = int(parent.stdout.readline())
    os.kill(parent.pid, number)
    parent.wait()
    parent.stdout.close()

    wait_gone(pid)
