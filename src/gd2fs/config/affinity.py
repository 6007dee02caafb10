"""Affinity: a client that serves a GPU takes the addresses of its nearest NICs for its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from gd2fs.config.numbers import count_in
from gd2fs.errors import InvalidRequest
from gd2fs.topology import addresses_near, interface_addresses, read_topology
from gd2fs.topology.affinity import Addresses

DEVICE_NICS_MAX = 64

log = logging.getLogger(__name__)


def near_device(
    device: int | str | None,
    nics: int | None,
    environment: Mapping[str, str] = os.environ,
    *,
    root: Path | str = "/",
    addresses: Addresses | None = None,
) -> tuple[str, ...]:
    """Addresses of the ``nics`` NICs nearest to ``device``, nearest first.

    Nothing, which leaves the choice to the system, without a device or with 0 NICs; and, with a
    warning, where none of this machine's NICs is known to be near.

    Args:
        device: An index (which ``CUDA_VISIBLE_DEVICES`` maps), a PCI address or a UUID; None:
            ``GD2FS_DEVICE``.
        nics: How many; None: ``GD2FS_DEVICE_NICS``, else 0.
        root: Below it lie /sys and /proc.
        addresses: Of each interface; None: this machine's.

    Raises:
        InvalidRequest: There is no such GPU, or the count is not 0 to 64.
    """
    count = count_in(environment, "GD2FS_DEVICE_NICS", 0) if nics is None else nics
    if not 0 <= count <= DEVICE_NICS_MAX:
        raise InvalidRequest(
            f"`device_nics` is {count}", hint=f"give 0, for all, to {DEVICE_NICS_MAX}"
        )
    name = environment.get("GD2FS_DEVICE", "") if device is None else str(device)
    if not name or not count:
        return ()
    topology = read_topology(root)
    gpu = topology.gpu(name, environment.get("CUDA_VISIBLE_DEVICES", ""))
    told = interface_addresses() if addresses is None else addresses
    near = addresses_near(topology, gpu, count, told)
    if near:
        log.info("%s (%s): by %s", gpu.name, gpu.place.address, ", ".join(near))
    else:
        log.warning("no NIC with an address is known to be near %s: the system chooses", gpu.name)
    return near
