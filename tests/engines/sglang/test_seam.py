"""SGLang's own trees get back from GD2FS what another instance computed: plain, windows, states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from trees import PAGES, PLAIN, STATES, WINDOW, Trees, pages_of

CONFIGS = {"plain": PLAIN, "window": WINDOW, "states": STATES}


@pytest.fixture
def trees(request: Any, store_settings: dict[str, Any]) -> Iterator[Trees]:
    """Trees of the configuration that the test names."""
    made = Trees(CONFIGS[request.param], store_settings)
    yield made
    made.close()


every_kind = pytest.mark.parametrize("trees", CONFIGS, indirect=True)
plain = pytest.mark.parametrize("trees", ["plain"], indirect=True)


@every_kind
def test_a_fresh_instance_restores_all_pools_byte_for_byte(trees):
    sequence = trees._make_seq(1, PAGES)
    computed = trees.produce(trees.new(), sequence)
    fresh = trees.new()[0]
    hit = trees.prefetch(fresh, sequence)
    restored = pages_of(fresh)

    assert hit == len(sequence)
    assert all(restored.values())
    for pool, pages in restored.items():
        assert pages == {key: computed[pool][key] for key in pages}
