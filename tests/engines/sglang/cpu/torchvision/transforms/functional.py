"""Stands in for torchvision.transforms.functional."""

from torchvision.absent import InterpolationMode, names_of

__all__ = ["InterpolationMode"]
__getattr__ = names_of("torchvision.transforms.functional")
