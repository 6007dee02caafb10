"""What the chart gd2fs makes of a node: its command, its memory, its rights, its end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from deploy.rendered import NAMESPACE, Object, render
from deploy.test_charts import STORES
from membership.recorded_core import wait_until
from membership.stores import KubernetesStore

from gd2fs.bench.children import Child
from gd2fs.cli.serve import options_of, serve
from gd2fs.sizes import parse_bytes
from gd2fs.testing.cluster import free_ports

pytestmark = pytest.mark.slow

READY_S = 60.0


def options(container: Object) -> dict[str, str]:
    """The command's options, in its order."""
    assert container["args"][0] == "serve"
    return dict(word.removeprefix("--").split("=", 1) for word in container["args"][1:])


def pod(values: Object) -> Object:
    return render("gd2fs", values).one("StatefulSet")["spec"]["template"]["spec"]


@pytest.mark.parametrize("values", STORES.values(), ids=STORES.keys())
def test_every_option_is_one_of_gd2fs_serve(values):
    known = {*options_of(serve), "config"}

    for name in options(render("gd2fs", values).container()):
        assert name.replace("-", "_") in known, name


def test_a_node_is_named_after_its_pod_and_reached_at_its_address():
    said = options(render("gd2fs").container())

    assert said["name"] == "$(POD_NAME)" and said["kubernetes"] == NAMESPACE
    assert said["listen"] == "tcp://0.0.0.0:7527"
    assert said["advertise"] == "tcp://$(POD_IP):7527"
    six = options(render("gd2fs", {"ipFamily": "IPv6"}).container())
    assert (six["listen"], six["advertise"]) == ("tcp://[::]:7527", "tcp://[$(POD_IP)]:7527")


def test_the_arena_is_what_the_pod_may_have_of_huge_pages():
    container = render("gd2fs", {"cache": {"memory": "64Gi", "arena": "hugetlb"}}).container()

    assert parse_bytes(options(container)["memory"]) == 64 << 30
    limits, requests = container["resources"]["limits"], container["resources"]["requests"]
    assert limits["hugepages-2Mi"] == requests["hugepages-2Mi"] == "64Gi"
    assert limits["memory"] == "2Gi"
    # a memfd of huge pages needs no mount, and no capability
    assert not any("hugepages" in each["mountPath"] for each in container["volumeMounts"])


def test_an_arena_of_ordinary_memory_is_in_the_limits_of_memory():
    container = render("gd2fs", {"cache": {"memory": "8Gi", "arena": "memfd"}}).container()

    assert container["resources"]["limits"]["memory"] == f"{(8 + 2) << 10}Mi"
    assert container["resources"]["requests"]["memory"] == f"{(8 + 1) << 10}Mi"
    assert not any("hugepages" in each for each in container["resources"]["limits"])


def test_an_arena_that_is_kept_lies_in_huge_pages_of_the_pod():
    values = {"cache": {"memory": "8Gi", "arena": "hugetlb", "kept": True}}
    container = render("gd2fs", values).container()

    assert options(container)["arena"] == "file:/dev/hugepages/arena"
    assert {"name": "arena", "mountPath": "/dev/hugepages"} in container["volumeMounts"]
    assert {"name": "arena", "emptyDir": {"medium": "HugePages-2Mi"}} in pod(values)["volumes"]


def test_a_node_may_do_nothing_that_it_need_not():
    spec = pod({})
    context = spec["containers"][0]["securityContext"]

    assert context == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_rights_are_for_leases_and_the_map_of_its_namespace_alone():
    rendered = render("gd2fs")

    assert "ClusterRole" not in rendered.kinds()
    rules = rendered.one("Role")["rules"]
    assert [rule["resources"] for rule in rules] == [["leases"], ["configmaps"]]
    assert not {verb for rule in rules for verb in rule["verbs"]} & {"*", "deletecollection"}
    account = rendered.one("ServiceAccount")["metadata"]["name"]
    assert rendered.one("RoleBinding")["subjects"][0]["name"] == account
    assert pod({})["serviceAccountName"] == account


def test_a_token_is_always_there_and_well_formed():
    import base64

    rendered = render("gd2fs")
    secret = rendered.one("Secret")
    token = base64.b64decode(secret["data"]["token"]).decode()

    assert re.fullmatch(r"[a-z0-9-]{1,32}\.[A-Za-z0-9_-]{32,}", token)
    assert secret["data"]["bearer"] == secret["data"]["token"]
    env = {each["name"]: each.get("value") for each in rendered.container()["env"]}
    folder = next(m for m in rendered.container()["volumeMounts"] if m["name"] == "token")
    assert env["GD2FS_TOKEN_FILE"] == f"{folder['mountPath']}/token"
    own = render("gd2fs", {"auth": {"existingSecret": "tokens"}})
    assert "Secret" not in own.kinds()


def test_the_pod_waits_for_the_drain_and_then_for_the_end():
    spec = pod({"drain": {"enabled": True, "timeoutSeconds": 100, "endSeconds": 20}})
    [_, _, command] = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]

    assert spec["terminationGracePeriodSeconds"] == 120 and "--timeout 100" in command
    without = pod({"drain": {"enabled": False}})
    assert "lifecycle" not in without["containers"][0]
    assert without["terminationGracePeriodSeconds"] == 30


