"""Each rank of an engine serves its own GPU."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from gd2fs.engines.device import current_device
from gd2fs.engines.settings import settings_of


def torch_of(*, is_available: bool, is_initialized: bool) -> SimpleNamespace:
    cuda = SimpleNamespace(
        is_available=lambda: is_available,
        is_initialized=lambda: is_initialized,
        current_device=lambda: 3,
    )
    return SimpleNamespace(cuda=cuda)


@pytest.mark.parametrize(
    ("torch", "expected"),
    [
        (torch_of(is_available=True, is_initialized=True), 3),
        (torch_of(is_available=True, is_initialized=False), None),
        (torch_of(is_available=False, is_initialized=False), None),
        (None, None),
    ],
)
def test_the_device_is_the_one_in_use(monkeypatch, torch, expected):
    monkeypatch.setitem(sys.modules, "torch", torch)

    assert current_device() == expected


def test_a_plug_in_can_be_told(monkeypatch):
    settings = settings_of({"device": "0000:1b:00.0", "device_nics": "2"})

    assert (settings.device, settings.device_nics) == ("0000:1b:00.0", 2)
