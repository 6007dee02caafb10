"""The page in a real browser: what it shows, what is done from it, and how it looks."""

from __future__ import annotations

import signal
import threading
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from dashboard.simulated import SimulatedCluster, page_of, served

from gd2fs import Client
from gd2fs.testing.cluster import Cluster
from gd2fs.testing.etcd import EtcdServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ARTEFACTS = Path(__file__).parents[2] / "build" / "artifacts"
MIB = 1 << 20
CHECKED = {  # where a sum of all nodes stands, and what Prometheus calls it
    "#t-read-all": "gd2fs_sent_bytes_total",
    "#t-write-all": "gd2fs_received_bytes_total",
    "#t-hits-all": 'gd2fs_lookups_total{result="hit"}',
    "#t-evicted-all": "gd2fs_evicted_pieces_total",
    "#t-memory": "used",
}


@pytest.fixture
def traffic(client):
    """Pages are written and read until the end of the test; more than memory has room for."""
    is_over = threading.Event()
    pages = client.pages("traffic")

    def run() -> None:
        keys = [b"%d" % index for index in range(600)]
        into = [bytearray(MIB // 2) for _ in range(8)]
        at = 0
        while not is_over.is_set():
            some = [keys[(at + step) % len(keys)] for step in range(8)]
            pages.put(some, [bytes(MIB // 2)] * 8)
            pages.get(some, into)
            at += 8

    thread = threading.Thread(target=run)
    thread.start()

    def stop() -> None:
        is_over.set()
        thread.join()

    yield stop
    stop()


def sums(urls) -> dict[str, float]:
    """Of all nodes, by metric: of each series, and of all series of one name."""
    found: Counter[str] = Counter()
    for url in urls:
        with urllib.request.urlopen(url + "metrics", timeout=20) as answer:
            for line in answer.read().decode().splitlines():
                series, _, value = line.rpartition(" ")
                if not line.startswith("#"):
                    for name in {series, series.partition("{")[0]}:
                        found[name] += float(value)
    return found


def next_refresh(page) -> None:
    """The page shows what was asked for after this moment."""
    now_ms = page.value("Date.now()")
    page.wait(f"Number(document.documentElement.dataset.at) > {now_ms + 1000}")


def shown(page) -> dict[str, float]:
    """All of one refresh, in which all three nodes had answered."""
    number = "Number(document.querySelector('{} data').value)"
    values = ", ".join(number.format(selector) for selector in CHECKED)
    found = page.wait(f"{number.format('#t-nodes')} === 3 && [{values}]")
    return dict(zip(CHECKED.values(), found, strict=True))


def state_in(page, node: str) -> str:
    return page.value(
        f"""[...document.querySelectorAll("#nodes tbody tr")]
            .find((row) => row.querySelector("th")?.innerText === {node!r})
            ?.children[1].innerText ?? "" """
    )


# ---- real nodes ----------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_metrics(browser, cluster, pages_of, traffic):
    with browser.page(pages_of["n1"]) as page:
        page.wait("Number(document.querySelector('#t-read data')?.value) > 0")
        page.wait("Number(document.querySelector('#t-evicted-all data')?.value) > 0")

        earlier = sums(pages_of.values())
        next_refresh(page)
        during = shown(page)
        later = sums(pages_of.values())
        growing = [each for each in CHECKED.values() if each != "used"]
        assert all(earlier[each] <= during[each] <= later[each] for each in growing)

        traffic()
        end = sums(pages_of.values())
        next_refresh(page)
        used = end["gd2fs_arena_size_bytes"] - end['gd2fs_arena_bytes{state="free"}']
        assert shown(page) == {each: end[each] for each in CHECKED.values()} | {"used": used}
        assert "lack of room" in page.text("#gone")
        assert "traffic" in page.text("#gone")
        page.screenshot(ARTEFACTS / "dashboard-3-nodes.png", is_whole=True)
        page.prefer("dark")
        page.screenshot(ARTEFACTS / "dashboard-3-nodes-dark.png", is_whole=True)
        assert page.complaints == []


def test_a_node_that_hangs_or_dies_is_shown_as_such(browser, fragile):
    own, hanging, dying = fragile.members
    with browser.page(page_of(own)) as page:
        page.wait("document.querySelector('#t-nodes data')?.value === '3'")
        assert page.value("document.querySelector('#problems').hidden")

        dying.kill()
        hanging.send(signal.SIGSTOP)
        try:
            page.wait("document.querySelector('#t-nodes data')?.value === '1'")
            assert [state_in(page, name) for name in ("n0", "n1", "n2")] == [
                "active",
                "no answer",
                "no answer",
            ]
            assert "n1" in page.text("#problems") and "n2" in page.text("#problems")
        finally:
            hanging.send(signal.SIGCONT)
        page.wait("document.querySelector('#t-nodes data')?.value === '2'")
        dying.start()
        page.wait("document.querySelector('#t-nodes data')?.value === '3'")
        page.wait("document.querySelector('#problems').hidden")

        own.kill()
        page.wait("!document.querySelector('#notice').hidden")
        assert "this node does not answer" in page.text("#notice")
        assert "What is shown is of" in page.text("#notice")


def test_a_setting_is_changed_from_the_page(browser, cluster, client, pages_of):
    with browser.page(pages_of["n0"]) as page:
        page.wait("!document.querySelector('#main').hidden")
        page.click("#settings")
        page.type("#change-key", "namespace.chat.quota")
        page.type("#change-value", "8MiB")
        page.press("Enter")
        page.wait("document.querySelector('#confirm').open")
        assert "namespace.chat.quota to 8MiB" in page.text("#confirm-title")
        page.click("#confirm-yes")
        page.wait("document.querySelector('#detail-done').innerText.includes('n0, n1, n2')")
        page.wait("document.querySelector('#detail-settings').innerText.includes('quota = ')")

        replies = client.settings({"do": "show"})
        assert all(
            each.value["settings"]["namespace"] == {"chat": {"quota": "8MiB"}} for each in replies
        )

        page.type("#change-key", "memory")
        page.press("Enter")
        page.click("#confirm-yes")
        page.wait(
            "document.querySelector('#detail-fault').innerText.includes('when the node starts')"
        )


def test_a_node_of_a_list_cannot_be_drained_and_the_page_says_why(browser, pages_of):
    with browser.page(pages_of["n0"]) as page:
        page.click("#nodes tbody tr:nth-child(3) button")
        page.click("#drain")
        page.click("#confirm-no")
        page.wait("!document.querySelector('#confirm').open")
        assert not page.text("#detail-fault")

        page.click("#drain")
        no, drain = (
            f"document.querySelector('{each}').click()" for each in ("#confirm-no", "#drain")
        )
        page.value(f"({no}, {drain})")  # sooner than the browser tells that the first was closed
        page.click("#confirm-yes")

        page.wait("document.querySelector('#detail-fault').innerText.includes('static list')")


def test_a_node_is_drained_from_the_page(browser, tmp_path):
    options = ["--admin", "127.0.0.1:0", "--ramp", "0"]
    with (
        EtcdServer(str(tmp_path)) as etcd,
        Cluster(
            3, "32MiB", str(tmp_path), arena="plain", name="drained", options=options,
            etcd=etcd.endpoint,
        ) as cluster,
        Client(cluster.cp, cluster=cluster.name, timeout_s=20) as client,
        browser.page(page_of(cluster.members[0])) as page,
    ):  # fmt: skip
        client.pages("kv").put([b"%d" % index for index in range(64)], [bytes(MIB // 8)] * 64)
        page.wait("document.querySelector('#t-nodes data')?.value === '3'")
        page.wait("document.querySelectorAll('#nodes tbody th').length === 3")
        page.value(
            "[...document.querySelectorAll('#nodes tbody button')]"
            ".find((each) => each.innerText === 'n2').click()"
        )
        page.click("#drain")
        page.click("#confirm-yes")
        page.wait("document.querySelector('#detail-done').innerText.includes('n2 has begun')")

        page.wait("document.querySelector('#t-nodes data')?.value === '2'", 60)

        left = [each.name for each in client.cluster().nodes if each.state == "active"]
        found = client.pages("kv").exists([b"%d" % index for index in range(64)])
        assert left == ["n0", "n1"] and found.leading == 64


# ---- a thousand nodes ----------------------------------------------------------------------------


def test_of_a_thousand_nodes_only_the_rows_that_are_seen_are_there(browser, many):
    with browser.page(many) as page:
        page.wait("document.querySelectorAll('#nodes tbody th').length > 5")

        assert page.value("document.querySelectorAll('#nodes tbody tr').length") < 60
        assert (
            page.value("document.querySelector('#nodes').getAttribute('aria-rowcount')") == "1001"
        )
        page.value("document.querySelector('#nodes-scroll').scrollTop = 1e6")
        page.wait(
            "[...document.querySelectorAll('#nodes tbody th')].at(-1).innerText === 'node-999'"
        )
        assert page.value("document.querySelectorAll('#grid rect').length") == 1000
        assert page.value("document.querySelectorAll('#grid rect.silent').length") == 10
        page.screenshot(ARTEFACTS / "dashboard-1000-nodes.png", is_whole=True)
        assert page.complaints == []


def test_nodes_are_sorted_and_found(browser, many):
    with browser.page(many) as page:
        page.click("#nodes thead th:nth-child(3) button")
        first = "document.querySelector('#nodes tbody th')?.innerText"
        page.wait(
            "document.querySelector('#nodes thead th:nth-child(3)').ariaSort === 'descending'"
        )
        fullest = page.value(first)
        page.click("#nodes thead th:nth-child(3) button")
        page.wait("document.querySelector('#nodes thead th:nth-child(3)').ariaSort === 'ascending'")
        assert page.value(first) != fullest

        page.type("#find", "no answer")
        page.wait("document.querySelector('#nodes-count').innerText === '10 of 1000'")
        page.type("#find", "node-123")
        page.wait(f"{first} === 'node-123'")


def test_the_grid_opens_a_node(browser, many):
    with browser.page(many) as page:
        page.click("#grid rect:nth-child(6)")

        page.wait("document.querySelector('#detail').open")
        assert page.text("#detail-title") == "node-005"
        assert "256 GiB" in page.text("#detail-facts")


def test_nobody_else_is_asked_for_anything(browser, many):
    with browser.page(many) as page:
        page.wait("document.querySelectorAll('#nodes tbody th').length > 5")
        next_refresh(page)

        asked = [each for each in page.requests if not each.startswith("data:")]
        assert len(asked) >= 3 and all(each.startswith(many) for each in asked)
        refused = page.value("fetch('http://127.0.0.1:9/').then(() => '', (error) => `${error}`)")
        assert "TypeError" in refused
        assert any("Content Security Policy" in each for each in page.complaints)


# ---- for everybody -------------------------------------------------------------------------------


def test_everything_is_reached_by_keys_and_focus_is_seen(browser, many):
    with browser.page(many) as page:
        page.wait("document.querySelectorAll('#nodes tbody th').length > 5")
        reached = []
        for _ in range(24):
            page.press("Tab")
            reached.append(
                page.value("document.activeElement.id || document.activeElement.innerText")
            )
            assert page.value("getComputedStyle(document.activeElement).outlineStyle") != "none"
        assert reached[0] == "Skip to the nodes"
        assert {"pause", "settings", "find", "grid-by", "nodes-scroll", "node-000"} <= set(reached)


def test_arrows_go_to_rows_that_are_not_there_yet_and_focus_comes_back(browser, many):
    with browser.page(many) as page:
        page.wait("document.querySelectorAll('#nodes tbody th').length > 5")
        page.value("document.querySelector('#nodes tbody button').focus()")
        for _ in range(40):
            page.press("ArrowDown")
        focused = "document.activeElement.innerText"
        assert page.value(focused) == "node-040"
        next_refresh(page)
        assert page.value(focused) == "node-040"

        page.press("Enter")
        page.wait("document.querySelector('#detail').open")
        page.press("Escape")
        page.wait("!document.querySelector('#detail').open")

        assert page.value(focused) == "node-040"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_needs_no_scrolling_sideways(browser, many, scheme):
    with browser.page(many, width=400, height=860, scheme=scheme) as page:
        page.wait("document.querySelectorAll('#nodes tbody th').length > 5")

        assert page.value("document.documentElement.scrollWidth") <= 400
        page.screenshot(ARTEFACTS / f"dashboard-narrow-{scheme}.png")


def test_headings_tables_and_live_regions_are_marked(browser, many):
    with browser.page(many) as page:
        page.wait("document.querySelectorAll('#nodes tbody th').length > 5")
        nameless = page.value(
            """[...document.querySelectorAll("button, input, select, [role=region], svg[role=img]")]
              .filter((each) => each.checkVisibility())
              .filter((each) => !(each.innerText?.trim() || each.ariaLabel || each.labels?.length
                || each.getAttribute("aria-labelledby")))
              .map((each) => each.outerHTML)"""
        )

        assert nameless == []
        assert page.value("document.querySelectorAll('h1').length") == 1
        assert page.value("document.documentElement.lang") == "en"
        assert page.value("document.querySelector('#problems').ariaLive") == "polite"
        assert page.value("document.querySelector('#nodes tbody th').scope") == "row"


# ---- tokens --------------------------------------------------------------------------------------


def test_a_token_is_asked_for_and_kept_for_this_tab(browser):
    with served(SimulatedCluster(3), token="ops.secret") as url, browser.page(url) as page:
        page.wait("!document.querySelector('#sign-in').hidden")
        assert page.value("document.querySelector('#main').hidden")

        page.type("#token", "ops.wrong")
        page.press("Enter")
        page.wait("document.querySelector('#notice').innerText.includes('the token is wrong')")
        page.type("#token", "ops.secret")
        page.press("Enter")

        page.wait("!document.querySelector('#main').hidden")
        assert page.value("document.querySelector('#sign-in').hidden")
        assert page.value("localStorage.length") == 0 and "secret" not in page.value(
            "location.href"
        )
        page.click("#forget")
        page.wait("!document.querySelector('#sign-in').hidden")


def test_a_cluster_that_cannot_be_asked_is_said_to_be(browser):
    cluster = SimulatedCluster(3)
    with served(cluster) as url, browser.page(url) as page:
        page.wait("!document.querySelector('#main').hidden")

        cluster.is_away = True
        page.wait("document.querySelector('#notice').innerText.includes('no node can be asked')")
        cluster.is_away = False

        page.wait("document.querySelector('#notice').hidden")


# ---- what if ---------------------------------------------------------------------------------


def test_the_page_says_what_twice_the_memory_would_bring(browser):
    with served(SimulatedCluster(4)) as url, browser.page(url) as page:
        page.wait("!document.querySelector('#whatif').hidden")
        text = page.text("#whatif-text")

        assert "Counted were 48.9 % in the last 50 min" in text
        assert "the curves say 49.0 % for today's 1.00 TiB on 4 nodes" in text
        assert "and 65.7 % for twice as much: " in text and "42.0 MB/s more would be found" in text
        label = page.value("document.querySelector('svg.whatif').getAttribute('aria-label')")
        assert label == "Hit rate by memory: 49.0 % with today's, 65.7 % with twice as much"
        page.screenshot(ARTEFACTS / "dashboard-whatif.png", is_whole=True)

        page.value("document.querySelector('#whatif-of').value = '1'")
        page.value("document.querySelector('#whatif-of').dispatchEvent(new Event('change'))")
        assert "Too little was followed yet to tell" in page.text("#whatif-text")
        assert page.value("document.querySelector('#whatif-chart').hidden")
        assert page.complaints == []
