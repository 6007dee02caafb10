"""`gd2fs whatif` and GET /v1/whatif, of real nodes."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from gd2fs import Client
from gd2fs.cli import main
from gd2fs.testing.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PRICES = {"gpu": 2.0, "dram_gb": 0.01, "nvme_gb": 0.0, "nic_gbit": 0.0}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    options = ["--admin", "127.0.0.1:0"]
    folder = str(tmp_path_factory.mktemp("whatif"))
    with (
        Cluster(2, "32MiB", folder, arena="plain", name="asked", options=options) as running,
        Client(running.cp, cluster=running.name, timeout_s=20) as client,
    ):
        page, keys = bytes(64 << 10), [b"%d" % at for at in range(1_600)]  # 100 MiB
        for name, rounds in (("chat", 3), ("seldom", 1)):
            pages = client.pages(name)
            for key in (keys if rounds > 1 else keys[:20]) * rounds:
                if not pages.get([key], [bytearray(64 << 10)]).leading:
                    pages.put([key], [page])
        yield running


def told(cluster, capsys, *words: str):
    status = main(["whatif", "--cp", cluster.cp, "--cluster", cluster.name, *words])
    assert status == 0
    return capsys.readouterr().out


def test_twice_the_memory_would_find_what_comes_again_and_again(cluster, capsys):
    answer = json.loads(told(cluster, capsys, "--json"))
    chat = next(each for each in answer["namespaces"] if each["name"] == "chat")

    assert (answer["nodes"], answer["then_memory_bytes"]) == (2, 2 * answer["memory_bytes"])
    assert chat["counted"] < 0.2  # all of it comes round, and there is never room for all
    assert chat["now"] == pytest.approx(chat["counted"], abs=0.05)
    assert chat["then"] == pytest.approx(2 / 3, abs=0.05)
    assert chat["more_bytes_per_s"] > 0


def test_what_says_too_little_is_said_to(cluster, capsys):
    lines = told(cluster, capsys, "--nodes", "+2").splitlines()

    assert lines[0].startswith("2 nodes with 64 MiB of memory -> 4 nodes with 128 MiB of memory")
    assert any(line.startswith("seldom") and "too few samples" in line for line in lines)


def test_it_is_told_what_it_is_worth(cluster, capsys, tmp_path):
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps(PRICES))
    words = ["--page-tokens", "64", "--engine", "h100-8b", "--prices", str(prices), "--json"]

    worth = json.loads(told(cluster, capsys, *words))

    gain = worth["total"]["then"] - worth["total"]["now"]
    assert worth["tokens_per_s"] == pytest.approx(gain * worth["total"]["looks_per_s"] * 64)
    assert worth["cost_per_hour"] == pytest.approx(64 * 2**20 / 1e9 * 0.01)
    assert worth["saved_per_hour"] == pytest.approx(worth["gpus"] * 2.0) and worth["gpus"] > 0


def test_any_node_tells_it_over_http(cluster, capsys):
    url = cluster.members[1].child.facts["admin"] + "/v1/whatif?dram=2x&nodes=%2B1"
    with urllib.request.urlopen(url, timeout=20) as answer:
        said = json.load(answer)

    shown = json.loads(told(cluster, capsys, "--dram", "2x", "--nodes", "+1", "--json"))
    assert said["total"]["then"] == shown["total"]["then"]
    assert said["left_out"] == {} and said["then_nodes"] == 3


@pytest.mark.parametrize(
    "words",
    [["--dram", "much"], ["--nodes", "-2"], ["--engine", "h100-8b"], ["--page-tokens", "-1"]],
)
def test_what_means_nothing_is_refused(cluster, capsys, words):
    assert main(["whatif", "--cp", cluster.cp, "--cluster", cluster.name, *words]) == 1
    assert "hint:" in capsys.readouterr().err


@pytest.mark.parametrize("query", ["foo=1", "dram=2x&dram=3x", "dram=0x", "nodes=-2"])
def test_what_means_nothing_over_http_is_refused_too(cluster, query):
    url = cluster.members[0].child.facts["admin"] + f"/v1/whatif?{query}"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url, timeout=20)

    assert refused.value.code == 400 and json.load(refused.value)["hint"]
