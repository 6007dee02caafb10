"""Environments: one virtual environment per engine, made once, with gd2fs in it as a real wheel.

An engine brings its own pinned libraries, so it never shares an environment with the tests of the
package. What an environment is made from lies in ``tests/engines/ENGINE/``:

- ``requirements.txt``: installed with what they need; first of all, torch for the CPU;
- ``engine.txt``: the engine itself, installed alone, because it would pull in CUDA;
- ``unused.txt``: what came along for nothing, taken out again. It may be missing.

An environment is made anew when one of these files changes, and gets a new wheel when the wheel
changes. It is told by stamps inside it, written last, so one that was cut short is made again.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = Path(__file__).resolve().parent
PLACE = ROOT / "build" / "engines"
WHEELS = PLACE / "wheels"
FILES = ("requirements.txt", "engine.txt", "unused.txt")
TOOLS = ("pytest>=8.0", "pytest-timeout>=2.3", "httpx>=0.27")  # what our tests in there use
INSTALL_S = 1500.0  # a first installation over a slow line
WHEEL_S = 900.0  # the core may have to be compiled


class EnvironmentFault(Exception):
    """An environment could not be made. What a tool said is part of the message."""


class Environment:
    """The virtual environment of one engine: ``build/engines/ENGINE``."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.folder = PLACE / engine
        self.tests = SOURCES / engine
        self.python = self.folder / "bin" / "python"

    def make_ready(self, wheel: Path) -> None:
        """Bring it up to date; another process that does the same is waited for.

        Raises:
            EnvironmentFault: A tool failed or took too long.
        """
        PLACE.mkdir(parents=True, exist_ok=True)
        with locked(PLACE / f"{self.engine}.lock"):
            self._install_engine()
            self._install_wheel(wheel)

    def _install_engine(self) -> None:
        stamp, wanted = self.folder / "engine.stamp", self._recipe()
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        print(f"{self.engine}: making {self.folder}, which takes some minutes", flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(self.folder)], INSTALL_S)
        # First the libraries with all that they need, then what must not choose for itself.
        self._pip("install", "-r", str(self.tests / "requirements.txt"), *TOOLS)
        self._pip("install", "--no-deps", "-r", str(self.tests / "engine.txt"))
        if (self.tests / "unused.txt").is_file():
            self._pip("uninstall", "-y", "-r", str(self.tests / "unused.txt"))
        stamp.write_text(wanted)

    def _install_wheel(self, wheel: Path) -> None:
        stamp, wanted = self.folder / "wheel.stamp", content_of(wheel)
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        stamp.unlink(missing_ok=True)
        self._pip("install", "--no-deps", "--force-reinstall", str(wheel))
        self._pip("install", str(wheel))  # what it needs, unless the engine has brought it
        stamp.write_text(wanted)

    def _recipe(self) -> str:
        files = [self.tests / name for name in FILES]
        texts = [path.read_text() for path in files if path.is_file()]
        return "\n".join([sys.version, *TOOLS, *texts])

    def _pip(self, *arguments: str) -> None:
        run([str(self.python), "-m", "pip", "-q", *arguments], INSTALL_S)


@functools.cache
def build_wheel() -> Path:
    """The wheel of the sources as they lie; nothing is compiled that ``build/core`` has.

    Raises:
        EnvironmentFault: It does not build.
    """
    shutil.rmtree(WHEELS, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "-q", "wheel", str(ROOT), "--no-deps"]
    command += ["--no-build-isolation", "-w", str(WHEELS)]
    run([*command, "-C", f"build-dir={ROOT / 'build' / 'core'}"], WHEEL_S)
    return next(WHEELS.glob("gd2fs-*.whl"))


def content_of(wheel: Path) -> str:
    """A sum over names and contents: the same for two wheels that differ in their times only."""
    with zipfile.ZipFile(wheel) as archive:
        parts = sorted(f"{part.filename} {part.CRC:08x}" for part in archive.infolist())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def run(command: list[str], timeout_s: float) -> None:
    """Run a tool. Raises EnvironmentFault with the end of what it said."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(f"`{' '.join(command)}` took over {timeout_s:.0f} s") from error
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise EnvironmentFault(f"`{' '.join(command)}` failed:\n{said}")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``; it goes with the process, however that ends."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
