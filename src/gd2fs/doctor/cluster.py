"""Cluster: whether the nodes agree: on versions, on who belongs to them, on the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import gd2fs
from gd2fs.doctor.answers import NodeAnswer
from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, note, ok, warning
from gd2fs.doctor.subject import Subject
from gd2fs.sizes import format_bytes

SKEW_S = 0.5
SKEW_S_ERROR = 60.0
NAMES_SHOWN = 5
UNEQUAL = 2  # times as much memory for the same share of what is kept
RULES = ("default", "namespace")
UPDATE = "update gd2fs there"


def _said(subject: Subject) -> Mapping[str, NodeAnswer]:
    """Of those that told of themselves."""
    answers = subject.cluster.answers if subject.cluster else {}
    return {name: each for name, each in answers.items() if each.facts}


def _sides(values: Mapping[str, object]) -> str:
    """``0.1.0 on a and b, 0.2.0 on c``: names in groups, the largest first."""
    counts = Counter(values.values())
    parts = []
    for value, count in counts.most_common():
        names = sorted(name for name, own in values.items() if own == value)
        more = f" and {count - NAMES_SHOWN} more" if count > NAMES_SHOWN else ""
        parts.append(f"{value} on {', '.join(names[:NAMES_SHOWN])}{more}")
    return "; ".join(parts)


@check(
    "nodes", "what lies on a node that does not answer is missed, until it is back or made again"
)
def nodes(subject: Subject) -> Iterator[Finding]:
    """All of them answer, and their disks work."""
    cluster = subject.cluster
    if cluster is None:
        return
    if cluster.status is None:
        fix = "start a node, or name one that runs: `--cp gd2fs://ADDR:PORT`"
        yield error(f"nobody answers: {cluster.fault}", fix)
        return
    for each in cluster.nodes:
        if each.state == "gone" and not cluster.answers.get(each.name, NodeAnswer("")).facts:
            fix = f"look at the log of {each.name}, and start it; `gd2fs cluster status`"
            yield error(f"{each.name} does not answer: {each.fault or 'no reason'}", fix)
        elif each.nvme_fault:
            fix = "look at `dmesg` and at the folder; it is tried again every 10 s"
            yield error(f"{each.name} writes to no disk: {each.nvme_fault}", fix)
    alive = sum(each.state != "gone" for each in cluster.nodes)
    yield ok(f"{alive} of {len(cluster.nodes)} answer")


@check("versions", "nodes of two versions understand each other only while you upgrade them")
def versions(subject: Subject) -> Iterator[Finding]:
    """All of one version, this program too."""
    said = _said(subject)
    for each in _mute(subject):
        is_denied = "denied" in each.fault
        fix = "ask with the cluster's token: `--token-file FILE`" if is_denied else UPDATE
        yield warning(f"{each.name} does not tell its version: {each.fault}", fix)
    if not said:
        return
    there = {name: str(each.facts["version"]) for name, each in said.items()}
    if len(set(there.values())) > 1:
        newest = max(there.values(), key=_ordered)
        fix = f"finish the upgrade to {newest}, node by node: docs/guides/upgrade.md"
        yield warning(_sides(there), fix)
    elif gd2fs.__version__ not in there.values():
        [version] = set(there.values())
        yield warning(
            f"nodes have {version}, this program has {gd2fs.__version__}",
            f"`pip install gd2fs=={version}` here, and with the engines of this machine",
        )
    else:
        yield ok(_sides(there))


def _mute(subject: Subject) -> list[NodeAnswer]:
    """Those that answer, and tell nothing of themselves."""
    cluster = subject.cluster
    silent = {each.name for each in cluster.nodes if each.state == "gone"} if cluster else set()
    answers = cluster.answers.values() if cluster else ()
    return [each for each in answers if each.fault and each.name not in silent]


def _ordered(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


@check("list of nodes", "nodes that go by different lists put the same page in different places")
def lists(subject: Subject) -> Iterator[Finding]:
    """The same for all."""
    said = _said(subject)
    hashes = {name: str(each.facts["list"])[:8] for name, each in said.items()}
    if len(set(hashes.values())) > 1:
        yield error(
            f"lists differ: {_sides(hashes)}",
            "give all nodes the same `--peers` and `--replicas`, and start those again that differ",
        )
    elif hashes:
        yield ok(f"list {next(iter(hashes.values()))} on all")


@check("epoch", "a node that goes by an old map is asked for what others have by now")
def epochs(subject: Subject) -> Iterator[Finding]:
    """The same for all, after some seconds."""
    cluster = subject.cluster
    alive = [each for each in cluster.nodes if each.state != "gone"] if cluster else []
    by_node = {each.name: f"epoch {each.epoch}" for each in alive}
    if len(set(by_node.values())) > 1:
        fix = "can the one that is behind reach etcd? See its log; start it again if it can"
        yield warning(_sides(by_node), fix)
    elif by_node:
        yield ok(next(iter(by_node.values())))


@check("clocks", "times to live, certificates and logs are by the clock of each node")
def clocks(subject: Subject) -> Iterator[Finding]:
    """About what this machine's says."""
    for name, each in sorted(_said(subject).items()):
        skew = max(abs(each.skew_s) - each.doubt_s, 0.0)
        way = "ahead of" if each.skew_s > 0 else "behind"
        found = f"{name} is {abs(each.skew_s):.3g} s {way} this machine"
        fix = f"`timedatectl set-ntp true` on {name}, or chrony; and here"
        if skew >= SKEW_S_ERROR:
            yield error(found, fix)
        elif skew >= SKEW_S:
            yield warning(found, fix)
        else:
            yield ok(f"{name} is within {abs(each.skew_s) + each.doubt_s:.3g} s of this machine")


