"""Recipe: what instances must have in common to come to the same keys for the same tokens.

Keys are hashes that the engine chains over blocks of tokens. Whoever hashes with another algorithm,
another seed or blocks of another size finds nothing of what others stored, without any sign of it.
So the first instance of a model records how it hashes, and later ones compare.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from gd2fs.engines.vllm.versions import is_known

SEED_UNSET = "none"
SEED_DIGITS = 16
SHOWN_MAX = 100  # characters of a value in a message

_HINTS = {
    "algorithm": "start all with the same `--prefix-caching-hash-algo`, best `sha256_cbor`",
    "seed": "set PYTHONHASHSEED to the same value for all, or for none",
    "none_hash": "start all with the same `--prefix-caching-hash-algo` and PYTHONHASHSEED",
    "tokens_per_hash": "start all with the same `--block-size`",
    "tokens_per_block": "start all with the same `--block-size`",
    "tokens_per_chunk": "give all the same `block_size` in `kv_connector_extra_config`",
    "layout": "start all with the same attention backend, or set VLLM_KV_CACHE_LAYOUT",
    "kv_packing": "run releases of vLLM that pack keys and values the same way",
    "release": "run releases of vLLM that this plug-in knows, or update gd2fs",
}


@dataclass(frozen=True, slots=True)
class HashRecipe:
    """How an instance comes to its keys.

    Attributes:
        algorithm: Name of the hash, as vLLM has it.
        seed: Digest of PYTHONHASHSEED where it is set, else ``none``.
        none_hash: What every chain begins with, in hexadecimal digits.
        tokens_per_hash: Tokens that one link of the chain is made of.
        tokens_per_block: Of the engine's blocks, of each group of layers.
        tokens_per_chunk: Of one page of ours, of each group of layers.
        layout: How the engine orders the bytes of a block.
        kv_packing: Our number for how keys and values lie in it.
        release: Of vLLM. Others may have another one that packs the same way and is known to us.
    """

    algorithm: str
    seed: str
    none_hash: str
    tokens_per_hash: int
    tokens_per_block: tuple[int, ...]
    tokens_per_chunk: tuple[int, ...]
    layout: str
    kv_packing: int
    release: str

    def as_text(self) -> str:
        """Canonical JSON: equal texts, equal recipes."""
        return json.dumps(asdict(self), sort_keys=True, indent=1)

    def differences(self, recorded: str) -> list[str]:
        """What is different in a record, one line each; nothing: it is the same recipe."""
        try:
            theirs = json.loads(recorded)
        except (ValueError, RecursionError):  # anybody can write there
            theirs = None
        if not isinstance(theirs, Mapping):
            return ["the record is none of a recipe"]
        return [
            f"{name}: recorded {_shown(theirs.get(name))}, here {_shown(ours)} ({_HINTS[name]})"
            for name, ours in self._plain().items()
            if theirs.get(name) != ours and not (name == "release" and _is_known(theirs.get(name)))
        ]

    def _plain(self) -> dict[str, Any]:
        """The fields as JSON gives them back."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }


def seed_shown(seed: str | None) -> str:
    """A digest of the seed: with hashes that are not cryptographic it is a secret."""
    if seed is None:
        return SEED_UNSET
    return hashlib.sha256(seed.encode("utf-8", "surrogateescape")).hexdigest()[:SEED_DIGITS]


def _is_known(release: Any) -> bool:
    return isinstance(release, str) and is_known(release)


def _shown(value: Any) -> str:
    """On one line, however long what is recorded is."""
    return "nothing" if value is None else " ".join(str(value).split())[:SHOWN_MAX]
