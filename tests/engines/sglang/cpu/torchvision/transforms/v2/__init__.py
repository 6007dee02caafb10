"""Stands in for torchvision.transforms.v2."""

from torchvision.absent import InterpolationMode, names_of

__all__ = ["InterpolationMode"]
__getattr__ = names_of("torchvision.transforms.v2")
