"""Device memory: how bytes get to memory of a GPU and from it, as a client is told."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass

from gd2fs.config.numbers import count_in
from gd2fs.errors import InvalidRequest
from gd2fs.sizes import parse_bytes

BOUNCE_BYTES = 128 << 20
BOUNCE_BYTES_MIN = 1 << 20
BOUNCE_BYTES_MAX = 64 << 30
CHECKED_ONE_IN = 64
CHECKED_ONE_IN_MAX = (1 << 32) - 1
POLICIES = ("direct", "bounce")
REACHING = ("auto", "rdma")  # transports by which cards may reach a GPU

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """
    Attributes:
        bounce_bytes: Pinned memory that bytes of GPUs pass through, 1 MiB to 64 GiB. Made for the
            first of them.
        load: ``direct``: to registered memory of a GPU straight, where cards reach it; what they do
            not reach bounces. ``bounce``: always by way of the host.
        save: The same, from a GPU.
        checked_one_in: Of the requests that load straight one in so many is copied out again, and
            verified; 0: none.
    """

    bounce_bytes: int = BOUNCE_BYTES
    load: str = "direct"
    save: str = "direct"
    checked_one_in: int = CHECKED_ONE_IN

    def __post_init__(self) -> None:
        if not BOUNCE_BYTES_MIN <= self.bounce_bytes <= BOUNCE_BYTES_MAX:
            raise InvalidRequest(
                f"a bounce pool of {self.bounce_bytes} bytes",
                hint="`GD2FS_BOUNCE_SIZE` is 1MiB to 64GiB; 128MiB is the default",
            )
        if not 0 <= self.checked_one_in <= CHECKED_ONE_IN_MAX:
            raise InvalidRequest(
                f"`GD2FS_LOAD_CHECKS` is {self.checked_one_in}",
                hint=f"one load in so many, up to {CHECKED_ONE_IN_MAX}; 0: none",
            )

    def native(self) -> dict[str, int | bool]:
        """As the native client takes it."""
        return {
            "bounce_bytes": self.bounce_bytes,
            "is_load_direct": self.load == "direct",
            "is_save_direct": self.save == "direct",
            "checked_one_in": self.checked_one_in,
        }


BY_DEFAULT = DeviceMemory()


def device_memory(
    bounce_size: int | str | None, transport: str, environment: Mapping[str, str] = os.environ
) -> DeviceMemory:
    """As ``GD2FS_BOUNCE_SIZE`` (unless ``bounce_size`` is given), ``GD2FS_LOAD_POLICY``,
    ``GD2FS_SAVE_POLICY`` and ``GD2FS_LOAD_CHECKS`` say. Warns of a policy that ``transport``
    cannot keep.

    Raises:
        InvalidRequest: One of them is not what it should be.
    """
    told = environment.get("GD2FS_BOUNCE_SIZE", "") if bounce_size is None else bounce_size
    if isinstance(told, str):
        told = parse_bytes(told) if told else BOUNCE_BYTES
    return DeviceMemory(
        told,
        _policy("GD2FS_LOAD_POLICY", transport, environment),
        _policy("GD2FS_SAVE_POLICY", transport, environment),
        count_in(environment, "GD2FS_LOAD_CHECKS", CHECKED_ONE_IN),
    )


def _policy(name: str, transport: str, environment: Mapping[str, str]) -> str:
    policy = environment.get(name, "")
    if policy and policy not in POLICIES:
        raise InvalidRequest(f"`{name}` is `{policy}`", hint=f"one of {', '.join(POLICIES)}")
    if policy == "direct" and transport not in REACHING:
        log.warning(
            "`%s` is `direct`, and transport `%s` reaches no memory of a GPU: bytes bounce",
            name,
            transport,
        )
    return policy or "direct"
