"""`gd2fs top`: what it prints, what a terminal shows, and what keys do."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

PATIENCE_S = 30.0
CONTROL = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9])")


class Terminal:
    """`gd2fs top` in a terminal of its own; ``shown`` is all that it has written."""

    def __init__(self, cluster, *words: str, columns: int = 120, lines: int = 30) -> None:
        self.shown = b""
        self._master, slave = pty.openpty()
        self.resize(columns, lines)
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        environment |= {"GD2FS_CPADDR": cluster.cp, "GD2FS_CLUSTER": cluster.name, "TERM": "xterm"}
        command = [sys.executable, "-m", "gd2fs", "top", "--interval", "0.2", *words]
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def press(self, keys: str) -> None:
        self.shown = b""
        os.write(self._master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def wait_for(self, text: str) -> str:
        """Until it is written; all that was since the last key."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.text:
            assert time.monotonic() < end and self._read(end), f"no {text!r} in {self.text!r}"
        return self.text

    @property
    def text(self) -> str:
        """Without colours; where a screen begins anew there is a vertical tab."""
        begun = self.shown.replace(b"\x1b[H", b"\v")
        return CONTROL.sub(b"", begun).decode("utf-8", "replace")

    def wait_end(self) -> int:
        end = time.monotonic() + PATIENCE_S
        while self._read(end):
            pass
        return self.process.wait(PATIENCE_S)

    def _read(self, end: float) -> bool:
        if not select.select([self._master], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        with contextlib.suppress(OSError):  # EIO: nobody has the other end any more
            part = os.read(self._master, 65536)
            self.shown += part
            return bool(part)
        return False


@pytest.mark.slow
def test_json_is_the_overview_with_rates(run):
    seen = json.loads(run("top", "--json").stdout)

    assert seen["total"]["answering"] == 2 and seen["cluster"] == "cli"
    assert all(node["rates"]["read_bytes_per_s"] == 0 for node in seen["nodes"])


@pytest.mark.slow
def test_without_a_terminal_one_view_is_printed(run):
    printed = run("top").stdout.decode()

    assert "2 of 2 nodes answer" in printed
    assert [line.split()[0] for line in printed.splitlines() if " active " in line] == ["n0", "n1"]
    assert "\x1b" not in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "fault"),
    [(("--sort", "colour"), "no column `colour`"), (("--interval", "0"), "--interval 0")],
)
def test_what_cannot_be_shown_is_refused(run, words, fault):
    done = run("top", *words)

    assert done.returncode == 1 and fault in done.stderr.decode()


@pytest.mark.slow
def test_keys_sort_pause_and_quit_and_the_terminal_is_as_before(cluster):
    with Terminal(cluster) as terminal:
        terminal.wait_for("s sort: name")
        terminal.press("s")
        terminal.wait_for("s sort: memory")
        terminal.press("p")
        terminal.wait_for("paused")
        terminal.press("p")
        terminal.wait_for("p pause")
        terminal.press("q")

        assert terminal.wait_end() == 0
        assert b"\x1b[?1049l" in terminal.shown and b"\x1b[?25h" in terminal.shown


@pytest.mark.slow
def test_it_follows_the_size_of_its_terminal(cluster):
    with Terminal(cluster, columns=120) as terminal:
        terminal.wait_for("evicted")
        terminal.press("s")
        terminal.resize(48, 20)
        os.kill(terminal.process.pid, signal.SIGWINCH)
        terminal.wait_for("s sort: memory")
        terminal.press("s")
        # What was begun at the old size may come before.
        screen = terminal.wait_for("s sort: read").replace("\r", "").rpartition("\v")[2]
        terminal.press("q")

        assert max(map(len, screen.split("\n"))) <= 48
        assert terminal.wait_end() == 0


@pytest.mark.slow
def test_an_interrupt_ends_it_in_one_line(cluster):
    with Terminal(cluster) as terminal:
        terminal.wait_for("n1")
        terminal.process.send_signal(signal.SIGINT)

        assert terminal.wait_end() == 130
        assert "error: interrupted" in terminal.text and "Traceback" not in terminal.text
