"""Nearest: the devices of a machine, and which NICs a GPU's bytes should go by.

Near goes before far, fast before slow. Among NICs that are equal in both GPUs begin with different
ones, each by its index, so that eight GPUs of a flat bus do not share one of eight NICs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from gd2fs.errors import InvalidRequest
from gd2fs.topology.device import NVIDIA, Gpu, Nic
from gd2fs.topology.distance import Distance, distance

SLOW_SHARE = 10  # a NIC of under a tenth of the fastest one's rate is for the machine's own keep


@dataclass(frozen=True, slots=True)
class Topology:
    """GPUs and NICs of one machine, by PCI address, and how many NUMA nodes it has."""

    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    numa_nodes: int = 1

    def gpu(self, name: int | str, visible: str = "") -> Gpu:
        """A GPU by index, PCI address or the beginning of its UUID.

        Args:
            name: ``0``, ``0000:1b:00.0``, ``GPU-8932f937``; ``cuda:0`` and ``gpu0`` are indexes
                too.
            visible: ``CUDA_VISIBLE_DEVICES``: then an index counts what is listed there.

        Raises:
            InvalidRequest: There is no such GPU, or more than one.
        """
        text = str(name).strip()
        index = text.lower().removeprefix("cuda:").removeprefix("gpu")
        if not index.isdigit():
            return self._one(text)
        listed = [part.strip() for part in visible.split(",") if part.strip()]
        if not listed:
            return self._at(int(index), text)
        if int(index) >= len(listed):
            raise InvalidRequest(
                f"no GPU {text}: `CUDA_VISIBLE_DEVICES` is `{visible}`",
                hint=f"0 to {len(listed) - 1}, or a PCI address",
            )
        return self.gpu(listed[int(index)])

    def nearest_nics(
        self, gpu: Gpu, count: int = 0, among: Iterable[Nic] | None = None
    ) -> list[Nic]:
        """The ``count`` NICs nearest to ``gpu``, nearest first; 0: all.

        Left out are NICs without a link, those that are far slower than the fastest, and virtual
        functions of a NIC that is there itself.

        Args:
            among: Those to choose from, in the order of their indexes; None: all.
        """
        usable = _usable(self.nics if among is None else tuple(among))
        usable.sort(key=lambda nic: _rank(gpu, nic))
        order: list[Nic] = []
        for _, equals in groupby(usable, key=lambda nic: _rank(gpu, nic)):
            group = list(equals)
            first = gpu.index % len(group)
            order += group[first:] + group[:first]
        return order[:count] if count else order

    def _at(self, index: int, text: str) -> Gpu:
        """By CUDA's index: it counts NVIDIA's alone."""
        counted = [gpu for gpu in self.gpus if gpu.vendor == NVIDIA] or self.gpus
        if index < len(counted):
            return counted[index]
        raise InvalidRequest(
            f"no GPU {text}: this machine has {len(counted)}", hint="run `gd2fs topology`"
        )

    def _one(self, text: str) -> Gpu:
        found = [gpu for gpu in self.gpus if _is_named(gpu, text.lower())]
        if len(found) == 1:
            return found[0]
        raise InvalidRequest(
            f"`{text}` is {'no GPU' if not found else f'{len(found)} GPUs'} of this machine",
            hint="an index, a PCI address or a UUID of `gd2fs topology`",
        )


def _usable(nics: Sequence[Nic]) -> list[Nic]:
    live = [nic for nic in nics if nic.is_up]
    fastest = max((nic.speed_mbit for nic in live), default=0)
    there = {nic.place.address for nic in live}
    return [
        nic
        for nic in live
        if nic.physical not in there
        and (nic.speed_mbit == 0 or nic.speed_mbit * SLOW_SHARE >= fastest)
    ]


def _rank(gpu: Gpu, nic: Nic) -> tuple[Distance, int]:
    return distance(gpu.place, nic.place), -nic.speed_mbit


def _is_named(gpu: Gpu, text: str) -> bool:
    """Addresses are written with four digits of the domain, with eight, and without."""
    short = gpu.place.address.removeprefix("0000:")
    names = {gpu.place.address, short, f"00000000:{short}", f"0000{gpu.place.address}"}
    return text in names or (text.startswith("gpu-") and gpu.uuid.lower().startswith(text))
