"""Cost: what a fleet costs in an hour, and a million tokens of it.

A file of prices is a JSON object; all prices are for an hour:

    {"gpu": 2.5, "dram_gb": 0.004, "nvme_gb": 0.0001, "nic_gbit": 0.0005, "gpus_per_instance": 1}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from gd2fs.errors import InvalidRequest
from gd2fs.sim.engine import refuse_unknown
from gd2fs.sim.setting import Setting
from gd2fs.sim.trace import plain

GB = 1e9
HOUR_S = 3600.0
PRICE_MOST = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Of one hour, in any currency.

    Attributes:
        gpu: Of one GPU.
        dram_gb, nvme_gb: Of 10⁹ bytes of cache.
        nic_gbit: Of a Gbit/s of the NICs that GD2FS needs: engines' and nodes'.
        gpus_per_instance: That an instance runs on.
    """

    gpu: float
    dram_gb: float
    nvme_gb: float
    nic_gbit: float
    gpus_per_instance: float = 1.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (math.isfinite(value) and 0 <= value <= PRICE_MOST):
                raise InvalidRequest(
                    f"the price of `{name}` is {value:g}", hint=f"give 0 to {plain(PRICE_MOST)}"
                )


def prices_of(path: Path) -> Prices:
    """From a file. Raises InvalidRequest."""
    try:
        content = msgspec.json.decode(path.read_bytes())
        refuse_unknown(str(path), content, [each.name for each in fields(Prices)])
        return msgspec.convert(content, Prices)
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise InvalidRequest(
            f"{path} has no prices: {error}",
            hint="give gpu, dram_gb, nvme_gb and nic_gbit, each for an hour",
        ) from error


def check_priced(setting: Setting, prices: Prices) -> None:
    """Refuse what would cost nothing because nobody knows how many bytes it has: InvalidRequest."""
    nvme = setting.disk_blocks * prices.nvme_gb if setting.is_shared else 0.0
    if setting.engine.token_bytes == 0 and (setting.cache_blocks * prices.dram_gb or nvme):
        raise InvalidRequest(
            "`--prices` has a price of bytes, but how many a block has is not known",
            hint="give `--engine`, with `token_bytes` if it is a file",
        )


def cost_of(
    figures: Mapping[str, Any], setting: Setting, trace: Mapping[str, Any], prices: Prices
) -> dict[str, float]:
    """Of an hour, part by part, and of a million tokens, prompts and answers together.

    Args:
        figures: Of a run.
        setting: That it was a run of.
        trace: Facts of its trace.
        prices: Of everything.
    """
    hour = hour_of(setting, trace["block_tokens"], prices)
    elasticity = figures.get("elasticity")
    if elasticity:  # GPUs are paid while they are there
        hour["gpu"] *= elasticity["mean_instances"] / setting.instances
    tokens = trace["input_tokens"] + trace["output_tokens"]
    span_s = figures.get("span_s") or max(trace["span_s"], 1e-9)
    total = sum(hour.values())
    result = {
        **{f"{name}_per_hour": value for name, value in hour.items()},
        "per_hour": total,
    }
    if tokens:
        result["per_million_tokens"] = total * span_s / HOUR_S / tokens * 1e6
    if elasticity and elasticity["offline_tokens"]:
        spare = elasticity["spare_hours"] * prices.gpus_per_instance * prices.gpu
        result["per_million_offline_tokens"] = spare / elasticity["offline_tokens"] * 1e6
    at_goal = figures.get("requests_per_s_at_goal")
    if at_goal and tokens and not figures.get("goal_is_at_least"):
        per_hour = at_goal * HOUR_S * tokens / trace["requests"]
        result["per_million_tokens_at_goal"] = total / per_hour * 1e6
    return result


def hour_of(setting: Setting, block_tokens: int, prices: Prices) -> dict[str, float]:
    """What a fleet costs in an hour. What is unlimited has no price: it counts as nothing."""
    block_gb = block_tokens * setting.engine.token_bytes / GB
    instances = setting.instances
    gbit = instances * setting.engine_gbit + setting.nodes * setting.node_gbit
    return {
        "gpu": instances * prices.gpus_per_instance * prices.gpu,
        "dram": instances * setting.cache_blocks * block_gb * prices.dram_gb,
        "nvme": instances * setting.disk_blocks * block_gb * prices.nvme_gb
        if setting.is_shared
        else 0.0,
        "nic": gbit * prices.nic_gbit if setting.is_shared else 0.0,
    }
