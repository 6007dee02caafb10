"""Starts a node from the installed package, puts a file, gets it back, and compares the sums."""

import hashlib
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

GD2FS = str(Path(sysconfig.get_path("scripts")) / "gd2fs")
SERVE = [GD2FS, "serve", "--cluster", "wheel", "--listen", "tcp://127.0.0.1:0"]
STEP_S = 60


def sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(*words: object) -> None:
    subprocess.run([GD2FS, *map(str, words)], check=True, timeout=STEP_S)


def go_round(node: subprocess.Popen[str], folder: Path) -> None:
    assert node.stdout
    ready = node.stdout.readline()
    assert ready.startswith("ready "), f"the node did not start: {ready!r}"
    listen = next(word for word in ready.split() if word.startswith("listen="))
    where = ["--cp", listen.removeprefix("listen=tcp://"), "--cluster", "wheel"]
    sent, got = folder / "sent", folder / "got"
    sent.write_bytes(os.urandom(32 << 20))
    run("put", *where, sent, "/wheel/file")
    run("get", *where, "/wheel/file", got)
    assert sum_of(sent) == sum_of(got), "other bytes came back"
    node.terminate()
    assert node.wait(STEP_S) == 0, "the node did not end with status 0"


def main() -> None:
    node = subprocess.Popen([*SERVE, "--memory", "256MiB"], stdout=subprocess.PIPE, text=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            go_round(node, Path(folder))
    except AssertionError as error:
        sys.exit(f"error: {error}")
    finally:
        node.kill()
        node.wait()
    print("round trip of 32 MiB without a compiler: equal sums")


if __name__ == "__main__":
    main()
