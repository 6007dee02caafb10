"""Launch: the command line of a vLLM server, with and without GD2FS behind its offloading.

Tests, benchmarks and the guide start servers by this one list of flags. Flags of later options win
over these, as vLLM takes the last of each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SHUTDOWN_S = 10  # without it vLLM ends at once, and leaves its pool in /dev/shm
TIER: Mapping[str, Any] = {"type": "GD2FSTier", "module_path": "gd2fs.engines.vllm"}


@dataclass(frozen=True, slots=True)
class VllmServer:
    """One server.

    Attributes:
        model: Folder of the checkpoint, or a name that vLLM can load.
        port: Where it listens; ``host`` is the address.
        served_name: What clients call the model.
        context_tokens: Of the longest prompt and its answer; 0: the model's.
        requests: Computed at the same time; 0: vLLM's choice.
        block_tokens: Of a block of the device's cache.
        device_blocks: Of the device's cache; 0: as many as vLLM finds room for.
        chunk_tokens: Of a page: what is offloaded, stored and looked up as one.
        host_bytes: Pool in host memory that blocks are offloaded to; 0: no offloading.
        store: Settings of GD2FS, ``cp``, ``cluster`` and others; None: without it.
        prompts_only: Offload prompts, not answers.
        hash_algorithm: Of blocks: the same on every instance.
        spec: Class and module of the offloading, for a device that vLLM has none for.
        dtype: Of weights and cache.
        load_format: ``dummy`` makes random weights.
        options: Further flags.
    """

    model: str
    port: int
    host: str = "127.0.0.1"
    served_name: str = "model"
    context_tokens: int = 0
    requests: int = 0
    block_tokens: int = 32
    device_blocks: int = 0
    chunk_tokens: int = 64
    host_bytes: int = 256 << 20
    store: Mapping[str, Any] | None = None
    prompts_only: bool = True
    hash_algorithm: str = "sha256_cbor"
    spec: tuple[str, str] | None = None
    dtype: str = "auto"
    load_format: str = "auto"
    options: Sequence[str] = field(default=())

    def command(self, python: str) -> list[str]:
        """What to run; ``python`` is that of the environment with vLLM and gd2fs."""
        flags = ["--model", self.model, "--served-model-name", self.served_name]
        flags += ["--host", self.host, "--port", str(self.port)]
        flags += ["--dtype", self.dtype, "--load-format", self.load_format]
        flags += ["--block-size", str(self.block_tokens)]
        flags += ["--prefix-caching-hash-algo", self.hash_algorithm]
        flags += ["--enable-prompt-tokens-details"]
        if self.context_tokens:
            flags += ["--max-model-len", str(self.context_tokens)]
        if self.requests:
            flags += ["--max-num-seqs", str(self.requests)]
        if self.device_blocks:
            flags += ["--num-gpu-blocks-override", str(self.device_blocks)]
        if self.host_bytes:
            flags += ["--kv-transfer-config", self.transfer_config()]
            flags += ["--shutdown-timeout", str(SHUTDOWN_S)]
        module = "vllm.entrypoints.openai.api_server"
        return [python, "-m", module, *flags, *self.options]

    def transfer_config(self) -> str:
        """The value of ``--kv-transfer-config``."""
        extra: dict[str, Any] = {
            "spec_name": "TieringOffloadingSpec",
            "cpu_bytes_to_use": self.host_bytes,
            "block_size": self.chunk_tokens,
            "offload_prompt_only": self.prompts_only,
        }
        if self.spec is not None:
            extra |= {"spec_name": self.spec[0], "spec_module_path": self.spec[1]}
        if self.store is not None:
            extra["secondary_tiers"] = [{**TIER, **self.store}]
        return json.dumps(
            {
                "kv_connector": "OffloadingConnector",
                "kv_role": "kv_both",
                "kv_load_failure_policy": "recompute",
                "kv_connector_extra_config": extra,
            }
        )


def cpu_variables(threads: int = 1) -> dict[str, str]:
    """What the environment of a server on a CPU needs."""
    return {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "OMP_NUM_THREADS": str(threads),
    }


CPU_OPTIONS = ("--enforce-eager",)
