"""Reading: traces from files of JSON lines, a line at a time, whoever has written them.

| form | fields |
|---|---|
| Mooncake | ``timestamp`` in ms, ``input_length``, ``output_length``, ``hash_ids`` of 512 tokens |
| Qwen-Bailian | the same, ``timestamp`` in s, blocks of 16; ``chat_id``, ``parent_chat_id`` |
| GD2FS | a first line ``{"gd2fs_trace": 1, "block_tokens": N}``; ``timestamp`` in s; ``session``, |
| | ``answer_ids``, ``instance`` and ``node`` if they are known |
"""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import math
import zlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import msgspec
import numpy as np

from gd2fs._core import SIM_INSTANCES_MAX
from gd2fs.errors import InvalidRequest
from gd2fs.sim.trace import REQUESTS_MAX, Trace, numbered, sessions_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOONCAKE_TOKENS, QWEN_TOKENS = 512, 16
LINE_BYTES_MAX = 64 << 20
READ_BYTES = 128 << 10  # at once
TOKENS_MAX = 1 << 31  # of one prompt: its blocks are counted in 32 bits
SPAN_MOST_S = 100 * 365.25 * 86_400  # a hundred years: what lasts longer is no time
ID_LEAST, ID_MOST = -(1 << 63), (1 << 64) - 1  # signed or unsigned, in 64 bits
ID_MASK = (1 << 64) - 1
NODES_MOST = 1 << 16
MARK = b"\xef\xbb\xbf"  # that some editors begin a file with
FORMS = "Mooncake, Qwen-Bailian or GD2FS, see docs/guides/simulator.md"


class Line(msgspec.Struct):
    """One request, in any of the forms."""

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]
    chat_id: int | None = None
    parent_chat_id: int | None = None
    session: int | None = None
    answer_ids: list[int] | None = None
    instance: int | None = None
    node: str | None = None


class Header(msgspec.Struct):
    """The first line of our own form."""

    gd2fs_trace: int
    block_tokens: int


class Fault(msgspec.Struct, forbid_unknown_fields=True):
    """The last line of a recording that lacks something."""

    error: str
    hint: str = ""


@dataclass(slots=True)
class _Columns:
    """What the lines said, each kind in one array."""

    times: array[float] = field(default_factory=lambda: array("d"))
    inputs: array[int] = field(default_factory=lambda: array("L"))
    outputs: array[int] = field(default_factory=lambda: array("L"))
    prompt_blocks: array[int] = field(default_factory=lambda: array("L"))
    all_blocks: array[int] = field(default_factory=lambda: array("L"))
    ids: array[int] = field(default_factory=lambda: array("Q"))
    id_range: tuple[int, int] = (0, 0)
    time_range: tuple[float, float] = (math.inf, -math.inf)
    sessions: array[int] = field(default_factory=lambda: array("Q"))
    instances: array[int] = field(default_factory=lambda: array("l"))
    last_instance: tuple[int, int] = (-1, 0)  # the largest, and its line
    few_blocks: tuple[int, int] = (0, 0)  # lines with fewer than their tokens fill; the first
    nodes: array[int] = field(default_factory=lambda: array("H"))
    node_names: dict[str, int] = field(default_factory=dict)
    roots: dict[int, int] = field(default_factory=dict)  # chat -> its conversation's first
    fault: str = ""  # that a recording tells of itself


def read_trace(
    path: Path,
    *,
    block_tokens: int | None = None,
    report: Callable[[int], None] | None = None,
    warn: Callable[[str], None] | None = None,
) -> Trace:
    """Read a file, which may be compressed with gzip (``.gz``), once: a pipe will do.

    Args:
        path: Of the file.
        block_tokens: Tokens of a block, where the form does not say so or another one is meant.
        report: Called with how many bytes were read, now and then, where that is known.
        warn: Called with what is odd about it, but can be played.

    Raises:
        InvalidRequest: It cannot be read, or a line is not what it should be.
    """
    columns = _Columns()
    decoder = msgspec.json.Decoder(Line)
    digest = hashlib.sha256()
    lines = _lines(path, report, digest)
    first = next(lines, None)
    if first is None:
        raise InvalidRequest(f"{path} has no requests", hint=f"forms: {FORMS}")
    first_is_header, tokens, scale = _form_of(path, first, block_tokens)
    for number, line in lines if first_is_header else itertools.chain([first], lines):
        try:
            _add(columns, decoder.decode(line), number, scale, tokens)
        except (msgspec.MsgspecError, OverflowError, ValueError) as error:
            if first_is_header and _take_fault(columns, line):
                continue
            raise InvalidRequest(
                f"{path}:{number} is not a request: {error}", hint=f"forms: {FORMS}"
            ) from error
    if not columns.times:
        why = f": {columns.fault}" if columns.fault else ""
        raise InvalidRequest(f"{path} has no requests{why}", hint=f"forms: {FORMS}")
    if warn is not None:
        for text in _oddities(path, columns):
            warn(text)
    return replace(_trace_of(str(path), columns, tokens), sha256=digest.hexdigest())


