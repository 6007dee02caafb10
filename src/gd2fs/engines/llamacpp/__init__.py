"""llama.cpp as a stateless server: a turn is restore, complete, save.

The engine is llama.cpp's own server, inside this process. In front of it stands a small
ASGI application that gives every request a slot, loads the conversation's KV cache into it
from GD2FS, and stores it again before the last event of the answer leaves. So whoever has the
whole answer can send the next turn to any instance.

Run one with ``python -m gd2fs.engines.llamacpp --help``.
"""

from gd2fs.engines.llamacpp.settings import EngineSettings

__all__ = ["EngineSettings"]
