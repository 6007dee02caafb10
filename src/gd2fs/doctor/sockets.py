"""Sockets: how connections share the network, and what they may buffer."""

from __future__ import annotations

from collections.abc import Iterator

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, ok, warning
from gd2fs.doctor.subject import Subject
from gd2fs.membership import parse_address
from gd2fs.sizes import format_bytes

ROOT = 0
BACKLOG_MIN = 128
PORTS_MIN = 10_000
PRESSURE_BYTES = 64 << 20  # of all sockets together, before the kernel holds them back
PAGE_BYTES = 4096
OWN = ("cubic", "reno")  # what sockets of ours are given, the first that is there


@check(
    "congestion control", "bbr paces what needs no pacing: loopback and a quiet network lose half"
)
def congestion(subject: Subject) -> Iterator[Finding]:
    """Cubic or reno, which sockets of ours ask for by themselves."""
    machine = subject.machine
    default = machine.sysctl("net.ipv4.tcp_congestion_control")
    known = machine.sysctl("net.ipv4.tcp_available_congestion_control").split()
    is_root = machine.probes.user() == ROOT
    allowed = (
        known if is_root else machine.sysctl("net.ipv4.tcp_allowed_congestion_control").split()
    )
    asked = subject.setting("congestion")
    if asked and known and asked not in known:
        fix = f"`modprobe tcp_{asked}`, or leave `congestion` out"
        yield error(f"`{asked}` is asked for, this kernel has {', '.join(known)}", fix)
    elif asked.startswith("bbr"):
        yield warning(f"`{asked}` is asked for", '`congestion = "cubic"`, or leave it out')
    elif not asked and not set(OWN) & set(allowed) and default.startswith("bbr"):
        yield warning(
            f"`{default}` by default, and neither cubic nor reno can be chosen",
            "`modprobe tcp_cubic`, and for users other than root "
            '`sysctl -w net.ipv4.tcp_allowed_congestion_control="reno cubic bbr"`',
        )
    else:
        own = asked or next((each for each in OWN if each in allowed), default)
        yield ok(f"`{own}` for sockets of ours; the system's default is `{default}`")


@check(
    "socket buffers",
    "a socket that may buffer less than asked for stalls once for each of its fills",
)
def buffers(subject: Subject) -> Iterator[Finding]:
    """The system grants what sockets ask for."""
    wanted = subject.wanted.socket_buffer_bytes
    limits = {
        name: subject.machine.sysctl_number(f"net.core.{name}") for name in ("rmem_max", "wmem_max")
    }
    low = [name for name, limit in limits.items() if limit is not None and limit < wanted]
    shown = ", ".join(f"{name} {format_bytes(limit or 0)}" for name, limit in limits.items())
    if low:
        fix = "`sysctl -w " + " ".join(f"net.core.{name}={wanted}" for name in low) + "`"
        yield warning(f"{shown}; sockets ask for {format_bytes(wanted)}", fix)
    else:
        yield ok(f"{shown}; sockets ask for {format_bytes(wanted)}")


@check("memory of TCP", "beyond it the kernel drops packets of every connection of the machine")
def pressure(subject: Subject) -> Iterator[Finding]:
    """Some for all sockets together."""
    words = subject.machine.sysctl("net.ipv4.tcp_mem").split()
    if len(words) != 3:
        return
    most = int(words[2]) * PAGE_BYTES
    if most < PRESSURE_BYTES:
        pages = 4 * PRESSURE_BYTES // PAGE_BYTES
        fix = f'`sysctl -w net.ipv4.tcp_mem="{pages // 2} {pages * 3 // 4} {pages}"`'
        yield warning(f"{format_bytes(most)} for all connections", fix)
    else:
        yield ok(f"{format_bytes(most)} for all connections")


@check("receive and send windows", "sockets of engines and of etcd grow to these by themselves")
def windows(subject: Subject) -> Iterator[Finding]:
    """Not narrowed by hand."""
    for name in ("tcp_rmem", "tcp_wmem"):
        words = subject.machine.sysctl(f"net.ipv4.{name}").split()
        most = int(words[2]) if len(words) == 3 else None
        if most is not None and most < 1 << 20:
            fix = f'`sysctl -w net.ipv4.{name}="{words[0]} {words[1]} {4 << 20}"`'
            yield warning(f"{name} ends at {format_bytes(most)}", fix)
        elif most is not None:
            yield ok(f"{name} ends at {format_bytes(most)}")


@check(
    "backlog",
    "a fleet that starts connects all at once; what the queue does not hold waits a second",
)
def backlog(subject: Subject) -> Iterator[Finding]:
    """Room for all engines' streams."""
    count = subject.machine.sysctl_number("net.core.somaxconn")
    if count is not None and count < BACKLOG_MIN:
        yield warning(f"net.core.somaxconn is {count}", "`sysctl -w net.core.somaxconn=4096`")
    else:
        yield ok(f"net.core.somaxconn is {count}")


@check(
    "ports", "a connection that was given the node's port by chance keeps the node from starting"
)
def ports(subject: Subject) -> Iterator[Finding]:
    """The node's own are not given away, and there are enough."""
    machine = subject.machine
    words = machine.sysctl("net.ipv4.ip_local_port_range").split()
    if len(words) != 2:
        return
    first, last = int(words[0]), int(words[1])
    kept = machine.sysctl("net.ipv4.ip_local_reserved_ports").split(",")
    own = [parse_address(each)[1] for each in subject.wanted.listen]
    taken = [port for port in own if first <= port <= last and str(port) not in kept]
    if taken:
        fix = f"`sysctl -w net.ipv4.ip_local_reserved_ports={','.join(map(str, taken))}`"
        yield warning(
            f"port {taken[0]} lies in {first} to {last}, which connections are given", fix
        )
    elif last - first < PORTS_MIN:
        yield warning(
            f"{last - first + 1} ports for connections",
            '`sysctl -w net.ipv4.ip_local_port_range="32768 60999"`',
        )
    else:
        yield ok(f"connections are given {first} to {last}")
