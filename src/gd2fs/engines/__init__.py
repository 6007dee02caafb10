"""Engines: what makes an inference engine keep its KV cache in GD2FS. One package per engine."""
