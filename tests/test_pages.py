"""Pages of the live client: large values, races of writers, and leading counts."""

from __future__ import annotations

import random
import threading

import pytest

from gd2fs import InvalidRequest, PageResult, Presence
from gd2fs.testing import LocalNodes

MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "leading"),
    [([], 0), ([None], 0), ([1, 2], 2), ([1, None, 2], 1), ([None, 1], 0), ([0, None], 1)],
)
def test_leading_ends_at_the_first_miss(sizes, leading):
    assert PageResult(sizes).leading == leading
    assert Presence([size is not None for size in sizes]).leading == leading


@pytest.mark.parametrize("size", [1, 4096, 65_535, 65_536, 65_537, 3 * MIB + 1, 9 * MIB])
def test_a_page_of_any_size_arrives(client, namespace, size):
    value = random.Random(size).randbytes(size)
    into = bytearray(size)
    pages = client.pages(namespace)
    pages.put([b"key"], [value])

    assert pages.get([b"key"], [into]).sizes == [size]
    assert into == value
    pages.clear()


def test_a_longer_buffer_is_left_alone_behind_its_page(client, namespace):
    into = bytearray(b"x" * 20)
    client.pages(namespace).put([b"key"], [b"value"])
    client.pages(namespace).get([b"key"], [into])

    assert into == b"value" + b"x" * 15


def test_what_no_node_answered_for_is_told_from_what_is_not_there():
    with LocalNodes(2) as nodes, nodes.client() as client:
        pages, keys = client.pages("n"), [b"%d" % number for number in range(20)]
        answered = pages.exists(keys), pages.get(keys, [bytearray(1) for _ in keys])
        nodes.stop(0)
        unanswered = pages.exists(keys), pages.get(keys, [bytearray(1) for _ in keys])

    assert [each.is_partial for each in answered] == [False, False]
    assert [each.is_partial for each in unanswered] == [True, True]
    assert unanswered[0].present == [False] * 20 and unanswered[1].sizes == [None] * 20


def test_one_key_twice_in_a_batch_is_got_twice(client, namespace):
    into = [bytearray(5), bytearray(5)]
    client.pages(namespace).put([b"key"], [b"value"])

    assert client.pages(namespace).get([b"key", b"key"], into).sizes == [5, 5]
    assert into == [b"value", b"value"]


def test_buffers_may_not_be_shared_between_keys(client, namespace):
    shared = bytearray(10)

    with pytest.raises(InvalidRequest, match="overlap"):
        client.pages(namespace).get([b"a", b"b"], [shared, shared])


def test_writers_of_one_key_leave_one_whole_value(client, namespace):
    values = [bytes([index]) * 300_000 for index in range(6)]
    pages = client.pages(namespace)
    threads = [
        threading.Thread(target=lambda value=value: pages.put([b"key"], [value]))
        for value in values
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    into = bytearray(300_000)
    pages.get([b"key"], [into])

    assert bytes(into) in values


def test_a_batch_with_a_time_to_live_is_there_before(client, namespace):
    pages = client.pages(namespace)
    pages.put([b"a", b"b"], [b"1", b"2"], ttl_s=600)

    assert pages.exists([b"a", b"b"]).leading == 2