@check("replicas", "what one node alone has goes with it")
def replicas(subject: Subject) -> Iterator[Finding]:
    """No more than there are nodes; two at least of what shall outlive one."""
    status = subject.cluster.status if subject.cluster else None
    if status is None:
        return
    count = sum(each.state in ("active", "joining") for each in status.nodes)
    wanted = {"the default": status.replicas, **status.namespaces}
    too_many = {name: copies for name, copies in wanted.items() if copies > count}
    for name, copies in too_many.items():
        fix = f"start {copies - count} more, or `replicas = {count}`"
        yield warning(f"{copies} copies of {name}, on {count} nodes", fix)
    if status.replicas == 1 and count > 1 and not too_many:
        yield ok(f"one copy on {count} nodes: what a lost node had is computed again")
    elif not too_many:
        yield ok(f"{status.replicas} copies on {count} nodes")


@check("memory of nodes", "nodes have equal shares: the one with less memory forgets sooner")
def memory(subject: Subject) -> Iterator[Finding]:
    """As much as its share asks for."""
    cluster = subject.cluster
    if cluster is None or cluster.status is None:
        return
    weights = {each.name: max(each.weight, 1) for each in cluster.status.nodes}
    sizes = {
        each.name: each.arena_bytes
        for each in cluster.nodes
        if each.arena_bytes and each.name in weights
    }
    shares = {name: size / weights[name] for name, size in sizes.items()}
    if shares and max(shares.values()) >= UNEQUAL * min(shares.values()):
        low, high = min(shares, key=lambda n: shares[n]), max(shares, key=lambda n: shares[n])
        yield warning(
            f"{low} has {format_bytes(sizes[low])}, {high} {format_bytes(sizes[high])}, for shares "
            f"of {weights[low]} and {weights[high]}",
            "give all the same `--memory`; with etcd, `--weight` in proportion to it",
        )
    elif sizes:
        yield ok(f"{format_bytes(sum(sizes.values()))} on {len(sizes)} nodes")


@check("arenas", "reads of huge pages leave by reference, those of small ones are copied")
def arenas(subject: Subject) -> Iterator[Finding]:
    """Of one kind, and sent by reference."""
    cluster = subject.cluster
    alive = [each for each in cluster.nodes if each.state != "gone"] if cluster else []
    rungs = {each.name: each.rung for each in alive}
    if len(set(rungs.values())) > 1:
        yield warning(_sides(rungs), "run `gd2fs doctor` on those that have another kind")
    elif rungs:
        yield ok(_sides(rungs))
    reasons = {each.name: each.zero_copy for each in alive if each.zero_copy.startswith("off")}
    if reasons:
        yield note(f"no zero copy: {_sides(reasons)}", 'huge pages; or `zero_copy = "on"`')


@check("MTU of nodes", "packets that are larger than what is on their way are cut, or lost")
def mtus(subject: Subject) -> Iterator[Finding]:
    """The same for all."""
    sizes = {
        name: "/".join(str(mtu) for mtu in sorted({mtu for _, mtu in each.facts["links"]}))
        for name, each in _said(subject).items()
        if each.facts.get("links")
    }
    if len(set(sizes.values())) > 1:
        most = max(int(part) for size in sizes.values() for part in size.split("/"))
        fix = f"`ip link set NAME mtu {most}` where it is less, and on the switch"
        yield warning(_sides(sizes), fix)
    elif sizes:
        yield ok(_sides(sizes))


@check("rules of nodes", "a namespace that one node treats otherwise is half there")
def rules(subject: Subject) -> Iterator[Finding]:
    """The same for all."""
    tables = {
        name: str({key: each.settings.get(key) for key in RULES})
        for name, each in _said(subject).items()
        if each.settings
    }
    if len(set(tables.values())) > 1:
        kinds = {
            text: f"set {number}" for number, text in enumerate(dict.fromkeys(tables.values()), 1)
        }
        shown = _sides({name: kinds[text] for name, text in tables.items()})
        yield warning(
            f"rules differ: {shown}",
            "`gd2fs config show` says how; the same `[namespace]` tables in every file, or "
            "`gd2fs config set KEY VALUE`",
        )
    elif tables:
        yield ok("the same on all")


@check("kernels", "what one kernel can do and another cannot makes nodes of one kind differ")
def kernels(subject: Subject) -> Iterator[Finding]:
    """Of one series."""
    said = {name: str(each.facts["kernel"]) for name, each in _said(subject).items()}
    series = {".".join(text.split(".")[:2]) for text in said.values()}
    if len(series) > 1:
        yield note(_sides(said), "update the older ones when you can")
    elif said:
        yield ok(_sides(said))
