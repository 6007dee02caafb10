"""Reader: a process that gets the same pages again and again and says what it saw.

`python reader.py CPADDR VERIFY COUNT BYTES`. After `ready` it reads pages until its standard
input ends, then prints how often each answer came: `ok=N miss=N wrong=N`.
"""

from __future__ import annotations

import select
import sys
from collections import Counter

from gd2fs import Client


def page_bytes(index: int, size: int) -> bytes:
    """What page ``index`` holds; every 8 bytes say where they belong."""
    return b"".join((index << 32 | at).to_bytes(8, "little") for at in range(size // 8))


def main() -> None:
    cp, verify, count, size = sys.argv[1], sys.argv[2] == "1", int(sys.argv[3]), int(sys.argv[4])
    keys = [f"page-{index}".encode() for index in range(count)]
    expected = [page_bytes(index, size) for index in range(count)]
    buffers = [bytearray(size) for _ in keys]
    seen: Counter[str] = Counter()
    with Client(cp, cluster="test", verify=verify, timeout_s=20) as client:
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            for buffer in buffers:
                buffer[:] = bytes(size)
            found = client.pages("slow").get(keys, buffers)
            for bytes_here, buffer, right in zip(found.sizes, buffers, expected, strict=True):
                seen["miss" if bytes_here is None else "ok" if buffer == right else "wrong"] += 1
    print(f"ok={seen['ok']} miss={seen['miss']} wrong={seen['wrong']}", flush=True)


if __name__ == "__main__":
    main()
