"""What a program with memory of a GPU does: run by test_device_memory.py, one process for each way.

usage: use_gpu.py LIBCUDA CP CLUSTER client|async|pygd2fs|rdma
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import random
import sys

import pygd2fs
from gd2fs import Client

BYTES = 3_000_001
FILLING = b"\xee"


class Gpu:
    """Memory of the first GPU, by the driver's own calls."""

    def __init__(self, library: str) -> None:
        self.calls = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        context = ctypes.c_void_p()
        self.check(self.calls.cuInit(0))
        self.check(self.calls.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        self.check(self.calls.cuCtxPushCurrent_v2(context))

    def check(self, status: int) -> None:
        if status:
            raise SystemExit(f"the driver answers {status}")

    def memory(self, content: bytes) -> tuple[int, int]:
        address = ctypes.c_ulonglong()
        self.check(self.calls.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(len(content))))
        size = ctypes.c_size_t(len(content))
        self.check(self.calls.cuMemcpyHtoD_v2(address, content, size))
        return address.value, len(content)

    def content(self, memory: tuple[int, int]) -> bytes:
        out = ctypes.create_string_buffer(memory[1])
        address = ctypes.c_ulonglong(memory[0])
        self.check(self.calls.cuMemcpyDtoH_v2(out, address, ctypes.c_size_t(memory[1])))
        return out.raw


def use_client(library: str, cp: str, cluster: str) -> None:
    gpu = Gpu(library)
    value = random.Random(1).randbytes(BYTES)
    source, target = gpu.memory(value), gpu.memory(FILLING * BYTES)
    with Client(cp, cluster=cluster, timeout_s=20) as client:
        pages = client.pages("device")
        assert list(pages.put(["k"], [source])) == [True]
        assert pages.get(["k"], [target]).sizes == [BYTES]
        assert gpu.content(target) == value
        client.put("/device/f", [source, b"the end"])
        second = gpu.memory(FILLING * BYTES)
        tail = bytearray(7)
        assert client.read("/device/f", 0, [second, tail]) == BYTES + 7
        assert (gpu.content(second), bytes(tail)) == (value, b"the end")
        assert client.counts().bounced_in_bytes == 2 * BYTES
        assert client.counts().bounced_out_bytes == 2 * BYTES


async def use_async(library: str, cp: str, cluster: str) -> None:
    """The driver is loaded by a process that has used its client already."""
    value = random.Random(2).randbytes(BYTES)
    with Client(cp, cluster=cluster, timeout_s=20) as client:
        await client.aput("/device/h", value)
        gpu = Gpu(library)
        source, target = gpu.memory(value), gpu.memory(FILLING * BYTES)
        await client.aput("/device/a", source)
        assert await client.aread("/device/a", 0, target) == BYTES
    assert gpu.content(target) == value


def use_rdma(library: str, cp: str, cluster: str) -> None:
    """Without cards nothing reaches a GPU: its bytes bounce, between nodes and the pool by RDMA."""
    gpu = Gpu(library)
    told: list[str] = []
    logging.getLogger("gd2fs").addHandler(Listener(told))
    value = random.Random(4).randbytes(BYTES)
    source, target = gpu.memory(value), gpu.memory(FILLING * BYTES)
    with Client(cp, cluster=cluster, timeout_s=20, transport="rdma") as client:
        client.register(source)
        client.register(target)
        client.put("/device/r", source)
        assert client.read("/device/r", 0, target) == BYTES
        assert gpu.content(target) == value
        counts = client.counts()
        assert (counts.bounced_in_bytes, counts.bounced_out_bytes) == (BYTES, BYTES)
        assert (counts.direct_in_bytes, counts.direct_out_bytes) == (0, 0)
        assert client.deregister(source) and client.deregister(target)
    assert told == ["bytes of GPUs pass through memory of the host: no card moves the bytes"], told


class Listener(logging.Handler):
    """Appends what is told."""

    def __init__(self, told: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        self._told.append(record.getMessage())


def use_pygd2fs(library: str, cp: str, cluster: str) -> None:
    gpu = Gpu(library)
    value = random.Random(3).randbytes(BYTES)
    source, target = gpu.memory(value), gpu.memory(FILLING * BYTES)
    client = pygd2fs.Client(f"gd2fs://{cp}", "tcp://127.0.0.1", cluster)
    pieces = [client.RegIOMEM(*each) for each in (source, target)]
    assert None not in pieces
    assert client.RegIOMEM(source[0], 1 << 40) is None

    def done(request: pygd2fs.Request | None) -> pygd2fs.Request:
        assert request is not None
        assert client.Wait(20_000) == [request]
        assert request.Status() == 0, pygd2fs.InspectStatus(request.Status())
        return request

    done(client.Create("/device/p", 0, 0, ""))
    done(client.Write("/device/p", 0, [pygd2fs.SGE(*source, pieces[0])], 0, ""))
    read = done(client.Read("/device/p", 0, [pygd2fs.SGE(*target, pieces[1])], 0, ""))
    assert read.Value() == BYTES
    assert gpu.content(target) == value


def main() -> None:
    library, cp, cluster, way = sys.argv[1:]
    if way == "async":
        asyncio.run(use_async(library, cp, cluster))
    else:
        {"client": use_client, "pygd2fs": use_pygd2fs, "rdma": use_rdma}[way](library, cp, cluster)


if __name__ == "__main__":
    main()
