"""The whole benchmark with real engines and a real node, small: what it claims is true."""

import io

import pytest
from rich.console import Console

from gd2fs.bench.board import Board
from gd2fs.bench.instances import Setup
from gd2fs.bench.model import find_model
from gd2fs.bench.topology import Kills, run_topology
from gd2fs.bench.workload import Workload
from gd2fs.engines.llamacpp.bounce import bounce_root, remove_left_over
from gd2fs.errors import InvalidRequest

pytest.importorskip("xllamacpp", reason="the extra `demo` is not installed")
try:
    MODEL = find_model(None)
except InvalidRequest as error:
    pytest.skip(f"{error}; {error.hint}", allow_module_level=True)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

WORKLOAD = Workload(
    sessions=3, rounds=4, first_tokens=100, follow_tokens=12, answer_tokens=6, concurrency=3
)


@pytest.fixture(scope="module")
def outcome():
    board = Board(Console(file=io.StringIO()))
    with board:
        setup = Setup(model=MODEL, instances=2, memory_mib=256)
        return run_topology(WORKLOAD, setup, board, kills=Kills(engine=True, node=True))


def test_every_answer_is_the_references_token_for_token(outcome):
    assert outcome.disagreeing == 0
    assert outcome.as_dict()["texts_agree_arms"] == 1.0


def test_all_history_comes_from_the_store(outcome):
    assert outcome.after.hit_rate == 1.0
    assert outcome.after.engine_counts["restore_failures"] == 0
    assert outcome.after.engine_counts["save_failures"] == 0


def test_private_caches_have_to_compute_history_again(outcome):
    assert outcome.before.hit_rate < 0.9
    assert outcome.before.prefill_tokens > outcome.after.prefill_tokens


def test_the_killed_engine_leaves_no_bounce_directory(outcome):
    assert remove_left_over(bounce_root()) == 0


def test_nothing_is_computed_again_after_a_sigkill(outcome):
    assert outcome.kill.history_tokens_recomputed == 0


def test_a_node_was_killed_and_all_turns_were_answered(outcome):
    assert outcome.node_kill.signal == "SIGKILL" and outcome.node_kill.turn == 2


def test_nothing_is_computed_again_after_a_node_is_killed(outcome):
    assert (outcome.node_kill.nodes, outcome.node_kill.replicas) == (3, 2)
    assert outcome.node_kill.history_tokens_recomputed == 0
