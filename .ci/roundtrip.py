"""Starts a node from the installed package, puts a file, gets it back, and compares the sums."""

import hashlib
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

GD2FS = str(Path(sysconfig.get_path("scripts")) / "gd2fs")
SERVE = [GD2FS, "serve", "--cluster", "wheel", "--listen", "tcp://127.0.0.1:0", "--memory", "256MiB"]


def sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(SERVE, stdout=subprocess.PIPE) as node:
        assert node.stdout
        ready = node.stdout.readline().decode()
        if not ready.startswith("ready"):
            sys.exit("error: the node did not start")
        address = next(word for word in ready.split() if word.startswith("tcp://"))[len("tcp://") :]
        client = ["--cp", address, "--cluster", "wheel"]
        sent, got = Path(folder) / "sent", Path(folder) / "got"
        sent.write_bytes(os.urandom(32 << 20))
        subprocess.run([GD2FS, "put", *client, str(sent), "/wheel/file"], check=True)
        subprocess.run([GD2FS, "get", *client, "/wheel/file", str(got)], check=True)
        node.send_signal(signal.SIGTERM)
        if sum_of(sent) != sum_of(got) or node.wait(10) != 0:
            sys.exit("error: the bytes or the node's end are wrong")
    print("round trip of 32 MiB without a compiler: SHA-256 equal")


if __name__ == "__main__":
    main()