def _take_fault(columns: _Columns, line: bytes) -> bool:
    try:
        columns.fault = msgspec.json.decode(line, type=Fault).error
    except msgspec.MsgspecError:
        return False
    return True


def _oddities(path: Path, columns: _Columns) -> Iterator[str]:
    if columns.fault:
        yield f"{path} is not a whole recording: {columns.fault}"
    count = len(columns.times)
    few, line = columns.few_blocks
    if few:
        yield f"{path}:{line} and {few - 1:,} others have fewer `hash_ids` than their tokens fill"
    told = {"instance": columns.instances, "node": columns.nodes}
    for name, values in told.items():
        if 0 < len(values) < count:
            yield f"{path}: {len(values):,} of {count:,} requests have `{name}`: it is not used"


def _form_of(
    path: Path, line: tuple[int, bytes], block_tokens: int | None
) -> tuple[bool, int, float]:
    """Is the first line a header? Tokens of a block, and seconds of a unit of ``timestamp``."""
    number, first = line
    try:
        fields = msgspec.json.decode(first)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(
            f"{path}:{number} is not JSON: {error}", hint=f"forms: {FORMS}"
        ) from error
    if not isinstance(fields, dict):
        raise InvalidRequest(f"{path}:{number} is no JSON object", hint=f"forms: {FORMS}")
    if "gd2fs_trace" not in fields:
        is_qwen = "chat_id" in fields
        default, scale = (QWEN_TOKENS, 1.0) if is_qwen else (MOONCAKE_TOKENS, 1e-3)
        return False, checked_block(default if block_tokens is None else block_tokens), scale
    try:
        header = msgspec.convert(fields, Header)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{path}:{number} is no header of a trace: {error}") from error
    if header.gd2fs_trace != 1:
        raise InvalidRequest(
            f"{path} is of version {header.gd2fs_trace}", hint="this `gd2fs` reads version 1"
        )
    tokens = header.block_tokens if block_tokens is None else block_tokens
    return True, checked_block(tokens), 1.0


def checked_block(block_tokens: int) -> int:
    """Tokens of a block, if they can be so many. Raises InvalidRequest."""
    if not 1 <= block_tokens <= 1 << 20:
        raise InvalidRequest(f"blocks of {block_tokens} tokens", hint="give 1 to 1048576")
    return block_tokens


class _Summed(io.RawIOBase):
    """A file as it is read, which ``digest`` sums: what is a pipe is not there another time."""

    def __init__(self, raw: io.FileIO, digest: hashlib._Hash) -> None:
        self._raw, self._digest = raw, digest

    def readable(self) -> bool:
        return True

    def readinto(self, into: WriteableBuffer) -> int:
        count = self._raw.readinto(into) or 0
        self._digest.update(memoryview(into)[:count])
        return count


def _lines(
    path: Path, report: Callable[[int], None] | None, digest: hashlib._Hash
) -> Iterator[tuple[int, bytes]]:
    """Numbered from 1; empty ones are left out. ``digest`` is of the file as it lies there."""
    try:
        with path.open("rb", buffering=0) as raw:
            opened: BinaryIO = io.BufferedReader(_Summed(raw, digest), READ_BYTES)
            if path.suffix == ".gz":
                opened = cast(BinaryIO, gzip.GzipFile(fileobj=opened))
            number, can_tell = 0, raw.seekable()
            while line := opened.readline(LINE_BYTES_MAX):
                number += 1
                if len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
                    raise InvalidRequest(f"{path}:{number} is longer than {LINE_BYTES_MAX} bytes")
                if report is not None and can_tell and number % 10_000 == 0:
                    report(raw.tell())
                if number == 1:
                    line = line.removeprefix(MARK)
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidRequest(f"cannot read {path}: {reason}") from error


def _add(columns: _Columns, line: Line, number: int, scale: float, block_tokens: int) -> None:
    if not (0 <= line.input_length < TOKENS_MAX and 0 <= line.output_length < TOKENS_MAX):
        raise ValueError(f"{line.input_length} and {line.output_length} tokens")
    if len(columns.times) >= REQUESTS_MAX:
        raise ValueError(f"more than {REQUESTS_MAX} requests")
    answer = line.answer_ids or []
    _add_time(columns, line.timestamp * scale)
    _check_blocks(columns, line, number, block_tokens)
    columns.inputs.append(line.input_length)
    columns.outputs.append(line.output_length)
    columns.prompt_blocks.append(len(line.hash_ids))
    columns.all_blocks.append(len(line.hash_ids) + len(answer))
    _add_ids(columns, "hash_ids", line.hash_ids)
    _add_ids(columns, "answer_ids", answer)
    _add_session(columns, line)
    if line.instance is not None:
        _add_instance(columns, line.instance, number)
    if line.node is not None:
        node = columns.node_names.setdefault(line.node, len(columns.node_names))
        if node >= NODES_MOST:
            raise ValueError(f"more than {NODES_MOST} nodes")
        columns.nodes.append(node)


