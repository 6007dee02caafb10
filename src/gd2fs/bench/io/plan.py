"""Plan: which cases a run has. Without a choice, the rows of the design's table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gd2fs.bench.io.case import (
    BATCH_OPS,
    DEPTH,
    EXISTS_KEYS,
    GIB,
    KIB,
    MIB,
    OPS,
    RDMA,
    SMALL_BYTES,
    TRANSPORTS,
    Case,
)
from gd2fs.errors import InvalidRequest
from gd2fs.sizes import parse_bytes

STREAMS_MAX = 8
NODES_MAX = 8
CLIENTS_MAX = 4
SIZE_MAX = GIB

Batch = tuple[int, int]  # count, bytes of one

SIZES = (4 * KIB, 64 * KIB, MIB, 64 * MIB, GIB)
BATCHES: tuple[Batch, ...] = ((512, 128 * KIB), (64, MIB), (128, 4 * KIB))
PEER_SIZE = 64 * MIB
VIEW_SHARE = 16  # of a node's memory, what one client may look at
VIEW_BYTES_MAX = 64 * MIB


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen on the command line; empty is not chosen."""

    sizes: tuple[int, ...] = ()
    ops: tuple[str, ...] = ()
    batches: tuple[Batch, ...] = ()
    transports: tuple[str, ...] = ()
    streams: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    clients: tuple[int, ...] = ()
    verify: tuple[bool, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing but transports was chosen: the table, then."""
        return not (
            self.sizes
            or self.ops
            or self.batches
            or self.streams
            or self.nodes
            or self.clients
            or self.verify
        )


def plan(choice: Choice, *, is_quick: bool = False, has_peers: bool = False) -> list[Case]:
    """The cases of a run, in the order of the table."""
    cases = table_cases(is_quick=is_quick) if choice.is_empty else chosen_cases(choice)
    if choice.is_empty and RDMA in choice.transports:
        cases += rdma_cases(is_quick=is_quick)
    if has_peers:
        cases += [case for case in peer_cases() if case not in cases]
    transports = choice.transports or TRANSPORTS
    return [case for case in cases if case.transport in transports]


def table_cases(*, is_quick: bool = False) -> list[Case]:
    """The rows of the design's table. Quick: without the largest, and small ones of each kind."""
    both = (True, False)
    sizes = (MIB,) if is_quick else (64 * MIB, GIB)
    cases = [Case("read", bytes=size, verify=verify) for size in sizes for verify in both]
    cases += [Case("write", bytes=sizes[0], verify=verify) for verify in both]
    cases += [Case("read", "shm", bytes=sizes[0], verify=verify) for verify in both]
    cases += [Case("view", "shm", bytes=sizes[0])]
    cases += [Case("write", "shm", bytes=sizes[0])]
    cases += [Case("read", "unix", bytes=sizes[0])]
    cases += [_batch("get", 16 if is_quick else 512, 128 * KIB)]
    cases += [] if is_quick else [_batch("get", 64, MIB), _batch("put", 512, 128 * KIB)]
    cases += [Case("exists", bytes=0, count=EXISTS_KEYS)]
    cases += [_batch("get", 128, 4 * KIB)]
    return cases


def rdma_cases(*, is_quick: bool = False) -> list[Case]:
    """What is measured by one-sided transfers where nothing more is chosen."""
    size, count = (MIB, 16) if is_quick else (64 * MIB, 512)
    cases = [Case("read", RDMA, bytes=size, verify=verify) for verify in (True, False)]
    cases += [Case("write", RDMA, bytes=size)]
    return [*cases, Case("get", RDMA, bytes=128 * KIB, count=count)]


def chosen_cases(choice: Choice) -> list[Case]:
    """Every combination of what was chosen, with the defaults of the rest."""
    # A size without an op means objects of that size; a batch without an op, batches.
    named = choice.ops or (
        *(("read", "write") if choice.sizes or not choice.batches else ()),
        *(("get", "put") if choice.batches else ()),
    )
    shapes = [shape for op in named for shape in _shapes(op, choice)]
    cases = [
        Case(op, transport, size, count, streams, verify, nodes, clients, depth)
        for nodes, clients, transport, (
            op,
            count,
            size,
            depth,
        ), streams, verify in itertools.product(
            choice.nodes or (1,),
            choice.clients or (1,),
            choice.transports or TRANSPORTS,
            shapes,
            choice.streams or (2,),
            choice.verify or (True,),
        )
    ]
    return [case for case in cases if case.op != "view" or case.transport == "shm"]


def peer_cases() -> list[Case]:
    """What is also asked of other stores."""
    batches = [Case("get", bytes=size, count=count) for count, size in BATCHES]
    return [Case("read", bytes=PEER_SIZE), Case("write", bytes=PEER_SIZE), *batches]


def _batch(op: str, count: int, size: int) -> Case:
    depth = DEPTH if op == "get" and size < SMALL_BYTES else 1
    return Case(op, bytes=size, count=count, depth=depth)


def _shapes(op: str, choice: Choice) -> list[tuple[str, int, int, int]]:
    if op == "exists":
        return [(op, EXISTS_KEYS, 0, 1)]
    if op in BATCH_OPS:
        batches = choice.batches or BATCHES
        return [(op, count, size, _batch(op, count, size).depth) for count, size in batches]
    largest = VIEW_BYTES_MAX if op == "view" else SIZE_MAX
    return [(op, 1, size, 1) for size in choice.sizes or SIZES if size <= largest]


# ---- words of the command line ---------------------------------------------------------------


def parse_choice(
    *,
    sizes: str = "",
    ops: str = "",
    batches: str = "",
    transports: str = "",
    streams: str = "",
    nodes: str = "",
    clients: str = "",
    verify: str = "",
) -> Choice:
    """Read comma-separated words; empty ones are not chosen.

    Raises:
        InvalidRequest: A word is none of the known ones, or a number is out of range.
    """
    return Choice(
        sizes=tuple(_size(word) for word in _words(sizes)),
        ops=tuple(_known("--ops", word, OPS) for word in _words(ops)),
        batches=tuple(_batch_of(word) for word in _words(batches)),
        transports=tuple(
            _known("--transports", word, (*TRANSPORTS, RDMA)) for word in _words(transports)
        ),
        streams=_counts("--streams", streams, STREAMS_MAX),
        nodes=_counts("--nodes", nodes, NODES_MAX),
        clients=_counts("--clients", clients, CLIENTS_MAX),
        verify=tuple(_known("--verify", word, ("on", "off")) == "on" for word in _words(verify)),
    )


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _known(option: str, word: str, known: Sequence[str]) -> str:
    if word not in known:
        raise InvalidRequest(f"`{option}` has `{word}`", hint=f"known: {', '.join(known)}")
    return word


def _counts(option: str, text: str, count_max: int) -> tuple[int, ...]:
    words = _words(text)
    if not all(word.isdecimal() and 1 <= int(word) <= count_max for word in words):
        raise InvalidRequest(f"`{option}` is `{text}`", hint=f"give numbers of 1 to {count_max}")
    return tuple(map(int, words))


def _size(word: str) -> int:
    size = parse_bytes(word)
    if not 1 <= size <= SIZE_MAX:
        raise InvalidRequest(f"`{word}` cannot be measured", hint="sizes are 1 to 1GiB")
    return size


def _batch_of(word: str) -> Batch:
    count, _, size = word.partition("x")
    if not count.isdecimal() or not 1 <= int(count) <= 65_536 or not size:
        raise InvalidRequest(f"`{word}` is no batch", hint="write `COUNTxSIZE`, as `512x128KiB`")
    return int(count), _size(size)


def arena_bytes(cases: Iterable[Case]) -> int:
    """What each node needs so that nothing is evicted, or copied, while it is measured."""
    return max(_round_up(_needed_bytes(case), 64 * MIB) for case in cases)


def _needed_bytes(case: Case) -> int:
    if case.op == "view":
        # Twice: a view that was given back a moment ago may still count.
        return 2 * VIEW_SHARE * case.call_bytes * case.clients + 128 * MIB
    # Nodes share unevenly, and an eighth of an arena may be half-written.
    share = case.clients * max(case.call_bytes, MIB) * (1 if case.nodes == 1 else 2) // case.nodes
    return share * 5 // 4 + 256 * MIB


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step
