"""The Dockerfile as far as it can be read: no daemon is here to build it."""

from __future__ import annotations

import json
import re
import tomllib

from deploy.rendered import ROOT, render

LINES = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8")).splitlines()
STEPS = [line.split(maxsplit=1) for line in LINES if line.strip() and not line.startswith("#")]
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


def steps(name: str) -> list[str]:
    return [rest for word, rest in STEPS if word == name]


def test_every_step_is_an_instruction():
    known = {"ARG", "FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "EXPOSE"}

    assert {word for word, _ in STEPS} == known | {"HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert STEPS[0][0] == "ARG" and STEPS[1][0] == "FROM"


def test_the_compiler_stays_in_the_first_stage():
    second = LINES[max(at for at, line in enumerate(LINES) if line.startswith("FROM")) :]

    assert len(steps("FROM")) == 2
    assert not any("g++" in line or line.startswith("COPY") for line in second)


def test_it_runs_as_the_user_that_the_chart_says():
    context = render("gd2fs").one("StatefulSet")["spec"]["template"]["spec"]["securityContext"]

    assert steps("USER") == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    assert f"--uid {context['runAsUser']}" in " ".join(steps("RUN"))


def test_signals_reach_the_node():
    [entry], [command] = steps("ENTRYPOINT"), steps("CMD")

    assert json.loads(entry) == ["tini", "--", "gd2fs"]
    assert isinstance(json.loads(command), list)


def test_it_is_asked_where_the_chart_has_its_admin_port():
    [check] = steps("HEALTHCHECK")
    ports = {each["name"]: each["containerPort"] for each in render("gd2fs").container()["ports"]}
    [*_, code] = json.loads(check.partition("CMD ")[2])

    assert f"127.0.0.1:{ports['admin']}/healthz" in code
    compile(code, "HEALTHCHECK", "exec")
    assert steps("EXPOSE") == [f"{ports['gd2fs']} {ports['admin']}"]


def test_it_installs_extras_that_there_are():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [extras] = re.findall(r'"\$\{wheel\}\[(.*?)\]"', " ".join(steps("RUN")))

    assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_what_the_wheel_is_made_of_is_let_in_and_nothing_else():
    let_in = {line[1:] for line in IGNORED if line.startswith("!")}

    assert IGNORED[1] == "*"
    assert all((ROOT / each).exists() for each in let_in)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {project["readme"], "LICENSE", "CMakeLists.txt", "pyproject.toml", "src"} <= let_in
    cmake = "".join(path.read_text() for path in (ROOT / "CMakeLists.txt", *ROOT.glob("cmake/*")))
    for folder in ("bindings", "cmake", "core", "include"):
        assert folder in let_in and folder in cmake
