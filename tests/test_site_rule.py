"""A site's own rule: an entry point that a real node asks about what is written."""

from __future__ import annotations

import contextlib
import sys
import textwrap
import threading
import time

import pytest

from gd2fs import Client, Marks
from gd2fs.config import NodeConfig
from gd2fs.errors import InvalidRequest
from gd2fs.node import Node
from gd2fs.rules import NamespaceRules, RuleSet
from gd2fs.site_rule import Case, Decision, RuleThread, case_of, load_rule, verdict_of

# The example of docs/guides/policies.md.
EXAMPLE = """
from gd2fs.site_rule import Case, Decision

PLANS = {"free": Decision(priority=1, ttl_s=3600), "paid": Decision(priority=6)}


def decide(cases: list[Case]) -> list[Decision | None]:
    return [decide_one(case) for case in cases]


def decide_one(case: Case) -> Decision | None:
    if case.namespace == "scratch" and case.bytes > 1 << 20:
        return Decision(admit=False)
    return PLANS.get(case.tags.get("plan", ""))
"""


def install(folder, name: str, source: str) -> None:
    """As `pip install` leaves a package with one entry point of the group."""
    (folder / f"{name}_rules.py").write_text(textwrap.dedent(source))
    facts = folder / f"{name}_rules-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-rules\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[gd2fs.rules]\n{name} = {name}_rules:decide\n")


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []

    def make(name: str, source: str) -> str:
        install(tmp_path, name, source)
        names.append(f"{name}_rules")
        return name

    yield make
    for name in names:
        sys.modules.pop(name, None)


@contextlib.contextmanager
def node(rule: str, **options):
    with running_node(rule, **options) as (_, client):
        yield client


@contextlib.contextmanager
def running_node(rule: str, **options):
    config = NodeConfig(
        "rule", listen=("127.0.0.1:0",), memory_bytes=64 << 20, arena="plain", rule=rule, **options
    )
    with (
        Node.start(config) as running,
        Client(running.addresses, cluster="rule", timeout_s=20) as client,
    ):
        yield running, client


class LotServer:
    """Offers lots once, and takes what is said of them."""

    def __init__(self, lots):
        self.lots, self.verdicts, self.is_answered = lots, {}, threading.Event()

    def next_cases(self, timeout_ms, count_max):
        lots, self.lots = self.lots, []
        return lots

    def give_verdicts(self, number, verdicts):
        self.verdicts[number] = verdicts
        if number == 5:
            self.is_answered.set()


def wait_gone(client: Client, path: str) -> bool:
    deadline = time.monotonic() + 20
    while client.get(path) is not None:
        if time.monotonic() > deadline:
            return False
    return True


def test_the_example_of_the_guide_does_what_it_says(site):
    rules = RuleSet(namespaces={"chat": NamespaceRules("priority", quota_bytes=1 << 20)})
    with node(site("plans", EXAMPLE), rules=rules) as client:
        chat, scratch = client.pages("chat"), client.pages("scratch")
        paid, free = Marks(tags={"plan": "paid"}), Marks(tags={"plan": "free"})

        assert chat.put(["paid"], [b"p" * 100_000], marks=paid) == [True]
        for number in range(40):
            assert chat.put([f"free{number}"], [b"f" * 100_000], marks=free) == [True]
        assert client.pages("chat").exists(["paid", "free0"]).present == [True, False]

        with pytest.raises(InvalidRequest):
            scratch.put(["big"], [b"b" * (2 << 20)])
        assert scratch.put(["small"], [b"s"]) == [True]
        [reply] = client.why(page=("scratch", "big"))
        assert reply.value["departures"][0]["cause"] == "not admitted"


def test_a_file_is_judged_by_its_path_and_has_its_time_to_live(site):
    rule = site(
        "paths",
        """
        from gd2fs.site_rule import Decision
        SEEN = []
        def decide(cases):
            SEEN.extend(cases)
            return [Decision(ttl_s=1) if each.path == "/t/short" else None for each in cases]
        """,
    )
    with node(rule) as client:
        client.put("/t/short", [b"x" * 1000], marks=Marks(priority=5, tags={"user": "a"}))
        client.put("/t/long", [b"x" * 1000], ttl_s=500)

        assert wait_gone(client, "/t/short")
        assert client.get("/t/long") == b"x" * 1000
    seen = {each.path: each for each in sys.modules["paths_rules"].SEEN}
    assert seen["/t/short"] == Case("t", "/t/short", None, 1000, 5, None, {"user": "a"})
    assert seen["/t/long"].ttl_s == 500


