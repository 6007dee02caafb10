"""Stands in for torchvision, which text models import and never call."""

__version__ = "0.0.0"
