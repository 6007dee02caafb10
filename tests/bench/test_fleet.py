"""Fleets: what is asked of servers of each kind, what their answers say, what is made of it."""

from __future__ import annotations

import asyncio
import json

import pytest
from bench.fake_engines import FakeEngine, answer_of
from bench.outcomes import played

from gd2fs import InvalidRequest, Unavailable
from gd2fs.bench.board import Board
from gd2fs.bench.commands import bench
from gd2fs.bench.fleet.askers import OpenAiAsker, SglangAsker, VllmAsker
from gd2fs.bench.fleet.commands import is_for_fleet
from gd2fs.bench.fleet.kinds import EngineSetup, kind_of
from gd2fs.bench.fleet.outcome import FleetOutcome, hits_by_round, median_of
from gd2fs.bench.fleet.report import remarks_of_fleet, write_fleet_page
from gd2fs.bench.fleet.run import FleetRun, FleetSetup
from gd2fs.bench.fleet.running import Arms, run_running
from gd2fs.bench.measures import Pair, arm_of
from gd2fs.bench.workload import Workload

PROMPT = list(range(21))
CONFIG = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
CONFIG["hidden_size"] = 64


@pytest.fixture
def engine():
    with FakeEngine() as engine:
        yield engine


def ask(asker, address, prompt, answer_tokens=3):
    async def run():
        async with asker:
            return await asker.ask(address, prompt, answer_tokens=answer_tokens, session="s")

    return asyncio.run(run())


@pytest.mark.parametrize("kind", [SglangAsker, VllmAsker])
def test_an_answer_has_its_tokens_and_what_was_found_cached(engine, kind):
    ask(kind(), engine.url, PROMPT)
    answer = ask(kind(), engine.url, [*PROMPT, 1])

    assert answer.tokens == tuple(answer_of([*PROMPT, 1], 3))
    assert (answer.reused_tokens, answer.computed_tokens, len(answer.token_s)) == (20, 2, 3)


def test_a_chat_answer_is_one_text(engine):
    asker = OpenAiAsker(model="model", tokens_max=4)
    answer = ask(asker, engine.url, [{"role": "user", "content": "hello"}])

    expected = answer_of(list(b"<user>hello"), 4)
    assert answer.tokens == ("".join(f"{each} " for each in expected),)


@pytest.mark.parametrize("kind", [SglangAsker, VllmAsker])
def test_texts_are_cut_into_tokens_by_the_server(engine, kind):
    async def run():
        async with kind() as asker:
            return await asker.tokens_of(engine.url, "abc", is_start=True)

    assert asyncio.run(run()) == [97, 98, 99]


def test_a_server_that_is_not_there_is_unavailable():
    with pytest.raises(Unavailable, match="broke off"):
        ask(SglangAsker(), "http://127.0.0.1:9", PROMPT)


def test_a_refusal_is_told(engine):
    with pytest.raises(Unavailable, match="refused"):
        ask(SglangAsker(), engine.url + "/nowhere", PROMPT)


WORKLOAD = Workload(sessions=3, rounds=4, first_tokens=64, follow_tokens=16, answer_tokens=8)


def test_servers_that_share_a_cache_find_all_of_the_history():
    shared: set[bytes] = set()
    with FakeEngine() as a, FakeEngine() as b, FakeEngine(shared) as c, FakeEngine(shared) as d:
        arms = Arms([a.url, b.url + "/v1"], [c.url, d.url])
        outcome = asyncio.run(run_running(arms, WORKLOAD, Board(), runs=2))

    before, after = outcome.arms
    assert before["hit_rate"] < 0.9 < 0.97 < after["hit_rate"]
    assert (outcome.disagreeing, len(outcome.pairs), len(outcome.remarks)) == (0, 2, 1)
    assert sum(each.asked for each in (a, b)) == 2 + 2 * WORKLOAD.sessions * WORKLOAD.rounds


def test_servers_that_do_not_say_what_was_cached_are_told_apart():
    with FakeEngine(tells=False) as a, FakeEngine() as b:
        outcome = asyncio.run(run_running(Arms([a.url], [b.url]), WORKLOAD, Board(), runs=1))

    assert [line.split(" says")[0] for line in outcome.remarks[1:]] == ["no answer of A"]


def test_servers_of_several_models_need_the_name_of_one():
    with (
        FakeEngine(model="x") as a,
        FakeEngine(model="y") as b,
        pytest.raises(InvalidRequest, match="2 models: x, y"),
    ):
        asyncio.run(run_running(Arms([a.url], [b.url]), WORKLOAD, Board(), runs=1))


