"""Device: the GPU that this process of an engine computes on. Each rank of a group has its own."""

from __future__ import annotations

import sys


def current_device() -> int | None:
    """Index among the visible GPUs; None where none is in use. Nothing is started for it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.current_device())
