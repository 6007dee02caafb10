"""The page of nodes with tokens: what a reader sees, and what is there for an admin alone."""

from __future__ import annotations

import pytest
from dashboard.simulated import page_of

from gd2fs.testing.cluster import Cluster
from gd2fs.tokens import new_token

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

MAIN, WATCHER, OPERATOR, TENANT = map(new_token, ("main", "watcher", "operator", "tenant"))
TENANTS = "\n".join(
    f"""
[tokens.{token.name}]
secret_hash = "{token.key.hex()}"
rights = "{right}"
namespaces = ["{namespace}"]
"""
    for token, right, namespace in (
        (WATCHER, "read", "*"),
        (OPERATOR, "admin", "*"),
        (TENANT, "admin", "a"),
    )
)
OPERATING = ("#settings", "#drain", "#change")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """The URL of the page of one of two nodes that ask for tokens."""
    folder = tmp_path_factory.mktemp("guarded")
    for name, text in (("token", MAIN.as_text()), ("tenants.toml", TENANTS)):
        (folder / name).touch(0o600)
        (folder / name).write_text(text)
    options = [
        *("--admin", "127.0.0.1:0", "--token-file", str(folder / "token")),
        *("--tenants", str(folder / "tenants.toml")),
    ]
    with Cluster(2, "32MiB", str(folder), arena="plain", name="kept", options=options) as running:
        yield page_of(running.members[0])


def sign_in(page, token) -> None:
    page.wait("!document.querySelector('#sign-in').hidden")
    page.type("#token", token.as_text())
    page.press("Enter")


def open_node(page) -> None:
    page.wait("!document.querySelector('#main').hidden")
    page.click("#nodes tbody tr:nth-child(2) button")
    page.wait("document.querySelector('#detail').open")


def seen(page) -> list[str]:
    """Of what operates on nodes, what is there to be used."""
    return [
        each
        for each in OPERATING
        if page.value(f"document.querySelector('{each}').checkVisibility()")
    ]


def test_a_reader_sees_everything_and_nothing_to_change_it_with(browser, guarded):
    with browser.page(guarded) as page:
        page.wait("!document.querySelector('#sign-in').hidden")
        assert page.value("document.querySelector('#main').hidden")
        sign_in(page, WATCHER)
        open_node(page)

        assert seen(page) == []
        assert page.text("#caller") == "as watcher, to look only"
        assert "32.0 MiB" in page.text("#detail-facts") or "32 MiB" in page.text("#detail-facts")
        assert not any("v1/config" in each or "v1/drain" in each for each in page.requests)
        assert page.complaints == [each for each in page.complaints if "401" in each]


def test_what_a_reader_asks_for_all_the_same_is_refused(browser, guarded):
    with browser.page(guarded) as page:
        sign_in(page, WATCHER)
        page.wait("!document.querySelector('#main').hidden")

        headers = (
            f"{{authorization: 'Bearer {WATCHER.as_text()}', 'content-type': 'application/json'}}"
        )
        asked = [
            f"fetch('{path}', {{method: '{method}', headers: {headers}, body: {body}}})"
            for path, method, body in (
                ("v1/config", "GET", "undefined"),
                ("v1/config", "POST", """'{"key": "default.ttl", "value": "1h"}'"""),
                ("v1/drain", "POST", """'{"node": "n1"}'"""),
            )
        ]
        told = [
            page.value(f"{each}.then(async (a) => [a.status, (await a.json()).error])")
            for each in asked
        ]
        assert told == [[403, "token `watcher` has no right to this"]] * 3


def test_an_admin_has_all_of_it_and_its_token_can_be_forgotten(browser, guarded):
    with browser.page(guarded) as page:
        sign_in(page, OPERATOR)
        page.wait("!document.querySelector('#main').hidden")
        assert seen(page) == ["#settings"]
        open_node(page)

        assert seen(page) == [*OPERATING]
        assert page.text("#caller") == "as operator"
        page.wait("document.querySelector('#detail-settings').innerText.includes('memory = ')")
        assert "secret" not in page.text("#detail-settings")

        page.press("Escape")
        page.click("#forget")
        page.wait("!document.querySelector('#sign-in').hidden")
        assert seen(page) == [] and page.text("#caller") == ""

        sign_in(page, WATCHER)
        page.wait("!document.querySelector('#main').hidden")
        assert page.text("#caller") == "as watcher, to look only" and seen(page) == []


def test_a_tenant_is_told_that_its_token_is_not_enough(browser, guarded):
    with browser.page(guarded) as page:
        sign_in(page, TENANT)

        page.wait("document.querySelector('#notice').innerText.includes('tenant')")
        assert "no right to this" in page.text("#notice")
        assert page.value("document.querySelector('#main').hidden") and seen(page) == []
