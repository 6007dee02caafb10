"""Settings: how an engine's plug-in reaches the store, from the mapping that it is given."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from gd2fs.errors import InvalidRequest

DEADLINE_S_MAX = 600.0
TRUTHS = {"true": True, "false": False, "1": True, "0": False, "on": True, "off": False}


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """What a plug-in can be told. What is left out comes from the environment, as for any client.

    Attributes:
        cp: Nodes to ask first, ``gd2fs://HOST:PORT,…``. Default: ``GD2FS_CPADDR``.
        cluster: The cluster's name. Default: ``GD2FS_CLUSTER``.
        dp: Local addresses to use. Default: ``GD2FS_DPADDR``.
        device: GPU whose nearest NICs are used where ``dp`` names none: an index, a PCI address or
            a UUID. Default: the one that the engine's process computes on, else ``GD2FS_DEVICE``.
        device_nics: How many of them; 0: all. Default: ``GD2FS_DEVICE_NICS``.
        transport: ``auto``, ``shm``, ``rdma``, ``unix`` or ``tcp``. Default: ``GD2FS_TRANSPORT``.
        io_threads: Threads that move bytes. Default: ``GD2FS_IOTHREADS``.
        streams: Connections to each node. Default: ``GD2FS_STREAMS``.
        token_file: File of the token that is shown to nodes; the token itself stands in no
            setting, since engines print theirs. Default: ``GD2FS_TOKEN_FILE``, ``GD2FS_TOKEN``.
        tag: Instances with different tags share nothing.
        weights: Fingerprint of the weights; empty: made of the checkpoint.
        lookup_timeout_s: Deadline of a lookup; after it the pages are misses.
        load_timeout_s: Deadline of a load.
        store_timeout_s: Deadline of a store, tries included.
        ttl_s: Seconds after which stored pages go by themselves; 0: never.
        never_slower: Compute what is quicker to compute than to load.
        prefill_tokens_per_s: Of this instance, when known; 0: it is observed.
    """

    cp: str | None = None
    cluster: str | None = None
    dp: str | None = None
    device: str | None = None
    device_nics: int | None = None
    transport: str | None = None
    io_threads: int | None = None
    streams: int | None = None
    token_file: str | None = None
    tag: str = ""
    weights: str = ""
    lookup_timeout_s: float = 0.2
    load_timeout_s: float = 2.0
    store_timeout_s: float = 5.0
    ttl_s: int = 0
    never_slower: bool = True
    prefill_tokens_per_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("lookup_timeout_s", "load_timeout_s", "store_timeout_s"):
            value = getattr(self, name)
            if not 0 < value <= DEADLINE_S_MAX:
                raise InvalidRequest(
                    f"`{name}` is {value}", hint=f"give seconds, over 0 to {DEADLINE_S_MAX:g}"
                )
        for name in ("ttl_s", "prefill_tokens_per_s"):
            if getattr(self, name) < 0:
                raise InvalidRequest(f"`{name}` is {getattr(self, name)}", hint="0 is none")


def settings_of(
    mapping: Mapping[str, Any], *, foreign: frozenset[str] = frozenset()
) -> StoreSettings:
    """Check and take what the engine passes on.

    Args:
        mapping: Names and values, as JSON, TOML or YAML have them.
        foreign: Names that are not for us and no mistake.

    Raises:
        InvalidRequest: A name is unknown, or a value is not of its kind.
    """
    known = {each.name: each for each in fields(StoreSettings)}
    taken: dict[str, Any] = {}
    for name, value in mapping.items():
        if name in foreign:
            continue
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise InvalidRequest(
                f"there is no setting `{name}`",
                hint=f"`{near[0]}` is meant?" if near else f"there are {', '.join(known)}",
            )
        taken[name] = _checked(name, value, str(known[name].type))
    return StoreSettings(**taken)


def _checked(name: str, value: Any, kind: str) -> Any:
    if value is None and "None" in kind:
        return None
    if kind.startswith("bool"):
        truth = TRUTHS.get(str(value).lower())
        if truth is not None:
            return truth
    elif kind.startswith("str"):
        if isinstance(value, str):
            return value
    else:
        make = int if kind.startswith("int") else float
        try:
            if not isinstance(value, bool):
                return make(value)
        except (TypeError, ValueError):
            pass
    raise InvalidRequest(f"`{name}` is {value!r}", hint=f"it is of kind {kind.split(' ')[0]}")