def _add_time(columns: _Columns, time_s: float) -> None:
    first, last = columns.time_range
    first, last = min(first, time_s), max(last, time_s)
    if not (math.isfinite(time_s) and last - first <= SPAN_MOST_S):
        raise ValueError(
            f"timestamp {time_s:g} s lies more than 100 years from others: is it in another unit?"
        )
    columns.time_range = first, last
    columns.times.append(time_s)


def _check_blocks(columns: _Columns, line: Line, number: int, block_tokens: int) -> None:
    """A prompt's last block may be left out where it is not full; no more than that."""
    count, tokens = len(line.hash_ids), line.input_length
    if count > -(-tokens // block_tokens):
        raise ValueError(
            f"{count} `hash_ids`, but {tokens} tokens fill no more than "
            f"{-(-tokens // block_tokens)} blocks of {block_tokens}: give `--block-tokens`"
        )
    if count < tokens // block_tokens:
        few, first = columns.few_blocks
        columns.few_blocks = few + 1, first or number


def _add_ids(columns: _Columns, name: str, ids: list[int]) -> None:
    """Kept as unsigned numbers; signed ones in two's complement."""
    if not ids:
        return
    least, most = columns.id_range
    least, most = min(least, *ids), max(most, *ids)
    if least < ID_LEAST or most > ID_MOST or (least < 0 and most > ID_MOST >> 1):
        raise ValueError(f"`{name}` are not all of 64 bits: {least} to {most}")
    columns.id_range = least, most
    columns.ids.extend(ids if least >= 0 else [each & ID_MASK for each in ids])


def _add_session(columns: _Columns, line: Line) -> None:
    for name, value in (("chat_id", line.chat_id), ("session", line.session)):
        if value is not None and not ID_LEAST <= value <= ID_MOST:
            raise ValueError(f"`{name}` is {value}, which is not of 64 bits")
    if line.chat_id is not None:
        parent = line.parent_chat_id
        root = line.chat_id if parent is None else columns.roots.get(parent, line.chat_id)
        columns.roots[line.chat_id] = root
        columns.sessions.append(root & ID_MASK)
    elif line.session is not None:
        columns.sessions.append(line.session & ID_MASK)


def _add_instance(columns: _Columns, instance: int, number: int) -> None:
    if not 0 <= instance < SIM_INSTANCES_MAX:
        raise ValueError(f"`instance` is {instance}: give 0 to {SIM_INSTANCES_MAX - 1}")
    columns.instances.append(instance)
    columns.last_instance = max(columns.last_instance, (instance, number))


def _trace_of(name: str, columns: _Columns, block_tokens: int) -> Trace:
    times = np.array(columns.times, np.float64)
    order = np.argsort(times, kind="stable")
    counts = np.array(columns.all_blocks, np.int64)
    blocks, block_count = numbered(np.array(columns.ids, np.uint64))
    starts = np.concatenate(([0], np.cumsum(counts)))
    if np.any(order[1:] < order[:-1]):  # lines need not be in the order of time
        blocks = np.concatenate([blocks[starts[at] : starts[at + 1]] for at in order])
        counts = counts[order]
        starts = np.concatenate(([0], np.cumsum(counts)))
    inputs = np.array(columns.inputs, np.uint32)[order]
    first_block = starts.astype(np.uint64)
    if len(columns.sessions) == len(times):
        sessions, _ = numbered(np.array(columns.sessions, np.uint64)[order])
    else:
        full = np.minimum(inputs.astype(np.int64) // block_tokens, counts)
        sessions = sessions_of(full, first_block, blocks, block_count)
    has_nodes = len(columns.nodes) == len(times)
    has_instances = len(columns.instances) == len(times)
    return Trace(
        name=name,
        block_tokens=block_tokens,
        block_count=block_count,
        arrives_s=times[order] - times[order[0]],
        input_tokens=inputs,
        output_tokens=np.array(columns.outputs, np.uint32)[order],
        first_block=first_block,
        prompt_blocks=np.array(columns.prompt_blocks, np.uint32)[order],
        blocks=blocks,
        session=sessions,
        instance=np.array(columns.instances if has_instances else [], np.int32)[
            order if has_instances else slice(None)
        ],
        instance_line=columns.last_instance[1],
        node=np.array(columns.nodes, np.uint16)[order] if has_nodes else np.empty(0, np.uint16),
        node_count=len(columns.node_names) if has_nodes else 0,
    )
