"""Small traces for tests, and what a simulation with the plainest means makes of them."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

from gd2fs.sim.made import Made, make_trace
from gd2fs.sim.trace import Trace


def small_trace(**values: object) -> Trace:
    """A few hundred requests with a good part in common."""
    usual = {"requests": 600, "rate": 20, "turns": 5, "block": 64, "first": 600, "pause": 5}
    return make_trace(Made(**(usual | values)))  # type: ignore[arg-type]


def write_mooncake(trace: Trace, path: Path, *, block_tokens: int | None = None) -> Path:
    """The same prompts as a file of Mooncake's form; with other blocks, longer by as much."""
    times = (block_tokens or trace.block_tokens) // trace.block_tokens
    with path.open("w") as file:
        for request in range(trace.requests):
            begin = int(trace.first_block[request])
            count = int(trace.prompt_blocks[request])
            line = {
                "timestamp": float(trace.arrives_s[request]) * 1000,
                "input_length": int(trace.input_tokens[request]) * times,
                "output_length": int(trace.output_tokens[request]),
                "hash_ids": trace.blocks[begin : begin + count].tolist(),
            }
            file.write(json.dumps(line) + "\n")
    return path


def plain_hits(trace: Trace, instances: int, capacity: int | None) -> int:
    """Blocks found round robin in LRU caches of ``capacity`` blocks each; None: unlimited."""
    caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(instances)]
    hits = 0
    for request in range(trace.requests):
        cache = caches[request % instances]
        begin, end = (int(at) for at in trace.first_block[request : request + 2])
        blocks = trace.blocks[begin:end].tolist()  # those that the answer completes, too
        for block in blocks[: int(trace.prompt_blocks[request])]:
            if block not in cache:
                break
            hits += 1
        for block in reversed(blocks):
            cache[block] = None
            cache.move_to_end(block)
            if capacity is not None and len(cache) > capacity:
                cache.popitem(last=False)
    return hits
