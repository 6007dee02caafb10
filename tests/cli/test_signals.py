"""Signals of a process of its own: taken whatever its main thread does."""

from __future__ import annotations

import subprocess
import sys

TAKEN = """
import os, signal
from gd2fs.cli.signals import Signals

signals = Signals()
os.kill(os.getpid(), signal.SIGHUP)  # nothing can be read again yet
read = []
signals.on_reload = lambda: read.append(1)
with signals.is_ended._cond:  # as in the midst of its `wait`
    os.kill(os.getpid(), signal.SIGTERM)
assert signals.is_ended.wait(20)
os.kill(os.getpid(), signal.SIGHUP)
while not read:
    pass
print("taken")
"""


def test_a_signal_is_taken_while_the_main_thread_holds_the_lock_of_what_it_waits_for():
    done = subprocess.run(
        [sys.executable, "-c", TAKEN], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout) == (0, "taken\n"), done.stderr
