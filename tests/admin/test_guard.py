"""Who may ask what over HTTP, with the tokens of the wire."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.core import GaugeMetricFamily
from security.guarded import A_ADMIN, A_READER, A_WRITER, MAIN, WATCHER, Holder, holder

from gd2fs.admin.app import make_app
from gd2fs.admin.guard import AdminGuard
from gd2fs.admin.refusals import Refusals
from gd2fs.admin.server import AdminServer
from gd2fs.dashboard import Page, dashboard_routes
from gd2fs.errors import Unavailable


class Collector:
    """One metric of the node, and one of each of two namespaces."""

    def collect(self):
        yield GaugeMetricFamily("whole", "Of the node", value=1)
        each = GaugeMetricFamily("part", "Of a namespace", labels=["namespace"])
        for name in ("a", "b", ""):
            each.add_metric([name], 1)
        yield each


class Desk:
    """Takes every advice."""

    def take(self, advice, trace):
        return {"started": len(advice.paths) + len(advice.keys)}


class SilentDesk:
    """No node answers it: who gets so far was let through."""

    async def seen(self):
        raise Unavailable("nobody answers")


def no_client():
    raise Unavailable("nobody answers")


@pytest.fixture
def guard() -> AdminGuard:
    return AdminGuard([each.known for each in (MAIN, A_READER, A_WRITER, A_ADMIN, WATCHER)])


@pytest.fixture
def refusals() -> Refusals:
    return Refusals()


@pytest.fixture
def server(guard, refusals) -> Iterator[AdminServer]:
    more = dashboard_routes(SilentDesk(), no_client, Page.load(), guard)
    app = make_app(Collector(), lambda: "", Desk(), guard, more, refusals=refusals)
    server = AdminServer(app, "127.0.0.1:0")
    yield server
    server.stop()


def ask(server: AdminServer, path: str, who: Holder | str | None = None, body: object = None):
    """Status and text."""
    text = who.token.as_text() if isinstance(who, Holder) else who
    headers = {"Content-Type": "application/json"}
    if text is not None:
        headers["Authorization"] = f"Bearer {text}"
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"http://{server.address}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def test_probes_need_no_token(server):
    assert [ask(server, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.parametrize(
    "who",
    [
        None,
        "",
        "x",
        MAIN.token.secret,
        f"main.{A_ADMIN.token.secret}",
        f"nobody.{'x' * 40}",
        holder("main", "admin"),
    ],
    ids=["none", "empty", "no token", "a bare secret", "another's secret", "unknown", "wrong"],
)
def test_who_proves_nothing_hears_nothing(server, who):
    status, text = ask(server, "/metrics", who)

    assert status == 401 and "gd2fs" not in text and "whole" not in text
    assert ("does not know that token" in text) == (who is not None)


def test_metrics_of_everything_are_for_who_may_read_everything(server):
    for who in (MAIN, WATCHER):
        status, text = ask(server, "/metrics", who)
        assert status == 200 and "whole 1.0" in text and 'part{namespace="b"} 1.0' in text


@pytest.mark.parametrize("who", [A_READER, A_ADMIN], ids=["reader", "admin"])
def test_a_tenant_sees_metrics_of_its_own_namespaces_alone(server, who):
    status, text = ask(server, "/metrics", who)

    assert status == 200 and 'part{namespace="a"} 1.0' in text
    assert "whole" not in text and 'namespace="b"' not in text and 'namespace=""' not in text


@pytest.mark.parametrize(
    "who, advice, path, status",
    [
        (A_READER, "willneed", "/a/f", 202),
        (A_READER, "dontneed", "/a/f", 403),
        (A_WRITER, "dontneed", "/a/f", 202),
        (A_WRITER, "pin", "/a/f", 403),
        (A_ADMIN, "pin", "/a/f", 202),
        (A_ADMIN, "willneed", "/b/f", 403),
        (A_ADMIN, "willneed", "/ab/f", 403),
        (MAIN, "pin", "/b/f", 202),
        (WATCHER, "willneed", "/b/f", 202),
        (None, "willneed", "/a/f", 401),
    ],
)
def test_advice_takes_the_right_that_a_client_needs(server, who, advice, path, status):
    assert ask(server, "/v1/advise", who, {"advice": advice, "paths": [path]})[0] == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 202),
        ({"content-type": "text/plain"}, 202),
        ({"origin": "https://elsewhere.example", "content-type": "text/plain"}, 400),
        ({"origin": "null", "content-type": "text/plain"}, 400),
        ({"origin": "https://elsewhere.example", "content-type": "application/json"}, 202),
    ],
)
def test_another_sites_page_advises_nothing_on_a_node_without_tokens(
    guard, server, headers, status
):
    guard.set(())
    text = json.dumps({"advice": "dontneed", "paths": ["/a/f"]}).encode()
    request = urllib.request.Request(f"http://{server.address}/v1/advise", text, headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status == status
    except urllib.error.HTTPError as refusal:
        assert refusal.code == status


def test_one_name_of_another_namespace_refuses_the_whole(server):
    paths = {"advice": "willneed", "paths": ["/a/f", "/b/f"]}
    pages = {"advice": "willneed", "paths": ["/a/f"], "namespace": "b", "keys": ["k"]}

    assert [ask(server, "/v1/advise", A_ADMIN, body)[0] for body in (paths, pages)] == [403, 403]


@pytest.mark.parametrize(
    ("path", "body", "statuses"),
    [
        ("/", None, (200, 200, 200, 200)),
        ("/v1/overview", None, (401, 403, 503, 503)),
        ("/v1/config", None, (401, 403, 403, 503)),
        ("/v1/config", {"key": "move_rate", "value": "2GiB"}, (401, 403, 403, 503)),
        ("/v1/drain", {"node": "n0"}, (401, 403, 403, 503)),
    ],
)
def test_the_dashboard_is_for_who_may_see_everything_and_changes_are_for_admins(
    server, path, body, statuses
):
    asked = (None, A_ADMIN, WATCHER, MAIN)

    assert tuple(ask(server, path, who, body)[0] for who in asked) == statuses


@pytest.mark.parametrize(("who", "status"), [(None, 401), (A_ADMIN, 403), (MAIN, 400)])
def test_parameters_are_looked_at_after_rights(server, who, status):
    assert ask(server, "/v1/config?nod=n0", who)[0] == status


@pytest.mark.parametrize(
    ("who", "path", "body", "reason"),
    [
        (None, "/metrics", None, "no_token"),
        ("x", "/metrics", None, "unknown_token"),
        (holder("nobody", "read"), "/metrics", None, "unknown_token"),
        (holder("main", "admin"), "/metrics", None, "wrong_secret"),
        (A_ADMIN, "/v1/overview", None, "no_right"),
        (A_READER, "/v1/advise", {"advice": "pin", "paths": ["/a/f"]}, "no_right"),
        (A_READER, "/v1/advise", {"advice": "pin", "paths": ["a/f"]}, "bad_request"),
        (MAIN, "/v1/else", None, "bad_request"),
    ],
)
def test_what_is_refused_is_counted_by_its_reason(server, refusals, who, path, body, reason):
    ask(server, path, who, body)

    assert {name for name, count in refusals.counts().items() if count} == {reason}


@pytest.mark.parametrize(
    ("who", "told"),
    [
        (MAIN, {"token": "main", "right": "cluster", "namespaces": []}),
        (WATCHER, {"token": "watcher", "right": "read", "namespaces": []}),
        (A_ADMIN, {"token": "a-admin", "right": "admin", "namespaces": ["a"]}),
    ],
)
def test_a_caller_hears_what_its_token_may(server, who, told):
    status, text = ask(server, "/v1/caller", who)

    assert status == 200 and json.loads(text) == told


def test_without_tokens_everybody_is_served(guard, server):
    guard.set(())

    assert ask(server, "/metrics")[0] == 200


def test_other_tokens_hold_from_the_next_request_on(guard, server):
    guard.set([WATCHER.known])

    assert [ask(server, "/metrics", who)[0] for who in (MAIN, WATCHER)] == [401, 200]
