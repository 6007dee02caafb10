"""The page of a node: all that the table of metrics names, and numbers that are right."""

from __future__ import annotations

import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from membership.recorded_core import wait_until
from metrics.page import Page

from gd2fs import Client
from gd2fs.admin.guard import visible_to
from gd2fs.config import NodeConfig
from gd2fs.metrics import FAMILIES, Family, NodeCollector, render
from gd2fs.node import Node
from gd2fs.tokens import KnownToken

BYTES = 10_000
TRANSPORTS = ("tcp", "unix", "shm")


@contextmanager
def alone(cluster: str, **settings):
    """One node with nothing in it, and a client of it over TCP."""
    config = NodeConfig(
        cluster=cluster,
        listen=("127.0.0.1:0",),
        admin="127.0.0.1:0",
        memory_bytes=32 << 20,
        arena="plain",
        **settings,
    )
    with (
        Node.start(config) as node,
        Client(node.addresses, cluster=cluster, transport="tcp", timeout_s=20) as client,
    ):
        yield node, client


def named_on_the_page() -> dict[str, Family]:
    """The table, by the names that its families have in Prometheus' text: there is no `info`."""
    return {
        each.series[0] if each.kind == "info" else name: each for name, each in FAMILIES.items()
    }


def page_of(node: Node) -> Page:
    return Page.of(str(node.admin_address))


def test_a_page_has_the_metrics_of_the_table_and_no_others(pages):
    for page in pages:
        shown = {name for name in page.families if name.startswith("gd2fs_")}

        assert shown == set(named_on_the_page())


def test_metrics_are_of_the_kind_and_have_the_labels_that_the_table_says(pages):
    for name, said in named_on_the_page().items():
        family = pages[0].families[name]
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}

        assert family.type == ("gauge" if said.kind == "info" else said.kind)
        assert family.documentation == said.text
        assert labels == set(said.labels) or not family.samples


def test_what_is_read_and_written_is_counted_by_namespace():
    with alone("spaces") as (node, client):
        pages, into = client.pages("a"), bytearray(BYTES)
        pages.put(["k"], [bytes(BYTES)])
        pages.get(["k", "none"], [into, bytearray(BYTES)])
        pages.exists(["k", "none", "none too"])
        client.pages("b").get(["k"], [into])
        page = page_of(node)

    lookups = "gd2fs_namespace_lookups_total"
    assert page.value(lookups, namespace="a", tier="memory", result="hit") == 1
    assert page.value(lookups, namespace="a", result="miss", reason="absent") == 1
    assert page.value(lookups, namespace="b", result="miss", reason="absent") == 1
    assert page.value("gd2fs_namespace_probes_total", namespace="a", result="found") == 1
    assert page.value("gd2fs_namespace_probes_total", namespace="a", result="missing") == 2
    assert page.value("gd2fs_namespace_read_bytes_total", namespace="a") == BYTES
    assert page.value("gd2fs_namespace_written_bytes_total", namespace="a") == BYTES
    assert page.value("gd2fs_namespace_written_bytes_total", namespace="b") == 0


def test_a_miss_says_what_became_of_its_name():
    with alone("reasons") as (node, client):
        pages, into = client.pages("a"), bytearray(BYTES)
        pages.put(["dropped", "over"], [bytes(BYTES), bytes(BYTES)])
        pages.drop(["dropped"])
        for number in range(64):
            client.pages("b").put([f"k{number}"], [bytes(1 << 20)], timeout_s=20)
        for name in ("dropped", "over", "never"):
            pages.get([name], [into])
        page = page_of(node)

    for reason in ("dropped", "evicted", "absent"):
        lookups = page.value("gd2fs_namespace_lookups_total", namespace="a", reason=reason)
        assert lookups == 1, reason
    assert page.value("gd2fs_evicted_pieces_total", policy="lru", reason="room") > 0
    assert page.value("gd2fs_departed_pieces_total", reason="dropped") == 1


def test_lookups_of_all_namespaces_are_the_lookups_of_the_node(pages):
    for page in pages:
        for result in ("hit", "miss"):
            every = page.value("gd2fs_namespace_lookups_total", result=result)

            assert every == page.value("gd2fs_lookups_total", result=result)


def test_bytes_of_all_transports_are_the_bytes_of_the_node(pages):
    for page in pages:
        for direction, total in (("in", "received"), ("out", "sent")):
            every = page.value("gd2fs_transport_bytes_total", direction=direction)

            assert every == page.value(f"gd2fs_{total}_bytes_total") > 0


def test_a_piece_that_was_loaded_is_a_hit_of_the_disk(pages):
    hits = [
        page.value("gd2fs_namespace_lookups_total", namespace="kv", tier="disk") for page in pages
    ]

    assert sum(hits) > 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_request_is_in_the_histogram_of_its_transport(shared_node, transport):
    server = shared_node.servers[0]

    def count() -> int:
        requests = server.tally()["requests"]
        return sum(sum(counts) for op, by, counts, _ in requests if (op, by) == ("get", transport))

    before = count()
    with shared_node.client(transport=transport, timeout_s=20) as client:
        for _ in range(3):
            client.pages("histogram").get(["none"], [bytearray(10)])

    # It is counted once the answer is on its way: perhaps a little after it has come.
    wait_until(lambda: count() == before + 3, "three more")


def test_other_nodes_are_counted_by_name(pages):
    first, second = pages

    assert first.value("gd2fs_peer_up", peer="b") == 1
    assert second.value("gd2fs_peer_up", peer="a") == 1
    assert first.value("gd2fs_peer_requests_total", peer="b") > 0
    assert first.value("gd2fs_peer_failures_total", peer="b") == 0


def test_a_token_of_some_namespaces_sees_nothing_of_others_or_of_the_node(watched_nodes):
    node = watched_nodes[0]
    collector = NodeCollector(
        node.counts, {}, node.provider, tally=node.tally, why_not_ready=node.why_not_ready
    )
    caller = KnownToken("tenant", bytes(32), "read", ("kv",))

    page = Page(render(visible_to(caller, collector)).decode())

    names = {
        sample.labels.get("namespace")
        for family in page.families.values()
        for sample in family.samples
    }
    assert names == {"kv"}
    assert page.value("gd2fs_namespace_lookups_total") > 0


def test_what_the_admin_side_refuses_is_counted_by_its_reason():
    with alone("refused") as (node, _):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{node.admin_url}/v1/else", timeout=20)
        page = page_of(node)

    assert page.value("gd2fs_admin_refused_total", reason="bad_request") == 1
    assert page.value("gd2fs_admin_refused_total") == 1


def test_namespaces_beyond_the_first_thousand_are_one():
    with alone("many") as (node, client):
        for number in range(1_010):
            client.pages(f"space{number}").get(["none"], [bytearray(1)])
        page = page_of(node)

    assert page.value("gd2fs_namespace_lookups_total", namespace="space999") == 1
    assert page.value("gd2fs_namespace_lookups_total", namespace="/other") == 10
    assert page.value("gd2fs_lookups_total", result="miss") == 1_010


def test_slow_requests_are_told_with_their_trace(shared_node):
    server = shared_node.servers[0]
    told: list[tuple[str, str, int, int]] = []
    server.set_slow(0)

    def is_told() -> bool:
        told.extend(server.take_slow()[0])
        return ("ping", "tcp") in {(op, transport) for op, transport, *_ in told}

    with shared_node.client(transport="tcp", timeout_s=20) as client:
        client.ping()
        wait_until(is_told, "a slow ping")
    server.set_slow(1_000)

    assert {trace for *_, trace in told} == {0}
