"""Instances: real SGLang servers on this machine's CPU, and what is asked of them."""

from __future__ import annotations

import hashlib
import random
import re
import struct
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.servers import EngineServer, wait_until

from gd2fs.engines.sglang.launch import SglangServer, cpu_variables
from gd2fs.testing.cluster import free_ports

CPU = Path(__file__).resolve().parent / "cpu"  # stand-ins for what needs an accelerator
ADMIN_KEY = "tests"
PAGE_TOKENS = 16
ANSWER_TOKENS = 12
TOKEN_IDS = range(5, 300)  # those of words and bytes
PATIENCE_S = 60.0
STORE_PATH = "/hicache/storage-backend"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said to a prompt.

    Attributes:
        tokens: Its answer.
        cached: Tokens of the prompt that were not computed.
        stored: Of these, loaded from GD2FS.
        seconds: From question to answer.
    """

    tokens: list[int]
    cached: int
    stored: int
    seconds: float


class Instance:
    """One server. ``server`` is its process, ``flags`` how it was started."""

    def __init__(
        self, name: str, model: Path, folder: Path, *, device_tokens: int = 8192, **flags: Any
    ) -> None:
        variables = {
            **cpu_variables(),
            "PYTHONPATH": str(CPU),
            **flags.pop("variables", {}),
        }
        self.flags = SglangServer(
            model=str(model),
            port=free_ports(1)[0],
            page_tokens=PAGE_TOKENS,
            device_tokens=device_tokens,
            requests=8,
            dtype="float32",  # so that a cache that is kept and one that is computed agree
            admin_key=ADMIN_KEY,
            on_cpu=True,
            **flags,
        )
        url = f"http://127.0.0.1:{self.flags.port}"
        command = self.flags.command(sys.executable)
        self.server = EngineServer(name, command, url, folder, variables)

    def ask(self, prompt: list[int]) -> Answer:
        """Have a prompt answered, greedily."""
        begin = time.monotonic()
        sampling = {"max_new_tokens": ANSWER_TOKENS, "temperature": 0, "ignore_eos": True}
        body = {"input_ids": prompt, "sampling_params": sampling}
        response = self.server.post("/generate", body)
        assert response.status_code == 200, response.text
        answer = response.json()
        said = answer["meta_info"]
        stored = (said.get("cached_tokens_details") or {}).get("storage", 0)
        seconds = time.monotonic() - begin
        return Answer(answer["output_ids"], said["cached_tokens"], stored, seconds)

    def flush(self) -> None:
        """Forget what device and host memory have. Refused as long as something is under way."""
        wait_until(
            lambda: self._admin("POST", "/flush_cache").status_code == 200, PATIENCE_S, "flushed"
        )

    def attach(self, store: Mapping[str, Any]) -> None:
        """Put GD2FS behind the host cache while the server runs."""
        flags = SglangServer("", 0, store=store)
        self._expect(
            "PUT",
            {
                "hicache_storage_backend": "dynamic",
                "hicache_storage_backend_extra_config_json": flags.extra_config(),
                "hicache_storage_prefetch_policy": "wait_complete",
                "hicache_write_policy": "write_through",
            },
        )

    def detach(self) -> None:
        """Take it away again."""
        self._expect("DELETE", None)

    def clear(self) -> None:
        """Forget what the store has of this model."""
        assert self._admin("POST", f"{STORE_PATH}/clear").status_code == 200

    def metric(self, name: str) -> float:
        """One of our counters, over all of the server's processes."""
        text = self.server.get("/metrics").text
        values = re.findall(rf"^gd2fs_sglang_{name}\{{[^}}]*\}} (\S+)$", text, re.MULTILINE)
        return sum(map(float, values))

    def wait_stored(self, pages: float) -> None:
        """Wait until it has stored so many pages in all; it stores after it has answered."""
        wait_until(lambda: self.metric("stored_pages_total") >= pages, PATIENCE_S, "stored")

    def namespace(self) -> str:
        """Where its pages are, as its log says."""
        found = re.findall(r"pages are in namespace (\S+),", self.server.log.read_text())
        assert found, f"{self.server.name} has no store"
        return found[-1]

    def _expect(self, method: str, body: Any) -> None:
        def is_done() -> bool:
            return self._admin(method, STORE_PATH, json=body).status_code == 200

        wait_until(is_done, PATIENCE_S, f"{method} {STORE_PATH}")  # refused unless it is idle

    def _admin(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        return self.server.request(method, path, headers=headers, **options)


def prompt(seed: int, tokens: int) -> list[int]:
    """A prompt of its own."""
    return random.Random(seed).choices(TOKEN_IDS, k=tokens)


def pages_of(tokens: int) -> int:
    """Whole pages of a prompt that can be looked up: its last token is always computed."""
    return (tokens - 1) // PAGE_TOKENS


def page_hashes(tokens: list[int]) -> list[str]:
    """What SGLang calls the pages of a prompt: each hash is over the one before and its tokens."""
    hashes, before = [], b""
    for at in range(0, len(tokens) - PAGE_TOKENS + 1, PAGE_TOKENS):
        page = struct.pack(f"<{PAGE_TOKENS}I", *tokens[at : at + PAGE_TOKENS])
        before = hashlib.sha256(before + page).digest()
        hashes.append(before.hex())
    return hashes
