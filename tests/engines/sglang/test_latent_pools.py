"""Pages of MLA in SGLang's own host pools: one piece or one for each layer, alike on all ranks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from host_pools import hashes, storage_of
from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost

PAGE_TOKENS = 8
TOKENS = 16 * PAGE_TOKENS
LAYERS = 3


def host_pool(layout: str, *, dtype: torch.dtype = torch.bfloat16) -> MLATokenToKVPoolHost:
    """One with bytes of its own everywhere."""
    device = MLATokenToKVPool(
        TOKENS,
        page_size=PAGE_TOKENS,
        dtype=dtype,
        kv_lora_rank=64,
        qk_rope_head_dim=16,
        layer_num=LAYERS,
        device="cpu",
        enable_memory_saver=False,
    )
    host = MLATokenToKVPoolHost(
        device.get_device_pool_infos()[0].buffer_info,
        2.0,
        0,
        PAGE_TOKENS,
        layout,
        device_capacity_tokens=TOKENS,
        start_layer=0,
        end_layer=LAYERS,
        target_layer_num=LAYERS,
    )
    host.kv_buffer.copy_(torch.randn(host.kv_buffer.shape))
    return host


def slots(*pages: int) -> torch.Tensor:
    return torch.cat([torch.arange(PAGE_TOKENS) + page * PAGE_TOKENS for page in pages])


@pytest.mark.parametrize("layout", ["page_first", "page_first_direct", "layer_first"])
@pytest.mark.parametrize("interface_v1", [0, 1])
def test_a_rank_reads_what_the_writer_stored(
    store_settings: dict[str, Any], layout: str, interface_v1: int
) -> None:
    pools = [host_pool(layout) for _ in range(2)]
    ranks = [
        storage_of(
            store_settings,
            {"kv": pools[rank]},
            tp_rank=rank,
            tp_size=2,
            is_mla_model=True,
            extra={"interface_v1": interface_v1},
        )
        for rank in (0, 1)
    ]
    stored = ranks[0].batch_set_v1(hashes(0, 1), slots(2, 5))
    found = ranks[1].batch_get_v1(hashes(1, 0), slots(7, 8))
    pairs = [(2, 8), (5, 7)]
    for each in ranks:
        each.close()

    assert (stored, found) == ([True] * 2, [True] * 2)
    for one, other in pairs:
        page = pools[0].get_data_page(one * PAGE_TOKENS)
        assert page.equal(pools[1].get_data_page(other * PAGE_TOKENS))
