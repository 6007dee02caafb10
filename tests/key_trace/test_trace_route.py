"""The lines of POST /v1/trace: what a recording lacks is told in the last one."""

from __future__ import annotations

import base64
import json

import pytest

from gd2fs.admin.trace_route import Wanted, begun
from gd2fs.answers import NodeReply
from gd2fs.errors import Unavailable
from gd2fs.key_trace.entries import ENTRY, EXISTS, HIT

ASKED = ENTRY.pack(1_000, 1, 0, EXISTS, 0) + ENTRY.pack(7 << 1, 0, HIT, 0, 0)


class Nodes:
    """A client of two nodes; ``replies``: what they say to a ``take``; empty: none answers."""

    def __init__(self, replies: dict[str, dict[str, object]]) -> None:
        self._replies = replies

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def settings(self, request, *, node="", timeout_s=None):
        if request.get("step") != "take":
            return [NodeReply(name, {"now_us": 0}) for name in ("n0", "n1")]
        if not self._replies:
            raise Unavailable("settings: no node answers", hint="look at them")
        return [NodeReply(name, value) for name, value in self._replies.items()]


def told(entries: bytes = b"", dropped: int = 0) -> dict[str, object]:
    text = base64.b64encode(entries).decode()
    return {"now_us": 10**9, "entries": text, "is_more": False, "dropped": dropped}


WELL, LOST = told(ASKED), {"error": "this recording has ended", "hint": ""}


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        ({"n0": WELL, "n1": LOST}, "n1 was not recorded to the end: n1: this recording has ended"),
        (
            {"n0": told(ASKED, 5), "n1": told()},
            "nodes had no room to note 5 keys: these are missing",
        ),
        ({}, "settings: no node answers"),
        (
            {"n0": told(), "n1": LOST},
            "nothing was recorded: 0.01 s, and nobody asked any of 2 nodes for anything; "
            "n1 was not recorded to the end: n1: this recording has ended",
        ),
    ],
    ids=["lost", "dropped", "silent", "nothing"],
)
def test_what_a_recording_lacks_is_its_last_line(replies, error):
    lines = [json.loads(each) for each in begun(lambda: Nodes(replies), Wanted(0.01))]

    assert lines[-1]["error"] == error


def test_a_whole_recording_has_no_such_line():
    nodes = Nodes({"n0": WELL, "n1": told()})

    lines = [json.loads(each) for each in begun(lambda: nodes, Wanted(0.01))]

    assert [each.get("error") for each in lines] == [None, None]
