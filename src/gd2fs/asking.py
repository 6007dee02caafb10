"""Asking: what nodes say for themselves, all of them or one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gd2fs.answers import ClusterStatus, NodeReply, cluster_status, node_reply
from gd2fs.argument import name_bytes
from gd2fs.completion import Deadline, Steps
from gd2fs.errors import InvalidRequest
from gd2fs.outcome import Status, check, error_of

if TYPE_CHECKING:
    from gd2fs import _core

FOR_READERS = ("report", "curves")  # these take no more than the right to read everywhere
NAMES_MAX = 12  # of nodes or namespaces, in one hint


def why(
    core: _core.Client,
    path: str | None,
    page: tuple[str, bytes | str] | None,
    deadline: Deadline,
) -> Steps[Sequence[NodeReply]]:
    """What every node has of a file or a page, and what went of it lately."""
    if (path is None) == (page is None):
        raise InvalidRequest("one name is asked about", hint="give a path, or `page=`")
    name = name_bytes(path) if path is not None else b""
    if page is not None:
        namespace, key = page
        name = name_bytes(namespace) + b"\0" + (name_bytes(key) if isinstance(key, str) else key)
    call = yield partial(
        core.ask_nodes, name, is_page=page is not None, timeout_ms=deadline.left_ms()
    )
    check(call, "why")
    if _is_denied(call):
        raise error_of(Status.DENIED, "why: denied by every node")
    return [node_reply(*each) for each in call.replies]


def ask_settings(
    core: _core.Client, request: Mapping[str, object], node: str, deadline: Deadline
) -> Steps[Sequence[NodeReply]]:
    """What every node says to a request about its settings; only one, when ``node`` names it."""
    text = json.dumps(request).encode()  # core/rights.cc compares those for readers byte by byte
    call = yield partial(
        core.ask_nodes, text, is_about_settings=True, only=node, timeout_ms=deadline.left_ms()
    )
    if node and Status(call.status) is Status.GONE:
        raise no_such_node(cluster_status(core.cluster()), node)
    check(call, "settings")
    if _is_denied(call):
        asked = request.get("do")
        right = "read" if asked in FOR_READERS else "admin"
        raise InvalidRequest(
            f"{asked if asked in (*FOR_READERS, 'trace') else 'settings'}: denied by every node",
            hint=f"it takes a token with the right `{right}` in all namespaces",
        )
    return [node_reply(*each) for each in call.replies]


def no_such_node(now: ClusterStatus, node: str) -> InvalidRequest:
    """What to raise for a name that no node has: it tells those that there are."""
    names = [each.name for each in now.nodes if each.state != "gone"]
    hint = f"there {'is' if len(names) == 1 else 'are'} {some_of(names)}" if names else ""
    return InvalidRequest(
        f"no node `{node}` in this cluster", hint=hint or "`gd2fs status` shows which there are"
    )


def some_of(names: Sequence[str]) -> str:
    """The first ``NAMES_MAX`` of them, and how many more there are."""
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def _is_denied(call: _core.Call) -> bool:
    """No node lets this client ask."""
    return {status for _, status, _ in call.replies} == {Status.DENIED}
