"""What the chart stateless-engine makes of a server: the guide's own flags, and the tides."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from deploy.rendered import ROOT, Object, render
from deploy.test_charts import ENGINE, ENGINES

from gd2fs.engines.sglang.launch import BACKEND

pytestmark = pytest.mark.slow

JSON_FLAGS = ("--hicache-storage-backend-extra-config", "--kv-transfer-config")
OF_A_PLACE = {"--model-path", "--served-model-name", "--port"}  # other values in the guide
ONLINE, OFFLINE = "demo-online", "demo-offline"


def flags(words: list[str]) -> dict[str, Any]:
    """Every flag with its value; True where it has none. JSON is read."""
    split = [part for word in words for part in _parts(word)]
    found: dict[str, Any] = {}
    for at, word in enumerate(split):
        if word.startswith("--"):
            after = split[at + 1] if at + 1 < len(split) else "--"
            found[word] = True if after.startswith("--") else after
    return {key: json.loads(value) if key in JSON_FLAGS else value for key, value in found.items()}


def _parts(word: str) -> list[str]:
    return word.split("=", 1) if word.startswith("--") else [word]


def command(values: Object, name: str = ONLINE) -> list[str]:
    return render("stateless-engine", values).container("Deployment", name)["command"]


def guide(engine: str, start: str) -> dict[str, Any]:
    """The flags of the guide's command that begins so."""
    text = (ROOT / f"docs/guides/{engine}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    block = next(each for each in blocks if f"\n{start}" in f"\n{each}")
    return flags(shlex.split(block[block.index(start) :].replace("\\\n", " ")))


@pytest.mark.parametrize(
    ("engine", "start"),
    [("sglang", "python -m sglang.launch_server"), ("vllm", "vllm serve")],
)
def test_a_server_has_every_flag_that_its_guide_has(engine, start):
    said = flags(command(ENGINES[engine]))
    where = {"cp": ENGINE["store"]["address"], "cluster": ENGINE["store"]["cluster"]}

    for flag, value in guide(engine, start).items():
        if flag == JSON_FLAGS[0]:
            assert said[flag] == value | where
        elif flag == JSON_FLAGS[1]:
            [tier] = value["kv_connector_extra_config"]["secondary_tiers"]
            tier |= where
            assert said[flag] == value
        else:
            assert flag in said and (flag in OF_A_PLACE or said[flag] == value), flag


def test_sglang_gets_the_plug_in_as_tests_of_real_servers_do():
    settings = flags(command(ENGINES["sglang"]))[JSON_FLAGS[0]]

    assert {key: settings[key] for key in BACKEND} == dict(BACKEND)
    assert flags(command(ENGINES["sglang"]))["--hicache-host-memory-mode"] == "buffer_only"


def test_settings_of_the_plug_in_are_passed_on():
    config = flags(command(ENGINES["tides"]))["--kv-transfer-config"]
    [tier] = config["kv_connector_extra_config"]["secondary_tiers"]

    assert tier["tag"] == "blue" and tier["type"] == "gd2fs"


def test_gpus_are_asked_for_and_used():
    rendered = render("stateless-engine", ENGINES["tides"])
    container = rendered.container("Deployment", ONLINE)

    assert container["resources"]["limits"]["nvidia.com/gpu"] == 4
    assert "--tensor-parallel-size=4" in container["command"]
    on_cpu = render("stateless-engine", ENGINES["fixed"]).container("Deployment", ONLINE)
    assert "nvidia.com/gpu" not in on_cpu["resources"]["limits"]


def test_tokens_and_certificates_come_from_secrets_alone():
    container = render("stateless-engine", ENGINES["tides"]).container("Deployment", ONLINE)
    env = {each["name"]: each.get("value") for each in container["env"]}
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}

    assert env["GD2FS_TOKEN_FILE"] == f"{mounts['token']}/token"
    assert env["GD2FS_TLS_CA"] == f"{mounts['tls']}/ca.crt"
    assert env["GD2FS_TLS_NAME"] == "demo-gd2fs.storage.svc"  # pods' addresses are in none
    assert "token" not in " ".join(container["command"])
    assert env["HF_TOKEN"] is None  # from its Secret


def test_any_replica_serves_any_turn():
    service = render("stateless-engine", ENGINE).one("Service", ONLINE)

    assert service["spec"]["sessionAffinity"] == "None"
    assert service["spec"]["selector"]["gd2fs/tide"] == "online"


@pytest.mark.parametrize(
    ("engine", "metric"),
    [("vllm", "vllm_num_requests_waiting"), ("sglang", "sglang_num_queue_reqs")],
)
def test_replicas_follow_the_queue_of_the_engine(engine, metric):
    spec = render("stateless-engine", ENGINES[engine]).one("HorizontalPodAutoscaler")["spec"]

    [rule] = spec["metrics"]
    assert rule["pods"]["metric"]["name"] == metric
    assert spec["behavior"]["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"] >= 60
    deployment = render("stateless-engine", ENGINES[engine]).one("Deployment", ONLINE)
    assert "replicas" not in deployment["spec"]  # else each upgrade would undo the scaling


def test_an_external_metric_can_be_followed():
    scaling = {"metric": {"kind": "External", "name": "queue", "selector": {"model": "llama"}}}
    rendered = render("stateless-engine", ENGINE | {"online": {"autoscaling": scaling}})

    [rule] = rendered.one("HorizontalPodAutoscaler")["spec"]["metrics"]
    assert rule["external"]["metric"] == {
        "name": "queue",
        "selector": {"matchLabels": {"model": "llama"}},
    }


def test_offline_work_yields_to_online_work():
    rendered = render("stateless-engine", ENGINES["tides"])
    high, low = (rendered.one("PriorityClass", name) for name in (ONLINE, OFFLINE))

    assert high["value"] > low["value"]
    assert high["preemptionPolicy"] == "PreemptLowerPriority"
    assert low["preemptionPolicy"] == "Never"
    for name in (ONLINE, OFFLINE):
        spec = rendered.one("Deployment", name)["spec"]["template"]["spec"]
        assert spec["priorityClassName"] == name
    soon = rendered.one("Deployment", OFFLINE)["spec"]["template"]["spec"]
    late = rendered.one("Deployment", ONLINE)["spec"]["template"]["spec"]
    assert soon["terminationGracePeriodSeconds"] < late["terminationGracePeriodSeconds"]
    budgets = [each for each in rendered.objects if each["kind"] == "PodDisruptionBudget"]
    assert [each["metadata"]["name"] for each in budgets] == [ONLINE]


def test_both_tides_share_one_cache():
    rendered = render("stateless-engine", ENGINES["tides"])

    both = [rendered.container("Deployment", name)["command"] for name in (ONLINE, OFFLINE)]
    assert both[0] == both[1]
