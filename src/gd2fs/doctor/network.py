"""Network: the interfaces that bytes go over: packets, speed, state, neighbours of one network."""

from __future__ import annotations

from collections.abc import Iterator

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, note, ok, warning
from gd2fs.doctor.links import (
    NET,
    Link,
    address_of,
    links_for,
    own_addresses,
    shared_networks,
)
from gd2fs.doctor.subject import Subject

MTU_MIN = 1400  # less is a tunnel within a tunnel
MTU_JUMBO = 9000
JUMBO_MBIT = 25_000  # from here on packets of 1500 bytes cost more processor than there is
SPEED_MIN_MBIT = 10_000
QUEUES_MBIT = 10_000
FAULT_SHARE = 1e-4  # of packets
FAULTS_MIN = 100
FAULTS = ("rx_errors", "tx_errors", "rx_dropped", "rx_missed_errors", "rx_fifo_errors")


def _links(subject: Subject) -> list[Link]:
    return links_for(subject.machine, subject.wanted.hosts)


@check("addresses", "a node serves only on addresses that its machine has")
def addresses(subject: Subject) -> Iterator[Finding]:
    """Every one of the configuration is here."""
    own = own_addresses(subject.machine)
    absent = [
        host
        for host in subject.wanted.hosts
        if (address := address_of(host)) is not None
        and not (address.is_unspecified or address.is_loopback or address in own)
    ]
    if absent:
        have = ", ".join(sorted(str(each) for each in own if not each.is_loopback)) or "none"
        all_of = len(absent) == len(subject.wanted.hosts)
        yield (error if all_of else warning)(
            f"{' and '.join(absent)} of `listen` are not of this machine, which has {have}",
            "correct `listen`, or `ip addr add ADDRESS/BITS dev NAME`",
        )
    elif subject.wanted.hosts:
        yield ok(", ".join(subject.wanted.hosts))


@check("link", "an address on a cable that is not plugged in is an address that nobody reaches")
def link(subject: Subject) -> Iterator[Finding]:
    """All interfaces are up."""
    for each in _links(subject):
        if each.is_up:
            yield ok(f"{each.name} is up")
        else:
            yield error(
                f"{each.name} is down",
                f"`ip link set {each.name} up`; cable and switch: `ethtool {each.name}`",
            )


@check(
    "MTU", "small packets cost processor for every one of them; unequal ones stall large transfers"
)
def mtu(subject: Subject) -> Iterator[Finding]:
    """Large where the NIC is fast, and alike."""
    links = _links(subject)
    for each in links:
        fix = f"`ip link set {each.name} mtu {MTU_JUMBO}`, on all machines and on the switch"
        if each.mtu < MTU_MIN:
            yield warning(f"{each.name} has {each.mtu}", fix.replace(str(MTU_JUMBO), "1500"))
        elif each.speed_mbit >= JUMBO_MBIT and each.mtu < MTU_JUMBO:
            yield warning(f"{each.name}, {_speed(each)}, has {each.mtu}", fix)
        else:
            yield ok(f"{each.name} has {each.mtu}")
    sizes = sorted({each.mtu for each in links})
    if len(sizes) > 1 and len(subject.wanted.hosts) > 1:
        yield warning(
            "unequal: " + ", ".join(f"{each.name} {each.mtu}" for each in links),
            f"give all {sizes[-1]}: `ip link set NAME mtu {sizes[-1]}`",
        )


@check("NIC speed", "loading pays only where it is quicker than computing")
def speed(subject: Subject) -> Iterator[Finding]:
    """At least 10 Gbit/s, the same on all."""
    links = [each for each in _links(subject) if each.speed_mbit]
    for each in links:
        if each.speed_mbit < SPEED_MIN_MBIT:
            yield warning(
                f"{each.name} has {_speed(each)}: {each.speed_mbit / 8:.0f} MB a second at most",
                f"`ethtool {each.name}`: is it the NIC, the cable, or what the switch agreed to? "
                "Leave `never_slower` on",
            )
        else:
            yield ok(f"{each.name} has {_speed(each)}")
    if len({each.speed_mbit for each in links}) > 1 and len(subject.wanted.hosts) > 1:
        yield note(
            "unequal: " + ", ".join(f"{each.name} {_speed(each)}" for each in links),
            "name the fast ones only: streams begin evenly, and a slow NIC is late",
        )


