"""Nodes inside this process that answer questions, as those of `gd2fs serve` do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from gd2fs._core import Simulation
from gd2fs.config import NodeConfig
from gd2fs.key_trace.desk import TraceDesk
from gd2fs.settings import Questions, Settings, SettingsDesk
from gd2fs.sim.trace import Trace
from gd2fs.testing import LocalNodes
from gd2fs.whatif.told import told_of

PAGE_BYTES = 4096


@contextlib.contextmanager
def recorded_nodes(count: int, **settings: object) -> Iterator[LocalNodes]:
    with LocalNodes(count, **settings) as nodes, contextlib.ExitStack() as undo:
        for server in nodes.servers:
            settings = Settings(NodeConfig("test"), server)
            questions: Questions = {
                "trace": TraceDesk(server).answer,
                "curves": lambda _, server=server: told_of(server.curves()),
            }
            undo.callback(SettingsDesk(settings, server, questions).stop)
        yield nodes


def replay(pages, trace: Trace) -> None:
    """Ask for each prompt as an engine does: what is there; then use all of it, the last first."""
    page, into = bytes(PAGE_BYTES), bytearray(PAGE_BYTES)
    for begin, count in zip(trace.first_block.tolist(), trace.prompt_blocks.tolist(), strict=False):
        keys = [Simulation.key_of(block) for block in trace.blocks[begin : begin + count].tolist()]
        pages.exists(keys)
        for key in reversed(keys):
            if not pages.get([key], [into]).leading:
                assert pages.put([key], [page]) == [True]


def probes_of(server, namespace: bytes) -> tuple[int, int]:
    """How many pages were asked about, and how many of them were there, as the node counts."""
    counts = next(each for each in server.tally()["namespaces"] if each["name"] == namespace)
    return counts["found"] + counts["lacking"], counts["found"]
