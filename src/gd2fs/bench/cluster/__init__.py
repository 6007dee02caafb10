"""Measurements of a cluster that changes: a node is lost, nodes come and go, much is cleaned up."""
