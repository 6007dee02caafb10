"""Instances of vLLM that hash otherwise are refused by name, and nothing is shared until known."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from gd2fs import InvalidRequest
from gd2fs.engines.settings import StoreSettings
from gd2fs.engines.store import EngineStore
from gd2fs.engines.vllm.asker import Asker
from gd2fs.engines.vllm.handshake import RECIPE_KEY, RECORD_BYTES, Handshake, Standing
from gd2fs.engines.vllm.lookups import Answer
from gd2fs.engines.vllm.recipe import HashRecipe, seed_shown
from gd2fs.testing import LocalNodes
from gd2fs.testing.cluster import free_ports

RECIPE = HashRecipe(
    algorithm="sha256_cbor",
    seed=seed_shown(None),
    none_hash="00" * 32,
    tokens_per_hash=32,
    tokens_per_block=(32,),
    tokens_per_chunk=(64,),
    layout="LBHNC",
    kv_packing=1,
    release="0.32",
)
OTHERS = {
    "algorithm": "sha256",
    "seed": seed_shown("0"),
    "none_hash": "11" * 32,
    "tokens_per_hash": 16,
    "tokens_per_block": (16,),
    "tokens_per_chunk": (128,),
    "layout": "BLHNC",
    "kv_packing": 2,
    "release": "0.99",
}
TIMEOUT_S = 5.0
PATIENCE_S = 20.0


def store_at(cp: str, namespace: str) -> EngineStore:
    return EngineStore(StoreSettings(cp=cp, cluster="test"), namespace)


def handshake(nodes: LocalNodes, namespace: str, recipe: HashRecipe = RECIPE) -> Handshake:
    store = store_at(nodes.cp, namespace)
    return Handshake(store, recipe, "model `m`", timeout_s=TIMEOUT_S)


def test_equal_recipes_agree(three_nodes: LocalNodes, namespace: str) -> None:
    first, second = (handshake(three_nodes, namespace) for _ in range(2))

    assert (first.settle(), second.settle()) == (Standing.AGREED, Standing.AGREED)


@pytest.mark.parametrize("name", OTHERS)
def test_another_recipe_is_refused_by_what_differs(
    three_nodes: LocalNodes, namespace: str, name: str
) -> None:
    handshake(three_nodes, namespace, replace(RECIPE, **{name: OTHERS[name]})).check()
    other = handshake(three_nodes, namespace)

    with pytest.raises(InvalidRequest, match=f"{name}: recorded .*, here .*") as refused:
        other.check()

    assert namespace in refused.value.hint and other.standing is Standing.REFUSED


def test_another_release_that_packs_the_same_way_agrees(
    three_nodes: LocalNodes, namespace: str
) -> None:
    handshake(three_nodes, namespace).check()
    other = handshake(three_nodes, namespace, replace(RECIPE, release="0.31"))

    assert other.settle() is Standing.AGREED


@pytest.mark.parametrize("record", [b"[]", b"[" * RECORD_BYTES, b"\xff\x00"], ids=len)
def test_a_record_that_is_none_is_refused(
    three_nodes: LocalNodes, namespace: str, record: bytes
) -> None:
    with three_nodes.client() as client:
        client.pages(namespace).put([RECIPE_KEY], [record.ljust(RECORD_BYTES)])

    with pytest.raises(InvalidRequest, match="none of a recipe"):
        handshake(three_nodes, namespace).check()


@pytest.mark.parametrize("size", [RECORD_BYTES - 1, RECORD_BYTES + 1])
def test_a_record_of_another_length_shares_nothing_and_is_told_once(
    three_nodes: LocalNodes, namespace: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    with three_nodes.client() as client:
        client.pages(namespace).put([RECIPE_KEY], [bytes(size)])
    shaking = handshake(three_nodes, namespace)

    assert [shaking.settle() for _ in range(3)] == [Standing.UNKNOWN] * 3

    [told] = [each.getMessage() for each in caplog.records if "is not of 4096" in each.getMessage()]
    assert namespace in told


def test_what_a_record_says_is_told_on_one_line(three_nodes: LocalNodes, namespace: str) -> None:
    record = json.loads(RECIPE.as_text()) | {"algorithm": "a\n" * 1000}
    with three_nodes.client() as client:
        content = json.dumps(record).encode().ljust(RECORD_BYTES)
        client.pages(namespace).put([RECIPE_KEY], [content])

    with pytest.raises(InvalidRequest, match="recorded a a a") as refused:
        handshake(three_nodes, namespace).check()

    assert len(str(refused.value)) < 1000 and "a\n" not in str(refused.value)


def test_those_that_agreed_put_a_recipe_again_that_the_store_lost(
    three_nodes: LocalNodes, namespace: str
) -> None:
    agreed = handshake(three_nodes, namespace)
    agreed.check()
    store = store_at(three_nodes.cp, f"{namespace}-pages")
    asker = Asker(store, agreed, lambda key: key, refresh_s=0.01)
    with three_nodes.client() as client:
        client.clear(namespace)
    other = handshake(three_nodes, namespace, replace(RECIPE, algorithm="sha256"))
    end = time.monotonic() + PATIENCE_S
    while not is_recorded(three_nodes, namespace) and time.monotonic() < end:
        time.sleep(0.01)

    assert other.settle() is Standing.REFUSED
    asker.close()
    store.close()


class Failing:
    """A handshake that stands, and fails whenever it is asked to look after the recipe."""

    standing = Standing.AGREED

    def __init__(self) -> None:
        self.looks = 0

    def settle(self) -> Standing:
        return self.standing

    def refresh(self) -> None:
        self.looks += 1
        raise RuntimeError("a fault")


def test_lookups_outlive_a_fault_of_the_recipe(three_nodes: LocalNodes, namespace: str) -> None:
    store = store_at(three_nodes.cp, f"{namespace}-pages")
    store.put([b"a"], [b"page"], deadline_s=TIMEOUT_S)
    failing = Failing()
    asker = Asker(store, failing, lambda key: key, refresh_s=0.01)
    end = time.monotonic() + PATIENCE_S
    while not failing.looks and time.monotonic() < end:
        time.sleep(0.01)
    asker.ask([b"a"])
    asker.close()
    store.close()

    assert failing.looks and asker.answers() == [([b"a"], [Answer.HIT])]


def test_what_is_for_people_is_told_once_the_store_is_there(
    three_nodes: LocalNodes, namespace: str
) -> None:
    told: list[int] = []
    store = store_at(three_nodes.cp, f"{namespace}-pages")
    asker = Asker(
        store,
        handshake(three_nodes, namespace),
        lambda key: key,
        tell=lambda: told.append(1),
        refresh_s=PATIENCE_S,
    )
    before = list(told)
    asker.ask([b"a"])
    end = time.monotonic() + PATIENCE_S
    while not told and time.monotonic() < end:
        time.sleep(0.01)
    asker.close()
    store.close()

    assert (before, told) == ([], [1])


def is_recorded(nodes: LocalNodes, namespace: str) -> bool:
    with nodes.client() as client:
        return bool(client.pages(namespace).exists([RECIPE_KEY]).leading)


def test_a_seed_is_never_told() -> None:
    assert "12345" not in seed_shown("12345") and seed_shown("1") != seed_shown("2")


def test_while_the_store_is_away_an_instance_starts_and_shares_nothing(namespace: str) -> None:
    (port,) = free_ports(1)
    store = store_at(f"127.0.0.1:{port}", namespace)
    away = Handshake(store_at(f"127.0.0.1:{port}", namespace), RECIPE, "model `m`", timeout_s=0.1)
    asker = Asker(store, away, lambda key: key)
    away.check()
    asker.ask([b"a", b"b"])
    asker.close()

    assert asker.answers() == [([b"a", b"b"], [Answer.APART] * 2)]
    away.close()
    store.close()


def test_a_refused_instance_finds_nothing(three_nodes: LocalNodes, namespace: str) -> None:
    handshake(three_nodes, namespace).check()
    other = handshake(three_nodes, namespace, replace(RECIPE, algorithm="sha256"))
    store = store_at(three_nodes.cp, f"{namespace}-pages")
    store.put([b"a"], [b"page"])
    asker = Asker(store, other, lambda key: key)
    asker.ask([b"a"])
    asker.close()
    store.close()

    assert asker.answers() == [([b"a"], [Answer.APART])]


def test_all_that_waits_is_asked_in_one_question(three_nodes: LocalNodes, namespace: str) -> None:
    store = store_at(three_nodes.cp, f"{namespace}-pages")
    store.put([b"page of a"], [b"page"], deadline_s=TIMEOUT_S)
    asker = Asker(store, handshake(three_nodes, namespace), lambda key: b"page of " + key)
    asker.ask([b"a", b"b"])
    asker.close()
    store.close()

    assert asker.answers() == [([b"a", b"b"], [Answer.HIT, Answer.ABSENT])]
