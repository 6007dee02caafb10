"""Whole fleets of real engines: SGLang and vLLM, private caches against a shared one."""
