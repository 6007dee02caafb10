"""Addresses: what is understood, what is refused, and what the environment fills in."""

from __future__ import annotations

import pytest

from gd2fs import FileAddress, InvalidRequest, parse_file_address
from gd2fs.address import absent_dp, parse_cp, parse_dp
from gd2fs.config import check_memthreads, client_config


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gd2fs://a:1,gd2fs://b:2", ("a:1", "b:2")),
        ("gd2fs://a:1,b:2", ("a:1", "b:2")),
        ("a, b", ("a:7527", "b:7527")),
        ("gd2fs://10.0.0.1", ("10.0.0.1:7527",)),
        ("[fd00::1]", ("[fd00::1]:7527",)),
        ("gd2fs://[fd00::1]:9", ("[fd00::1]:9",)),
        (["a", "gd2fs://b:2"], ("a:7527", "b:2")),
    ],
)
def test_control_plane_addresses_are_host_and_port(text, expected):
    assert parse_cp(text) == expected


@pytest.mark.parametrize(
    "text", ["", ",", "a,,b", "tcp://a:1", "a:0", "a:65536", "a:x", "a:", ":1", "a/b", "fd00::1"]
)
def test_what_is_no_control_plane_address_is_refused(text):
    with pytest.raises(InvalidRequest):
        parse_cp(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("tcp://10.0.0.1,tcp://10.0.0.2", ("10.0.0.1", "10.0.0.2")),
        ("tcp://[fd00::1]", ("fd00::1",)),
        ("tcp://127.0.0.1", ()),
        ("rdma://10.0.0.1,rdma://10.0.0.2", ("10.0.0.1", "10.0.0.2")),
        ("rdma://10.0.0.1,10.0.0.2", ("10.0.0.1", "10.0.0.2")),
    ],
)
def test_data_plane_addresses_are_local_ones(text, expected):
    assert parse_dp(text) == expected


@pytest.mark.parametrize(
    "text", ["tcp://10.0.0.1,rdma://10.0.0.2", "udp://10.0.0.1", "tcp://host", "rdma://", "tcp://"]
)
def test_what_is_no_data_plane_address_is_refused(text):
    with pytest.raises(InvalidRequest):
        parse_dp(text)


@pytest.mark.parametrize(
    ("dp", "transport", "variable", "expected"),
    [
        ("rdma://10.0.0.1", None, "", "rdma"),
        ("rdma://127.0.0.1", "auto", "", "rdma"),
        ("rdma://127.0.0.1", None, "rdma", "rdma"),
        ("tcp://10.0.0.1", None, "", "auto"),
        ("tcp://10.0.0.1", "rdma", "", "rdma"),
        ("", None, "unix", "unix"),
    ],
)
def test_addresses_of_rdma_ask_for_it(dp, transport, variable, expected):
    environment = {"GD2FS_TRANSPORT": variable}

    config = client_config("a", cluster="c", dp=dp, transport=transport, environment=environment)

    assert config.transport == expected


@pytest.mark.parametrize(("transport", "variable"), [("tcp", ""), (None, "shm")])
def test_addresses_of_rdma_and_another_transport_are_refused(transport, variable):
    environment = {"GD2FS_TRANSPORT": variable, "GD2FS_DPADDR": "rdma://10.0.0.1"}

    with pytest.raises(InvalidRequest, match="rdma"):
        client_config("a", cluster="c", transport=transport, environment=environment)


