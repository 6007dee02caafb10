"""What is shipped for Prometheus and Grafana, against the page of a node that has seen traffic."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from metrics import promtool
from metrics.page import Page
from metrics.promql import grouped_labels, matched_labels, metrics_in

from gd2fs.metrics import SECTIONS

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy/prometheus/gd2fs.rules.yaml"
RULE_TESTS = ROOT / "deploy/prometheus/gd2fs.rules.test.yaml"
DASHBOARD = ROOT / "deploy/grafana/gd2fs.json"
GUIDE = ROOT / "docs/guides/monitoring.md"

OF_PROMETHEUS = {"up"}  # its own
OF_SCRAPES = {"job", "instance"}  # labels that it adds


def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def expressions_of_panels() -> list[str]:
    return [
        target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])
    ]


def expressions_of_rules() -> list[str]:
    """Read without a parser of YAML: an expression is one line, or all lines further in."""
    text = RULES.read_text(encoding="utf-8")
    blocks = re.findall(r"^( *)expr: (?:>-\n((?:\1 +.*\n)+)|(.*)\n)", text, re.MULTILINE)
    return [" ".join(block.split()) or line for _, block, line in blocks]


def recorded() -> set[str]:
    return set(re.findall(r"record: (\S+)", RULES.read_text(encoding="utf-8")))


def alerts() -> list[str]:
    return re.findall(r"alert: (\S+)", RULES.read_text(encoding="utf-8"))


def all_expressions() -> Iterator[str]:
    yield from expressions_of_panels()
    yield from expressions_of_rules()
    for variable in dashboard()["templating"]["list"]:
        found = re.fullmatch(r"label_values\((.*), *(\w+)\)", variable.get("definition", ""))
        if found:
            yield f"count by ({found[2]}) ({found[1]})"


@pytest.fixture
def series(pages: list[Page]) -> dict[str, set[str]]:
    """Names on the pages, each with its labels."""
    found: dict[str, set[str]] = {}
    for page in pages:
        for name, labels in page.series.items():
            found.setdefault(name, set()).update(labels)
    return found


def test_names_and_labels_are_found_in_promql():
    expression = (
        'sum by (a, b) (rate(x_total{l="by (c)", m!~"y"}[5m] offset 1h)) / on (i) '
        'group_left (n) z:r5m > bool 1e3 and q{} unless label_replace(w, "d", "$1", "s", "t")'
    )

    assert metrics_in(expression) == {"x_total", "z:r5m", "q", "w"}
    assert set(matched_labels(expression)) == {("x_total", "l"), ("x_total", "m")}
    assert grouped_labels(expression) == {"a", "b", "i", "n"}


def test_every_metric_that_a_panel_or_a_rule_names_is_on_the_page(series):
    named = {name for each in all_expressions() for name in metrics_in(each)}

    assert len(named) > 40
    assert named - set(series) - OF_PROMETHEUS - recorded() == set()


def test_every_label_that_a_panel_or_a_rule_chooses_by_is_one_of_that_metric(series):
    chosen = {pair for each in all_expressions() for pair in matched_labels(each)}
    unknown = {
        (name, label)
        for name, label in chosen
        if label not in series.get(name, set()) | OF_SCRAPES and name not in OF_PROMETHEUS
    }

    assert unknown == set()


def test_what_is_summed_by_is_a_label_of_something_that_is_summed(series):
    for each in all_expressions():
        labels = set().union(*(series.get(name, set()) for name in metrics_in(each)))

        assert grouped_labels(each) <= labels | OF_SCRAPES, each


def test_every_metric_of_the_table_is_shown_or_watched_or_plainly_detail(series):
    named = {name for each in all_expressions() for name in metrics_in(each)}
    unwatched = {
        family.name
        for section in SECTIONS.values()
        for family in section
        if not named & set(family.series)
    }

    assert unwatched <= DETAILS


def test_the_dashboard_has_its_rows_and_its_variables():
    shown = dashboard()
    rows = [panel["title"] for panel in shown["panels"] if panel["type"] == "row"]
    variables = {each["name"] for each in shown["templating"]["list"]}

    assert rows == [
        "Overview", "Hits", "Latency", "Memory and disk", "Namespaces", "Cluster and moves",
        "Errors",
    ]  # fmt: skip
    assert {"datasource", "cluster", "node"} <= variables


def test_panels_have_places_of_their_own():
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in dashboard()["panels"]]
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells

    assert len(set(ids)) == len(ids)


def test_every_alert_is_told_and_has_its_line_in_the_guide():
    text, guide = RULES.read_text(encoding="utf-8"), GUIDE.read_text(encoding="utf-8")
    blocks = re.split(r"- alert: ", text)[1:]

    assert len(blocks) == len(set(alerts())) >= 15
    for block in blocks:
        name = block.split()[0]
        assert all(f"{word}:" in block for word in ("severity", "summary", "description")), name
        assert f"runbook_url: docs/guides/monitoring.md#{name.lower()}" in block
        assert f'<a id="{name.lower()}"></a>' in guide, name


def test_promtool_accepts_the_rules():
    said = promtool.run("check", "rules", str(RULES))

    assert f"{len(alerts()) + len(recorded())} rules found" in said


def test_alerts_fire_when_they_should_and_no_sooner():
    assert "SUCCESS" in promtool.run("test", "rules", str(RULE_TESTS))


def test_promtool_accepts_the_page_of_a_node(pages):
    for page in pages:
        promtool.run("check", "metrics", stdin=page.text)


# What explains other metrics, once these have said that there is something to explain.
DETAILS = {
    "gd2fs_numa_arena_bytes", "gd2fs_numa_taken_bytes",
    "gd2fs_cluster_nodes", "gd2fs_connections_accepted", "gd2fs_connections_refused",
    "gd2fs_departed_bytes", "gd2fs_strangers",
    "gd2fs_evicted_pieces", "gd2fs_expired_pieces", "gd2fs_leased_bytes", "gd2fs_leases",
    "gd2fs_moved_pieces", "gd2fs_moves_left", "gd2fs_nvme_cold_pieces",
    "gd2fs_nvme_corrupt_headers", "gd2fs_nvme_loaded_pieces", "gd2fs_nvme_records",
    "gd2fs_nvme_recovered_bytes", "gd2fs_nvme_recovered_pieces", "gd2fs_nvme_size_bytes",
    "gd2fs_nvme_torn_records", "gd2fs_nvme_written_pieces", "gd2fs_record_log_bytes",
    "gd2fs_requests", "gd2fs_spliced_bytes", "gd2fs_tls_reload_faults", "gd2fs_tls_reloads",
    "gd2fs_views",
}  # fmt: skip
