"""Bench tier: memory and disk of a real node as one cache: what the disk adds, what it costs."""
