"""Host pools: memory with the face of SGLang's host pools, of any shape, without a model."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig

from gd2fs.engines.sglang import GD2FSStorage
from gd2fs.engines.sglang.launch import BACKEND

PAGE_TOKENS = 4


class HostPool:
    """``pages`` pages, each of ``pieces`` pieces that lie far apart.

    Args:
        pages: How many there is room for.
        pieces: Of one page.
        piece_bytes: Of one piece.
        is_addressable: Whether it says where its pages are.
        is_logical: It counts tokens and has no bytes.
    """

    def __init__(
        self,
        pages: int = 64,
        *,
        pieces: int = 2,
        piece_bytes: int = 1024,
        layout: str = "page_first",
        dtype: torch.dtype = torch.float16,
        is_addressable: bool = True,
        is_logical: bool = False,
    ) -> None:
        self.page_size = PAGE_TOKENS
        self.layout = layout
        self.dtype = dtype
        self.layer_num = max(1, pieces // 2)
        self.memory = torch.zeros(pieces, pages, piece_bytes, dtype=torch.uint8)
        self.kv_buffer = None if is_logical else self.memory
        self._is_addressable = is_addressable
        self.clear()

    def clear(self) -> None:
        """Forget which places are taken, as a flush does."""
        self.slot_used = torch.zeros(self.memory.shape[1] * PAGE_TOKENS, dtype=torch.bool)

    def get_page_buffer_meta(self, slots: torch.Tensor) -> tuple[list[int], list[int]]:
        if not self._is_addressable:
            raise NotImplementedError("pages of this pool have no addresses")
        numbers = (slots[::PAGE_TOKENS] // PAGE_TOKENS).tolist()
        pieces = [
            self.memory[piece, number] for number in numbers for piece in range(len(self.memory))
        ]
        return [piece.data_ptr() for piece in pieces], [piece.numel() for piece in pieces]

    def get_data_page(self, slot: int, flat: bool = True) -> torch.Tensor:
        return self.memory[:, slot // PAGE_TOKENS].flatten()

    def get_dummy_flat_data_page(self) -> torch.Tensor:
        return torch.zeros_like(self.memory[:, 0]).flatten()

    def set_from_flat_data_page(self, slot: int, page: torch.Tensor) -> None:
        self.memory[:, slot // PAGE_TOKENS] = page.reshape(self.memory[:, 0].shape)

    def fill(self) -> HostPool:
        """Bytes of their own in every page."""
        draw = torch.Generator().manual_seed(3)
        self.memory[:] = torch.randint(0, 256, self.memory.shape, generator=draw).to(torch.uint8)
        return self

    def page(self, number: int) -> bytes:
        return self.memory[:, number].numpy().tobytes()


def slots_of(*numbers: int) -> torch.Tensor:
    """Token slots of whole pages."""
    return torch.tensor([n * PAGE_TOKENS + at for n in numbers for at in range(PAGE_TOKENS)])


def hashes(*numbers: int) -> list[str]:
    """Hashes of pages, as SGLang makes them."""
    return [f"{number:064x}" for number in numbers]


def storage_of(settings: dict[str, Any], pools: dict[str, HostPool], **config: Any) -> GD2FSStorage:
    """A backend with these pools, attached."""
    extra = {**BACKEND, "weights": "same", **settings, **config.pop("extra", {})}
    defaults = dict(
        tp_rank=0,
        tp_size=1,
        pp_rank=0,
        pp_size=1,
        attn_cp_rank=0,
        attn_cp_size=1,
        is_mla_model=False,
        enable_storage_metrics=False,
        is_page_first_layout=True,
        model_name="model",
        extra_config=extra,
    )
    storage = GD2FSStorage(HiCacheStorageConfig(**(defaults | config)), {})
    storage.register_mem_pool_host(pools["kv"])
    for name, pool in pools.items():
        storage.register_mem_host_pool_v2(pool, name)
    storage.on_host_pools_registered()
    return storage
