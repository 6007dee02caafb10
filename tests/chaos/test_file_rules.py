"""The checker's rules about files, each with a history that keeps it and one that does not."""

from __future__ import annotations

import pytest

from chaos.made_history import Made
from chaos.operation import UNSURE

CHUNK = 64 << 10


@pytest.fixture
def made() -> Made:
    """No rule about calm times is tried here: a fault lasts all the time."""
    made = Made()
    made.outage("pause", 0, 1000)
    return made


def test_acknowledged_bytes_may_be_read(made):
    put = made.put(1, 2)
    made.read(3, 4, (64, put.number, 0))

    assert made.rules == []


def test_bytes_replaced_by_an_acknowledged_put_may_not_be_read(made):
    old = made.put(1, 2)
    made.put(3, 4)
    made.read(5, 6, (64, old.number, 0))

    assert made.rules == ["old bytes"]


def test_bytes_under_an_acknowledged_write_may_not_be_read(made):
    old = made.put(1, 2)
    new = made.write(3, 4, 16, 16)
    made.read(5, 6, (16, old.number, 0), (16, new.number, 0), (32, old.number, 32))
    made.read(5, 6, (64, old.number, 0))

    assert made.rules == ["old bytes"]


def test_either_of_two_writes_at_one_time_may_be_last(made):
    one, _ = made.put(1, 4), made.put(2, 3)
    made.read(5, 6, (64, one.number, 0))

    assert made.rules == []


def test_two_reads_must_agree_which_of_two_writes_is_last(made):
    one, other = made.put(1, 4), made.put(2, 3)
    made.read(5, 6, (64, one.number, 0))
    made.read(7, 8, (64, other.number, 0))

    assert made.rules == ["readers disagree"]


def test_a_read_at_the_same_time_as_the_writes_may_see_either(made):
    one, other = made.put(1, 4), made.put(2, 3)
    made.read(3, 6, (64, one.number, 0))
    made.read(7, 8, (64, other.number, 0))

    assert made.rules == []


def test_a_read_at_the_time_of_a_put_may_still_see_the_old_bytes(made):
    old = made.put(1, 2)
    made.put(3, 6)
    made.read(4, 5, (64, old.number, 0))

    assert made.rules == []


def test_an_unanswered_write_may_be_seen_and_may_vanish(made):
    old = made.put(1, 2)
    lost = made.put(3, 4, outcome=UNSURE)
    made.read(5, 6, (64, lost.number, 0))
    made.read(7, 8, (64, old.number, 0))

    assert made.rules == []


def test_an_unanswered_write_may_not_hide_what_began_after_it(made):
    lost = made.put(1, 2, outcome=UNSURE)
    made.put(3, 4)
    made.read(5, 6, (64, lost.number, 0))

    assert made.rules == ["old bytes"]


def test_an_unanswered_write_may_not_replace_acknowledged_bytes_for_ever(made):
    old = made.put(1, 2)
    made.write(3, 4, 0, 64, outcome=UNSURE)
    made.read(5, 6, (64, old.number, 0))

    assert made.rules == []


def test_bytes_that_nobody_wrote_are_foreign(made):
    made.put(1, 2)
    made.read(3, 4, (64, 99, 0))

    assert made.rules == ["foreign bytes"]


def test_bytes_of_another_path_are_foreign(made):
    made.put(1, 2)
    other = made.do("put", 1, 2, name="/chaos/other", length=64)
    made.read(3, 4, (64, other.number, 0))

    assert made.rules == ["foreign bytes"]


def test_bytes_at_a_place_that_was_not_meant_are_foreign(made):
    put = made.put(1, 2)
    made.read(3, 4, (56, put.number, 8))

    assert "foreign bytes" in made.rules


def test_bytes_are_not_read_before_they_are_written(made):
    made.put(1, 2)
    later = made.put(5, 6)
    made.read(3, 4, (64, later.number, 0))

    assert made.rules == ["bytes from the future"]


def test_zeros_may_be_read_where_nobody_wrote(made):
    put = made.put(1, 2)
    write = made.write(3, 4, 96, 32)
    made.read(5, 6, (64, put.number, 0), (32, 0, 0), (32, write.number, 0))

    assert made.rules == []


