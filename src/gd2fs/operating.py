"""Operating: what whoever looks after a running cluster asks of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gd2fs.answers import ClusterStatus, NodeReply
from gd2fs.asking import no_such_node
from gd2fs.client import Client
from gd2fs.errors import GD2FSError, InvalidRequest, Unavailable

# ---- a node that leaves --------------------------------------------------------------------------


def begin_drain(client: Client, node: str) -> None:
    """Have ``node`` hand over all it has, and leave. It has only begun on return.

    Raises:
        InvalidRequest: There is no such node, none to take what it has, or its cluster is a static
            list.
        Unavailable: It did not answer in time.
    """
    check_heirs(client.cluster(), node)
    client.drain(node)


def check_heirs(now: ClusterStatus, node: str) -> None:
    """Raises InvalidRequest where ``node`` is none, or nobody could take what it has."""
    heirs = [
        each for each in now.nodes if each.state in ("joining", "active") and each.name != node
    ]
    if not is_listed(now, node):
        raise no_such_node(now, node)
    if now.provider != "static" and not heirs:
        raise InvalidRequest(
            f"there is no other node to take what `{node}` has",
            hint="start another one first, or end this one with SIGTERM",
        )


def is_listed(now: ClusterStatus, node: str) -> bool:
    """Whether the map has it, and not as one that is gone."""
    return any(each.name == node and each.state != "gone" for each in now.nodes)


# ---- settings ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change of a setting came to.

    Attributes:
        done: Names of the nodes that have it now, in order.
        warnings: Of these nodes, ``NODE: what is not as the setting wants it``.
        refused: Answers of the others.
    """

    done: list[str]
    warnings: list[str]
    refused: list[NodeReply]


def change_setting(client: Client, key: str, value: str | None, *, node: str = "") -> Changed:
    """Set ``key`` on every node, or on one; None takes it back.

    Raises:
        InvalidRequest: There is no such node, or this is too long. What a node refuses is no error.
        Unavailable: No node can be asked.
    """
    replies = client.settings({"do": "set", "key": key, "value": value}, node=node)
    done = sorted(each.node for each in replies if settings_in(each) is not None)
    warnings = [
        f"{each.node}: {text}"
        for each in replies
        for text in (each.value.get("warnings", ()) if each.value else ())
    ]
    return Changed(done, warnings, [each for each in replies if settings_in(each) is None])


def settings_in(reply: NodeReply) -> dict[str, Any] | None:
    """What a node is set to, where it said so."""
    return reply.value.get("settings") if reply.value else None


def fault_of(reply: NodeReply) -> GD2FSError:
    """Why a node has not taken a change, as an error to raise or to show."""
    if reply.value and "error" in reply.value:
        return InvalidRequest(
            f"{reply.node}: {reply.value['error']}", hint=str(reply.value.get("hint", ""))
        )
    return Unavailable(
        f"{reply.node} was not changed: {reply.fault}",
        hint="give its file the same, or repeat this once it answers",
    )
