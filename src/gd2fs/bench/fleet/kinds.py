"""Kinds: what differs between engines: how one is started, asked and made warm."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gd2fs.bench.fleet.askers import SERVED_NAME, SglangAsker, TokenAsker, VllmAsker
from gd2fs.engines.sglang.launch import SglangServer
from gd2fs.engines.sglang.launch import cpu_variables as sglang_variables
from gd2fs.engines.vllm.launch import CPU_OPTIONS, VllmServer
from gd2fs.engines.vllm.launch import cpu_variables as vllm_variables
from gd2fs.errors import InvalidRequest

WARM_TOKENS = 512  # enough for every path of a lookup to be taken once
WARM_ANSWER_TOKENS = 4
WARM_TOKEN_IDS = range(10, 200)
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class Store:
    """A store that instances share: a node's address, and its cluster."""

    cp: str
    cluster: str


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started: its command, and what its environment has beside ours."""

    command: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """How one instance runs, in either arm.

    Attributes:
        python: Of the environment that has the engine and gd2fs.
        model: Folder of the checkpoint.
        dtype: Of weights and cache.
        device_tokens: Of the engine's own cache, the first tier in both arms.
        page_tokens: Of a page: what is stored and looked up as one.
        requests: That an instance computes at the same time.
        threads: Of its computation, on a CPU.
        load_format: ``dummy`` for random weights.
        options: Further ones for the server, as they are.
    """

    python: str
    model: str
    dtype: str = "bfloat16"
    device_tokens: int = 8192
    page_tokens: int = 64
    requests: int = 8
    threads: int = 1
    load_format: str = "auto"
    options: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_BYTES:
            raise InvalidRequest(
                f"`--dtype` is {self.dtype}", hint=f"one of {', '.join(DTYPE_BYTES)}"
            )
        if self.page_tokens < 1 or self.device_tokens < self.page_tokens:
            raise InvalidRequest(
                f"a cache of {self.device_tokens} tokens in pages of {self.page_tokens}"
            )

    def kv_bytes_per_token(self) -> int:
        """Of the KV cache: keys and values of all layers. Raises InvalidRequest."""
        config = self._config()
        try:
            heads = config["num_attention_heads"]
            kv_heads = config.get("num_key_value_heads") or heads
            head_dim = config.get("head_dim") or config["hidden_size"] // heads
            layers = config["num_hidden_layers"]
        except KeyError as error:
            raise InvalidRequest(f"{self.model}/config.json has no {error}") from error
        return 2 * layers * kv_heads * head_dim * DTYPE_BYTES[self.dtype]

    def _config(self) -> dict[str, Any]:
        try:
            return json.loads((Path(self.model) / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidRequest(
                f"cannot read the model's configuration: {error}",
                hint="pass the folder of a checkpoint as `--model`",
            ) from error


class Kind(Protocol):
    """An engine, as the run needs it."""

    title: str

    @property
    def staging_bytes(self) -> int:
        """Host memory that an instance with a store needs beside it."""

    def launch(self, *, port: int, store: Store | None, host_bytes: int) -> Launch:
        """How a server is started that has ``host_bytes`` for caches in host memory."""

    def asker(self) -> TokenAsker:
        """What asks its servers."""

    def facts(self) -> dict[str, Any]:
        """Name and settings, for the result."""


async def warm(asker: Any, address: str) -> None:
    """Have a request answered that shares nothing with those that are measured."""
    source = random.Random(address)
    prompt = source.choices(WARM_TOKEN_IDS, k=WARM_TOKENS)
    for _ in range(2):  # the second one finds the first
        await asker.ask(address, prompt, answer_tokens=WARM_ANSWER_TOKENS, session="warm")


class SglangKind:
    """SGLang with HiCache: private host caches, or a small host pool that stages for GD2FS.

    Args:
        setup: Of an instance.
        on_cpu: Whether it runs on a CPU.
    """

    title = "SGLang"
    STAGING_RATIO = 1.25  # of the host pool to the device's cache: SGLang wants it larger

    def __init__(self, setup: EngineSetup, *, on_cpu: bool) -> None:
        self._setup = setup
        self._on_cpu = on_cpu
        self._device_bytes = setup.device_tokens * setup.kv_bytes_per_token()

    @property
    def staging_bytes(self) -> int:
        return round(self._device_bytes * self.STAGING_RATIO)

    def launch(self, *, port: int, store: Store | None, host_bytes: int) -> Launch:
        setup = self._setup
        server = SglangServer(
            model=setup.model,
            port=port,
            served_name=SERVED_NAME,
            page_tokens=setup.page_tokens,
            device_tokens=setup.device_tokens,
            requests=setup.requests,
            host_ratio=host_bytes / self._device_bytes,
            store=None if store is None else {"cp": store.cp, "cluster": store.cluster},
            is_stateless=store is not None,
            prefetch_threshold=setup.page_tokens,
            dtype=setup.dtype,
            load_format=setup.load_format,
            on_cpu=self._on_cpu,
            options=setup.options,
        )
        variables = sglang_variables(setup.threads) if self._on_cpu else {}
        return Launch(server.command(setup.python), variables)

    def asker(self) -> SglangAsker:
        return SglangAsker()

    def facts(self) -> dict[str, Any]:
        return {"name": "sglang", **asdict(self._setup), "device_bytes": self._device_bytes}


class VllmKind:
    """vLLM with its offloading: private host pools, or small ones that stage for GD2FS.

    Args:
        setup: Of an instance.
        on_cpu: Whether it runs on a CPU.
        spec: Class and module of the offloading, where vLLM has none for the device.
    """

    title = "vLLM"
    STAGING_PAGES = 64  # of loads and stores under way
    BLOCK_TOKENS = 32  # a CPU takes multiples of it only
    CONTEXT_TOKENS_MAX = 8192

    def __init__(
        self, setup: EngineSetup, *, on_cpu: bool, spec: tuple[str, str] | None = None
    ) -> None:
        self._setup = setup
        self._on_cpu = on_cpu
        self._spec = spec
        self._device_bytes = setup.device_tokens * setup.kv_bytes_per_token()

    @property
    def staging_bytes(self) -> int:
        setup = self._setup
        page_bytes = setup.page_tokens * setup.kv_bytes_per_token()
        return max(self._device_bytes // 2, self.STAGING_PAGES * page_bytes)

    def launch(self, *, port: int, store: Store | None, host_bytes: int) -> Launch:
        setup = self._setup
        server = VllmServer(
            model=setup.model,
            port=port,
            served_name=SERVED_NAME,
            context_tokens=min(setup.device_tokens - self.BLOCK_TOKENS, self.CONTEXT_TOKENS_MAX),
            requests=setup.requests,
            block_tokens=self.BLOCK_TOKENS,
            device_blocks=setup.device_tokens // self.BLOCK_TOKENS,
            chunk_tokens=setup.page_tokens,
            host_bytes=host_bytes,
            store=None if store is None else {"cp": store.cp, "cluster": store.cluster},
            prompts_only=False,  # the next turn begins with this one's answer
            spec=self._spec,
            dtype=setup.dtype,
            load_format=setup.load_format,
            options=(*(CPU_OPTIONS if self._on_cpu else ()), *setup.options),
        )
        variables = vllm_variables(setup.threads) if self._on_cpu else {}
        return Launch(server.command(setup.python), variables)

    def asker(self) -> VllmAsker:
        return VllmAsker()

    def facts(self) -> dict[str, Any]:
        return {"name": "vllm", **asdict(self._setup), "device_bytes": self._device_bytes}


def kind_of(engine: str, setup: EngineSetup, *, on_cpu: bool, spec: str) -> Kind:
    """The engine of this name.

    Args:
        engine: ``sglang`` or ``vllm``.
        setup: Of an instance.
        on_cpu: Whether it runs on a CPU.
        spec: ``MODULE:CLASS`` of vLLM's offloading; empty: its own.

    Raises:
        InvalidRequest: There is no such engine, or no model was named.
    """
    if not setup.model:
        raise InvalidRequest("no model is named", hint="pass the checkpoint as `--model FOLDER`")
    if engine == "sglang":
        return SglangKind(setup, on_cpu=on_cpu)
    if engine != "vllm":
        raise InvalidRequest(f"no engine `{engine}`", hint="pass `--engine sglang` or `vllm`")
    module, _, name = spec.partition(":")
    return VllmKind(setup, on_cpu=on_cpu, spec=(name, module) if spec else None)
