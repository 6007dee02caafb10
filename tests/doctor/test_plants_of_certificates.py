"""What is wrong with real certificates is found, in the words of OpenSSL."""

from __future__ import annotations

import pytest

from gd2fs.doctor import Severity, examine


def findings_of(machine, check):
    return [each for each in examine(machine.subject()) if each.check == check]


def faults_of(machine):
    findings = examine(machine.subject())
    return {each.check: each for each in findings if each.severity is not Severity.OK}


@pytest.mark.parametrize(
    ("name", "check", "severity", "words"),
    [
        ("expired", "certificate", Severity.ERROR, "expired"),
        ("soon", "certificate", Severity.WARNING, "expires in 7 days"),
        ("other", "names in the certificate", Severity.ERROR, "does not name 10.0.0.1"),
    ],
)
def test_a_certificate_that_is_wrong_is_found(machine, certificates, name, check, severity, words):
    certificates.install(machine, name)

    [finding] = faults_of(machine).values()

    assert (finding.check, finding.severity) == (check, severity)
    assert words in finding.found


def test_a_certificate_that_nobody_vouches_for_is_found(machine, certificates):
    certificates.install(machine, "node", ca="stranger")

    [finding] = faults_of(machine).values()

    assert finding.severity is Severity.ERROR
    assert "does not vouch" in finding.found


def test_a_key_of_another_certificate_is_found(machine, certificates):
    other = (certificates.folder / "other.key").read_text()
    machine.write("/etc/gd2fs/node.key", other, mode=0o600)

    [finding] = faults_of(machine).values()

    assert finding.check == "certificate"
    assert "mismatch" in finding.found


def test_a_key_that_others_can_read_is_found(machine, certificates):
    certificates.install(machine, "node", mode=0o644)

    [finding] = faults_of(machine).values()

    assert (finding.check, finding.severity) == ("TLS key", Severity.ERROR)
    assert "0644" in finding.found


def test_every_address_that_others_connect_to_is_looked_for(machine):
    machine.config["advertise"] = ("10.0.0.1:7527", "node:7527")

    found = [each.found for each in findings_of(machine, "names in the certificate")]

    assert found == ["it names 10.0.0.1", "it names node"]


def test_no_secret_is_ever_shown(machine):
    secret = "s3cr3t" + "x" * 40
    machine.write("/etc/gd2fs/token", f"a.{secret}\n{secret}\nb.{secret[:9]}\n", mode=0o644)
    machine.variables["GD2FS_TOKEN"] = f"env.{secret}"

    told = str([each.as_dict() for each in examine(machine.subject())])

    assert "s3cr3t" not in told
