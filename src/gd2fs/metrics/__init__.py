"""Metrics: the counts of a node as Prometheus reads them. Nothing is counted here."""

from gd2fs.metrics.collector import CONTENT_TYPE, NodeCollector, render
from gd2fs.metrics.families import FAMILIES, SECTIONS, Family

__all__ = ["CONTENT_TYPE", "FAMILIES", "SECTIONS", "Family", "NodeCollector", "render"]
