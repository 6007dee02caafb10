"""What pages mean, for every store."""

from __future__ import annotations

import asyncio
import random

import numpy
import pytest

from gd2fs import InvalidRequest

KEYS = [f"key-{index}".encode() for index in range(6)]
VALUES = [random.Random(index).randbytes(1 + 70_000 * index) for index in range(6)]


def buffers(count: int, size: int = 400_000) -> list[bytearray]:
    return [bytearray(size) for _ in range(count)]


@pytest.fixture
def pages(store, namespace):
    return store.pages(namespace)


def test_get_returns_what_was_put(pages):
    pages.put(KEYS, VALUES)
    into = buffers(6)
    sizes = pages.get(KEYS, into).sizes

    assert [bytes(into[index][:size]) for index, size in enumerate(sizes)] == VALUES


def test_get_says_which_are_missing(pages):
    pages.put([KEYS[0], KEYS[2]], [VALUES[0], VALUES[2]])

    assert pages.get(KEYS[:3], buffers(3)).sizes == [len(VALUES[0]), None, len(VALUES[2])]


def test_get_counts_the_leading_ones(pages):
    pages.put([KEYS[0], KEYS[1], KEYS[3]], [VALUES[0], VALUES[1], VALUES[3]])

    assert pages.get(KEYS[:4], buffers(4)).leading == 2


def test_put_says_that_all_are_stored(pages):
    assert pages.put(KEYS, VALUES) == [True] * 6


def test_put_says_how_many_copies_there_are(pages):
    assert pages.put(KEYS, VALUES).copies == [1] * 6


def test_the_first_value_of_a_key_stays(pages):
    pages.put(KEYS[:1], [b"first"])
    into = buffers(1)

    assert pages.put(KEYS[:1], [b"another"]) == [True]
    assert pages.get(KEYS[:1], into).sizes == [5]
    assert into[0][:5] == b"first"


def test_exists_says_which_are_there(pages):
    pages.put(KEYS[:2] + KEYS[3:4], VALUES[:2] + VALUES[3:4])
    presence = pages.exists(KEYS)

    assert (presence.present, presence.leading) == ([True, True, False, True, False, False], 2)


def test_drop_says_how_many_were_there(pages):
    pages.put(KEYS[:2], VALUES[:2])

    assert [pages.drop(KEYS[:3]), pages.drop(KEYS[:3])] == [2, 0]


def test_a_dropped_page_is_a_miss(pages):
    pages.put(KEYS[:2], VALUES[:2])
    pages.drop(KEYS[:1])

    assert pages.get(KEYS[:2], buffers(2)).sizes == [None, len(VALUES[1])]


def test_a_namespace_has_its_own_keys(store, namespace):
    store.pages(namespace).put(KEYS[:1], [b"here"])

    assert store.pages(namespace + "-other").exists(KEYS[:1]).present == [False]


def test_a_page_is_no_file(store, namespace):
    store.pages(namespace).put([b"file"], [b"page"])

    assert store.get(f"/{namespace}/file") is None


def test_keys_are_any_bytes(pages):
    keys = [b"\0", b"\xff" * 512, b"/", b"..", bytes(range(256))]
    pages.put(keys, [bytes([index + 1]) for index in range(5)])
    into = buffers(5, 1)
    pages.get(keys, into)

    assert into == [bytes([index + 1]) for index in range(5)]


def test_a_text_key_is_its_utf8(pages):
    pages.put(["schlüssel"], [b"value"])

    assert pages.exists(["schlüssel".encode()]).present == [True]


def test_arrays_are_values_and_targets(pages):
    value = numpy.arange(5000, dtype=numpy.float32)
    into = numpy.zeros_like(value)
    pages.put(KEYS[:1], [value])
    pages.get(KEYS[:1], [into])

    assert numpy.array_equal(into, value)


def test_an_empty_batch_is_fine(pages):
    assert (pages.put([], []), pages.get([], []).sizes, pages.exists([]).present) == ([], [], [])


def test_large_batches_arrive_whole(pages):
    keys = [f"{index}".encode() for index in range(3000)]
    pages.put(keys, [key * 10 for key in keys])
    into = buffers(3000, 40)
    sizes = pages.get(keys, into).sizes

    assert [bytes(b[:size]) for b, size in zip(into, sizes, strict=True)] == [k * 10 for k in keys]


def test_list_goes_on_where_it_stopped(pages):
    pages.put(KEYS, VALUES)
    first = pages.list(limit=4)
    second = pages.list(after=first.next, limit=4)

    assert first.entries + second.entries == [
        (key, len(value)) for key, value in zip(KEYS, VALUES, strict=True)
    ]
    assert second.next is None


def test_clear_forgets_all_pages(pages):
    pages.put(KEYS, VALUES)
    pages.clear()

    assert pages.exists(KEYS).leading == 0
    assert pages.list().entries == []


def test_a_buffer_too_short_for_its_page_is_refused(pages):
    pages.put(KEYS[:1], [b"0123456789"])

    with pytest.raises(InvalidRequest, match="10"):
        pages.get(KEYS[:1], [bytearray(9)])


