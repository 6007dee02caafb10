"""The plan: what a run measures, from the words of its command line."""

import pytest

from gd2fs.bench.io.case import GIB, KIB, MIB, Case
from gd2fs.bench.io.plan import arena_bytes, parse_choice, plan
from gd2fs.errors import InvalidRequest


def test_without_a_choice_the_rows_of_the_table_are_measured():
    cases = plan(parse_choice())

    assert Case("read", bytes=GIB, verify=False) in cases
    assert Case("get", bytes=128 * KIB, count=512) in cases
    assert Case("view", "shm") in cases


def test_a_choice_is_every_combination():
    cases = plan(
        parse_choice(
            sizes="4KiB,1MiB", ops="read", transports="tcp", streams="1,8", verify="on,off"
        )
    )

    assert len(cases) == 2 * 2 * 2
    assert Case("read", bytes=4 * KIB, streams=8, verify=False) in cases


def test_transports_alone_choose_among_the_rows_of_the_table():
    assert {case.transport for case in plan(parse_choice(transports="shm"))} == {"shm"}


def test_rdma_is_measured_when_it_is_chosen():
    of_rdma = plan(parse_choice(transports="rdma"))

    assert {case.op for case in of_rdma} == {"read", "write", "get"}
    assert {case.transport for case in of_rdma} == {"rdma"}
    assert "rdma" not in {case.transport for case in plan(parse_choice())}


def test_a_view_is_measured_over_shared_memory_alone():
    cases = plan(parse_choice(ops="view", sizes="1MiB"))

    assert [case.transport for case in cases] == ["shm"]


def test_batches_alone_are_got_and_put():
    cases = plan(parse_choice(batches="64x1MiB", transports="tcp"))

    assert [(case.op, case.count, case.bytes) for case in cases] == [
        ("get", 64, MIB),
        ("put", 64, MIB),
    ]


@pytest.mark.parametrize(
    "words",
    [
        {"sizes": "2GiB"},
        {"sizes": "many"},
        {"ops": "erase"},
        {"batches": "64"},
        {"batches": "0x1MiB"},
        {"transports": "infiniband"},
        {"streams": "9"},
        {"clients": "0"},
        {"nodes": "two"},
        {"verify": "maybe"},
    ],
)
def test_a_word_that_is_not_known_is_refused(words):
    with pytest.raises(InvalidRequest):
        parse_choice(**words)


@pytest.mark.parametrize(
    ("case", "ceiling"),
    [
        (Case("read"), "tcp_vmsplice"),
        (Case("write"), "tcp_send"),
        (Case("read", "unix"), "unix_vmsplice"),
        (Case("write", "unix"), "unix_send"),
        (Case("read", "shm"), "copy_nontemporal"),
        (Case("write", "shm"), "unix_send"),
        (Case("get", "shm", bytes=4 * KIB, count=128), "bare_get"),
        (Case("get", bytes=128 * KIB, count=512), "tcp_vmsplice"),
        (Case("get", bytes=4 * KIB, count=128), "bare_get"),
        (Case("put", bytes=128 * KIB, count=512), "tcp_send"),
        (Case("exists", bytes=0, count=1000), "bare_exists"),
    ],
)
def test_every_case_has_the_ceiling_of_its_way(case, ceiling):
    assert case.ceiling() == ceiling


def test_reads_are_held_against_send_where_memory_cannot_be_lent():
    assert Case("read").ceiling(can_vmsplice=False) == "tcp_send"


def test_targets_are_those_of_one_client_and_one_node():
    assert Case("read").target().value == 0.8
    assert Case("read", verify=False).target().value == 0.9
    assert Case("read", clients=2).target() is None


def test_an_arena_holds_what_all_clients_write():
    assert arena_bytes([Case("write", clients=4)]) > 4 * 64 * MIB
