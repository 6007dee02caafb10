"""Recipe: what the bytes of an instance's pages depend on, asked of SGLang itself.

What HiCache tells its backend has neither the data type nor the layout nor anything of the weights.
The first two are the host pool's, the last is fingerprinted from the checkpoint that the server
was started with. What is told is what the server was started with; a version of the weights that
was put in while it runs counts too.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from gd2fs.engines.fingerprint import FINGERPRINT_DIGITS, weights_fingerprint
from gd2fs.engines.identity import KvIdentity
from gd2fs.errors import InvalidRequest

if TYPE_CHECKING:
    from gd2fs.engines.sglang.pools import PagePool

LAYOUT_VERSION = 1  # ours; grows when the order of the bytes of a page changes
ADAPTER = "adapter_config.json"
FIRST_WEIGHTS = "default"  # version of the weights before any is put in
GEOMETRY = ("head_num", "head_dim", "v_head_dim", "kv_lora_rank", "qk_rope_head_dim")
MEANINGS = (
    "quantization",
    "quantization_param_path",
    "json_model_override_args",
    "mamba_ssm_dtype",
)


class Arguments:
    """SGLang's arguments as they are in effect; what the operator typed may say less.

    Args:
        typed: SGLang's ``ServerArgs``, with what was decided since beside it.
    """

    def __init__(self, typed: Any) -> None:
        self._typed = typed

    def __getattr__(self, name: str) -> Any:
        from sglang.srt.arg_groups.overrides import resolution_result

        return resolution_result(self._typed, name)


def server_arguments() -> Any:
    """SGLang's arguments in this process; None in one that has none."""
    from sglang.srt.runtime_context import get_server_args

    try:
        return Arguments(get_server_args())
    except ValueError:
        return None


def weights_version() -> str:
    """Version of the weights that are served now, as whoever put them in has named it."""
    from sglang.srt.runtime_context import get_serving

    try:
        return str(get_serving().weight_version or FIRST_WEIGHTS)
    except (AttributeError, ValueError):
        return FIRST_WEIGHTS


def weights_of(arguments: Any) -> str:
    """Fingerprint of the weights that SGLang was started with.

    Raises:
        InvalidRequest: They cannot be read, or nothing says which they are.
    """
    if arguments is None:
        raise InvalidRequest(
            "SGLang does not say which weights it serves",
            hint="give their fingerprint as `weights` in the backend's configuration",
        )
    return weights_fingerprint(
        local_folder(arguments.model_path, arguments.revision),
        load_format=arguments.load_format,
        seed=arguments.random_seed,
        revision=arguments.revision,
    )


def draft_of(arguments: Any) -> str:
    """Fingerprint of the draft model's weights; empty without one. Raises as ``weights_of``."""
    path = getattr(arguments, "speculative_draft_model_path", None)
    if not path:
        return ""
    revision = arguments.speculative_draft_model_revision
    return weights_fingerprint(
        local_folder(path, revision),
        load_format=arguments.speculative_draft_load_format or arguments.load_format,
        seed=arguments.random_seed,
        revision=revision,
    )


def adapters_of(arguments: Any) -> str:
    """Fingerprint of the LoRA adapters that SGLang was started with; empty without.

    Pages of an adapter go by its name and path. What is put in later is named by chance, so no
    other instance finds it. Raises as ``weights_of``.
    """
    found = getattr(arguments, "lora_paths", None)
    if not found:
        return ""
    named = sorted((str(each.lora_name), str(each.lora_path)) for each in found)
    folders = [(name, local_folder(path, None, ADAPTER)) for name, path in named]
    prints = [(name, weights_fingerprint(folder)) for name, folder in folders]
    return hashlib.sha256(repr(prints).encode()).hexdigest()[:FINGERPRINT_DIGITS]


def local_folder(model: str, revision: str | None, file: str = "config.json") -> str:
    """Where a hub's model was downloaded to; as it is when it is a path, or not found."""
    if os.path.exists(model):
        return model
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(model, file, revision=revision)
    except (ImportError, ValueError):  # the latter: it is no name that a hub could have
        return model
    return os.path.dirname(found) if isinstance(found, str) else model


def identity_of(
    config: Any,
    kv: PagePool,
    *,
    tag: str,
    weights: str,
    draft: str,
    adapters: str,
    arguments: Any,
) -> KvIdentity:
    """What all ranks of this instance share with whoever may use their pages.

    Args:
        config: SGLang's ``HiCacheStorageConfig``.
        kv: The pool of the KV cache.
        tag: The operator's.
        weights: Fingerprint.
        draft: That of the draft model, which counts where its layers lie among the others.
        adapters: That of LoRA adapters.
        arguments: SGLang's arguments, or None.
    """
    host = kv.host
    meanings = {name: str(getattr(arguments, name, None) or "") for name in MEANINGS}
    meanings |= {"weights_version": weights_version(), "adapters": adapters}
    if getattr(host, "layer_num", 0) != getattr(host, "target_layer_num", host.layer_num):
        meanings["draft"] = draft
    return KvIdentity(
        engine="sglang",
        model=config.model_name or "unnamed",
        weights=weights,
        dtype=dtype_of(host, arguments),
        layout=f"{host.layout}.{'pieces' if kv.is_in_place else 'flat'}",
        layout_version=LAYOUT_VERSION,
        page_tokens=int(config.logical_page_size or host.page_size),
        geometry={name: int(getattr(host, name, 0) or 0) for name in GEOMETRY},
        ranks=group_sizes(config),
        tag=tag,
        extra={name: value for name, value in meanings.items() if value},
    )


def dtype_of(host: Any, arguments: Any) -> str:
    """Data type of the cached values. Those of one byte are stored as bytes, whatever they mean."""
    name = str(host.dtype).removeprefix("torch.")
    if host.dtype.itemsize > 1:
        return name
    return f"{name}:{getattr(arguments, 'kv_cache_dtype', None) or 'auto'}"


def group_sizes(config: Any) -> dict[str, int]:
    """Sizes of the groups that cut a page; what all of a group have alike is not cut by it."""
    sizes = {
        "tp": 0 if config.is_mla_model else config.tp_size,
        "pp": config.pp_size,
        "cp": config.attn_cp_size,
        "dcp": config.dcp_size,
    }
    return {name: size for name, size in sizes.items() if size}


def rank_part(config: Any, *, is_cut_by_heads: bool) -> str:
    """Which part of a page this process has, for the page's key."""
    parts = [
        f"pp{config.pp_rank}-{config.pp_size}",
        f"cp{config.attn_cp_rank}-{config.attn_cp_size}",
        f"dcp{config.dcp_rank}-{config.dcp_size}",
    ]
    if is_cut_by_heads:
        parts.insert(0, f"tp{config.tp_rank}-{config.tp_size}")
    return ".".join(parts)
