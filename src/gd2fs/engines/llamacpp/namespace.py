"""Namespace: which saved conversations an instance may restore.

Only what was written with the same weights, the same layout and the same engine. All of that
is hashed into the first component of the path, so that anything else is simply not found. The
number of slots and their size are left out: a saved conversation fits any of them.
"""

from __future__ import annotations

import hashlib
import json

from gd2fs.engines.llamacpp.native import FLASH_ATTENTION_ON, KV_TYPE_F16, engine_version

FORMAT_VERSION = 1  # of what we store; llama.cpp's own file is the whole content
NAMESPACE_DIGITS = 24  # 96 bits


def namespace_of(model: str) -> str:
    """Name the namespace for a GGUF file; reads all of it, about 1 s per GiB."""
    with open(model, "rb") as file:
        weights = hashlib.file_digest(file, "sha256").hexdigest()
    recipe = {
        "engine": engine_version(),
        "flash_attention": FLASH_ATTENTION_ON,
        "format": FORMAT_VERSION,
        "kv_type": KV_TYPE_F16,
        "weights": weights,
    }
    text = json.dumps(recipe, sort_keys=True).encode()
    return "llamacpp-" + hashlib.sha256(text).hexdigest()[:NAMESPACE_DIGITS]
