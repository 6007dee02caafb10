"""Outcomes for tests: small runs with known times, made by hand."""

from gd2fs.bench.asking import Answer
from gd2fs.bench.instances import MIB, Setup
from gd2fs.bench.kill import Kill, NodeKill
from gd2fs.bench.load import Played
from gd2fs.bench.measures import arm_of
from gd2fs.bench.topology import Outcome
from gd2fs.bench.workload import Turn, Workload


def played(session, index, *, ttft_s, reused, sent_s=0.0, history=100, answer=(1, 2, 3)):
    """One turn: its tokens come ``ttft_s`` after it was sent, then every 0.1 s."""
    turn = Turn(session, index, tuple(range(history * index + 50)), (1, 2, 3), history * index)
    times = tuple(sent_s + ttft_s + 0.1 * at for at in range(len(answer)))
    computed = len(turn.prompt) - reused
    return Played(turn, 0, Answer(sent_s, times, times[-1] + 0.5, answer, reused, computed))


def outcome_of(before, after, *, kill=None, node_kill=None, counts=None):
    """An outcome of two topologies' turns."""
    counts = counts or {"restore_failures": 0, "save_failures": 0}
    return Outcome(
        workload=Workload(sessions=2, rounds=2),
        setup=Setup(model="model.gguf", memory_mib=64),
        machine={"cores": 2},
        engine={"name": "llamacpp"},
        before=arm_of(before, cache_bytes=64 * MIB, engine_counts={}),
        after=arm_of(after, cache_bytes=64 * MIB, engine_counts=counts),
        played_before=before,
        played_after=after,
        kill=kill,
        disagreeing=sum(not each.agrees for each in after),
        node_kill=node_kill,
    )


def small_outcome(**more):
    """Four turns: in A half of the histories is computed again, in B nothing."""
    before = [played(s, t, ttft_s=2.0 + t, reused=50 * t) for s in (0, 1) for t in (0, 1)]
    after = [played(s, t, ttft_s=2.0 - t, reused=100 * t) for s in (0, 1) for t in (0, 1)]
    return outcome_of(before, after, **more)


KILL = Kill(pid=4321, signal="SIGKILL", turn=2, history_tokens_recomputed=0)
NODE_KILL = NodeKill("n1", 99, "SIGKILL", 2, nodes=3, replicas=2, history_tokens_recomputed=0)
