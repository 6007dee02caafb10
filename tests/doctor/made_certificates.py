"""Certificates for tests, made by OpenSSL: one is right, the others are wrong in one way."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from doctor.well_machine import HOST, WellMachine

NAMES = f"subjectAltName=IP:{HOST},IP:10.0.1.1,DNS:node"
MADE = {  # days that it holds, and for whom
    "node": (365, NAMES),
    "soon": (7, NAMES),
    "expired": (0, NAMES),
    "other": (365, "subjectAltName=IP:10.9.9.9"),
}


@dataclass(frozen=True)
class MadeCertificates:
    """`NAME.pem` and `NAME.key` of each; `ca.pem` vouches for them, `stranger.pem` does not."""

    folder: Path

    def install(
        self, machine: WellMachine, name: str, *, mode: int = 0o600, ca: str = "ca"
    ) -> None:
        """Have the machine's configuration name this one."""
        for kind, there in (("pem", "node.pem"), ("key", "node.key")):
            text = (self.folder / f"{name}.{kind}").read_text()
            machine.write(f"/etc/gd2fs/{there}", text, mode=mode)
        machine.write("/etc/gd2fs/ca.pem", (self.folder / f"{ca}.pem").read_text())
        machine.options |= {
            "tls_cert": "/etc/gd2fs/node.pem",
            "tls_key": "/etc/gd2fs/node.key",
            "tls_ca": "/etc/gd2fs/ca.pem",
        }


def make_certificates(folder: Path) -> MadeCertificates:
    """Make all of them."""
    for name in ("ca", "stranger"):
        _run(folder, *_request(name), "-x509", "-days", "3650", "-out", f"{name}.pem")
    for name, (days, names) in MADE.items():
        _run(folder, *_request(name), "-out", f"{name}.csr")
        (folder / f"{name}.ext").write_text(names)
        signer = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", str(days))
        files = ("-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", f"{name}.ext")
        _run(folder, "x509", "-req", *files, *signer)
    return MadeCertificates(folder)


def _request(name: str) -> tuple[str, ...]:
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    return ("req", *key, "-keyout", f"{name}.key", "-subj", f"/CN={name}")


def _run(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
