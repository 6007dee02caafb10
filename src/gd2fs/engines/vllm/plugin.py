"""Plugin: makes the tier known to vLLM as ``gd2fs``, in every process of it.

An entry point of ``vllm.general_plugins``. It must not disturb engines that do not use the tier:
it never raises, and where vLLM's release is not known it says so and does nothing.
"""

from __future__ import annotations

import logging

from gd2fs.engines.vllm.versions import is_known, window

TIER = "gd2fs"
MODULE = "gd2fs.engines.vllm"
CLASS = "GD2FSTier"

log = logging.getLogger("vllm.gd2fs")


def register() -> None:
    """Register the tier, once per process. Never raises."""
    try:
        _register()
    except Exception as error:
        log.warning("the tier `%s` is not there: %s: %s", TIER, type(error).__name__, error)


def _register() -> None:
    from vllm.version import __version__

    if not is_known(__version__):
        log.warning(
            "the tier `%s` is not there: vLLM %s is not known to it, it fits %s",
            TIER,
            __version__,
            window(),
        )
        return
    from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory

    if TIER not in SecondaryTierFactory._registry:
        SecondaryTierFactory.register_tier(TIER, MODULE, CLASS)