def test_zeros_may_not_stand_for_acknowledged_bytes(made):
    put = made.put(1, 2)
    made.read(3, 4, (32, put.number, 0), (32, 0, 0))

    assert "zeros over acknowledged bytes" in made.rules


def test_zeros_may_stand_where_the_file_was_cut_and_grew_again(made):
    put = made.put(1, 2)
    made.do("truncate", 3, 4, length=32)
    write = made.write(5, 6, 64, 8)
    made.read(7, 8, (32, put.number, 0), (32, 0, 0), (8, write.number, 0))

    assert made.rules == []


def test_bytes_that_were_cut_off_do_not_come_back(made):
    put = made.put(1, 2)
    made.do("truncate", 3, 4, length=32)
    write = made.write(5, 6, 64, 8)
    made.read(7, 8, (64, put.number, 0), (8, write.number, 0))

    assert "old bytes" in made.rules


def test_there_are_no_zeros_past_the_end(made):
    put = made.put(1, 2)
    made.read(3, 4, (64, put.number, 0), (64, 0, 0))

    assert made.rules == ["bytes past the end"]


def test_an_unlinked_file_does_not_come_back(made):
    put = made.put(1, 2)
    made.do("unlink", 3, 4)
    made.read(5, 6, (64, put.number, 0))

    assert made.rules == ["old bytes"]


def test_a_read_may_not_end_before_acknowledged_bytes(made):
    put = made.put(1, 2)
    made.do("append", 3, 4, length=64, value=64)
    made.read(5, 6, (64, put.number, 0))

    assert made.rules == ["a read ends too early"]


def test_a_read_may_end_where_the_file_was_cut(made):
    put = made.put(1, 2)
    made.do("truncate", 3, 4, UNSURE, length=32)
    made.read(5, 6, (32, put.number, 0))

    assert made.rules == []


def test_a_put_is_seen_whole_even_before_it_is_acknowledged(made):
    old = made.put(1, 2, length=2 * CHUNK)
    new = made.put(3, 8, length=2 * CHUNK)
    made.read(4, 5, (CHUNK, new.number, 0), (CHUNK, old.number, CHUNK))

    assert made.rules == ["a torn change"]


def test_a_write_is_seen_whole_within_a_chunk(made):
    old = made.put(1, 2)
    new = made.write(3, 8, 0, 64)
    made.read(4, 5, (32, new.number, 0), (32, old.number, 32))

    assert made.rules == ["a torn change"]


def test_a_write_of_several_chunks_may_be_seen_in_part_until_it_is_acknowledged(made):
    old = made.put(1, 2, length=2 * CHUNK)
    new = made.write(3, 8, 0, 2 * CHUNK)
    made.read(4, 5, (CHUNK, new.number, 0), (CHUNK, old.number, CHUNK))
    made.read(9, 10, (CHUNK, new.number, 0), (CHUNK, old.number, CHUNK))

    assert made.rules == ["old bytes"]


def test_part_of_a_write_may_be_replaced_by_a_later_one(made):
    made.put(1, 2)
    one = made.write(3, 4, 0, 64)
    two = made.write(5, 6, 32, 32)
    made.read(7, 8, (32, one.number, 0), (32, two.number, 0))

    assert made.rules == []


def test_a_hole_inside_a_write_is_a_torn_one(made):
    made.do("create", 1, 2)
    write = made.write(3, 8, 0, 64)
    made.read(4, 5, (16, write.number, 0), (16, 0, 0), (32, write.number, 32))

    assert "a torn change" in made.rules


def test_an_append_without_answer_is_in_one_place_only(made):
    made.put(1, 2)
    append = made.do("append", 3, 9, UNSURE, length=8)
    made.write(3, 9, 64, 64, UNSURE)
    made.read(10, 11, (8, append.number, 0), offset=64, length=8)
    made.read(12, 13, (8, append.number, 0), offset=72, length=8)

    assert made.rules == ["an append in two places"]


def test_a_miss_is_right_while_something_is_wrong(made):
    made.put(1, 2)
    made.miss(3, 4)

    assert made.rules == []
