"""Reports: the JSON has the agreed shape, the table says what matters, the chart is drawn."""

import json

import pytest
from bench.outcomes import KILL, NODE_KILL, outcome_of, played, small_outcome
from rich.console import Console

from gd2fs.bench.chart import write_chart
from gd2fs.bench.report import print_report, remarks_of

ARM_FIELDS = {"requests_per_s", "ttft_s", "tpot_s", "hit_rate", "prefill_tokens", "cache_bytes"}
FIELDS = {
    "arms",
    "beginnings",
    "ratios",
    "texts_agree",
    "texts_agree_arms",
    "workload",
    "engine",
    "machine",
    "requests",
}


def as_json(outcome):
    return json.loads(json.dumps(outcome.as_dict(), allow_nan=False))


def test_the_json_has_the_agreed_fields():
    found = as_json(small_outcome())

    assert set(found) == FIELDS
    assert set(found["arms"]) == {"A", "B"}


@pytest.mark.parametrize("name", ["A", "B"])
def test_an_arm_has_the_agreed_fields(name):
    arm = as_json(small_outcome())["arms"][name]

    assert set(arm) >= ARM_FIELDS
    assert (set(arm["ttft_s"]), set(arm["tpot_s"])) == ({"mean", "p95"}, {"mean", "max"})


def test_ratios_are_of_the_arms_fields():
    assert set(as_json(small_outcome())["ratios"]) == ARM_FIELDS


def test_a_kill_is_added_when_there_was_one():
    found = as_json(small_outcome(kill=KILL))

    assert found["kill"] == {
        "pid": 4321,
        "signal": "SIGKILL",
        "turn": 2,
        "history_tokens_recomputed": 0,
    }


def test_a_node_that_was_killed_is_told():
    outcome = small_outcome(node_kill=NODE_KILL)

    assert as_json(outcome)["node_kill"]["history_tokens_recomputed"] == 0
    assert any("SIGKILL to node n1 (pid 99) after turn 2" in line for line in remarks_of(outcome))


def test_one_wrong_token_is_told():
    right = [played(0, t, ttft_s=1, reused=0) for t in range(2)]
    wrong = [right[0], played(0, 1, ttft_s=1, reused=0, answer=(1, 2, 9))]
    outcome = outcome_of(right, wrong)

    assert as_json(outcome)["texts_agree"] is False
    assert any("1 answers of B differ" in line for line in remarks_of(outcome))


def test_failures_of_the_store_are_told():
    outcome = small_outcome(counts={"restore_failures": 1, "save_failures": 2})

    assert any("3 restores or saves of B failed" in line for line in remarks_of(outcome))


def test_the_table_fits_a_terminal_and_has_the_ratios():
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    print_report(small_outcome(), console)
    text = console.export_text()

    first_token = next(line for line in text.splitlines() if "first token after, mean" in line)
    assert "0.33" in first_token  # 1 s after 3 s
    assert "100.0%" in text


@pytest.mark.slow
def test_the_chart_is_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra `demo` is not installed")

    path = write_chart(small_outcome().pair, 4, tmp_path / "new")

    assert path.read_bytes().startswith(b"\x89PNG")


def test_every_request_is_told():
    outcome = small_outcome()
    requests = as_json(outcome)["requests"]["A"]

    assert len(requests) == len(outcome.played_before)
    assert min(each["sent_s"] for each in requests) == 0
    assert all(each["end_s"] >= each["last_token_s"] >= each["ttft_s"] for each in requests)
