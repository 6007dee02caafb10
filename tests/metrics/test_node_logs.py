"""Logs of a node as JSON, and what is told of slow requests."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest
from membership.recorded_core import wait_until
from test_node import ANY, Serve

from gd2fs.cli.log import as_json
from gd2fs.slow_log import SlowLog

SERVE = (sys.executable, "-m", "gd2fs", "serve", "--cluster", "logs", "--memory", "32MiB")


def lines_of(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_every_line_that_a_node_logs_is_an_object():
    with Serve(*ANY, "--log", "json", "--arena", "plain", "--nvme-rate", "0") as node:
        assert node.line.startswith("ready ")
        status, said = node.end()

    assert status == 0
    for line in lines_of(said):
        assert {"time", "level", "logger", "message"} <= set(line)
        assert str(line["time"]).endswith("Z")


def test_what_ends_a_node_is_the_last_line_of_its_log():
    done = subprocess.run(
        [*SERVE, "--log", "json", "--listen", "tcp://203.0.113.1:1"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    last = lines_of(done.stderr)[-1]

    assert done.returncode == 1
    assert last["level"] == "error"
    assert last["hint"]


def test_another_style_is_refused():
    done = subprocess.run([*SERVE, "--log", "xml"], capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    assert done.stderr.startswith("error: `--log` is `xml`\nhint: ")


def test_a_record_is_one_line_whatever_is_in_it():
    record = logging.makeLogRecord(
        {
            "name": "gd2fs.x",
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": "two\nlines of %s",
            "args": ("“text”",),
            "fields": {"op": "get", "message": "not this one"},
        }
    )

    line = as_json(record)

    assert "\n" not in line
    assert json.loads(line) | {"time": ""} == {
        "time": "", "level": "warning", "logger": "gd2fs.x", "message": "two\nlines of “text”",
        "op": "get",
    }  # fmt: skip


@pytest.mark.parametrize(("limit_ms", "is_told"), [(0, True), (60_000, False)])
def test_slow_requests_are_logged_with_what_they_belong_to(shared_node, logged, limit_ms, is_told):
    server = shared_node.servers[0]
    server.take_slow()
    server.set_slow(limit_ms)
    told = SlowLog(server, poll_s=0.01)

    with shared_node.client(transport="tcp", timeout_s=20) as client:
        pages = client.pages("slow")
        pages.put(["k"], [b"bytes"])
        pages.fadvise(["k"], "willneed", trace=0xABCDEF).wait()
        if is_told:
            wait_until(lambda: any("slow advise" in line for line in logged), "a slow advice")
    server.set_slow(1_000)
    told.stop()

    advised = [line for line in logged if "slow advise" in line]
    assert bool(advised) is is_told
    assert all(line.endswith("over tcp, trace 0000000000abcdef") for line in advised)
