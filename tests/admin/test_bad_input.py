"""Whatever a route of the admin side is told, it answers in words, and goes on serving."""

from __future__ import annotations

import http.client
import json
import random
from collections.abc import Iterator
from contextlib import closing

import pytest

from gd2fs.config import NodeConfig
from gd2fs.node import Node

PATIENCE_S = 20.0
WELL = {200, 202}
REFUSED = {400, 404, 405, 413}
ADVICE = {"advice": "willneed", "paths": ["/kv/a"]}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    config = NodeConfig(
        cluster="asked",
        listen=("127.0.0.1:0",),
        admin="127.0.0.1:0",
        memory_bytes=32 << 20,
        arena="plain",
    )
    with Node.start(config) as running:
        yield running


def ask(node: Node, path: str, body: object = None, method: str = "") -> tuple[int, str]:
    """Status and text; ``body``: bytes, or what JSON is made of."""
    text = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"} if text is not None else {}
    with closing(http.client.HTTPConnection(str(node.admin_address), timeout=PATIENCE_S)) as asked:
        asked.request(method or ("GET" if text is None else "POST"), path, text, headers)
        answer = asked.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "`advice`"),
        (["no object"], "got `array`"),
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"[" * 100_000, "got `array`"),
        (b"\xff\xfe", "no JSON"),
        ({"advice": "never", "paths": ["/kv/a"]}, "never"),
        ({"advice": "sequential", "paths": ["/kv/a"]}, "sequential"),
        ({"advice": "willneed"}, "0 names"),
        ({"advice": "willneed", "paths": []}, "0 names"),
        ({"advice": "willneed", "paths": "/kv/a"}, "$.paths"),
        ({"advice": "willneed", "paths": [1]}, "$.paths"),
        ({"advice": "willneed", "paths": ["kv/a"]}, "path `kv/a`"),
        ({"advice": "willneed", "paths": ["/kv/a", ""]}, "path ``"),
        ({"advice": "willneed", "paths": ["/kv"]}, "path `/kv`"),
        ({"advice": "willneed", "paths": ["/kv/../a"]}, "path `/kv/../a`"),
        ({"advice": "willneed", "paths": ["/kv/\0"]}, "path `/kv/"),
        ({"advice": "willneed", "paths": ["/kv/" + "a" * 5000]}, "path `/kv/a"),
        ({"advice": "willneed", "paths": ["/kv/\ud800"]}, "no JSON"),
        ({"advice": "willneed", "keys": ["a"]}, "without a namespace"),
        ({"advice": "willneed", "keys": ["a"], "namespace": "a/b"}, "namespace `a/b`"),
        ({"advice": "willneed", "keys": ["a"], "namespace": ".."}, "namespace `..`"),
        ({"advice": "willneed", "keys": [""], "namespace": "kv"}, "key ``"),
        ({"advice": "willneed", "keys": ["k" * 5000], "namespace": "kv"}, "key `kkk"),
        ({"advice": "willneed", "keys": [None], "namespace": "kv"}, "$.keys"),
        (ADVICE | {"offset": "0"}, "$.offset"),
        (ADVICE | {"offset": True}, "$.offset"),
        (ADVICE | {"offset": -1}, "range"),
        (ADVICE | {"length": -1}, "range"),
        (ADVICE | {"offset": 1 << 41}, "range"),
        (ADVICE | {"offset": 1 << 70}, "range"),
        (ADVICE | {"offset": 0.5}, "$.offset"),
        (ADVICE | {"timeout_s": 0}, "$.timeout_s"),
        (ADVICE | {"timeout_s": 601}, "$.timeout_s"),
        (ADVICE | {"timeout_s": float("nan")}, "no JSON"),
        (ADVICE | {"timeout_s": 1e300}, "$.timeout_s"),
        (ADVICE | {"wait": 1}, "$.wait"),
        (ADVICE | {"else": 1}, "else"),
        ({"advice": "willneed", "paths": ["/kv/a"] * 4097}, "4097 names"),
    ],
    ids=lambda value: str(value)[:40] if not isinstance(value, str) else "",
)
def test_advice_that_means_nothing_is_told_so(node, body, words):
    status, text = ask(node, "/v1/advise", body)

    assert status == 400 and words in json.loads(text)["error"], text


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/config", {}, "`key`"),
        ("/v1/config", {"key": "default.ttl"}, "`value`"),
        ("/v1/config", {"key": "default.ttl", "value": 7}, "$.value"),
        ("/v1/config", {"key": None, "value": "1h"}, "$.key"),
        ("/v1/config", {"key": "default.ttl", "value": "1h", "nodes": "n1"}, "nodes"),
        ("/v1/config", {"key": "default.ttl", "value": "1h", "node": 1}, "$.node"),
        ("/v1/config", {"key": "default.ttl", "value": "1h", "node": "\ud800"}, "no JSON"),
        ("/v1/config", {"key": "", "value": "1h"}, ""),
        ("/v1/config", {"key": "\ud800", "value": "1h"}, "no JSON"),
        ("/v1/config", {"key": "default.ttl", "value": "\ud800"}, "no JSON"),
        ("/v1/config", {"key": "default.ttl", "value": "x" * 3000}, "1024"),
        ("/v1/drain", {}, "`node`"),
        ("/v1/drain", {"node": ""}, "no node"),
        ("/v1/drain", {"node": "n9"}, "no node `n9`"),
        ("/v1/drain", {"node": ["n9"]}, "$.node"),
        ("/v1/drain", b"null", "got `null`"),
        ("/v1/config?node=n9", None, "no node `n9`"),
        ("/v1/config?node=%00", None, "no node"),
        ("/v1/config?node=%ff", None, "no node"),
        ("/v1/config?node=n0&node=n1", None, "`node` is given twice"),
    ],
)
def test_what_an_operator_says_wrongly_is_told_so(node, path, body, words):
    status, text = ask(node, path, body)

    assert status == 400 and words in json.loads(text)["error"], text


