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
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import numpy as np

from gd2fs.errors import InvalidRequest
from gd2fs.sim.trace import REQUESTS_MAX, Trace, numbered, sessions_of

MOONCAKE_TOKENS, QWEN_TOKENS = 512, 16
LINE_BYTES_MAX = 64 << 20
TOKENS_MAX = 1 << 31  # of one prompt: its blocks are counted in 32 bits
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


@dataclass(slots=True)
class _Columns:
    """What the lines said, each kind in one array."""

    times: array[float] = field(default_factory=lambda: array("d"))
    inputs: array[int] = field(default_factory=lambda: array("L"))
    outputs: array[int] = field(default_factory=lambda: array("L"))
    prompt_blocks: array[int] = field(default_factory=lambda: array("L"))
    all_blocks: array[int] = field(default_factory=lambda: array("L"))
    ids: array[int] = field(default_factory=lambda: array("q"))
    sessions: array[int] = field(default_factory=lambda: array("q"))
    instances: array[int] = field(default_factory=lambda: array("l"))
    nodes: array[int] = field(default_factory=lambda: array("H"))
    node_names: dict[str, int] = field(default_factory=dict)
    roots: dict[int, int] = field(default_factory=dict)  # chat -> its conversation's first


def read_trace(
    path: Path, *, block_tokens: int | None = None, report: Callable[[int], None] | None = None
) -> Trace:
    """Read a file, which may be compressed with gzip (``.gz``).

    Args:
        path: Of the file.
        block_tokens: Tokens of a block, where the form does not say so or another one is meant.
        report: Called with how many bytes were read, now and then.

    Raises:
        InvalidRequest: It cannot be read, or a line is not what it should be.
    """
    columns = _Columns()
    decoder = msgspec.json.Decoder(Line)
    first_is_header, tokens, scale = _form_of(path, block_tokens)
    for number, line in _lines(path, report):
        if number == 1 and first_is_header:
            continue
        try:
            _add(columns, decoder.decode(line), scale)
        except (msgspec.MsgspecError, OverflowError, ValueError) as error:
            raise InvalidRequest(
                f"{path}:{number} is not a request: {error}", hint=f"forms: {FORMS}"
            ) from error
    if not columns.times:
        raise InvalidRequest(f"{path} has no requests", hint=f"forms: {FORMS}")
    return _trace_of(str(path), columns, tokens)


def _form_of(path: Path, block_tokens: int | None) -> tuple[bool, int, float]:
    """Is the first line a header? Tokens of a block, and seconds of a unit of ``timestamp``."""
    _, first = next(_lines(path, None), (0, b"{}"))
    try:
        fields = msgspec.json.decode(first)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"{path}:1 is not JSON: {error}", hint=f"forms: {FORMS}") from error
    if not isinstance(fields, dict):
        raise InvalidRequest(f"{path}:1 is no JSON object", hint=f"forms: {FORMS}")
    if "gd2fs_trace" not in fields:
        is_qwen = "chat_id" in fields
        default, scale = (QWEN_TOKENS, 1.0) if is_qwen else (MOONCAKE_TOKENS, 1e-3)
        return False, _checked(block_tokens or default), scale
    try:
        header = msgspec.convert(fields, Header)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{path}:1 is no header of a trace: {error}") from error
    if header.gd2fs_trace != 1:
        raise InvalidRequest(
            f"{path} is of version {header.gd2fs_trace}", hint="this `gd2fs` reads version 1"
        )
    return True, _checked(block_tokens or header.block_tokens), 1.0


def _checked(block_tokens: int) -> int:
    if not 1 <= block_tokens <= 1 << 20:
        raise InvalidRequest(f"blocks of {block_tokens} tokens", hint="give 1 to 1048576")
    return block_tokens


def _lines(path: Path, report: Callable[[int], None] | None) -> Iterator[tuple[int, bytes]]:
    """Numbered from 1; empty ones are left out."""
    try:
        with path.open("rb") as raw:
            opened: BinaryIO = raw
            if path.suffix == ".gz":
                opened = cast(BinaryIO, gzip.GzipFile(fileobj=raw))
            number = 0
            while line := opened.readline(LINE_BYTES_MAX):
                number += 1
                if len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
                    raise InvalidRequest(f"{path}:{number} is longer than {LINE_BYTES_MAX} bytes")
                if report is not None and number % 10_000 == 0:
                    report(raw.tell())
                if line.strip():
                    yield number, line
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidRequest(f"cannot read {path}: {reason}") from error


def _add(columns: _Columns, line: Line, scale: float) -> None:
    if not (0 <= line.input_length < TOKENS_MAX and 0 <= line.output_length < TOKENS_MAX):
        raise ValueError(f"{line.input_length} and {line.output_length} tokens")
    if len(columns.times) >= REQUESTS_MAX:
        raise ValueError(f"more than {REQUESTS_MAX} requests")
    if not np.isfinite(line.timestamp):
        raise ValueError(f"timestamp {line.timestamp}")
    answer = line.answer_ids or []
    columns.times.append(line.timestamp * scale)
    columns.inputs.append(line.input_length)
    columns.outputs.append(line.output_length)
    columns.prompt_blocks.append(len(line.hash_ids))
    columns.all_blocks.append(len(line.hash_ids) + len(answer))
    columns.ids.extend(line.hash_ids)
    columns.ids.extend(answer)
    if line.chat_id is not None:
        root = columns.roots.get(line.parent_chat_id or -1, line.chat_id)
        columns.roots[line.chat_id] = root
        columns.sessions.append(root)
    elif line.session is not None:
        columns.sessions.append(line.session)
    if line.instance is not None:
        columns.instances.append(line.instance)
    if line.node is not None:
        number = columns.node_names.setdefault(line.node, len(columns.node_names))
        columns.nodes.append(number)


def _trace_of(name: str, columns: _Columns, block_tokens: int) -> Trace:
    times = np.array(columns.times, np.float64)
    order = np.argsort(times, kind="stable")
    counts = np.array(columns.all_blocks, np.int64)
    blocks, block_count = numbered(np.array(columns.ids, np.int64))
    starts = np.concatenate(([0], np.cumsum(counts)))
    if np.any(order[1:] < order[:-1]):  # lines need not be in the order of time
        blocks = np.concatenate([blocks[starts[at] : starts[at + 1]] for at in order])
        counts = counts[order]
        starts = np.concatenate(([0], np.cumsum(counts)))
    inputs = np.array(columns.inputs, np.uint32)[order]
    first_block = starts.astype(np.uint64)
    if len(columns.sessions) == len(times):
        sessions, _ = numbered(np.array(columns.sessions, np.int64)[order])
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
        node=np.array(columns.nodes, np.uint16)[order] if has_nodes else np.empty(0, np.uint16),
        node_count=len(columns.node_names) if has_nodes else 0,
    )