@pytest.mark.parametrize("urls", [([], ["http://x"]), (["http://x"], []), (["x:1"], ["http://x"])])
def test_arms_without_servers_are_refused(urls):
    with pytest.raises(InvalidRequest):
        Arms(*urls)


def test_the_command_measures_running_servers(tmp_path, capsys):
    shared: set[bytes] = set()
    result, page = tmp_path / "result.json", tmp_path / "page.html"
    with FakeEngine() as a, FakeEngine(shared) as b:
        words = ["topology", "--a", a.url, "--b", b.url, "--sessions", "2", "--rounds", "2"]
        status = bench([*words, "--json", str(result), "--html", str(page)])

    facts = json.loads(result.read_text())
    assert (status, set(facts["arms"]), len(facts["rounds"]["B"])) == (0, {"A", "B"}, 2)
    assert "<svg" in page.read_text() and "http://www" not in without_names(page.read_text())
    assert "B: GD2FS" in capsys.readouterr().out


def without_names(page: str) -> str:
    """The page without the names of SVG's vocabularies, which nothing fetches."""
    return page.replace("http://www.w3.org/", "")


@pytest.mark.parametrize(
    ("words", "is_fleet"),
    [
        (["topology", "--engine", "sglang"], True),
        (["topology", "--engine=vllm", "--runs", "3"], True),
        (["topology", "--a", "http://x"], True),
        (["topology"], False),
        (["topology", "--engine", "llamacpp"], False),
    ],
)
def test_engines_and_running_servers_have_a_command_of_their_own(words, is_fleet):
    assert is_for_fleet(words) is is_fleet


def pair_of(before, after):
    arms = [arm_of(each, cache_bytes=1, engine_counts={}) for each in (before, after)]
    return Pair(*arms, before, after)


def outcome_of(*pairs, has_reference=True):
    return FleetOutcome("a title <&>", pairs, 2, {}, {}, {}, has_reference)


def turns(ttft_s, reused, answer=(1, 2, 3)):
    return [played(0, at, ttft_s=ttft_s, reused=reused * at, answer=answer) for at in (0, 1)]


def test_ratios_are_medians_of_the_runs_ratios():
    pairs = [pair_of(turns(2.0, 50), turns(ttft_s, 100)) for ttft_s in (1.0, 0.5, 1.5)]

    assert outcome_of(*pairs).ratios["ttft_s"]["mean"] == pytest.approx(0.5)


def test_hits_are_counted_round_by_round():
    assert hits_by_round(turns(1.0, 90)) == [0.0, 90 / 150]


def test_answers_that_differ_from_the_reference_are_counted_and_told():
    outcome = outcome_of(pair_of(turns(2.0, 50), turns(1.0, 100, answer=(1, 2, 4))))

    assert outcome.disagreeing == 2
    assert any("2 of 2 answers of B differ" in line for line in remarks_of_fleet(outcome))


def test_a_page_shows_names_as_they_are(tmp_path):
    write_fleet_page(outcome_of(pair_of(turns(2.0, 50), turns(1.0, 100))), tmp_path / "page.html")

    assert "a title &lt;&amp;&gt;" in (tmp_path / "page.html").read_text()


def test_the_median_of_an_even_count_is_between():
    assert median_of([{"a": 1.0, "b": None}, {"a": 2.0, "b": None}]) == {"a": 1.5, "b": None}


@pytest.fixture
def setup(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return EngineSetup(python="python", model=str(tmp_path), device_tokens=1024)


def test_the_bytes_of_a_token_follow_from_the_configuration(setup):
    assert setup.kv_bytes_per_token() == 2 * 2 * 2 * 16 * 2


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_a_store_takes_what_the_private_caches_had(setup, engine):
    kind = kind_of(engine, setup, on_cpu=True, spec="")
    run = FleetRun(kind, WORKLOAD, FleetSetup(instances=2, memory_mib=64), Board(), None)

    assert run._node_bytes + 2 * kind.staging_bytes == 64 << 20


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_a_memory_that_is_too_small_names_the_least(setup, engine):
    kind = kind_of(engine, setup, on_cpu=True, spec="")
    with pytest.raises(InvalidRequest, match="less than 64 instances need"):
        FleetRun(kind, WORKLOAD, FleetSetup(instances=64, memory_mib=1), Board(), None)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(InvalidRequest, match="cannot read the model's configuration"):
        EngineSetup(python="python", model=str(tmp_path)).kv_bytes_per_token()


@pytest.mark.parametrize("words", [["--engine", "sglang"], ["--engine", "vllm", "--dtype", "int"]])
def test_what_is_missing_or_wrong_is_refused_before_anything_starts(words, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    model = ["--model", str(tmp_path)] if "--dtype" in words else []
    with pytest.raises(InvalidRequest):
        bench(["topology", *words, *model])
