"""The environment is what its pins say, and SGLang runs in it without an accelerator."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent


def pins() -> dict[str, str]:
    """Names and versions of the files that the environment is made from."""
    lines = [
        line.split("==")
        for name in ("requirements.txt", "engine.txt")
        for line in (HERE / name).read_text().splitlines()
        if "==" in line and not line.startswith("#")
    ]
    return {name: version for name, version in lines}


def test_every_pin_is_installed_at_its_version():
    found = {name: importlib.metadata.version(name).partition("+")[0] for name in pins()}

    assert found == pins()


def test_gd2fs_comes_from_its_wheel():
    import gd2fs

    assert "site-packages" in Path(gd2fs.__file__).parts


def test_sglang_finds_the_host_cache_for_the_cpu_by_its_entry_point():
    found = importlib.metadata.entry_points(group="sglang.srt.plugins")

    assert "sglang_on_cpu:put_in" in {point.value for point in found}
