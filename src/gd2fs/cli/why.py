"""Why: what has become of a file or a page. Every node is asked; one line says what follows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from gd2fs.answers import NodeReply
from gd2fs.cli.output import Miss, format_bytes, print_json, printable
from gd2fs.cli.target import ClusterOption, CpOption, JsonOption, TransportOption, parse_target
from gd2fs.errors import InvalidRequest

SHOWN_MAX = 8  # departures
AGO = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))

# What a cause means to whoever misses the bytes; the rest of the sentence is added.
CAUSES = {
    "evicted": "evicted for lack of room",
    "over quota": "over the quota of its namespace",
    "expired": "its time to live was over",
    "dropped": "dropped by a call",
    "superseded": "newer bytes took its place",
    "dropped by advice": "dropped by advice (DONTNEED)",
    "corrupt": "corrupt: its bytes did not match their checksum",
    "moved": "handed over to the nodes that own it now",
    "not demoted": "evicted before it could be written to disk",
    "not admitted": "not admitted by the site's rule",
    "never committed": "its writer ended before it was committed",
    "lost by the disk": "on disk only, and the disk let it go",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the nodes' answers come to.

    Attributes:
        state: ``here``, ``partly here``, ``gone``, ``node down``, ``never written`` or ``unknown``.
        text: One line for a person.
    """

    state: str
    text: str


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("why")(why)


def why(
    name: Annotated[str, typer.Argument(metavar="PATH|KEY", help="A file; with --page a key")],
    page: Annotated[
        str | None,
        typer.Option("--page", metavar="NAMESPACE", help="It is the key of a page there"),
    ] = None,
    is_hex: Annotated[bool, typer.Option("--hex", help="The key is written in hex")] = False,
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Say where a file or a page is, or why it is not there: evicted, expired, dropped, …

    Status 3 when it is not there, or not all of it.
    """
    target = parse_target(name, cp=cp, cluster=cluster, transport=transport)
    with target.open() as client:
        if page is None:
            replies = client.why(target.check_file().path)
        else:
            replies = client.why(page=(page, _key(name, is_hex)))
    verdict = judge(replies, time.time())
    if as_json:
        nodes = [
            {**each.value, "fault": ""} if each.value else {"node": each.node, "fault": each.fault}
            for each in replies
        ]
        print_json({"name": name, "state": verdict.state, "text": verdict.text, "nodes": nodes})
    else:
        print(f"{printable(name)}: {verdict.text}")
        _print_nodes(replies)
    if verdict.state != "here":
        raise typer.Exit(3) if as_json else Miss(name, verdict.state)


def judge(replies: Sequence[NodeReply], now_s: float) -> Verdict:
    """What the nodes' answers come to, at ``now_s`` of the clock on the wall."""
    told = [each.value for each in replies if each.value]
    silent = [each for each in replies if not each.value]
    records = [each["record"] for each in told if "size" in each.get("record", {})]
    last = _last_departure(told)
    gone = _gone(last, now_s) if last else ""
    if any(each["pieces"] for each in told):
        return _judge_held(told, records[0] if records else None, gone)
    if records and records[0]["listed_bytes"] == 0:
        return Verdict("here", "here: a file without any bytes")
    if silent:
        names = ", ".join(each.node for each in silent)
        known = f"; {gone}" if gone else ""
        text = f"no answer from {names} ({silent[0].fault}), where it may be{known}"
        return Verdict("node down", text)
    if gone:
        return Verdict("gone", gone)
    if records:
        return Verdict("gone", "its bytes are gone, and no node remembers why")
    return Verdict("never written", f"never written, as far as is known: {_known_for(told, now_s)}")


def _judge_held(
    told: Sequence[dict[str, Any]], record: dict[str, Any] | None, gone: str
) -> Verdict:
    holding = [each for each in told if each["pieces"]]
    where = "; ".join(_held(each) for each in holding)
    is_cut = any(each["pieces"] > len(each["ranges"]) for each in holding)
    if record is None or is_cut:
        return Verdict("here", f"here: {where}")
    here = _covered(holding, record["chunk_bytes"])
    if here >= record["listed_bytes"]:
        return Verdict("here", f"here: {where}")
    share = f"{format_bytes(here)} of {format_bytes(record['listed_bytes'])}"
    return Verdict("partly here", f"{share}: {where}" + (f"; gone: {gone}" if gone else ""))


def _covered(holding: Sequence[dict[str, Any]], chunk_bytes: int) -> int:
    """How many bytes of the file some node has."""
    ranges = sorted(
        (chunk * chunk_bytes + offset, chunk * chunk_bytes + offset + length)
        for each in holding
        for chunk, offset, length in each["ranges"]
    )
    covered = end = 0
    for first, last in ranges:
        covered += max(last - max(first, end), 0)
        end = max(end, last)
    return covered


def _known_for(told: Sequence[dict[str, Any]], now_s: float) -> str:
    since_ms = max((each["since_ms"] for each in told), default=0)
    span = _span(now_s - since_ms / 1000)
    if any(each["has_forgotten"] for each in told):
        return f"what went more than {span} ago is forgotten"
    return f"the youngest node has run for {span}"


def _held(node: dict[str, Any]) -> str:
    tiers = [
        f"{format_bytes(node[f'{tier}_bytes'])} {words}"
        for tier, words in (("memory", "in memory"), ("disk", "on disk"))
        if node[f"{tier}_bytes"]
    ]
    pinned = ", pinned" if node["pinned_bytes"] else ""
    return f"{node['node']} has {' and '.join(tiers) or 'it'}{pinned} ({node['policy']})"


def _last_departure(told: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The newest; what only made room for a newer copy, elsewhere or here, tells nothing."""
    all_of = [{**gone, "node": each["node"]} for each in told for gone in each["departures"]]
    telling = [each for each in all_of if each["cause"] not in ("superseded", "moved")] or all_of
    return max(telling, key=lambda each: each["when_ms"], default=None)


def _gone(departure: dict[str, Any], now_s: float) -> str:
    cause = CAUSES.get(departure["cause"], departure["cause"])
    for_whom = f", to make room for `{departure['for_whom']}`" if departure["for_whom"] else ""
    is_choice = departure["cause"] in ("evicted", "over quota", "not demoted")
    policy = f" by {departure['policy']}" if is_choice else ""
    ago = _span(now_s - departure["when_ms"] / 1000)
    return f"{cause}{policy}{for_whom}, {ago} ago on {departure['node']}"


def _span(seconds: float) -> str:
    for unit_s, name in AGO:
        if seconds >= unit_s:
            return f"{int(seconds // unit_s)} {name}"
    return "0 s"


def _print_nodes(replies: Sequence[NodeReply]) -> None:
    now_s = time.time()
    for each in replies:
        if each.value is None:
            print(f"  {printable(each.node)}: {printable(each.fault)}")
            continue
        if each.value["pieces"]:
            print(f"  {printable(_held(each.value))}")
        for gone in each.value["departures"][:SHOWN_MAX]:
            what = f"{format_bytes(gone['bytes'])} of chunk {gone['chunk']}"
            line = f"{what}: {_gone({**gone, 'node': each.node}, now_s)}"
            print(f"  {printable(line)}")


def _key(text: str, is_hex: bool) -> bytes | str:
    if not is_hex:
        return text
    try:
        return bytes.fromhex(text)
    except ValueError as cause:
        raise InvalidRequest(f"`{text}` is not hex", hint="two digits for each byte") from cause