def test_a_changed_configuration_restarts_the_nodes():
    def checksum(config: str) -> str:
        template = render("gd2fs", {"config": config}).one("StatefulSet")["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    assert checksum("a = 1") != checksum("a = 2")
    assert checksum("a = 1") == checksum("a = 1")


def test_certificates_name_what_clients_ask_for():
    rendered = render("gd2fs", STORES["everything"])
    names = rendered.one("Certificate")["spec"]["dnsNames"]
    service = rendered.one("Service")["metadata"]["name"]

    assert f"{service}.{NAMESPACE}.svc" in names and f"*.{service}.{NAMESPACE}.svc" in names
    env = {each["name"]: each.get("value") for each in rendered.container()["env"]}
    assert env["GD2FS_TLS_NAME"] in names
    secret = rendered.one("Certificate")["spec"]["secretName"]
    volumes = rendered.one("StatefulSet")["spec"]["template"]["spec"]["volumes"]
    assert any(each.get("secret", {}).get("secretName") == secret for each in volumes)
    assert rendered.one("ServiceMonitor")["spec"]["endpoints"][0]["scheme"] == "https"


def test_only_clients_nodes_and_prometheus_get_in():
    policy = render("gd2fs").one("NetworkPolicy")["spec"]
    data, admin = policy["ingress"]

    assert data["ports"][0]["port"] == "gd2fs" and admin["ports"][0]["port"] == "admin"
    labels = [each["podSelector"]["matchLabels"] for each in data["from"]]
    assert {"gd2fs/client": "true"} in labels and len(labels) == 2
    egress = {port["port"] for rule in policy["egress"] for port in rule["ports"]}
    assert egress == {"gd2fs", 53, 443, 6443}


def test_disks_are_volumes_of_a_node_of_its_own():
    claims = render("gd2fs", {"nvme": {"enabled": True, "devices": 2, "use": "1TiB"}})
    folders = render("gd2fs", STORES["folders of the machine"])

    assert options(claims.container())["nvme"] == "/nvme/0:1TiB,/nvme/1:1TiB"
    templates = claims.one("StatefulSet")["spec"]["volumeClaimTemplates"]
    assert [each["metadata"]["name"] for each in templates] == ["nvme-0", "nvme-1"]
    mounts = [m for m in folders.container()["volumeMounts"] if m["name"].startswith("nvme")]
    assert [m["subPathExpr"] for m in mounts] == ["$(POD_NAME)"] * 2


def test_the_notes_say_where_clients_go():
    notes = render("gd2fs").notes

    assert f"GD2FS_CPADDR=gd2fs://demo-gd2fs.{NAMESPACE}.svc:7527" in notes
    assert "GD2FS_CLUSTER=demo" in notes and "gd2fs/client=true" in notes


# ---- the command as it is, run -------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    with KubernetesStore(tmp_path) as store:
        yield store


def started(store, tmp_path: Path, index: int) -> tuple[Child, Object, dict[str, str]]:
    """A node by the very words of its container; only places in the file system are others."""
    data, admin = free_ports(2)
    account = store.options()[2:]
    values = {
        "cache": {"memory": "32Mi", "arena": "plain"},
        "ports": {"data": data, "admin": admin},
        "node": {"leaseSeconds": 2, "rampSeconds": 0},
        "extraArgs": [
            f"{name}={value}" for name, value in zip(account[::2], account[1::2], strict=False)
        ],
    }
    container = render("gd2fs", values).container()
    (tmp_path / "token").write_text("cluster." + "a" * 43 + "\n")
    known = {"POD_NAME": f"demo-gd2fs-{index}", "POD_IP": "127.0.0.1"}
    places = {
        "/var/run/gd2fs/token": str(tmp_path),
        "/var/lib/gd2fs": str(tmp_path / f"state{index}"),
    }

    def filled(text: str) -> str:
        for name, value in known.items():
            text = text.replace(f"$({name})", value)
        for before, after in places.items():
            text = text.replace(before, after)
        return text

    known |= {e["name"]: filled(e["value"]) for e in container["env"] if "value" in e}
    words = [filled(word) for word in container["args"]]
    environment = [f"{name}={value}" for name, value in known.items()]
    command = ["env", *environment, sys.executable, "-m", "gd2fs", *words]
    return Child(f"node{index}", command, tmp_path / f"{index}.log"), container, known


def status_of(container: Object, probe: str) -> int:
    port = next(each["containerPort"] for each in container["ports"] if each["name"] == "admin")
    path = container[probe]["httpGet"]["path"]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status
    except OSError:
        return 0


def test_nodes_start_as_the_chart_says_are_probed_and_drained(store, tmp_path):
    nodes = [started(store, tmp_path, index) for index in (0, 1)]
    try:
        for child, _, _ in nodes:
            child.wait_ready(READY_S)
        for _, container, _ in nodes:
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                wait_until(lambda c=container, p=probe: status_of(c, p) == 200, probe)

        child, container, known = nodes[1]
        binary = tmp_path / "gd2fs"
        binary.write_text(f'#!/bin/sh\nexec {sys.executable} -m gd2fs "$@"\n')
        binary.chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        hook = container["lifecycle"]["preStop"]["exec"]["command"]
        drained = subprocess.run(
            hook, env={**os.environ, **known, "PATH": path}, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip

        assert drained.returncode == 0, drained.stderr
        assert child.process.wait(READY_S) == 0
        assert set(store.keys("demo").snapshot().nodes) == {"demo-gd2fs-0"}
    finally:
        for child, _, _ in nodes:
            child.terminate()
        for child, _, _ in nodes:
            child.wait_end()
