"""What only etcd has: several endpoints, users with passwords, certificates of both sides."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from membership.members import LEASE_S
from membership.proxy import Proxy
from membership.recorded_core import RecordedCore, wait_until

from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.membership.etcd import EtcdProvider
from gd2fs.membership.etcd_keys import EtcdKeys
from gd2fs.membership.etcd_link import EtcdLink, EtcdSettings
from gd2fs.membership.leased import Place
from gd2fs.testing.etcd import EtcdCertificates, EtcdServer

pytestmark = pytest.mark.slow


class Joined:
    """Members of a cluster in an etcd that is reached so. A context manager that ends them."""

    def __init__(self, settings: EtcdSettings) -> None:
        self._settings = settings
        self._started: list[EtcdProvider] = []

    def provider(self, name: str) -> EtcdProvider:
        boot = len(self._started) + 1
        place = Place("c", name, ("127.0.0.1:7000",), boot, lease_s=LEASE_S, ramp_s=0.0)
        self._started.append(EtcdProvider(self._settings, place))
        return self._started[-1]

    def start(self, name: str) -> RecordedCore:
        provider, core = self.provider(name), RecordedCore()
        provider.first_map()
        provider.join(core, lambda: 0)
        return core

    def __enter__(self) -> Joined:
        return self

    def __exit__(self, *_: object) -> None:
        for provider in self._started:
            provider.leave()


def keys_of(settings: EtcdSettings) -> EtcdKeys:
    return EtcdKeys(EtcdLink(settings, 2.0), "c")


def test_the_next_endpoint_is_asked(own_etcd):
    with Joined(EtcdSettings(("http://127.0.0.1:1", own_etcd.endpoint))) as group:
        assert group.start("a").is_leased


def test_another_endpoint_takes_over_at_once(own_etcd):
    with (
        Proxy(own_etcd.port) as first,
        Proxy(own_etcd.port) as second,
        Joined(EtcdSettings((first.endpoint, second.endpoint))) as group,
    ):
        core = group.start("a")

        first.cut()
        before = core.until_ms
        wait_until(lambda: core.until_ms > before + 1000, "keep-alives")
        first.mend()
        second.cut()
        before = core.until_ms
        wait_until(lambda: core.until_ms > before + 1000, "keep-alives")

        assert len({told.states["a"] for told in core.maps}) == 1


def test_an_etcd_that_is_not_there_is_said_in_a_line(tmp_path):
    link = EtcdLink(EtcdSettings(("http://127.0.0.1:1",)), 1.0)

    with pytest.raises(Unavailable, match=r"etcd at .* does not answer: Connection refused$"):
        EtcdKeys(link, "c").snapshot()


# ---- who may ask etcd ----------------------------------------------------------------------------


@pytest.fixture
def guarded_etcd(own_etcd):
    """One that wants a user and a password."""
    link = EtcdLink(EtcdSettings((own_etcd.endpoint,)), 2.0)
    link.call("/auth/user/add", {"name": "root", "password": "geheim"})
    link.call("/auth/role/add", {"name": "root"})
    link.call("/auth/user/grant", {"user": "root", "role": "root"})
    link.call("/auth/enable", {})
    return own_etcd


def test_a_user_with_a_password_is_let_in_also_after_a_restart(guarded_etcd):
    settings = EtcdSettings((guarded_etcd.endpoint,), user="root", password="geheim")
    assert "geheim" not in repr(settings)
    with Joined(settings) as group:
        core = group.start("a")

        guarded_etcd.kill(signal.SIGTERM)  # its tokens go with it
        guarded_etcd.start()
        before = core.until_ms
        wait_until(lambda: core.until_ms > before, "a keep-alive")
        other = group.start("b")

        assert core.wait_for(lambda told: told.epoch == other.last.epoch)


@pytest.mark.parametrize("who", [{}, {"user": "root", "password": "wrong"}])
def test_others_are_refused_in_a_line(guarded_etcd, who):
    provider = Joined(EtcdSettings((guarded_etcd.endpoint,), **who)).provider("a")

    with pytest.raises(InvalidRequest, match=r"refuses: ") as refused:
        provider.first_map()

    assert "GD2FS_ETCD_PASSWORD" in refused.value.hint


def openssl(*words: str, directory: Path) -> None:
    subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> EtcdCertificates:
    """An authority, and what it vouches for."""
    at = tmp_path_factory.mktemp("certificates")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
            "-subj", "/CN=authority", directory=at)  # fmt: skip
    for name in ("server", "client"):
        openssl("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr",
                "-subj", f"/CN={name}", directory=at)  # fmt: skip
        (at / "names").write_text(
            "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"
        )
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-out", f"{name}.pem", "-days", "2", "-extfile", "names",
                directory=at)  # fmt: skip
    return EtcdCertificates(
        *(
            str(at / name)
            for name in ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")
        )
    )


def test_tls_with_certificates_of_both_sides(tmp_path, certificates):
    with EtcdServer(str(tmp_path), certificates) as server:
        shown = {"cert": certificates.client, "key": certificates.client_key}
        with Joined(EtcdSettings((server.endpoint,), ca=certificates.ca, **shown)) as group:
            core = group.start("a")
            before = core.until_ms
            wait_until(lambda: core.until_ms > before, "a keep-alive")

            for less in ({"ca": certificates.ca}, shown):
                with pytest.raises((Unavailable, InvalidRequest)):
                    keys_of(EtcdSettings((server.endpoint,), **less)).snapshot()
