"""Content: what is read tells who wrote it."""

from __future__ import annotations

from chaos.content import Run, content_of, runs_of


def test_any_range_of_an_operation_tells_its_number_and_place():
    content = content_of(7, 4096)[1000:1064]

    assert runs_of(content, at=64) == [Run(64, 64, 7, 1000)]


def test_a_mixture_is_cut_where_its_writers_change():
    content = content_of(3, 64) + bytes(16) + content_of(4, 64)[8:]

    assert runs_of(content) == [Run(0, 64, 3, 0), Run(64, 16, 0, 0), Run(80, 56, 4, 8)]


def test_one_operation_at_another_place_is_another_run():
    content = content_of(3, 64)[:32] + content_of(3, 64)[40:]

    assert runs_of(content) == [Run(0, 32, 3, 0), Run(32, 24, 3, 40)]


def test_a_changed_bit_is_seen():
    content = bytearray(content_of(3, 64))
    content[21] ^= 4

    assert runs_of(content) != runs_of(content_of(3, 64))


def test_a_part_of_a_word_belongs_to_nobody():
    assert runs_of(content_of(3, 16)[:12]) == [Run(0, 8, 3, 0), Run(8, 4, -1, 0)]


def test_nothing_has_no_writer():
    assert runs_of(b"") == []
