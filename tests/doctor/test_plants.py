"""Every check finds what is planted for it, and nothing else is said."""

from __future__ import annotations

import json

import pytest
from doctor.plants import ELSEWHERE, PLANTS, WHERE

from gd2fs.doctor import Severity, all_checks, examine


def test_a_machine_that_is_set_up_well_has_no_finding(machine):
    findings = examine(machine.subject())

    assert [each for each in findings if each.severity is not Severity.OK] == []
    assert len(findings) > 60


@pytest.mark.parametrize("name", ["sglang", "vllm"])
def test_an_engine_that_was_started_as_the_guide_says_has_no_finding(machine, name):
    machine.run_engine(name)

    findings = examine(machine.subject())

    assert [each for each in findings if each.severity is not Severity.OK] == []


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_what_is_planted_is_found(machine, plant):
    plant.do(machine)

    findings = [each for each in examine(machine.subject()) if each.severity is not Severity.OK]

    own = [each for each in findings if each.check == plant.check]
    assert max((each.severity for each in own), default=None) == plant.severity, findings
    assert any(plant.words in each.found for each in own)
    assert {each.check for each in findings} <= {plant.check, *plant.also}
    assert all(each.fix and each.why and each.group for each in findings)


def test_every_check_has_a_plant():
    names = [check.name for _, check in all_checks()]

    assert len(set(names)) == len(names)
    assert set(names) == {plant.check for plant in PLANTS} | ELSEWHERE


def test_findings_are_json(machine):
    machine.write(WHERE["free"], "0")

    told = [each.as_dict() for each in examine(machine.subject())]

    assert json.loads(json.dumps(told)) == told
