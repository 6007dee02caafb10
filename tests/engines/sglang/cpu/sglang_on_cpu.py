"""SGLang's host cache on a machine whose "device" is the CPU.

HiCache copies pages between device and host memory by kernels for accelerators, and pins the host
memory for them. Here both sides are ordinary memory: nothing is pinned, and the copies are
indexing in torch. What is above that, trees, controllers, threads and storage, is SGLang's own.

SGLang calls ``put_in`` itself, early in each of its processes, through its entry point group
``sglang.srt.plugins``; the folder of this file only has to be on the path.
"""

from __future__ import annotations

import functools
from typing import Any

RESERVE_BYTES = 256 << 20  # SGLang leaves 10 GiB free, more than small machines have


def put_in() -> None:
    """Replace what needs an accelerator; nothing where there is one."""
    import torch

    if torch.cuda.is_available():
        return
    from sglang.srt.mem_cache.pool_host import base, common, mamba, mha

    if not hasattr(torch.cpu.Stream, "synchronize"):
        torch.cpu.Stream.synchronize = lambda self: None  # all that was asked for is done
    base.HICACHE_HOST_MEMORY_RESERVE_BYTES = RESERVE_BYTES
    common._cuda_host_register = lambda *arguments, **options: None
    base.HostKVCache.__init__ = _unpinned(base.HostKVCache.__init__)
    mamba.MambaPoolHost.__init__ = _unpinned(mamba.MambaPoolHost.__init__)
    mha.MHATokenToKVPoolHost.load_to_device_per_layer = load_attention
    mha.MHATokenToKVPoolHost.backup_from_device_all_layer = back_up_attention
    mamba.MambaPoolHost.load_to_device_per_layer = load_states
    mamba.MambaPoolHost.backup_from_device_all_layer = back_up_states


def _unpinned(init: Any) -> Any:
    @functools.wraps(init)
    def wrapped(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **{**options, "pin_memory": False})

    return wrapped


def load_attention(
    self: Any,
    device_pool: Any,
    host_indices: Any,
    device_indices: Any,
    layer_id: int,
    io_backend: str,
    *,
    is_draft: bool = False,
) -> None:
    """Keys and values of one layer, from host to device."""
    if not is_draft and not 0 <= layer_id < self.target_layer_num:
        return
    at, to = _host_place(self, host_indices), device_indices.long()
    self.device_k_buffers[layer_id][to] = self.k_data_refs[layer_id][at]
    self.device_v_buffers[layer_id][to] = self.v_data_refs[layer_id][at]


def back_up_attention(
    self: Any, device_pool: Any, host_indices: Any, device_indices: Any, io_backend: str
) -> None:
    """Keys and values of all layers, from device to host."""
    to, at = _host_place(self, host_indices), device_indices.long()
    for layer in range(self.layer_num):
        self.k_data_refs[layer][to] = self.device_k_buffers[layer][at]
        self.v_data_refs[layer][to] = self.device_v_buffers[layer][at]


def _host_place(pool: Any, host_indices: Any) -> tuple[Any, ...]:
    """How a layer's view of the host buffer is indexed: by token, or by page and token in it."""
    tokens = host_indices.long()
    if pool.layout == "page_first_direct":
        return tokens // pool.page_size, tokens % pool.page_size
    return (tokens,)


def load_states(
    self: Any,
    device_pool: Any,
    host_indices: Any,
    device_indices: Any,
    layer_id: int,
    io_backend: str = "kernel",
    *,
    is_draft: bool = False,
) -> None:
    """States of one layer, from host to device; the host has them as (slot, layer, 1, ...)."""
    at, to = host_indices.long(), device_indices.long()
    for device, host in _state_buffers(self):
        device[layer_id][to] = host[at, layer_id, 0]


def back_up_states(
    self: Any,
    device_pool: Any,
    host_indices: Any,
    device_indices: Any,
    io_backend: str = "kernel",
) -> None:
    """States of all layers, from device to host."""
    to, at = host_indices.long(), device_indices.long()
    for device, host in _state_buffers(self):
        for layer in range(self.num_mamba_layers):
            host[to, layer, 0] = device[layer][at]


def _state_buffers(pool: Any) -> list[tuple[Any, Any]]:
    """Each kind of state: layers on the device, and the host's buffer."""
    convolutions = zip(pool.conv_device_layers, pool.conv_buffer, strict=True)
    return [(pool.temporal_device_layers, pool.temporal_buffer), *convolutions]
