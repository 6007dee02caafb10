"""What vLLM is told and what it may tell us: options, measures, the words to start it with."""

from __future__ import annotations

import json
import logging
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from gd2fs import InvalidRequest
from gd2fs.engines.vllm import plugin
from gd2fs.engines.vllm.launch import VllmServer
from gd2fs.engines.vllm.measures import MEASURES, Tally, definitions
from gd2fs.engines.vllm.options import options_of
from gd2fs.engines.vllm.versions import check_version, is_known, slots_of

POOL = 1 << 30


@pytest.mark.parametrize("version", ["0.31.0", "0.32.0+cpu", "0.33.1.dev4"])
def test_known_releases_are_taken(version: str) -> None:
    assert is_known(version)


@pytest.mark.parametrize("version", ["0.30.0", "0.34.0", "1.32.0", "dev", ""])
def test_other_releases_are_refused_with_those_that_fit(version: str) -> None:
    with pytest.raises(InvalidRequest, match=r"fits 0\.31 to 0\.33"):
        check_version(version)


@pytest.mark.parametrize("name", ["chunk_ids", "block_ids"])
def test_a_job_names_its_chunks_as_its_release_does(name: str) -> None:
    assert slots_of(SimpleNamespace(**{name: (3, 1)})) == [3, 1]


def test_a_job_that_names_no_chunks_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="names no chunks"):
        slots_of(SimpleNamespace(slots=[1]))


def test_a_part_of_the_pool_waits_to_be_stored_at_most() -> None:
    options = options_of({"cp": "h", "cluster": "c"}, pool_bytes=POOL)

    assert (options.store_queue_bytes, options.store.cluster) == (POOL // 4, "c")


def test_a_misspelt_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidRequest) as refused:
        options_of({"load_timeout": 1}, pool_bytes=POOL)

    assert "load_timeout_s" in refused.value.hint


@pytest.mark.parametrize(
    "wrong",
    [
        {"load_threads": 0},
        {"store_threads": 17},
        {"load_threads": "2"},
        {"store_queue_bytes": "much"},
        {"store_queue_bytes": 0},
        {"locality": "near"},
    ],
    ids=str,
)
def test_a_wrong_option_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InvalidRequest, match=name):
        options_of(wrong, pool_bytes=POOL)


def test_a_measure_is_told_once() -> None:
    tally = Tally()
    tally.add("misses", 2, reason="late")
    tally.add("misses", 3, reason="late")
    tally.add("hits", 0)
    tally.set("standing", 1)
    first = {(each.name, labels): value for each, value, labels in tally.take()}
    tally.set("standing", 1)

    assert first == {("misses", ("late",)): 5, ("standing", ()): 1}
    assert list(tally.take()) == []


def test_every_measure_is_described() -> None:
    made = definitions(dict, dict)

    assert len(made) == len(MEASURES)
    assert all(name.startswith("vllm:kv_offload_gd2fs_") for name in made)


def test_the_words_of_a_server_name_the_tier() -> None:
    server = VllmServer("/m", 8000, store={"cp": "h:1", "cluster": "c", "tag": "t"})
    words = server.command("python")
    config = json.loads(words[words.index("--kv-transfer-config") + 1])

    assert config["kv_load_failure_policy"] == "recompute"
    assert config["kv_connector_extra_config"]["secondary_tiers"] == [
        {
            "type": "GD2FSTier",
            "module_path": "gd2fs.engines.vllm",
            "cp": "h:1",
            "cluster": "c",
            "tag": "t",
        }
    ]


def test_without_vllm_the_entry_point_says_so_and_does_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with caplog.at_level(logging.WARNING, logger="vllm.gd2fs"):
        plugin.register()

    assert "the tier `gd2fs` is not there" in caplog.text


def test_an_unknown_release_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "vllm.version", SimpleNamespace(__version__="0.99.0"))
    with caplog.at_level(logging.WARNING, logger="vllm.gd2fs"):
        plugin.register()

    assert "vLLM 0.99.0 is not known" in caplog.text
