"""Facts: what an instance of vLLM is, as far as its cache is concerned.

The interface for tiers tells what a block is, but not how its key came about: the configuration of
the engine does. It is passed down through the constructors that lead to ours, so it is taken from
their frames; a release where it is not found is none that is known.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from gd2fs.engines.fingerprint import weights_fingerprint
from gd2fs.engines.identity import KvIdentity
from gd2fs.engines.settings import StoreSettings
from gd2fs.engines.vllm.recipe import HashRecipe, seed_shown
from gd2fs.engines.vllm.versions import KV_PACKING, window
from gd2fs.errors import InvalidRequest

ENGINE = "vllm"
FRAMES_MAX = 32
CONFIG_NAME = "vllm_config"  # what vLLM's constructors call their configuration
CONFIG_CLASS = "VllmConfig"
HASHED_DIGITS = 16
SECRET_SEED_ALGORITHMS = (
    "xxhash",
    "xxhash_cbor",
)  # a random seed in each process, unless it is set
SEED_VARIABLE = "PYTHONHASHSEED"
# Of a checkpoint's configuration: says nothing of how it computes.
IGNORED_OF_CONFIG = ("_name_or_path", "_commit_hash", "transformers_version", "architectures")


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What an instance is.

    Attributes:
        identity: Of its pages.
        recipe: Of its keys.
        page_tokens: Of one page, of each group of layers.
    """

    identity: KvIdentity
    recipe: HashRecipe
    page_tokens: tuple[int, ...]

    def meeting_place(self) -> KvIdentity:
        """What instances have in common that are meant to share, whether or not they can.

        Its namespace holds no pages, only their recipe.
        """
        ours = self.identity
        return KvIdentity(
            engine=ENGINE,
            model=ours.model,
            weights=ours.weights,
            dtype=ours.dtype,
            layout="any",
            layout_version=0,
            page_tokens=0,
            ranks=ours.ranks,
            tag=ours.tag,
            extra=ours.extra,
        )


def engine_config(frame: FrameType | None = None) -> Any:
    """The configuration of the engine that is being built, from the callers' frames.

    Raises:
        InvalidRequest: There is none.
    """
    frame = frame or sys._getframe(1)
    for _ in range(FRAMES_MAX):
        if frame is None:
            break
        found = frame.f_locals.get(CONFIG_NAME)
        if type(found).__name__ == CONFIG_CLASS:
            return found
        frame = frame.f_back
    raise InvalidRequest(
        "this release of vLLM does not hand its configuration to where tiers are made",
        hint=f"use a release of {window()}",
    )


def facts_of(
    config: Any,
    offloading: Any,
    settings: StoreSettings,
    *,
    release: tuple[int, int],
    page_bytes: int,
    environment: Mapping[str, str] = os.environ,
) -> EngineFacts:
    """What the instance is.

    Args:
        config: The engine's.
        offloading: The ``OffloadingConfig`` of the tier.
        settings: Ours.
        release: Of vLLM.
        page_bytes: Of one chunk of the pool, padding included.
        environment: Of the process.

    Raises:
        InvalidRequest: Keys or pages of this instance would have no meaning for others.
    """
    groups = offloading.groups
    chunk_blocks = offloading.cache.blocks_per_chunk
    page_tokens = tuple(group.tokens_per_block * chunk_blocks for group in groups)
    packing = KV_PACKING[release]
    layout = _layout_of(offloading)
    identity = KvIdentity(
        engine=ENGINE,
        model=_served_name(config.model_config),
        weights=settings.weights or _fingerprint_of(config),
        dtype=offloading.model.dtype,
        layout=layout,
        layout_version=packing,
        page_tokens=max(page_tokens),
        geometry=_geometry_of(offloading, page_tokens, page_bytes),
        ranks=_ranks_of(offloading.parallel),
        tag=_checked_tag(config, settings),
        extra=_extra_of(config),
    )
    recipe = HashRecipe(
        **_hashing_of(config.cache_config.prefix_caching_hash_algo, environment),
        tokens_per_hash=offloading.cache.tokens_per_hash,
        tokens_per_block=tuple(group.tokens_per_block for group in groups),
        tokens_per_chunk=page_tokens,
        layout=layout,
        kv_packing=packing,
        release=".".join(map(str, release)),
    )
    return EngineFacts(identity, recipe, page_tokens)


