"""Device memory: how bytes get to memory of a GPU and from it, as a client is told."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from gd2fs.errors import InvalidRequest
from gd2fs.sizes import parse_bytes

BOUNCE_BYTES = 128 << 20
BOUNCE_BYTES_MIN = 1 << 20
BOUNCE_BYTES_MAX = 64 << 30
POLICIES = ("direct", "bounce")
VARIABLES = ("GD2FS_LOAD_POLICY", "GD2FS_SAVE_POLICY")

log = logging.getLogger(__name__)


def check_bounce(size: int) -> int:
    """Return ``size`` when a pool can have so many bytes. Raises InvalidRequest."""
    if not BOUNCE_BYTES_MIN <= size <= BOUNCE_BYTES_MAX:
        raise InvalidRequest(
            f"a bounce pool of {size} bytes",
            hint="`GD2FS_BOUNCE_SIZE` is 1MiB to 64GiB; 128MiB is the default",
        )
    return size


def bounce_of(given: int | str | None, environment: Mapping[str, str] = os.environ) -> int:
    """Bytes: ``given``, else ``GD2FS_BOUNCE_SIZE``, else 128 MiB. Raises InvalidRequest."""
    told = environment.get("GD2FS_BOUNCE_SIZE", "") if given is None else given
    if told == "":
        return BOUNCE_BYTES
    return check_bounce(told if isinstance(told, int) else parse_bytes(told))


def take_policies(environment: Mapping[str, str] = os.environ) -> None:
    """Check ``GD2FS_LOAD_POLICY`` and ``GD2FS_SAVE_POLICY``, and warn of what cannot be done.

    Raises:
        InvalidRequest: One is neither ``direct`` nor ``bounce``.
    """
    told = {name: environment.get(name, "") for name in VARIABLES}
    for name, policy in told.items():
        if policy and policy not in POLICIES:
            raise InvalidRequest(f"`{name}` is `{policy}`", hint=f"one of {', '.join(POLICIES)}")
    direct = [f"`{name}`" for name, policy in told.items() if policy == "direct"]
    if direct:
        log.warning(
            "%s %s `direct`, which is not built yet: bytes of GPUs pass through memory of the host",
            " and ".join(direct),
            "is" if len(direct) == 1 else "are",
        )
