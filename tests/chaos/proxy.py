"""Proxy: a TCP proxy in front of one node that delays, trickles, goes silent, resets or damages.

`python -m chaos.proxy LISTEN TARGET SEED` serves until its standard input ends, and takes one
mode a line from there, which it repeats once it is in force: `pass`, `delay MS`, `trickle`,
`half_open`, `stall`, `reset`, `damage`. What a silent proxy has taken in is delivered once it
passes again, however late that is: by `half_open` all connections are silent, by `stall` those
that were open, while new ones pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import sys

PIECE_BYTES = 64 << 10
TRICKLE_BYTES = 2048
TRICKLE_S = 0.01
DAMAGED_SHARE = 0.1  # of the pieces that pass while it damages
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close sends RST


class Proxy:
    def __init__(self, target: tuple[str, int], seed: int) -> None:
        self._target = target
        self._chance = random.Random(seed)
        self._mode = "pass"
        self._amount = 0
        self._has_changed = asyncio.Condition()
        self._open: set[asyncio.StreamWriter] = set()
        self._count = 0  # of connections so far
        self._stalled = 0  # how many of them, the first ones, are

    async def take(self, line: str) -> None:
        """Change the mode."""
        words = line.split()
        async with self._has_changed:
            self._mode, self._amount = words[0], int(words[1]) if len(words) > 1 else 0
            self._stalled = self._count if self._mode == "stall" else 0
            self._has_changed.notify_all()
        if self._mode == "reset":
            for writer in list(self._open):
                _reset(writer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection both ways until either end closes it."""
        if self._mode == "reset":
            _reset(writer)
            return
        self._count += 1
        number = self._count
        await self._until_passing(number)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
            return
        self._open |= {writer, far_writer}
        if self._mode == "reset":  # the order came while it connected
            _reset(writer)
            _reset(far_writer)
        ways = [
            self._carry(number, reader, far_writer),
            self._carry(number, far_reader, writer),
        ]
        await asyncio.gather(*ways, return_exceptions=True)
        self._open -= {writer, far_writer}

    async def _carry(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                await self._until_passing(number)
                await self._pass(piece, writer)
        with contextlib.suppress(OSError):
            writer.close()

    async def _pass(self, piece: bytes, writer: asyncio.StreamWriter) -> None:
        if self._mode == "delay":
            await asyncio.sleep(self._amount / 1000)
        if self._mode == "damage" and self._chance.random() < DAMAGED_SHARE:
            piece = self._damaged(piece)
        step = TRICKLE_BYTES if self._mode == "trickle" else len(piece)
        for at in range(0, len(piece), step):
            writer.write(piece[at : at + step])
            await writer.drain()
            if self._mode == "trickle":
                await asyncio.sleep(TRICKLE_S)

    def _damaged(self, piece: bytes) -> bytes:
        changed = bytearray(piece)
        changed[self._chance.randrange(len(piece))] ^= 1 << self._chance.randrange(8)
        return bytes(changed)

    async def _until_passing(self, number: int) -> None:
        async with self._has_changed:
            await self._has_changed.wait_for(lambda: not self._is_silent(number))

    def _is_silent(self, number: int) -> bool:
        return self._mode == "half_open" or number <= self._stalled


def _reset(writer: asyncio.StreamWriter) -> None:
    plug = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


def _host_and_port(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


async def _main(listen: str, target: str, seed: int) -> None:
    proxy = Proxy(_host_and_port(target), seed)
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    async with await asyncio.start_server(proxy.serve, *_host_and_port(listen)):
        print("ready", flush=True)
        while line := await orders.readline():
            await proxy.take(line.decode())
            print(line.decode().strip(), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