def test_only_a_transport_that_may_be_rdma_has_to_do_with_it():
    environment = {"GD2FS_UCX": "/opt/libucp.so", "GD2FS_UCX_TLS": "rc,tcp"}
    words = {
        name: client_config("a", cluster="c", transport=name, environment=environment).rdma
        for name in ("auto", "rdma", "tcp", "unix", "shm")
    }

    whole = {"use": "auto", "library": "/opt/libucp.so", "transports": "rc,tcp"}
    none = {"use": "off"}
    assert words == {"auto": whole, "rdma": whole, "tcp": none, "unix": none, "shm": none}


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (
            "gd2fs://cp1:7527,cp2:7528/dir/file?cluster=c0",
            FileAddress(("cp1:7527", "cp2:7528"), "/dir/file", "c0"),
        ),
        ("gd2fs://cp1/dir/file", FileAddress(("cp1:7527",), "/dir/file")),
        ("gd2fs://cp1/dir/a%20b%3F", FileAddress(("cp1:7527",), "/dir/a b?")),
    ],
)
def test_a_uri_names_a_file(uri, expected):
    assert parse_file_address(uri) == expected
    assert parse_file_address(str(expected)) == expected


@pytest.mark.parametrize(
    "uri",
    [
        "http://cp1/dir/file",
        "gd2fs://cp1",
        "gd2fs://cp1/",
        "gd2fs:///dir/file",
        "gd2fs://cp1/f?x=1",
        "gd2fs://cp1/f?cluster=",
        "gd2fs://cp1/f?cluster=a&cluster=b",
    ],
)
def test_what_is_no_uri_of_a_file_is_refused(uri):
    with pytest.raises(InvalidRequest):
        parse_file_address(uri)


def test_the_environment_fills_what_is_not_given():
    environment = {
        "GD2FS_CPADDR": "gd2fs://a",
        "GD2FS_CLUSTER": "c0",
        "GD2FS_DPADDR": "tcp://10.0.0.1",
        "GD2FS_IOTHREADS": "4",
        "GD2FS_STREAMS": "8",
        "GD2FS_TIMEOUT_S": "2.5",
        "GD2FS_CONGESTION": "reno",
        "GD2FS_SOCKET_BUFFER": "256KiB",
    }
    config = client_config(streams=3, environment=environment)

    assert (config.cp, config.cluster, config.dp) == (("a:7527",), "c0", ("10.0.0.1",))
    assert (config.io_threads, config.streams, config.timeout_s) == (4, 3, 2.5)
    assert (config.congestion, config.socket_buffer_bytes) == ("reno", 256 << 10)


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ({}, {}),
        ({"cp": "a"}, {}),
        ({"cluster": "c"}, {}),
        ({"cp": "a", "cluster": ""}, {}),
        ({"cp": "a", "cluster": "c", "io_threads": 0}, {}),
        ({"cp": "a", "cluster": "c", "streams": 65}, {}),
        ({"cp": "a", "cluster": "c", "timeout_s": 0}, {}),
        ({"cp": "a", "cluster": "c"}, {"GD2FS_STREAMS": "many"}),
        ({"cp": "a", "cluster": "c"}, {"GD2FS_STREAMS": "2.5"}),
        ({"cp": "a", "cluster": "c", "socket_buffer": 0}, {}),
        ({"cp": "a", "cluster": "c", "socket_buffer": "1GiB"}, {}),
        ({"cp": "a", "cluster": "c"}, {"GD2FS_SOCKET_BUFFER": "much"}),
    ],
)
def test_a_setting_that_is_missing_or_wrong_is_refused(settings, environment):
    with pytest.raises(InvalidRequest):
        client_config(**settings, environment=environment)


@pytest.mark.parametrize(("given", "text", "count"), [(None, "", 1), (None, "4", 4), (2, "4", 2)])
def test_memthreads_come_from_the_call_then_from_the_environment(given, text, count):
    assert check_memthreads(given, {"GD2FS_MEMTHREADS": text}) == count


def test_memthreads_out_of_range_are_refused():
    with pytest.raises(InvalidRequest):
        check_memthreads(0)


def test_an_own_address_that_is_not_there_is_named_with_the_reason():
    assert absent_dp(["127.0.0.1"]) == []
    assert absent_dp(["198.51.100.1", "127.0.0.1"])[0].startswith(
        "tcp://198.51.100.1: Cannot assign"
    )
