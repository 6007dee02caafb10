"""Bench: real engines behind a random balancer, with private caches and with GD2FS."""
