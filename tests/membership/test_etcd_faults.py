"""What members do when etcd goes away, forgets, or is changed by somebody."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from membership.conftest import Members
from membership.proxy import Proxy
from membership.recorded_core import RecordedCore, wait_until
from membership.test_etcd_join import ACTIVE, BY_LEASE, BY_REMOVAL, GONE

from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.membership.etcd_keys import EtcdKeys
from gd2fs.membership.etcd_link import EtcdLink, EtcdSettings, encoded
from gd2fs.membership.state import NODES
from gd2fs.testing.etcd import EtcdCertificates, EtcdServer

pytestmark = pytest.mark.slow


def keys_of(members: Members, settings: EtcdSettings | None = None) -> EtcdKeys:
    return EtcdKeys(EtcdLink(settings or members.settings, 2.0), members.cluster)


def delete(keys: EtcdKeys, name: str) -> None:
    """As an operator might, with etcdctl."""
    keys.link.call("/kv/deleterange", {"key": encoded(keys.prefix + NODES + name)})


# ---- etcd goes away ------------------------------------------------------------------------------


def test_a_restart_of_etcd_is_no_event(own_etcd, own_members):
    provider, core = own_members.start("a")
    told = len(core.maps)

    own_etcd.kill(signal.SIGTERM)
    own_etcd.start()
    before = core.until_ms
    wait_until(lambda: core.until_ms > before, "a keep-alive")

    assert len(core.maps) == told and provider.why_not_ready() == ""


def test_without_etcd_a_member_goes_on_until_its_lease_ends_and_returns_with_it(
    own_etcd, own_members
):
    provider, core = own_members.start("a")
    own_etcd.kill()
    assert core.is_leased

    wait_until(lambda: not core.is_leased, "the end of the lease")
    assert provider.why_not_ready().startswith("fenced: no keep-alive counts; etcd at http://")
    own_etcd.start()

    wait_until(lambda: core.is_leased, "another lease")
    assert provider.why_not_ready() == ""


def test_a_member_that_was_cut_off_joins_again_with_the_same_boot(members, shared_etcd):
    _, stays = members.start("a")
    with Proxy(shared_etcd.port) as proxy:
        apart = Members(EtcdSettings((proxy.endpoint,)))
        apart.cluster = members.cluster
        _, core = apart.start("b")
        boot = boot_of(core, "b")
        proxy.cut()

        left = stays.wait_for(lambda told: told.states.get("b") == (GONE, BY_LEASE))
        assert not core.is_leased
        proxy.mend()

        back = stays.wait_for(
            lambda told: told.epoch > left.epoch and told.states.get("b") == (ACTIVE, 0)
        )
        core.wait_for(lambda told: told.epoch == back.epoch)
        wait_until(lambda: core.is_leased, "another lease")
        assert boot_of(core, "b") == boot
        assert (GONE, BY_LEASE) in [told.states.get("b") for told in core.maps]
        assert not any(told.is_gap for told in core.maps)
        apart.end()


def boot_of(core: RecordedCore, name: str) -> int:
    return next(node[3] for node in core.last.nodes if node[0] == name)


def test_events_that_etcd_has_forgotten_are_a_gap(members, shared_etcd):
    with Proxy(shared_etcd.port) as proxy:
        apart = Members(EtcdSettings((proxy.endpoint,)))
        apart.cluster = members.cluster
        _, core = apart.start("a", lease_s=20)  # it keeps its lease all the time
        proxy.cut()
        _, other = members.start("b")
        members.start("c")
        state = keys_of(members).snapshot()
        keys_of(members).link.call("/kv/compaction", {"revision": state.revision})
        proxy.mend()

        gap = core.wait_for(lambda told: told.is_gap)

        assert gap.states == {name: (ACTIVE, 0) for name in "abc"}
        assert other.wait_for(lambda told: told.epoch == gap.epoch)  # an epoch for all
        members.start("d")
        core.wait_for(lambda told: not told.is_gap and "d" in told.states)
        apart.end()


def test_an_etcd_that_was_emptied_is_not_believed(own_etcd, own_members, tmp_path):
    provider, core = own_members.start("a")
    for _ in range(3):
        keys = keys_of(own_members)
        keys.put_settings(
            keys.snapshot().settings, expected_revision=keys.snapshot().revisions["settings"]
        )
    last = keys_of(own_members).snapshot().revision
    core.wait_for(lambda told: told.epoch == last)

    own_etcd.kill()
    shutil.rmtree(tmp_path / "etcd")
    own_etcd.start()

    assert provider.is_over.wait(20) and "lost its history" in provider.fault
    assert core.until_ms == 0


def test_the_next_endpoint_is_asked(own_etcd, own_members):
    endpoints = ("http://127.0.0.1:1", own_etcd.endpoint)
    own_members.settings = EtcdSettings(endpoints)

    assert own_members.start("a")[1].is_leased


def test_another_endpoint_takes_over_at_once(members, shared_etcd):
    with Proxy(shared_etcd.port) as first, Proxy(shared_etcd.port) as second:
        apart = Members(EtcdSettings((first.endpoint, second.endpoint)))
        _, core = apart.start("a")

        first.cut()
        before = core.until_ms
        wait_until(lambda: core.until_ms > before + 1000, "keep-alives")
        first.mend()
        second.cut()
        before = core.until_ms
        wait_until(lambda: core.until_ms > before + 1000, "keep-alives")

        assert len({told.states["a"] for told in core.maps}) == 1
        apart.end()


def test_an_etcd_that_is_not_there_is_said_in_a_line(tmp_path):
    link = EtcdLink(EtcdSettings(("http://127.0.0.1:1",)), 1.0)

    with pytest.raises(Unavailable, match=r"etcd at .* does not answer: Connection refused$"):
        EtcdKeys(link, "c").snapshot()


# ---- somebody changes it -------------------------------------------------------------------------


def test_a_member_that_an_operator_took_away_returns(members):
    _, stays = members.start("a")
    _, core = members.start("b")

    delete(keys_of(members), "b")

    left = stays.wait_for(lambda told: told.states.get("b") == (GONE, BY_REMOVAL))
    stays.wait_for(lambda told: told.epoch > left.epoch and told.states.get("b") == (ACTIVE, 0))
    assert core.wait_for(lambda told: told.epoch == left.epoch)


def test_what_nobody_can_read_is_no_node(members):
    _, core = members.start("a")
    keys = keys_of(members)

    put = {"key": encoded(keys.prefix + NODES + "junk"), "value": encoded("no json")}
    keys.link.call("/kv/put", put)

    before = core.until_ms
    wait_until(lambda: core.until_ms > before + 1000, "keep-alives")
    assert core.last.states == {"a": (ACTIVE, 0)}


def test_broken_settings_keep_a_newcomer_out(members):
    keys = keys_of(members)
    put = {"key": encoded(keys.prefix + "settings"), "value": encoded("no json")}
    keys.link.call("/kv/put", put)

    with pytest.raises(InvalidRequest, match="settings of cluster"):
        members.provider("a").first_map()


def test_a_member_whose_name_another_process_took_ends(members, shared_etcd):
    with Proxy(shared_etcd.port) as proxy:
        apart = Members(EtcdSettings((proxy.endpoint,)))
        apart.cluster = members.cluster
        provider, core = apart.start("a")
        proxy.cut()
        members.start("a")  # waits for the lease to end
        proxy.mend()

        assert provider.is_over.wait(20) and "another process" in provider.fault
        assert core.until_ms == 0
        apart.end()


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
    group = Members(settings)
    _, core = group.start("a")

    guarded_etcd.kill(signal.SIGTERM)  # its tokens go with it
    guarded_etcd.start()
    before = core.until_ms
    wait_until(lambda: core.until_ms > before, "a keep-alive")
    _, other = group.start("b")

    assert core.wait_for(lambda told: told.epoch == other.last.epoch)
    group.end()


@pytest.mark.parametrize("who", [{}, {"user": "root", "password": "wrong"}])
def test_others_are_refused_in_a_line(guarded_etcd, who):
    group = Members(EtcdSettings((guarded_etcd.endpoint,), **who))

    with pytest.raises(InvalidRequest, match=r"refuses: ") as refused:
        group.provider("a").first_map()

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
        group = Members(EtcdSettings((server.endpoint,), ca=certificates.ca, **shown))
        _, core = group.start("a")
        before = core.until_ms
        wait_until(lambda: core.until_ms > before, "a keep-alive")

        for less in ({"ca": certificates.ca}, shown):
            with pytest.raises((Unavailable, InvalidRequest)):
                keys_of(group, EtcdSettings((server.endpoint,), **less)).snapshot()
        group.end()
