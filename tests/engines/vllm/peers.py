"""Peers: real vLLM servers on one store, asked for tokens and for their counters."""

from __future__ import annotations

import contextlib
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from engines.servers import EngineServer, wait_until
from prometheus_client.parser import text_string_to_metric_families

from gd2fs.engines.vllm.launch import CPU_OPTIONS, VllmServer, cpu_variables
from gd2fs.testing import Cluster
from gd2fs.testing.cluster import free_ports

TESTS = Path(__file__).resolve().parent.parent.parent
SPEC = ("HostCopySpec", "engines.vllm.cpu_spec")
CHUNK_TOKENS = 64
POOL_BYTES = 320 << 20
DEVICE_BLOCKS = 160  # of 32 tokens: few, so that prompts go and come back
# Computing and loading are compared token by token, which the rounding of bfloat16 would not allow.
DTYPE = "float32"
DEADLINES = {"lookup_timeout_s": 0.5, "load_timeout_s": 5.0, "store_timeout_s": 2.0}
ANSWER_S = 90.0  # on a busy machine; the deadlines are far below
PATIENCE_S = 60.0
WORDS = ["harbour", "lantern", "river", "signal", "meadow", "winter", "engine", "letter"]
WORDS += ["garden", "copper", "silent", "bridge", "captain", "morning", "shadow", "village"]


class Peer:
    """One server.

    Args:
        name: Of its log.
        model: Folder of the checkpoint.
        store: The nodes it uses.
        folder: Where its log goes.
        tier: Settings of its tier beside those of every server.
        variables: Environment beside that of every server.
        server: What is different from every server.
    """

    def __init__(
        self,
        name: str,
        model: str,
        store: Cluster,
        folder: Path,
        *,
        tier: dict[str, Any] | None = None,
        variables: dict[str, str] | None = None,
        **server: Any,
    ) -> None:
        (port,) = free_ports(1)
        where = {"cp": store.cp, "cluster": store.name, "never_slower": False}
        settings: dict[str, Any] = {
            "context_tokens": 2048,
            "requests": 8,
            "device_blocks": DEVICE_BLOCKS,
            "chunk_tokens": CHUNK_TOKENS,
            "host_bytes": POOL_BYTES,
            "store": where | DEADLINES | (tier or {}),
            "prompts_only": False,
            "spec": SPEC,
            "dtype": DTYPE,
            "options": CPU_OPTIONS,
        }
        launch = VllmServer(model, port, **(settings | server))
        self.server = EngineServer(
            name,
            launch.command(sys.executable),
            f"http://127.0.0.1:{port}",
            folder,
            variables={**cpu_variables(), **_own_variables(), **(variables or {})},
        )

    @property
    def namespace(self) -> str:
        """Of its pages, from its log."""
        found = re.search(r"namespace (vllm-\S+),", self.server.log.read_text(errors="replace"))
        assert found, "it has not said its namespace"
        return found[1]

    def ask(self, prompt: Sequence[int], tokens: int = 16) -> list[int]:
        """The tokens that it goes on with, greedily."""
        answer = self.server.post(
            "/v1/completions",
            {
                "model": "model",
                "prompt": list(prompt),
                "max_tokens": tokens,
                "min_tokens": tokens,
                "temperature": 0.0,
                "return_token_ids": True,
            },
            timeout=ANSWER_S,
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]["token_ids"]

    def counter(self, name: str, **labels: str) -> float:
        """A counter of vLLM's, over all that has these labels."""
        text = self.server.get("/metrics").text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def hits(self) -> float:
        """Tokens of prompts that came from outside."""
        return self.counter("vllm:external_prefix_cache_hits_total")

    def stored(self) -> float:
        """Chunks that it has stored."""
        return self.counter("vllm:kv_offload_gd2fs_stored_chunks_total")

    def forget(self) -> None:
        """Drop what it has in the device's cache and in its pool."""
        answer = self.server.post("/reset_prefix_cache?reset_external=true")
        assert answer.status_code == 200, answer.text

    def is_healthy(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return self.server.get("/health", timeout=PATIENCE_S).status_code == 200
        return False

    def keep(self, prompt: Sequence[int], tokens: int = 16) -> list[int]:
        """Compute a new prompt and store it; what it says of it with its own cache."""
        self.store(prompt, 1)
        return self.ask(prompt, tokens)

    def store(self, prompt: Sequence[int], tokens: int) -> list[int]:
        """As ``ask``, of a new prompt; on return all of its whole chunks are in the store."""
        before = self.stored()
        answer = self.ask(prompt, tokens)
        # The last token is said and not computed: it is in no chunk yet.
        chunks = (len(prompt) + len(answer) - 1) // CHUNK_TOKENS
        wait_until(lambda: self.stored() >= before + chunks, PATIENCE_S, "the chunks are stored")
        return answer


def prompt_of(tokenizer: Any, seed: int, tokens: int) -> list[int]:
    """So many tokens of a text that no other seed has."""
    source = random.Random(seed)
    text = f"Chapter {seed}. " + " ".join(source.choices(WORDS, k=tokens))
    return tokenizer(text)["input_ids"][:tokens]


def _own_variables() -> dict[str, str]:
    """What the CPU build asks for in its log: the OpenMP that its wheel brings is steadier."""
    openmp = Path(sys.prefix) / "lib" / "libiomp5.so"
    variables = {"PYTHONPATH": str(TESTS), "VLLM_SERVER_DEV_MODE": "1"}
    return variables | ({"LD_PRELOAD": str(openmp)} if openmp.is_file() else {})