@pytest.mark.parametrize(
    "body",
    [
        "raise RuntimeError",
        "return []",
        "return [7 for each in cases]",
        "import time; time.sleep(2)",
    ],
)
def test_a_rule_that_fails_or_is_late_holds_nothing_up(site, body):
    rule = site("broken", f"def decide(cases):\n    {body}\n    return [None for each in cases]\n")
    with node(rule) as client:
        assert client.pages("t").put(["k"], [b"v" * 300_000]) == [True]
        assert client.pages("t").exists(["k"]).present == [True]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise RuntimeError('no plan')", "RuntimeError: no plan"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("return []", "ValueError: 0 decisions for 1 cases"),
        ("import itertools; return itertools.repeat(None)", "ValueError: more decisions for 1"),
        ("cases.clear(); return []", "ValueError: 0 decisions for 1 cases"),
        ("from gd2fs.site_rule import Decision; return [Decision(ttl_s=1.5)]", "`ttl_s` is float"),
        ("from gd2fs.site_rule import Decision; return [Decision(priority=3.0)]", "is float"),
        ("raise type('Mute', (Exception,), {'__str__': lambda self: exit()})", "with Mute"),
        ("import time; time.sleep(1.2); return [None]", "took 1."),
    ],
)
def test_a_rule_that_fails_is_counted_and_named_once_a_minute(site, logged, body, words):
    rule = site("broken", f"def decide(cases):\n    {body}\n")
    with running_node(rule) as (running, client):
        for number in range(3):
            assert client.pages("t").put([f"k{number}"], [b"v" * 300_000]) == [True]
        counted = running.counts()["unjudged"]

    lines = [line for line in logged if "site's rule" in line]
    assert counted == 3  # and so its thread has outlived each of them
    assert len(lines) == 1
    assert "`broken`" in lines[0]
    assert words in lines[0]


def test_a_rule_that_is_not_there_keeps_a_node_from_starting(site):
    with pytest.raises(InvalidRequest, match="no rule `none`"), node("none"):
        pass
    with pytest.raises(InvalidRequest, match="cannot be loaded"):
        load_rule(site("bad", "raise ImportError('why not')\n"))
    with pytest.raises(InvalidRequest, match="cannot be loaded"):
        load_rule(site("ending", "raise SystemExit(0)\n"))
    with pytest.raises(InvalidRequest, match="is no function"):
        load_rule(site("value", "decide = 7\n"))


def test_cases_and_verdicts_are_what_the_native_server_means():
    assert case_of((b"ns\0\xffkey", True, 5, 0, 8), {}) == Case("ns", None, b"\xffkey", 5)
    assert case_of((b"/ns/a/b", False, 5, 9, 7), {}) == Case("ns", "/ns/a/b", None, 5, 7, 9)
    assert verdict_of(None) == (True, None, None)
    assert verdict_of(Decision(admit=False, priority=0, ttl_s=0)) == (False, 0, 0)
    assert verdict_of(Decision(admit=None)) == (True, None, None)  # as its writer asked
    for wrong in (
        {"priority": 8},
        {"priority": 3.0},
        {"ttl_s": -1},
        {"ttl_s": 1 << 32},
        {"ttl_s": 1.5},
        {"ttl_s": "7"},
    ):
        with pytest.raises(InvalidRequest, match=r"priority|ttl_s"):
            verdict_of(Decision(**wrong))


def test_what_a_writer_says_of_itself_does_not_keep_others_from_being_judged():
    texts = [b"[" * 1024, b'{"a":' * 200, b"\xff\xfe", b"7", b'{"a": 1, "b": "c"}', b""]
    lots = [(number, text, [(b"ns\0k", True, 5, 0, 8)]) for number, text in enumerate(texts)]
    server = LotServer(lots)
    thread = RuleThread("r", lambda cases: [Decision(admit=False) for _ in cases], server)

    assert server.is_answered.wait(20)
    thread.stop()
    assert server.verdicts == {number: [(False, None, None)] for number in range(len(lots))}


def test_marks_are_checked_where_they_are_made():
    assert Marks().as_arguments() == {}
    assert Marks(priority=0, tags={"a": "b"}).as_arguments() == {
        "eviction_class": 0,
        "tags": b'{"a": "b"}',
    }
    for wrong in (
        {"priority": 8},
        {"priority": -1},
        {"tags": {"a": 1}},
        {"tags": {"a": "x" * 1100}},
    ):
        with pytest.raises(InvalidRequest):
            Marks(**wrong)
