"""The calculator gives what a person gets with pen and paper, and refuses what cannot be."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gd2fs.cli import main
from gd2fs.errors import InvalidRequest
from gd2fs.plan import KNOWN, Demand, Geometry, Machines, Plan, geometry_of
from gd2fs.plan.advice import cautions, serve_flags, sglang_settings

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "sizing.md"
TOKEN = Geometry("small", 10, 2, 50)  # 10 * 2 * 2 * 50 * 2 bytes: 4000
DEMAND = Demand(
    users=100,
    turns=5,
    prompt_tokens=60,
    answer_tokens=40,
    shared_tokens=200,
    interval_s=10,
    keep_s=100,
    peak=2,
)
MACHINES = Machines(
    memory_bytes=100_000_000,
    nic_gbit=0.1,  # 12.5 MB/s, of which 10 are payload
    replicas=2,
    engines=4,
    engine_nic_gbit=0.2,  # 25 MB/s, of which 20 are payload
    prefill_tokens_per_s=1000,
)
PLAN = Plan(TOKEN, DEMAND, MACHINES)
ON_DISK = Plan(TOKEN, DEMAND, replace(MACHINES, nvme_bytes=400_000_000))

LLAMA_70B = {
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "hidden_size": 8192,
    "torch_dtype": "bfloat16",
}
DEEPSEEK = {
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_size": 7168,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session_s", 50),
        ("sessions_per_s", 2),
        ("turns_per_s", 10),
        ("session_tokens", 500),
        ("active_tokens", 30_000),  # 100 users * 3 turns * 100
        ("ended_tokens", 100_000),  # 2 a second * 100 s * 500
        ("history_tokens", 400),  # 200, and 2 turns of 100
        ("longest_tokens", 660),
        ("read_tokens_per_s", 4_000),
        ("written_tokens_per_s", 1_000),
        ("prefill_tokens_per_s", 600),
        ("cold_tokens_per_s", 4_600),
    ],
)
def test_the_demand_in_tokens_is_what_pen_and_paper_give(name, value):
    assert getattr(DEMAND, name) == pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session_bytes", 2_000_000),
        ("active_bytes", 241_600_000),  # (30,000 + 200) * 4000 * 2
        ("ended_bytes", 800_000_000),
        ("working_set_bytes", 1_041_600_000),
        ("read_bytes_per_s", 32_000_000),
        ("write_bytes_per_s", 16_000_000),
        ("nodes_for_memory", 12),  # 1041.6 / 90
        ("nodes_for_disk", 0),
        ("nodes_for_network", 4),  # 32 / 10
        ("nodes", 12),
        ("nodes_because", "memory"),
        ("engine_gbit", 0.08),
        ("node_gbit", 0.08 / 3),
        ("disk_writes_per_day", 0),
        ("break_even_gbit", 0.04),
        ("load_gain", 5),
        ("history_load_s", 0.08),
        ("history_compute_s", 0.4),
        ("engines_with", 2),
        ("engines_without", 10),
        ("huge_pages", 48),
    ],
)
def test_the_fleet_is_what_pen_and_paper_give(name, value):
    found = getattr(PLAN, name)

    assert found == (value if isinstance(value, str) else pytest.approx(value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nodes_for_memory", 3),  # 241.6 / 90: what goes on
        ("nodes_for_disk", 4),  # 1041.6 / 300
        ("nodes", 4),
        ("nodes_because", "disk"),
        ("disk_writes_per_day", 432),  # 8 MB/s * 86,400 s / 1.6 GB
    ],
)
def test_disks_take_what_has_ended(name, value):
    assert getattr(ON_DISK, name) == value


def test_a_copy_needs_a_node_of_its_own():
    tiny = Plan(TOKEN, replace(DEMAND, users=1), replace(MACHINES, nic_gbit=100, replicas=3))

    assert (tiny.nodes, tiny.nodes_because) == (3, "replicas")


@pytest.mark.parametrize(
    ("config", "token_bytes"),
    [
        (LLAMA_70B, 80 * 2 * 8 * 128 * 2),
        (LLAMA_70B | {"num_key_value_heads": None}, 80 * 2 * 64 * 128 * 2),  # MHA
        (LLAMA_70B | {"head_dim": 64, "torch_dtype": "float32"}, 80 * 2 * 8 * 64 * 4),
        ({"text_config": LLAMA_70B, "dtype": "float16"}, 80 * 2 * 8 * 128 * 2),
        (DEEPSEEK, 61 * 576 * 2),
    ],
)
def test_a_config_of_a_checkpoint_says_what_a_token_weighs(config, token_bytes, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))

    assert geometry_of(str(tmp_path)).token_bytes == token_bytes
    assert geometry_of(str(tmp_path / "config.json")).token_bytes == token_bytes


def test_known_models_agree_with_their_configs():
    assert KNOWN["llama-3.1-70b"].token_bytes == 320 << 10
    assert KNOWN["llama-3.1-8b"].token_bytes == 128 << 10
    assert KNOWN["deepseek-v3"].token_bytes == 70_272
    assert geometry_of("Llama-3.1-8B", "fp8").token_bytes == 64 << 10


def test_layers_that_forget_are_remarked():
    layers = ["sliding_attention", "full_attention"] * 40
    config = LLAMA_70B | {"layer_types": layers}

    from gd2fs.plan.geometry import from_config

    assert "sliding_attention" in from_config("m", config).remark


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("llama-9", "neither a model that is known"),
        ("layers=3,heads=2", "`heads=2` says nothing"),
        ("layers=0,latent=576", "`layers`"),
        ("layers=3,kv_heads=2", "`head_dim`"),
        ("layers=3,latent=-5", "says nothing"),
    ],
)
def test_a_model_that_is_none_is_refused(text, words):
    with pytest.raises(InvalidRequest, match=re.escape(words)):
        geometry_of(text)


@pytest.mark.parametrize("text", ["[]", "{}", "nothing", '{"num_hidden_layers": true}'])
def test_a_config_that_says_too_little_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)

    with pytest.raises(InvalidRequest) as refused:
        geometry_of(str(tmp_path))

    assert refused.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"users": 0},
        {"users": float("nan")},
        {"users": float("inf")},
        {"turns": 0.5},
        {"interval_s": 0},
        {"keep_s": -1},
        {"local_share": 1.5},
        {"peak": 0.5},
        {"prompt_tokens": -1},
        {"prompt_tokens": 0, "answer_tokens": 0},
    ],
)
def test_demand_that_cannot_be_is_refused(changes):
    with pytest.raises(InvalidRequest):
        replace(DEMAND, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_bytes": 0},
        {"nic_gbit": 0},
        {"engine_nic_gbit": -1},
        {"prefill_tokens_per_s": float("inf")},
        {"nvme_bytes": 1},
        {"replicas": 0},
        {"replicas": 9},
        {"engines": 0},
    ],
)
def test_machines_that_cannot_be_are_refused(changes):
    with pytest.raises(InvalidRequest):
        replace(MACHINES, **changes)


def test_more_nodes_than_a_cluster_can_have_are_refused():
    with pytest.raises(InvalidRequest, match="are more than the 1024"):
        Plan(TOKEN, replace(DEMAND, users=1e6), MACHINES)


def test_flags_are_those_of_serve():
    shown = serve_flags(replace(ON_DISK, machines=replace(ON_DISK.machines, nic_gbit=100)))

    assert shown == [
        *("--memory", "100000000", "--arena", "hugetlb", "--replicas", "2"),
        *("--nvme", "/mnt/nvme0/gd2fs:390625KiB", "--threads", "4"),
    ]
    assert sglang_settings(PLAN) == {"load_timeout_s": 7}  # 4 * 128 * 64 * 4000 / 20 MB/s


def test_what_does_not_work_out_is_said():
    slow = Plan(TOKEN, DEMAND, replace(MACHINES, engine_nic_gbit=0.02, engines=1, replicas=1))

    said = "\n".join(cautions(slow))

    assert "loading is slower than computing" in said
    assert "an engine needs 0.32 Gbit/s at the peak and has 0.02" in said
    assert "2 engines are needed for what is new, of 1" in said
    assert "one copy" in said
    assert list(cautions(PLAN)) == []


def test_the_command_prints_what_the_plan_says(capfd):
    words = "--users 100 --turns 5 --prompt-tokens 60 --answer-tokens 40 --shared-tokens 200"
    words += " --interval 10 --keep 100 --replicas 2 --node-memory 100000000 --node-nic 0.1"
    words += " --engine-nic 0.2 --prefill 1000"
    model = "layers=10,kv_heads=2,head_dim=50"

    assert main(["plan", model, *words.split(), "--json"]) == 0

    told = json.loads(capfd.readouterr().out)
    assert told["nodes"] == 12
    assert told["working_set_bytes"] == 1_041_600_000
    assert told["load_gain"] == pytest.approx(5)
    assert main(["plan", model, *words.split()]) == 0
    assert "5 times as quick" in capfd.readouterr().out


def test_what_a_program_reads_has_whole_lines(capfd):
    assert main(["plan", "llama-3.1-70b", "--users", "5000", "--node-memory", "1TiB"]) == 0

    lines = capfd.readouterr().out.splitlines()
    assert any(line.endswith("its last prompt has 6,300 tokens") for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_plan_that_cannot_be_is_one_line(capfd):
    assert main(["plan", "llama-3.1-8b", "--users", "0"]) == 1

    assert capfd.readouterr().err.startswith("error: `users` is 0")


def test_the_guide_has_every_formula():
    text = GUIDE.read_text(encoding="utf-8")
    names = [
        name
        for kind in (Demand, Plan)
        for name, value in vars(kind).items()
        if isinstance(value, property)
    ]

    missing = [name for name in names if f"`{name}`" not in text]
    assert missing == []
