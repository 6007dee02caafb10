"""Settings: how one instance of the engine runs. Frozen, checked once, at the start."""

from __future__ import annotations

from dataclasses import dataclass, field

from gd2fs.errors import InvalidRequest

SLOTS_MAX = 64
THREADS_MAX = 256
CTX_MIN, CTX_MAX = 128, 1 << 20  # tokens of one slot
# llama.cpp's attention on CPU takes another kernel, with other rounding, once a batch has 64 rows
# of one conversation. Below that every row's result is the same whatever else is in the batch, so
# an answer does not depend on how its prompt was cut up: at once, turn by turn, or restored.
UBATCH_DEFAULT = 63
UBATCH_MAX = 8192
CACHE_RAM_MIB_MAX = 1 << 20
STORE_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How one instance of the engine runs.

    Attributes:
        model: Path of a GGUF file.
        host: Where to serve.
        port: Of the front; 0 takes a free one.
        slots: Requests computed at the same time.
        threads: Of the computation.
        ctx: Tokens that one slot holds.
        ubatch: Tokens computed at once, over all slots; see ``UBATCH_DEFAULT``.
        cache_ram_mib: llama.cpp's private prompt cache in host memory; 0 is none.
        has_store: Keep conversations in GD2FS; else the engine is left to its private caches.
        cp: Nodes of the store, as ``gd2fs.Client`` takes them; None: from the environment.
        cluster: Name of the store's cluster; None: from the environment.
        store_timeout_s: Deadline of one transfer to or from the store.
    """

    model: str
    host: str = "127.0.0.1"
    port: int = 0
    slots: int = 2
    threads: int = 1
    ctx: int = 2048
    ubatch: int = UBATCH_DEFAULT
    cache_ram_mib: int = 0
    has_store: bool = True
    cp: str | None = field(default=None)
    cluster: str | None = field(default=None)
    store_timeout_s: float = STORE_TIMEOUT_S

    def __post_init__(self) -> None:
        _check_range("port", self.port, 0, 65535)
        _check_range("slots", self.slots, 1, SLOTS_MAX)
        _check_range("threads", self.threads, 1, THREADS_MAX)
        _check_range("ctx", self.ctx, CTX_MIN, CTX_MAX)
        _check_range("ubatch", self.ubatch, 1, UBATCH_MAX)
        _check_range("cache_ram_mib", self.cache_ram_mib, 0, CACHE_RAM_MIB_MAX)
        if self.has_store and self.cache_ram_mib:
            raise InvalidRequest(
                "a stateless instance has no private prompt cache",
                hint="pass `--no-store`, or `--cache-ram-mib 0`",
            )


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidRequest(f"`{name}` is {value}, but must be {least} to {most}")
