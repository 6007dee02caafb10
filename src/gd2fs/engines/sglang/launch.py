"""Launch: the command line of a SGLang server, with and without GD2FS behind its HiCache.

Tests, benchmarks and the guide start servers by this one list of flags. Flags of later options win
over these, as SGLang takes the last of each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BACKEND: Mapping[str, Any] = {
    "backend_name": "gd2fs",
    "module_path": "gd2fs.engines.sglang",
    "class_name": "GD2FSStorage",
    "interface_v1": 1,  # pages go straight from and to the host pool
}


@dataclass(frozen=True, slots=True)
class SglangServer:
    """One server.

    Attributes:
        model: Folder of the checkpoint, or a name that SGLang can load.
        port: Where it listens; ``host`` is the address.
        served_name: What clients call the model.
        page_tokens: Tokens of a page, the same on every instance.
        device_tokens: Of the device's cache; 0: as many as SGLang finds room for.
        requests: Computed at the same time; 0: SGLang's choice.
        host_ratio: Host cache in parts of the device's; 0: no host cache.
        store: Settings of GD2FS, ``cp``, ``cluster`` and others; None: without it.
        is_stateless: The host cache only stages pages: what is kept is in GD2FS.
        prefetch_policy: ``wait_complete``, ``timeout`` or ``best_effort``.
        prefetch_threshold: Tokens from which on a span is looked up in GD2FS.
        dtype: Of weights and cache.
        load_format: ``dummy`` makes random weights from ``seed``.
        admin_key: For attach, detach, clear and flush; empty: these need none, or are off.
        on_cpu: Flags without which SGLang does not run on a CPU.
        options: Further flags.
    """

    model: str
    port: int
    host: str = "127.0.0.1"
    served_name: str = "model"
    page_tokens: int = 64
    device_tokens: int = 0
    requests: int = 0
    host_ratio: float = 2.0
    store: Mapping[str, Any] | None = None
    is_stateless: bool = False
    prefetch_policy: str = "wait_complete"
    prefetch_threshold: int | None = None
    dtype: str = "auto"
    load_format: str = "auto"
    seed: int = 1
    admin_key: str = ""
    on_cpu: bool = False
    options: Sequence[str] = field(default=())

    def command(self, python: str) -> list[str]:
        """What to run; ``python`` is that of the environment with SGLang and gd2fs."""
        flags = ["--model-path", self.model, "--served-model-name", self.served_name]
        flags += ["--host", self.host, "--port", str(self.port)]
        flags += ["--page-size", str(self.page_tokens), "--dtype", self.dtype]
        flags += ["--load-format", self.load_format, "--random-seed", str(self.seed)]
        flags += ["--enable-metrics", "--enable-cache-report"]
        if self.device_tokens:
            flags += ["--max-total-tokens", str(self.device_tokens)]
        if self.requests:
            flags += ["--max-running-requests", str(self.requests)]
        if self.admin_key:
            flags += ["--admin-api-key", self.admin_key]
        if self.host_ratio:
            flags += self._cache_flags()
        if self.on_cpu:
            flags += ["--device", "cpu", "--attention-backend", "torch_native"]
            flags += ["--disable-overlap-schedule", "--skip-server-warmup"]
            flags += ["--mem-fraction-static", "0.9"]
        return [python, "-m", "sglang.launch_server", *flags, *self.options]

    def _cache_flags(self) -> list[str]:
        flags = ["--enable-hierarchical-cache", "--hicache-ratio", f"{self.host_ratio:g}"]
        flags += ["--hicache-write-policy", "write_through", "--hicache-mem-layout", "page_first"]
        if self.store is None:
            return flags
        flags += ["--hicache-storage-backend", "dynamic"]
        flags += ["--hicache-storage-prefetch-policy", self.prefetch_policy]
        flags += ["--hicache-storage-backend-extra-config", self.extra_config()]
        if self.is_stateless:
            flags += ["--hicache-host-memory-mode", "buffer_only"]
        return flags

    def extra_config(self) -> str:
        """The value of ``--hicache-storage-backend-extra-config``, also for attaching later."""
        settings = {**BACKEND, **(self.store or {})}
        if self.prefetch_threshold is not None:
            settings["prefetch_threshold"] = self.prefetch_threshold
        return json.dumps(settings)


def cpu_variables(threads: int = 1) -> dict[str, str]:
    """What the environment of a server on a CPU needs, beside stand-ins for CUDA's packages."""
    return {
        "SGLANG_USE_CPU_ENGINE": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": str(threads),
    }
