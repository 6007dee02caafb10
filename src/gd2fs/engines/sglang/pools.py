"""Pools: SGLang's host memory, page by page, as buffers that the store reads and fills in place.

A host pool says by ``get_page_buffer_meta`` where the bytes of its pages lie: one piece, keys and
values apart, or two pieces for each layer. A page is one object of all its pieces in that order.
A pool that cannot say so is copied, page by page.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import torch

Piece: TypeAlias = tuple[int, int]  # address and length
PageBuffers: TypeAlias = "Piece | list[Piece]"

DIGEST_DIGITS = 12
TRAITS = (
    *("layout", "dtype", "page_size", "dcp_size", "storage_format_tag"),
    *("start_layer", "end_layer", "layer_num", "num_mamba_layers"),
    *("head_num", "head_dim", "v_head_dim", "kv_lora_rank", "qk_rope_head_dim", "kv_cache_dim"),
    *("conv_state_shapes", "temporal_state_shape", "conv_dtype", "temporal_dtype"),
    *("indexer_dtype", "index_head_dim", "size_per_token", "item_bytes"),
)

log = logging.getLogger(__name__)


class PagePool:
    """One host pool of SGLang, as pages.

    Args:
        name: As SGLang calls it: ``kv``, ``mamba``, ``swa`` and so on.
        host: SGLang's pool.
        is_flat: Its pages come and go as flat tensors, in the order that these have.
        salt: What else its bytes depend on.
    """

    def __init__(self, name: str, host: Any, *, is_flat: bool = False, salt: str = "") -> None:
        self.name = name
        self.host = host
        self.page_slots = int(getattr(host, "logical_page_size", 0) or host.page_size or 1)
        self.has_bytes = getattr(host, "kv_buffer", None) is not None
        self._pieces = [] if is_flat or not self.has_bytes else _pieces_of(host, self.page_slots)
        self.is_in_place = bool(self._pieces)
        self.page_bytes = sum(self._pieces) or (_flat_bytes(host) if self.has_bytes else 0)
        self.digest = _digest(self.traits() | {"salt": salt})

    def traits(self) -> dict[str, Any]:
        """All that the bytes of its pages depend on, but what the model is."""
        found = {name: getattr(self.host, name, None) for name in TRAITS}
        form = {"pieces": self._pieces, "is_in_place": self.is_in_place}
        return {"pool": type(self.host).__name__, "name": self.name, **found, **form}

    def memory(self) -> list[Piece]:
        """Where all of it lies; nothing where pages are copied."""
        whole = self.host.kv_buffer if self.is_in_place else ()
        tensors = whole if isinstance(whole, list | tuple) else [whole]
        return [piece_of(each) for each in tensors if each.is_contiguous()]

    def buffers(self, slots: torch.Tensor) -> list[PageBuffers]:
        """Where the pages lie whose token slots are ``slots``, ``page_slots`` for each page."""
        addresses, lengths = self.host.get_page_buffer_meta(slots)
        pieces = list(zip(map(int, addresses), map(int, lengths), strict=True))
        count = len(self._pieces)
        if count == 1:
            return list(pieces)
        return [pieces[at : at + count] for at in range(0, len(pieces), count)]

    def copies(self, slots: torch.Tensor) -> list[torch.Tensor]:
        """Copies of the pages, flat."""
        firsts = slots[:: self.page_slots].tolist()
        return [self.host.get_data_page(first, flat=True).contiguous() for first in firsts]

    def blanks(self, count: int) -> list[torch.Tensor]:
        """Flat pages to be filled."""
        return [self.host.get_dummy_flat_data_page() for _ in range(count)]

    def fill_in(self, slots: torch.Tensor, pages: Sequence[torch.Tensor | None]) -> None:
        """Put flat pages where they belong; None leaves a page as it is."""
        for first, page in zip(slots[:: self.page_slots].tolist(), pages, strict=True):
            if page is not None:
                self.host.set_from_flat_data_page(first, page)


def piece_of(tensor: torch.Tensor) -> Piece:
    """The memory of a contiguous tensor, which has to outlive its use."""
    return tensor.data_ptr(), tensor.numel() * tensor.element_size()


def _pieces_of(host: Any, page_slots: int) -> list[int]:
    """Lengths of the pieces of one page; none where the pool cannot say where they are."""
    import torch

    try:
        _, lengths = host.get_page_buffer_meta(torch.arange(page_slots))
    except (AttributeError, NotImplementedError, ValueError) as error:
        log.warning("pages of %s are copied: %s", type(host).__name__, error)
        return []
    return [int(length) for length in lengths]


def _flat_bytes(host: Any) -> int:
    """Bytes of one flat page; 0 where the pool has none, which is then of no use to a store."""
    try:
        return piece_of(host.get_dummy_flat_data_page())[1]
    except (AttributeError, NotImplementedError) as error:
        log.error("pages of %s cannot be stored: %s", type(host).__name__, error)
        return 0


def _digest(traits: dict[str, Any]) -> str:
    text = json.dumps(traits, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]
