"""Recording: what is asked of all nodes of a cluster, or of one, for a time.

Names become numbers under a random key that is forgotten with the recording: equal names have equal
numbers in it, on all nodes, and in no other one.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gd2fs import _core
from gd2fs.answers import NodeReply
from gd2fs.argument import name_bytes, refuse_name
from gd2fs.asking import some_of
from gd2fs.client import Client
from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.key_trace.entries import Batch, batches_in
from gd2fs.key_trace.requests import Request, Requests

POLL_S = 0.25  # between two rounds; a lane of a node has room for more
LATE_US = 50_000  # from when a thread reads the clock until it has noted its batch
SECONDS_MAX = 86_400.0
ASK_S = 2.0
BLOCK_TOKENS_MAX = 1 << 20
ID_BYTES, KEY_BYTES = 8, 16
Placed = tuple[int, str, Request]  # microseconds since the beginning, the node


@dataclass(slots=True)
class Summary:
    """What has been recorded so far.

    Attributes:
        requests: How many.
        asked, found, stored: Blocks that were asked for, of them those that nodes had, and blocks
            that were put though nobody had asked for them.
        dropped: Keys that nodes had no room to note.
        lost: Nodes that went silent, or ended it, and why.
    """

    requests: int = 0
    asked: int = 0
    found: int = 0
    stored: int = 0
    dropped: int = 0
    lost: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Node:
    """Of one that is recorded."""

    begun_us: int  # on its clock, when the recording began
    requests: Requests = field(default_factory=Requests)
    waiting: list[Batch] = field(default_factory=list)
    dropped: int = 0

    def settled(self, until_us: int | None) -> list[Batch]:
        """Those before a time, or all, in their order; they wait no more."""
        self.waiting.sort(key=lambda each: each.when_us)
        count = len(self.waiting)
        if until_us is not None:
            count = bisect_left(self.waiting, until_us, key=lambda each: each.when_us)
        settled, self.waiting = self.waiting[:count], self.waiting[count:]
        return settled


class Recording:
    """Begun with its making; ``close`` ends it. A context manager.

    Args:
        client: Of the cluster, with an administrator's token where there are tokens.
        node: Only this one.
        namespace: Only this one.

    Raises:
        InvalidRequest: There is no such node, no namespace can have that name, or somebody else
            records one of them.
        Unavailable: A node does not answer.
    """

    def __init__(self, client: Client, *, node: str = "", namespace: str = "") -> None:
        if namespace:
            refuse_name("namespace", namespace, _core.namespace_fault(name_bytes(namespace)))
        self._client = client
        self._node = node
        self._id = secrets.token_hex(ID_BYTES)
        self._nodes: dict[str, _Node] = {}
        self.summary = Summary()
        begin = {"key": secrets.token_hex(KEY_BYTES), "namespace": namespace}
        try:
            for reply in self._ask("begin", **begin):
                self._nodes[reply.node] = _Node(_told(reply)["now_us"])
        except BaseException:
            self.close()
            raise

    @property
    def nodes(self) -> Sequence[str]:
        """Names of those that are recorded."""
        return list(self._nodes)

    def take(self, *, is_last: bool = False) -> list[Placed]:
        """What has been asked since the last call, in order of time; but for the last call without
        what is so new that something earlier may not have been noted yet."""
        until_us: dict[str, int] = {}
        is_first = is_more = True
        while is_more and self._nodes:
            is_more = False
            for reply in self._ask("take"):
                said = self._said(reply)
                if said is None:
                    continue
                if is_first:
                    until_us[reply.node] = said["now_us"] - LATE_US
                is_more = is_more or bool(said["is_more"])
            is_first = False
        placed = [
            (batch.when_us - node.begun_us, name, request)
            for name, node in self._nodes.items()
            for batch in node.settled(None if is_last else until_us.get(name, 0))
            if (request := node.requests.of(batch))
        ]
        placed.sort(key=lambda each: each[0])
        return placed

    def close(self) -> None:
        """Nodes note nothing any more. Those that cannot be asked stop by themselves."""
        try:
            self._ask("end")
        except (InvalidRequest, Unavailable):
            return

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, step: str, **more: object) -> Sequence[NodeReply]:
        asked = {"do": "trace", "step": step, "id": self._id} | more
        return self._client.settings(asked, node=self._node)

    def _said(self, reply: NodeReply) -> dict[str, Any] | None:
        """What a node said, its batches kept; None: it is not recorded any more."""
        node = self._nodes.get(reply.node)
        if node is None:
            return None
        try:
            said = _told(reply)
        except (InvalidRequest, Unavailable) as error:
            self.summary.lost[reply.node] = str(error)
            del self._nodes[reply.node]
            return None
        node.waiting.extend(batches_in(base64.b64decode(said["entries"])))
        self.summary.dropped += said["dropped"] - node.dropped
        node.dropped = said["dropped"]
        return said


def header_of(recording: Recording, block_tokens: int) -> str:
    """The first line of the file. Raises InvalidRequest for blocks that cannot be."""
    if not 1 <= block_tokens <= BLOCK_TOKENS_MAX:
        raise InvalidRequest(
            f"blocks of {block_tokens} tokens", hint=f"give 1 to {BLOCK_TOKENS_MAX}"
        )
    nodes = list(recording.nodes)
    return json.dumps({"gd2fs_trace": 1, "block_tokens": block_tokens, "nodes": nodes}) + "\n"


def lines_of(
    recording: Recording,
    seconds: float,
    block_tokens: int,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[str]:
    """The lines after the first, a request each, as they come; ``recording.summary`` grows."""
    ends_s = clock() + seconds
    is_over = False
    while not is_over and recording.nodes:
        left_s = ends_s - clock()
        sleep(min(POLL_S, max(left_s, 0.0)))
        is_over = clock() >= ends_s
        for at_us, node, request in recording.take(is_last=is_over):
            _add(recording.summary, request)
            yield _line_of(at_us, node, request, block_tokens)


def nothing_recorded(
    client: Client, nodes: Sequence[str], namespace: str, seconds: float
) -> InvalidRequest:
    """What to say of a recording without a request."""
    where = f" in `{namespace}`" if namespace else ""
    whom = nodes[0] if len(nodes) == 1 else f"any of {len(nodes)} nodes"
    return InvalidRequest(
        f"nothing was recorded: {seconds:.3g} s, and nobody asked {whom} for anything{where}",
        hint=(namespace and namespaces_hint(client, namespace))
        or "record while somebody asks for pages or files",
    )


def gaps_of(summary: Summary) -> list[str]:
    """What is missing in a recording, a sentence each."""
    gaps = [f"{name} was not recorded to the end: {why}" for name, why in summary.lost.items()]
    if summary.dropped:
        gaps.append(f"nodes had no room to note {summary.dropped:,} keys: these are missing")
    return gaps


def fault_line(error: str, hint: str) -> str:
    """The last line where nobody looks at a summary; ``gd2fs sim`` tells what it says."""
    return json.dumps({"error": error, "hint": hint}) + "\n"


def namespaces_hint(client: Client, namespace: str) -> str:
    """Which other namespaces nodes were asked for lately; empty: none, or nobody tells."""
    try:
        replies = client.settings({"do": "curves"}, timeout_s=ASK_S)
    except (InvalidRequest, Unavailable):
        return ""
    told = [each.value.get("namespaces", ()) for each in replies if each.value]
    names = sorted({space["name"] for spaces in told for space in spaces} - {"", namespace})
    return f"lately nodes were asked for {some_of(names)}" if names else ""


def _add(summary: Summary, request: Request) -> None:
    summary.requests += 1
    summary.asked += len(request.asked)
    summary.found += request.found
    summary.stored += len(request.stored)


def _line_of(at_us: int, node: str, request: Request, block_tokens: int) -> str:
    line: dict[str, Any] = {
        "timestamp": max(at_us, 0) / 1e6,
        "input_length": len(request.asked) * block_tokens,
        "output_length": len(request.stored) * block_tokens,
        "hash_ids": list(request.asked),
        "answer_ids": list(request.stored),
        "found": request.found,
        "node": node,
    }
    return json.dumps(line, separators=(",", ":")) + "\n"


def _told(reply: NodeReply) -> dict[str, Any]:
    """What it said; raises what it did not do."""
    if reply.value is None:
        raise Unavailable(f"{reply.node} does not answer: {reply.fault}", hint="record the others")
    if "now_us" not in reply.value:
        hint = str(reply.value.get("hint", ""))
        raise InvalidRequest(f"{reply.node}: {reply.value.get('error', 'no answer')}", hint=hint)
    return dict(reply.value)