def _served_name(model: Any) -> str:
    names = model.served_model_name
    if isinstance(names, list | tuple):
        names = names[0] if names else None
    return str(names or model.model)


def _fingerprint_of(config: Any) -> str:
    model = config.model_config
    return weights_fingerprint(
        getattr(model, "model_weights", "") or model.model,
        load_format=str(config.load_config.load_format),
        seed=model.seed,
        revision=model.revision,
    )


def _layout_of(offloading: Any) -> str:
    """As vLLM has it; ``canonical`` bytes are another thing than those of the blocks."""
    name = str(offloading.kv_cache_layout or "unnamed")
    if offloading.canonical_layout:
        return f"canonical-{name}"
    return f"replicated-{name}" if offloading.replicated_layout else name


def _geometry_of(offloading: Any, page_tokens: tuple[int, ...], page_bytes: int) -> dict[str, int]:
    sizes = {
        "page_bytes": page_bytes,
        "worker_block_bytes": offloading.worker_kv_bytes_per_block,
        "blocks_per_chunk": offloading.cache.blocks_per_chunk,
        "tokens_per_hash": offloading.cache.tokens_per_hash,
        "groups": len(offloading.groups),
    }
    for at, (group, tokens) in enumerate(zip(offloading.groups, page_tokens, strict=True)):
        sizes[f"group{at}_id"] = group.group_id
        sizes[f"group{at}_layers"] = len(group.layer_names)
        sizes[f"group{at}_page_tokens"] = tokens
    return sizes


def _ranks_of(parallel: Any) -> dict[str, int]:
    return {
        "world": parallel.world_size,
        "tp": parallel.tp_size,
        "pp": parallel.pp_size,
        "pcp": parallel.pcp_size,
        "dcp": parallel.dcp_size,
    }


def _checked_tag(config: Any, settings: StoreSettings) -> str:
    if config.lora_config is not None and not settings.tag:
        raise InvalidRequest(
            "adapters (LoRA) are told apart by their names alone",
            hint="give a `tag` that changes whenever the weights of an adapter do",
        )
    return settings.tag


def _extra_of(config: Any) -> dict[str, str]:
    """What changes the values in the cache and is neither weights nor shape."""
    model, cache = config.model_config, config.cache_config
    speculative = config.speculative_config
    return {
        "model_dtype": str(model.dtype).removeprefix("torch."),
        "quantization": str(model.quantization),
        "cache_dtype": str(cache.cache_dtype),
        "sliding_window": "off" if model.disable_sliding_window else "on",
        "mamba_dtypes": f"{cache.mamba_cache_dtype} {cache.mamba_ssm_cache_dtype}",
        "model_config": _digest(_plain_config(model.hf_config)),
        "draft": "none" if speculative is None else _digest(_draft_of(speculative)),
    }


def _plain_config(hf_config: Any) -> dict[str, Any]:
    """The checkpoint's configuration after all that the command line changes in it."""
    plain = hf_config.to_dict()
    return {name: value for name, value in plain.items() if name not in IGNORED_OF_CONFIG}


def _draft_of(speculative: Any) -> dict[str, str]:
    return {name: str(getattr(speculative, name, None)) for name in ("method", "model", "revision")}


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HASHED_DIGITS]


def _hashing_of(algorithm: str, environment: Mapping[str, str]) -> dict[str, str]:
    """How chains of hashes begin, as vLLM will have it once it is built."""
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core.kv_cache_utils import DEFAULT_NONE_HASH_SEED

    seed = environment.get(SEED_VARIABLE)
    if seed is None and algorithm in SECRET_SEED_ALGORITHMS:
        raise InvalidRequest(
            f"`--prefix-caching-hash-algo {algorithm}` has another seed in every process, "
            "so no two instances would share a page",
            hint=f"use `sha256_cbor`, or set {SEED_VARIABLE} to the same value for all instances",
        )
    start = get_hash_fn_by_name(algorithm)(DEFAULT_NONE_HASH_SEED if seed is None else seed)
    return {"algorithm": algorithm, "seed": seed_shown(seed), "none_hash": start.hex()}
