"""What files mean, for every store."""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import random

import numpy
import pytest

from gd2fs import InvalidRequest

CHUNK = 64 << 10  # the smallest: short content already spans chunks


def content_of(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def test_a_new_file_is_empty(store, path):
    assert store.create(path).size == 0


def test_create_says_the_chunk_size_and_the_time_to_live(store, path):
    file = store.create(path, chunk_bytes=CHUNK, ttl_s=3600)

    assert (file.chunk_bytes, file.ttl_s) == (CHUNK, 3600)


def test_create_leaves_what_is_there(store, path):
    store.put(path, b"content")

    assert store.create(path).size == 7


def test_create_if_absent_refuses_what_is_there(store, path):
    store.create(path, if_absent=True)

    with pytest.raises(InvalidRequest):
        store.create(path, if_absent=True)


def test_read_returns_what_was_written(store, path):
    content = content_of(3 * CHUNK + 17)
    store.create(path, chunk_bytes=CHUNK)
    store.write(path, 0, content)
    into = bytearray(len(content))

    assert (store.read(path, 0, into), into) == (len(content), content)


@pytest.mark.parametrize("offset", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 5])
@pytest.mark.parametrize("size", [1, CHUNK, CHUNK + 3])
def test_read_returns_any_range(store, path, offset, size):
    content = content_of(4 * CHUNK)
    store.put(path, content, chunk_bytes=CHUNK)
    into = bytearray(size)

    assert (store.read(path, offset, into), into) == (size, content[offset : offset + size])


def test_read_is_short_at_the_end(store, path):
    store.put(path, b"0123456789")
    into = bytearray(b"x" * 8)

    assert (store.read(path, 6, into), into[:4]) == (4, b"6789")


@pytest.mark.parametrize("offset", [10, 11, 1 << 30])
def test_read_past_the_end_is_empty(store, path, offset):
    store.put(path, b"0123456789")

    assert store.read(path, offset, bytearray(4)) == 0


def test_read_of_no_file_is_a_miss(store, path):
    assert store.read(path, 0, bytearray(4)) is None


def test_get_and_stat_of_no_file_are_misses(store, path):
    assert (store.get(path), store.stat(path)) == (None, None)


def test_what_was_never_written_reads_as_zeros(store, path):
    store.create(path, chunk_bytes=CHUNK)
    store.write(path, 2 * CHUNK + 10, b"end")

    assert store.get(path) == bytes(2 * CHUNK + 10) + b"end"


def test_write_goes_into_its_range_alone(store, path):
    content = content_of(3 * CHUNK)
    store.put(path, content, chunk_bytes=CHUNK)
    store.write(path, CHUNK - 5, b"0123456789")

    assert store.get(path) == content[: CHUNK - 5] + b"0123456789" + content[CHUNK + 5 :]


def test_the_last_of_many_overwrites_stays(store, path):
    store.put(path, bytes(CHUNK), chunk_bytes=CHUNK)
    for turn in range(40):
        store.write(path, turn * 100, bytes([turn]) * 1000)

    expected = b"".join(bytes([turn]) * 100 for turn in range(39)) + bytes([39]) * 1000
    assert store.get(path) == expected + bytes(CHUNK - len(expected))


def test_write_to_no_file_is_refused(store, path):
    with pytest.raises(InvalidRequest):
        store.write(path, 0, b"content")


def test_a_write_for_one_generation_spares_the_next(store, path):
    generation = store.create(path).generation
    store.write(path, 0, b"first", if_generation=generation)
    store.put(path, b"second")

    with pytest.raises(InvalidRequest):
        store.write(path, 0, b"late", if_generation=generation)
    assert store.get(path) == b"second"


def test_nothing_can_be_written_and_read(store, path):
    store.put(path, b"content")
    counts = store.write(path, 3, b""), store.append(path, []), store.read(path, 0, [])

    assert (counts, store.get(path)) == ((0, 7, 0), b"content")


def test_append_says_where_it_was_put(store, path):
    store.create(path)

    assert [store.append(path, part) for part in (b"abc", b"defg", b"h")] == [0, 3, 7]


def test_appends_add_up(store, path):
    parts = [content_of(1 + 10_000 * turn, seed=turn) for turn in range(12)]
    store.create(path, chunk_bytes=CHUNK)
    for part in parts:
        store.append(path, part)

    assert store.get(path) == b"".join(parts)


def test_append_to_no_file_is_refused(store, path):
    with pytest.raises(InvalidRequest):
        store.append(path, b"content")


def test_several_buffers_are_one_range(store, path):
    content = content_of(2 * CHUNK + 100)
    store.create(path, chunk_bytes=CHUNK)
    store.write(path, 0, [content[:10], content[10 : CHUNK + 1], b"", content[CHUNK + 1 :]])
    parts = [bytearray(CHUNK - 1), bytearray(50), bytearray(CHUNK + 51)]
    store.read(path, 0, parts)

    assert b"".join(parts) == content


