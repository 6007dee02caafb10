"""The charts, rendered by real Helm, are what Kubernetes takes, in every version that they name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from deploy.rendered import CHARTS, NAMESPACE, ROOT, Object, check, complaints, refusal, render

pytestmark = pytest.mark.slow

VERSIONS = ("1.25", "1.29", "1.33", "1.37")

ENGINE: Object = {
    "image": {"repository": "registry.example/engine"},
    "model": {"name": "llama", "path": "llama-3.1-8b"},
    "store": {"address": "gd2fs://demo-gd2fs.storage.svc:7527", "cluster": "demo"},
}
ALL_METRICS = {
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
}
STORES: dict[str, Object] = {
    "as it comes": {},
    "everything": {
        "copies": "2,kv=3",
        "cache": {"memory": "64Gi", "arena": "hugetlb", "kept": True},
        "config": '[namespace.kv]\npolicy = "s3-fifo"\n',
        "nvme": {"enabled": True, "devices": 2, "use": "900GiB", "rate": "1GiB"},
        "auth": {"existingSecret": "tokens", "generate": False, "tenantsSecret": "tenants"},
        "tls": {
            "enabled": True,
            "clients": "required",
            "certManager": {"enabled": True, "issuerRef": {"name": "ca", "kind": "Issuer"}},
        },
        "metrics": ALL_METRICS,
        "priorityClassName": "storage",
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"disk": "nvme"},
        "tolerations": [{"key": "cache", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "podLabels": {"team": "cache"},
        "podAnnotations": {"a/b": "c"},
        "extraEnv": [{"name": "A", "value": "b"}],
        "extraArgs": ["--threads=8"],
        "networkPolicy": {"clients": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]},
    },
    "folders of the machine": {
        "hostNetwork": True,
        "nvme": {"enabled": True, "kind": "hostPath", "hostPaths": ["/mnt/a", "/mnt/b"]},
        "image": {"digest": f"sha256:{'0' * 64}"},
    },
    "gone with the pod": {
        "cache": {"memory": "512Mi", "arena": "memfd", "kept": True},
        "nvme": {"enabled": True, "kind": "ephemeral", "storageClassName": ""},
        "drain": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "serviceAccount": {"create": False, "name": "other"},
        "topologySpread": [],
    },
    "IPv6, a certificate of one's own": {
        "ipFamily": "IPv6",
        "tls": {"enabled": True, "existingSecret": "certificate"},
        "fullnameOverride": "cache",
    },
}
ENGINES: dict[str, Object] = {
    "vllm": ENGINE,
    "sglang": ENGINE | {"engine": "sglang"},
    "tides": ENGINE
    | {
        "offline": {"enabled": True, "autoscaling": {"enabled": True}},
        "gpu": {"count": 4},
        "serviceMonitor": {"enabled": True},
        "runtimeClassName": "nvidia",
        "store": ENGINE["store"]
        | {
            "tokenSecret": {"name": "tokens"},
            "tlsSecret": {"name": "tls"},
            "settings": {"tag": "blue"},
        },
        "model": ENGINE["model"]
        | {
            "volume": {"kind": "hostPath", "hostPath": "/models"},
            "hubSecret": {"name": "hub"},
        },
    },
    "fixed": ENGINE
    | {
        "engine": "sglang",
        "online": {"autoscaling": {"enabled": False}, "podDisruptionBudget": {"enabled": False}},
        "offline": {"enabled": True},
        "priorityClasses": {"create": False} | {t: {"name": t} for t in ("online", "offline")},
        "model": ENGINE["model"] | {"volume": {"kind": "claim", "claim": "models"}},
        "gpu": {"count": 0},
    },
}  # fmt: skip
SETS = [("gd2fs", name, values) for name, values in STORES.items()]
SETS += [("stateless-engine", name, values) for name, values in ENGINES.items()]
every_set = pytest.mark.parametrize(
    ("chart", "values"), [(c, v) for c, _, v in SETS], ids=[f"{c}: {n}" for c, n, _ in SETS]
)


@every_set
def test_every_object_is_one_that_kubernetes_takes(chart, values):
    for each in render(chart, values).objects:
        if each["kind"] in SHAPES:
            SHAPES[each["kind"]](each)
            continue
        for version in VERSIONS:
            check(each, version)


@every_set
def test_lint_has_nothing_against_it(chart, values):
    assert complaints(chart, values) == []


@every_set
def test_names_are_unique_and_in_the_namespace(chart, values):
    objects = render(chart, values).objects

    names = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(names) == len(set(names))
    for each in objects:
        expected = None if each["kind"] == "PriorityClass" else NAMESPACE
        assert each["metadata"].get("namespace") == expected
        assert "helm.sh/chart" in each["metadata"]["labels"]


@every_set
def test_what_is_mounted_is_there_and_what_is_there_is_mounted(chart, values):
    for each in render(chart, values).objects:
        if each["kind"] not in ("StatefulSet", "Deployment"):
            continue
        pod = each["spec"]["template"]["spec"]
        claims = each["spec"].get("volumeClaimTemplates", [])
        volumes = {one["name"] for one in pod["volumes"]} | {c["metadata"]["name"] for c in claims}
        mounts = {one["name"] for one in pod["containers"][0]["volumeMounts"]}
        assert volumes == mounts


@every_set
def test_selectors_select_the_pods(chart, values):
    objects = render(chart, values).objects
    pods = [
        each["spec"]["template"]["metadata"]["labels"]
        for each in objects
        if each["kind"] in ("StatefulSet", "Deployment")
    ]
    for each in objects:
        selector = each["spec"].get("selector", {}) if "spec" in each else {}
        wanted = selector.get("matchLabels", selector)
        if each["kind"] in ("Service", "StatefulSet", "Deployment", "PodDisruptionBudget"):
            assert any(wanted.items() <= labels.items() for labels in pods), each["kind"]


# ---- objects of others, whose schemas are not Kubernetes' own ------------------------------------


def check_monitor(each: Object) -> None:
    """monitoring.coreos.com/v1 ServiceMonitor."""
    spec = each["spec"]
    assert each["apiVersion"] == "monitoring.coreos.com/v1"
    assert set(spec) <= {"jobLabel", "namespaceSelector", "selector", "endpoints"}
    assert spec["namespaceSelector"] == {"matchNames": [NAMESPACE]}
    assert spec["selector"]["matchLabels"]
    [endpoint] = spec["endpoints"]
    known = {"port", "path", "interval", "authorization", "scheme", "tlsConfig"}
    assert set(endpoint) <= known and endpoint["path"] == "/metrics"
    assert re.fullmatch(r"\d+s", endpoint["interval"])
    if "authorization" in endpoint:
        assert endpoint["authorization"]["type"] == "Bearer"
        assert set(endpoint["authorization"]["credentials"]) == {"name", "key"}


def check_rule(each: Object) -> None:
    """monitoring.coreos.com/v1 PrometheusRule."""
    assert each["apiVersion"] == "monitoring.coreos.com/v1"
    assert set(each["spec"]) == {"groups"}
    for group in each["spec"]["groups"]:
        assert {"name", "rules"} <= set(group) <= {"name", "rules", "interval", "limit"}
        for rule in group["rules"]:
            assert isinstance(rule["expr"], str)
            assert ("alert" in rule) != ("record" in rule)
            known = {"alert", "record", "expr", "for", "keep_firing_for", "labels", "annotations"}
            assert set(rule) <= known


def check_certificate(each: Object) -> None:
    """cert-manager.io/v1 Certificate."""
    spec = each["spec"]
    assert each["apiVersion"] == "cert-manager.io/v1"
    assert {"secretName", "issuerRef", "dnsNames"} <= set(spec)
    assert set(spec["issuerRef"]) <= {"name", "kind", "group"} and spec["issuerRef"]["name"]
    assert {"server auth", "client auth"} == set(spec["usages"])
    assert spec["privateKey"]["rotationPolicy"] in ("Always", "Never")
    assert all(re.fullmatch(r"(\d+(h|m|s))+", spec[key]) for key in ("duration", "renewBefore"))


SHAPES: dict[str, Any] = {
    "ServiceMonitor": check_monitor,
    "PrometheusRule": check_rule,
    "Certificate": check_certificate,
}


# ---- schemas -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        {"replica": 3},
        {"replicas": 0},
        {"replicas": "3"},
        {"copies": "9"},
        {"copies": 2},
        {"cache": {"memory": "8GiB", "arena": "hugetlb"}},
        {"cache": {"memory": "8Gi", "arena": "file:/x"}},
        {"cache": {"memory": "8Gi", "arena": "plain", "kept": True}},
        {"cache": {"memory": "8Gi", "arena": "hugetlb", "hugepageSize": "1Gi"}},
        {"nvme": {"enabled": True, "kind": "hostPath", "hostPaths": []}},
        {"nvme": {"enabled": True, "kind": "disk"}},
        {"auth": {"generate": False, "existingSecret": ""}},
        {"tls": {"enabled": True}},
        {"tls": {"enabled": True, "certManager": {"enabled": True}}},
        {"tls": {"clients": "never"}},
        {"image": {"repository": "a", "tag": "a b"}},
        {"podSecurityContext": {"runAsNonRoot": False}},
        {"podSecurityContext": {"runAsUser": 0}},
        {"podDisruptionBudget": {"maxUnavailable": "many"}},
        {"resources": {"requests": {"memory": "1G"}}},
        {"metrics": {"serviceMonitor": {"enabled": "yes"}}},
        {"ports": {"data": 70000}},
        {"networkPolicy": {"apiPort": 443}},
        {"topologySpread": [{"topologyKey": "a"}]},
    ],
    ids=str,
)
def test_the_store_refuses_what_cannot_be(values):
    assert refusal("gd2fs", values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"engine": "llama.cpp"},
        {"model": {"name": "m", "path": ""}},
        {"model": {"name": "m", "path": "p", "volume": {"kind": "claim"}}},
        {"model": {"name": "m", "path": "p", "volume": {"kind": "hostPath", "hostPath": "x"}}},
        {"store": {"address": "10.0.0.1:7527", "cluster": "c"}},
        {"store": {"address": "gd2fs://h:1", "cluster": ""}},
        {"online": {"autoscaling": {"minReplicas": 0}}},
        {"online": {"autoscaling": {"metric": {"kind": "Resource"}}}},
        {"priorityClasses": {"online": {"value": 2000000000}}},
        {"gpu": {"count": -1}},
        {"sglang": {"page": 64}},
    ],
    ids=str,
)
def test_the_engine_refuses_what_cannot_be(values):
    assert refusal("stateless-engine", (ENGINE | values) if values else {})


def test_every_value_is_in_the_schema_and_every_key_of_it_has_a_default():
    for chart in ("gd2fs", "stateless-engine"):
        schema = json.loads((CHARTS / chart / "values.schema.json").read_text())
        values = yaml.safe_load((CHARTS / chart / "values.yaml").read_text())
        assert set(schema["properties"]) == {*values, "global"}
        assert schema["additionalProperties"] is False


# ---- files that are not copied -------------------------------------------------------------------


def test_the_rules_and_the_dashboard_are_those_of_the_repository():
    rendered = render("gd2fs", {"metrics": ALL_METRICS})

    rules = yaml.safe_load((ROOT / "deploy/prometheus/gd2fs.rules.yaml").read_text())
    assert rendered.one("PrometheusRule")["spec"] == rules
    dashboard = (ROOT / "deploy/grafana/gd2fs.json").read_text()
    assert rendered.one("ConfigMap")["data"]["gd2fs.json"] == dashboard
    assert all(each.is_symlink() for each in (CHARTS / "gd2fs/files").iterdir())