@check("duplex", "half duplex sends or receives, and loses packets in between")
def duplex(subject: Subject) -> Iterator[Finding]:
    """Full."""
    for each in _links(subject):
        if each.duplex == "half":
            yield error(f"{each.name} has half duplex", f"`ethtool -s {each.name} autoneg on`")
        else:
            yield ok(f"{each.name}: {each.duplex or 'unknown'}")


@check("NIC queues", "with one queue one processor takes all packets in, about 20 Gbit/s of them")
def queues(subject: Subject) -> Iterator[Finding]:
    """Several, of a fast NIC."""
    count = subject.machine.processor_count()
    for each in _links(subject):
        wanted = min(count, 8)
        is_real = bool(each.device)  # a virtual one has as many as it needs
        if is_real and each.speed_mbit >= QUEUES_MBIT and each.queues < min(wanted, 2):
            fix = f"`ethtool -L {each.name} combined {wanted}`"
            yield warning(f"{each.name}, {_speed(each)}, has {each.queues} queue", fix)
        else:
            yield ok(f"{each.name} has {each.queues}")


@check("NIC errors", "a lost packet costs a round trip, and cubic a third of its rate")
def faults(subject: Subject) -> Iterator[Finding]:
    """Hardly any."""
    for each in _links(subject):
        counts = {
            name: subject.machine.number(f"{NET}/{each.name}/statistics/{name}") or 0
            for name in (*FAULTS, "rx_packets", "tx_packets")
        }
        packets = counts["rx_packets"] + counts["tx_packets"]
        bad = {name: counts[name] for name in FAULTS if counts[name] >= FAULTS_MIN}
        if bad and sum(bad.values()) > FAULT_SHARE * packets:
            text = ", ".join(f"{count} {name}" for name, count in bad.items())
            yield warning(
                f"{each.name}: {text}, of {packets} packets",
                f"`ethtool -S {each.name}` says which; errors: the cable; dropped: "
                f"`ethtool -G {each.name} rx 4096`, flow control on the switch",
            )
        else:
            yield ok(f"{each.name}: {sum(counts[name] for name in FAULTS)} of {packets} packets")


@check(
    "several NICs in one network",
    "each NIC answers for the other's address, and one carries it all",
)
def one_network(subject: Subject) -> Iterator[Finding]:
    """Addresses are answered by their own NIC."""
    links = _links(subject)
    for network, names in shared_networks(links):
        announce = _most(subject, "arp_announce", names)
        ignore = _most(subject, "arp_ignore", names)
        found = (
            f"{' and '.join(names)} are in {network}: arp_ignore {ignore}, arp_announce {announce}"
        )
        if ignore >= 1 and announce >= 2:
            yield ok(found)
        else:
            fix = "`sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2`"
            yield warning(found, fix)


@check(
    "reverse path filter",
    "strict filtering drops what comes in by another NIC than it would leave by",
)
def reverse_path(subject: Subject) -> Iterator[Finding]:
    """Not strict where several NICs are in one network."""
    links = _links(subject)
    names = [name for _, several in shared_networks(links) for name in several]
    strict = [name for name in names if _most(subject, "rp_filter", [name]) == 1]
    if strict:
        yield warning(
            f"strict (1) on {' and '.join(strict)}",
            "`sysctl -w " + " ".join(f"net.ipv4.conf.{name}.rp_filter=2" for name in strict) + "`",
        )
    elif len(links) > 1:
        yield ok("not strict where it matters")


def _most(subject: Subject, name: str, links: list[str]) -> int:
    """The kernel takes the larger one of `all` and of the interface."""
    every = subject.machine.sysctl_number(f"net.ipv4.conf.all.{name}") or 0
    own = (subject.machine.number(f"/proc/sys/net/ipv4/conf/{each}/{name}") or 0 for each in links)
    return max(every, min(own, default=0))


def _speed(link: Link) -> str:
    return f"{link.speed_mbit / 1000:g} Gbit/s"
