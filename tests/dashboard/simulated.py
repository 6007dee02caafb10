"""A cluster that is only numbers: as many nodes as wanted, behind the real page and its routes."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gd2fs import __version__
from gd2fs.admin.app import fault_handlers, show_caller
from gd2fs.admin.guard import AdminGuard
from gd2fs.admin.refusals import Refusals
from gd2fs.admin.server import AdminServer
from gd2fs.admin.whatif_route import whatif_routes
from gd2fs.answers import ClusterStatus, MapNode, NodeReply
from gd2fs.dashboard import Page, dashboard_routes
from gd2fs.errors import Unavailable
from gd2fs.overview.desk import OverviewDesk
from gd2fs.overview.report import COUNTS
from gd2fs.overview.watch import Overview, overview_of, shown
from gd2fs.testing.cluster import NodeProcess

GIB = 1 << 30
BOUNDS_S = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005]
NAMESPACES = ("", "llama-70b-fp16", "chat", "prefixes", "batch")


class SimulatedCluster:
    """``count`` nodes with traffic of their own; one in 97 is silent, one in 53 drains.

    ``step_s``: so long lies between two looks, by the nodes' own clocks.
    """

    def __init__(self, count: int, *, seed: int = 7, step_s: float = 2.0) -> None:
        self._random = random.Random(seed)
        self._step_s = step_s
        self._lock = threading.Lock()  # one look at a time
        self._before: Overview | None = None
        self._up_ms = 3_600_000
        width = len(str(count - 1))
        self.names = [f"node-{index:0{width}}" for index in range(count)]
        self.load = {name: self._random.betavariate(2, 3) for name in self.names}
        self.fill = {name: self._random.betavariate(6, 2) for name in self.names}
        self.counts = {name: dict.fromkeys(COUNTS, 0) for name in self.names}
        self.is_away = False

    def look(self) -> Overview:
        """As ``ClusterWatch.look``, a step later than before."""
        if self.is_away:
            raise Unavailable("no node can be asked", hint="start one")
        with self._lock:
            self._up_ms += round(self._step_s * 1e3)
            replies = [self._reply(index, name) for index, name in enumerate(self.names)]
            now = overview_of(self.status(), replies, self._before)
            now |= {"cluster": "prod", "seen_by": self.names[0], "took_ms": 0.0}
            now["at_ms"] = round(time.time() * 1e3)
            self._before = now
            return shown(now)

    def status(self) -> ClusterStatus:
        """The map."""
        nodes = tuple(
            MapNode(name, (f"10.0.{index >> 8}.{index & 255}:7527",), 1, 100, _state(index))
            for index, name in enumerate(self.names)
        )
        return ClusterStatus(41, "etcd", 2, {}, 5.0, nodes)

    def _reply(self, index: int, name: str) -> NodeReply:
        if is_silent(index):
            return NodeReply(name, None, "no answer before the deadline")
        counts = self._grow(index, name)
        used = counts["arena_bytes"] - counts["free_bytes"]
        shares = (0.1, 0.5, 0.25, 0.1, 0.05)
        spaces = [
            [
                each,
                int(used * part),
                0,
                int(used * part * 2),
                (64 * GIB if each == "batch" else 0),
                0,
            ]
            for each, part in zip(NAMESPACES, shares, strict=True)
        ]
        return NodeReply(
            name,
            {
                "up_ms": self._up_ms,
                "version": __version__,
                "rung": "hugetlb",
                "state": _state(index),
                "not_ready": "",
                "epoch": 41,
                "counts": dict(counts),
                "namespaces": spaces,
                "lookups": self._lookups(counts),
                "buckets": self._buckets(index, counts),
                "evictions": self._evictions(counts),
            },
        )

    def _grow(self, index: int, name: str) -> dict[str, int]:
        counts, load = self.counts[name], self.load[name] * self._random.uniform(0.85, 1.15)
        read = int(6e9 * load * self._step_s)
        lookups = int(read / (2 << 20))
        hits = int(lookups * min(1.0, 0.9 + 0.1 * self.fill[name]))
        grown = {
            "bytes_out": read,
            "bytes_in": read // 4,
            "requests": lookups // 16,
            "hits": hits,
            "misses": lookups - hits,
            "evicted_pieces": lookups // 5,
            "evicted_bytes": read // 5,
            "moved_bytes": int(4e8 * self._step_s) if _state(index) == "draining" else 0,
        }
        for key, value in grown.items():
            counts[key] += value
        arena = 256 * GIB
        counts |= {
            "arena_bytes": arena,
            "free_bytes": int(arena * (1 - self.fill[name])),
            "live_bytes": int(arena * self.fill[name]),
            "nvme_bytes": 3500 * GIB,
            "nvme_usable_bytes": 3400 * GIB,
            "nvme_live_bytes": int(3500 * GIB * self.fill[name] * 0.8),
            "pages": 90_000,
            "pieces": 4_000,
            "records": 800,
            "connections": 64,
            "is_settled": int(_state(index) != "draining"),
            "moves_left": 12_000 if _state(index) == "draining" else 0,
            "moves_left_bytes": 40 * GIB if _state(index) == "draining" else 0,
        }
        self.counts[name] = counts
        return counts

    def _lookups(self, counts: dict[str, int]) -> list[list[object]]:
        shares = (0.5, 0.3, 0.15, 0.05)
        return [
            [
                name,
                *(int(counts[key] * part) for key in ("hits", "misses", "bytes_out", "bytes_in")),
            ]
            for name, part in zip(NAMESPACES[1:], shares, strict=True)
        ]

    def _buckets(self, index: int, counts: dict[str, int]) -> dict[str, list[float]]:
        """More of the slow ones where there is more load."""
        load = self.load[self.names[index]]
        shares = [0.15, 0.3, 0.35 - 0.2 * load, 0.15, 0.05 + 0.17 * load, 0.03 * load, 0.0]
        read = [int(counts["requests"] * part) for part in shares]
        return {"bounds_s": BOUNDS_S, "read": read, "write": [each // 4 for each in read]}

    def _evictions(self, counts: dict[str, int]) -> list[dict[str, object]]:
        if self._random.random() > 0.1 or not counts["evicted_pieces"]:
            return []
        now_ms = round(time.time() * 1e3)
        return [
            {
                "first_ms": now_ms - 9_000,
                "last_ms": now_ms - self._random.randrange(1_000, 600_000),
                "cause": "evicted",
                "policy": "lru",
                "namespace": self._random.choice(NAMESPACES[1:]),
                "for_whom": "chat",
                "pieces": self._random.randrange(1, 9_000),
                "bytes": self._random.randrange(1 << 20, 40 * GIB),
            }
        ]


class NumbersClient:
    """Of nodes that are only numbers: it asks for their curves, and cannot do anything to them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __enter__(self) -> NumbersClient:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def settings(self, request: Mapping[str, object], **_: object) -> list[NodeReply]:
        if request != {"do": "curves"}:
            raise Unavailable("these nodes are only numbers", hint="ask real ones")
        return [NodeReply(name, curves_told()) for name in self._names]


