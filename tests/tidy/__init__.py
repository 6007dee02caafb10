"""Readers of source text for the tests of our own style."""