def test_any_contiguous_memory_is_a_buffer(store, path):
    content = content_of(mmap.PAGESIZE)
    mapped = mmap.mmap(-1, mmap.PAGESIZE)
    array = numpy.zeros((4, mmap.PAGESIZE // 16), dtype=numpy.int32)
    store.put(path, numpy.frombuffer(content, dtype=numpy.float64))
    store.read(path, 0, mapped)
    store.read(path, 0, array)

    assert (mapped[:], array.tobytes()) == (content, content)


def test_an_address_and_a_length_are_a_buffer(store, path):
    source = ctypes.create_string_buffer(b"0123456789", 10)
    target = ctypes.create_string_buffer(10)
    store.put(path, (ctypes.addressof(source), 10))
    store.read(path, 0, (ctypes.addressof(target), 10))

    assert target.raw == b"0123456789"


def test_truncate_cuts(store, path):
    content = content_of(2 * CHUNK)
    store.put(path, content, chunk_bytes=CHUNK)
    store.truncate(path, CHUNK + 7)

    assert store.get(path) == content[: CHUNK + 7]


def test_what_was_cut_never_comes_back(store, path):
    store.put(path, b"x" * CHUNK * 2, chunk_bytes=CHUNK)
    store.truncate(path, 10)
    store.write(path, CHUNK + 10, b"end")

    assert store.get(path) == b"x" * 10 + bytes(CHUNK) + b"end"


def test_truncate_never_grows(store, path):
    store.put(path, b"short")

    with pytest.raises(InvalidRequest):
        store.truncate(path, 6)


def test_unlink_says_whether_there_was_a_file(store, path):
    store.create(path)

    assert [store.unlink(path), store.unlink(path)] == [True, False]


def test_a_file_made_again_is_empty(store, path):
    store.put(path, content_of(2 * CHUNK), chunk_bytes=CHUNK)
    store.unlink(path)
    store.create(path)

    assert store.get(path) == b""


def test_a_file_made_again_has_another_generation(store, path):
    first = store.create(path).generation
    store.unlink(path)

    assert store.create(path).generation != first


@pytest.mark.parametrize("sizes", [(10, 3), (3, 10), (3 * CHUNK, CHUNK + 1), (5, 0)])
def test_put_replaces_the_whole_file(store, path, sizes):
    contents = [content_of(size, seed=size) for size in sizes]
    for content in contents:
        store.put(path, content, chunk_bytes=CHUNK)

    assert store.get(path) == contents[-1]


def test_put_that_fails_leaves_the_old_content(store, path):
    store.put(path, b"old")

    with pytest.raises(InvalidRequest):
        store.put(path, b"new", chunk_bytes=1)

    assert store.get(path) == b"old"


def test_put_of_nothing_is_an_empty_file(store, path):
    store.put(path, b"old")

    store.put(path, b"")

    assert store.get(path) == b""


def test_put_says_its_bytes(store, path):
    assert store.put(path, [b"abc", b"de"]) == 5


def test_a_change_grows_the_sequence(store, path):
    first = store.create(path).sequence
    store.write(path, 0, b"content")

    assert store.stat(path).sequence > first


def test_list_goes_on_where_it_stopped(store, namespace):
    paths = [f"/{namespace}/{name}" for name in ("a", "b", "b/c", "d", "é")]
    for size, path in enumerate(paths):
        store.put(path, bytes(size))
    first = store.list(f"/{namespace}/", limit=3)
    second = store.list(f"/{namespace}/", after=first.next, limit=3)

    assert first.entries + second.entries == list(zip(paths, range(5), strict=True))
    assert second.next is None


def test_list_keeps_to_its_prefix(store, namespace):
    for name in ("a", "ab", "b"):
        store.create(f"/{namespace}/{name}")

    names = [path for path, _ in store.list(f"/{namespace}/a").entries]
    assert names == [f"/{namespace}/a", f"/{namespace}/ab"]


def test_clear_forgets_its_namespace_alone(store, namespace):
    store.put(f"/{namespace}/file", b"1")
    store.put(f"/{namespace}-other/file", b"2")
    store.clear(namespace)

    assert store.get(f"/{namespace}/file") is None
    assert store.get(f"/{namespace}-other/file") == b"2"


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "/",
        "relative/file",
        "/namespace",
        "/ns/",
        "/ns//file",
        "/ns/../file",
        "/ns/.",
        "/ns/a\0b",
    ],
)
def test_a_path_that_cannot_be_one_is_refused(store, bad):
    with pytest.raises(InvalidRequest):
        store.create(bad)


def test_a_path_of_1024_bytes_is_the_longest(store, namespace):
    longest = f"/{namespace}/".ljust(1024, "x")
    store.create(longest)

    with pytest.raises(InvalidRequest, match="1025"):
        store.create(longest + "x")


