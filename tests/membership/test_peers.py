"""Membership: the list of peers, its hash, and which entry this node is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gd2fs.errors import InvalidRequest
from gd2fs.membership import Peer, find_self, format_peers, list_hash, parse_address, parse_peers

A = Peer("a", ("10.0.0.1:7527", "10.1.0.1:7527"))
B = Peer("b", ("10.0.0.2:7527",))
NAMES = st.text("abcdefghij-.", min_size=1, max_size=8)
PORTS = st.integers(1, 65_535)


@st.composite
def lists(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    ports = draw(st.lists(PORTS, min_size=len(names), max_size=len(names), unique=True))
    return [Peer(name, (f"h:{port}",)) for name, port in zip(names, ports, strict=True)]


def test_peers_are_read_with_names_and_several_addresses():
    assert parse_peers("a=10.0.0.1:7527+10.1.0.1:7527,b=10.0.0.2:7527") == [A, B]


def test_a_peer_without_a_name_is_called_by_its_first_address():
    assert parse_peers("10.0.0.1:1+10.0.0.2:2")[0].name == "10.0.0.1:1"


@given(lists())
def test_a_list_reads_back_as_it_was_written(peers):
    assert parse_peers(format_peers(peers)) == sorted(peers, key=lambda peer: peer.name)


@given(lists(), st.randoms())
def test_the_hash_does_not_depend_on_the_order(peers, random):
    shuffled = random.sample(peers, len(peers))

    assert list_hash(shuffled) == list_hash(peers)


def test_the_hash_does_not_depend_on_the_order_of_addresses():
    assert list_hash([Peer("a", A.addresses[::-1]), B]) == list_hash([A, B])


@pytest.mark.parametrize(
    "other",
    [
        [A],
        [A, Peer("c", B.addresses)],
        [A, Peer("b", ("10.0.0.3:7527",))],
        [A, Peer("b", B.addresses, 2)],
    ],
)
def test_lists_that_place_or_reach_differently_have_other_hashes(other):
    assert list_hash(other) != list_hash([A, B])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("a=", "not a peer"),
        ("=10.0.0.1:1", "not a peer"),
        ("a=10.0.0.1", "not ADDR:PORT"),
        ("a=10.0.0.1:0", "port 0"),
        ("a=10.0.0.1:70000", "over 65535"),
        ("a=:1", "not ADDR:PORT"),
        ("a=h:1,", "not a peer"),
        ("a b=h:1", "cannot name a node"),
        ("a=h:1,a=h:2", "listed twice"),
        ("a=h:1,b=h:1", "listed twice"),
        ("a=h:1+h:1", "listed twice"),
        ("x" * 129 + "=h:1", "cannot name a node"),
        ("+".join(f"h:{port}" for port in range(1, 18)), "more than 16"),
        (",".join(f"h:{port}" for port in range(1, 1026)), "more than 1024"),
    ],
)
def test_a_broken_list_is_refused_with_what_is_wrong(text, complaint):
    with pytest.raises(InvalidRequest, match=complaint) as refused:
        parse_peers(text)

    assert refused.value.hint


def test_addresses_of_ipv6_need_brackets():
    assert parse_address("[fd00::1]:7527") == ("[fd00::1]", 7527)
    with pytest.raises(InvalidRequest):
        parse_address("fd00::1:7527")


def test_this_node_is_found_by_name_before_address():
    assert find_self([A, B], name="b", addresses=A.addresses) == B


def test_this_node_is_found_by_any_of_its_addresses():
    assert find_self([A, B], name=None, addresses=["10.1.0.1:7527"]) == A


@pytest.mark.parametrize("name", ["c", None])
def test_a_node_that_is_not_listed_is_refused(name):
    with pytest.raises(InvalidRequest, match="no entry"):
        find_self([A, B], name=name, addresses=["10.9.9.9:1"])


def test_two_entries_for_one_node_are_refused():
    with pytest.raises(InvalidRequest, match="two entries"):
        find_self([A, B], name=None, addresses=[*A.addresses, *B.addresses])
