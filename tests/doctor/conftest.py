"""A machine that is set up well, with a certificate of its own."""

from __future__ import annotations

import pytest
from doctor.made_certificates import MadeCertificates, make_certificates
from doctor.well_machine import WellMachine


@pytest.fixture(scope="session")
def certificates(tmp_path_factory) -> MadeCertificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def machine(tmp_path, certificates) -> WellMachine:
    well = WellMachine(tmp_path / "root")
    certificates.install(well, "node")
    return well
