"""Starts a node from the installed package, puts a file, gets it back, and compares the sums.

Then has its C library connect to that node.
"""

import ctypes
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


class Options(ctypes.Structure):
    """The first fields of `xfer_gd2fs_options`; the rest is zero."""

    _fields_ = (
        ("cp_address", ctypes.c_char_p),
        ("dp_address", ctypes.c_char_p),
        ("cluster_id", ctypes.c_char_p),
        ("rest", ctypes.c_char * 64),
    )


def connects(cp: str) -> bool:
    prefix = subprocess.run(
        [GD2FS, "config", "--prefix"], check=True, timeout=STEP_S, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    library = ctypes.CDLL(str(Path(prefix, "lib", "libgd2fs.so")))
    library.xfer_gd2fs_connect.restype = ctypes.c_void_p
    library.xfer_gd2fs_close.argtypes = [ctypes.c_void_p]
    options = Options(cp_address=cp.encode(), cluster_id=b"wheel")
    context = library.xfer_gd2fs_connect(ctypes.byref(options))
    library.xfer_gd2fs_close(context)
    return context is not None


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
    assert connects(where[1]), "libgd2fs did not connect"
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
