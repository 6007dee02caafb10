"""Geometry: how many bytes of KV cache a token of a model has.

Attention with heads (MHA, GQA, MQA) keeps a key and a value for each layer and head of keys; latent
attention (MLA) one compressed vector for each layer, which all heads share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gd2fs.errors import InvalidRequest

CONFIG_BYTES_MAX = 1 << 20
LAYERS_MAX, HEADS_MAX, DIM_MAX = 1_000, 1_024, 16_384
DTYPES = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "fp8": 1,
    "int8": 1,
}
FIELDS = ("layers", "kv_heads", "head_dim", "latent")
SYNTAX = "`layers=32,kv_heads=8,head_dim=128`, or `layers=61,latent=576` for MLA"


@dataclass(frozen=True, slots=True)
class Geometry:
    """Of the KV cache of one model.

    Attributes:
        name: Of the model.
        layers: That have a cache.
        kv_heads: Of keys and values; 0 for latent attention.
        head_dim: Values of one head.
        latent: Values of the compressed vector of a layer, its rotary part included; 0 without.
        dtype: Of the cache, see ``DTYPES``.
        remark: What these numbers leave out; empty when nothing.
    """

    name: str
    layers: int
    kv_heads: int = 0
    head_dim: int = 0
    latent: int = 0
    dtype: str = "bfloat16"
    remark: str = ""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise InvalidRequest(
                f"`{self.dtype}` is no type of a cache", hint=f"one of {', '.join(DTYPES)}"
            )
        _check(self.name, "layers", self.layers, LAYERS_MAX)
        if self.latent:
            _check(self.name, "latent", self.latent, DIM_MAX)
        else:
            _check(self.name, "kv_heads", self.kv_heads, HEADS_MAX)
            _check(self.name, "head_dim", self.head_dim, DIM_MAX)

    @property
    def token_bytes(self) -> int:
        """``layers * 2 * kv_heads * head_dim * bytes``, or ``layers * latent * bytes``."""
        values = self.latent or 2 * self.kv_heads * self.head_dim
        return self.layers * values * DTYPES[self.dtype]


def from_config(name: str, config: Mapping[str, Any]) -> Geometry:
    """Of the contents of a config.json as Hugging Face has them. Raises InvalidRequest."""
    text = config.get("text_config")
    own = {**config, **text} if isinstance(text, dict) else dict(config)
    layers = _number(name, own, "num_hidden_layers")
    dtype = str(own.get("dtype") or own.get("torch_dtype") or "bfloat16")
    dtype = dtype if dtype in DTYPES else "bfloat16"
    remark = _remark(own)
    if own.get("kv_lora_rank"):
        latent = _number(name, own, "kv_lora_rank") + _number(name, own, "qk_rope_head_dim")
        return Geometry(name, layers, latent=latent, dtype=dtype, remark=remark)
    heads = _number(name, own, "num_attention_heads")
    kv_heads = int(own.get("num_key_value_heads") or heads)
    head_dim = int(own.get("head_dim") or _number(name, own, "hidden_size") // heads)
    return Geometry(name, layers, kv_heads, head_dim, dtype=dtype, remark=remark)


def from_file(path: Path) -> Geometry:
    """Of a config.json, or of the folder that it is in. Raises InvalidRequest."""
    file = path / "config.json" if path.is_dir() else path
    try:
        with file.open("rb") as opened:
            config = json.loads(opened.read(CONFIG_BYTES_MAX))
    except OSError as cause:
        raise InvalidRequest(
            f"cannot read {file}: {cause.strerror}", hint="name the config.json of a checkpoint"
        ) from cause
    except ValueError as cause:
        raise InvalidRequest(f"{file} is not JSON: {cause}", hint="name a config.json") from cause
    if not isinstance(config, dict):
        raise InvalidRequest(f"{file} is no configuration", hint="name a config.json")
    return from_config(str(path), config)


def as_told(text: str) -> Geometry:
    """Of ``layers=32,kv_heads=8,head_dim=128`` and the like. Raises InvalidRequest."""
    values: dict[str, int] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key.strip() not in FIELDS or not value.strip().isdigit():
            raise InvalidRequest(f"`{part}` says nothing of a cache", hint=SYNTAX)
        values[key.strip()] = int(value)
    layers, kv_heads, head_dim, latent = (values.get(name, 0) for name in FIELDS)
    return Geometry(text, layers, kv_heads, head_dim, latent)


def _remark(config: Mapping[str, Any]) -> str:
    kinds = set(config.get("layer_types") or ()) - {"full_attention"}
    if kinds:
        return f"layers of {', '.join(sorted(kinds))} are counted as full attention: it is less"
    return ""


def _number(name: str, config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise InvalidRequest(f"{name} has no `{key}`", hint=f"tell its cache: {SYNTAX}")
    return value


def _check(name: str, field: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise InvalidRequest(f"`{field}` of {name} is {value}", hint=f"1 to {most}; {SYNTAX}")