@pytest.mark.parametrize(
    ("path", "body", "hint"),
    [
        ("/v1/overview?nod=n0", None, "it takes none"),
        ("/v1/overview?1700000000", None, "it takes none"),
        ("/v1/caller?node=n0", None, "it takes none"),
        ("/v1/config?nod=n0", None, "give node"),
        ("/v1/config?node=&Node=n0", None, "give node"),
        ("/v1/config?" + "n" * 5000, None, "give node"),
        ("/v1/whatif?drm=2x", None, "give dram, nvme, nodes"),
        ("/v1/config?node=n0", {"key": "default.ttl", "value": "1h"}, "it takes none"),
        ("/v1/drain?node=n0", {"node": "n0"}, "it takes none"),
        ("/v1/trace?seconds=1", {"seconds": 1}, "it takes none"),
        ("/v1/advise?wait=1", ADVICE, "it takes none"),
    ],
)
def test_a_parameter_that_a_path_does_not_know_is_named(node, path, body, hint):
    status, text = ask(node, path, body)

    name, where = (path.split("?")[1].split("&")[-1].split("=")[0][:200], path.split("?")[0])
    said = {"error": f"`{name}` is no parameter of {where}", "hint": hint}
    assert (status, json.loads(text)) == (400, said)


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz"])
def test_a_path_with_one_answer_gives_it_whatever_a_scraper_or_a_cache_adds(node, path):
    assert ask(node, f"{path}?name[]=up&1700000000")[0] == ask(node, path)[0] == 200


@pytest.mark.parametrize(
    ("path", "size_bytes"), [("/v1/advise", 1 << 20), ("/v1/config", 4096), ("/v1/drain", 4096)]
)
def test_a_body_that_is_too_long_is_told_so(node, path, size_bytes):
    status, text = ask(node, path, b" " * (size_bytes + 1))

    assert status == 413 and f"{size_bytes} bytes" in json.loads(text)["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/else", 404),
        ("GET", "/v1/advise", 405),
        ("POST", "/metrics", 405),
        ("DELETE", "/v1/config", 405),
        ("OPTIONS", "/", 405),
    ],
)
def test_a_path_or_method_that_there_is_not_is_told_so(node, method, path, status):
    answered, text = ask(node, path, None, method)

    assert answered == status and json.loads(text)["error"].startswith(f"{method} {path}: ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("origin", "http://["),
        ("origin", "null"),
        ("origin", "\x7f"),
        ("host", "["),
        ("host", "[::1"),
        ("host", ""),
        ("content-type", ";;;"),
        ("accept-encoding", "gzip;q=x"),
        ("traceparent", "00-" + "0" * 32),
        ("authorization", "Bearer \xff\xff"),
        ("connection", "upgrade"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/config", "/v1/advise", "/v1/else", "/"])
def test_no_header_is_too_odd_for_an_answer(node, path, name, value):
    text = json.dumps(ADVICE).encode()
    headers = {"content-type": "application/json", "upgrade": "websocket"} | {name: value}
    with closing(http.client.HTTPConnection(str(node.admin_address), timeout=PATIENCE_S)) as asked:
        asked.putrequest("POST", path, skip_host=name == "host")
        for each, said in (headers | {"content-length": str(len(text))}).items():
            asked.putheader(each, said.encode("latin-1"))
        asked.endheaders(text)

        assert asked.getresponse().status in WELL | REFUSED


def test_whatever_comes_is_answered(node):
    source = random.Random(5)
    words = [*ADVICE, "keys", "namespace", "offset", "length", "timeout_s", "key", "value", "node"]
    values = ["", "kv", "/kv/a", "willneed", "default.ttl", -1, 1 << 80, 0.1, True, None, [], {}]
    paths = ("/v1/advise", "/v1/config", "/v1/drain", "/v1/caller", "/v1/overview", "/metrics")
    for _ in range(300):
        body = {
            source.choice(words): source.choice([*values, [source.choice(values)]])
            for _ in range(source.randrange(6))
        }
        status, _ = ask(node, source.choice(paths), body)
        assert status in WELL | REFUSED, body

    assert ask(node, "/healthz") == (200, "ok\n")
