"""The checker's rules about times when nothing is wrong, losses, and deadlines."""

from __future__ import annotations

import pytest

from chaos.history import ETCD, S
from chaos.made_history import Made
from chaos.operation import CONTENDED, KILLED, REFUSED, UNSURE
from gd2fs._core import placement_order


@pytest.fixture
def made() -> Made:
    return Made()


@pytest.mark.parametrize(
    ("replicas", "losses", "is_kept"), [(1, 1, False), (2, 1, True), (2, 2, False)]
)
def test_acknowledged_bytes_survive_fewer_losses_than_replicas(replicas, losses, is_kept):
    made = Made(replicas=replicas)
    made.put(1, 2)
    for index in range(losses):
        made.outage("kill", 5 + index, 6 + index, target=f"n{index}")
    made.miss(30, 31)

    assert made.rules == (["a lost file"] if is_kept else [])


@pytest.mark.parametrize(
    ("kind", "lease_s", "rules"),
    [("put", 0, ["a lost file"]), ("put", 2, []), ("page_put", 2, ["a lost page"])],
)
def test_a_node_that_keeps_its_memory_loses_by_a_kill_only_what_leases_guard(kind, lease_s, rules):
    made = Made(is_kept=True, lease_ns=lease_s * S)
    made.do(kind, 1, 2, length=64)
    made.outage("kill", 5, 6)
    made.miss(30, 31, "page_get" if kind == "page_put" else "read")

    assert made.rules == rules


def test_one_node_lost_twice_is_one_loss():
    made = Made(replicas=2)
    made.put(1, 2)
    made.outage("kill", 5, 6)
    made.outage("kill", 8, 9)
    made.miss(30, 31)

    assert made.rules == ["a lost file"]


def test_nothing_is_claimed_of_an_arena_that_was_full():
    made = Made(is_roomy=False)
    made.put(1, 2)
    made.miss(30, 31)

    assert made.rules == []


def test_a_miss_while_something_is_wrong_or_just_was_is_right(made):
    made.put(1, 2)
    made.outage("pause", 10, 12)
    made.miss(11, 11.5)
    made.miss(13, 13.5)

    assert made.rules == []


def test_a_file_that_may_be_unlinked_may_be_missing(made):
    made.put(1, 2)
    made.do("unlink", 3, 4)
    made.miss(5, 6)

    assert made.rules == []


def test_an_unlink_without_answer_may_not_hide_what_began_after_it(made):
    made.do("unlink", 1, 2, UNSURE, timeout_s=1.0)
    made.put(3, 4)
    made.miss(5, 6)

    assert made.rules == ["a lost file"]


def test_bytes_that_an_unanswered_write_may_have_left_may_be_missing(made):
    made.put(1, 2)
    made.outage("pause", 3, 4)
    made.write(3, 4, 0, 8, UNSURE)
    made.miss(30, 31)

    assert made.rules == []


def test_a_write_to_a_file_that_must_be_there_is_not_refused(made):
    made.put(1, 2)
    made.write(3, 4, 0, 8, REFUSED)

    assert made.rules == ["a lost file"]


def test_a_write_may_be_refused_while_a_put_makes_another_file(made):
    made.put(1, 2)
    made.put(3, 5)
    made.write(3, 4, 0, 8, REFUSED)

    assert made.rules == []


def test_a_patient_call_does_not_fail_while_nothing_is_wrong(made):
    made.put(1, 2, outcome=UNSURE)

    assert made.rules == ["failed while nothing was wrong"]


@pytest.mark.parametrize("outcome", [CONTENDED, KILLED])
def test_a_call_may_lose_to_others_or_end_with_its_process(made, outcome):
    made.put(1, 2, outcome=outcome)

    assert made.rules == []


def test_no_call_outlives_its_deadline(made):
    made.outage("pause", 0, 100)
    made.do("put", 1, 4, UNSURE, timeout_s=2.0)
    made.do("put", 1, 6, UNSURE, timeout_s=2.0)

    assert made.rules == ["past its deadline"]


def test_a_page_survives_the_loss_of_a_node_that_does_not_own_it():
    made = Made(nodes=["n0", "n1", "n2"])
    put = made.do("page_put", 1, 2, length=64)
    owner = placement_order(made.history.nodes, [100] * 3, f"chaos\0{put.name}".encode(), 0, 1)[0]
    made.outage("kill", 5, 6, target=f"n{owner}")
    made.miss(30, 31, "page_get")
    assert made.rules == []

    made.history.outages.clear()
    made.outage("kill", 5, 6, target=f"n{(owner + 1) % 3}")

    assert made.rules == ["a lost page"]


def test_a_lease_that_ends_loses_files_but_no_pages():
    made = Made(lease_ns=2 * S)
    made.put(1, 2)
    made.do("page_put", 1, 2, length=64)
    made.outage("pause", 5, 9)
    made.miss(30, 31)
    made.miss(30, 31, "page_get")

    assert made.rules == ["a lost page"]


def test_etcd_away_for_long_loses_all_files_but_a_cut_between_nodes_loses_none():
    made = Made(lease_ns=2 * S, replicas=2)
    made.put(1, 2)
    made.outage("cut", 5, 9, target="n0")
    made.miss(30, 31)
    assert made.rules == ["a lost file"]

    made.outage("pause", 12, 16, target=ETCD)

    assert made.rules == []
