"""Rendered: what real Helm makes of a chart, as objects."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from helm_python import Chart, HelmError, lint
from kubernetes_validate import utils as schemas

ROOT = Path(__file__).resolve().parents[2]
CHARTS = ROOT / "deploy/helm"
RELEASE, NAMESPACE = "demo", "storage"
WARNING = 2  # Helm's severities from here on are no advice

# One version's definitions are megabytes, and read anew for each object otherwise.
schemas.schema_contents = functools.cache(schemas.schema_contents)

Object = dict[str, Any]


@dataclass(frozen=True)
class Rendering:
    """The objects of one release, and what is said to who installs it."""

    objects: list[Object]
    notes: str

    def one(self, kind: str, name: str = "") -> Object:
        """The only one of that kind, and name where there are several."""
        found = [each for each in self.objects if each["kind"] == kind]
        found = [each for each in found if not name or each["metadata"]["name"] == name]
        assert len(found) == 1, f"{len(found)} objects {kind} {name}"
        return found[0]

    def kinds(self) -> set[str]:
        return {each["kind"] for each in self.objects}

    def container(self, kind: str = "StatefulSet", name: str = "") -> Object:
        """The one container of a workload."""
        [container] = self.one(kind, name)["spec"]["template"]["spec"]["containers"]
        return container


def render(chart: str, values: Object | None = None) -> Rendering:
    """Render ``chart`` with ``values`` over its defaults, checked by its schema."""
    values = values or {}
    with Chart.load(CHARTS / chart) as loaded:
        loaded.validate_schema(values)
        files = loaded.render(values, name=RELEASE, namespace=NAMESPACE)
    objects, notes = [], ""
    for path, text in files.items():
        if path.endswith(".txt"):
            notes = text
        else:
            objects += [each for each in yaml.safe_load_all(text) if each]
    return Rendering(objects, notes)


def check(each: Object, version: str) -> None:
    """Raise what that version of Kubernetes has against an object."""
    schemas.validate(each, version, strict=True)


def refusal(chart: str, values: Object) -> str:
    """What the schema of ``chart`` says to ``values``; empty when they may be."""
    try:
        with Chart.load(CHARTS / chart) as loaded:
            loaded.validate_schema(values)
    except HelmError as error:
        return str(error)
    return ""


def complaints(chart: str, values: Object) -> list[str]:
    """What `helm lint --strict` has against it, but for advice."""
    report = lint(CHARTS / chart, values, strict=True)
    said = [each for each in report["messages"] if each["severity"] >= WARNING]
    return [json.dumps(each) for each in said] + report["errors"]
