"""Certificates: what a client says to those of this node, tried in memory by OpenSSL."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, note, ok, warning
from gd2fs.doctor.subject import Subject
from gd2fs.doctor.tokens import is_open, secret_file
from gd2fs.membership import host_of
from gd2fs.tls import SYSTEM

DAY_S = 86_400
SOON_DAYS = 30
TURNS_MAX = 8  # of a handshake; TLS 1.3 takes three
# What X509_verify_cert says; the numbers are part of OpenSSL's interface.
NOT_YET, EXPIRED = 9, 10
OTHER_NAME, OTHER_ADDRESS = 62, 64


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a client says. ``end_s``: Unix time at which the certificate expires; 0: not known."""

    code: int = 0
    fault: str = ""
    end_s: float = 0.0


def verdict_on(cert: str, key: str, ca: str, host: str = "") -> Verdict:
    """Of a client that trusts ``ca`` and connects to ``host``; paths of PEM files.

    Without ``ca`` the certificate itself is trusted; without ``host`` any name is right.
    """
    try:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(cert, key, password=lambda: b"")
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = bool(host)
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if ca == SYSTEM:
            client.load_default_certs()
        else:
            client.load_verify_locations(ca or cert)
        return _handshake(client, server, host)
    except ssl.SSLCertVerificationError as cause:
        return Verdict(cause.verify_code, cause.verify_message)
    except ssl.SSLError as cause:
        return Verdict(-1, (cause.reason or str(cause)).replace("_", " ").lower())
    except OSError as cause:
        return Verdict(-1, f"{cause.strerror or cause}: {cause.filename or cert}".lower())


def _handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> Verdict:
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(down, up, server_hostname=host or None)
    theirs = server.wrap_bio(up, down, server_side=True)
    for _ in range(TURNS_MAX):
        if all([_turn(ours), _turn(theirs)]):
            break
    shown = ours.getpeercert() or {}
    return Verdict(end_s=ssl.cert_time_to_seconds(str(shown["notAfter"])))


def _turn(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
        return True
    except ssl.SSLWantReadError:
        return False


@check("TLS", "without it, whoever is on the way reads what users wrote, and tokens are not enough")
def encrypted(subject: Subject) -> Iterator[Finding]:
    """On where other machines reach the node."""
    cert, key = subject.setting("tls_cert"), subject.setting("tls_key")
    if bool(cert) != bool(key):
        yield error("one of `tls_cert` and `tls_key` is given", "give both, or neither")
    elif cert:
        yield ok("on")
    elif is_open(subject):
        yield note(
            f"off on {' and '.join(is_open(subject))}: right for a network of your own alone",
            '`tls_cert = "FILE"`, `tls_key = "FILE"`, and `--tls-ca FILE` for clients',
        )


@check("TLS key", "whoever can read it can pass for this node")
def private_key(subject: Subject) -> Iterator[Finding]:
    """Of its user alone."""
    if subject.setting("tls_key"):
        yield from secret_file(subject.machine, subject.setting("tls_key"), "the key")


@check("certificate", "a client that does not accept it does not connect")
def certificate(subject: Subject) -> Iterator[Finding]:
    """Valid for some time, made for this key, and vouched for by whom others trust."""
    cert, key = subject.setting("tls_cert"), subject.setting("tls_key")
    if not cert or not key:
        return
    cert_path, key_path = (str(subject.machine.path(each)) for each in (cert, key))
    ca = subject.setting("tls_ca")
    own = verdict_on(cert_path, key_path, "")
    if own.fault:
        yield error(f"{cert}: {own.fault}", _renewal(own.code))
        return
    days = (own.end_s - subject.machine.clock()) / DAY_S
    text = f"{cert} expires in {days:.0f} days"
    yield ok(text) if days >= SOON_DAYS else warning(text, _renewal(EXPIRED))
    trusted = verdict_on(
        cert_path, key_path, str(subject.machine.path(ca)) if ca and ca != SYSTEM else ca
    )
    if trusted.fault:
        fix = f"have it signed by whom {ca} is of, or give that one's certificate as `tls_ca`"
        yield error(f"{ca} does not vouch for {cert}: {trusted.fault}", fix)


@check("names in the certificate", "a client compares them with the address that it connects to")
def names(subject: Subject) -> Iterator[Finding]:
    """Every address of the node."""
    cert, key = subject.setting("tls_cert"), subject.setting("tls_key")
    if not cert or not key:
        return
    cert_path, key_path = (str(subject.machine.path(each)) for each in (cert, key))
    where = subject.wanted.advertise or subject.wanted.listen
    hosts = dict.fromkeys(map(host_of, where))
    for host in hosts if "0.0.0.0" not in hosts and "::" not in hosts else ():
        verdict = verdict_on(cert_path, key_path, "", host)
        if verdict.code in (OTHER_NAME, OTHER_ADDRESS):
            yield error(
                f"{cert} does not name {host}",
                f"make one with `subjectAltName = IP:{host}` (`DNS:` for a name)",
            )
        elif not verdict.fault:
            yield ok(f"it names {host}")


def _renewal(code: int) -> str:
    if code == NOT_YET:
        return "set this machine's clock right, or wait"
    if code == EXPIRED:
        return "have a new one made and put it in the same place; a node reads it again by itself"
    return "name a PEM file with the certificate and those that vouch for it, and its own key"
