"""What the page asks for, over HTTP, of real nodes."""

from __future__ import annotations

import gzip
import json
import re
import urllib.error
import urllib.request

import pytest

pytestmark = pytest.mark.slow


def ask(url: str, body: object = None, **headers: str):
    """Status, headers and body."""
    text = None if body is None else json.dumps(body).encode()
    sent = {"content-type": "application/json"} if text else {}
    request = urllib.request.Request(
        url, text, sent | {k.replace("_", "-"): v for k, v in headers.items()}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def said(answer) -> dict:
    return json.loads(answer[2])


def test_any_node_tells_of_the_whole_cluster(pages_of):
    for name, url in pages_of.items():
        seen = said(ask(url + "v1/overview"))

        assert seen["seen_by"] == name and seen["cluster"] == "seen"
        assert [each["name"] for each in seen["nodes"]] == ["n0", "n1", "n2"]
        assert all(each["answers"] for each in seen["nodes"]) and not seen["problems"]


def test_an_overview_comes_zipped_to_those_who_can_read_it(pages_of):
    status, headers, body = ask(pages_of["n0"] + "v1/overview", accept_encoding="gzip")

    assert status == 200 and headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(body))["provider"] == "static"


def test_the_page_may_ask_its_own_node_and_nobody_else(pages_of):
    status, headers, body = ask(pages_of["n0"])
    policy = headers["content-security-policy"]

    assert status == 200 and body.startswith(b"<!doctype html>")
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert not re.search(r"unsafe|https?:|\*", policy)
    assert not re.search(rb'(?:src|href)="(?!data:|#)', body)


def test_settings_are_shown_and_changed_on_one_node_or_on_all(pages_of):
    url = pages_of["n0"] + "v1/config"
    one = ask(url, {"key": "default.ttl", "value": "1h", "node": "n1"})
    all_of = ask(url, {"key": "namespace.kv.quota", "value": "4MiB"})

    shown = said(ask(url))["nodes"]

    assert one[0] == 200 and said(one)["nodes"] == ["n1"]
    assert all_of[0] == 200 and said(all_of)["nodes"] == ["n0", "n1", "n2"]
    assert [shown[name].get("default") for name in ("n0", "n1")] == [None, {"ttl": 3600}]
    assert all(each["namespace"] == {"kv": {"quota": "4MiB"}} for each in shown.values())
    assert set(said(ask(url + "?node=n2"))["nodes"]) == {"n2"}
    ask(url, {"key": "namespace.kv.quota", "value": None})
    assert "namespace" not in said(ask(url + "?node=n2"))["nodes"]["n2"]


@pytest.mark.parametrize(
    ("path", "body", "fault"),
    [
        ("v1/config", {"key": "memory", "value": "1GiB"}, "when the node starts"),
        ("v1/config", {"key": "default.ttl", "value": "1h", "node": "n9"}, "no node `n9`"),
        ("v1/drain", {"node": "n9"}, "no node `n9`"),
        ("v1/drain", {"node": "n1"}, "static list, which never changes"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(pages_of, path, body, fault):
    answer = ask(pages_of["n0"] + path, body)

    assert answer[0] == 400 and fault in said(answer)["error"]


@pytest.mark.parametrize(
    "headers", [{"origin": "https://elsewhere.example"}, {"content_type": "text/plain"}]
)
def test_another_sites_page_cannot_act_in_an_operators_place(pages_of, headers):
    answer = ask(pages_of["n0"] + "v1/config", {"key": "default.ttl", "value": "9h"}, **headers)

    assert answer[0] == 400
    shown = said(ask(pages_of["n0"] + "v1/config"))["nodes"].values()
    assert all(each.get("default") != {"ttl": 32400} for each in shown)


def test_a_node_may_act_where_its_own_page_asks(pages_of):
    url = pages_of["n0"]

    answer = ask(
        url + "v1/config", {"key": "move_rate", "value": "2GiB"}, origin=url.removesuffix("/")
    )

    assert answer[0] == 200
