"""The store of an engine: always an answer in time, never an error, never a wrong byte."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gd2fs import InvalidRequest
from gd2fs.engines.settings import StoreSettings, settings_of
from gd2fs.engines.store import EngineStore
from gd2fs.testing import Cluster, LocalNodes, NodeProcess

PATIENCE_S = 20.0
PAGE_BYTES = 70_000
KEYS = [f"page-{at}".encode() for at in range(8)]
PAGES = [bytes([at + 1]) * PAGE_BYTES for at in range(8)]


def store_at(nodes: LocalNodes, namespace: str, **settings) -> EngineStore:
    deadlines = {"lookup_timeout_s": 5.0, "load_timeout_s": 5.0, "store_timeout_s": 5.0}
    own = StoreSettings(cp=nodes.cp, cluster=nodes.cluster, **(deadlines | settings))
    return EngineStore(own, namespace)


@pytest.fixture
def store(three_nodes, namespace):
    store = store_at(three_nodes, namespace)
    yield store
    store.close()


def until(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() >= end:
            return False
        time.sleep(0.01)
    return True


def buffers(count: int) -> list[bytearray]:
    return [bytearray(PAGE_BYTES) for _ in range(count)]


def test_pages_come_back_as_they_were_put(store):
    stored, into = store.put(KEYS, PAGES), buffers(8)
    found = store.get(KEYS, into)

    assert (stored, found, list(map(bytes, into))) == ([True] * 8, [True] * 8, PAGES)


def test_a_lookup_counts_the_pages_before_the_first_gap(store):
    store.put([*KEYS[:3], *KEYS[4:]], [*PAGES[:3], *PAGES[4:]])

    assert store.exists_leading(KEYS) == 3


def test_a_page_of_another_size_is_a_miss(store):
    store.put(KEYS[:2], [PAGES[0], PAGES[1][:-1]])

    found = store.get(KEYS[:2], buffers(2))

    assert (found, store.board.read().wrong_sizes) == ([True, False], 1)


def test_a_page_that_is_longer_than_its_buffer_is_a_miss(store):
    store.put(KEYS[:1], [PAGES[0] + b"more"])

    assert store.get(KEYS[:1], buffers(1)) == [False]


def test_pages_of_wrong_sizes_cost_no_other_page_of_the_batch(store):
    wrong = [PAGES[0] + b"more", PAGES[1][:-1], b"x"]
    store.put(KEYS, [*wrong, *PAGES[3:]])

    found = store.get(KEYS, into := buffers(8))

    counts = store.board.read()
    assert (found, counts.wrong_sizes, counts.errors) == ([False] * 3 + [True] * 5, 3, 0)
    assert list(map(bytes, into[3:])) == PAGES[3:]


def test_clear_leaves_other_namespaces_alone(store, three_nodes):
    other = store_at(three_nodes, store.namespace + "-other")
    for each in (store, other):
        each.put(KEYS, PAGES)

    store.clear()

    assert (store.exists_leading(KEYS), other.exists_leading(KEYS)) == (0, 8)
    other.close()


def test_a_text_is_kept_once(store):
    store.put_text("identity.json", "first")
    store.put_text("identity.json", "second")

    assert store.text_of("identity.json") == "first"


def test_texts_are_listed_by_their_beginning_and_dropped(store):
    for name in ("recipe-b", "recipe-a", "identity.json"):
        store.put_text(name, "text")
    before = store.texts("recipe-")

    store.drop_text("recipe-a")

    assert (before, store.texts("recipe-")) == (["recipe-a", "recipe-b"], ["recipe-b"])


def test_a_store_that_is_away_at_the_start_is_found_later():
    with LocalNodes(1) as nodes:
        nodes.stop(0)
        store = store_at(nodes, "late")
        before = store.put(KEYS, PAGES)
        nodes.start(0)
        is_back = until(lambda: store.is_open)

        assert (before, is_back, store.put(KEYS, PAGES)) == ([False] * 8, True, [True] * 8)
        store.close()


def test_a_node_that_ends_is_a_miss_until_it_is_back():
    with LocalNodes(1) as nodes:
        store = store_at(nodes, "away")
        store.put(KEYS, PAGES)
        answered = store.board.read().unavailable
        nodes.stop(0)
        lost = [store.exists_leading(KEYS), store.get(KEYS, buffers(8))]
        unanswered = store.board.read().unavailable
        nodes.start(0)
        is_back = until(lambda: all(store.put(KEYS, PAGES, deadline_s=0.1)))

        assert lost == [0, [False] * 8] and is_back
        assert (answered, unanswered) == (0, 2)
        store.close()


@pytest.mark.slow
def test_a_node_that_hangs_is_a_miss_until_it_goes_on(tmp_path):
    with Cluster(1, "64MiB", str(tmp_path)) as cluster:
        settings = StoreSettings(cp=cluster.cp, cluster=cluster.name, lookup_timeout_s=0.3)
        store = EngineStore(settings, "hang")
        store.put(KEYS, PAGES)
        hang(cluster.members[0])
        lost = [store.exists_leading(KEYS), store.get(KEYS, buffers(8))]
        cluster.members[0].send(signal.SIGCONT)

        assert lost == [0, [False] * 8]
        assert until(lambda: store.get(KEYS, buffers(8)) == [True] * 8)
        store.close()


def hang(node: NodeProcess) -> None:
    """Stop a node, and wait until the kernel has stopped it."""
    node.send(signal.SIGSTOP)
    state = Path(f"/proc/{node.process.pid}/stat")
    assert until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")


def test_what_does_not_fit_is_not_stored_and_holds_nobody_up_with_tries():
    with LocalNodes(1, memory_bytes=8 << 20) as nodes:
        store = store_at(nodes, "full", store_timeout_s=60.0)
        stored = store.put(KEYS[:2], [PAGES[0], bytes(64 << 20)])

        assert (stored, store.exists(KEYS[:2])) == ([True, False], [True, False])
        assert store.board.read().store_retries == 0
        store.close()


def test_a_closed_store_answers_with_misses(store):
    store.put(KEYS, PAGES)
    store.close()
    store.close()

    answers = (store.exists(KEYS), store.get(KEYS, buffers(8)), store.put(KEYS, PAGES))

    assert answers == ([False] * 8, [False] * 8, [False] * 8)


def test_a_bad_key_is_a_miss_and_counted(store):
    assert (store.exists([b""]), store.board.read().errors) == ([False], 1)


def test_settings_of_the_wrong_kind_raise_at_the_start():
    with pytest.raises(InvalidRequest):
        EngineStore(StoreSettings(cp="gd2fs://127.0.0.1:1", cluster="c", transport="pigeon"), "n")


@pytest.mark.parametrize(
    ("mapping", "complaint"),
    [
        ({"lookup_timeout": 1}, "lookup_timeout"),
        ({"lookup_timeout_s": "soon"}, "soon"),
        ({"lookup_timeout_s": 0}, "lookup_timeout_s"),
        ({"streams": True}, "streams"),
        ({"never_slower": "perhaps"}, "never_slower"),
        ({"tag": 7}, "tag"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(mapping, complaint):
    with pytest.raises(InvalidRequest, match=complaint):
        settings_of(mapping)


def test_settings_are_taken_in_the_kinds_that_formats_have():
    given = {"streams": "4", "never_slower": "false", "load_timeout_s": 3, "backend_name": "x"}

    settings = settings_of(given, foreign=frozenset({"backend_name"}))

    assert (settings.streams, settings.never_slower, settings.load_timeout_s) == (4, False, 3.0)