@pytest.mark.parametrize("offset", [-1, 2**64, 1.5, "0"])
def test_an_offset_that_cannot_be_one_is_refused(store, path, offset):
    store.create(path)

    with pytest.raises(InvalidRequest):
        store.read(path, offset, bytearray(1))


def test_a_file_ends_at_one_tebibyte(store, path):
    store.create(path)

    with pytest.raises(InvalidRequest):
        store.write(path, (1 << 40) - 3, b"four")


@pytest.mark.parametrize("offset", [(1 << 40) - 3, 1 << 40, 2**64 - 1])
def test_a_read_past_one_tebibyte_is_short(store, path, offset):
    store.put(path, b"content")

    assert store.read(path, offset, [bytearray(2), bytearray(8)]) == 0
    assert store.read(path + "-none", offset, bytearray(8)) is None


@pytest.mark.parametrize("prefix", ["", "e", "ns/", "/e/../", "/./x", "//", "/e//x", "/../", "/\0"])
def test_a_prefix_that_no_path_has_is_refused(store, prefix):
    with pytest.raises(InvalidRequest, match="prefix"):
        store.list(prefix)


@pytest.mark.parametrize("end", [".", "..", ".hid", "a/..", "a/."])
def test_a_prefix_may_end_within_a_name(store, namespace, end):
    path = f"/{namespace}/{end}hidden"
    store.create(path)

    assert store.list(f"/{namespace}/{end}").entries == [(path, 0)]


@pytest.mark.parametrize("generation", [-1, 0, 2**64, "1"])
def test_a_generation_that_cannot_be_one_is_refused(store, path, generation):
    store.create(path)

    with pytest.raises(InvalidRequest, match="if_generation"):
        store.write(path, 0, b"content", if_generation=generation)


def test_a_truncate_upwards_says_the_size(store, path):
    store.put(path, b"short")

    with pytest.raises(InvalidRequest, match=f"^truncate {path} to 6 bytes: it has 5$") as caught:
        store.truncate(path, 6)
    assert "shrink" in caught.value.hint


@pytest.mark.parametrize(
    "chunk_bytes", [0, 1, (64 << 10) - 1, (64 << 10) + 1, (1 << 30) + (64 << 10)]
)
def test_a_chunk_size_out_of_range_is_refused(store, path, chunk_bytes):
    with pytest.raises(InvalidRequest, match="65536 up to 1073741824"):
        store.create(path, chunk_bytes=chunk_bytes)


@pytest.mark.parametrize("replicas", [-1, 0, 9, 1.5, "two"])
def test_a_number_of_copies_out_of_range_is_refused(store, path, replicas):
    store.put(path, b"content")

    for change in (
        lambda: store.create(path, replicas=replicas),
        lambda: store.put(path, b"other", replicas=replicas),
        lambda: store.advise(path, "willneed", replicas=replicas),
    ):
        with pytest.raises(InvalidRequest):
            change()
    assert store.get(path) == b"content"


def test_stat_says_how_many_copies_were_wanted(store, path):
    assert store.create(path, replicas=2).replicas == 2

    store.put(path, b"content", replicas=3)
    assert store.stat(path).replicas == 3

    store.put(path, b"content")
    assert store.stat(path).replicas == 0


def test_advice_changes_how_many_copies_are_wanted(store, path):
    store.put(path, b"content")

    store.advise(path, "willneed", replicas=2)
    assert store.stat(path).replicas == 2

    store.advise(path, "dontneed")
    assert store.stat(path).replicas == 0


def test_advice_says_how_many_bytes_have_their_copies(store, path):
    store.put(path, content_of(3 * CHUNK + 5), chunk_bytes=CHUNK)

    assert store.advise(path, "willneed", replicas=1) == 3 * CHUNK + 5


def test_advice_takes_no_byte_that_is_needed(store, path):
    store.put(path, content_of(3 * CHUNK), chunk_bytes=CHUNK)

    assert store.advise(path, "dontneed") == 0
    assert store.get(path) == content_of(3 * CHUNK)


def test_advice_about_no_file_is_a_miss(store, path):
    assert store.advise(path, "willneed") is None


def test_unknown_advice_is_refused(store, path):
    with pytest.raises(InvalidRequest, match="sequential"):
        store.advise(path, "sequential")


def test_everything_works_with_await(store, path):
    async def use() -> list[object]:
        into = bytearray(3)
        await store.acreate(path)
        return [
            await store.awrite(path, 0, b"abcdef"),
            await store.aappend(path, b"gh"),
            await store.aread(path, 3, into),
            bytes(into),
            await store.atruncate(path, 7),
            await store.aget(path),
            (await store.astat(path)).size,
            (await store.alist(path)).entries,
            await store.aput(path, b"new"),
            await store.aunlink(path),
            await store.aget(path),
        ]

    expected = [6, 6, 3, b"def", None, b"abcdefg", 7, [(path, 7)], 3, True, None]
    assert asyncio.run(use()) == expected