def cut(memory, *sizes):
    """Views of the parts of ``memory``, of these sizes and the rest."""
    parts, at = [], 0
    for size in (*sizes, len(memory) - sum(sizes)):
        parts.append(memoryview(memory)[at : at + size])
        at += size
    return parts


# Blocks of 64 KiB cross the borders of buffers; some end where a buffer does.
CUTS = [(1,), (65_536,), (0, 100, 65_436, 3), (30_000,) * 10, (257,) * 1_000]


@pytest.mark.parametrize("sizes", CUTS, ids=lambda sizes: f"{len(sizes) + 1} buffers")
def test_a_page_of_several_buffers_reads_into_one(pages, sizes):
    into = bytearray(len(VALUES[5]))
    pages.put(KEYS[:1], [cut(VALUES[5], *sizes)])

    assert pages.get(KEYS[:1], [into]).sizes == [len(into)]
    assert into == VALUES[5]


@pytest.mark.parametrize("sizes", CUTS, ids=lambda sizes: f"{len(sizes) + 1} buffers")
def test_a_page_of_one_buffer_reads_into_several(pages, sizes):
    into = bytearray(len(VALUES[5]))
    pages.put(KEYS[:1], VALUES[5:])

    assert pages.get(KEYS[:1], [tuple(cut(into, *sizes))]).sizes == [len(into)]
    assert into == VALUES[5]


def test_each_page_of_a_batch_has_buffers_of_its_own(pages):
    into = [bytearray(len(value)) for value in VALUES]
    pages.put(KEYS, [VALUES[0], cut(VALUES[1], 9), VALUES[2], *(cut(v, 7, 11) for v in VALUES[3:])])
    targets = [cut(into[0]), into[1], *(cut(each, 70_000) for each in into[2:])]

    assert pages.get(KEYS, targets).sizes == [len(value) for value in VALUES]
    assert into == VALUES


def test_what_lies_behind_a_page_in_its_last_buffers_stays(pages):
    into = bytearray(b"x" * 20)
    pages.put(KEYS[:1], [b"0123456789"])
    pages.get(KEYS[:1], [cut(into, 4, 4, 4)])

    assert into == b"0123456789xxxxxxxxxx"


def test_arrays_and_addresses_are_parts_of_pages(pages):
    value = numpy.arange(50_000, dtype=numpy.float32).reshape(2, -1)
    into = numpy.zeros_like(value)
    address = into[1].__array_interface__["data"][0]
    pages.put(KEYS[:1], [[value[0], value[1]]])
    pages.get(KEYS[:1], [[into[0], (address, into[1].nbytes)]])

    assert numpy.array_equal(into, value)


def test_buffers_too_short_together_are_refused(pages):
    pages.put(KEYS[:1], [b"0123456789"])

    with pytest.raises(InvalidRequest, match=r"10 bytes.* 9"):
        pages.get(KEYS[:1], [[bytearray(4), bytearray(5)]])


def test_more_buffers_than_a_page_may_have_are_refused(pages):
    with pytest.raises(InvalidRequest, match="1025 buffers for page 1, but the limit is 1024"):
        pages.put(KEYS[:2], [b"a", [b"b"] * 1_025])


@pytest.mark.parametrize("parts", [[], [b""], [b"", b""]])
def test_a_value_of_empty_buffers_is_refused(pages, parts):
    with pytest.raises(InvalidRequest):
        pages.put(KEYS[:1], [parts])


def test_several_buffers_work_with_await(pages):
    into = bytearray(5)

    async def use() -> list[int | None]:
        await pages.aput(KEYS[:1], [[b"va", b"lue"]])
        return (await pages.aget(KEYS[:1], [cut(into, 1)])).sizes

    assert (asyncio.run(use()), into) == ([5], b"value")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_one_buffer_per_key_is_needed(pages, count):
    with pytest.raises(InvalidRequest, match=f"{count} buffers for 2 keys"):
        pages.get(KEYS[:2], buffers(count))


@pytest.mark.parametrize("key", [b"", b"x" * 513])
def test_a_key_that_cannot_be_one_is_refused(pages, key):
    with pytest.raises(InvalidRequest):
        pages.put([key], [b"value"])


def test_an_empty_value_is_refused(pages):
    with pytest.raises(InvalidRequest):
        pages.put(KEYS[:1], [b""])


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", "a\0b", "x" * 256])
def test_a_namespace_that_cannot_be_one_is_refused(store, bad):
    with pytest.raises(InvalidRequest):
        store.pages(bad).exists(KEYS)


def test_a_batch_over_the_limit_is_refused(pages):
    with pytest.raises(InvalidRequest, match="65537"):
        pages.exists([b"key"] * 65_537)


def test_everything_works_with_await(pages):
    async def use() -> list[object]:
        into = buffers(1, 10)
        return [
            await pages.aput(KEYS[:1], [b"value"]),
            (await pages.aexists(KEYS[:2])).present,
            (await pages.aget(KEYS[:1], into)).sizes,
            bytes(into[0][:5]),
            await pages.adrop(KEYS[:2]),
        ]

    assert asyncio.run(use()) == [[True], [True, False], [5], b"value", 1]
