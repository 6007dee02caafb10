"""Raw node: the process at the other end of ceilings. It says where it listens, and waits."""

from __future__ import annotations

import signal
import sys

from gd2fs import _core
from gd2fs.errors import InvalidRequest

RAW_BYTES = 256 << 20  # several times any cache; more is read over again


def main() -> None:
    """Serve until SIGTERM. The argument is the kind of the arena."""
    server = _serve(sys.argv[1])
    facts = {
        "tcp": server.tcp,
        "unix": server.unix,
        "bare_tcp": server.bare_tcp,
        "bare_unix": server.bare_unix,
        "rung": server.rung,
        "vmsplice": int(server.can_vmsplice),
    }
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    print("ready " + " ".join(f"{name}={value}" for name, value in facts.items()), flush=True)
    signal.pause()


def _serve(kind: str) -> _core.RawServer:
    try:
        return _core.RawServer(RAW_BYTES, kind)
    except InvalidRequest:
        return _core.RawServer(RAW_BYTES, "auto")  # the rung that was got is told and compared


if __name__ == "__main__":
    main()
