"""UCX: which libucp carries one-sided transfers, and what it is.

The one that a setting names, else one in a wheel of this Python, else the system's. Not every
build drives cards: of the wheels on PyPI ``nixl-cu12`` does, and ``libucx-cu12`` does not, which
knows TCP and shared memory. So where there are cards only a build for them is taken. Wheels are
found by their folders; nothing of them is imported.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gd2fs import _core

CARDS = Path("/sys/class/infiniband")
WHEELS = {  # package: where its libucp is, seen from its folder
    "libucx": "lib/libucp.so.0",
    "nixl_cu12": "../nixl_cu12.libs/libucp-*.so*",
    "nixl_cu13": "../nixl_cu13.libs/libucp-*.so*",
}
MODULES = "ucx/libuct_ib.*"  # what drives cards, beside a libucp
SPARING = {
    # Else it changes the process's calls about memory, which nothing here needs.
    "UCX_MEM_MMAP_HOOK_MODE": "none",
    # The wheel of NIXL has libraries of cards of its own, but for EFA the machine's. Those bring
    # the machine's others along, and with two of each the process crashes at its exit.
    "UCX_MODULES": "^efa",
}


@dataclass(frozen=True, slots=True)
class Ucx:
    """A libucp that was loaded. ``knows_cards``: it was built to drive some."""

    path: str
    version: str
    knows_cards: bool

    def __str__(self) -> str:
        return f"UCX {self.version}, {self.path}"


def spare_process(environ: MutableMapping[str, str]) -> None:
    """Set in ``environ`` what keeps UCX from harming the process; what is set already stays.

    For a process of ours alone, before it loads UCX and has threads.
    """
    for name, value in SPARING.items():
        environ.setdefault(name, value)


def library_of(setting: str = "", *, cards: Path = CARDS) -> str:
    """Path of the libucp to take: ``setting``, else of a wheel; empty: whatever the system has."""
    if setting:
        return setting
    found = libraries_in_wheels()
    if cards.is_dir() and any(cards.iterdir()):
        found = [path for path in found if any(path.parent.glob(MODULES))]
    return str(found[0]) if found else ""


def libraries_in_wheels(wheels: Sequence[str] = tuple(WHEELS)) -> list[Path]:
    """Every libucp in the wheels of this Python, the first that is to be taken first."""
    found = []
    for package in wheels:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            found += sorted(path.resolve() for path in Path(folder).glob(WHEELS[package]))
    return found


def load_ucx(setting: str = "", *, cards: Path = CARDS) -> Ucx:
    """Load the libucp that would be taken, for good, and say what it is.

    Raises:
        InvalidRequest: It is too old, or not one that can be used.
        Unavailable: There is none, or it cannot be loaded.
    """
    return Ucx(*_core.open_ucx(library_of(setting, cards=cards)))