def curves_told() -> dict[str, object]:
    """What a node says of its curves: half is found in 256 GiB, two thirds in twice as much."""
    steps = [min(0.9, max(0.0, 0.5 + (at / 8 - 26) / 6)) for at in range(8 * 30)]
    chat = {"quota_bytes": 0, "looks": 90_000, "found": 44_000, "followed": 9_000}
    few = {"quota_bytes": 0, "looks": 50, "found": 20, "followed": 5}
    return {
        "span_s": 3000.0,
        "arena_bytes": 256 * GIB,
        "memory_bytes": 246 * GIB,
        "disk_bytes": 0,
        "first_bytes": 4096,
        "steps_per_octave": 8.0,
        "namespaces": [
            {"name": "chat", "piece_bytes": 2 << 20, "shares": steps} | chat,
            {"name": "batch", "piece_bytes": 2 << 20, "shares": steps} | few,
        ],
    }


def page_of(node: NodeProcess) -> str:
    """Where the page of a real node is."""
    assert node.child is not None
    return node.child.facts["admin"] + "/"


def is_silent(index: int) -> bool:
    """Whether this node does not answer."""
    return index % 97 == 96


def _state(index: int) -> str:
    return "draining" if index % 53 == 52 else "active"


@contextlib.contextmanager
def served(cluster: SimulatedCluster, *, token: str = "") -> Iterator[str]:
    """The page and its routes in front of ``cluster``; its URL. ``token``: what all else wants."""

    def connect() -> NumbersClient:
        return NumbersClient(cluster.names)

    async def guard(request: Request, call_next) -> Response:
        given = request.headers.get("authorization", "")
        if token and request.url.path != "/" and given != f"Bearer {token}":
            fault = {"error": "the token is wrong" if given else "a token is needed", "hint": ""}
            return JSONResponse(fault, status_code=401)
        return await call_next(request)

    open_to_all = AdminGuard()
    routes = dashboard_routes(OverviewDesk(cluster.look), connect, Page.load(), open_to_all)
    app = Starlette(
        routes=[
            Route("/v1/caller", open_to_all.needs("read", show_caller)),
            *whatif_routes(connect, open_to_all),
            *routes,
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)],
        exception_handlers=fault_handlers(Refusals()),
    )
    server = AdminServer(app, "127.0.0.1:0")
    try:
        yield f"http://{server.address}/"
    finally:
        server.stop()
