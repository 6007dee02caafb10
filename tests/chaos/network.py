"""Network: namespaces joined by a bridge, cables that go down, packets that are dropped.

Every host is a network namespace with one cable to a bridge, which has a namespace too: nothing
here can be reached from outside, and several runs may go on at once. Namespaces bear the pid of
the run in their names. They go with ``close``; what a killed run has left goes with the next one.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

PREFIX = "gd2fs-chaos-"
SUBNET = "10.77.0"
FOLDER = Path("/run/netns")
CLONE_NEWNET = 0x40000000  # linux/sched.h

T = TypeVar("T")

_libc = ctypes.CDLL(None, use_errno=True)


class NoNetwork(Exception):
    """This machine cannot give namespaces; the text says what is missing."""


def why_not() -> str:
    """Why no such network can be made here; empty when it can."""
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    for program, package in (("ip", "iproute2"), ("nft", "nftables")):
        if not shutil.which(program):
            return f"needs `{program}`: apt-get install {package}"
    try:
        with Network() as network:
            network.add("a", 1)
            network.drop_to("a", [f"ip saddr {address_of(2)} drop"])
    except NoNetwork as error:
        return str(error)
    return ""


def address_of(host: int) -> str:
    return f"{SUBNET}.{host}"


class Network:
    """A bridge, and hosts that are added. A context manager that takes all of it down."""

    def __init__(self) -> None:
        self._stem = f"{PREFIX}{os.getpid()}-"
        self._hosts: dict[str, str] = {}  # address by name
        self._drops: dict[str, list[str]] = defaultdict(list)

    def __enter__(self) -> Network:
        remove_leftovers()
        try:
            self._add_namespace("hub")
            _ip("-n", self.namespace("hub"), "link", "add", "br0", "type", "bridge")
            _ip("-n", self.namespace("hub"), "link", "set", "br0", "up")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for path in FOLDER.glob(f"{self._stem}*"):
            subprocess.run(["ip", "netns", "del", path.name], capture_output=True)

    def namespace(self, name: str) -> str:
        return self._stem + name

    def add(self, name: str, host: int) -> str:
        """Add a host; its address."""
        inner, outer = self.namespace(name), self.namespace("hub")
        self._add_namespace(name)
        peer = ("peer", "name", f"to-{name}", "netns", outer)
        _ip("-n", inner, "link", "add", "eth0", "type", "veth", *peer)
        _ip("-n", inner, "addr", "add", f"{address_of(host)}/24", "dev", "eth0")
        _ip("-n", inner, "link", "set", "eth0", "up")
        _ip("-n", outer, "link", "set", f"to-{name}", "master", "br0", "up")
        self._hosts[name] = address_of(host)
        return self._hosts[name]

    def address(self, name: str) -> str:
        return self._hosts[name]

    def set_cable(self, name: str, *, is_up: bool) -> None:
        state = "up" if is_up else "down"
        _ip("-n", self.namespace("hub"), "link", "set", f"to-{name}", state)

    def drop_to(self, name: str, rules: list[str]) -> None:
        """Have ``rules`` of nftables, and no others, decide what reaches ``name``."""
        lines = "\n".join(rules)
        text = "table inet chaos\ndelete table inet chaos\n"
        text += "table inet chaos {\n chain input {\n type filter hook input priority 0;\n"
        text += f"{lines}\n }}\n}}\n"
        _run(["ip", "netns", "exec", self.namespace(name), "nft", "-f", "-"], text)

    def enter(self, name: str) -> Callable[[], None]:
        """What a new child runs to be inside; opened now, so it costs the child nothing."""
        path = str(FOLDER / self.namespace(name))
        return lambda: _enter(path)

    def inside(self, name: str, call: Callable[[], T]) -> T:
        """Run ``call`` in a thread that is inside, for sockets it makes; its result."""
        answers: list[T] = []
        errors: list[BaseException] = []

        def body() -> None:
            try:
                _enter(str(FOLDER / self.namespace(name)))
                answers.append(call())
            except BaseException as error:  # raised again by the caller's thread
                errors.append(error)

        thread = threading.Thread(target=body, name=f"inside-{name}")
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return answers[0]

    def _add_namespace(self, name: str) -> None:
        _ip("netns", "add", self.namespace(name))
        _ip("-n", self.namespace(name), "link", "set", "lo", "up")


class OneHost(Network):
    """All are processes of one host, with an address each; no cable there goes down."""

    def namespace(self, name: str) -> str:
        return super().namespace("hub")

    def add(self, name: str, host: int) -> str:
        self._hosts[name] = address_of(host)
        _ip("-n", self.namespace(name), "addr", "add", f"{address_of(host)}/32", "dev", "lo")
        return self._hosts[name]


def remove_leftovers() -> None:
    """Take down the namespaces of runs that are no more."""
    for path in leftovers():
        subprocess.run(["ip", "netns", "del", path.name], capture_output=True)


def leftovers() -> Iterator[Path]:
    for path in sorted(FOLDER.glob(f"{PREFIX}*")):
        pid = path.name.removeprefix(PREFIX).split("-")[0]
        if not Path(f"/proc/{pid}").exists():
            yield path


def _enter(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(descriptor, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {path}")
    finally:
        os.close(descriptor)


def _ip(*words: str) -> None:
    _run(["ip", *words])


def _run(command: list[str], text: str = "") -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NoNetwork(f"`{' '.join(command)}` failed: {said[0] if said else done.returncode}")
