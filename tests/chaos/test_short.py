"""The chaos suite in short: two seeds on real nodes. `make chaos` runs more of them."""

from __future__ import annotations

import pytest

from chaos.network import why_not
from chaos.run import run
from chaos.schedule import schedule_of

REASON = why_not()


@pytest.mark.slow
@pytest.mark.skipif(bool(REASON), reason=REASON)
@pytest.mark.parametrize("seed", [3, 13])
def test_nothing_wrong_is_read_whatever_fails(seed, tmp_path):
    verdict = run(schedule_of(seed), tmp_path)

    assert not verdict.violations, "\n".join(
        [*map(str, verdict.violations), f"replay with: make chaos SEED={seed}"]
    )
