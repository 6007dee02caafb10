"""Models: geometries that are known by name, and where else one may be from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gd2fs.errors import InvalidRequest
from gd2fs.plan.geometry import SYNTAX, Geometry, as_told, from_file

KNOWN = {
    each.name: each
    for each in (
        Geometry("llama-2-7b", 32, 32, 128),
        Geometry("llama-3.1-8b", 32, 8, 128),
        Geometry("llama-3.1-70b", 80, 8, 128),
        Geometry("llama-3.1-405b", 126, 8, 128),
        Geometry("mistral-7b", 32, 8, 128),
        Geometry("qwen2.5-7b", 28, 4, 128),
        Geometry("qwen2.5-72b", 80, 8, 128),
        Geometry("qwen3-8b", 36, 8, 128),
        Geometry("qwen3-32b", 64, 8, 128),
        Geometry("deepseek-v3", 61, latent=512 + 64),
        Geometry("smollm2-135m", 30, 3, 64),
    )
}


def geometry_of(text: str, dtype: str | None = None) -> Geometry:
    """Of a known model by its name, of a checkpoint's config.json (or its folder), or as told.

    Raises:
        InvalidRequest: There is none, or it does not say all that is needed.
    """
    if "=" in text:
        found = as_told(text)
    elif text.lower() in KNOWN:
        found = KNOWN[text.lower()]
    elif Path(text).exists():
        found = from_file(Path(text))
    else:
        raise InvalidRequest(
            f"`{text}` is neither a model that is known here nor a config.json",
            hint=f"known: {', '.join(KNOWN)}; or {SYNTAX}",
        )
    return replace(found, dtype=dtype) if dtype else found
